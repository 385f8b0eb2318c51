/* SPDX-License-Identifier: Apache-2.0
 * triangular.c: the operators of triangular.yaml.
 */
#include "triangular.gen.h"

#include <string.h>

#include "linalg.h"

/* The parameters of any of the operators. */
typedef struct triangular_params {
  uint32_t kind;
  uint32_t flags; /* TN_LAPACK_* */
  double alpha;
} triangular_params;

/* Reads the parameters of an operator, all of which have the same names. */
#define READ(p, which, inverts)                                             \
  (triangular_params) {                                                     \
    .kind = (which),                                                        \
    .flags =                                                                \
        (((p)->transpose != 0) != (inverts) ? (uint32_t)TN_LAPACK_TRANSPOSE \
                                            : 0u) |                         \
        ((p)->rightside ? (uint32_t)TN_LAPACK_RIGHT : 0u) |                 \
        ((p)->lower ? 0u : (uint32_t)TN_LAPACK_UPPER),                      \
    .alpha = (p)->alpha                                                     \
  }

static triangular_params read_trmm(const tn_frame *call) {
  return READ(linalg_trmm_params_of(call), TN_LAPACK_TRIANGULAR_PRODUCT, 0);
}

static triangular_params read_trmm_back(const tn_frame *call) {
  return READ(linalg_trmm_back_params_of(call), TN_LAPACK_TRIANGULAR_PRODUCT,
              1);
}

static triangular_params read_trsm(const tn_frame *call) {
  return READ(linalg_trsm_params_of(call), TN_LAPACK_TRIANGULAR_SOLVE, 0);
}

static triangular_params read_trsm_back(const tn_frame *call) {
  return READ(linalg_trsm_back_params_of(call), TN_LAPACK_TRIANGULAR_SOLVE, 1);
}

/* The task of one matrix, without addresses. */
static tn_lapack_task describe_task(const tn_frame *call,
                                    const triangular_params *p) {
  const int64_t n = linalg_columns(&call->in[0]);
  const int64_t columns = linalg_columns(&call->out[0]);
  return (tn_lapack_task){.struct_size = sizeof(tn_lapack_task),
                          .kind = p->kind,
                          .dtype = call->out[0].dtype,
                          .flags = p->flags,
                          .m = linalg_rows(&call->out[0]),
                          .n = columns,
                          .lda = n > 0 ? n : 1,
                          .ldb = columns > 0 ? columns : 1,
                          .alpha = p->alpha};
}

/* Computes one matrix in the memory of out. */
static int64_t run_one(const linalg_one *one, const triangular_params *p) {
  const tn_frame *call = one->call;
  const void *b = linalg_at(&call->in[1], 2, one->i);
  tn_lapack_task task = describe_task(call, p);
  const size_t bytes = (size_t)(task.m * task.n) * one->loops->bytes;
  if (bytes == 0) return TN_OK;
  task.a = linalg_at(&call->in[0], 2, one->i);
  task.b = linalg_at(&call->out[0], 2, one->i);
  if (task.b != b) memcpy(task.b, b, bytes);
  return linalg_run(one, &task);
}

static linalg_kernel describe_kernel(const tn_frame *call, linalg_step *step) {
  const double n = (double)linalg_rows(&call->in[0]);
  const double size = (double)linalg_rows(&call->out[0]) *
                      (double)linalg_columns(&call->out[0]);
  return (linalg_kernel){.step = step, .work = n * size + 1};
}

static int32_t run_all(const tn_frame *call, linalg_step *step) {
  const linalg_kernel kernel = describe_kernel(call, step);
  return linalg_run_all(call, linalg_count(&call->out[0], 2), &kernel);
}

static int32_t plan_all(const tn_frame *call, const triangular_params *p,
                        uint64_t *bytes) {
  const tn_lapack_task task = describe_task(call, p);
  *bytes = 0;
  return linalg_plan(call, &task, bytes);
}

/* An operator: its kernel and its workspace. */
#define OPERATOR(name)                                                   \
  static int64_t step_##name(const linalg_one *one) {                    \
    const triangular_params p = read_##name(one->call);                  \
    return run_one(one, &p);                                             \
  }                                                                      \
  int32_t linalg_##name(const tn_frame *call) {                          \
    return run_all(call, step_##name);                                   \
  }                                                                      \
  int32_t linalg_##name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    const triangular_params p = read_##name(call);                       \
    return plan_all(call, &p, bytes);                                    \
  }

OPERATOR(trmm)
OPERATOR(trmm_back)
OPERATOR(trsm)
OPERATOR(trsm_back)

/* ---------------------------------------------------------- triangle_outer */

/* y x^T; with transpose x y^T; on the right side x^T y and y^T x. Without the
 * other triangle, which the product has too. */
static int64_t step_outer(const linalg_one *one) {
  const tn_frame *call = one->call;
  const linalg_triangle_outer_params *p = linalg_triangle_outer_params_of(call);
  const int64_t rows = linalg_rows(&call->in[0]);
  const int64_t columns = linalg_columns(&call->in[0]);
  const int64_t n = linalg_columns(&call->out[0]);
  const uint32_t right = p->rightside != 0;
  const linalg_factor y = {linalg_at(&call->in[0], 2, one->i), rows, columns,
                           0};
  const linalg_factor x = {linalg_at(&call->in[1], 2, one->i), rows, columns,
                           0};
  const int y_first = (p->transpose != 0) == (right != 0);
  linalg_factor first = y_first ? y : x, second = y_first ? x : y;
  void *out = linalg_at(&call->out[0], 2, one->i);
  first.transpose = right;
  second.transpose = !right;
  if (n == 0) return TN_OK;
  const int32_t code =
      linalg_multiply(one, first, second, (linalg_target){out, p->alpha, 0});
  one->loops->keep_triangle(n, p->lower != 0, out);
  return code;
}

int32_t linalg_triangle_outer(const tn_frame *call) {
  const linalg_kernel kernel = describe_kernel(call, step_outer);
  return linalg_run_all(call, linalg_count(&call->out[0], 2), &kernel);
}
