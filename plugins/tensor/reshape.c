/* SPDX-License-Identifier: Apache-2.0
 * reshape.c: the operators of reshape.yaml, which keep elements and their
 * order. Each lists the dimensions of its output, some of which are dimensions
 * of `data`. Common functions derive the shapes in both directions from that
 * list.
 */
#include "reshape.gen.h"

#include <string.h>

#include "move.h"
#include "tenon/kernel/checked_size.h"

/* ------------------------------------------------------------------ shapes */

enum { NEW = -1 }; /* a dimension that data does not have */

/* The dimensions of `out`, as far as they are known, and the dimension of data
 * that each equals; in the order in which they were found. */
typedef struct target {
  int32_t ndim;
  int64_t dim[TN_MAX_NDIM];
  int32_t from[TN_MAX_NDIM];
  int32_t rest; /* the dimension with the remaining elements, or -1 */
} target;

static int32_t add_dim(const tn_frame *call, target *t, int64_t dim,
                       int32_t from) {
  if (t->ndim == TN_MAX_NDIM)
    return TN_FAIL(call, TN_SHAPE, "`out` has more than %d dimensions",
                   TN_MAX_NDIM);
  t->dim[t->ndim] = dim;
  t->from[t->ndim++] = from;
  return TN_OK;
}

/* The length that the one unknown dimension must have for `n` elements in all.
 * -1 if there is no such dimension or several, if every length fits, or if the
 * others have too many elements. */
static int64_t missing_length(int32_t ndim, const int64_t *shape, int64_t n,
                              int32_t *which) {
  int64_t others = 1;
  *which = -1;
  for (int32_t d = 0; d < ndim; ++d) {
    if (shape[d] == 0) others = 0;
    if (shape[d] >= 0 && others > 0)
      others = tn_size_times(others, shape[d]);
    else if (shape[d] < 0 && *which >= 0)
      return -1;
    else if (shape[d] < 0)
      *which = d;
  }
  return *which < 0 || n < 0 || others <= 0 || n % others != 0 ? -1
                                                               : n / others;
}

/* Reports dimensions of `data` that are together one of `out`, or all. */
static int32_t refuse_many(const tn_frame *call, int32_t first, int32_t n) {
  const tn_tensor *data = &call->in[0];
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "dimensions %d to %d of `data` %s have more elements than 64 "
                 "bits count",
                 (int)first, (int)(first + n - 1),
                 tensor_shape_text(data->ndim, data->shape).text);
}

static int32_t refuse_size(const tn_frame *call, const target *t) {
  const tn_tensor *data = &call->in[0];
  return TN_FAIL(call, TN_SHAPE,
                 "`data` %s has %lld elements, which do not fit into %s",
                 tensor_shape_text(data->ndim, data->shape).text,
                 (long long)tensor_elements(data->ndim, data->shape),
                 tensor_shape_text(t->ndim, t->dim).text);
}

/* States the dimensions of `out` that follow from `data`. */
static int32_t set_out_shape(const tn_frame *call, target *t) {
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  const int64_t n = tensor_elements(data->ndim, data->shape);
  int32_t which;
  if (n == TENSOR_TOO_MANY) return refuse_many(call, 0, data->ndim);
  if (out->ndim == t->ndim)
    for (int32_t d = 0; d < t->ndim; ++d)
      if (t->dim[d] < 0) t->dim[d] = out->shape[d];
  const int64_t length = missing_length(t->ndim, t->dim, n, &which);
  if (which >= 0 && length >= 0) t->dim[which] = length;
  const int64_t own = tensor_elements(t->ndim, t->dim);
  const int open = own == TENSOR_TOO_MANY || (which >= 0 && which == t->rest);
  if (n >= 0 && (own >= 0 ? own != n : open)) return refuse_size(call, t);
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, t->ndim, t->dim);
}

/* States the dimensions of `data` that follow from `out`. */
static int32_t set_data_shape(const tn_frame *call, const target *t) {
  const tn_tensor *data = &call->in[0];
  int64_t shape[TN_MAX_NDIM];
  int32_t which;
  if (data->ndim < 0) return TN_OK;
  memcpy(shape, data->shape, (size_t)data->ndim * sizeof *shape);
  for (int32_t d = 0; d < t->ndim; ++d)
    if (t->from[d] != NEW && shape[t->from[d]] < 0)
      shape[t->from[d]] = t->dim[d];
  const int64_t length = missing_length(
      data->ndim, shape, tensor_elements(t->ndim, t->dim), &which);
  if (length >= 0) shape[which] = length;
  return call->host->set_shape(call, TN_OPERAND_IN, 0, data->ndim, shape);
}

static int32_t set_shapes(const tn_frame *call, target *t) {
  const int32_t code = set_out_shape(call, t);
  return code == TN_OK ? set_data_shape(call, t) : code;
}

