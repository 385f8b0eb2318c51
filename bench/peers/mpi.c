/* SPDX-License-Identifier: Apache-2.0
 * All_reduce of MPI, called directly, as turns.h requests it:
 *
 *   direct BYTES   MPI_Allreduce
 *   later BYTES    MPI_Iallreduce and MPI_Wait
 *   message BYTES  ranks 0 and 1 send each other a message at once
 *
 * The argument is the folder of the pipes.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "../measure.h"
#include "../turns.h"

typedef struct subject {
  float *data;
  float *sum;
  int n;
  int rank;
} subject;

static void must_succeed(int code) {
  if (code != MPI_SUCCESS) measure_fail("MPI returned %d", code);
}

static void call_direct(void *arg) {
  const subject *s = arg;
  must_succeed(
      MPI_Allreduce(s->data, s->sum, s->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
}

static void call_later(void *arg) {
  const subject *s = arg;
  MPI_Request request;
  must_succeed(MPI_Iallreduce(s->data, s->sum, s->n, MPI_FLOAT, MPI_SUM,
                              MPI_COMM_WORLD, &request));
  must_succeed(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void exchange_messages(void *arg) {
  const subject *s = arg;
  const int other = 1 - s->rank;
  if (s->rank > 1) return;
  must_succeed(MPI_Sendrecv(s->data, s->n, MPI_FLOAT, other, 0, s->sum, s->n,
                            MPI_FLOAT, other, 0, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE));
}

static void meet_ranks(void *arg) {
  (void)arg;
  must_succeed(MPI_Barrier(MPI_COMM_WORLD));
}

static double find_greatest(void *arg, double value) {
  double greatest = 0;
  (void)arg;
  must_succeed(
      MPI_Allreduce(&value, &greatest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  return greatest;
}

/* Fails if a sum of ones is not the number of ranks. */
static void check_sum(const subject *s, int ranks) {
  for (int i = 0; i < s->n; ++i)
    if (s->sum[i] != (float)ranks)
      measure_fail("mpi: sum %d is %g instead of %d", i, (double)s->sum[i],
                   ranks);
}

static double answer_request(const turns_ranks *ranks, const char *variant,
                             subject *s, int size) {
  double us = 0;
  if (strcmp(variant, "message") == 0)
    return turns_measure(ranks, exchange_messages, s);
  if (strcmp(variant, "direct") == 0)
    us = turns_measure(ranks, call_direct, s);
  else if (strcmp(variant, "later") == 0)
    us = turns_measure(ranks, call_later, s);
  else
    measure_fail("mpi: no variant '%s'; there are direct, later and message",
                 variant);
  check_sum(s, size);
  return us;
}

int main(int argc, char **argv) {
  turns_ranks ranks = {.meet = meet_ranks, .greatest = find_greatest};
  char variant[16];
  size_t bytes = 0;
  int size = 0;
  must_succeed(MPI_Init(&argc, &argv));
  must_succeed(MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank));
  must_succeed(MPI_Comm_size(MPI_COMM_WORLD, &size));
  if (argc != 2) measure_fail("usage: mpirun -n N mpi FOLDER");
  FILE *pipe = turns_open(argv[1], ranks.rank);
  while (turns_read(pipe, variant, &bytes)) {
    const int n = (int)(bytes / sizeof(float));
    subject s = {measure_floats(n), measure_floats(n), n, ranks.rank};
    for (int i = 0; i < n; ++i) s.data[i] = 1;
    turns_reply(&ranks, answer_request(&ranks, variant, &s, size));
    free(s.data);
    free(s.sum);
  }
  (void)fclose(pipe);
  must_succeed(MPI_Finalize());
  return 0;
}
