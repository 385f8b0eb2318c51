/* SPDX-License-Identifier: Apache-2.0
 * local_compute.c: computes the calls of all ranks at one position. A result
 * may be in the memory of the input of the same rank.
 */
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "local.h"

enum { GRAIN = 1 << 15 }; /* elements of a slice */

/* ------------------------------------------------------------- combinations */

static int32_t combine_slice(void *arg, int64_t begin, int64_t end) {
  comm_combine(arg, begin, end);
  return TN_OK;
}

static void combine_elements(const comm_combination *c, int64_t n,
                             const tn_frame *worker) {
  comm_combination copy = *c;
  if (n <= 2 * GRAIN || !worker ||
      worker->host->parallel_for(worker, n, GRAIN, combine_slice, &copy) !=
          TN_OK)
    comm_combine(c, 0, n);
}

/* Elements [at, at + n) of array `piece` of all ranks. Rank `to` gets the
 * result; -1: all ranks do. */
typedef struct part {
  uint32_t piece;
  int32_t to;
  int64_t at;
  int64_t n;
} part;

static void combine_arrays(comm_task *const *tasks, int32_t n_ranks,
                           const part *p, const tn_frame *worker) {
  const comm_task *first = tasks[0];
  const char *in[LOCAL_RANKS];
  char *out[LOCAL_RANKS];
  const int64_t bytes = tn_dtype_bytes(first->dtype);
  int32_t n_out = 0;
  if (p->n == 0) return;
  for (int32_t r = 0; r < n_ranks; ++r) {
    in[r] = (const char *)tasks[r]->pieces[p->piece].in + p->at * bytes;
    if (p->to < 0 || p->to == r) out[n_out++] = tasks[r]->pieces[p->piece].out;
  }
  const comm_combination c = {
      .arithmetic = comm_arithmetic_of(first->call, first->dtype),
      .bytes = bytes,
      .op = first->op,
      .n_in = n_ranks,
      .n_out = n_out,
      .in = in,
      .out = out};
  combine_elements(&c, p->n, worker);
}

static void clear_others(comm_task *const *tasks, int32_t n, int32_t root) {
  for (int32_t r = 0; r < n; ++r) {
    const comm_piece *p = tasks[r]->pieces;
    if (r != root && p->out)
      memset(p->out, 0, (size_t)(p->n_out * tn_dtype_bytes(tasks[r]->dtype)));
  }
}

static void compute_reductions(comm_task *const *tasks, int32_t n,
                               const tn_frame *worker) {
  const comm_task *t = tasks[0];
  if (t->kind == COMM_ALL_REDUCE) {
    for (uint32_t k = 0; k < t->n; ++k)
      combine_arrays(tasks, n, &(part){k, -1, 0, t->pieces[k].n_in}, worker);
  } else if (t->kind == COMM_REDUCE_SCATTER) {
    const int64_t each = t->pieces->n_out;
    for (int32_t r = 0; r < n; ++r)
      combine_arrays(tasks, n, &(part){0, r, r * each, each}, worker);
  } else {
    combine_arrays(tasks, n, &(part){0, t->peer, 0, t->pieces->n_in}, worker);
    clear_others(tasks, n, t->peer);
  }
}

/* ---------------------------------------------------------------- exchanges */

static void copy_bytes(void *to, const void *from, int64_t bytes) {
  if (to && to != from && bytes > 0) memcpy(to, from, (size_t)bytes);
}

static void gather_parts(comm_task *const *tasks, int32_t n) {
  const int64_t bytes =
      tasks[0]->pieces->n_in * tn_dtype_bytes(tasks[0]->dtype);
  for (int32_t r = 0; r < n; ++r)
    for (int32_t from = 0; from < n && tasks[r]->pieces->out; ++from)
      copy_bytes((char *)tasks[r]->pieces->out + from * bytes,
                 tasks[from]->pieces->in, bytes);
}

static void copy_root(comm_task *const *tasks, int32_t n) {
  const comm_piece *root = tasks[tasks[0]->peer]->pieces;
  for (int32_t r = 0; r < n; ++r)
    copy_bytes(tasks[r]->pieces->out, root->in,
               root->n_in * tn_dtype_bytes(tasks[r]->dtype));
}

static void exchange_parts(comm_task *const *tasks, int32_t n) {
  const int64_t bytes =
      tasks[0]->pieces->n_in / n * tn_dtype_bytes(tasks[0]->dtype);
  for (int32_t r = 0; r < n; ++r)
    for (int32_t from = 0; from < n && tasks[r]->pieces->out; ++from)
      copy_bytes((char *)tasks[r]->pieces->out + from * bytes,
                 (const char *)tasks[from]->pieces->in + r * bytes, bytes);
}

static void count_ranks(comm_task *const *tasks, int32_t n) {
  for (int32_t r = 0; r < n; ++r)
    if (tasks[r]->pieces->out) *(int64_t *)tasks[r]->pieces->out = n;
}

/* The gradient of a mean divides. */
static void divide_results(comm_task *const *tasks, int32_t n) {
  const comm_task *first = tasks[0];
  const comm_arithmetic *a = comm_arithmetic_of(first->call, first->dtype);
  if (first->op != COMM_MEAN || !a->divide) return;
  for (int32_t r = 0; r < n; ++r)
    if (tasks[r]->pieces->out)
      comm_divide(first->call, first->dtype, tasks[r]->pieces->out,
                  tasks[r]->pieces->n_out, n);
}

void local_compute(comm_task *const *tasks, int32_t n, const tn_frame *worker) {
  switch (tasks[0]->kind) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE_SCATTER:
    case COMM_REDUCE:
      compute_reductions(tasks, n, worker);
      break;
    case COMM_ALL_GATHER:
      gather_parts(tasks, n);
      divide_results(tasks, n);
      break;
    case COMM_BROADCAST:
      copy_root(tasks, n);
      divide_results(tasks, n);
      break;
    case COMM_ALL_TO_ALL:
      exchange_parts(tasks, n);
      break;
    default:
      count_ranks(tasks, n);
      break;
  }
}
