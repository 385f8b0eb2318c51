/* SPDX-License-Identifier: Apache-2.0
 * meter.h: an allocator for a runtime that counts, and fails on demand.
 */
#ifndef TESTS_METER_H_
#define TESTS_METER_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Counts living blocks; refuses allocation number `fail_at` (from 1), and all
 * later ones if `sticky`. From any thread. */
typedef struct meter {
  _Atomic size_t n_allocated;
  _Atomic size_t n_living;
  size_t fail_at;
  bool sticky;
} meter;

static inline void *meter_alloc(void *ctx, size_t bytes, size_t align) {
  meter *m = ctx;
  void *memory = NULL;
  const size_t number = ++m->n_allocated;
  if (m->fail_at != 0 &&
      (number == m->fail_at || (m->sticky && number > m->fail_at)))
    return NULL;
  if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align,
                     bytes) != 0)
    return NULL;
  ++m->n_living;
  return memory;
}

static inline void meter_free(void *ctx, void *memory) {
  meter *m = ctx;
  --m->n_living;
  free(memory);
}

/* A log that is not shown. */
static inline void quiet(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level, (void)line;
}

#endif /* TESTS_METER_H_ */
