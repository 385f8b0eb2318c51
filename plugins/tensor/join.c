/* SPDX-License-Identifier: Apache-2.0
 * join.c: the operators of join.yaml, which join arrays or split them. Each
 * part is a view of the whole.
 */
#include "join.gen.h"

#include "move.h"
#include "tenon/kernel/checked_size.h"

enum { TOGETHER = 8 }; /* parts in one copy */

/* ----------------------------------------------------------------- shapes */

/* Known dimensions of several shapes that agree in all axes but perhaps one. */
typedef struct common {
  int32_t ndim;
  int64_t dim[TN_MAX_NDIM];
} common;

static void merge_shape(common *c, const tn_tensor *t) {
  if (t->ndim < 0) return;
  if (c->ndim < 0)
    for (int32_t d = 0; d < t->ndim; ++d) c->dim[d] = -1;
  if (c->ndim >= 0 && c->ndim != t->ndim) return; /* the host reports it */
  c->ndim = t->ndim;
  for (int32_t d = 0; d < t->ndim; ++d)
    if (c->dim[d] < 0) c->dim[d] = t->shape[d];
}

static int32_t set_shape(const tn_frame *call, uint32_t list, uint32_t i,
                         const common *c) {
  return call->host->set_shape(call, list, i, c->ndim, c->dim);
}

static int64_t get_length(const tn_tensor *t, int32_t ndim, int32_t axis) {
  return t->ndim == ndim ? t->shape[axis] : -1;
}

static int32_t check_parts(const tn_frame *call) {
  if (call->n_in > 0) return TN_OK;
  return TN_FAIL(call, TN_INVALID, "there are no parts; give at least one");
}

/* The sum of the known lengths, -1 if it exceeds 64 bits, and the number of
 * unknown ones. */
static int64_t sum_lengths(const tn_frame *call, int32_t ndim, int32_t axis,
                           uint32_t *n_unknown) {
  int64_t sum = 0;
  *n_unknown = 0;
  for (uint32_t k = 0; k < call->n_in; ++k) {
    const int64_t n = get_length(&call->in[k], ndim, axis);
    if (n < 0)
      ++*n_unknown;
    else if (sum >= 0)
      sum = tn_size_plus(sum, n);
  }
  return sum;
}

/* States the known dimensions of each part; `last` is the length of the only
 * part with an unknown one, or -1. */
