/* SPDX-License-Identifier: Apache-2.0
 * inplace.c: the in-place pairs of a kernel, in the positions of one call. Old
 * kernels have none of their own: the operator names one input per output.
 */
#include "choose.h"

/* The kernel has a list; otherwise the operator names the pairs. */
static bool has_list(const tn__pairs *p) {
  return TN_HAS(p->kernel, inplace) && p->kernel->n_inplace > 0;
}

uint32_t tn__pairs_count(const tn__pairs *p) {
  if ((p->kernel->writes & TN_WRITES_INPLACE) == 0) return 0;
  if (has_list(p)) return p->kernel->n_inplace;
  if (p->kernel->pass == TN_PASS_FORWARD) return p->op->n_outputs;
  return p->op->gradient ? p->op->gradient->n_inputs : 0;
}

/* The declared pair number `i`; `in` may be TN_NONE. */
static tn_inplace get_declared(const tn__pairs *p, uint32_t i) {
  if (has_list(p)) return p->kernel->inplace[i];
  if (p->kernel->pass == TN_PASS_FORWARD)
    return (tn_inplace){p->op->outputs[i]->inplace, i};
  return (tn_inplace){p->op->gradient->inputs[i]->inplace, i};
}

/* Tests whether the call has input `i` of the operator as one operand. */
static bool is_one_input(const tn__pairs *p, uint32_t i) {
  return i < p->n_in && i < p->op->n_inputs &&
         (p->op->inputs[i]->flags & TN_ARG_VARIADIC) == 0;
}

/* Changes the index of an output of the operator to that in the call, in which
 * a counted output may be missing or several. False if the call does not have
 * the output as one operand. */
static bool move_output(const tn__pairs *p, uint32_t *out) {
  const tn_op *op = p->op;
  uint32_t counted = 0;
  while (counted < op->n_outputs && op->outputs[counted]->count == TN_NONE)
    ++counted;
  if (*out < counted || p->n_out == op->n_outputs) return *out < p->n_out;
  if (*out == counted) return false;
  *out = *out + p->n_out - op->n_outputs;
  return *out < p->n_out;
}

/* Changes the position of an input of a backward call: from a call with all
 * operands to this one. False if this call does not have it. */
static bool move_input(const tn__pairs *p, uint32_t *in) {
  const uint32_t n_out = p->op->n_outputs, n_in = p->op->n_inputs;
  if (*in < n_out) return move_output(p, in);
  uint32_t at = *in - n_out;
  if (at < n_in) {
    *in = p->n_out + at;
    return is_one_input(p, at);
  }
  at -= n_in;
  const bool is_there = move_output(p, &at);
  *in = p->n_out + p->n_in + at;
  return is_there;
}

bool tn__pairs_get(const tn__pairs *p, uint32_t i, tn_inplace *out) {
  *out = get_declared(p, i);
  if (out->in == TN_NONE) return false;
  if (p->kernel->pass == TN_PASS_FORWARD)
    return is_one_input(p, out->in) && move_output(p, &out->out);
  return is_one_input(p, out->out) && move_input(p, &out->in);
}

bool tn__pairs_has(const tn__pairs *p, tn_inplace pair) {
  const uint32_t n = tn__pairs_count(p);
  tn_inplace each;
  for (uint32_t i = 0; i < n; ++i)
    if (tn__pairs_get(p, i, &each) && each.in == pair.in &&
        each.out == pair.out)
      return true;
  return false;
}
