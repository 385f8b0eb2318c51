/* SPDX-License-Identifier: Apache-2.0
 * floating.h: how the calling thread computes: its rounding mode, and whether
 * denormal numbers count as zero. Code of plugins may change it; the calls
 * after it must not notice. fegetenv would do the same, but takes ten times as
 * long, and a small kernel takes only some twenty nanoseconds.
 *
 * Flags of exceptions that have happened are no part of it.
 */
#ifndef TENON_BASE_FLOATING_H_
#define TENON_BASE_FLOATING_H_

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)

#include <xmmintrin.h>

#define TN__SSE_CONTROL 0xffc0u

typedef struct tn__floating {
  uint32_t sse;
  uint16_t x87; /* of long double */
} tn__floating;

static inline tn__floating tn__floating_get(void) {
  tn__floating now = {_mm_getcsr() & TN__SSE_CONTROL, 0};
  __asm__ volatile("fnstcw %0" : "=m"(now.x87));
  return now;
}

static inline bool tn__floating_same(const tn__floating *a,
                                     const tn__floating *b) {
  return a->sse == b->sse && a->x87 == b->x87;
}

#elif defined(__aarch64__)

typedef struct tn__floating {
  uint64_t control;
} tn__floating;

static inline tn__floating tn__floating_get(void) {
  tn__floating now;
  __asm__ volatile("mrs %0, fpcr" : "=r"(now.control));
  return now;
}

static inline bool tn__floating_same(const tn__floating *a,
                                     const tn__floating *b) {
  return a->control == b->control;
}

#else

#include <fenv.h>

typedef struct tn__floating {
  int round;
} tn__floating;

static inline tn__floating tn__floating_get(void) {
  return (tn__floating){fegetround()};
}

static inline bool tn__floating_same(const tn__floating *a,
                                     const tn__floating *b) {
  return a->round == b->round;
}

#endif

/* Names the difference: "rounding", "flushing of denormals",
 * "floating-point control". */
const char *tn__floating_difference(const tn__floating *a,
                                    const tn__floating *b);

/* floating.c: computes again as before, and remembers the change. */
void tn__floating_restore(const tn__floating *before, const tn__floating *now);

/* The last change that was undone on this thread, or NULL; with `forget`, the
 * next answer is of later changes. For programs that judge plugins. */
const char *tn__floating_changed(bool forget);

/* Computes again as when `before` was got; false if nothing was changed. */
static inline bool tn__floating_keep(const tn__floating *before) {
  const tn__floating now = tn__floating_get();
  if (tn__floating_same(before, &now)) return false;
  tn__floating_restore(before, &now);
  return true;
}

#endif /* TENON_BASE_FLOATING_H_ */