static int32_t set_part_shapes(const tn_frame *call, common *c, int32_t axis,
                               int64_t last) {
  for (uint32_t k = 0; k < call->n_in; ++k) {
    const int64_t own = get_length(&call->in[k], c->ndim, axis);
    c->dim[axis] = own >= 0 ? own : last;
    const int32_t code = set_shape(call, TN_OPERAND_IN, k, c);
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

int32_t tensor_concat_infer(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  common c = {.ndim = -1};
  int32_t axis;
  uint32_t n_unknown;
  int32_t code = check_parts(call);
  if (code != TN_OK) return code;
  for (uint32_t k = 0; k < call->n_in; ++k) merge_shape(&c, &call->in[k]);
  merge_shape(&c, out);
  if (c.ndim < 0) return TN_OK;
  code = tensor_axis(call, "dim", tensor_concat_params_of(call)->dim, c.ndim,
                     &axis);
  if (code != TN_OK) return code;
  const int64_t sum = sum_lengths(call, c.ndim, axis, &n_unknown);
  const int64_t whole = get_length(out, c.ndim, axis);
  if (sum < 0)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "the parts have more places along axis %d than 64 bits "
                   "count; join fewer of them",
                   (int)axis);
  if (whole >= 0 && (n_unknown == 0 ? sum != whole : sum > whole))
    return TN_FAIL(call, TN_SHAPE,
                   "the parts have %s%lld along axis %d, but `out` %s has %lld",
                   n_unknown > 0 ? "at least " : "", (long long)sum, (int)axis,
                   tensor_shape_text(out->ndim, out->shape).text,
                   (long long)whole);
  code = set_part_shapes(call, &c, axis,
                         n_unknown == 1 && whole >= 0 ? whole - sum : -1);
  if (code != TN_OK) return code;
  c.dim[axis] = n_unknown == 0 ? sum : whole;
  return set_shape(call, TN_OPERAND_OUT, 0, &c);
}

/* Adds `axis` with length n to a shape without it. */
static void insert_axis(common *c, int32_t axis, int64_t n) {
  for (int32_t d = c->ndim++; d > axis; --d) c->dim[d] = c->dim[d - 1];
  c->dim[axis] = n;
}

static void remove_axis(common *c, int32_t axis) {
  --c->ndim;
  for (int32_t d = axis; d < c->ndim; ++d) c->dim[d] = c->dim[d + 1];
}

/* Collects the shape without an axis, from the tensors that lack the axis and
 * from the one that has it. */
static int32_t merge_shape_without(const tn_frame *call, const char *param,
                                   int64_t place, common *c,
                                   const tn_tensor *whole, int32_t *axis) {
  common other = {.ndim = -1};
  const int32_t ndim = c->ndim >= 0 ? c->ndim + 1 : whole->ndim;
  const int32_t code = tensor_axis(call, param, place, ndim, axis);
  if (code != TN_OK) return code;
  if (ndim > TN_MAX_NDIM)
    return TN_FAIL(call, TN_SHAPE, "more than %d dimensions", TN_MAX_NDIM);
  merge_shape(&other, whole);
  if (other.ndim != ndim) return TN_OK;
  remove_axis(&other, *axis);
  if (c->ndim < 0)
    for (int32_t d = 0; d < other.ndim; ++d) c->dim[d] = -1;
  c->ndim = other.ndim;
  for (int32_t d = 0; d < c->ndim; ++d)
    if (c->dim[d] < 0) c->dim[d] = other.dim[d];
  return TN_OK;
}

int32_t tensor_stack_infer(const tn_frame *call) {
  const int64_t place = tensor_stack_params_of(call)->axis;
  common c = {.ndim = -1};
  int32_t axis = 0;
  int32_t code = check_parts(call);
  if (code != TN_OK) return code;
  for (uint32_t k = 0; k < call->n_in; ++k) merge_shape(&c, &call->in[k]);
  if (c.ndim < 0 && call->out[0].ndim < 0) return TN_OK;
  code = merge_shape_without(call, "axis", place, &c, &call->out[0], &axis);
  for (uint32_t k = 0; k < call->n_in && code == TN_OK; ++k)
    code = set_shape(call, TN_OPERAND_IN, k, &c);
  if (code != TN_OK) return code;
  insert_axis(&c, axis, call->n_in);
  return set_shape(call, TN_OPERAND_OUT, 0, &c);
}

/* Reports a length that is not divisible by the number of parts. */
static int32_t check_length(const tn_frame *call, int32_t axis) {
  const tensor_split_params *p = tensor_split_params_of(call);
  const tn_tensor *data = &call->in[TENSOR_SPLIT_IN_DATA];
  const int64_t n = data->shape[axis];
  if (n < 0 ||
      (p->squeeze_axis ? n == p->num_outputs : n % p->num_outputs == 0))
    return TN_OK;
  return TN_FAIL(
      call, TN_SHAPE,
      "axis %d of `data` %s has length %lld; %s num_outputs=%lld", (int)axis,
      tensor_shape_text(data->ndim, data->shape).text, (long long)n,
      p->squeeze_axis ? "squeeze_axis=true wants" : "it must be a multiple of",
      (long long)p->num_outputs);
}

static int32_t infer_squeezed(const tn_frame *call) {
  const tensor_split_params *p = tensor_split_params_of(call);
  const tn_tensor *data = &call->in[TENSOR_SPLIT_IN_DATA];
  common c = {.ndim = -1};
  int32_t axis = 0;
  for (uint32_t k = 0; k < call->n_out; ++k) merge_shape(&c, &call->out[k]);
  if (c.ndim < 0 && data->ndim < 0) return TN_OK;
  int32_t code = merge_shape_without(call, "axis", p->axis, &c, data, &axis);
  if (code == TN_OK && data->ndim >= 0) code = check_length(call, axis);
  for (uint32_t k = 0; k < call->n_out && code == TN_OK; ++k)
    code = set_shape(call, TN_OPERAND_OUT, k, &c);
  if (code != TN_OK) return code;
  insert_axis(&c, axis, p->num_outputs);
  return set_shape(call, TN_OPERAND_IN, 0, &c);
}

int32_t tensor_split_infer(const tn_frame *call) {
  const tensor_split_params *p = tensor_split_params_of(call);
  const tn_tensor *data = &call->in[TENSOR_SPLIT_IN_DATA];
  common c = {.ndim = -1};
  int32_t axis;
  if (p->squeeze_axis) return infer_squeezed(call);
  for (uint32_t k = 0; k < call->n_out; ++k) merge_shape(&c, &call->out[k]);
  const int64_t ndim = c.ndim >= 0 ? c.ndim : data->ndim;
  if (ndim < 0) return TN_OK;
  int32_t code = tensor_axis(call, "axis", p->axis, (int32_t)ndim, &axis);
  if (code == TN_OK && data->ndim == ndim) code = check_length(call, axis);
  if (code != TN_OK) return code;
  int64_t each = c.ndim >= 0 ? c.dim[axis] : -1;
  merge_shape(&c, data);
  if (get_length(data, c.ndim, axis) >= 0)
    each = data->shape[axis] / p->num_outputs;
  c.dim[axis] = each;
  for (uint32_t k = 0; k < call->n_out && code == TN_OK; ++k)
    code = set_shape(call, TN_OPERAND_OUT, k, &c);
  if (code != TN_OK) return code;
  c.dim[axis] = each < 0 ? -1 : tn_size_times(each, p->num_outputs);
  if (each >= 0 && c.dim[axis] < 0)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "num_outputs=%lld parts of length %lld along axis %d are "
                   "longer than 64 bits count",
                   (long long)p->num_outputs, (long long)each, (int)axis);
  return set_shape(call, TN_OPERAND_IN, 0, &c);
}

