/* SPDX-License-Identifier: Apache-2.0
 * back.c: the gradient of one recorded call: by the operator's backward
 * kernel, or, if the gradient is to be recorded, by the operator that stands
 * for it; by calls of others in graph.c.
 */
#include <stdio.h>
#include <string.h>

#include "tape.h"

enum { LIST_IN = 0, LIST_OUT = 1, LIST_HEADS = 2, LIST_GRADS = 3, LIST_PARTS };

/* ------------------------------------------------------------------- check */

static tn_code gradient_check(const tn__tape_entry *e) {
  const tn_gradient *g = e->desc->gradient;
  if (g && g->kind != TN_GRADIENT_NONE) return TN_OK;
  tn__fail(TN_UNSUPPORTED, "tn_tape_gradient: what is asked for depends on %s,",
           e->op->name);
  return tn__fail_more(TN_UNSUPPORTED, " which has no gradient: %s",
                       g && g->why ? g->why : "its manifest gives none");
}

tn_code tn__sweep_stale(const tn__tape_entry *e, const char *what, bool in,
                        const tn__tape_operand *operand) {
  tn__fail(TN_INVALID, "%s: its gradient needs the value of %s `%s",
           e->op->name, what,
           (in ? e->desc->inputs : e->desc->outputs)[operand->declared]->name);
  if (operand->member >= 0)
    tn__fail_more(TN_INVALID, "[%d]", (int)operand->member);
  return tn__fail_more(
      TN_INVALID,
      "`, but that array was written after the call was recorded; write to"
      " another array, or ask for the gradient first");
}

static tn_code holds_check(const tn_tape *tape, const tn__tape_entry *e,
                           const tn_need *need) {
  const bool in = need->what == TN_NEED_IN;
  const tn__tape_operand *operands = in ? e->in : e->out;
  const uint32_t n = in ? e->n_in : e->n_out;
  if (need->metadata || need->what == TN_NEED_GRAD_OUT) return TN_OK;
  for (uint32_t i = 0; i < n; ++i) {
    if (operands[i].declared != need->index || !operands[i].saved) continue;
    if (!tn__tape_holds(tape, operands[i].saved, operands[i].version))
      return tn__sweep_stale(e, in ? "input" : "output", in, &operands[i]);
  }
  return TN_OK;
}

/* What the wanted gradients read is still what was recorded. */
static tn_code needs_check(const tn__sweep *sweep, const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_in; ++i) {
    if (!tn__sweep_passes(sweep, e, i)) continue;
    const tn_input_gradient *rule =
        e->desc->gradient->inputs[e->in[i].declared];
    for (uint32_t k = 0; k < rule->n_needs; ++k)
      TN__TRY(holds_check(sweep->tape, e, &rule->needs[k]));
  }
  return TN_OK;
}

/* -------------------------------------------------------------- operands */

tn_array *tn__sweep_slope(const tn__sweep *sweep,
                          const tn__tape_operand *operand) {
  return operand->value ? sweep->slopes[operand->value->id].array : NULL;
}

/* An array that was not kept, because only its shape matters. `zeros`: it may
 * be read all the same. */
static tn_code stand_in(tn__sweep *sweep, const tn__tape_operand *operand,
                        bool zeros, tn_array **out) {
  const tn__layout *l = operand->layout;
  *out = NULL;
  if (!l) return TN_OK;
  if (zeros) return tn__tape_constant(sweep->tape, 0, l, out);
  return tn__tape_blank(sweep->tape, l, out);
}

static tn_code inputs_fill(tn__sweep *sweep, const tn__tape_entry *e,
                           bool zeros) {
  tn_array **list = sweep->lists[LIST_IN];
  memset(list, 0, (e->n_in + e->n_aux) * sizeof *list);
  for (uint32_t i = 0; i < e->n_in + e->n_aux; ++i) {
    list[i] = e->in[i].saved;
    if (!list[i]) TN__TRY(stand_in(sweep, &e->in[i], zeros, &list[i]));
  }
  return TN_OK;
}

static void inputs_drop(tn__sweep *sweep, const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_in + e->n_aux; ++i)
    if (!e->in[i].saved) tn__array_release(sweep->lists[LIST_IN][i]);
}

/* ------------------------------------------------------------------ kernel */

