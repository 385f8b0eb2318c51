/* SPDX-License-Identifier: Apache-2.0
 * reduce_calls.c: the functions that reduce.yaml names: shapes, workspaces, and
 * the forward passes of all its operators. reduce_slopes.c has the gradients.
 */
#include "reduce.gen.h"
#include "reduce.h"
#include "tenon/draft/reduction.h"

/* Checks that the params of an operator begin with the fields of reduce_params.
 */
#define BEGINS(name)                                               \
  _Static_assert(offsetof(tensor_##name##_params, axis) ==         \
                         offsetof(reduce_params, axis) &&          \
                     offsetof(tensor_##name##_params, has_axis) == \
                         offsetof(reduce_params, has_axis) &&      \
                     offsetof(tensor_##name##_params, keepdims) == \
                         offsetof(reduce_params, keepdims) &&      \
                     offsetof(tensor_##name##_params, exclude) ==  \
                         offsetof(reduce_params, exclude),         \
                 "the params of tensor." #name " do not begin as the others")
BEGINS(sum);
BEGINS(mean);
BEGINS(prod);
BEGINS(nansum);
BEGINS(nanprod);
BEGINS(max);
BEGINS(min);
BEGINS(norm);

static int keeps_dims(const tn_frame *call) {
  return ((const reduce_params *)call->params)->keepdims != 0;
}

int32_t tensor_reduce_infer(const tn_frame *call) {
  uint32_t axes;
  if (call->in[0].ndim < 0) return TN_OK;
  const int32_t code = reduce_read_axes(call, call->in[0].ndim, &axes);
  return code == TN_OK ? reduce_infer_shape(call, axes, keeps_dims(call))
                       : code;
}

int32_t tensor_extreme_infer(const tn_frame *call) {
  uint32_t axes;
  if (call->in[0].ndim < 0) return TN_OK;
  int32_t code = reduce_read_axes(call, call->in[0].ndim, &axes);
  if (code == TN_OK) code = reduce_check_not_empty(call, axes, "extreme");
  return code == TN_OK ? reduce_infer_shape(call, axes, keeps_dims(call))
                       : code;
}

int32_t tensor_reduce_bytes(const tn_frame *call, uint64_t *bytes) {
  uint32_t axes;
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD) return TN_OK;
  const int32_t code = reduce_read_axes(call, call->in[0].ndim, &axes);
  if (code == TN_OK)
    *bytes = reduce_count_bytes(&call->in[0], &call->out[0], axes);
  return code;
}

static int32_t run_reduction(const tn_frame *call, const reduce_op *op) {
  reduce_run run = {.call = call,
                    .op = op,
                    .in = &call->in[0],
                    .out = &call->out[0],
                    .req = call->req[0]};
  if (call->n_ws > 0 && call->ws_bytes[0] > 0) run.workspace = call->ws[0];
  if (call->flags & TN_CALL_EXTENT) return reduce_compute(&run); /* an extent */
  const int32_t code = reduce_read_axes(call, call->in[0].ndim, &run.axes);
  return code == TN_OK ? reduce_compute(&run) : code;
}

#define VALUE(name)                             \
  int32_t tensor_##name(const tn_frame *call) { \
    return run_reduction(call, &reduce_##name); \
  }
VALUE(sum)
VALUE(mean)
VALUE(prod)
VALUE(nansum)
VALUE(nanprod)
VALUE(max)
VALUE(min)

int32_t tensor_norm(const tn_frame *call) {
  return run_reduction(call, tensor_norm_params_of(call)->ord == 1
                                 ? &reduce_norm_1
                                 : &reduce_norm_2);
}
