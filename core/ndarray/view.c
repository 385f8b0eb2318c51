/* SPDX-License-Identifier: Apache-2.0
 * view.c: views of an array: slices, one index of an axis, transposes,
 * broadcasts and other types. They share its memory and never access the
 * elements.
 * array_reshape.c has the reshape.
 */
#include <string.h>

#include "ndarray.h"

/* A view of the whole array; the functions below change it. */
typedef struct draft {
  tn__view view;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
} draft;

static void draft_init(draft *d, const tn_array *array) {
  const tn_tensor *t = &array->tensor;
  for (int32_t i = 0; i < t->ndim; ++i) {
    d->shape[i] = t->shape[i];
    d->strides[i] = t->strides[i];
  }
  d->view = (tn__view){t->ndim, d->shape, d->strides, 0};
}

static tn_code check_axis(const tn_array *array, int32_t *axis) {
  int32_t ndim = array->tensor.ndim;
  if (*axis < -ndim || *axis >= ndim)
    return tn__fail(TN_OUT_OF_RANGE,
                    "there is no axis %d in an array of %d"
                    " dimensions",
                    (int)*axis, (int)ndim);
  if (*axis < 0) *axis += ndim;
  return TN_OK;
}

/* A negative index counts from the end; the result is in [low, high]. */
static int64_t clip_index(int64_t index, int64_t n, int64_t low, int64_t high) {
  if (index < 0) index += n;
  return index < low ? low : index > high ? high : index;
}

tn_code tn__array_slice(tn_array *array, const tn_range *range,
                        tn_array **out) {
  *out = NULL;
  if (range->reserved)
    return tn__fail(TN_INVALID,
                    "tn_range.reserved is %d, which has no meaning; set it to"
                    " 0",
                    (int)range->reserved);
  int32_t axis = range->axis;
  TN__TRY(check_axis(array, &axis));
  draft d;
  draft_init(&d, array);
  int64_t n = d.shape[axis], step = range->step ? range->step : 1;
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  int64_t begin = clip_index(range->begin, n, low, high);
  int64_t end = clip_index(range->end, n, low, high);
  int64_t span = step > 0 ? end - begin : begin - end;
  uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  int64_t count = span > 0 ? (int64_t)(((uint64_t)span - 1) / stride) + 1 : 0;
  /* With at most one element the step is unused and may be any number, so it is
   * not multiplied. */
  d.view.offset = count > 0 ? begin * d.strides[axis] : 0;
  if (count > 1) d.strides[axis] *= step;
  d.shape[axis] = count;
  return tn__array_view(array, &d.view, out);
}

tn_code tn__array_index(tn_array *array, int32_t axis, int64_t index,
                        tn_array **out) {
  *out = NULL;
  TN__TRY(check_axis(array, &axis));
  draft d;
  draft_init(&d, array);
  int64_t n = d.shape[axis];
  if (index < -n || index >= n)
    return tn__fail(TN_OUT_OF_RANGE,
                    "index %lld is outside axis %d, which"
                    " has %lld elements",
                    (long long)index, (int)axis, (long long)n);
  d.view.offset = (index < 0 ? index + n : index) * d.strides[axis];
  size_t behind = (size_t)(d.view.ndim - axis - 1) * sizeof(int64_t);
  memmove(d.shape + axis, d.shape + axis + 1, behind);
  memmove(d.strides + axis, d.strides + axis + 1, behind);
  d.view.ndim -= 1;
  return tn__array_view(array, &d.view, out);
}

tn_code tn__array_transpose(tn_array *array, const int32_t *axes,
                            tn_array **out) {
  *out = NULL;
  const tn_tensor *t = &array->tensor;
  draft d;
  draft_init(&d, array);
  uint32_t seen = 0;
  for (int32_t i = 0; i < t->ndim; ++i) {
    int32_t axis = axes ? axes[i] : t->ndim - 1 - i;
    TN__TRY(check_axis(array, &axis));
    if (seen & (1u << axis))
      return tn__fail(TN_INVALID,
                      "axis %d occurs twice in the order of a"
                      " transpose; each of the %d axes must occur once",
                      (int)axis, (int)t->ndim);
    seen |= 1u << axis;
    d.shape[i] = t->shape[axis];
    d.strides[i] = t->strides[axis];
  }
  return tn__array_view(array, &d.view, out);
}

static tn_code check_broadcast(const tn_array *array, int32_t ndim,
                               const int64_t *shape) {
  if (ndim < array->tensor.ndim || ndim > TN_MAX_NDIM)
    return tn__fail(TN_SHAPE,
                    "an array of %d dimensions cannot be broadcast to"
                    " %d; at least as many and at most %d are allowed",
                    (int)array->tensor.ndim, (int)ndim, TN_MAX_NDIM);
  if (ndim > 0 && !shape)
    return tn__fail(TN_INVALID, "the shape to broadcast to is NULL");
  size_t bytes = 0;
  if (!tn__tensor_bytes(array->tensor.dtype, ndim, shape, &bytes))
    return tn__fail(TN_OUT_OF_RANGE,
                    "the shape to broadcast to has a negative"
                    " dimension or more elements than can be counted");
  return TN_OK;
}

tn_code tn__array_broadcast(tn_array *array, int32_t ndim, const int64_t *shape,
                            tn_array **out) {
  *out = NULL;
  TN__TRY(check_broadcast(array, ndim, shape));
  const tn_tensor *t = &array->tensor;
  draft d;
  d.view = (tn__view){ndim, d.shape, d.strides, 0};
  int32_t lead = ndim - t->ndim;
  for (int32_t i = 0; i < ndim; ++i) {
    int64_t have = i < lead ? 1 : t->shape[i - lead];
    if (have != 1 && have != shape[i])
      return tn__fail(TN_SHAPE,
                      "dimension %d has %lld elements and cannot be"
                      " broadcast to %lld; only 1 can",
                      (int)(i - lead), (long long)have, (long long)shape[i]);
    d.shape[i] = shape[i];
    d.strides[i] = i < lead || have != shape[i] ? 0 : t->strides[i - lead];
  }
  return tn__array_view(array, &d.view, out);
}

static tn_code fail_bits(tn_dtype from, tn_dtype to) {
  if (to == TN_BOOL)
    return tn__fail(TN_DTYPE,
                    "bits of %s cannot be seen as bool, because a bool is 0 or "
                    "1; use u8, or compare with 0",
                    tn__dtype_name(from));
  return tn__fail(TN_DTYPE,
                  "an element of %s has %d bits and one of %s has %d; a view "
                  "of the bits needs a type of the same size",
                  tn__dtype_name(from), (int)tn_dtype_bits(from),
                  tn__dtype_name(to), (int)tn_dtype_bits(to));
}

tn_code tn__array_bits(tn_array *array, tn_dtype dtype, tn_array **out) {
  const tn_dtype from = array->tensor.dtype;
  *out = NULL;
  if (tn__dtype_bit(dtype) == 0)
    return tn__fail(TN_DTYPE, "0x%x is no element type", dtype);
  if (tn_dtype_bits(dtype) != tn_dtype_bits(from) ||
      (dtype == TN_BOOL && from != TN_BOOL))
    return fail_bits(from, dtype);
  draft d;
  draft_init(&d, array);
  TN__TRY(tn__array_view(array, &d.view, out));
  (*out)->tensor.dtype = dtype;
  return TN_OK;
}