/* Two gradients that end in the same array cannot be of one call. */
static bool is_taken(const tn__sweep *sweep, const tn__tape_entry *e,
                     uint32_t i) {
  for (uint32_t k = 0; k < i; ++k)
    if (sweep->req[k] != TN_REQ_NULL && e->in[k].value == e->in[i].value)
      return true;
  return false;
}

static tn_code round_aim(tn__sweep *sweep, tn__tape_entry *e, uint32_t i) {
  tn__aim aim;
  TN__TRY(tn__sweep_aim(sweep, e->in[i].value, e->in[i].layout, &aim));
  const bool write = aim.repeats || aim.overwrite;
  sweep->req[i] = write ? TN_REQ_WRITE : TN_REQ_ADD;
  sweep->lists[LIST_PARTS][i] = aim.part;
  sweep->lists[LIST_GRADS][i] = aim.repeats ? NULL : aim.part;
  e->in[i].passed = true;
  return TN_OK;
}

/* Chooses the inputs whose gradients the next call computes; `more` are left
 * for the one after it. */
static tn_code round_begin(tn__sweep *sweep, tn__tape_entry *e, bool *more) {
  *more = false;
  for (uint32_t i = 0; i < e->n_in; ++i) {
    sweep->req[i] = TN_REQ_NULL;
    sweep->lists[LIST_PARTS][i] = sweep->lists[LIST_GRADS][i] = NULL;
  }
  for (uint32_t i = 0; i < e->n_in; ++i) {
    if (e->in[i].passed || !tn__sweep_passes(sweep, e, i)) continue;
    const bool taken = is_taken(sweep, e, i);
    *more |= taken;
    if (!taken) TN__TRY(round_aim(sweep, e, i));
  }
  return TN_OK;
}

/* A gradient of elements that repeat came in an array of its own. */
static tn_code round_end(tn__sweep *sweep, const tn__tape_entry *e,
                         tn_code rc) {
  for (uint32_t i = 0; i < e->n_in; ++i) {
    tn_array *part = sweep->lists[LIST_PARTS][i];
    tn_array *grad = sweep->lists[LIST_GRADS][i];
    if (!part) continue;
    if (rc == TN_OK && grad != part) rc = tn__array_sum(part, grad);
    if (grad != part) tn__array_release(grad);
    if (part != tn__sweep_slope(sweep, &e->in[i])) tn__array_release(part);
  }
  return rc;
}

static tn_code kernel_rounds(tn__sweep *sweep, tn__tape_entry *e) {
  tn_array ***lists = sweep->lists;
  const tn_backward call = {
      .struct_size = sizeof call,
      .flags = e->flags,
      .params = e->params,
      .inputs = {e->n_in + e->n_aux, lists[LIST_IN]},
      .outputs = {e->n_out, lists[LIST_OUT]},
      .out_grads = {e->n_out, lists[LIST_HEADS]},
      .in_grads = {e->n_in, lists[LIST_GRADS], sweep->req}};
  for (uint32_t i = 0; i < e->n_in; ++i) e->in[i].passed = false;
  for (bool more = true; more;) {
    tn_code rc = round_begin(sweep, e, &more);
    if (rc == TN_OK) rc = tn__call_backward(sweep->tape->caller, e->op, &call);
    TN__TRY(round_end(sweep, e, rc));
  }
  return TN_OK;
}

static tn_code by_kernel(tn__sweep *sweep, tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_out; ++i) {
    sweep->lists[LIST_OUT][i] = e->out[i].saved;
    sweep->lists[LIST_HEADS][i] = tn__sweep_slope(sweep, &e->out[i]);
  }
  tn_code rc = inputs_fill(sweep, e, false);
  if (rc == TN_OK) rc = kernel_rounds(sweep, e);
  inputs_drop(sweep, e);
  return rc;
}

/* ---------------------------------------------------------------- operator */

static tn_code no_operator(const tn__tape_entry *e) {
  return tn__fail(TN_UNSUPPORTED,
                  "%s: its gradient cannot be recorded (TN_TAPE_RECORD): %s",
                  e->op->name, tn_error_text());
}

/* The inputs of a call but for absent ones at the end. */
static uint32_t present_inputs(const tn__tape_entry *e) {
  uint32_t n = e->n_in;
  while (n > 0 && !e->in[n - 1].saved && !e->in[n - 1].layout) --n;
  return n;
}

