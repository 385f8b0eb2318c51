/* SPDX-License-Identifier: Apache-2.0
 * os.c: the real operating system behind tn__os, and the log to stderr.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base.h"

/* Non-blocking, so that opening a FIFO does not wait for its other end. */
static int real_open(const char *path) {
  return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static int real_fstat(int fd, struct stat *out) {
  return fstat(fd, out);
}

static int real_stat(const char *path, struct stat *out) {
  return stat(path, out);
}

static ssize_t real_pread(int fd, void *to, size_t bytes, int64_t offset) {
  return pread(fd, to, bytes, offset);
}

static int real_close(int fd) {
  return close(fd);
}

static char *real_realpath(const char *path, char *to) {
  return realpath(path, to);
}

static void *real_dlopen(const char *path) {
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *real_dlsym(void *handle, const char *name) {
  return dlsym(handle, name);
}

static int real_dlclose(void *handle) {
  return dlclose(handle);
}

static const char *real_dlerror(void) {
  return dlerror();
}

const tn__os tn__os_real = {
    .open = real_open,
    .fstat = real_fstat,
    .stat = real_stat,
    .pread = real_pread,
    .close = real_close,
    .realpath = real_realpath,
    .dlopen = real_dlopen,
    .dlsym = real_dlsym,
    .dlclose = real_dlclose,
    .dlerror = real_dlerror,
};

void tn__log_stderr(void *ctx, int32_t level, const char *line) {
  (void)ctx;
  if (level <= TN_LOG_WARNING)
    (void)fprintf(stderr, "tenon: %s%s\n",
                  level == TN_LOG_WARNING ? "warning: " : "", line);
}
