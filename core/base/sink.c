/* SPDX-License-Identifier: Apache-2.0
 * sink.c: a file that is written under a temporary name beside its own, and
 * gets its own when it is complete and on the disk.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

enum { SINK_BUFFER = 1 << 16, TRIES = 1000 };

static tn_code sink_fail(const tn__sink *sink, const char *doing) {
  return tn__fail(TN_IO, "%s: %s: %s", sink->path, doing, strerror(errno));
}

/* The name ends in a number that no other process, and then no other file,
 * has. */
static tn_code temporary_create(tn__sink *sink) {
  const tn__os *os = sink->env->os;
  const size_t n = strlen(sink->path);
  for (unsigned i = 0; i < TRIES; ++i) {
    tn__buf name;
    tn__buf_init(&name, sink->env);
    tn__buf_bytes(&name, sink->path, n);
    tn__buf_add(&name, ".part-%ld-%u", (long)getpid(), i);
    if (name.failed) {
      tn__buf_deinit(&name);
      return tn__fail_memory(n, "the name of a file");
    }
    sink->fd = os->create(name.s);
    if (sink->fd >= 0) {
      sink->temporary = name.s;
      return TN_OK;
    }
    tn__buf_deinit(&name);
    if (errno != EEXIST) break;
  }
  return sink_fail(sink, "cannot be created");
}

tn_code tn__sink_open(const tn__env *env, const char *path, tn__sink *out) {
  *out = (tn__sink){.env = env, .path = path, .fd = -1};
  out->buffer = tn__alloc(env, SINK_BUFFER);
  if (!out->buffer) return tn__fail_memory(SINK_BUFFER, "writing a file");
  tn_code rc = temporary_create(out);
  if (rc) tn__sink_close(out);
  return rc;
}

static tn_code put(const tn__sink *sink, uint64_t at, const void *bytes,
                   size_t n) {
  const char *next = bytes;
  while (n > 0) {
    ssize_t done = sink->env->os->pwrite(sink->fd, next, n, (int64_t)at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return sink_fail(sink, "cannot be written");
    next += done;
    at += (uint64_t)done;
    n -= (size_t)done;
  }
  return TN_OK;
}

static tn_code flush(tn__sink *sink) {
  size_t n = sink->n;
  sink->n = 0;
  return put(sink, sink->at - n, sink->buffer, n);
}

tn_code tn__sink_write(void *ctx, const void *bytes, size_t n) {
  tn__sink *sink = ctx;
  if (n > SINK_BUFFER - sink->n) TN__TRY(flush(sink));
  if (n >= SINK_BUFFER) {
    TN__TRY(put(sink, sink->at, bytes, n));
  } else if (n > 0) {
    memcpy(sink->buffer + sink->n, bytes, n);
    sink->n += n;
  }
  sink->at += n;
  return TN_OK;
}

tn_code tn__sink_patch(tn__sink *sink, uint64_t at, const void *bytes,
                       size_t n) {
  TN__TRY(flush(sink));
  return put(sink, at, bytes, n);
}

tn_code tn__sink_commit(tn__sink *sink) {
  const tn__os *os = sink->env->os;
  TN__TRY(flush(sink));
  if (os->sync(sink->fd)) return sink_fail(sink, "cannot be put on the disk");
  int fd = sink->fd;
  sink->fd = -1;
  if (os->close(fd)) return sink_fail(sink, "cannot be closed");
  if (os->rename(sink->temporary, sink->path))
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
  tn__free(sink->env, sink->buffer);
  *sink = (tn__sink){.fd = -1};
}
