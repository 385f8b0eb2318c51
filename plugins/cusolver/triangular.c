/* SPDX-License-Identifier: Apache-2.0
 * triangular.c: linalg.trmm, trsm and the operators of their gradients, by
 * functions of cuBLAS with the same names. Numbers that are not finite need no
 * care here: they reach the rows and columns that depend on them.
 */
#include "triangular.gen.h"

#include "cusolver.h"

/* The parameters of any of the operators. */
typedef struct equations {
  uint32_t kind;
  uint32_t flags; /* TN_DEVICE_* */
  double alpha;
  int64_t least;
} equations;

#define READ(p, which, inverts, option)                                     \
  (equations) {                                                             \
    .kind = (which),                                                        \
    .flags =                                                                \
        (((p)->transpose != 0) != (inverts) ? (uint32_t)TN_DEVICE_TRANSPOSE \
                                            : 0u) |                         \
        ((p)->rightside ? (uint32_t)TN_DEVICE_RIGHT : 0u) |                 \
        ((p)->lower ? 0u : (uint32_t)TN_DEVICE_UPPER),                      \
    .alpha = (p)->alpha, .least = (option)                                  \
  }

static equations read_trmm(const tn_frame *call) {
  return READ(linalg_trmm_params_of(call), TN_DEVICE_TRIANGULAR_PRODUCT, 0,
              cusolver_trmm_cuda_options_of(call)->least);
}

static equations read_trmm_back(const tn_frame *call) {
  return READ(linalg_trmm_back_params_of(call), TN_DEVICE_TRIANGULAR_PRODUCT, 1,
              cusolver_trmm_back_cuda_options_of(call)->least);
}

static equations read_trsm(const tn_frame *call) {
  return READ(linalg_trsm_params_of(call), TN_DEVICE_TRIANGULAR_SOLVE, 0,
              cusolver_trsm_cuda_options_of(call)->least);
}

static equations read_trsm_back(const tn_frame *call) {
  return READ(linalg_trsm_back_params_of(call), TN_DEVICE_TRIANGULAR_SOLVE, 1,
              cusolver_trsm_back_cuda_options_of(call)->least);
}

static tn_device_task describe_task(const tn_frame *call,
                                    const cusolver_parts *parts,
                                    const equations *e) {
  const cusolver_sizes a = cusolver_find_sizes(&call->in[0]);
  const cusolver_sizes b = cusolver_find_sizes(&call->in[1]);
  tn_device_task task = cusolver_describe(call, parts, e->kind, &b);
  task.flags = e->flags;
  task.alpha = e->alpha;
  task.lda = a.n;
  task.step_a = a.n * a.n;
  return task;
}

static int32_t count_bytes(const tn_frame *call, const equations *e,
                           uint64_t *bytes) {
  const cusolver_sizes b = cusolver_find_sizes(&call->in[1]);
  const cusolver_parts parts = cusolver_begin_parts(call, b.count);
  const tn_device_task task = describe_task(call, &parts, e);
  return cusolver_count_bytes(call, &parts, &task, 1, bytes);
}

static int32_t run_call(const tn_frame *call, const equations *e) {
  const cusolver_sizes b = cusolver_find_sizes(&call->in[1]);
  const cusolver_parts parts = cusolver_begin_parts(call, b.count);
  tn_device_task task = describe_task(call, &parts, e);
  task.a = call->in[0].data;
  task.b = call->out[0].data;
  const cusolver_move copy = cusolver_move_all(&b, call->in[1].data, task.b, 0);
  int32_t code = cusolver_begin(call, &parts, &task);
  if (code == TN_OK && copy.from != copy.to)
    code = cusolver_copy_out(call, &parts.flags, &copy);
  return code == TN_OK ? cusolver_run(call, &parts, &task) : code;
}

#define OPERATOR(name)                                                     \
  int32_t cusolver_##name##_supports(const tn_frame *call) {               \
    const equations e = read_##name(call);                                 \
    return cusolver_decide(call, e.least,                                  \
                           e.kind == TN_DEVICE_TRIANGULAR_SOLVE);          \
  }                                                                        \
  int32_t cusolver_##name(const tn_frame *call) {                          \
    const equations e = read_##name(call);                                 \
    return run_call(call, &e);                                             \
  }                                                                        \
  int32_t cusolver_##name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    const equations e = read_##name(call);                                 \
    return count_bytes(call, &e, bytes);                                   \
  }

OPERATOR(trmm)
OPERATOR(trmm_back)
OPERATOR(trsm)
OPERATOR(trsm_back)
