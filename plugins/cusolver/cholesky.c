/* SPDX-License-Identifier: Apache-2.0
 * cholesky.c: linalg.potrf, cholesky and potri, by potrf and potri of cuSOLVER.
 * The triangle is copied to the output and becomes the result there.
 */
#include "cholesky.gen.h"

#include "cusolver.h"

/* One of the operators. */
typedef struct question {
  uint32_t kind;
  int is_lower;
  int64_t least;
} question;

static question read_potrf(const tn_frame *call) {
  return (question){TN_DEVICE_CHOLESKY,
                    linalg_potrf_params_of(call)->lower != 0,
                    cusolver_potrf_cuda_options_of(call)->least};
}

static question read_cholesky(const tn_frame *call) {
  return (question){TN_DEVICE_CHOLESKY, 1,
                    cusolver_cholesky_cuda_options_of(call)->least};
}

static question read_potri(const tn_frame *call) {
  return (question){TN_DEVICE_CHOLESKY_INVERSE,
                    linalg_potri_params_of(call)->lower != 0,
                    cusolver_potri_cuda_options_of(call)->least};
}

static int32_t decide_call(const tn_frame *call, const question *q) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->in[0]);
  return cusolver_decide(call, &sizes, q->least, q->kind == TN_DEVICE_CHOLESKY);
}

static tn_device_task describe_task(const tn_frame *call,
                                    const cusolver_parts *parts,
                                    const question *q) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->in[0]);
  tn_device_task task = cusolver_describe(call, parts, q->kind, &sizes);
  if (!q->is_lower) task.flags = TN_DEVICE_UPPER;
  return task;
}

static int32_t count_bytes(const tn_frame *call, const question *q,
                           uint64_t *bytes) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->in[0]);
  const cusolver_parts parts = cusolver_begin_parts(call, sizes.count);
  const tn_device_task task = describe_task(call, &parts, q);
  uint64_t most = 0;
  const int32_t code = cusolver_plan(call, &task, &most);
  *bytes = parts.room.bytes + most;
  return code;
}

/* The part of the output that is written after the task: of an inverse, which
 * is symmetric, both triangles. */
static int32_t get_last_part(const question *q) {
  if (q->kind == TN_DEVICE_CHOLESKY)
    return q->is_lower ? CUSOLVER_LOWER : CUSOLVER_UPPER;
  return q->is_lower ? CUSOLVER_MIRROR_LOWER : CUSOLVER_MIRROR_UPPER;
}

static int32_t run_call(const tn_frame *call, const question *q) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->in[0]);
  const cusolver_parts parts = cusolver_begin_parts(call, sizes.count);
  tn_device_task task = describe_task(call, &parts, q);
  task.a = cusolver_get_data(&call->out[0]);
  cusolver_move in =
      cusolver_move_all(&sizes, cusolver_get_data(&call->in[0]), task.a, 0);
  in.part = q->is_lower ? CUSOLVER_LOWER : CUSOLVER_UPPER;
  cusolver_move out = cusolver_move_all(&sizes, task.a, task.a, 0);
  out.part = get_last_part(q);
  int32_t code = cusolver_begin(call, &parts, &task);
  if (code == TN_OK) code = cusolver_copy_in(call, &parts.flags, &in);
  if (code == TN_OK) code = cusolver_run(call, &parts, &task);
  return code == TN_OK ? cusolver_copy_out(call, &parts.flags, &out) : code;
}

#define OPERATOR(name)                                                     \
  int32_t cusolver_##name##_supports(const tn_frame *call) {               \
    const question q = read_##name(call);                                  \
    return decide_call(call, &q);                                          \
  }                                                                        \
  int32_t cusolver_##name(const tn_frame *call) {                          \
    const question q = read_##name(call);                                  \
    return run_call(call, &q);                                             \
  }                                                                        \
  int32_t cusolver_##name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    const question q = read_##name(call);                                  \
    return count_bytes(call, &q, bytes);                                   \
  }

OPERATOR(potrf)
OPERATOR(cholesky)
OPERATOR(potri)
