/* SPDX-License-Identifier: Apache-2.0
 * pad.c: the operators of pad.yaml. The new elements are divided into borders,
 * two per axis. A border of an axis covers only the old part of earlier axes
 * and the whole new length of later axes. So borders are copied from the last
 * axis to the first; each finds the elements that it repeats. The gradient uses
 * the reverse order.
 */
#include "pad.gen.h"

#include "move.h"
#include "tenon/kernel/checked_size.h"

/* ------------------------------------------------------------------ shapes */

static int32_t check_widths(const tn_frame *call, int32_t ndim) {
  const tn_ints *widths = &tensor_pad_params_of(call)->pad_width;
  if (widths->n == 2 * (int64_t)ndim) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "`pad_width` has %lld numbers; two for each of %d dimensions "
                 "are %d",
                 (long long)widths->n, (int)ndim, 2 * (int)ndim);
}

/* Whether an axis of this length has the elements that its borders repeat. */
static int32_t check_length(const tn_frame *call, int32_t axis, int64_t n) {
  const tensor_pad_params *p = tensor_pad_params_of(call);
  const int64_t *width = p->pad_width.v + 2 * axis;
  const int64_t most = width[0] > width[1] ? width[0] : width[1];
  const int64_t least = p->mode == TENSOR_PAD_MODE_REFLECT ? most + 1 : 1;
  if (p->mode == TENSOR_PAD_MODE_CONSTANT || most == 0 || n >= least)
    return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "axis %d of `data` has length %lld; to add %lld places and "
                 "%lld in this mode it must have at least %lld",
                 (int)axis, (long long)n, (long long)width[0],
                 (long long)width[1], (long long)least);
}

static int32_t refuse_length(const tn_frame *call, int32_t axis, int64_t n) {
  const int64_t *width = tensor_pad_params_of(call)->pad_width.v + 2 * axis;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "axis %d of `data` has length %lld; with the %lld and %lld "
                 "places of `pad_width` it is longer than 64 bits count",
                 (int)axis, (long long)n, (long long)width[0],
                 (long long)width[1]);
}

/* An operand of a call, as set_shape identifies it. */
typedef struct operand {
  uint32_t list;
  uint32_t index;
  const tn_tensor *tensor;
} operand;

/* Relates the old array and the new one: each axis of `whole` is longer than
 * that of `part` by its two widths. */
static int32_t infer_padded(const tn_frame *call, const operand *part,
                            const operand *whole) {
  const tn_tensor *data = part->tensor, *out = whole->tensor;
  const tn_ints *widths = &tensor_pad_params_of(call)->pad_width;
  const int32_t ndim = data->ndim >= 0 ? data->ndim : out->ndim;
  int64_t from[TN_MAX_NDIM], to[TN_MAX_NDIM];
  if (ndim < 0) return TN_OK;
  int32_t code = check_widths(call, ndim);
  for (int32_t d = 0; d < ndim && code == TN_OK; ++d) {
    const int64_t more = widths->v[2 * d] + widths->v[2 * d + 1];
    from[d] = data->ndim == ndim ? data->shape[d] : -1;
    if (from[d] < 0 && out->ndim == ndim && out->shape[d] >= more)
      from[d] = out->shape[d] - more;
    to[d] = from[d] < 0 ? -1 : tn_size_plus(from[d], more);
    if (from[d] >= 0) code = check_length(call, d, from[d]);
    if (from[d] >= 0 && to[d] < 0) code = refuse_length(call, d, from[d]);
  }
  if (code == TN_OK)
    code = call->host->set_shape(call, whole->list, whole->index, ndim, to);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, part->list, part->index, ndim, from);
}

int32_t tensor_pad_infer(const tn_frame *call) {
  const operand part = {TN_OPERAND_IN, 0, &call->in[0]};
  const operand whole = {TN_OPERAND_OUT, 0, &call->out[0]};
  return infer_padded(call, &part, &whole);
}

/* in = [gradient of out, data, out]. */
int32_t tensor_pad_grad_infer(const tn_frame *call) {
  const operand part = {TN_OPERAND_IN, 1, &call->in[1]};
  const operand whole = {TN_OPERAND_IN, 0, &call->in[0]};
  return infer_padded(call, &part, &whole);
}

/* ---------------------------------------------------------------- borders */

/* The new array, and the position of the old one in it. */
typedef struct padding {
  const tn_frame *call;
  const tn_tensor *whole;
  const int64_t *widths;
  int32_t mode;
} padding;

static int64_t find_old_length(const padding *p, int32_t axis) {
  return p->whole->shape[axis] - p->widths[2 * axis] - p->widths[2 * axis + 1];
}

/* Restricts a view to the old part of the axes before `axis`. */
static void restrict_axes_before(const padding *p, tensor_view *view,
                                 int32_t axis) {
  tensor_view_init(view, p->whole);
  for (int32_t d = 0; d < axis; ++d)
    tensor_view_cut(view, d, p->widths[2 * d], find_old_length(p, d), 1);
}

/* Positions of an axis, and the one that the first of them repeats; the others
 * repeat the same one, or the positions before it. */
