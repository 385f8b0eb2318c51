/* SPDX-License-Identifier: Apache-2.0
 * The expressions of bench/expr, written by hand: loops of AVX-512 or AVX2
 * intrinsics, one expression each. Results are within about 1e-6, absolute.
 * Infinities and NaN are not handled.
 */
#ifndef TENON_BENCH_HAND_H_
#define TENON_BENCH_HAND_H_

#include <stdint.h>

/* The coefficients of all expressions that have any. */
#define HAND_A 0.5f
#define HAND_B -1.25f
#define HAND_C 0.75f

/* Layout of the operands, in elements of the output. */
enum hand_layout {
  HAND_DENSE = 0,
  HAND_ROW = 1,    /* b is one row, which is repeated */
  HAND_COLUMN = 2, /* b is one column */
  HAND_STRIDED = 3 /* a is every second element */
};

/* out = f(a, b); b is not read by functions of one array. */
typedef struct hand_work {
  const char *name; /* of the expression */
  const void *a;
  const void *b;
  void *out;
  int64_t n; /* a multiple of 1024 */
  int64_t columns;
  int64_t bytes; /* of an element */
  enum hand_layout layout;
} hand_work;

/* Nanoseconds of the loop, divided among threads that wait busily for it; 0 if
 * this processor has no such loop. */
double hand_each(const hand_work *work, uint32_t threads);

#endif /* TENON_BENCH_HAND_H_ */
