/* SPDX-License-Identifier: Apache-2.0
 * overlap.c: finds arrays that share memory. The decision uses their positions
 * in blocks, so it needs no memory.
 */
#include "call.h"

/* Finds the first and last byte, from the block's begin; false if there are
 * none. */
static bool find_bounds(const tn_array *array, int64_t *first, int64_t *last) {
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

static tn_code fail_repeats(const tn__call_state *s,
                            const tn__operand *operand) {
  char text[TN__OPERAND_TEXT];
  return tn__fail(TN_INVALID,
                  "%s: the array of %s is a broadcast view that"
                  " repeats elements; give an array of its own",
                  s->op->name, tn__operand_text(operand, text));
}

static tn_code fail_shared(const tn__call_state *s, const tn__operand *a,
                           const tn__operand *b) {
  char text[TN__OPERAND_TEXT], other[TN__OPERAND_TEXT];
  return tn__fail(TN_INVALID,
                  "%s: %s and %s share memory, and at least one of"
                  " them is written; give them arrays of their own",
                  s->op->name, tn__operand_text(a, text),
                  tn__operand_text(b, other));
}

/* True if the call writes operand `k` (of outputs, then aux states). */
static bool is_written(const tn__call_state *s, uint32_t k) {
  if (k >= s->launch.frame.n_out) return true;
  return s->req[k] != TN_REQ_NULL && s->out_info[k].array;
}

tn_code tn__call_check_overlap(const tn__call_state *s) {
  uint32_t n = s->launch.frame.n_out + s->launch.frame.n_aux;
  for (uint32_t i = 0; i < n; ++i) {
    const tn__operand *a = &s->out_info[i];
    if (!is_written(s, i) || a->owned) continue;
    if (tn__tensor_has_repeats(&a->array->tensor)) return fail_repeats(s, a);
    for (uint32_t k = 0; k < i; ++k) {
      const tn__operand *b = &s->out_info[k];
      if (is_written(s, k) && tn__arrays_overlap(a->array, b->array))
        return fail_shared(s, a, b);
    }
    if (i < s->launch.frame.n_out)
      continue; /* lower.c compares outputs and inputs */
    for (uint32_t k = 0; k < s->launch.frame.n_in; ++k) {
      const tn__operand *b = &s->in_info[k];
      if (b->array && tn__arrays_overlap(a->array, b->array))
        return fail_shared(s, a, b);
    }
  }
  return TN_OK;
}
