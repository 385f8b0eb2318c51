/* SPDX-License-Identifier: Apache-2.0
 * slice.c: the operators of slice.yaml. A box is a view; its gradient is zero
 * outside of the same view of the gradient of `data`.
 */
#include "slice.gen.h"

#include "move.h"

/* Positions of an axis. */
typedef struct index_range {
  int64_t begin, n, step;
} index_range;

/* The positions of `begin`, `end` and `step` on an axis of a length, as in
 * Python. Fewer than two positions have a step of 1, because the product of a
 * larger step and a stride may overflow. */
static index_range find_range(int64_t begin, int64_t end, int64_t step,
                              int64_t length) {
  const int64_t lowest = step < 0 ? -1 : 0;
  const int64_t highest = step < 0 ? length - 1 : length;
  if (begin < 0) begin = begin + length;
  if (end < 0) end = end + length;
  if (begin < lowest) begin = lowest;
  if (begin > highest) begin = highest;
  if (end < lowest) end = lowest;
  if (end > highest) end = highest;
  const int64_t apart = step < 0 ? begin - end : end - begin;
  const int64_t n = apart > 0 ? 1 + (apart - 1) / (step < 0 ? -step : step) : 0;
  return (index_range){begin, n, n > 1 ? step : 1};
}

/* The ranges of a call: the first `n` axes are restricted to a range, the
 * others are complete. */
typedef struct slice_ranges {
  int32_t ndim;
  int32_t axis[TN_MAX_NDIM];
  int64_t begin[TN_MAX_NDIM], end[TN_MAX_NDIM], step[TN_MAX_NDIM];
  int32_t n;
} slice_ranges;

static int32_t read_slice(const tn_frame *call, int32_t ndim, slice_ranges *b) {
  const tensor_slice_params *p = tensor_slice_params_of(call);
  b->ndim = ndim;
  b->n = (int32_t)p->begin.n;
  if (b->n > ndim)
    return TN_FAIL(call, TN_SHAPE,
                   "`begin` speaks of %d axes, but `data` has %d dimensions",
                   (int)b->n, (int)ndim);
  for (int32_t i = 0; i < b->n; ++i) {
    b->axis[i] = i;
    b->begin[i] = p->begin.v[i];
    b->end[i] = p->end.v[i];
    b->step[i] = p->step.v[i];
    if (b->step[i] == 0)
      return TN_FAIL(call, TN_INVALID,
                     "`step` of axis %d is 0; it goes nowhere", (int)i);
  }
  return TN_OK;
}

static int32_t read_axis(const tn_frame *call, int32_t ndim, slice_ranges *b) {
  const tensor_slice_axis_params *p = tensor_slice_axis_params_of(call);
  b->ndim = ndim;
  b->n = 1;
  b->begin[0] = p->begin;
  b->end[0] = p->has_end ? p->end : INT64_MAX;
  b->step[0] = 1;
  return tensor_axis(call, "axis", p->axis, ndim, &b->axis[0]);
}

/* Bits of the largest length and position; a sum of two fits an int64_t. */
enum { BITS = 62 };

static int64_t limit_index(int64_t place) {
  const int64_t most = (int64_t)1 << BITS;
  return place > most ? most : place < -most ? -most : place;
}

static index_range find_axis_range(const slice_ranges *b, int32_t i,
                                   int64_t length) {
  return find_range(limit_index(b->begin[i]), limit_index(b->end[i]),
                    limit_index(b->step[i]), length);
}

/* ------------------------------------------------------------------ shapes */

/* Axes that are cut follow from data alone, the others from either operand. */
static int32_t set_shapes(const tn_frame *call, const slice_ranges *b) {
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  int64_t in_shape[TN_MAX_NDIM], out_shape[TN_MAX_NDIM];
  for (int32_t d = 0; d < b->ndim; ++d) {
    in_shape[d] = data->ndim == b->ndim ? data->shape[d] : -1;
    if (in_shape[d] < 0 && out->ndim == b->ndim) in_shape[d] = out->shape[d];
    out_shape[d] = in_shape[d];
  }
  for (int32_t i = 0; i < b->n; ++i) {
    const int32_t d = b->axis[i];
    in_shape[d] = data->ndim == b->ndim ? data->shape[d] : -1;
    out_shape[d] = in_shape[d] < 0 ? -1 : find_axis_range(b, i, in_shape[d]).n;
  }
  const int32_t code =
      call->host->set_shape(call, TN_OPERAND_OUT, 0, b->ndim, out_shape);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_IN, 0, b->ndim, in_shape);
}

typedef int32_t read_fn(const tn_frame *call, int32_t ndim, slice_ranges *b);

static int32_t infer_shapes(const tn_frame *call, read_fn *read) {
  const int32_t ndim =
      call->in[0].ndim >= 0 ? call->in[0].ndim : call->out[0].ndim;
  slice_ranges b;
  if (ndim < 0) return TN_OK;
  const int32_t code = read(call, ndim, &b);
  return code == TN_OK ? set_shapes(call, &b) : code;
}

int32_t tensor_slice_infer(const tn_frame *call) {
  return infer_shapes(call, read_slice);
}

int32_t tensor_slice_axis_infer(const tn_frame *call) {
  return infer_shapes(call, read_axis);
}

/* ----------------------------------------------------------------- kernels */

static void make_view(tensor_view *view, const tn_tensor *whole,
                      const slice_ranges *b) {
  tensor_view_init(view, whole);
  for (int32_t i = 0; i < b->n; ++i) {
    const index_range p = find_axis_range(b, i, whole->shape[b->axis[i]]);
    tensor_view_cut(view, b->axis[i], p.begin, p.n, p.step);
  }
}

static int32_t run_forward(const tn_frame *call, read_fn *read) {
  tensor_view view;
  slice_ranges b;
  const int32_t code = read(call, call->in[0].ndim, &b);
  if (code != TN_OK) return code;
  make_view(&view, &call->in[0], &b);
  return tensor_copy(call, &call->out[0], &view.tensor);
}

/* Computes the gradient of data from the output gradient; it is 0 outside of
 * the slice. */
static int32_t run_backward(const tn_frame *call, read_fn *read) {
  tensor_view view;
  slice_ranges b;
  int32_t code = read(call, call->out[0].ndim, &b);
  if (code == TN_OK) code = tensor_fill_zeros(call, &call->out[0]);
  if (code != TN_OK) return code;
  make_view(&view, &call->out[0], &b);
  return tensor_copy(call, &view.tensor, &call->in[0]);
}

int32_t tensor_slice(const tn_frame *call) {
  return run_forward(call, read_slice);
}

int32_t tensor_slice_backward(const tn_frame *call) {
  return run_backward(call, read_slice);
}

int32_t tensor_slice_axis(const tn_frame *call) {
  return run_forward(call, read_axis);
}

int32_t tensor_slice_axis_backward(const tn_frame *call) {
  return run_backward(call, read_axis);
}
