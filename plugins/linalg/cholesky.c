/* SPDX-License-Identifier: Apache-2.0
 * cholesky.c: the operators of cholesky.yaml. Tasks have lower triangles only,
 * so an upper one is transposed before and after.
 */
#include "cholesky.gen.h"

#include <string.h>

#include "linalg.h"

/* The task of one matrix, without an address. */
static tn_lapack_task describe_task(const tn_frame *call, uint32_t kind) {
  const int64_t n = linalg_columns(&call->out[0]);
  return (tn_lapack_task){.struct_size = sizeof(tn_lapack_task),
                          .kind = kind,
                          .dtype = call->out[0].dtype,
                          .n = n,
                          .lda = n > 0 ? n : 1};
}

/* Computes one matrix in the memory of out. */
static int64_t run_lower(const linalg_one *one, uint32_t kind) {
  tn_lapack_task task = describe_task(one->call, kind);
  const void *a = linalg_at(&one->call->in[0], 2, one->i);
  if (task.n == 0) return 0;
  task.a = linalg_at(&one->call->out[0], 2, one->i);
  if (task.a != a) one->loops->square[LINALG_COPY](task.n, a, task.a);
  return linalg_run(one, &task);
}

/* The same of an upper triangle, in scratch memory. */
static int64_t run_upper(const linalg_one *one, uint32_t kind) {
  tn_lapack_task task = describe_task(one->call, kind);
  if (task.n == 0) return 0;
  task.a = one->scratch;
  one->loops->square[LINALG_TRANSPOSE](
      task.n, linalg_at(&one->call->in[0], 2, one->i), task.a);
  const int64_t failed = linalg_run(one, &task);
  one->loops->square[LINALG_TRANSPOSE](
      task.n, task.a, linalg_at(&one->call->out[0], 2, one->i));
  return failed;
}

static int64_t step_factor_lower(const linalg_one *one) {
  return run_lower(one, TN_LAPACK_CHOLESKY);
}

static int64_t step_factor_upper(const linalg_one *one) {
  return run_upper(one, TN_LAPACK_CHOLESKY);
}

static int64_t step_inverse_lower(const linalg_one *one) {
  return run_lower(one, TN_LAPACK_CHOLESKY_INVERSE);
}

static int64_t step_inverse_upper(const linalg_one *one) {
  return run_upper(one, TN_LAPACK_CHOLESKY_INVERSE);
}

static linalg_kernel describe_factor(const tn_frame *call, int is_lower) {
  const double n = (double)linalg_columns(&call->out[0]);
  const uint64_t size = (uint64_t)linalg_columns(&call->out[0]);
  const uint64_t bytes = (uint64_t)tn_dtype_bytes(call->out[0].dtype);
  return (linalg_kernel){
      .step = is_lower ? step_factor_lower : step_factor_upper,
      .scratch = is_lower ? 0 : size * size * bytes,
      .work = n * n * n / 3 + 1,
      .failure = "is not positive definite",
      .place = "leading minor"};
}

static linalg_kernel describe_inverse(const tn_frame *call, int is_lower) {
  linalg_kernel kernel = describe_factor(call, is_lower);
  kernel.step = is_lower ? step_inverse_lower : step_inverse_upper;
  kernel.failure = "has a 0 on the diagonal";
  kernel.place = "row";
  return kernel;
}

static int32_t run_all(const tn_frame *call, const linalg_kernel *kernel) {
  return linalg_run_all(call, linalg_count(&call->out[0], 2), kernel);
}

static int32_t plan_all(const tn_frame *call, uint32_t kind,
                        const linalg_kernel *kernel, uint64_t *bytes) {
  const tn_lapack_task task = describe_task(call, kind);
  uint64_t none = 0; /* the task needs no workspace of its own */
  *bytes = linalg_scratch(linalg_count(&call->out[0], 2), kernel);
  return linalg_plan(call, &task, &none);
}

/* ------------------------------------------------------------------- calls */

static int is_lower_potrf(const tn_frame *call) {
  return linalg_potrf_params_of(call)->lower != 0;
}

static int is_lower_potri(const tn_frame *call) {
  return linalg_potri_params_of(call)->lower != 0;
}

int32_t linalg_potrf(const tn_frame *call) {
  const linalg_kernel kernel = describe_factor(call, is_lower_potrf(call));
  return run_all(call, &kernel);
}

int32_t linalg_potrf_bytes(const tn_frame *call, uint64_t *bytes) {
  const linalg_kernel kernel = describe_factor(call, is_lower_potrf(call));
  return plan_all(call, TN_LAPACK_CHOLESKY, &kernel, bytes);
}

int32_t linalg_cholesky(const tn_frame *call) {
  const linalg_kernel kernel = describe_factor(call, 1);
  return run_all(call, &kernel);
}

int32_t linalg_cholesky_bytes(const tn_frame *call, uint64_t *bytes) {
  const linalg_kernel kernel = describe_factor(call, 1);
  return plan_all(call, TN_LAPACK_CHOLESKY, &kernel, bytes);
}

int32_t linalg_potri(const tn_frame *call) {
  const linalg_kernel kernel = describe_inverse(call, is_lower_potri(call));
  return run_all(call, &kernel);
}

int32_t linalg_potri_bytes(const tn_frame *call, uint64_t *bytes) {
  const linalg_kernel kernel = describe_inverse(call, is_lower_potri(call));
  return plan_all(call, TN_LAPACK_CHOLESKY_INVERSE, &kernel, bytes);
}
