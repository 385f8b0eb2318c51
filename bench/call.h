/* SPDX-License-Identifier: Apache-2.0
 * Sizes and durations that call.c and its peer share.
 */
#ifndef TENON_BENCH_CALL_H_
#define TENON_BENCH_CALL_H_

#include <stdint.h>

#define CALL_SECONDS 0.02 /* of one measurement of a small call */
#define ADD_SECONDS 0.03  /* of a large one */

/* An add of n floats reads two arrays and writes one. */
#define CALL_BYTES_MOVED(n) (12.0 * (double)(n))

static const int64_t call_sizes[] = {1, 64};
static const int64_t add_sizes[] = {1024,   4096,    16384,   65536,
                                    262144, 1048576, 4194304, 16777216};

#endif /* TENON_BENCH_CALL_H_ */
