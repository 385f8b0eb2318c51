/* SPDX-License-Identifier: Apache-2.0
 * Threads that wait busily for their part of a loop: the lowest cost of a loop,
 * without a wake-up.
 */
#ifndef TENON_BENCH_TEAM_H_
#define TENON_BENCH_TEAM_H_

#include <stdint.h>

enum { TEAM_MOST = 16 };

/* Nanoseconds of a round in which thread i of `threads`, the calling one being
 * the first, runs part(arg, i); measured as measure_each does. */
double team_each(void (*part)(void *arg, uint32_t i), void *arg,
                 uint32_t threads, double seconds);

#endif /* TENON_BENCH_TEAM_H_ */
