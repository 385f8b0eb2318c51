/* SPDX-License-Identifier: Apache-2.0
 * array_overlap.c: finds arrays that share memory. The decision uses their
 * positions in blocks, so it needs no memory.
 */
#include "ndarray.h"

/* Finds the first and last byte, from the block's begin; false if there are
 * none. */
static bool find_bounds(const tn_array *array, int64_t *first, int64_t *last) {
  const tn_tensor *t = &array->tensor;
  const int64_t bytes = tn_dtype_bytes(t->dtype);
  *first = array->offset;
  if (tn_dtype_is_packed(t->dtype)) {
    *last = array->offset + (int64_t)tn__dense_bytes(t) - 1;
    return *last >= *first;
  }
  *last = array->offset + bytes - 1;
  for (int32_t i = 0; i < t->ndim; ++i) {
    if (t->shape[i] == 0) return false;
    int64_t reach = (t->shape[i] - 1) * t->strides[i] * bytes;
    *(reach < 0 ? first : last) += reach;
  }
  return true;
}

/* True for the same elements in the same order: by equal shape and strides, or
 * both dense. */
static bool is_same_view(const tn_array *a, const tn_array *b) {
  const tn_tensor *s = &a->tensor, *t = &b->tensor;
  if (a->offset != b->offset || s->dtype != t->dtype) return false;
  if (tn_tensor_is_contiguous(s) && tn_tensor_is_contiguous(t))
    return tn_tensor_size(s) == tn_tensor_size(t);
  if (s->ndim != t->ndim) return false;
  for (int32_t i = 0; i < s->ndim; ++i) {
    if (s->shape[i] != t->shape[i]) return false;
    if (s->shape[i] > 1 && s->strides[i] != t->strides[i]) return false;
  }
  return true;
}

int tn__arrays_overlap(const tn_array *a, const tn_array *b) {
  int64_t a_first, a_last, b_first, b_last;
  if (a->block != b->block) return TN__DISJOINT;
  if (!find_bounds(a, &a_first, &a_last) || !find_bounds(b, &b_first, &b_last))
    return TN__DISJOINT;
  if (a_last < b_first || b_last < a_first) return TN__DISJOINT;
  return is_same_view(a, b) ? TN__ALIAS : TN__OVERLAP;
}
