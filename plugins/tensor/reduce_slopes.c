/* SPDX-License-Identifier: Apache-2.0
 * reduce_slopes.c: the gradients of the operators of reduce.yaml. The result
 * and its gradient are repeated to the shape of the input; then a loop over
 * elements computes the gradient.
 */
#include "move.h"
#include "reduce.gen.h"
#include "reduce.h"
#include "scan.gen.h"
#include "tenon/kernel/kernel.h"

/* ------------------------------------------------------------------- calls */

/* Operands of the loops: the gradient of out and out, both repeated, and
 * data. */
typedef struct operands {
  tn_tensor in[4];
  reduce_repeated grad;
  reduce_repeated out;
  reduce_repeated more;
  uint32_t axes;
} operands;

static int32_t open_operands(operands *o, const tn_frame *call) {
  const tn_tensor *gradient = &call->out[0];
  const int32_t code = reduce_read_axes(call, gradient->ndim, &o->axes);
  if (code != TN_OK) return code;
  reduce_repeat_along(&o->grad, &call->in[0], gradient, o->axes);
  o->in[0] = o->grad.tensor;
  o->in[1] = call->in[1];
  if (call->in_flags[2] & TN_IN_ABSENT) return TN_OK;
  reduce_repeat_along(&o->out, &call->in[2], gradient, o->axes);
  o->in[2] = o->out.tensor;
  return TN_OK;
}

static int32_t run_loops(const tn_frame *call, const operands *o,
                         const reduce_gradient *gradient, const void *params) {
  tn_frame own = *call;
  own.in = o->in;
  own.n_in = 4;
  own.params = params;
  own.prepared = NULL;
  return reduce_run_gradient(&own, gradient);
}

static int32_t run_gradient(const tn_frame *call,
                            const reduce_gradient *gradient) {
  operands o;
  const int32_t code = open_operands(&o, call);
  return code == TN_OK ? run_loops(call, &o, gradient, NULL) : code;
}

static int32_t run_scale(const tn_frame *call, int mean) {
  operands o;
  double factor = 1;
  const int32_t code = open_operands(&o, call);
  if (code != TN_OK) return code;
  for (int32_t i = 0; mean && i < call->out[0].ndim; ++i)
    if (o.axes >> i & 1) factor *= (double)call->out[0].shape[i];
  factor = 1 / factor;
  return run_loops(call, &o, &reduce_gradient_scale, &factor);
}

int32_t tensor_sum_backward(const tn_frame *call) {
  return run_scale(call, 0);
}

int32_t tensor_mean_backward(const tn_frame *call) {
  return run_scale(call, 1);
}

int32_t tensor_nansum_backward(const tn_frame *call) {
  return run_gradient(call, &reduce_gradient_where_number);
}

int32_t tensor_extreme_backward(const tn_frame *call) {
  return run_gradient(call, &reduce_gradient_where_equal);
}

int32_t tensor_logsumexp_backward(const tn_frame *call) {
  return run_gradient(call, &reduce_gradient_by_power);
}

int32_t tensor_norm_backward(const tn_frame *call) {
  return run_gradient(call, tensor_norm_params_of(call)->ord == 1
                                ? &reduce_gradient_by_sign
                                : &reduce_gradient_by_share);
}

/* ---------------------------------------------------------------- products */

/* Backward: two records for each line, and the workspace to compute one of
 * them. */
int32_t tensor_prod_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *grad = &call->in[0], *data = &call->in[1];
  uint32_t axes;
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD))
    return tensor_reduce_bytes(call, bytes);
  const int32_t code = reduce_read_axes(call, data->ndim, &axes);
  if (code == TN_OK)
    *bytes = 16 * (uint64_t)tn_tensor_size(grad) +
             reduce_count_bytes(data, grad, axes);
  return code;
}

/* A dense array of records in the shape of the gradient of out. */
static void records_like(reduce_repeated *to, const tn_tensor *grad, void *at) {
  int64_t step = 1;
  to->tensor = *grad;
  to->tensor.dtype = tensor_wide_dtype(grad->dtype);
  to->tensor.data = at;
  to->tensor.shape = to->shape;
  to->tensor.strides = to->strides;
  for (int32_t i = grad->ndim; i-- > 0; step *= grad->shape[i]) {
    to->shape[i] = grad->shape[i];
    to->strides[i] = step;
  }
}

/* The differences between both kinds of products. */
typedef struct product {
  const reduce_op *rest;
  const reduce_gradient *gradient;
  int skips_nan;
} product;

/* Lines with products that f64 may not hold are computed at the end. */
static int32_t run_others(const tn_frame *call, const operands *o,
                          const product *p, double *rests) {
  const reduce_overflow_lines lines = {
      .call = call,
      .out_gradient = &o->in[0],
      .data = &o->in[1],
      .rests = rests,
      .zeros = rests + tn_tensor_size(&call->in[0]),
      .lines = tn_tensor_size(&call->in[0]),
      .axes = o->axes,
      .skips_nan = p->skips_nan};
  if (tensor_wide_dtype(call->out[0].dtype) == TN_I64)
    return run_loops(call, o, p->gradient, NULL);
  const int any = reduce_mark_overflow_lines(&lines);
  const int32_t code = run_loops(call, o, p->gradient, NULL);
  return code == TN_OK && any ? reduce_run_overflow_lines(&lines) : code;
}

static int32_t run_prod(const tn_frame *call, const product *p) {
  const int64_t lines = tn_tensor_size(&call->in[0]);
  operands o;
  reduce_repeated records[2];
  int32_t code = open_operands(&o, call);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  double *workspace = (double *)call->ws[0];
  const int has_more =
      reduce_count_bytes(&call->in[1], &call->in[0], o.axes) > 0;
  for (int k = 0; k < 2 && code == TN_OK; ++k) {
    reduce_repeated *repeated = k == 0 ? &o.out : &o.more;
    records_like(&records[k], &call->in[0], workspace + k * lines);
    const reduce_run run = {
        .call = call,
        .op = k == 0 ? p->rest : &reduce_zero_count,
        .in = &call->in[1],
        .out = &records[k].tensor,
        .axes = o.axes,
        .req = TN_REQ_WRITE,
        .workspace = has_more ? workspace + 2 * lines : NULL};
    code = reduce_compute(&run);
    reduce_repeat_along(repeated, &records[k].tensor, &call->out[0], o.axes);
    o.in[2 + k] = repeated->tensor;
  }
  return code == TN_OK ? run_others(call, &o, p, workspace) : code;
}

int32_t tensor_prod_backward(const tn_frame *call) {
  static const product p = {&reduce_nonzero_prod, &reduce_gradient_prod, 0};
  return run_prod(call, &p);
}

int32_t tensor_nanprod_backward(const tn_frame *call) {
  static const product p = {&reduce_nonzero_nanprod, &reduce_gradient_nanprod,
                            1};
  return run_prod(call, &p);
}