/* ----------------------------------------------------------------- reshape */

/* The list of entries and the dimensions of data, read in one direction. */
typedef struct reading {
  const tn_frame *call;
  const tensor_reshape_params *params;
  const tn_tensor *data;
  target *out;
  int64_t at;   /* the next entry */
  int32_t axis; /* the next dimension of data */
} reading;

static int64_t get_entry(const reading *r, int64_t i) {
  const tn_ints *list = &r->params->shape;
  return list->v[r->params->reverse ? list->n - 1 - i : i];
}

/* The number of a dimension of data, counted in the direction of reading. */
static int32_t find_axis(const reading *r, int32_t i) {
  return r->params->reverse ? r->data->ndim - 1 - i : i;
}

/* Stores the length of the next dimension of data in *length, -1 if it is
 * unknown; an error if there is none. */
static int32_t next_dim(reading *r, int64_t entry, int64_t *length) {
  if (r->axis >= r->data->ndim)
    return TN_FAIL(r->call, TN_SHAPE,
                   "`shape` has %lld for dimension %d of `data` %s, which has "
                   "none",
                   (long long)entry, (int)r->axis + 1,
                   tensor_shape_text(r->data->ndim, r->data->shape).text);
  *length = r->data->shape[find_axis(r, r->axis++)];
  return TN_OK;
}

static int32_t copy_one(reading *r) {
  int64_t length = -1;
  const int32_t code = next_dim(r, 0, &length);
  if (code != TN_OK) return code;
  return add_dim(r->call, r->out, length, find_axis(r, r->axis - 1));
}

static int32_t copy_rest(reading *r) {
  int32_t code = TN_OK;
  while (code == TN_OK && r->axis < r->data->ndim) code = copy_one(r);
  return code;
}

static int32_t refuse_merge(const reading *r, int64_t a, int64_t b) {
  return TN_FAIL(r->call, TN_OUT_OF_RANGE,
                 "-3 in `shape` cannot merge dimensions of %lld and %lld: one "
                 "of their product is longer than 64 bits count",
                 (long long)a, (long long)b);
}

static int32_t merge_two(reading *r) {
  int64_t a = -1, b = -1;
  int32_t code = next_dim(r, -3, &a);
  if (code == TN_OK) code = next_dim(r, -3, &b);
  if (code != TN_OK) return code;
  const int64_t shape[2] = {a, b};
  const int64_t n = tensor_elements(2, shape);
  if (n == TENSOR_TOO_MANY) return refuse_merge(r, a, b);
  return add_dim(r->call, r->out, n, NEW);
}

static int32_t refuse_split(const reading *r, int64_t length,
                            const int64_t *two) {
  return TN_FAIL(r->call, TN_SHAPE,
                 "-4 in `shape` cannot split a dimension of %lld into %lld and "
                 "%lld",
                 (long long)length, (long long)two[0], (long long)two[1]);
}

static int32_t split_one(reading *r) {
  int64_t length = -1, two[2];
  int32_t which;
  const int32_t code = next_dim(r, -4, &length);
  if (code != TN_OK) return code;
  if (r->at + 2 > r->params->shape.n)
    return TN_FAIL(r->call, TN_INVALID,
                   "-4 in `shape` lacks the two numbers that belong to it");
  for (int i = 0; i < 2; ++i) two[i] = get_entry(r, r->at++);
  if (two[0] < -1 || two[1] < -1 || (two[0] == -1 && two[1] == -1))
    return refuse_split(r, length, two);
  const int64_t found = missing_length(2, two, length, &which);
  if (length >= 0 &&
      (which >= 0 ? found < 0 : tensor_elements(2, two) != length))
    return refuse_split(r, length, two);
  if (which >= 0) two[which] = found;
  const int32_t rc = add_dim(r->call, r->out, two[0], NEW);
  return rc == TN_OK ? add_dim(r->call, r->out, two[1], NEW) : rc;
}

static int32_t read_rest(reading *r) {
  if (r->out->rest >= 0)
    return TN_FAIL(r->call, TN_INVALID, "`shape` has more than one -1");
  r->out->rest = r->out->ndim;
  ++r->axis;
  return add_dim(r->call, r->out, -1, NEW);
}

static int32_t read_entry(reading *r) {
  const int64_t entry = get_entry(r, r->at++);
  switch (entry) {
    case 0:
      return copy_one(r);
    case -1:
      return read_rest(r);
    case -2:
      return copy_rest(r);
    case -3:
      return merge_two(r);
    case -4:
      return split_one(r);
    default:
      ++r->axis;
      return add_dim(r->call, r->out, entry, NEW);
  }
}

