/* SPDX-License-Identifier: Apache-2.0
 * fuzz.c: see fuzz.h.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The size is before each piece. */
static size_t taken, most;

enum { HEAD = 64 };

static void *meter_alloc(void *ctx, size_t bytes, size_t align) {
  void *memory = NULL;
  (void)ctx;
  if (align > HEAD || bytes > SIZE_MAX / 2) return NULL;
  if (posix_memalign(&memory, HEAD, bytes + HEAD)) return NULL;
  memcpy(memory, &bytes, sizeof bytes);
  taken += bytes;
  if (taken > most) most = taken;
  return (char *)memory + HEAD;
}

static void meter_free(void *ctx, void *memory) {
  size_t bytes = 0;
  (void)ctx;
  if (!memory) return;
  memcpy(&bytes, (char *)memory - HEAD, sizeof bytes);
  taken -= bytes;
  free((char *)memory - HEAD);
}

const tn_allocator fuzz_allocator = {NULL, meter_alloc, meter_free};

size_t fuzz_meter(void) {
  most = taken;
  return taken;
}

size_t fuzz_most(size_t mark) {
  return most > mark ? most - mark : 0;
}

size_t fuzz_left(size_t mark) {
  return taken > mark ? taken - mark : 0;
}

void fuzz_check(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "fuzz: %s (%zu bytes taken, %zu at most)\n", what, taken,
          most);
  abort();
}
