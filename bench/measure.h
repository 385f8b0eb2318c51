/* SPDX-License-Identifier: Apache-2.0
 * Shared by the measuring programs, ours in C and the peers in C++: a clock,
 * one function to repeat and print, a count of tasks by thread, and an
 * allocator that counts.
 */
#ifndef TENON_BENCH_MEASURE_H_
#define TENON_BENCH_MEASURE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds of the monotonic clock. */
double measure_now(void);

/* Prints a message like printf and ends the program with 1. */
void measure_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* Nanoseconds of one `once(arg)`, after one that does not count: the median of
 * five batches that take `seconds` together, or a little more. */
double measure_each(void (*once)(void *arg), void *arg, double seconds);

/* The same for a `once` that is long enough to be timed alone: the median of as
 * many runs as fit into `seconds`. A median hides interruptions of a few runs.
 */
double measure_single(void (*once)(void *arg), void *arg, double seconds);

/* The same, the least of `rounds`, without one before them. */
double measure_best(void (*once)(void *arg), void *arg, int rounds);

/* Nanoseconds of processor time of one `once(arg)` that does all of its work on
 * the calling thread, so that others on the machine hardly count: the least of
 * five batches that take `seconds` together. */
double measure_cpu(void (*once)(void *arg), void *arg, double seconds);

/* ------------------------------------------------------------------ memory */

/* Numbers from 0 on, n of them, on huge pages, as arrays and the allocators of
 * the tuned peers have them; the caller frees it. */
float *measure_floats(int64_t n);

/* ------------------------------------------------------------------- tasks */

/* One thread's count, on cache lines of its own. */
typedef struct measure_tally {
  uint64_t n;
  char apart[120];
} measure_tally;

extern __thread measure_tally *measure_mine;

/* Gives the calling thread a count; the first to join is "the caller". */
measure_tally *measure_join(void);

/* The body of every task here and in the peers: it counts itself. */
static inline void measure_task(void) {
  measure_tally *mine = measure_mine ? measure_mine : measure_join();
  ++mine->n;
}

/* Measures `once`, which must execute `tasks` tasks. The first run does not
 * count unless it is very slow. Prints "NAME MILLIONS_PER_SECOND
 * CALLER+OTHER+...", with the number of tasks of each thread. Ends the program
 * if their sum is wrong. */
void measure_tasks(const char *name, uint64_t tasks, void (*once)(void *arg),
                   void *arg);

/* ------------------------------------------------------------------ memory */

/* Bytes and pieces that are allocated now. */
typedef struct measure_ledger {
  int64_t bytes;
  int64_t pieces;
} measure_ledger;

/* For tn_allocator; `ctx` is a measure_ledger. Any thread. */
void *measure_alloc(void *ctx, size_t bytes, size_t align);
void measure_free(void *ctx, void *memory);

#ifdef __cplusplus
}
#endif
#endif /* TENON_BENCH_MEASURE_H_ */
