/* SPDX-License-Identifier: Apache-2.0
 * The protocol of comm.py with our program and its peers, for one rank of
 * several. Rank R reads requests from the pipe FOLDER/R, because mpirun passes
 * input to one rank only. All ranks read the same line, "VARIANT BYTES", and
 * call the variant together. Rank 0 prints "MICROSECONDS", the median of the
 * time of one call on the slowest rank.
 */
#ifndef TENON_BENCH_TURNS_H_
#define TENON_BENCH_TURNS_H_

#include <stddef.h>
#include <stdio.h>

/* At least so many batches of calls, and for about so long, without those that
 * warm up. A batch of short calls takes TURNS_BATCH. */
static const double TURNS_SECONDS = 0.03;
static const double TURNS_BATCH = 2e-4;
enum { TURNS_LEAST = 3, TURNS_MOST = 200, TURNS_CALLS = 100 };

/* How the ranks of a program meet. */
typedef struct turns_ranks {
  void *arg;
  int rank;
  /* Waits for all ranks. */
  void (*meet)(void *arg);
  /* The greatest of the values of all ranks, on all ranks. */
  double (*greatest)(void *arg, double value);
} turns_ranks;

/* Microseconds of one `once(arg)`, the same on all ranks. Ranks meet before
 * each batch of calls. */
double turns_measure(const turns_ranks *ranks, void (*once)(void *arg),
                     void *arg);

/* Opens the pipe of a rank; the caller closes it. */
FILE *turns_open(const char *folder, int rank);

/* Reads the next request into `variant`, which has room for 16 bytes, and
 * `bytes`; 0 at the end of the pipe. */
int turns_read(FILE *pipe, char *variant, size_t *bytes);

/* Rank 0 prints the reply. */
void turns_reply(const turns_ranks *ranks, double microseconds);

#endif /* TENON_BENCH_TURNS_H_ */
