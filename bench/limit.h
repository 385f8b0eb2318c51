/* SPDX-License-Identifier: Apache-2.0
 * How fast this machine can add two arrays of floats, by a loop that does
 * nothing else.
 */
#ifndef TENON_BENCH_LIMIT_H_
#define TENON_BENCH_LIMIT_H_

#include <stdint.h>

enum limit_store {
  LIMIT_ORDINARY = 0,
  LIMIT_NON_TEMPORAL = 1 /* past the caches */
};

/* Nanoseconds of out = a + b with n floats each, a multiple of 1024, cut among
 * so many threads, which lie in wait for it. */
double limit_add(int64_t n, uint32_t threads, enum limit_store store);

#endif /* TENON_BENCH_LIMIT_H_ */
