/* SPDX-License-Identifier: Apache-2.0
 * growth.h: measures how the time of an algorithm grows with its input. Unlike
 * a limit in seconds this depends neither on the machine nor on sanitizers.
 */
#ifndef TENON_TESTS_GROWTH_H_
#define TENON_TESTS_GROWTH_H_

#include <criterion/criterion.h>
#include <limits.h>
#include <malloc.h>
#include <time.h>

enum { GROWTH_STEP = 40, GROWTH_ATTEMPTS = 3, GROWTH_MOST = 8 };

/* Seconds of processor time of this process. */
static inline double growth_clock(void) {
  return (double)clock() / CLOCKS_PER_SEC;
}

/* Processes n items, and returns the seconds of the measured part. */
typedef double growth_run(int n);

/* The time for each of n items relative to that for each of n / GROWTH_STEP. */
static inline double growth_once(growth_run *run, int n) {
  double brief = 0;
  for (int i = 0; i < GROWTH_STEP; ++i) brief += run(n / GROWTH_STEP);
  return run(n) / brief;
}

/* Expects that time is proportional to the number of items up to n, which gives
 * a growth of about 1. That of a quadratic algorithm is near GROWTH_STEP. Other
 * programs disturb some attempts, so the best one counts. Freed memory is kept,
 * as new pages may cost more time than the algorithm. */
static inline void expect_proportional(growth_run *run, int n) {
  double best = INT_MAX;
  (void)mallopt(M_MMAP_MAX, 0);
  (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
  (void)run(n);
  for (int i = 0; i < GROWTH_ATTEMPTS && best >= GROWTH_MOST; ++i) {
    const double growth = growth_once(run, n);
    if (growth < best) best = growth;
  }
  cr_expect_lt(best, GROWTH_MOST, "%g times as long for each item", best);
}

#endif /* TENON_TESTS_GROWTH_H_ */
