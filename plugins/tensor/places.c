/* SPDX-License-Identifier: Apache-2.0
 * places.c: shapes and geometry of places.h.
 */
#include "places.h"

#include <string.h>

#include "move.h"

static int32_t set_shape(const tn_frame *call, const tensor_operand *o,
                         int32_t ndim, const int64_t *shape) {
  return call->host->set_shape(call, o->list, o->index, ndim, shape);
}

/* Fills unknown dimensions from an operand of the same rank. */
static void fill_unknown_dims(int64_t *shape, int32_t ndim,
                              const tn_tensor *from) {
  for (int32_t d = 0; d < ndim && from->ndim == ndim; ++d)
    if (shape[d] < 0) shape[d] = from->shape[d];
}

/* The distance along the next dimension to the left. In an array without
 * elements a product of lengths may be too large, and no distance counts. */
static int64_t multiply_step(const tensor_places *p, int64_t step,
                             int64_t length) {
  return p->size > 0 ? step * length : 0;
}

/* ---------------------------------------------------------------- elements */

/* Only along the axis the indices may be longer than the array. */
static int32_t check_lengths(const tn_frame *call, int32_t axis,
                             const tensor_operand *o) {
  const tn_tensor *whole = o[TENSOR_WHOLE].tensor;
  const tn_tensor *indices = o[TENSOR_INDICES].tensor;
  for (int32_t d = 0; d < whole->ndim; ++d)
    if (d != axis && whole->shape[d] >= 0 &&
        indices->shape[d] > whole->shape[d])
      return TN_FAIL(call, TN_SHAPE,
                     "`indices` %s is longer than `%s` %s in dimension %d; "
                     "only along axis %d it may be",
                     tensor_shape_text(whole->ndim, indices->shape).text,
                     o[TENSOR_WHOLE].name,
                     tensor_shape_text(whole->ndim, whole->shape).text, (int)d,
                     (int)axis);
  return TN_OK;
}

int32_t tensor_infer_elements(const tn_frame *call, int64_t axis,
                              const tensor_operand *o) {
  const tn_tensor *whole = o[TENSOR_WHOLE].tensor;
  const tn_tensor *indices = o[TENSOR_INDICES].tensor;
  const tn_tensor *slices = o[TENSOR_SLICES].tensor;
  const tn_tensor *known = indices->ndim >= 0 ? indices : slices;
  int64_t shape[TN_MAX_NDIM];
  int32_t at;
  if (known->ndim < 0) return TN_OK;
  for (int32_t d = 0; d < known->ndim; ++d) shape[d] = known->shape[d];
  fill_unknown_dims(shape, known->ndim, slices);
  int32_t code = set_shape(call, &o[TENSOR_INDICES], known->ndim, shape);
  if (code == TN_OK)
    code = set_shape(call, &o[TENSOR_SLICES], known->ndim, shape);
  if (code != TN_OK || whole->ndim < 0) return code;
  if (whole->ndim != known->ndim)
    return TN_FAIL(call, TN_SHAPE,
                   "`indices` has %d dimensions, `%s` %d: both must have the "
                   "same number",
                   (int)known->ndim, o[TENSOR_WHOLE].name, (int)whole->ndim);
  code = tensor_axis(call, "axis", axis, whole->ndim, &at);
  return code == TN_OK && indices->ndim >= 0 ? check_lengths(call, at, o)
                                             : code;
}

