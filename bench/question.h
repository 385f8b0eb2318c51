/* SPDX-License-Identifier: Apache-2.0
 * The protocol of functions.py with our program and its peers. Each line of
 * input requests one function, "NAME LOW HIGH". The reply is "NAME
 * VARIANT=NANOSECONDS...", or only the name if the program has no such
 * function. The time is that of one pass over 64 K floats between the two
 * numbers.
 */
#ifndef TENON_BENCH_QUESTION_H_
#define TENON_BENCH_QUESTION_H_

#include <stdint.h>

enum { MATH_N = 64 << 10 };
static const double MATH_SECONDS = 0.004; /* for one answer */

/* The same numbers for all. */
static inline void math_fill(float *x, float low, float high) {
  uint32_t state = 1;
  for (int i = 0; i < MATH_N; ++i) {
    state = state * 1664525u + 1013904223u;
    x[i] = low + (high - low) * ((float)(state >> 8) * 0x1p-24f);
  }
}

#endif /* TENON_BENCH_QUESTION_H_ */
