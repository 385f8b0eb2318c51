/* SPDX-License-Identifier: Apache-2.0
 * world.c: implements world.h.
 */
#include "world.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_failing(failure *f) {
  size_t call = f->calls++;
  return call == f->at || (f->sticky && call > f->at);
}

/* ------------------------------------------------------------------- memory */

static void *world_alloc(void *ctx, size_t bytes, size_t align) {
  world *w = ctx;
  if (is_failing(&w->memory)) return NULL;
  atomic_fetch_add(&w->blocks, 1);
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void world_free(void *ctx, void *memory) {
  world *w = ctx;
  if (memory) atomic_fetch_sub(&w->blocks, 1);
  free(memory);
}

static void world_log(void *ctx, int32_t level, const char *line) {
  world *w = ctx;
  size_t n = strlen(w->log);
  (void)snprintf(w->log + n, sizeof w->log - n, "%d %s\n", level, line);
}

/* --------------------------------------------------------------- the system */

failure world_os_failure = {0, SIZE_MAX, false};

static bool os_fails(void) {
  errno = EIO;
  return is_failing(&world_os_failure);
}

static int os_open(const char *path) {
  return os_fails() ? -1 : tn__os_real.open(path);
}

static int os_fstat(int fd, struct stat *out) {
  return os_fails() ? -1 : tn__os_real.fstat(fd, out);
}

static int os_stat(const char *path, struct stat *out) {
  return os_fails() ? -1 : tn__os_real.stat(path, out);
}

static int os_lstat(const char *path, struct stat *out) {
  return os_fails() ? -1 : tn__os_real.lstat(path, out);
}

static ssize_t os_readlink(const char *path, char *to, size_t bytes) {
  return os_fails() ? -1 : tn__os_real.readlink(path, to, bytes);
}

static ssize_t os_pread(int fd, void *to, size_t bytes, int64_t offset) {
  return os_fails() ? -1 : tn__os_real.pread(fd, to, bytes, offset);
}

static char *os_realpath(const char *path, char *to) {
  return os_fails() ? NULL : tn__os_real.realpath(path, to);
}

static void *os_dlopen(const char *path) {
  return os_fails() ? NULL : tn__os_real.dlopen(path);
}

static void *os_dlsym(void *handle, const char *name) {
  return os_fails() ? NULL : tn__os_real.dlsym(handle, name);
}

/* Closes the file even if it reports a failure. */
static int os_close(int fd) {
  (void)tn__os_real.close(fd);
  return os_fails() ? -1 : 0;
}

static int os_dlclose(void *handle) {
  (void)tn__os_real.dlclose(handle);
  return os_fails() ? -1 : 0;
}

/* The linker has no reason to report if it was not called. */
static const char *os_dlerror(void) {
  return NULL;
}

const tn__os world_os = {.open = os_open,
                         .fstat = os_fstat,
                         .stat = os_stat,
                         .lstat = os_lstat,
                         .readlink = os_readlink,
                         .pread = os_pread,
                         .close = os_close,
                         .realpath = os_realpath,
                         .dlopen = os_dlopen,
                         .dlsym = os_dlsym,
                         .dlclose = os_dlclose,
                         .dlerror = os_dlerror};

/* --------------------------------------------------------------------- life */

void world_heal(world *w) {
  w->memory = (failure){0, SIZE_MAX, false};
  world_os_failure = w->memory;
}

void world_open(world *w, uint32_t trust) {
  memset(w, 0, sizeof *w);
  world_heal(w);
  w->env = *tn__env_default();
  w->env.allocator = (tn_allocator){w, world_alloc, world_free};
  w->env.log = world_log;
  w->env.log_ctx = w;
  strcpy(w->folder, "/tmp/tenon-test-XXXXXX");
  cr_assert(mkdtemp(w->folder));
  const tn__registry_options options = {.env = &w->env, .trust = trust};
  cr_assert_eq(tn__registry_create(&options, &w->registry), TN_OK);
}

static void remove_folder(const char *folder) {
  DIR *dir = opendir(folder);
  for (const struct dirent *entry; dir && (entry = readdir(dir));) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    (void)unlink(path);
  }
  if (dir) closedir(dir);
  (void)rmdir(folder);
}

void world_close(world *w) {
  tn__registry_destroy(w->registry);
  remove_folder(w->folder);
  cr_assert_eq(w->blocks, 0, "%zu blocks are left", (size_t)w->blocks);
}

/* -------------------------------------------------------------------- files */

const char *fixture_path(const char *name) {
  static char path[512];
  (void)snprintf(path, sizeof path, "%s/%s.so", FIXTURES, name);
  return path;
}

uint8_t *fixture_bytes(const char *name, size_t *n) {
  FILE *file = fopen(fixture_path(name), "rb");
  uint8_t *bytes = malloc(1 << 20);
  cr_assert(file && bytes);
  *n = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  return bytes;
}

const char *world_file(world *w, const char *name, const void *bytes,
                       size_t n) {
  static char path[512];
  (void)snprintf(path, sizeof path, "%s/%s", w->folder, name);
  FILE *file = fopen(path, "wb");
  cr_assert(file && (!n || fwrite(bytes, 1, n, file) == n));
  fclose(file);
  return path;
}

/* ----------------------------------------------------------------- snapshot */

void world_snapshot(const world *w, char *to, size_t n) {
  const tn__registry *r = w->registry;
  FILE *out = fmemopen(to, n, "w");
  for (size_t i = 0; i < r->plugins.n; ++i)
    fprintf(out, "plugin %s\n",
            ((const tn__plugin *)r->plugins.v[i])->entry->name);
  for (size_t i = 0; i < r->sorted.n; ++i) {
    const tn_operator *op = r->sorted.v[i];
    fprintf(out, "operator %s:", op->name);
    for (size_t k = 0; k < op->kernels.n; ++k)
      fprintf(out, " %s", ((const tn__kernel *)op->kernels.v[k])->desc->id);
    fprintf(out, "\n");
  }
  for (size_t i = 0; i < r->pending.n; ++i)
    fprintf(out, "waiting %s\n",
            ((const tn__kernel *)r->pending.v[i])->desc->id);
  fprintf(out, "%zu extensions\n", r->extensions.n);
  fclose(out);
}
