/* SPDX-License-Identifier: Apache-2.0
 * spectral.c: the operators of spectral.yaml, by lapack/1.
 */
#include "spectral.gen.h"

#include <string.h>

#include "linalg.h"

static int64_t at_least_one(int64_t n) {
  return n > 0 ? n : 1;
}

/* Bytes of one matrix of an input. */
static size_t input_bytes(const linalg_one *one) {
  const tn_tensor *a = &one->call->in[0];
  return (size_t)(linalg_rows(a) * linalg_columns(a)) * one->loops->bytes;
}

/* A kernel that a function of the call describes; it fails if lapack/1 refuses
 * the sizes. */
typedef int32_t describe_fn(const tn_frame *call, linalg_kernel *kernel);

static int32_t run_all(const tn_frame *call, describe_fn *describe) {
  linalg_kernel kernel;
  const int32_t code = describe(call, &kernel);
  return code == TN_OK
             ? linalg_run_all(call, linalg_count(&call->in[0], 2), &kernel)
             : code;
}

static int32_t plan_all(const tn_frame *call, describe_fn *describe,
                        uint64_t *bytes) {
  linalg_kernel kernel;
  const int32_t code = describe(call, &kernel);
  *bytes = linalg_scratch(linalg_count(&call->in[0], 2), &kernel);
  return code;
}

/* ------------------------------------------------------------------- syevd */

static tn_lapack_task describe_eigen(const tn_frame *call) {
  const int64_t n = linalg_columns(&call->in[0]);
  return (tn_lapack_task){.struct_size = sizeof(tn_lapack_task),
                          .kind = TN_LAPACK_EIGEN,
                          .dtype = call->out[0].dtype,
                          .n = n,
                          .lda = at_least_one(n)};
}

static int64_t step_syevd(const linalg_one *one) {
  tn_lapack_task task = describe_eigen(one->call);
  char *spare = one->scratch;
  if (task.n == 0) return 0;
  task.a = linalg_spare_at(one, 0, 2, &spare);
  task.values = linalg_spare_at(one, 1, 1, &spare);
  task.ws = spare;
  memcpy(task.a, linalg_at(&one->call->in[0], 2, one->i), input_bytes(one));
  const int64_t failed = linalg_run(one, &task);
  one->loops->choose_signs(&(linalg_signs){.n = task.n,
                                           .length = task.n,
                                           .step = 1,
                                           .next = task.n,
                                           .vectors = task.a});
  return failed;
}

static int32_t describe_syevd(const tn_frame *call, linalg_kernel *kernel) {
  const tn_lapack_task task = describe_eigen(call);
  const double n = (double)task.n;
  *kernel = (linalg_kernel){.step = step_syevd,
                            .scratch = linalg_spare_bytes(call, 0, 2) +
                                       linalg_spare_bytes(call, 1, 1),
                            .work = 9 * n * n * n + 1,
                            .failure = "has eigenvalues that did not converge",
                            .place = "LAPACK's number"};
  return linalg_plan(call, &task, &kernel->scratch);
}

int32_t linalg_syevd(const tn_frame *call) {
  return run_all(call, describe_syevd);
}

int32_t linalg_syevd_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, describe_syevd, bytes);
}

/* --------------------------------------------------------------------- svd */

static tn_lapack_task describe_values(const tn_frame *call) {
  const int64_t m = linalg_rows(&call->in[0]);
  const int64_t n = linalg_columns(&call->in[0]);
  return (tn_lapack_task){.struct_size = sizeof(tn_lapack_task),
                          .kind = TN_LAPACK_SVD,
                          .dtype = call->out[0].dtype,
                          .m = m,
                          .n = n,
                          .lda = at_least_one(n),
                          .ldb = at_least_one(m < n ? m : n),
                          .ldc = at_least_one(n)};
}

static int64_t step_svd(const linalg_one *one) {
  tn_lapack_task task = describe_values(one->call);
  const int64_t k = task.m < task.n ? task.m : task.n;
  const size_t bytes = input_bytes(one);
  char *spare = one->scratch;
  if (k == 0) return 0;
  task.a = spare;
  spare += linalg_round(bytes);
  task.b = linalg_spare_at(one, 0, 2, &spare);
  task.values = linalg_spare_at(one, 1, 1, &spare);
  task.c = linalg_spare_at(one, 2, 2, &spare);
  task.ws = spare;
  memcpy(task.a, linalg_at(&one->call->in[0], 2, one->i), bytes);
  const int64_t failed = linalg_run(one, &task);
  one->loops->choose_signs(&(linalg_signs){.n = k,
                                           .length = task.m,
                                           .step = k,
                                           .next = 1,
                                           .vectors = task.b,
                                           .length_2 = task.n,
                                           .vectors_2 = task.c});
  return failed;
}

