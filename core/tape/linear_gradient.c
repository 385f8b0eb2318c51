/* SPDX-License-Identifier: Apache-2.0
 * linear_gradient.c: computes the gradient of a recorded backward call of an
 * operator that is linear in groups of its inputs. For each group it calls the
 * same operator with other inputs: the gradients of the backward call's outputs
 * replace the group's inputs. The sweep then passes the gradients of that call
 * on. core/gradient/gradient_rule_linear.c does the same with nodes.
 */
#include <string.h>

#include "tape.h"

/* One recorded backward call, and the call for one group. */
typedef struct linear {
  tn__sweep *sweep;
  tn__tape_entry *e;
  uint32_t group;
  tn_array **in; /* output gradients, then the operator's inputs; those of the
                    group are retained */
  tn_array **found; /* results of a call */
} linear;

static tn__tape_operand *input_of(const linear *l, uint32_t i) {
  return &l->e->in[l->e->n_out_grads + i];
}

static bool is_in_group(const linear *l, uint32_t i) {
  const uint32_t declared = l->e->out[i].declared;
  return tn__operator_linear_groups(l->e->desc, declared) >> l->group & 1;
}

static tn_code check_unchanged(const tn__sweep *sweep,
                               const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_in; ++i) {
    const tn__tape_operand *operand = &e->in[i];
    const bool is_gradient = i < e->n_out_grads;
    if (operand->saved &&
        !tn__tape_is_unchanged(sweep->tape, operand->saved, operand->version))
      return tn__sweep_fail_stale(
          e, is_gradient ? "the gradient of output" : "input", !is_gradient,
          operand);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

/* True if the group has a gradient that no call has used yet. */
static bool has_new_gradient(const linear *l) {
  for (uint32_t i = 0; i < l->e->n_out; ++i)
    if (!l->e->out[i].passed && is_in_group(l, i) &&
        tn__sweep_gradient_of(l->sweep, &l->e->out[i]))
      return true;
  return false;
}

/* Puts gradients in place of the group's inputs, and zeros where there are
 * none. */
static tn_code make_inputs(linear *l) {
  tn_array **in = l->in + l->e->n_out_grads;
  for (uint32_t i = 0; i < l->e->n_out; ++i) {
    tn__tape_operand *out = &l->e->out[i];
    tn_array *gradient =
        out->passed ? NULL : tn__sweep_gradient_of(l->sweep, out);
    in[i] = input_of(l, i)->saved;
    if (!in[i] || !is_in_group(l, i)) continue;
    const tn__layout like = tn__layout_of(in[i]);
    in[i] = NULL;
    if (gradient)
      in[i] = tn__array_retain(gradient);
    else
      TN__TRY(tn__tape_get_constant(l->sweep->tape, 0, &like, &in[i]));
    out->passed = true;
  }
  return TN_OK;
}

static void drop_inputs(linear *l) {
  tn_array **in = l->in + l->e->n_out_grads;
  for (uint32_t i = 0; i < l->e->n_out; ++i)
    if (is_in_group(l, i)) tn__array_release(in[i]);
}

/* Computes gradients for the operands first to first + n of the entry, if
 * gradients pass to them, and adds the results. `but`: skips operands of the
 * group. */
static tn_code call_pass(linear *l, uint32_t first, uint32_t n, bool but) {
  tn__sweep *sweep = l->sweep;
  const tn__tape_entry *e = l->e;
  const bool forward = first == 0;
  bool any = false;
  for (uint32_t i = 0; i < n; ++i) {
    const bool wanted = tn__sweep_is_live_input(sweep, e, first + i) &&
                        !(but && is_in_group(l, i));
    sweep->req[i] = wanted ? TN_REQ_WRITE : TN_REQ_NULL;
    l->found[i] = NULL;
    any |= wanted;
  }
  if (!any) return TN_OK;
  const tn__target_op target = {sweep->tape->caller, e->op, e->params,
                                forward ? TN_PASS_FORWARD : TN_PASS_BACKWARD,
                                e->flags};
  const tn_inputs in = {forward ? e->n_out : e->n_in,
                        l->in + (forward ? e->n_out_grads : 0)};
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

static tn_code add_group(linear *l) {
  if (!has_new_gradient(l)) return TN_OK;
  for (uint32_t i = 0; i < l->e->n_out_grads; ++i) l->in[i] = l->e->in[i].saved;
  memset(l->in + l->e->n_out_grads, 0, l->e->n_out * sizeof(tn_array *));
  tn_code rc = make_inputs(l);
  if (rc == TN_OK) rc = call_pass(l, 0, l->e->n_out_grads, false);
  if (rc == TN_OK) rc = call_pass(l, l->e->n_out_grads, l->e->n_out, true);
  drop_inputs(l);
  return rc;
}

tn_code tn__sweep_pass_linear(tn__sweep *sweep, tn__tape_entry *e) {
  linear l = {
      .sweep = sweep, .e = e, .in = sweep->lists[0], .found = sweep->lists[1]};
  TN__TRY(check_unchanged(sweep, e));
  for (uint32_t i = 0; i < e->n_out; ++i) e->out[i].passed = false;
  for (l.group = 0; l.group < TN__MOST_GROUPS; ++l.group)
    TN__TRY(add_group(&l));
  return TN_OK;
}
