/* SPDX-License-Identifier: Apache-2.0
 * sweep_call.c: computes the gradient of one recorded call. It uses the
 * operator's backward kernel or, if the gradient is to be recorded, the
 * operator that computes the same gradient. composed_gradient.c serves
 * operators with a gradient that consists of calls of other operators.
 */
#include <stdio.h>
#include <string.h>

#include "tape.h"

enum {
  LIST_IN = 0,
  LIST_OUT = 1,
  LIST_OUT_GRADS = 2,
  LIST_GRADS = 3,
  LIST_PARTS
};

/* ------------------------------------------------------------------- check */

static tn_code check_gradient(const tn__tape_entry *e) {
  const tn_gradient *g = e->desc->gradient;
  if (g && g->kind != TN_GRADIENT_NONE) return TN_OK;
  tn__fail(TN_UNSUPPORTED,
           "tn_tape_gradient: a requested gradient depends on %s,",
           e->op->name);
  return tn__fail_more(TN_UNSUPPORTED, " which has no gradient: %s",
                       g && g->why ? g->why : "its manifest gives none");
}

tn_code tn__sweep_fail_stale(const tn__tape_entry *e, const char *kind, bool in,
                             const tn__tape_operand *operand) {
  tn__fail(TN_INVALID, "%s: its gradient needs the value of %s `%s",
           e->op->name, kind,
           (in ? e->desc->inputs : e->desc->outputs)[operand->declared]->name);
  if (operand->member >= 0)
    tn__fail_more(TN_INVALID, "[%d]", (int)operand->member);
  return tn__fail_more(
      TN_INVALID,
      "`, but that array was written after the call was recorded; write to"
      " another array, or ask for the gradient first");
}

static tn_code check_unchanged(const tn_tape *tape, const tn__tape_entry *e,
                               const tn_need *need) {
  const bool in = need->what == TN_NEED_IN;
  const tn__tape_operand *operands = in ? e->in : e->out;
  const uint32_t n = in ? e->n_in : e->n_out;
  if (need->metadata || need->what == TN_NEED_GRAD_OUT) return TN_OK;
  for (uint32_t i = 0; i < n; ++i) {
    if (operands[i].declared != need->index || !operands[i].saved) continue;
    if (!tn__tape_is_unchanged(tape, operands[i].saved, operands[i].version))
      return tn__sweep_fail_stale(e, in ? "input" : "output", in, &operands[i]);
  }
  return TN_OK;
}

/* Checks that the operands that the requested gradients read are unchanged. */
static tn_code check_needs(const tn__sweep *sweep, const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_in; ++i) {
    if (!tn__sweep_is_live_input(sweep, e, i)) continue;
    const tn_input_gradient *rule =
        e->desc->gradient->inputs[e->in[i].declared];
    for (uint32_t k = 0; k < rule->n_needs; ++k)
      TN__TRY(check_unchanged(sweep->tape, e, &rule->needs[k]));
  }
  return TN_OK;
}

/* -------------------------------------------------------------- operands */

tn_array *tn__sweep_gradient_of(const tn__sweep *sweep,
                                const tn__tape_operand *operand) {
  return operand->value ? sweep->gradients[operand->value->id].array : NULL;
}

/* Creates an array for an operand that was not kept, because only its shape
 * matters. `zeros`: its elements may be read all the same. */
static tn_code create_substitute(tn__sweep *sweep,
                                 const tn__tape_operand *operand, bool zeros,
                                 tn_array **out) {
  const tn__layout *l = operand->layout;
  *out = NULL;
  if (!l) return TN_OK;
  if (zeros) return tn__tape_get_constant(sweep->tape, 0, l, out);
  return tn__tape_get_blank(sweep->tape, l, out);
}

static tn_code fill_inputs(tn__sweep *sweep, const tn__tape_entry *e,
                           bool zeros) {
  tn_array **list = sweep->lists[LIST_IN];
  memset(list, 0, (e->n_in + e->n_aux) * sizeof *list);
  for (uint32_t i = 0; i < e->n_in + e->n_aux; ++i) {
    list[i] = e->in[i].saved;
    if (!list[i]) TN__TRY(create_substitute(sweep, &e->in[i], zeros, &list[i]));
  }
  return TN_OK;
}

static void drop_inputs(tn__sweep *sweep, const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_in + e->n_aux; ++i)
    if (!e->in[i].saved) tn__array_release(sweep->lists[LIST_IN][i]);
}

/* ------------------------------------------------------------------ kernel */

/* True if an earlier input of this round adds to the same gradient. One call
 * cannot compute both. */
