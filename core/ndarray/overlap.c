/* SPDX-License-Identifier: Apache-2.0
 * overlap.c: which arrays share memory, decided from their places in blocks
 * before any of them has memory.
 */
#include "call.h"

/* First and last byte, from the block's begin; false if there are none. */
static bool extent(const tn_array *array, int64_t *first, int64_t *last) {
  const tn_tensor *t = &array->tensor;
  int64_t bytes = tn_dtype_bytes(t->dtype);
  *first = array->offset;
  *last = array->offset + bytes - 1;
  for (int32_t i = 0; i < t->ndim; ++i) {
    if (t->shape[i] == 0) return false;
    int64_t reach = (t->shape[i] - 1) * t->strides[i] * bytes;
    *(reach < 0 ? first : last) += reach;
  }
  return true;
}

/* The same elements in the same order: by one shape and strides, or dense. */
static bool same_view(const tn_array *a, const tn_array *b) {
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

int tn__arrays_meet(const tn_array *a, const tn_array *b) {
  int64_t a_first, a_last, b_first, b_last;
  if (a->block != b->block) return TN__APART;
  if (!extent(a, &a_first, &a_last) || !extent(b, &b_first, &b_last))
    return TN__APART;
  if (a_last < b_first || b_last < a_first) return TN__APART;
  return same_view(a, b) ? TN__SAME : TN__OVERLAP;
}

static tn_code repeats_fail(const tn__work *w, const tn__operand *operand) {
  char text[TN__OPERAND_TEXT];
  return tn__fail(TN_INVALID,
                  "%s: the array of %s is a broadcast view that"
                  " repeats elements; give an array of its own",
                  w->op->name, tn__operand_text(operand, text));
}

static tn_code shared_fail(const tn__work *w, const tn__operand *a,
                           const tn__operand *b) {
  char text[TN__OPERAND_TEXT], other[TN__OPERAND_TEXT];
  return tn__fail(TN_INVALID,
                  "%s: %s and %s share memory, and at least one of"
                  " them is written; give them arrays of their own",
                  w->op->name, tn__operand_text(a, text),
                  tn__operand_text(b, other));
}

/* Whether operand `k` (of outputs, then aux states) is written by the call. */
static bool is_written(const tn__work *w, uint32_t k) {
  if (k >= w->launch.frame.n_out) return true;
  return w->req[k] != TN_REQ_NULL && w->out_info[k].array;
}

tn_code tn__work_overlap(const tn__work *w) {
  uint32_t n = w->launch.frame.n_out + w->launch.frame.n_aux;
  for (uint32_t i = 0; i < n; ++i) {
    const tn__operand *a = &w->out_info[i];
    if (!is_written(w, i) || a->owned) continue;
    if (tn__tensor_repeats(&a->array->tensor)) return repeats_fail(w, a);
    for (uint32_t k = 0; k < i; ++k) {
      const tn__operand *b = &w->out_info[k];
      if (is_written(w, k) && tn__arrays_meet(a->array, b->array))
        return shared_fail(w, a, b);
    }
    if (i < w->launch.frame.n_out) continue; /* outputs and inputs: lower.c */
    for (uint32_t k = 0; k < w->launch.frame.n_in; ++k) {
      const tn__operand *b = &w->in_info[k];
      if (b->array && tn__arrays_meet(a->array, b->array))
        return shared_fail(w, a, b);
    }
  }
  return TN_OK;
}
