/* SPDX-License-Identifier: Apache-2.0
 * file.c: reads a file at a position; messages contain that position.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "files.h"

tn_code tn__spot_fail(const tn__spot *spot, tn_code code, uint64_t at,
                      const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  tn__fail(code, "%s: ", spot->file->path);
  if (spot->entry) tn__fail_more(code, "array `%.200s`: ", spot->entry);
  tn__fail_more(code, "%s", text);
  if (at != TN__NOWHERE) tn__fail_more(code, " (at byte %" PRIu64 ")", at);
  return code;
}

static tn_code open_checked(tn__file *file) {
  struct stat info;
  const tn__spot spot = {file, NULL};
  if (file->env->os->fstat(file->fd, &info))
    return tn__spot_fail(&spot, TN_IO, TN__NOWHERE, "%s", strerror(errno));
  if (!S_ISREG(info.st_mode))
    return tn__spot_fail(&spot, TN_INVALID, TN__NOWHERE, "not a regular file");
  file->size = (uint64_t)info.st_size;
  return TN_OK;
}

tn_code tn__file_open(const tn__env *env, const char *path, tn__file *out) {
  *out = (tn__file){.env = env, .path = path, .fd = env->os->open(path)};
  const tn__spot spot = {out, NULL};
  if (out->fd < 0)
    return tn__spot_fail(&spot, errno == ENOENT ? TN_NOT_FOUND : TN_IO,
                         TN__NOWHERE, "%s", strerror(errno));
  tn_code rc = open_checked(out);
  if (rc) tn__file_close(out);
  return rc;
}

void tn__file_close(tn__file *file) {
  if (file->fd >= 0) (void)file->env->os->close(file->fd);
  file->fd = -1;
}

tn_code tn__file_read(const tn__spot *spot, uint64_t at, void *to, size_t n) {
  const tn__file *file = spot->file;
  char *next = to;
  while (n > 0) {
    ssize_t got = file->env->os->pread(file->fd, next, n, (int64_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tn__spot_fail(spot, TN_IO, at, "%s", strerror(errno));
    if (got == 0)
      return tn__spot_fail(spot, TN_IO, at,
                           "the file became shorter while it was read");
    next += got;
    at += (uint64_t)got;
    n -= (size_t)got;
  }
  return TN_OK;
}
