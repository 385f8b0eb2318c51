/* SPDX-License-Identifier: Apache-2.0
 * Threads that lie in wait for their part of a loop: what a loop costs at least
 * if nobody has to be woken.
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
