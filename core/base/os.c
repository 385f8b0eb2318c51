/* SPDX-License-Identifier: Apache-2.0
 * os.c: the real operating system in the table tn__os, and the log to stderr.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static int real_lstat(const char *path, struct stat *out) {
  return lstat(path, out);
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

static int real_create(const char *path, mode_t mode) {
  return open(path,
              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
              mode);
}

/* A FIFO without a reader is ENXIO; writing waits for a reader that is slow. */
static int real_open_write(const char *path) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  const int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
  if (fd < 0 || (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0))
    return fd;
  const int why = errno;
  (void)close(fd);
  errno = why;
  return -1;
}

static ssize_t real_readlink(const char *path, char *to, size_t bytes) {
  return readlink(path, to, bytes);
}

static int real_fchmod(int fd, mode_t mode) {
  return fchmod(fd, mode);
}

static ssize_t real_write(int fd, const void *from, size_t bytes) {
  return write(fd, from, bytes);
}

static ssize_t real_pwrite(int fd, const void *from, size_t bytes,
                           int64_t offset) {
  return pwrite(fd, from, bytes, offset);
}

static int real_sync(int fd) {
  return fsync(fd);
}

static int real_rename(const char *from, const char *to) {
  return rename(from, to);
}

static int real_unlink(const char *path) {
  return unlink(path);
}

static void *real_map(int fd, size_t bytes, int64_t offset) {
  void *pages =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, offset);
  return pages == MAP_FAILED ? NULL : pages;
}

static void real_unmap(void *pages, size_t bytes) {
  (void)munmap(pages, bytes);
}

const tn__os tn__os_real = {
    .open = real_open,
    .fstat = real_fstat,
    .stat = real_stat,
    .lstat = real_lstat,
    .pread = real_pread,
    .close = real_close,
    .realpath = real_realpath,
    .dlopen = real_dlopen,
    .dlsym = real_dlsym,
    .dlclose = real_dlclose,
    .dlerror = real_dlerror,
    .create = real_create,
    .open_write = real_open_write,
    .readlink = real_readlink,
    .fchmod = real_fchmod,
    .write = real_write,
    .pwrite = real_pwrite,
    .sync = real_sync,
    .rename = real_rename,
    .unlink = real_unlink,
    .map = real_map,
    .unmap = real_unmap,
};

void tn__log_stderr(void *ctx, int32_t level, const char *line) {
  (void)ctx;
  (void)fprintf(stderr, "tenon: %s%s\n",
                level == TN_LOG_WARNING ? "warning: " : "", line);
}