static bool has_earlier_use(const tn__sweep *sweep, const tn__tape_entry *e,
                            uint32_t i) {
  for (uint32_t k = 0; k < i; ++k)
    if (sweep->req[k] != TN_REQ_NULL && e->in[k].value == e->in[i].value)
      return true;
  return false;
}

static tn_code add_to_round(tn__sweep *sweep, tn__tape_entry *e, uint32_t i) {
  tn__sweep_target target;
  TN__TRY(
      tn__sweep_find_target(sweep, e->in[i].value, e->in[i].layout, &target));
  const bool write = target.repeats || target.overwrite;
  sweep->req[i] = write ? TN_REQ_WRITE : TN_REQ_ADD;
  sweep->lists[LIST_PARTS][i] = target.part;
  sweep->lists[LIST_GRADS][i] = target.repeats ? NULL : target.part;
  e->in[i].passed = true;
  return TN_OK;
}

/* Chooses the inputs of the next call's gradients. `more`: others remain for a
 * further call. */
static tn_code begin_round(tn__sweep *sweep, tn__tape_entry *e, bool *more) {
  *more = false;
  for (uint32_t i = 0; i < e->n_in; ++i) {
    sweep->req[i] = TN_REQ_NULL;
    sweep->lists[LIST_PARTS][i] = sweep->lists[LIST_GRADS][i] = NULL;
  }
  for (uint32_t i = 0; i < e->n_in; ++i) {
    if (e->in[i].passed || !tn__sweep_is_live_input(sweep, e, i)) continue;
    const bool is_repeated = has_earlier_use(sweep, e, i);
    *more |= is_repeated;
    if (!is_repeated) TN__TRY(add_to_round(sweep, e, i));
  }
  return TN_OK;
}

/* Adds gradients of repeated elements, which the call wrote to arrays of their
 * own. */
static tn_code end_round(tn__sweep *sweep, const tn__tape_entry *e,
                         tn_code rc) {
  for (uint32_t i = 0; i < e->n_in; ++i) {
    tn_array *part = sweep->lists[LIST_PARTS][i];
    tn_array *grad = sweep->lists[LIST_GRADS][i];
    if (!part) continue;
    if (rc == TN_OK && grad != part) rc = tn__array_accumulate(part, grad);
    if (grad != part) tn__array_release(grad);
    if (part != tn__sweep_gradient_of(sweep, &e->in[i]))
      tn__array_release(part);
  }
  return rc;
}

static tn_code run_rounds(tn__sweep *sweep, tn__tape_entry *e) {
  tn_array ***lists = sweep->lists;
  const tn_backward call = {
      .struct_size = sizeof call,
      .flags = e->flags,
      .params = e->params,
      .inputs = {e->n_in + e->n_aux, lists[LIST_IN]},
      .outputs = {e->n_out, lists[LIST_OUT]},
      .out_grads = {e->n_out, lists[LIST_OUT_GRADS]},
      .in_grads = {e->n_in, lists[LIST_GRADS], sweep->req}};
  for (uint32_t i = 0; i < e->n_in; ++i) e->in[i].passed = false;
  for (bool more = true; more;) {
    tn_code rc = begin_round(sweep, e, &more);
    if (rc == TN_OK) rc = tn__call_backward(sweep->tape->caller, e->op, &call);
    TN__TRY(end_round(sweep, e, rc));
  }
  return TN_OK;
}

static tn_code pass_by_kernel(tn__sweep *sweep, tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_out; ++i) {
    sweep->lists[LIST_OUT][i] = e->out[i].saved;
    sweep->lists[LIST_OUT_GRADS][i] = tn__sweep_gradient_of(sweep, &e->out[i]);
  }
  tn_code rc = fill_inputs(sweep, e, false);
  if (rc == TN_OK) rc = run_rounds(sweep, e);
  drop_inputs(sweep, e);
  return rc;
}

/* ---------------------------------------------------------------- operator */

static tn_code fail_no_operator(const tn__tape_entry *e) {
  return tn__fail(TN_UNSUPPORTED,
                  "%s: its gradient cannot be recorded (TN_TAPE_RECORD): %s",
                  e->op->name, tn_error_text());
}

/* Number of inputs without absent ones at the end. */
static uint32_t count_present_inputs(const tn__tape_entry *e) {
  uint32_t n = e->n_in;
  while (n > 0 && !e->in[n - 1].saved && !e->in[n - 1].layout) --n;
  return n;
}

/* Finds the operator that computes the gradient; a linear operator does so
 * itself. The caller unholds *out. */
static tn_code find_operator(const tn__tape_entry *e, tn_operator **out) {
  const tn__gradient_counts counts = {count_present_inputs(e), e->n_out};
  if (tn__operator_is_linear(e->desc)) return tn__operator_hold(*out = e->op);
  const tn_code rc = tn__operator_gradient(e->op, &counts, out);
  return rc == TN_UNSUPPORTED ? fail_no_operator(e) : rc;
}

