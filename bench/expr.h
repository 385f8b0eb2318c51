/* SPDX-License-Identifier: Apache-2.0
 * Sizes, shapes and coefficients that expr.c and its peers share.
 */
#ifndef TENON_BENCH_EXPR_H_
#define TENON_BENCH_EXPR_H_

#include <stdint.h>

static const int64_t expr_sizes[] = {1024, 65536, 1048576, 16777216};

/* The first size that more than one thread is given. */
static inline int expr_first(int threads) {
  return threads > 1 ? 2 : 0;
}

/* Of a matrix with n elements. */
static inline int64_t expr_columns(int64_t n) {
  return n > 1024 ? 1024 : 32;
}

#endif /* TENON_BENCH_EXPR_H_ */
