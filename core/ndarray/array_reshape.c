/* SPDX-License-Identifier: Apache-2.0
 * array_reshape.c: a view of the same elements, in the same order, with another
 * shape. It fails where the strides would require a copy.
 */
#include "ndarray.h"

/* Replaces the one -1 and checks that the number of elements stays. */
static tn_code shape_complete(const tn_array *array, int32_t ndim,
                              int64_t *shape) {
  int64_t size = tn_tensor_size(&array->tensor), known = 1;
  int32_t open = -1;
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < -1 || (shape[i] == -1 && open >= 0))
      return tn__fail(TN_INVALID,
                      "dimension %d of a reshape is %lld; at most"
                      " one dimension may be -1, the others must be 0 or more",
                      (int)i, (long long)shape[i]);
    if (shape[i] == -1)
      open = i;
    else if (__builtin_mul_overflow(known, shape[i], &known))
      return tn__fail(TN_SHAPE,
                      "a reshape to more elements than can be counted"
                      " from an array of %lld",
                      (long long)size);
  }
  if (open >= 0 && known > 0 && size % known == 0) {
    shape[open] = size / known;
    return TN_OK;
  }
  if (open < 0 && known == size) return TN_OK;
  return tn__fail(TN_SHAPE,
                  open < 0
                      ? "%lld elements cannot take a shape of %lld"
                      : "%lld elements cannot be divided among %lld times an"
                        " unknown dimension",
                  (long long)size, (long long)known);
}

/* Fills in row-major strides times `step`, for dimensions [begin, end). */
static void fill_strides(const int64_t *shape, int32_t begin, int32_t end,
                         int64_t step, int64_t *strides) {
  for (int32_t i = end - 1; i >= begin; --i) {
    strides[i] = step;
    step *= shape[i];
  }
}

/* Copies the dimensions of an array without those of 1, which do not matter. */
static int32_t drop_unit_dims(const tn_tensor *t, int64_t *shape,
                              int64_t *strides) {
  int32_t n = 0;
  for (int32_t i = 0; i < t->ndim; ++i) {
    if (t->shape[i] == 1) continue;
    shape[n] = t->shape[i];
    strides[n++] = t->strides[i];
  }
  return n;
}

/* Walks both shapes from the left in groups of equal products. Inside a group,
 * each dimension of the array must be adjacent to the next one in memory; the
 * new dimensions then divide that run. All sizes are positive. */
static bool regroup_dims(const tn_tensor *t, int32_t ndim, const int64_t *shape,
                         int64_t *strides) {
  int64_t have[TN_MAX_NDIM], steps[TN_MAX_NDIM];
  int32_t n = drop_unit_dims(t, have, steps), i = 0, k = 0;
  while (i < n) {
    int32_t from = k;
    int64_t old_run = have[i++], new_run = shape[k++];
    while (old_run != new_run) {
      if (old_run < new_run) {
        if (steps[i - 1] != steps[i] * have[i]) return false;
        old_run *= have[i++];
      } else {
        new_run *= shape[k++];
      }
    }
    fill_strides(shape, from, k, steps[i - 1], strides);
  }
  fill_strides(shape, k, ndim, 1, strides);
  return true;
}

tn_code tn__array_reshape(tn_array *array, int32_t ndim, const int64_t *shape,
                          tn_array **out) {
  *out = NULL;
  if (ndim < 0 || ndim > TN_MAX_NDIM)
    return tn__fail(TN_INVALID,
                    "a reshape to %d dimensions; 0 to %d are"
                    " allowed",
                    (int)ndim, TN_MAX_NDIM);
  if (ndim > 0 && !shape)
    return tn__fail(TN_INVALID, "the shape of a reshape is NULL");
  int64_t dims[TN_MAX_NDIM], strides[TN_MAX_NDIM] = {0};
  for (int32_t i = 0; i < ndim; ++i) dims[i] = shape[i];
  TN__TRY(shape_complete(array, ndim, dims));
  if (tn_tensor_size(&array->tensor) > 0 &&
      !regroup_dims(&array->tensor, ndim, dims, strides))
    return tn__fail(TN_INVALID,
                    "the strides of this view do not allow the"
                    " reshape without a copy; copy it into a new array first");
  tn__view view = {ndim, dims, strides, 0};
  return tn__array_view(array, &view, out);
}
