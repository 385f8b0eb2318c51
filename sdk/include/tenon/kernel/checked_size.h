/* SPDX-License-Identifier: Apache-2.0
 * checked_size.h: arithmetic with sizes that come from outside: lengths of
 * arrays and parameters. Products and sums of them may exceed 64 bits.
 */
#ifndef TENON_KERNEL_CHECKED_SIZE_H_
#define TENON_KERNEL_CHECKED_SIZE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The product of two sizes, each 0 or more; -1 if 64 bits do not hold it.
 * [any] */
static inline int64_t tn_size_times(int64_t a, int64_t b) {
  return a > 0 && b > INT64_MAX / a ? -1 : a * b;
}

/* Their sum; -1 in the same way. [any] */
static inline int64_t tn_size_plus(int64_t a, int64_t b) {
  return b > INT64_MAX - a ? -1 : a + b;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_CHECKED_SIZE_H_ */
