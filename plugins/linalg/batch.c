/* SPDX-License-Identifier: Apache-2.0
 * batch.c: runs the matrices of a batch on the host's workers, and gives each
 * task to loops.h or to lapack/1.
 */
#include "linalg.h"

enum {
  UNITS = 16,     /* parts of a batch, at most */
  PLAIN_EDGE = 16 /* longest edge for loops.h if there is lapack/1: a call of
                   * LAPACK takes longer */
};

/* Operations of the smallest batch that is divided. */
static const double divided_work = 1 << 18;

/* ---------------------------------------------------------------- operands */

int64_t linalg_count(const tn_tensor *tensor, int32_t n) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor->ndim - n; ++d) count *= tensor->shape[d];
  return count;
}

/* Bytes of the last n dimensions. */
static int64_t count_bytes(const tn_tensor *tensor, int32_t n) {
  int64_t bytes = tn_dtype_bytes(tensor->dtype);
  for (int32_t d = tensor->ndim - n; d < tensor->ndim; ++d)
    bytes *= tensor->shape[d];
  return bytes;
}

void *linalg_at(const tn_tensor *tensor, int32_t n, int64_t i) {
  return tensor->data ? (char *)tensor->data + i * count_bytes(tensor, n)
                      : NULL;
}

uint64_t linalg_spare_bytes(const tn_frame *call, uint32_t k, int32_t n) {
  return call->req[k] == TN_REQ_NULL
             ? linalg_round((uint64_t)count_bytes(&call->out[k], n))
             : 0;
}

void *linalg_spare_at(const linalg_one *one, uint32_t k, int32_t n, char **at) {
  const uint64_t bytes = linalg_spare_bytes(one->call, k, n);
  char *here = *at;
  if (bytes == 0) return linalg_at(&one->call->out[k], n, one->i);
  *at += bytes;
  return here;
}

int64_t linalg_rows(const tn_tensor *tensor) {
  return tensor->shape[tensor->ndim - 2];
}

int64_t linalg_columns(const tn_tensor *tensor) {
  return tensor->shape[tensor->ndim - 1];
}

/* ------------------------------------------------------------------- tasks */

static const linalg_instance *get_instance(const tn_frame *call) {
  return call->instance;
}

/* Whether loops.h computes a task. */
static int is_small(const tn_frame *call, const tn_lapack_task *task) {
  const int fits = task->n <= PLAIN_EDGE && task->m <= PLAIN_EDGE;
  return linalg_is_plain(task->kind) && (fits || !get_instance(call)->lapack);
}

int32_t linalg_plan(const tn_frame *call, const tn_lapack_task *task,
                    uint64_t *bytes) {
  const tn_lapack *lapack = get_instance(call)->lapack;
  uint64_t more = 0;
  if (is_small(call, task)) return TN_OK;
  if (!lapack)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "no plugin provides " TN_LAPACK_EXTENSION);
  const int32_t code = lapack->plan(lapack, call, task, &more);
  *bytes += linalg_round(more);
  return code;
}

int64_t linalg_run(const linalg_one *one, const tn_lapack_task *task) {
  const tn_lapack *lapack = get_instance(one->call)->lapack;
  return is_small(one->call, task) ? one->loops->run(task)
                                   : lapack->run(lapack, task);
}

/* ----------------------------------------------------------------- batches */

/* The first matrix of a unit that has no result; `why` 0: there is none. */
typedef struct failure {
  int64_t matrix;
  int64_t why;
} failure;

typedef struct batch {
  const tn_frame *call;
  const linalg_kernel *kernel;
  const linalg_loops *loops;
  int64_t count;
  int64_t units;
  uint64_t scratch; /* bytes of a unit */
  failure failures[UNITS];
} batch;

static int64_t count_units(int64_t count, const linalg_kernel *kernel) {
  if (count < 2 || (double)count * kernel->work < divided_work) return 1;
  return count < UNITS ? count : UNITS;
}

uint64_t linalg_scratch(int64_t count, const linalg_kernel *kernel) {
  return linalg_round(kernel->scratch) * (uint64_t)count_units(count, kernel);
}

/* Computes the matrices of a unit; all of them, so that the failure that is
 * reported does not depend on the number of workers. */
static int32_t run_unit(batch *b, int64_t unit) {
  const int64_t begin = b->count * unit / b->units;
  const int64_t end = b->count * (unit + 1) / b->units;
  linalg_one one = {.call = b->call, .loops = b->loops};
  if (b->scratch > 0)
    one.scratch = (char *)b->call->ws[0] + (uint64_t)unit * b->scratch;
  for (int64_t i = begin; i < end; ++i) {
    one.i = i;
    const int64_t why = b->kernel->step(&one);
    if (why < 0) return (int32_t)why;
    if (why > 0 && b->failures[unit].why == 0)
      b->failures[unit] = (failure){i, why};
  }
  return TN_OK;
}

static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  int32_t code = TN_OK;
  for (int64_t unit = begin; unit < end && code == TN_OK; ++unit)
    code = run_unit((batch *)arg, unit);
  return code;
}

int32_t linalg_run_all(const tn_frame *call, int64_t count,
                       const linalg_kernel *kernel) {
  batch b = {.call = call,
             .kernel = kernel,
             .loops = linalg_loops_of(call->out[0].dtype),
             .count = count,
             .units = count_units(count, kernel),
             .scratch = linalg_round(kernel->scratch)};
  const int32_t code =
      b.units == 1 ? run_slice(&b, 0, 1)
                   : call->host->parallel_for(call, b.units, 1, run_slice, &b);
  if (code != TN_OK) return code;
  for (int64_t unit = 0; unit < b.units; ++unit)
    if (b.failures[unit].why > 0 && kernel->failure)
      return TN_FAIL(call, TN_INVALID, "matrix %lld of `a` %s (%s %lld)",
                     (long long)b.failures[unit].matrix, kernel->failure,
                     kernel->place, (long long)b.failures[unit].why);
  return TN_OK;
}
