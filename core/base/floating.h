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
  tn__floating now = {_mm_getcsr(), 0};
  __asm__ volatile("fnstcw %0" : "=m"(now.x87));
  return now;
}

static inline bool tn__floating_differs(const tn__floating *a,
                                        const tn__floating *b) {
  return ((a->sse ^ b->sse) & TN__SSE_CONTROL) != 0 || a->x87 != b->x87;
}

static inline void tn__floating_set(const tn__floating *to,
                                    const tn__floating *now) {
  if ((now->sse ^ to->sse) & TN__SSE_CONTROL)
    _mm_setcsr((to->sse & TN__SSE_CONTROL) | (now->sse & ~TN__SSE_CONTROL));
  if (now->x87 != to->x87) __asm__ volatile("fldcw %0" : : "m"(to->x87));
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

static inline bool tn__floating_differs(const tn__floating *a,
                                        const tn__floating *b) {
  return a->control != b->control;
}

static inline void tn__floating_set(const tn__floating *to,
                                    const tn__floating *now) {
  if (now->control != to->control)
    __asm__ volatile("msr fpcr, %0" : : "r"(to->control));
}

#else

#include <fenv.h>

typedef struct tn__floating {
  int round;
} tn__floating;

static inline tn__floating tn__floating_get(void) {
  return (tn__floating){fegetround()};
}

static inline bool tn__floating_differs(const tn__floating *a,
                                        const tn__floating *b) {
  return a->round != b->round;
}

static inline void tn__floating_set(const tn__floating *to,
                                    const tn__floating *now) {
  if (now->round != to->round) (void)fesetround(to->round);
}

#endif

/* The modes that functions of plugins have left on the calling thread, and the
 * core has replaced. `opgen check` reports them. */
typedef struct tn__floating_log {
  uint64_t n;        /* how many */
  tn__floating last; /* the last of them */
} tn__floating_log;
const tn__floating_log *tn__floating_replaced(void);

/* The modes as a number; see tn_modes_restored. */
static inline uint64_t tn__floating_number(const tn__floating *modes) {
#if defined(__x86_64__)
  return (modes->sse & TN__SSE_CONTROL) | (uint64_t)modes->x87 << 32;
#elif defined(__aarch64__)
  return modes->control;
#else
  return (uint64_t)modes->round;
#endif
}

/* Computes again as when `before` was got, after another mode, `now`. */
void tn__floating_replace(const tn__floating *before, const tn__floating *now)
    __attribute__((cold));

/* Computes again as when `before` was got. */
static inline void tn__floating_keep(const tn__floating *before) {
  const tn__floating now = tn__floating_get();
  if (tn__floating_differs(&now, before)) tn__floating_replace(before, &now);
}

#endif /* TENON_BASE_FLOATING_H_ */