int32_t tensor_init_elements(const tn_frame *call, int64_t axis,
                             const tn_tensor *whole, const tn_tensor *indices,
                             tensor_places *p) {
  int32_t at;
  int64_t step = 1;
  memset(p, 0, sizeof *p);
  const int32_t code = tensor_axis(call, "axis", axis, whole->ndim, &at);
  if (code != TN_OK) return code;
  p->n = tn_tensor_size(indices);
  p->inner = 1;
  p->size = tn_tensor_size(whole);
  p->ndim = whole->ndim;
  p->axis = at;
  for (int32_t d = whole->ndim; d-- > 0;) {
    p->shape[d] = indices->shape[d];
    p->length[d] = whole->shape[d];
    p->step[d] = step;
    step = multiply_step(p, step, whole->shape[d]);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ tuples */

/* The dimension of the indices along which a tuple extends. */
static int32_t find_tuple_axis(const tensor_tuples *form,
                               const tn_tensor *indices) {
  return form->axis == 0 ? 0 : indices->ndim - 1;
}

static int32_t check_tuples(const tn_frame *call, const tensor_tuples *form,
                            const tensor_operand *o) {
  const tn_tensor *whole = o[TENSOR_WHOLE].tensor;
  const tn_tensor *indices = o[TENSOR_INDICES].tensor;
  if (form->batch_dims >= indices->ndim)
    return TN_FAIL(call, TN_SHAPE,
                   "`indices` has %d dimensions: it needs one for the tuples "
                   "and %lld for batch_dims",
                   (int)indices->ndim, (long long)form->batch_dims);
  if (whole->ndim < 0) return TN_OK;
  const int64_t depth = indices->shape[find_tuple_axis(form, indices)];
  const int64_t most = whole->ndim - form->batch_dims;
  if (most >= 0 && depth <= most) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "a tuple of `indices` %s has %lld indices, and batch_dims is "
                 "%lld, but `%s` has %d dimensions",
                 tensor_shape_text(indices->ndim, indices->shape).text,
                 (long long)depth, (long long)form->batch_dims,
                 o[TENSOR_WHOLE].name, (int)whole->ndim);
}

/* The shape of the slices: that of the indices without the axis of a tuple,
 * then the dimensions that no tuple names. Returns its rank. */
static int32_t list_slice_dims(const tensor_tuples *form,
                               const tn_tensor *whole, const tn_tensor *indices,
                               int64_t *shape) {
  const int32_t axis = find_tuple_axis(form, indices);
  const int32_t named =
      (int32_t)form->batch_dims + (int32_t)indices->shape[axis];
  int32_t n = 0;
  for (int32_t d = 0; d < indices->ndim; ++d)
    if (d != axis) shape[n++] = indices->shape[d];
  for (int32_t d = named; d < whole->ndim; ++d) shape[n++] = whole->shape[d];
  return n;
}

/* Sets the shapes of all three from that of the slices, which is as complete as
 * possible. */
static int32_t set_tuple_shapes(const tn_frame *call, const tensor_tuples *form,
                                const tensor_operand *o, int32_t ndim,
                                const int64_t *shape) {
  const tn_tensor *whole = o[TENSOR_WHOLE].tensor;
  const tn_tensor *indices = o[TENSOR_INDICES].tensor;
  const int32_t axis = find_tuple_axis(form, indices);
  const int32_t named =
      (int32_t)form->batch_dims + (int32_t)indices->shape[axis];
  int64_t own[TN_MAX_NDIM];
  int32_t n = 0;
  int32_t code = set_shape(call, &o[TENSOR_SLICES], ndim, shape);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < indices->ndim; ++d)
    own[d] = d == axis ? indices->shape[d] : shape[n++];
  code = set_shape(call, &o[TENSOR_INDICES], indices->ndim, own);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < whole->ndim; ++d)
    own[d] = d < form->batch_dims ? shape[d]
             : d < named          ? whole->shape[d]
                                  : shape[n + d - named];
  return set_shape(call, &o[TENSOR_WHOLE], whole->ndim, own);
}

int32_t tensor_infer_tuples(const tn_frame *call, const tensor_tuples *form,
                            const tensor_operand *o) {
  const tn_tensor *whole = o[TENSOR_WHOLE].tensor;
  const tn_tensor *indices = o[TENSOR_INDICES].tensor;
  int64_t shape[2 * TN_MAX_NDIM];
  if (indices->ndim < 0) return TN_OK;
  const int32_t code = check_tuples(call, form, o);
  if (code != TN_OK || whole->ndim < 0 ||
      indices->shape[find_tuple_axis(form, indices)] < 0)
    return code;
  const int32_t ndim = list_slice_dims(form, whole, indices, shape);
  if (ndim > TN_MAX_NDIM)
    return TN_FAIL(call, TN_SHAPE,
                   "`%s` would have %d dimensions; at most %d are possible",
                   o[TENSOR_SLICES].name, (int)ndim, TN_MAX_NDIM);
  fill_unknown_dims(shape, ndim, o[TENSOR_SLICES].tensor);
  for (int32_t d = 0; d < form->batch_dims; ++d)
    if (shape[d] < 0) shape[d] = whole->shape[d];
  return set_tuple_shapes(call, form, o, ndim, shape);
}

/* Empty tuples may be more than 64 bits count; then all slices are empty. */
static int64_t count_tuples(const tn_tensor *indices, int32_t axis) {
  int64_t shape[TN_MAX_NDIM];
  int32_t n = 0;
  for (int32_t d = 0; d < indices->ndim; ++d)
    if (d != axis) shape[n++] = indices->shape[d];
  const int64_t count = tensor_elements(n, shape);
  return count < 0 ? 0 : count;
}

void tensor_init_tuples(const tensor_tuples *form, const tn_tensor *whole,
                        const tn_tensor *indices, tensor_places *p) {
  const int32_t axis = find_tuple_axis(form, indices);
  const int32_t batch_dims = (int32_t)form->batch_dims;
  const int64_t n = count_tuples(indices, axis);
  int64_t step = 1;
  memset(p, 0, sizeof *p);
  p->is_tuples = 1;
  p->n = p->per_batch = n;
  p->size = tn_tensor_size(whole);
  p->depth = indices->shape[axis];
  p->next_tuple = form->axis == 0 ? 1 : p->depth;
  p->next_index = form->axis == 0 ? n : 1;
  p->batch_dims = batch_dims;
  for (int32_t d = 0; d < batch_dims && n > 0; ++d)
    p->per_batch /= indices->shape[d];
  for (int32_t d = whole->ndim; d-- > batch_dims;) {
    if (d == batch_dims + p->depth - 1) p->inner = step;
    if (d < batch_dims + p->depth) {
      p->length[d - batch_dims] = whole->shape[d];
      p->step[d - batch_dims] = step;
    }
    step = multiply_step(p, step, whole->shape[d]);
  }
  if (p->depth == 0) p->inner = step;
  p->next_batch = step;
}

tensor_places tensor_count_slices(const tensor_places *p) {
  tensor_places slices = *p;
  if (p->inner == 0) return slices;
  for (int64_t k = 0; k < p->depth; ++k) slices.step[k] = p->step[k] / p->inner;
  slices.next_batch = p->next_batch / p->inner;
  slices.size = p->size / p->inner;
  slices.inner = 1;
  return slices;
}
