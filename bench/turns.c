/* SPDX-License-Identifier: Apache-2.0
 * Requests of comm.py, and the measurement of calls that several processes
 * make together.
 */
#include "turns.h"

#include <stdlib.h>

#include "measure.h"

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Seconds of one of `n` calls on the slowest rank. */
static double time_batch(const turns_ranks *ranks, void (*once)(void *arg),
                         void *arg, int n) {
  ranks->meet(ranks->arg);
  const double begin = measure_now();
  for (int i = 0; i < n; ++i) once(arg);
  return ranks->greatest(ranks->arg, (measure_now() - begin) / n);
}

double turns_measure(const turns_ranks *ranks, void (*once)(void *arg),
                     void *arg) {
  double seconds[TURNS_MOST];
  double spent = 0;
  int n = 0;
  int calls = TURNS_CALLS;
  (void)time_batch(ranks, once, arg, 1);
  const double first = time_batch(ranks, once, arg, 1);
  if (first * calls > TURNS_BATCH) calls = (int)(TURNS_BATCH / first) + 1;
  /* The time of the slowest rank is the same on all: they end together. */
  while (n < TURNS_MOST && (n < TURNS_LEAST || spent < TURNS_SECONDS)) {
    seconds[n] = time_batch(ranks, once, arg, calls);
    spent += seconds[n++] * calls;
  }
  qsort(seconds, (size_t)n, sizeof *seconds, compare_doubles);
  return (seconds[n / 2] + seconds[(n - 1) / 2]) / 2 * 1e6;
}

FILE *turns_open(const char *folder, int rank) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%d", folder, rank);
  FILE *pipe = fopen(path, "r");
  if (!pipe) measure_fail("cannot read requests from %s", path);
  return pipe;
}

int turns_read(FILE *pipe, char *variant, size_t *bytes) {
  return fscanf(pipe, "%15s %zu", variant, bytes) == 2;
}

void turns_reply(const turns_ranks *ranks, double microseconds) {
  if (ranks->rank != 0) return;
  printf("%.3f\n", microseconds);
  (void)fflush(stdout);
}
