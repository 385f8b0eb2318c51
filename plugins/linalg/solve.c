/* SPDX-License-Identifier: Apache-2.0
 * solve.c: the operators of solve.yaml, all by LU factors.
 */
#include "solve.gen.h"

#include "linalg.h"

/* Parts of the scratch memory of one matrix. */
typedef struct solve_scratch {
  void *factors;   /* n x n */
  int32_t *pivots; /* n */
  char *rest;
} solve_scratch;

static uint64_t factor_bytes(const tn_tensor *a) {
  const uint64_t n = (uint64_t)linalg_columns(a);
  return linalg_round(n * n * (uint64_t)tn_dtype_bytes(a->dtype)) +
         linalg_round(n * sizeof(int32_t));
}

static solve_scratch divide_scratch(const linalg_one *one, int64_t n) {
  const uint64_t square =
      linalg_round((uint64_t)(n * n) * (uint64_t)one->loops->bytes);
  char *pivots = one->scratch + square;
  return (solve_scratch){one->scratch, (int32_t *)(void *)pivots,
                         pivots + linalg_round((uint64_t)n * sizeof(int32_t))};
}

/* A task for matrices of n columns; b has m rows. */
static tn_lapack_task describe_task(const tn_frame *call, uint32_t kind,
                                    int64_t n, int64_t m) {
  const int64_t ld = n > 0 ? n : 1;
  return (tn_lapack_task){.struct_size = sizeof(tn_lapack_task),
                          .kind = kind,
                          .dtype = call->out[0].dtype,
                          .m = m,
                          .n = n,
                          .lda = ld,
                          .ldb = ld};
}

/* Factorises matrix `a` in scratch memory. */
static linalg_lu factorise_matrix(const linalg_one *one, const void *a,
                                  int64_t n) {
  const solve_scratch scratch = divide_scratch(one, n);
  tn_lapack_task task = describe_task(one->call, TN_LAPACK_LU, n, n);
  linalg_lu lu = {.n = n, .factors = scratch.factors, .pivots = scratch.pivots};
  if (n == 0) return lu;
  one->loops->square[LINALG_COPY](n, a, lu.factors);
  task.a = lu.factors;
  task.pivots = lu.pivots;
  lu.is_singular = linalg_run(one, &task) > 0;
  return lu;
}

/* Solves for the m rows of b. */
static void solve_rows(const linalg_one *one, const linalg_lu *lu, void *b,
                       int64_t m, uint32_t flags) {
  tn_lapack_task task = describe_task(one->call, TN_LAPACK_LU_SOLVE, lu->n, m);
  task.flags = flags;
  task.a = lu->factors;
  task.pivots = lu->pivots;
  task.b = b;
  (void)linalg_run(one, &task);
}

/* The position from 1 of the first 0 on the diagonal of the factors. */
static int64_t find_zero_pivot(const linalg_one *one, const linalg_lu *lu) {
  const char *at = lu->factors;
  for (int64_t i = 0; i < lu->n; ++i) {
    const char *d = at + (size_t)(i * (lu->n + 1)) * one->loops->bytes;
    const double value = one->loops->bytes == sizeof(float)
                             ? (double)*(const float *)(const void *)d
                             : *(const double *)(const void *)d;
    if (!(value < 0) && !(value > 0)) return i + 1;
  }
  return 1;
}

/* Plans the two tasks of an operator with m right-hand sides for each matrix
 * of `a`, and sets the scratch memory that all operators need. */
static int32_t plan_tasks(const tn_frame *call, const tn_tensor *a, int64_t m,
                          linalg_kernel *kernel) {
  const int64_t n = linalg_columns(a);
  const tn_lapack_task lu = describe_task(call, TN_LAPACK_LU, n, n);
  const tn_lapack_task solve = describe_task(call, TN_LAPACK_LU_SOLVE, n, m);
  const double size = (double)n;
  uint64_t none = 0; /* they need no workspace of their own */
  kernel->scratch = factor_bytes(a);
  kernel->work = size * size * (size + 2 * (double)m) + 1;
  const int32_t code = linalg_plan(call, &lu, &none);
  return code == TN_OK ? linalg_plan(call, &solve, &none) : code;
}