static int32_t describe_svd(const tn_frame *call, linalg_kernel *kernel) {
  const tn_lapack_task task = describe_values(call);
  const double m = (double)task.m, n = (double)task.n;
  const uint64_t bytes = (uint64_t)tn_dtype_bytes(task.dtype);
  *kernel = (linalg_kernel){
      .step = step_svd,
      .scratch = linalg_round((uint64_t)task.m * (uint64_t)task.n * bytes) +
                 linalg_spare_bytes(call, 0, 2) +
                 linalg_spare_bytes(call, 1, 1) +
                 linalg_spare_bytes(call, 2, 2),
      .work = 14 * m * n * (m < n ? m : n) + 1,
      .failure = "has singular values that did not converge",
      .place = "LAPACK's number"};
  return linalg_plan(call, &task, &kernel->scratch);
}

int32_t linalg_svd(const tn_frame *call) {
  return run_all(call, describe_svd);
}

int32_t linalg_svd_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, describe_svd, bytes);
}

/* --------------------------------------------------------- outside a space */

static linalg_factor find_factor(const linalg_one *one, uint32_t k) {
  const tn_tensor *in = &one->call->in[k];
  return (linalg_factor){linalg_at(in, 2, one->i), linalg_rows(in),
                         linalg_columns(in), 0};
}

/* Copies x to out. Returns 0 if out has no elements, or is cleared because the
 * basis is square. */
static int begin_outside(const linalg_one *one, linalg_factor basis,
                         linalg_factor x) {
  void *out = linalg_at(&one->call->out[0], 2, one->i);
  const size_t bytes = (size_t)(x.rows * x.columns) * one->loops->bytes;
  if (bytes == 0) return 0;
  if (basis.rows == basis.columns) {
    memset(out, 0, bytes);
    return 0;
  }
  memcpy(out, x.at, bytes);
  return 1;
}

/* x - basis * (basis^T * x) */
static int64_t step_outside_columns(const linalg_one *one) {
  const linalg_factor basis = find_factor(one, 0), x = find_factor(one, 1);
  linalg_factor basis_t = basis;
  const linalg_factor inside = {one->scratch, basis.columns, x.columns, 0};
  void *out = linalg_at(&one->call->out[0], 2, one->i);
  basis_t.transpose = 1;
  if (!begin_outside(one, basis, x)) return TN_OK;
  const int32_t code =
      linalg_multiply(one, basis_t, x, (linalg_target){one->scratch, 1, 0});
  return code == TN_OK
             ? linalg_multiply(one, basis, inside, (linalg_target){out, -1, 1})
             : code;
}

/* x - (x * basis^T) * basis */
static int64_t step_outside_rows(const linalg_one *one) {
  const linalg_factor basis = find_factor(one, 0), x = find_factor(one, 1);
  linalg_factor basis_t = basis;
  const linalg_factor inside = {one->scratch, x.rows, basis.rows, 0};
  void *out = linalg_at(&one->call->out[0], 2, one->i);
  basis_t.transpose = 1;
  if (!begin_outside(one, basis, x)) return TN_OK;
  const int32_t code =
      linalg_multiply(one, x, basis_t, (linalg_target){one->scratch, 1, 0});
  return code == TN_OK
             ? linalg_multiply(one, inside, basis, (linalg_target){out, -1, 1})
             : code;
}

/* Rows of the product in scratch memory are at most those of the basis, and so
 * are its columns. */
static int32_t describe_outside(const tn_frame *call, linalg_step *step,
                                linalg_kernel *kernel) {
  const tn_tensor *basis = &call->in[0], *x = &call->in[1];
  const int by_columns = step == step_outside_columns;
  const int64_t k = by_columns ? linalg_columns(basis) : linalg_rows(basis);
  const int64_t n = by_columns ? linalg_columns(x) : linalg_rows(x);
  *kernel =
      (linalg_kernel){.step = step,
                      .scratch = (uint64_t)(k * n * tn_dtype_bytes(x->dtype)),
                      .work = 4 * (double)k * (double)linalg_rows(x) *
                                  (double)linalg_columns(x) +
                              1};
  return TN_OK;
}

static int32_t describe_outside_columns(const tn_frame *call,
                                        linalg_kernel *kernel) {
  return describe_outside(call, step_outside_columns, kernel);
}

static int32_t describe_outside_rows(const tn_frame *call,
                                     linalg_kernel *kernel) {
  return describe_outside(call, step_outside_rows, kernel);
}

int32_t linalg_outside_columns(const tn_frame *call) {
  return run_all(call, describe_outside_columns);
}

int32_t linalg_outside_columns_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, describe_outside_columns, bytes);
}

int32_t linalg_outside_rows(const tn_frame *call) {
  return run_all(call, describe_outside_rows);
}

int32_t linalg_outside_rows_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, describe_outside_rows, bytes);
}