static void reverse_dims(target *t) {
  for (int32_t i = 0, k = t->ndim - 1; i < k; ++i, --k) {
    const int64_t dim = t->dim[i];
    const int32_t from = t->from[i];
    t->dim[i] = t->dim[k], t->from[i] = t->from[k];
    t->dim[k] = dim, t->from[k] = from;
  }
  if (t->rest >= 0) t->rest = t->ndim - 1 - t->rest;
}

int32_t tensor_reshape_infer(const tn_frame *call) {
  target t = {.rest = -1};
  reading r = {.call = call,
               .params = tensor_reshape_params_of(call),
               .data = &call->in[TENSOR_RESHAPE_IN_DATA],
               .out = &t};
  if (r.data->ndim < 0) return TN_OK;
  while (r.at < r.params->shape.n) {
    const int32_t code = read_entry(&r);
    if (code != TN_OK) return code;
  }
  if (r.params->reverse) reverse_dims(&t);
  return set_shapes(call, &t);
}

/* -------------------------------------------------------------- the others */

int32_t tensor_flatten_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_FLATTEN_IN_DATA];
  if (data->ndim == 0)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` has no dimension; flatten keeps the first one");
  if (data->ndim < 0) return TN_OK;
  const int64_t row = tensor_elements(data->ndim - 1, data->shape + 1);
  if (row == TENSOR_TOO_MANY) return refuse_many(call, 1, data->ndim - 1);
  target t = {
      .ndim = 2, .dim = {data->shape[0], row}, .from = {0, NEW}, .rest = -1};
  return set_shapes(call, &t);
}

/* States a shape with one more dimension at `axis` than `less`. `more` is
 * stated, `less` may be unknown. */
static int32_t grow_shape(const tn_frame *call, int64_t param,
                          uint32_t less_list, uint32_t more_list) {
  const tn_tensor *less =
      less_list == TN_OPERAND_IN ? &call->in[0] : &call->out[0];
  const tn_tensor *more =
      more_list == TN_OPERAND_IN ? &call->in[0] : &call->out[0];
  const int32_t ndim = less->ndim >= 0 ? less->ndim + 1 : more->ndim;
  int64_t longer[TN_MAX_NDIM + 1], shorter[TN_MAX_NDIM];
  int32_t axis;
  if (ndim < 0) return TN_OK;
  if (ndim > TN_MAX_NDIM)
    return TN_FAIL(call, TN_SHAPE, "more than %d dimensions", TN_MAX_NDIM);
  int32_t code = tensor_axis(call, "axis", param, ndim, &axis);
  if (code != TN_OK) return code;
  for (int32_t d = 0, k = 0; d < ndim; ++d) {
    longer[d] = d == axis ? 1 : -1;
    if (d == axis) continue;
    longer[d] = less->ndim >= 0 && less->shape[k] >= 0 ? less->shape[k]
                : more->ndim == ndim                   ? more->shape[d]
                                                       : -1;
    shorter[k++] = longer[d];
  }
  code = call->host->set_shape(call, more_list, 0, ndim, longer);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, less_list, 0, ndim - 1, shorter);
}

int32_t tensor_expand_dims_infer(const tn_frame *call) {
  return grow_shape(call, tensor_expand_dims_params_of(call)->axis,
                    TN_OPERAND_IN, TN_OPERAND_OUT);
}

int32_t tensor_squeeze_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_SQUEEZE_IN_DATA];
  const int64_t param = tensor_squeeze_params_of(call)->axis;
  int32_t axis;
  if (data->ndim >= 0) {
    const int32_t code = tensor_axis(call, "axis", param, data->ndim, &axis);
    if (code != TN_OK) return code;
    if (data->shape[axis] > 1 || data->shape[axis] == 0)
      return TN_FAIL(call, TN_SHAPE,
                     "axis %d of `data` %s has length %lld; only one of 1 can "
                     "be left out",
                     (int)axis, tensor_shape_text(data->ndim, data->shape).text,
                     (long long)data->shape[axis]);
  }
  return grow_shape(call, param, TN_OPERAND_OUT, TN_OPERAND_IN);
}

/* ------------------------------------------------------------------ kernel */

/* Copies the first input, or a gradient, to the shape of the output. The output
 * of the operator is dense, and so is its gradient, so one of the two can be
 * viewed with the shape of the other. */
int32_t tensor_same_elements(const tn_frame *call) {
  const tn_tensor *to = &call->out[0], *from = &call->in[0];
  tensor_view view;
  if (call->req[0] == TN_REQ_INPLACE) return TN_OK;
  if (tn_tensor_is_contiguous(to)) {
    tensor_view_shaped(&view, to, from->ndim, from->shape);
    return tensor_copy(call, &view.tensor, from);
  }
  tensor_view_shaped(&view, from, to->ndim, to->shape);
  return tensor_copy(call, to, &view.tensor);
}
