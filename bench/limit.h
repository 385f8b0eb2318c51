/* SPDX-License-Identifier: Apache-2.0
 * How fast this machine can read one or two arrays of floats and write one, by
 * a loop that does nothing else.
 */
#ifndef TENON_BENCH_LIMIT_H_
#define TENON_BENCH_LIMIT_H_

#include <stdint.h>

enum limit_store {
  LIMIT_ORDINARY = 0,
  LIMIT_NON_TEMPORAL = 1 /* past the caches */
};

/* Nanoseconds of out = a + b, or of out = a + a with n_in 1, with n floats
 * each, a multiple of 1024, divided among so many threads, which wait busily
 * for it. */
double limit_each(int64_t n, uint32_t n_in, uint32_t threads,
                  enum limit_store store);

/* Likewise of out = a + a, where another such loop has just written a: the
 * limit of consecutive operators. */
double limit_each_read_next(int64_t n, uint32_t threads,
                            enum limit_store store);

#endif /* TENON_BENCH_LIMIT_H_ */
