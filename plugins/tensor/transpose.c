/* SPDX-License-Identifier: Apache-2.0
 * transpose.c: the operators of transpose.yaml: copies of views of `data` with
 * permuted or reversed axes.
 */
#include "transpose.gen.h"

#include <string.h>

#include "move.h"

/* The axis of `data` for each axis of `out`. */
typedef struct order {
  int32_t ndim;
  int32_t of[TN_MAX_NDIM];
} order;

/* ------------------------------------------------------------------ orders */

static int32_t read_list(const tn_frame *call, const tn_ints *axes, order *o) {
  uint32_t seen = 0;
  if (axes->n != o->ndim)
    return TN_FAIL(call, TN_SHAPE,
                   "`axes` names %lld axes, but `data` has %d dimensions",
                   (long long)axes->n, (int)o->ndim);
  for (int32_t d = 0; d < o->ndim; ++d) {
    const int32_t code =
        tensor_axis(call, "axes", axes->v[d], o->ndim, &o->of[d]);
    if (code != TN_OK) return code;
    if (seen >> o->of[d] & 1)
      return TN_FAIL(call, TN_INVALID, "axis %lld stands twice in `axes`",
                     (long long)axes->v[d]);
    seen |= 1u << o->of[d];
  }
  return TN_OK;
}

static void invert_order(order *o) {
  const order own = *o;
  for (int32_t d = 0; d < own.ndim; ++d) o->of[own.of[d]] = d;
}

/* transpose and transpose_back have the same parameters; `back` tells them
 * apart. */
static int32_t read_axes(const tn_frame *call, int32_t ndim, int back,
                         order *o) {
  const tn_ints *axes = &tensor_transpose_params_of(call)->axes;
  o->ndim = ndim;
  for (int32_t d = 0; d < ndim; ++d) o->of[d] = ndim - 1 - d;
  if (axes->n == 0) return TN_OK;
  const int32_t code = read_list(call, axes, o);
  if (code == TN_OK && back) invert_order(o);
  return code;
}

static int32_t read_pair(const tn_frame *call, int32_t ndim, order *o) {
  const tensor_swap_axes_params *p = tensor_swap_axes_params_of(call);
  int32_t a, b;
  o->ndim = ndim;
  for (int32_t d = 0; d < ndim; ++d) o->of[d] = d;
  int32_t code = tensor_axis(call, "dim1", p->dim1, ndim, &a);
  if (code == TN_OK) code = tensor_axis(call, "dim2", p->dim2, ndim, &b);
  if (code != TN_OK) return code;
  o->of[a] = b;
  o->of[b] = a;
  return TN_OK;
}

/* ------------------------------------------------------------------ shapes */

/* Returns the rank of the operands, from one that has a shape. */
static int32_t find_rank(const tn_frame *call) {
  return call->in[0].ndim >= 0 ? call->in[0].ndim : call->out[0].ndim;
}

static int32_t set_shapes(const tn_frame *call, const order *o) {
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  int64_t in_shape[TN_MAX_NDIM], out_shape[TN_MAX_NDIM];
  for (int32_t d = 0; d < o->ndim; ++d) {
    int64_t *from = &in_shape[o->of[d]];
    *from = data->ndim == o->ndim ? data->shape[o->of[d]] : -1;
    if (*from < 0 && out->ndim == o->ndim) *from = out->shape[d];
    out_shape[d] = *from;
  }
  const int32_t code =
      call->host->set_shape(call, TN_OPERAND_OUT, 0, o->ndim, out_shape);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_IN, 0, o->ndim, in_shape);
}

static int32_t infer_axes(const tn_frame *call, int back) {
  const int32_t ndim = find_rank(call);
  order o;
  if (ndim < 0) return TN_OK;
  const int32_t code = read_axes(call, ndim, back, &o);
  return code == TN_OK ? set_shapes(call, &o) : code;
}

int32_t tensor_transpose_infer(const tn_frame *call) {
  return infer_axes(call, 0);
}

int32_t tensor_transpose_back_infer(const tn_frame *call) {
  return infer_axes(call, 1);
}

int32_t tensor_swap_axes_infer(const tn_frame *call) {
  const int32_t ndim = find_rank(call);
  order o;
  if (ndim < 0) return TN_OK;
  const int32_t code = read_pair(call, ndim, &o);
  return code == TN_OK ? set_shapes(call, &o) : code;
}

/* ----------------------------------------------------------------- kernels */

static int32_t run_copy(const tn_frame *call, const order *o) {
  tensor_view from;
  tensor_view_init(&from, &call->in[0]);
  for (int32_t d = 0; d < o->ndim; ++d) {
    from.shape[d] = call->in[0].shape[o->of[d]];
    from.strides[d] = call->in[0].strides[o->of[d]];
  }
  return tensor_copy(call, &call->out[0], &from.tensor);
}

static int32_t run_axes(const tn_frame *call, int back) {
  order o;
  const int32_t code = read_axes(call, call->in[0].ndim, back, &o);
  return code == TN_OK ? run_copy(call, &o) : code;
}

int32_t tensor_transpose(const tn_frame *call) {
  return run_axes(call, 0);
}

int32_t tensor_transpose_back(const tn_frame *call) {
  return run_axes(call, 1);
}

int32_t tensor_swap_axes(const tn_frame *call) {
  order o;
  const int32_t code = read_pair(call, call->in[0].ndim, &o);
  return code == TN_OK ? run_copy(call, &o) : code;
}

int32_t tensor_reverse(const tn_frame *call) {
  const tn_ints *axes = &tensor_reverse_params_of(call)->axis;
  uint32_t seen = 0;
  tensor_view from;
  tensor_view_init(&from, &call->in[0]);
  for (int64_t i = 0; i < axes->n; ++i) {
    int32_t axis;
    const int32_t code =
        tensor_axis(call, "axis", axes->v[i], call->in[0].ndim, &axis);
    if (code != TN_OK) return code;
    if (seen >> axis & 1)
      return TN_FAIL(call, TN_INVALID, "axis %lld is named twice",
                     (long long)axes->v[i]);
    seen |= 1u << axis;
    tensor_view_cut(&from, axis, from.shape[axis] - 1, from.shape[axis], -1);
  }
  return tensor_copy(call, &call->out[0], &from.tensor);
}
