/* SPDX-License-Identifier: Apache-2.0
 * broadcast.c: the operators of broadcast.yaml: copies of repeated views
 * (move.h). The gradient is a sum (reduce.c).
 */
#include "broadcast.gen.h"

#include <string.h>

#include "move.h"
#include "reduce.h"

/* ------------------------------------------------------------------ shapes */

/* Whether dimension `from` of `data` may become `to` long. */
static int32_t check_dim(const tn_frame *call, int32_t d, int64_t from,
                         int64_t to) {
  if (from < 0 || to < 0 || from == 1 || from == to) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "dimension %d of the array has length %lld, and only length 1 "
                 "can become %lld",
                 (int)d, (long long)from, (long long)to);
}

/* States that `data` becomes `shape`, aligned at the end. */
static int32_t set_out_shape(const tn_frame *call, int32_t ndim,
                             const int64_t *shape) {
  const tn_tensor *data = &call->in[0];
  const int32_t missing = ndim - data->ndim;
  if (missing < 0)
    return TN_FAIL(call, TN_SHAPE,
                   "an array of %d dimensions cannot become one of %d",
                   (int)data->ndim, (int)ndim);
  for (int32_t i = 0; i < data->ndim; ++i) {
    const int32_t code = check_dim(call, i, data->shape[i], shape[missing + i]);
    if (code != TN_OK) return code;
  }
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, shape);
}

int32_t tensor_broadcast_to_infer(const tn_frame *call) {
  const tensor_broadcast_to_params *p = tensor_broadcast_to_params_of(call);
  const tn_tensor *data = &call->in[0];
  const int32_t ndim = (int32_t)p->shape.n, missing = ndim - data->ndim;
  int64_t shape[TN_MAX_NDIM];
  if (data->ndim < 0) return TN_OK;
  for (int32_t i = 0; i < ndim; ++i) {
    shape[i] = p->shape.v[i];
    if (shape[i] > 0) continue;
    if (i < missing)
      return TN_FAIL(call, TN_SHAPE,
                     "`shape` keeps dimension %d, which the array does not "
                     "have: it has the last %d only",
                     (int)i, (int)data->ndim);
    if (missing >= 0) shape[i] = data->shape[i - missing];
  }
  return set_out_shape(call, ndim, shape);
}

int32_t tensor_broadcast_axis_infer(const tn_frame *call) {
  const tensor_broadcast_axis_params *p = tensor_broadcast_axis_params_of(call);
  const reduce_params named = {.axis = p->axis, .has_axis = 1};
  const tn_tensor *data = &call->in[0];
  tn_frame own = *call;
  int64_t shape[TN_MAX_NDIM];
  uint32_t axes;
  own.params = &named;
  if (data->ndim < 0) return TN_OK;
  const int32_t code = reduce_read_axes(&own, data->ndim, &axes);
  if (code != TN_OK) return code;
  memcpy(shape, data->shape, (size_t)data->ndim * sizeof *shape);
  for (int64_t i = 0; i < p->axis.n; ++i) {
    const int64_t axis = p->axis.v[i];
    const int64_t d = axis < 0 ? axis + data->ndim : axis;
    if (shape[d] != 1 && shape[d] != -1)
      return TN_FAIL(call, TN_SHAPE,
                     "axis %lld has length %lld: only what has length 1 can be "
                     "repeated",
                     (long long)axis, (long long)shape[d]);
    shape[d] = p->size.v[i];
  }
  return set_out_shape(call, data->ndim, shape);
}

int32_t tensor_broadcast_like_infer(const tn_frame *call) {
  const tn_tensor *like = &call->in[TENSOR_BROADCAST_LIKE_IN_RHS];
  if (call->in[0].ndim < 0 || like->ndim < 0) return TN_OK;
  return set_out_shape(call, like->ndim, like->shape);
}

int32_t tensor_broadcast(const tn_frame *call) {
  return tensor_copy(call, &call->out[0], &call->in[0]);
}

/* --------------------------------------------------------------- gradients */

/* The axes of a gradient that were repeated, as bits. */
static uint32_t find_repeated_axes(const tn_tensor *grad,
                                   const tn_tensor *data_gradient) {
  const int32_t missing = grad->ndim - data_gradient->ndim;
  uint32_t axes = 0;
  for (int32_t i = 0; i < grad->ndim; ++i)
    if (i < missing ||
        (data_gradient->shape[i - missing] == 1 && grad->shape[i] != 1))
      axes |= 1u << i;
  return axes;
}

int32_t tensor_broadcast_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *grad = &call->in[0], *data_gradient = &call->out[0];
  *bytes = call->flags & TN_CALL_BACKWARD
               ? reduce_count_bytes(grad, data_gradient,
                                    find_repeated_axes(grad, data_gradient))
               : 0;
  return TN_OK;
}

int32_t tensor_broadcast_backward(const tn_frame *call) {
  const tn_tensor *grad = &call->in[0], *data_gradient = &call->out[0];
  const int has_room = call->n_ws > 0 && call->ws_bytes[0] > 0;
  const reduce_run run = {.call = call,
                          .op = &reduce_sum,
                          .in = grad,
                          .out = data_gradient,
                          .axes = find_repeated_axes(grad, data_gradient),
                          .req = call->req[0],
                          .workspace = has_room ? call->ws[0] : NULL};
  return call->req[0] == TN_REQ_NULL ? TN_OK : reduce_compute(&run);
}
