/* SPDX-License-Identifier: Apache-2.0
 * floating.c: a function of a plugin has changed how the thread computes. That
 * is rare, so it may take long: it is undone, and remembered.
 */
#include "floating.h"

#include <stddef.h>

static _Thread_local const char *changed;

const char *tn__floating_changed(bool forget) {
  const char *last = changed;
  if (forget) changed = NULL;
  return last;
}

#if defined(__x86_64__)

const char *tn__floating_difference(const tn__floating *a,
                                    const tn__floating *b) {
  const uint32_t bits = a->sse ^ b->sse;
  if (bits & 0x8040u) return "flushing of denormals";
  return bits & 0x6000u ? "rounding" : "floating-point control";
}

static void set(const tn__floating *to) {
  _mm_setcsr(to->sse | (_mm_getcsr() & ~TN__SSE_CONTROL));
  __asm__ volatile("fldcw %0" : : "m"(to->x87));
}

#elif defined(__aarch64__)

const char *tn__floating_difference(const tn__floating *a,
                                    const tn__floating *b) {
  const uint64_t bits = a->control ^ b->control;
  if (bits & 1u << 24) return "flushing of denormals";
  return bits & 3u << 22 ? "rounding" : "floating-point control";
}

static void set(const tn__floating *to) {
  __asm__ volatile("msr fpcr, %0" : : "r"(to->control));
}

#else

const char *tn__floating_difference(const tn__floating *a,
                                    const tn__floating *b) {
  (void)a, (void)b;
  return "rounding";
}

static void set(const tn__floating *to) {
  (void)fesetround(to->round);
}

#endif

void tn__floating_restore(const tn__floating *before, const tn__floating *now) {
  changed = tn__floating_difference(before, now);
  set(before);
}
