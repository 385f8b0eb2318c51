/* SPDX-License-Identifier: Apache-2.0
 * linear.c: the gradient of a recorded gradient, of an operator that is linear
 * in groups of its inputs: the same operator, called with what moves in a group
 * in the group's place, and the gradients of that call. core/graph does the
 * same with nodes (gradient_rule_linear.c).
 */
#include <string.h>

#include "tape.h"

/* One recorded backward call, and the call of one group. */
typedef struct linear {
  tn__sweep *sweep;
  tn__tape_entry *e;
  uint32_t group;
  tn_array **in;    /* gradients of outputs, then what the operator is called
                       with, of which those of the group are retained */
  tn_array **found; /* what a call made */
} linear;

static tn__tape_operand *input_of(const linear *l, uint32_t i) {
  return &l->e->in[l->e->n_heads + i];
}

static bool is_in(const linear *l, uint32_t i) {
  const uint32_t declared = l->e->out[i].declared;
  return tn__operator_groups(l->e->desc, declared) >> l->group & 1;
}

static tn_code holds_check(const tn__sweep *sweep, const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_in; ++i) {
    const tn__tape_operand *operand = &e->in[i];
    const bool head = i < e->n_heads;
    if (operand->saved &&
        !tn__tape_holds(sweep->tape, operand->saved, operand->version))
      return tn__sweep_stale(e, head ? "the gradient of output" : "input",
                             !head, operand);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

/* Whether something moves in the group that has had none. */
static bool is_live(const linear *l) {
  for (uint32_t i = 0; i < l->e->n_out; ++i)
    if (!l->e->out[i].passed && is_in(l, i) &&
        tn__sweep_slope(l->sweep, &l->e->out[i]))
      return true;
  return false;
}

/* What moves stands for its input, zeros for others of the group. */
static tn_code inputs_make(linear *l) {
  tn_array **in = l->in + l->e->n_heads;
  for (uint32_t i = 0; i < l->e->n_out; ++i) {
    tn__tape_operand *out = &l->e->out[i];
    tn_array *moves = out->passed ? NULL : tn__sweep_slope(l->sweep, out);
    in[i] = input_of(l, i)->saved;
    if (!in[i] || !is_in(l, i)) continue;
    const tn__layout like = tn__layout_of(in[i]);
    in[i] = NULL;
    if (moves)
      in[i] = tn__array_retain(moves);
    else
      TN__TRY(tn__tape_constant(l->sweep->tape, 0, &like, &in[i]));
    out->passed = true;
  }
  return TN_OK;
}

static void inputs_drop(linear *l) {
  tn_array **in = l->in + l->e->n_heads;
  for (uint32_t i = 0; i < l->e->n_out; ++i)
    if (is_in(l, i)) tn__array_release(in[i]);
}

/* Calls for the operands first to first + n of the entry, as far as gradients
 * pass to them and they are not `but`, and adds what comes of it. */
static tn_code call(linear *l, uint32_t first, uint32_t n, bool but) {
  tn__sweep *sweep = l->sweep;
  const tn__tape_entry *e = l->e;
  const bool forward = first == 0;
  bool any = false;
  for (uint32_t i = 0; i < n; ++i) {
    const bool wanted =
        tn__sweep_passes(sweep, e, first + i) && !(but && is_in(l, i));
    sweep->req[i] = wanted ? TN_REQ_WRITE : TN_REQ_NULL;
    l->found[i] = NULL;
    any |= wanted;
  }
  if (!any) return TN_OK;
  const tn__target_op target = {sweep->tape->caller, e->op, e->params,
                                forward ? TN_PASS_FORWARD : TN_PASS_BACKWARD,
                                e->flags};
  const tn_inputs in = {forward ? e->n_out : e->n_in,
                        l->in + (forward ? e->n_heads : 0)};
  const tn_outputs out = {n, l->found, sweep->req};
  tn_code rc = sweep->record ? tn__tape_call(sweep->tape, &target, &in, &out)
                             : tn__tape_perform(&target, &in, &out);
  for (uint32_t i = 0; i < n; ++i) {
    const tn__tape_operand *to = &e->in[first + i];
    if (!l->found[i]) continue;
    if (rc == TN_OK)
      rc = tn__sweep_add(sweep, to->value, to->layout, l->found[i], true);
    tn__array_release(l->found[i]);
  }
  return rc;
}

static tn_code group_add(linear *l) {
  if (!is_live(l)) return TN_OK;
  for (uint32_t i = 0; i < l->e->n_heads; ++i) l->in[i] = l->e->in[i].saved;
  memset(l->in + l->e->n_heads, 0, l->e->n_out * sizeof(tn_array *));
  tn_code rc = inputs_make(l);
  if (rc == TN_OK) rc = call(l, 0, l->e->n_heads, false);
  if (rc == TN_OK) rc = call(l, l->e->n_heads, l->e->n_out, true);
  inputs_drop(l);
  return rc;
}

tn_code tn__sweep_linear(tn__sweep *sweep, tn__tape_entry *e) {
  linear l = {
      .sweep = sweep, .e = e, .in = sweep->lists[0], .found = sweep->lists[1]};
  TN__TRY(holds_check(sweep, e));
  for (uint32_t i = 0; i < e->n_out; ++i) e->out[i].passed = false;
  for (l.group = 0; l.group < TN__MOST_GROUPS; ++l.group)
    TN__TRY(group_add(&l));
  return TN_OK;
}
