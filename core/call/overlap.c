/* SPDX-License-Identifier: Apache-2.0
 * overlap.c: refuses calls with operands that share memory, of which one is
 * written.
 */
#include "call.h"

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
