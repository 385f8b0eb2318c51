/* SPDX-License-Identifier: Apache-2.0
 * memory.c: files in memory for the system table of base, and a counting
 * allocator.
 */
#include "memory.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static struct {
  const memory_file *files;
  tn__env env;
  tn__os os;
  size_t live;
  size_t bytes; /* bytes in those blocks, and their maximum since memory_env */
  size_t peak;
  size_t count;
  size_t fail_at;
  bool for_ever;
  bool refused;
} memory;

/* -------------------------------------------------------------------- files */

static int find_file(const char *path) {
  for (int i = 0; memory.files[i].path != NULL; ++i) {
    if (strcmp(memory.files[i].path, path) == 0) return i;
  }
  errno = ENOENT;
  return -1;
}

static int open_file(const char *path) {
  return find_file(path);
}

static int fstat_file(int fd, struct stat *out) {
  memset(out, 0, sizeof *out);
  out->st_mode = S_IFREG;
  out->st_size = (off_t)strlen(memory.files[fd].text);
  return 0;
}

static bool is_folder(const char *path) {
  size_t n = strlen(path);
  if (n > 0 && path[n - 1] == '/') --n;
  for (int i = 0; memory.files[i].path != NULL; ++i) {
    const char *file = memory.files[i].path;
    if (strncmp(file, path, n) == 0 && file[n] == '/') return true;
  }
  return false;
}

static int stat_file(const char *path, struct stat *out) {
  int found = find_file(path);
  if (found >= 0) return fstat_file(found, out);
  memset(out, 0, sizeof *out);
  out->st_mode = S_IFDIR;
  return is_folder(path) ? 0 : -1;
}

static ssize_t pread_file(int fd, void *to, size_t bytes, int64_t offset) {
  size_t n = strlen(memory.files[fd].text);
  size_t from = (size_t)offset;
  if (from >= n) return 0;
  if (bytes > n - from) bytes = n - from;
  memcpy(to, memory.files[fd].text + from, bytes);
  return (ssize_t)bytes;
}

static int close_file(int fd) {
  (void)fd;
  return 0;
}

/* ---------------------------------------------------------------- allocator */

static void *alloc_counted(void *ctx, size_t bytes, size_t align) {
  (void)ctx;
  ++memory.count;
  bool fails =
      memory.fail_at != 0 && (memory.for_ever ? memory.count >= memory.fail_at
                                              : memory.count == memory.fail_at);
  memory.refused |= fails;
  if (fails) return NULL;
  size_t rounded = (bytes + align - 1) / align * align;
  void *block = aligned_alloc(align, rounded == 0 ? align : rounded);
  memory.live += block != NULL;
  memory.bytes += malloc_usable_size(block);
  if (memory.bytes > memory.peak) memory.peak = memory.bytes;
  return block;
}

static void free_counted(void *ctx, void *block) {
  (void)ctx;
  memory.live -= block != NULL;
  memory.bytes -= malloc_usable_size(block);
  free(block);
}

void memory_fail_at(size_t n, bool for_ever) {
  memory.count = 0;
  memory.fail_at = n;
  memory.for_ever = for_ever;
  memory.refused = false;
}

size_t memory_live(void) {
  return memory.live;
}

size_t memory_peak(void) {
  return memory.peak;
}

bool memory_refused(void) {
  return memory.refused;
}

const tn__env *memory_env(const memory_file *files) {
  memory.files = files;
  memory.peak = memory.bytes;
  memory.os = tn__os_real;
  memory.os.open = open_file;
  memory.os.fstat = fstat_file;
  memory.os.stat = stat_file;
  memory.os.pread = pread_file;
  memory.os.close = close_file;
  memory.env = *tn__env_default();
  memory.env.allocator.alloc = alloc_counted;
  memory.env.allocator.free = free_counted;
  memory.env.os = &memory.os;
  return &memory.env;
}

/* ------------------------------------------------------------------ reading */

char *memory_read(const tn__env *env, const char *path, int format,
                  tnm_plugin **out) {
  char *text = NULL;
  size_t n = 0;
  FILE *to = open_memstream(&text, &n);
  tnm_diags *diags = tnm_diags_create(env);
  tnm_plugin *plugin = NULL;
  if (diags != NULL) {
    plugin = tnm_plugin_read(env, path, NULL, diags);
    tnm_diags_print(diags, to, format, false);
  }
  tnm_diags_release(diags);
  fclose(to);
  if (out != NULL)
    *out = plugin;
  else
    tnm_plugin_release(plugin);
  return text;
}
