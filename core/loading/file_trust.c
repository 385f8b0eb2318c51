/* SPDX-License-Identifier: Apache-2.0
 * file_trust.c: decides whether another user may change a file of a search
 * path. The folders above the file count as well: a user with write access to
 * one of them can rename the next folder and put another one in its place.
 *
 * The walk begins at the root. Other users cannot exchange the entries of a
 * safe folder, so the next entry is examined without a race.
 */
#include "file_trust.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LINKS = 40 }; /* as Linux */

/* Whether the group is a private one: it has the number of its only user, as
 * useradd makes it. Not the group of root: its members are administrators, not
 * root. */
static bool is_private_group(const struct stat *st) {
  return st->st_gid == st->st_uid && st->st_uid != 0;
}

static tn_code check_owner(const char *path, const struct stat *st) {
  if (st->st_uid == 0 || st->st_uid == geteuid()) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: belongs to user %u, neither to root nor to the "
                  "current user (%u), so nothing is loaded from a search "
                  "path through it",
                  path, (unsigned)st->st_uid, (unsigned)geteuid());
}

tn_code tn__trust_check(const char *path, const struct stat *st) {
  if (st->st_mode & S_IWOTH)
    return tn__fail(TN_INVALID,
                    "%s: is writable by everybody, so nothing is loaded from a "
                    "search path through it; run chmod o-w on it",
                    path);
  if (st->st_mode & S_IWGRP && !is_private_group(st))
    return tn__fail(TN_INVALID,
                    "%s: is writable by its group (%u), so nothing is loaded "
                    "from a search path through it; run chmod g-w on it",
                    path, (unsigned)st->st_gid);
  return check_owner(path, st);
}

/* In a sticky folder such as /tmp, users cannot exchange the entries of
 * others. */
static tn_code check_parent(const char *path, const struct stat *st) {
  return st->st_mode & S_ISVTX ? check_owner(path, st)
                               : tn__trust_check(path, st);
}

/* -------------------------------------------------------------------- walk */

typedef struct walk {
  const tn__env *env;
  const char *path;    /* of the caller, for messages */
  char *done;          /* PATH_MAX bytes: examined, without links; "" for / */
  char rest[PATH_MAX]; /* not yet examined */
  unsigned links;
} walk;

static tn_code fail_too_long(const walk *w) {
  return tn__fail(TN_INVALID, "%s: this path has more than %d bytes", w->path,
                  PATH_MAX - 1);
}

static void drop_last(char *path) {
  char *slash = strrchr(path, '/');
  if (slash) *slash = 0;
}

/* Replaces a link by its target. */
static tn_code follow_link(walk *w, const struct stat *st) {
  char target[2 * PATH_MAX];
  TN__TRY(check_owner(w->done, st));
  const ssize_t n = w->env->os->readlink(w->done, target, PATH_MAX - 1);
  if (n < 0 || ++w->links > MOST_LINKS)
    return tn__fail(TN_IO, "%s: this link cannot be followed: %s", w->done,
                    strerror(n < 0 ? errno : ELOOP));
  const size_t more = strlen(w->rest);
  if ((size_t)n + more + 2 > PATH_MAX) return fail_too_long(w);
  target[n] = '/';
  memcpy(target + n + 1, w->rest, more + 1);
  memcpy(w->rest, target, (size_t)n + more + 2);
  drop_last(w->done);
  if (target[0] == '/') w->done[0] = 0;
  return TN_OK;
}

/* Examines `done` after one more name was added. */
static tn_code examine_entry(walk *w) {
  struct stat st;
  const char *name = w->done[0] ? w->done : "/";
  const bool is_parent = w->rest[strspn(w->rest, "/")] != 0;
  if (w->env->os->lstat(name, &st))
    return tn__fail(errno == ENOENT || errno == ENOTDIR ? TN_NOT_FOUND : TN_IO,
                    "%s: cannot be examined: %s", name, strerror(errno));
  if (S_ISLNK(st.st_mode)) return follow_link(w, &st);
  tn_code rc = is_parent ? check_parent(name, &st) : tn__trust_check(name, &st);
  return rc && strcmp(name, w->path)
             ? tn__fail_more(rc, " (it is on the way to %s)", w->path)
             : rc;
}

/* Moves the first name of `rest` to `done`. */
static tn_code examine_next(walk *w) {
  const char *name = w->rest + strspn(w->rest, "/");
  const size_t n = strcspn(name, "/"), had = strlen(w->done);
  const bool up = n == 2 && !memcmp(name, "..", 2);
  const bool stay = n == 0 || (n == 1 && *name == '.');
  if (had + n + 2 > PATH_MAX) return fail_too_long(w);
  if (!up && !stay) {
    w->done[had] = '/';
    memcpy(w->done + had + 1, name, n);
    w->done[had + 1 + n] = 0;
  }
  memmove(w->rest, name + n, strlen(name + n) + 1);
  if (up) drop_last(w->done);
  return up || stay ? TN_OK : examine_entry(w);
}

tn_code tn__trust_resolve(const tn__env *env, const char *path, char *real) {
  walk w = {.env = env, .path = path, .done = real};
  real[0] = 0;
  if (path[0] != '/')
    return tn__fail(TN_INVALID, "\"%s\" is not an absolute path", path);
  if (strlen(path) >= sizeof w.rest) return fail_too_long(&w);
  memcpy(w.rest, path, strlen(path) + 1);
  TN__TRY(examine_entry(&w));
  while (w.rest[0]) TN__TRY(examine_next(&w));
  if (!real[0]) memcpy(real, "/", 2);
  return TN_OK;
}