typedef struct border {
  int32_t axis;
  int64_t begin, n;
  int64_t repeats;
  int64_t step;
} border;

/* Returns the border before the old part (side 0), or after it (side 1). */
static border find_border(const padding *p, int32_t axis, int side) {
  const int64_t front = p->widths[2 * axis], n = find_old_length(p, axis);
  const int64_t last = front + n - 1;
  const int reflects = p->mode == TENSOR_PAD_MODE_REFLECT;
  border b = {.axis = axis, .step = reflects ? -1 : 0};
  b.begin = side ? front + n : 0;
  b.n = p->widths[2 * axis + side];
  if (side)
    b.repeats = reflects ? last - 1 : last;
  else
    b.repeats = reflects ? 2 * front : front;
  return b;
}

static int32_t fill_border(const padding *p, const border *b) {
  tensor_view to, from;
  restrict_axes_before(p, &to, b->axis);
  if (p->mode == TENSOR_PAD_MODE_CONSTANT) {
    const tensor_element element = tensor_element_of(
        tensor_pad_params_of(p->call)->constant_value, p->whole->dtype);
    tensor_view_cut(&to, b->axis, b->begin, b->n, 1);
    return tensor_fill(p->call, &to.tensor, &element);
  }
  restrict_axes_before(p, &from, b->axis);
  tensor_view_cut(&to, b->axis, b->begin, b->n, 1);
  tensor_view_cut(&from, b->axis, b->repeats, b->n, b->step);
  return tensor_copy(p->call, &to.tensor, &from.tensor);
}

typedef int32_t border_fn(const padding *p, const border *b);

static int32_t visit_borders(const padding *p, int32_t axis, border_fn *fn) {
  for (int side = 0; side < 2; ++side) {
    const border b = find_border(p, axis, side);
    const int32_t code = b.n > 0 ? fn(p, &b) : TN_OK;
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

int32_t tensor_pad(const tn_frame *call) {
  const tensor_pad_params *params = tensor_pad_params_of(call);
  const padding p = {call, &call->out[0], params->pad_width.v, params->mode};
  tensor_view old;
  restrict_axes_before(&p, &old, p.whole->ndim);
  int32_t code = tensor_copy(call, &old.tensor, &call->in[0]);
  for (int32_t d = p.whole->ndim; d-- > 0 && code == TN_OK;)
    code = visit_borders(&p, d, fill_border);
  return code;
}

/* ---------------------------------------------------------------- gradient */

int32_t tensor_pad_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  const int constant =
      tensor_pad_params_of(call)->mode == TENSOR_PAD_MODE_CONSTANT;
  const int64_t n = tn_size_times(tn_tensor_size(&call->in[0]), 8);
  *bytes = constant || n < 0 ? 0 : (uint64_t)n;
  if (constant || n >= 0) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "the copy of the gradient in 8 bytes an element is longer "
                 "than 64 bits count; use mode=constant or a smaller array");
}

int32_t tensor_pad_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD)) return TN_OK;
  return tensor_pad_grad_bytes(call, bytes);
}

/* Adds a border to the elements that it repeats, position by position. */
static int32_t fold_border(const padding *p, const border *b) {
  int32_t code = TN_OK;
  for (int64_t i = 0; i < b->n && code == TN_OK; ++i) {
    tensor_view to, from;
    restrict_axes_before(p, &to, b->axis);
    restrict_axes_before(p, &from, b->axis);
    tensor_view_cut(&to, b->axis, b->repeats + i * b->step, 1, 1);
    tensor_view_cut(&from, b->axis, b->begin + i, 1, 1);
    code = tensor_add(p->call, &to.tensor, &from.tensor);
  }
  return code;
}

/* The forward pass copies borders of the first axis last, so the gradient
 * reduces them first, in a copy with a wide type. */
static int32_t fold_borders(const tn_frame *call, padding *p) {
  tensor_view wide, old;
  tensor_view_shaped(&wide, &call->in[0], call->in[0].ndim, call->in[0].shape);
  wide.tensor.data = call->ws[0];
  wide.tensor.dtype = tensor_wide_dtype(call->in[0].dtype);
  int32_t code = tensor_convert(call, &wide.tensor, &call->in[0]);
  p->whole = &wide.tensor;
  for (int32_t d = 0; d < p->whole->ndim && code == TN_OK; ++d)
    code = visit_borders(p, d, fold_border);
  restrict_axes_before(p, &old, p->whole->ndim);
  p->whole = NULL; /* it ends here */
  return code == TN_OK ? tensor_convert(call, &call->out[0], &old.tensor)
                       : code;
}

/* Also the kernel of pad_grad. */
int32_t tensor_pad_backward(const tn_frame *call) {
  const tensor_pad_params *params = tensor_pad_params_of(call);
  padding p = {call, &call->in[0], params->pad_width.v, params->mode};
  tensor_view old;
  if (tn_tensor_size(&call->out[0]) == 0) return TN_OK;
  if (p.mode != TENSOR_PAD_MODE_CONSTANT) return fold_borders(call, &p);
  restrict_axes_before(&p, &old, p.whole->ndim);
  return tensor_copy(call, &call->out[0], &old.tensor);
}