/* What is linear stands for itself. The caller unholds *out. */
static tn_code operator_find(const tn__tape_entry *e, tn_operator **out) {
  const tn__gradient_counts counts = {present_inputs(e), e->n_out};
  if (tn__operator_is_linear(e->desc)) return tn__operator_hold(*out = e->op);
  const tn_code rc = tn__operator_gradient(e->op, &counts, out);
  return rc == TN_UNSUPPORTED ? no_operator(e) : rc;
}

/* Inputs of the gradient's operator: slopes and outputs that there are not
 * become zeros, as far as their shape is known. A backward call, of what is
 * linear, has the same but for the outputs. */
static tn_code operator_inputs(tn__sweep *sweep, const tn__tape_entry *e,
                               uint32_t n_in) {
  tn_array **in = sweep->lists[LIST_IN], **heads = sweep->lists[LIST_HEADS];
  tn_array **all = sweep->lists[LIST_OUT];
  for (uint32_t i = 0; i < e->n_out; ++i) {
    tn_array *slope = tn__sweep_slope(sweep, &e->out[i]);
    tn_array *output = e->out[i].saved;
    if (slope) heads[i] = tn__array_retain(slope);
    if (!slope) TN__TRY(stand_in(sweep, &e->out[i], true, &heads[i]));
    if (output) heads[e->n_out + i] = tn__array_retain(output);
    if (!output)
      TN__TRY(stand_in(sweep, &e->out[i], true, &heads[e->n_out + i]));
  }
  memcpy(all, heads, e->n_out * sizeof *all);
  if (n_in > 0) memcpy(all + e->n_out, in, n_in * sizeof *all);
  memcpy(all + e->n_out + n_in, heads + e->n_out, e->n_out * sizeof *all);
  return TN_OK;
}

static tn_code operator_call(tn__sweep *sweep, const tn__tape_entry *e,
                             tn_operator *op) {
  const bool linear = op == e->op;
  const uint32_t n_own = linear ? e->n_in : present_inputs(e);
  const size_t n_in = n_own + (size_t)e->n_out;
  tn_array **grads = sweep->lists[LIST_GRADS];
  const tn_inputs in = {linear ? n_in : n_in + e->n_out,
                        sweep->lists[LIST_OUT]};
  const tn_outputs out = {n_own, grads, sweep->req};
  tn_params *params = NULL;
  if (linear && e->params) params = tn__params_retain(e->params);
  if (!linear) TN__TRY(tn__params_convert(tn__tape_params(e), op, &params));
  for (uint32_t i = 0; i < e->n_in; ++i) {
    grads[i] = NULL;
    sweep->req[i] = tn__sweep_passes(sweep, e, i) ? TN_REQ_WRITE : TN_REQ_NULL;
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

static tn_code by_operator(tn__sweep *sweep, const tn__tape_entry *e) {
  tn_operator *op = NULL;
  tn_array **heads = sweep->lists[LIST_HEADS];
  TN__TRY(operator_find(e, &op));
  memset(heads, 0, 2 * (size_t)e->n_out * sizeof *heads);
  memset(sweep->lists[LIST_IN], 0, (e->n_in + e->n_aux) * sizeof *heads);
  tn_code rc = inputs_fill(sweep, e, true);
  if (rc == TN_OK)
    rc = operator_inputs(sweep, e, op == e->op ? e->n_in : present_inputs(e));
  if (rc == TN_OK) rc = operator_call(sweep, e, op);
  for (uint32_t i = 0; i < 2 * e->n_out; ++i) tn__array_release(heads[i]);
  inputs_drop(sweep, e);
  tn__operator_unhold(op);
  return rc;
}

tn_code tn__sweep_call(tn__sweep *sweep, tn__tape_entry *e) {
  if (e->n_heads > 0) return tn__sweep_linear(sweep, e);
  TN__TRY(gradient_check(e));
  TN__TRY(needs_check(sweep, e));
  if (e->desc->gradient->kind == TN_GRADIENT_GRAPH)
    return tn__sweep_graph(sweep, e);
  return sweep->record ? by_operator(sweep, e) : by_kernel(sweep, e);
}