/* Collects the inputs of the gradient's operator. Missing gradients and outputs
 * become zeros, if their shape is known. A backward call of a linear operator
 * has the same inputs without the outputs. */
static tn_code collect_inputs(tn__sweep *sweep, const tn__tape_entry *e,
                              uint32_t n_in) {
  tn_array **in = sweep->lists[LIST_IN],
           **grads_and_outputs = sweep->lists[LIST_OUT_GRADS];
  tn_array **all = sweep->lists[LIST_OUT];
  for (uint32_t i = 0; i < e->n_out; ++i) {
    tn_array *gradient = tn__sweep_gradient_of(sweep, &e->out[i]);
    tn_array *output = e->out[i].saved;
    if (gradient) grads_and_outputs[i] = tn__array_retain(gradient);
    if (!gradient)
      TN__TRY(
          create_substitute(sweep, &e->out[i], true, &grads_and_outputs[i]));
    if (output) grads_and_outputs[e->n_out + i] = tn__array_retain(output);
    if (!output)
      TN__TRY(create_substitute(sweep, &e->out[i], true,
                                &grads_and_outputs[e->n_out + i]));
  }
  memcpy(all, grads_and_outputs, e->n_out * sizeof *all);
  if (n_in > 0) memcpy(all + e->n_out, in, n_in * sizeof *all);
  memcpy(all + e->n_out + n_in, grads_and_outputs + e->n_out,
         e->n_out * sizeof *all);
  return TN_OK;
}

static tn_code call_operator(tn__sweep *sweep, const tn__tape_entry *e,
                             tn_operator *op) {
  const bool linear = op == e->op;
  const uint32_t n_own = linear ? e->n_in : count_present_inputs(e);
  const size_t n_in = n_own + (size_t)e->n_out;
  tn_array **grads = sweep->lists[LIST_GRADS];
  const tn_inputs in = {linear ? n_in : n_in + e->n_out,
                        sweep->lists[LIST_OUT]};
  const tn_outputs out = {n_own, grads, sweep->req};
  tn_params *params = NULL;
  if (linear && e->params) params = tn__params_retain(e->params);
  if (!linear) TN__TRY(tn__params_move(tn__tape_entry_params(e), op, &params));
  for (uint32_t i = 0; i < e->n_in; ++i) {
    grads[i] = NULL;
    sweep->req[i] =
        tn__sweep_is_live_input(sweep, e, i) ? TN_REQ_WRITE : TN_REQ_NULL;
  }
  const tn__target_op target = {sweep->tape->caller, op, params,
                                linear ? TN_PASS_BACKWARD : TN_PASS_FORWARD,
                                e->flags};
  tn_code rc = tn__tape_call(sweep->tape, &target, &in, &out);
  tn__params_release(params);
  for (uint32_t i = 0; i < e->n_in; ++i) {
    if (!grads[i]) continue;
    if (rc == TN_OK)
      rc =
          tn__sweep_add(sweep, e->in[i].value, e->in[i].layout, grads[i], true);
    tn__array_release(grads[i]);
  }
  return rc;
}

static tn_code pass_by_operator(tn__sweep *sweep, const tn__tape_entry *e) {
  tn_operator *op = NULL;
  tn_array **grads_and_outputs = sweep->lists[LIST_OUT_GRADS];
  TN__TRY(find_operator(e, &op));
  memset(grads_and_outputs, 0,
         2 * (size_t)e->n_out * sizeof *grads_and_outputs);
  memset(sweep->lists[LIST_IN], 0,
         (e->n_in + e->n_aux) * sizeof *grads_and_outputs);
  tn_code rc = fill_inputs(sweep, e, true);
  if (rc == TN_OK)
    rc = collect_inputs(sweep, e,
                        op == e->op ? e->n_in : count_present_inputs(e));
  if (rc == TN_OK) rc = call_operator(sweep, e, op);
  for (uint32_t i = 0; i < 2 * e->n_out; ++i)
    tn__array_release(grads_and_outputs[i]);
  drop_inputs(sweep, e);
  tn__operator_unhold(op);
  return rc;
}

tn_code tn__sweep_pass_call(tn__sweep *sweep, tn__tape_entry *e) {
  if (e->n_out_grads > 0) return tn__sweep_pass_linear(sweep, e);
  TN__TRY(check_gradient(e));
  TN__TRY(check_needs(sweep, e));
  if (e->desc->gradient->kind == TN_GRADIENT_GRAPH)
    return tn__sweep_pass_composed(sweep, e);
  return sweep->record ? pass_by_operator(sweep, e) : pass_by_kernel(sweep, e);
}
