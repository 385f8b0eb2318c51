/* SPDX-License-Identifier: Apache-2.0
 * repeat.c: the operators of repeat.yaml. `out` is dense, so its axes can be
 * split into positions and copies of them; `data` repeats along the copies.
 */
#include "repeat.gen.h"

#include <string.h>

#include "move.h"
#include "tenon/kernel/checked_size.h"

/* The axes of data, and the number of copies of each: of the whole axis (tile),
 * or of each position (repeat). */
typedef struct plan {
  int32_t ndim;
  int64_t length[TN_MAX_NDIM]; /* lengths of data; -1 is unknown */
  int64_t times[TN_MAX_NDIM];
  const char *param; /* the parameter with that number */
  int inside;        /* positions are repeated, not the axis */
  int flat;          /* out has a single axis */
} plan;

/* ------------------------------------------------------------------- plans */

static int32_t plan_tile(const tn_frame *call, const tn_tensor *data, plan *p) {
  const tn_ints *reps = &tensor_tile_params_of(call)->reps;
  const int32_t n = (int32_t)reps->n;
  p->ndim = data->ndim > n ? data->ndim : n;
  p->param = "reps";
  p->inside = p->flat = 0;
  for (int32_t d = 0; d < p->ndim; ++d) {
    const int32_t own = d - (p->ndim - data->ndim), rep = d - (p->ndim - n);
    p->length[d] = own < 0 ? 1 : data->shape[own];
    p->times[d] = rep < 0 ? 1 : reps->v[rep];
  }
  return TN_OK;
}

static int32_t plan_repeat(const tn_frame *call, const tn_tensor *data,
                           plan *p) {
  const tensor_repeat_params *params = tensor_repeat_params_of(call);
  int32_t axis;
  p->ndim = data->ndim;
  p->param = "repeats";
  p->inside = 1;
  p->flat = !params->has_axis;
  for (int32_t d = 0; d < p->ndim; ++d) {
    p->length[d] = data->shape[d];
    p->times[d] = 1;
  }
  if (!p->flat) {
    const int32_t code =
        tensor_axis(call, "axis", params->axis, p->ndim, &axis);
    if (code != TN_OK) return code;
    p->times[axis] = params->repeats;
    return TN_OK;
  }
  if (p->ndim == 0) p->length[p->ndim++] = 1;
  p->times[p->ndim - 1] = params->repeats;
  return TN_OK;
}

typedef int32_t plan_fn(const tn_frame *call, const tn_tensor *data, plan *p);

/* ------------------------------------------------------------------ shapes */

static int32_t refuse_length(const tn_frame *call, const plan *p,
                             int32_t axis) {
  const tn_tensor *data = &call->in[0];
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "`data` %s with %s=%lld would be longer than 64 bits count; "
                 "repeat fewer elements, or less often",
                 tensor_shape_text(data->ndim, data->shape).text, p->param,
                 (long long)p->times[axis]);
}

static int32_t infer_shapes(const tn_frame *call, plan_fn *make) {
  const tn_tensor *data = &call->in[0];
  int64_t shape[TN_MAX_NDIM];
  plan p;
  if (data->ndim < 0) return TN_OK;
  const int32_t code = make(call, data, &p);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < p.ndim; ++d) {
    shape[d] = p.length[d] < 0 ? -1 : tn_size_times(p.length[d], p.times[d]);
    if (p.length[d] >= 0 && shape[d] < 0) return refuse_length(call, &p, d);
  }
  if (p.flat) shape[0] = tensor_elements(p.ndim, shape);
  if (p.flat && shape[0] == TENSOR_TOO_MANY)
    return refuse_length(call, &p, p.ndim - 1);
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, p.flat ? 1 : p.ndim,
                               shape);
}

int32_t tensor_tile_infer(const tn_frame *call) {
  return infer_shapes(call, plan_tile);
}

int32_t tensor_repeat_infer(const tn_frame *call) {
  return infer_shapes(call, plan_repeat);
}

/* ----------------------------------------------------------------- kernels */

/* Views the dense side with an axis for each axis of data, including leading
 * ones of length 1, and one before or after it for each repetition. */
static int32_t split_axes(const tn_frame *call, const plan *p,
                          const tn_tensor *dense, tensor_view *view,
                          int32_t *n_copies) {
  int64_t copies[TN_MAX_NDIM], apart[TN_MAX_NDIM];
  int64_t stride = 1;
  *n_copies = 0;
  view->tensor = *dense;
  view->tensor.shape = view->shape;
  view->tensor.strides = view->strides;
  view->tensor.ndim = p->ndim;
  for (int32_t d = p->ndim; d-- > 0;) {
    view->shape[d] = p->length[d];
    view->strides[d] = p->inside ? stride * p->times[d] : stride;
    if (p->times[d] != 1) {
      copies[*n_copies] = p->times[d];
      apart[(*n_copies)++] = p->inside ? stride : stride * p->length[d];
    }
    stride *= p->length[d] * p->times[d];
  }
  if (p->ndim + *n_copies > TN_MAX_NDIM)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "%d axes of which %d are repeated; together they may be "
                   "%d: reshape `data` to fewer axes first",
                   (int)p->ndim, (int)*n_copies, TN_MAX_NDIM);
  for (int32_t i = 0; i < *n_copies; ++i)
    tensor_view_insert(view, 0, copies[i], apart[i]);
  return TN_OK;
}

/* Views `data`, or its gradient, with as many axes as the plan has. */
static void widen_axes(const plan *p, const tn_tensor *data,
                       tensor_view *view) {
  tensor_view_init(view, data);
  while (view->tensor.ndim < p->ndim) tensor_view_insert(view, 0, 1, 0);
}

static int32_t run_copy(const tn_frame *call, plan_fn *make) {
  tensor_view to, from;
  int32_t n_copies;
  plan p;
  int32_t code = make(call, &call->in[0], &p);
  if (code == TN_OK) code = split_axes(call, &p, &call->out[0], &to, &n_copies);
  if (code != TN_OK) return code;
  widen_axes(&p, &call->in[0], &from);
  return tensor_copy(call, &to.tensor, &from.tensor);
}

/* in: the gradient of `out`, dense like `out`. */
static int32_t run_backward(const tn_frame *call, plan_fn *make) {
  tensor_view to, from;
  int32_t n_copies;
  plan p;
  int32_t code = make(call, &call->out[0], &p);
  if (code == TN_OK)
    code = split_axes(call, &p, &call->in[0], &from, &n_copies);
  if (code != TN_OK) return code;
  widen_axes(&p, &call->out[0], &to);
  return tensor_sum_front(call, &to.tensor, &from.tensor, n_copies);
}

int32_t tensor_tile(const tn_frame *call) {
  return run_copy(call, plan_tile);
}

int32_t tensor_tile_backward(const tn_frame *call) {
  return run_backward(call, plan_tile);
}

int32_t tensor_repeat(const tn_frame *call) {
  return run_copy(call, plan_repeat);
}

int32_t tensor_repeat_backward(const tn_frame *call) {
  return run_backward(call, plan_repeat);
}