/* ---------------------------------------------------------------- kernels */

/* Iterates over the parts of a whole: each starts at `at` along an axis, and
 * has that axis unless it is `gone`. */
typedef struct parts {
  const tn_frame *call;
  const tn_tensor *whole;
  int32_t axis;
  int gone;
  int64_t each;            /* length of all parts, if it is the same */
  const tn_tensor *shapes; /* otherwise shapes with the lengths */
  int64_t at;
} parts;

/* Moves the view to part k, from part k - 1. */
static void find_next_part(parts *p, uint32_t k, tensor_view *view) {
  const int64_t n = p->shapes ? p->shapes[k].shape[p->axis] : p->each;
  tensor_view_init(view, p->whole);
  tensor_view_cut(view, p->axis, p->at, n, 1);
  p->at += n;
  if (!p->gone) return;
  --view->tensor.ndim;
  for (int32_t d = p->axis; d < view->tensor.ndim; ++d) {
    view->shape[d] = view->shape[d + 1];
    view->strides[d] = view->strides[d + 1];
  }
}

/* Several pieces of one copy. */
typedef struct batch {
  uint32_t n;
  tensor_view views[TOGETHER];
  tensor_piece pieces[TOGETHER];
} batch;

static int32_t flush_batch(const tn_frame *call, batch *b) {
  const uint32_t n = b->n;
  b->n = 0;
  return tensor_copy_pieces(call, n, b->pieces);
}

/* Copies the parts of the whole to the outputs, some of which may be null
 * requests. */