typedef int32_t describe_fn(const tn_frame *call, linalg_kernel *kernel);

static int32_t run_all(const tn_frame *call, const tn_tensor *a,
                       describe_fn *describe) {
  linalg_kernel kernel = {0};
  const int32_t code = describe(call, &kernel);
  return code == TN_OK ? linalg_run_all(call, linalg_count(a, 2), &kernel)
                       : code;
}

static int32_t plan_all(const tn_frame *call, const tn_tensor *a,
                        describe_fn *describe, uint64_t *bytes) {
  linalg_kernel kernel = {0};
  const int32_t code = describe(call, &kernel);
  *bytes = linalg_scratch(linalg_count(a, 2), &kernel);
  return code;
}

/* ----------------------------------------------------------------- inverse */

/* Rows of the inverse solve the transposed equations for rows of I. */
static int64_t step_inverse(const linalg_one *one) {
  const tn_tensor *a = &one->call->in[0];
  const int64_t n = linalg_columns(a);
  void *out = linalg_at(&one->call->out[0], 2, one->i);
  if (n == 0) return 0;
  const linalg_lu lu = factorise_matrix(one, linalg_at(a, 2, one->i), n);
  if (lu.is_singular) return find_zero_pivot(one, &lu);
  one->loops->square[LINALG_IDENTITY](n, NULL, out);
  solve_rows(one, &lu, out, n, TN_LAPACK_TRANSPOSE);
  return 0;
}

static int32_t describe_inverse(const tn_frame *call, linalg_kernel *kernel) {
  const tn_tensor *a = &call->in[0];
  kernel->step = step_inverse;
  kernel->failure = "is singular";
  kernel->place = "pivot";
  return plan_tasks(call, a, linalg_columns(a), kernel);
}

int32_t linalg_inverse(const tn_frame *call) {
  return run_all(call, &call->in[0], describe_inverse);
}

int32_t linalg_inverse_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, &call->in[0], describe_inverse, bytes);
}

/* ------------------------------------------------------------- determinants */

static int64_t step_det(const linalg_one *one) {
  const tn_tensor *a = &one->call->in[0];
  const linalg_lu lu =
      factorise_matrix(one, linalg_at(a, 2, one->i), linalg_columns(a));
  one->loops->det(&lu, linalg_at(&one->call->out[0], 0, one->i));
  return 0;
}

/* in = [gradient of out, a, out], of det_grad as well. Row i of the cofactors
 * is det times column i of the inverse. */
static int64_t step_det_grad(const linalg_one *one) {
  const tn_tensor *a = &one->call->in[1];
  const int64_t n = linalg_columns(a);
  const void *matrix = linalg_at(a, 2, one->i);
  void *out = linalg_at(&one->call->out[0], 2, one->i);
  if (n == 0) return 0;
  const linalg_lu lu = factorise_matrix(one, matrix, n);
  if (!lu.is_singular) {
    one->loops->square[LINALG_IDENTITY](n, NULL, out);
    solve_rows(one, &lu, out, n, 0);
  } else {
    int64_t *places = (int64_t *)(void *)divide_scratch(one, n).rest;
    one->loops->square[LINALG_COPY](n, matrix, lu.factors);
    one->loops->singular_cofactors(n, lu.factors, places, places + 2 * n, out);
  }
  one->loops->scale(lu.is_singular ? NULL : &lu, n,
                    linalg_at(&one->call->in[0], 0, one->i), out);
  return 0;
}

static int32_t describe_det(const tn_frame *call, linalg_kernel *kernel) {
  kernel->step = step_det;
  return plan_tasks(call, &call->in[0], 0, kernel);
}

