/* SPDX-License-Identifier: Apache-2.0
 * orthogonal.c: the operators of orthogonal.yaml, by lapack/1.
 */
#include "orthogonal.gen.h"

#include <string.h>

#include "linalg.h"

/* The task of one matrix, without addresses. */
static tn_lapack_task describe_task(const tn_frame *call, uint32_t kind) {
  const int64_t columns = linalg_columns(&call->out[0]);
  const int64_t side = linalg_columns(&call->out[1]);
  return (tn_lapack_task){.struct_size = sizeof(tn_lapack_task),
                          .kind = kind,
                          .dtype = call->out[0].dtype,
                          .m = linalg_rows(&call->out[0]),
                          .n = columns,
                          .lda = columns > 0 ? columns : 1,
                          .ldb = side > 0 ? side : 1};
}

/* Bytes of the scratch memory before the workspace of the task. */
static uint64_t count_spare(const tn_frame *call) {
  return linalg_spare_bytes(call, 0, 2) + linalg_spare_bytes(call, 1, 2);
}

static int64_t factorise_matrix(const linalg_one *one, uint32_t kind) {
  tn_lapack_task task = describe_task(one->call, kind);
  const size_t bytes = (size_t)(task.m * task.n) * one->loops->bytes;
  char *spare = one->scratch;
  if (bytes == 0) return 0;
  task.a = linalg_spare_at(one, 0, 2, &spare);
  task.b = linalg_spare_at(one, 1, 2, &spare);
  task.ws = spare;
  memcpy(task.a, linalg_at(&one->call->in[0], 2, one->i), bytes);
  return linalg_run(one, &task);
}

static int64_t step_lq(const linalg_one *one) {
  return factorise_matrix(one, TN_LAPACK_LQ);
}

static int64_t step_qr(const linalg_one *one) {
  return factorise_matrix(one, TN_LAPACK_QR);
}

static int32_t describe_kernel(const tn_frame *call, uint32_t kind,
                               linalg_kernel *kernel) {
  const tn_lapack_task task = describe_task(call, kind);
  const double m = (double)task.m, n = (double)task.n;
  *kernel = (linalg_kernel){.step = kind == TN_LAPACK_LQ ? step_lq : step_qr,
                            .scratch = count_spare(call),
                            .work = 4 * m * n * (m < n ? m : n) + 1};
  return linalg_plan(call, &task, &kernel->scratch);
}

static int32_t run_all(const tn_frame *call, uint32_t kind) {
  linalg_kernel kernel;
  const int32_t code = describe_kernel(call, kind, &kernel);
  return code == TN_OK
             ? linalg_run_all(call, linalg_count(&call->out[0], 2), &kernel)
             : code;
}

static int32_t plan_all(const tn_frame *call, uint32_t kind, uint64_t *bytes) {
  linalg_kernel kernel;
  const int32_t code = describe_kernel(call, kind, &kernel);
  *bytes = linalg_scratch(linalg_count(&call->out[0], 2), &kernel);
  return code;
}

int32_t linalg_gelqf(const tn_frame *call) {
  return run_all(call, TN_LAPACK_LQ);
}

int32_t linalg_gelqf_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, TN_LAPACK_LQ, bytes);
}

int32_t linalg_qr(const tn_frame *call) {
  return run_all(call, TN_LAPACK_QR);
}

int32_t linalg_qr_bytes(const tn_frame *call, uint64_t *bytes) {
  return plan_all(call, TN_LAPACK_QR, bytes);
}