static int32_t split_parts(parts *p) {
  const tn_frame *call = p->call;
  batch b;
  int32_t code = TN_OK;
  b.n = 0;
  for (uint32_t k = 0; k < call->n_out && code == TN_OK; ++k) {
    tensor_view *view = &b.views[b.n];
    find_next_part(p, k, view);
    if (call->req[k] == TN_REQ_NULL) continue;
    b.pieces[b.n++] = (tensor_piece){&call->out[k], &view->tensor};
    if (b.n == TOGETHER) code = flush_batch(call, &b);
  }
  return code == TN_OK ? flush_batch(call, &b) : code;
}

/* Copies the first n inputs into the whole; absent ones are zeros. */
static int32_t join_parts(parts *p, uint32_t n) {
  const tn_frame *call = p->call;
  batch b;
  int32_t code = TN_OK;
  b.n = 0;
  for (uint32_t k = 0; k < n && code == TN_OK; ++k) {
    tensor_view *view = &b.views[b.n];
    find_next_part(p, k, view);
    if ((call->in_flags[k] & TN_IN_ABSENT) != 0) {
      code = tensor_fill_zeros(call, &view->tensor);
      continue;
    }
    b.pieces[b.n++] = (tensor_piece){&view->tensor, &call->in[k]};
    if (b.n == TOGETHER) code = flush_batch(call, &b);
  }
  return code == TN_OK ? flush_batch(call, &b) : code;
}

int32_t tensor_concat(const tn_frame *call) {
  parts p = {.call = call, .whole = &call->out[0], .shapes = call->in};
  const int32_t code = tensor_axis(
      call, "dim", tensor_concat_params_of(call)->dim, p.whole->ndim, &p.axis);
  return code == TN_OK ? join_parts(&p, call->n_in) : code;
}

/* in: the gradient of the whole, then the parts as far as they are known. */
int32_t tensor_concat_backward(const tn_frame *call) {
  parts p = {.call = call, .whole = &call->in[0], .shapes = &call->in[1]};
  const int32_t code = tensor_axis(
      call, "dim", tensor_concat_params_of(call)->dim, p.whole->ndim, &p.axis);
  return code == TN_OK ? split_parts(&p) : code;
}

int32_t tensor_stack(const tn_frame *call) {
  parts p = {.call = call, .whole = &call->out[0], .gone = 1, .each = 1};
  const int32_t code = tensor_axis(
      call, "axis", tensor_stack_params_of(call)->axis, p.whole->ndim, &p.axis);
  return code == TN_OK ? join_parts(&p, call->n_in) : code;
}

int32_t tensor_stack_backward(const tn_frame *call) {
  parts p = {.call = call, .whole = &call->in[0], .gone = 1, .each = 1};
  const int32_t code = tensor_axis(
      call, "axis", tensor_stack_params_of(call)->axis, p.whole->ndim, &p.axis);
  return code == TN_OK ? split_parts(&p) : code;
}

int32_t tensor_split(const tn_frame *call) {
  const tensor_split_params *params = tensor_split_params_of(call);
  parts p = {.call = call, .whole = &call->in[0], .gone = params->squeeze_axis};
  const int32_t code =
      tensor_axis(call, "axis", params->axis, p.whole->ndim, &p.axis);
  if (code != TN_OK) return code;
  p.each = p.whole->shape[p.axis] / params->num_outputs;
  return split_parts(&p);
}

/* in: gradients of the parts, data, the parts. */
int32_t tensor_split_backward(const tn_frame *call) {
  const tensor_split_params *params = tensor_split_params_of(call);
  parts p = {
      .call = call, .whole = &call->out[0], .gone = params->squeeze_axis};
  const int32_t code =
      tensor_axis(call, "axis", params->axis, p.whole->ndim, &p.axis);
  if (code != TN_OK) return code;
  p.each = p.whole->shape[p.axis] / params->num_outputs;
  return join_parts(&p, (uint32_t)params->num_outputs);
}