/* Beside the factors, the cofactors of a singular matrix need 2 n numbers and
 * 2 n elements. */
static int32_t describe_det_grad(const tn_frame *call, linalg_kernel *kernel) {
  const tn_tensor *a = &call->in[1];
  const int64_t n = linalg_columns(a);
  const int32_t code = plan_tasks(call, a, n, kernel);
  kernel->step = step_det_grad;
  kernel->scratch += (uint64_t)n * 2 * (sizeof(int64_t) + sizeof(double));
  return code;
}

int32_t linalg_det(const tn_frame *call) {
  return run_all(call, &call->in[0], describe_det);
}

int32_t linalg_det_grad(const tn_frame *call) {
  return run_all(call, &call->in[1], describe_det_grad);
}

int32_t linalg_det_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, &call->in[1], describe_det_grad, bytes);
}

int32_t linalg_det_bytes(const tn_frame *call, uint64_t *bytes) {
  return call->flags & TN_CALL_BACKWARD
             ? linalg_det_grad_bytes(call, bytes)
             : plan_all(call, &call->in[0], describe_det, bytes);
}

static int64_t step_slogdet(const linalg_one *one) {
  const tn_frame *call = one->call;
  const tn_tensor *a = &call->in[0];
  const linalg_lu lu =
      factorise_matrix(one, linalg_at(a, 2, one->i), linalg_columns(a));
  double unused[2];
  void *sign = linalg_at(&call->out[0], 0, one->i);
  void *logarithm = linalg_at(&call->out[1], 0, one->i);
  one->loops->slogdet(&lu, sign ? sign : &unused[0],
                      logarithm ? logarithm : &unused[1]);
  return 0;
}

static int32_t describe_slogdet(const tn_frame *call, linalg_kernel *kernel) {
  kernel->step = step_slogdet;
  return plan_tasks(call, &call->in[0], 0, kernel);
}

int32_t linalg_slogdet(const tn_frame *call) {
  return run_all(call, &call->in[0], describe_slogdet);
}

int32_t linalg_slogdet_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, &call->in[0], describe_slogdet, bytes);
}

/* ------------------------------------------------------------------- solve */

/* Right-hand sides are columns, and tasks have rows: a single column is both.
 */
static int64_t step_solve(const linalg_one *one) {
  const tn_frame *call = one->call;
  const int64_t n = linalg_columns(&call->in[0]);
  const int64_t k = linalg_columns(&call->out[0]);
  const void *b = linalg_at(&call->in[1], 2, one->i);
  void *out = linalg_at(&call->out[0], 2, one->i);
  if (n == 0) return 0;
  const linalg_lu lu =
      factorise_matrix(one, linalg_at(&call->in[0], 2, one->i), n);
  if (lu.is_singular) return find_zero_pivot(one, &lu);
  if (k == 0) return 0;
  void *rows = k == 1 ? out : divide_scratch(one, n).rest;
  one->loops->transpose(n, k, b, rows);
  solve_rows(one, &lu, rows, k, 0);
  if (k > 1) one->loops->transpose(k, n, rows, out);
  return 0;
}

static int32_t describe_solve(const tn_frame *call, linalg_kernel *kernel) {
  const int64_t k = linalg_columns(&call->out[0]);
  const int64_t n = linalg_columns(&call->in[0]);
  const int32_t code = plan_tasks(call, &call->in[0], k, kernel);
  kernel->step = step_solve;
  kernel->failure = "is singular";
  kernel->place = "pivot";
  if (k > 1)
    kernel->scratch +=
        (uint64_t)(n * k) * (uint64_t)tn_dtype_bytes(call->out[0].dtype);
  return code;
}

int32_t linalg_solve(const tn_frame *call) {
  return run_all(call, &call->in[0], describe_solve);
}

int32_t linalg_solve_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, &call->in[0], describe_solve, bytes);
}
