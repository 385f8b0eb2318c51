/* SPDX-License-Identifier: Apache-2.0
 * search_path.c: loads the plugin files of folders. A user with write access to
 * a folder of a search path, or to one above it, can run code in this process.
 * So folders and files must belong to root or the user, and others must not be
 * able to write them (file_trust.c).
 *
 * A plugin may need an extension or a plugin of another file of the search, in
 * any order of names. Its init requests extensions. So a plugin without its
 * extension is undone, and loaded after the others.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "file_trust.h"
#include "loading.h"

/* State of a search. The first refusal decides the result; `text` keeps its
 * message while the search continues. */
typedef struct search {
  tn__registry *registry;
  tn_code first;
  bool provided;  /* the last round loaded a plugin that provides extensions */
  bool loaded;    /* the last round loaded a plugin */
  bool dependent; /* a file waits for a plugin that it requires */
  tn__vec later;  /* char *, owned: files that wait for another plugin */
  char text[TN__ERROR_MAX];
} search;

static void record_refusal(search *s, tn_code rc) {
  const char *text = tn_error_text();
  tn__log(s->registry->env, TN__LOG_LOADING, TN_LOG_WARNING, "%s", text);
  if (s->first) return;
  s->first = rc;
  size_t n = strlen(text);
  if (n >= sizeof s->text) n = sizeof s->text - 1;
  memcpy(s->text, text, n);
  s->text[n] = 0;
}

static tn_code check_folder(const search *s, const char *folder) {
  const tn__env *env = s->registry->env;
  char real[PATH_MAX];
  struct stat st;
  if (folder[0] != '/')
    return tn__fail(TN_INVALID,
                    "the search path holds \"%s\", which is not an absolute "
                    "folder",
                    folder);
  if (env->os->stat(folder, &st))
    return tn__fail(errno == ENOENT ? TN_NOT_FOUND : TN_IO,
                    "%s: this folder of the search path cannot be examined: %s",
                    folder, strerror(errno));
  if (!S_ISDIR(st.st_mode))
    return tn__fail(TN_INVALID, "%s: is in the search path but is not a folder",
                    folder);
  if (s->registry->trust & TN_TRUST_ANY_FOLDER) return TN_OK;
  return tn__trust_resolve(env, folder, real);
}

static bool is_plugin_name(const char *name) {
  size_t n = strlen(name);
  return name[0] != '.' && n > 3 && !strcmp(name + n - 3, ".so");
}

static char *join_path(const tn__env *env, const char *folder,
                       const char *name) {
  size_t n = strlen(folder), m = strlen(name);
  char *path = tn__alloc(env, n + m + 2);
  if (!path) return NULL;
  memcpy(path, folder, n);
  path[n] = '/';
  memcpy(path + n + 1, name, m + 1);
  return path;
}

static tn_code add_file(const tn__env *env, const char *folder,
                        const char *name, tn__vec *out) {
  char *path = join_path(env, folder, name);
  if (!path) return tn__fail_memory(strlen(name), "a plugin's file name");
  tn_code rc = tn__vec_push(env, out, path);
  if (rc) tn__free(env, path);
  return rc;
}

static tn_code list_files(const tn__env *env, const char *folder,
                          tn__vec *out) {
  DIR *dir = opendir(folder);
  tn_code rc = TN_OK;
  if (!dir)
    return tn__fail(TN_IO, "%s: this folder cannot be read: %s", folder,
                    strerror(errno));
  for (const struct dirent *entry; !rc && (entry = readdir(dir));)
    if (is_plugin_name(entry->d_name))
      rc = add_file(env, folder, entry->d_name, out);
  closedir(dir);
  return rc;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tn_code load_one(search *s, const char *path, bool last) {
  const tn__env *env = s->registry->env;
  char *again = last ? NULL : tn__strdup(env, path);
  tn__load_attempt attempt = {.last = !again};
  if (again && tn__vec_reserve(env, &s->later, 1)) attempt.last = true;
  tn_code rc = tn__plugin_try_load(s->registry, path, &attempt);
  s->provided |= attempt.provided;
  s->loaded |= attempt.loaded;
  s->dependent |= attempt.dependent;
  if (attempt.later)
    tn__log(env, TN__LOG_LOADING, TN_LOG_DEBUG, "%s waits for others", path);
  if (attempt.later)
    tn__vec_insert_reserved(&s->later, s->later.n, again);
  else
    tn__free(env, again);
  return rc;
}

/* Loads files and frees their names; with `last`, loads them even if they lack
 * something. */
static void load_files(search *s, tn__vec *files, bool last) {
  for (size_t i = 0; i < files->n; ++i) {
    tn_code one = load_one(s, files->v[i], last);
    if (one) record_refusal(s, one);
    tn__free(s->registry->env, files->v[i]);
  }
  tn__vec_deinit(s->registry->env, files);
}

static void load_folder(search *s, const char *folder) {
  const tn__env *env = s->registry->env;
  tn__vec files = {0};
  tn_code rc = check_folder(s, folder);
  if (!rc) rc = list_files(env, folder, &files);
  if (rc) {
    record_refusal(s, rc);
    while (files.n) tn__free(env, files.v[--files.n]);
  }
  if (files.n) qsort(files.v, files.n, sizeof *files.v, compare_names);
  load_files(s, &files, false);
}

/* Tries the waiting files until a round loads no plugin that provides something
 * or that one of them requires. Then loads them as they are: the requested
 * extension may be optional. */
static void load_later(search *s) {
  while (s->later.n) {
    tn__vec files = s->later;
    const bool last = !s->provided && !(s->loaded && s->dependent);
    s->later = (tn__vec){0};
    s->provided = s->loaded = s->dependent = false;
    load_files(s, &files, last);
  }
  tn__vec_deinit(s->registry->env, &s->later);
}

tn_code tn__plugins_load_path(tn__registry *registry, const char *path) {
  const tn__env *env = registry->env;
  search s = {.registry = registry};
  char *folders = tn__strdup(env, path);
  if (!folders) return tn__fail_memory(strlen(path) + 1, "a search path");
  for (char *folder = folders, *next; folder; folder = next) {
    next = strchr(folder, ':');
    if (next) *next++ = 0;
    load_folder(&s, folder);
  }
  load_later(&s);
  tn__free(env, folders);
  return s.first ? tn__fail(s.first, "%s", s.text) : TN_OK;
}
