/* SPDX-License-Identifier: Apache-2.0
 * sink.c: a file that is written under a temporary name in the same folder. It
 * gets its own name when it is complete and on the disk. Devices and FIFOs are
 * written to directly.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

enum { SINK_BUFFER = 1 << 16, TRIES = 1000, LINKS = 40, MODES = 0777 };

static tn_code sink_fail(const tn__sink *sink, const char *doing) {
  return tn__fail(TN_IO, "%s: %s: %s", sink->path, doing, strerror(errno));
}

static tn_code sink_fail_memory(size_t n) {
  return tn__fail_memory(n, "the name of a file");
}

/* ----------------------------------------------------------------- opening */

/* Length of the folder's part of a path, with the slash; 0: the current folder.
 */
static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Path of `name` in the folder of `path`; NULL without memory. */
static char *path_beside(const tn__env *env, const char *path,
                         const char *name) {
  tn__buf text;
  tn__buf_init(&text, env);
  if (name[0] != '/') tn__buf_bytes(&text, path, folder_length(path));
  tn__buf_bytes(&text, name, strlen(name));
  if (!text.failed) return text.s;
  tn__buf_deinit(&text);
  return NULL;
}

/* Replaces the target by the target of the link, if it is a link. */
static tn_code follow_link(tn__sink *sink, bool *followed) {
  char to[PATH_MAX];
  const ssize_t n = sink->env->os->readlink(sink->target, to, sizeof to - 1);
  *followed = n >= 0;
  if (n < 0) return TN_OK;
  to[n] = '\0';
  char *next = path_beside(sink->env, sink->target, to);
  if (!next) return sink_fail_memory((size_t)n);
  tn__free(sink->env, sink->target);
  sink->target = next;
  return TN_OK;
}

static tn_code find_target(tn__sink *sink) {
  bool followed = true;
  sink->target = tn__strdup(sink->env, sink->path);
  if (!sink->target) return sink_fail_memory(strlen(sink->path));
  for (int i = 0; followed; ++i) {
    errno = ELOOP;
    if (i > LINKS) return sink_fail(sink, "cannot be created");
    TN__TRY(follow_link(sink, &followed));
  }
  return TN_OK;
}

/* The name is short, so that it is valid wherever the file's own name is. It
 * contains the process id, so no other process uses the same name. */
static tn_code create_temporary(tn__sink *sink, mode_t mode) {
  for (unsigned i = 0; i < TRIES; ++i) {
    char name[64];
    (void)snprintf(name, sizeof name, ".tenon-%ld-%u", (long)getpid(), i);
    sink->temporary = path_beside(sink->env, sink->target, name);
    if (!sink->temporary) return sink_fail_memory(strlen(sink->target));
    sink->fd = sink->env->os->create(sink->temporary, mode);
    if (sink->fd >= 0) return TN_OK;
    tn__free(sink->env, sink->temporary);
    sink->temporary = NULL;
    if (errno != EEXIST) break;
  }
  return sink_fail(sink, "cannot be created");
}

/* `old`: the existing file, or NULL. A user without the right to read it can
 * never read the new one, not even while it is written. */
static tn_code create_replacement(tn__sink *sink, const struct stat *old) {
  const mode_t mode = old ? old->st_mode & MODES : 0666;
  TN__TRY(find_target(sink));
  TN__TRY(create_temporary(sink, mode));
  if (old && sink->env->os->fchmod(sink->fd, mode))
    return sink_fail(sink, "cannot be given the permissions of the old one");
  return TN_OK;
}

static tn_code sink_begin(tn__sink *sink) {
  struct stat old;
  const tn__os *os = sink->env->os;
  const bool exists = os->stat(sink->path, &old) == 0;
  if (!exists && errno != ENOENT) return sink_fail(sink, "cannot be created");
  if (!exists || S_ISREG(old.st_mode))
    return create_replacement(sink, exists ? &old : NULL);
  sink->fd = os->open_write(sink->path);
  if (sink->fd >= 0) return TN_OK;
  return errno == ENXIO && S_ISFIFO(old.st_mode)
             ? tn__fail(TN_IO,
                        "%s: is a FIFO (named pipe) without a reader; start "
                        "the reader first, or save into a regular file",
                        sink->path)
             : sink_fail(sink, "cannot be written");
}

