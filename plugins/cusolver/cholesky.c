/* SPDX-License-Identifier: Apache-2.0
 * cholesky.c: linalg.potrf, cholesky and potri, by potrf and potri of cuSOLVER.
 * The triangle is copied to the output and becomes the result there.
 */
#include "cholesky.gen.h"

#include "cusolver.h"

/* The parameters of any of the operators. */
typedef struct parameters {
  uint32_t kind;
  int is_lower;
  int64_t least;
} parameters;

static parameters read_potrf(const tn_frame *call) {
  return (parameters){TN_DEVICE_CHOLESKY,
                      linalg_potrf_params_of(call)->lower != 0,
                      cusolver_potrf_cuda_options_of(call)->least};
}

static parameters read_cholesky(const tn_frame *call) {
  return (parameters){TN_DEVICE_CHOLESKY, 1,
                      cusolver_cholesky_cuda_options_of(call)->least};
}

static parameters read_potri(const tn_frame *call) {
  return (parameters){TN_DEVICE_CHOLESKY_INVERSE,
                      linalg_potri_params_of(call)->lower != 0,
                      cusolver_potri_cuda_options_of(call)->least};
}

static tn_device_task describe_task(const tn_frame *call,
                                    const cusolver_parts *parts,
                                    const parameters *p) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->in[0]);
  tn_device_task task = cusolver_describe(call, parts, p->kind, &sizes);
  if (!p->is_lower) task.flags = TN_DEVICE_UPPER;
  return task;
}

static int32_t count_bytes(const tn_frame *call, const parameters *p,
                           uint64_t *bytes) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->in[0]);
  const cusolver_parts parts = cusolver_begin_parts(call, sizes.count);
  const tn_device_task task = describe_task(call, &parts, p);
  return cusolver_count_bytes(call, &parts, &task, 1, bytes);
}

/* The part of the output that is written after the task: of an inverse, which
 * is symmetric, both triangles. */
static int32_t get_last_part(const parameters *p) {
  if (p->kind == TN_DEVICE_CHOLESKY)
    return p->is_lower ? CUSOLVER_LOWER : CUSOLVER_UPPER;
  return p->is_lower ? CUSOLVER_MIRROR_LOWER : CUSOLVER_MIRROR_UPPER;
}

static int32_t run_call(const tn_frame *call, const parameters *p) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->in[0]);
  const cusolver_parts parts = cusolver_begin_parts(call, sizes.count);
  tn_device_task task = describe_task(call, &parts, p);
  task.a = call->out[0].data;
  cusolver_move in = cusolver_move_all(&sizes, call->in[0].data, task.a, 0);
  in.part = p->is_lower ? CUSOLVER_LOWER : CUSOLVER_UPPER;
  cusolver_move out = cusolver_move_all(&sizes, task.a, task.a, 0);
  out.part = get_last_part(p);
  const int32_t code = cusolver_run_first(call, &parts, &task, &in);
  return code == TN_OK ? cusolver_copy_out(call, &parts.flags, &out) : code;
}

#define OPERATOR(name)                                                     \
  int32_t cusolver_##name##_supports(const tn_frame *call) {               \
    const parameters p = read_##name(call);                                \
    return cusolver_decide(call, p.least, p.kind == TN_DEVICE_CHOLESKY);   \
  }                                                                        \
  int32_t cusolver_##name(const tn_frame *call) {                          \
    const parameters p = read_##name(call);                                \
    return run_call(call, &p);                                             \
  }                                                                        \
  int32_t cusolver_##name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    const parameters p = read_##name(call);                                \
    return count_bytes(call, &p, bytes);                                   \
  }

OPERATOR(potrf)
OPERATOR(cholesky)
OPERATOR(potri)
