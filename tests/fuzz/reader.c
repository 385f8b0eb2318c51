/* SPDX-License-Identifier: Apache-2.0
 * reader.c: see reader.h. It creates no file: the system calls of the
 * environment show a single file in memory.
 */
#include "reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"

static const uint8_t *file_data;
static size_t file_size;

static int memory_open(const char *path) {
  (void)path;
  return 1000;
}

static int memory_fstat(int fd, struct stat *out) {
  (void)fd;
  *out = (struct stat){.st_mode = S_IFREG, .st_size = (off_t)file_size};
  return 0;
}

static ssize_t memory_pread(int fd, void *to, size_t n, int64_t at) {
  (void)fd;
  if (at < 0 || (uint64_t)at > file_size) {
    errno = EINVAL;
    return -1;
  }
  size_t left = file_size - (size_t)at;
  if (n > left) n = left;
  if (n > 0) memcpy(to, file_data + at, n);
  return (ssize_t)n;
}

static int memory_close(int fd) {
  (void)fd;
  return 0;
}

static const tn__os memory_os = {.open = memory_open,
                                 .fstat = memory_fstat,
                                 .pread = memory_pread,
                                 .close = memory_close};

/* ------------------------------------------------------------------ reading */

static tn__env env;
static tn__devices *devices;

static void start(void) {
  env = *tn__env_default();
  env.allocator = fuzz_allocator;
  env.os = &memory_os;
  const tn__engine_options options = {.env = &env, .kind = TN__ENGINE_NAIVE};
  fuzz_check(!tn__engine_create(&options, &env.engine), "there is no engine");
  fuzz_check(!tn__devices_create(&env, 1, NULL, 0, &devices),
             "there are no devices");
  fuzz_check(!tn__device_find(devices, TN_DEVICE_CPU, 0, &env.cpu), "no cpu");
}

/* The name of the file that the environment can open. */
static void read_arrays(tn_bundle *bundle) {
  for (size_t i = 0; i < bundle->n; ++i) {
    const tn__bundle_entry *e = &bundle->entries[i];
    tn_array *array = NULL;
    const size_t mark = fuzz_meter();
    tn_code rc = tn__bundle_get(bundle, e->name, 0, &array);
    fuzz_check(fuzz_most(mark) <= e->bytes + e->bytes / 4 + (1 << 18),
               "reading an array took too much memory");
    fuzz_check(rc == TN_OK || e->member != NULL,
               "a checked array cannot be read");
    tn__array_release(array);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!env.engine) start();
  tn_bundle *bundle = NULL;
  file_data = data;
  file_size = size;
  tn__heap_trim(env.cpu);
  const size_t mark = fuzz_meter();
  tn_code rc = tn__bundle_open(&env, fuzz_path, &bundle);
  fuzz_check(fuzz_most(mark) <= 64 * size + (1 << 18),
             "opening the file took too much memory");
  if (rc)
    fuzz_check(strncmp(tn_error_text(), fuzz_path, strlen(fuzz_path)) == 0,
               "the message does not name the file");
  else
    read_arrays(bundle);
  tn__bundle_close(bundle);
  tn__heap_trim(env.cpu);
  fuzz_check(fuzz_left(mark) <= 1 << 16, "memory is left");
  return 0;
}