tn_code tn__sink_open(const tn__env *env, const char *path, tn__sink *out) {
  *out = (tn__sink){.env = env, .path = path, .fd = -1};
  out->buffer = tn__alloc(env, SINK_BUFFER);
  if (!out->buffer) return tn__fail_memory(SINK_BUFFER, "writing a file");
  tn_code rc = sink_begin(out);
  if (rc) tn__sink_close(out);
  return rc;
}

/* ----------------------------------------------------------------- writing */

/* A special file has no positions; all bytes are written in order. */
static ssize_t put_some(const tn__sink *sink, uint64_t at, const void *bytes,
                        size_t n) {
  const tn__os *os = sink->env->os;
  return sink->target ? os->pwrite(sink->fd, bytes, n, (int64_t)at)
                      : os->write(sink->fd, bytes, n);
}

static tn_code put_bytes(const tn__sink *sink, uint64_t at, const void *bytes,
                         size_t n) {
  const char *next = bytes;
  while (n > 0) {
    const ssize_t done = put_some(sink, at, next, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return sink_fail(sink, "cannot be written");
    next += done;
    at += (uint64_t)done;
    n -= (size_t)done;
  }
  return TN_OK;
}

static tn_code flush_buffer(tn__sink *sink) {
  size_t n = sink->n;
  sink->n = 0;
  return put_bytes(sink, sink->at - n, sink->buffer, n);
}

tn_code tn__sink_write(void *ctx, const void *bytes, size_t n) {
  tn__sink *sink = ctx;
  if (n > SINK_BUFFER - sink->n) TN__TRY(flush_buffer(sink));
  if (n >= SINK_BUFFER) {
    TN__TRY(put_bytes(sink, sink->at, bytes, n));
  } else if (n > 0) {
    memcpy(sink->buffer + sink->n, bytes, n);
    sink->n += n;
  }
  sink->at += n;
  return TN_OK;
}

tn_code tn__sink_patch(tn__sink *sink, uint64_t at, const void *bytes,
                       size_t n) {
  if (!sink->target)
    return tn__fail(TN_UNSUPPORTED,
                    "%s: is no regular file, and this format cannot be written "
                    "from begin to end; save into a regular file",
                    sink->path);
  TN__TRY(flush_buffer(sink));
  return put_bytes(sink, at, bytes, n);
}

static tn_code sink_end(tn__sink *sink) {
  const int fd = sink->fd;
  sink->fd = -1;
  return sink->env->os->close(fd) ? sink_fail(sink, "cannot be closed") : TN_OK;
}

tn_code tn__sink_commit(tn__sink *sink, tn__sink_mode mode) {
  const tn__os *os = sink->env->os;
  TN__TRY(flush_buffer(sink));
  if (!sink->target) return sink_end(sink);
  if (mode == TN__SINK_DURABLE && os->sync(sink->fd))
    return sink_fail(sink, "cannot be put on the disk");
  TN__TRY(sink_end(sink));
  if (os->rename(sink->temporary, sink->target))
    return sink_fail(sink, "cannot be given its name");
  tn__free(sink->env, sink->temporary);
  sink->temporary = NULL;
  return TN_OK;
}

void tn__sink_close(tn__sink *sink) {
  const tn__os *os = sink->env->os;
  if (sink->fd >= 0) (void)os->close(sink->fd);
  if (sink->temporary) (void)os->unlink(sink->temporary);
  tn__free(sink->env, sink->temporary);
  tn__free(sink->env, sink->target);
  tn__free(sink->env, sink->buffer);
  *sink = (tn__sink){.fd = -1};
}
