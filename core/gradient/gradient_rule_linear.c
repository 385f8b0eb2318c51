/* SPDX-License-Identifier: Apache-2.0
 * gradient_rule_linear.c: the gradient of a gradient, if the operator is linear
 * in groups of its inputs. In a call of the operator, gradients of the
 * gradients of one group replace the inputs of this group. This call gives the
 * gradients of the output gradients, and its own gradients are those of the
 * inputs outside of the group. The result consists of calls of the same
 * operator, so higher orders work the same way.
 *
 * Example: out = dot(a, b) with the gradients da = dot(head, b') and db =
 * dot(a', head). With output gradients s of da and t of db, the head gets
 * dot(s, b) + dot(a, t). b gets the gradient of the first of these calls, and a
 * that of the second.
 */
#include <string.h>

#include "gradient_rule.h"

/* The state of differentiating the BACKWARD node `back`, and the new call for
 * one group of linear inputs. */
typedef struct linear {
  const tn__gradient_rule *rule;
  const tn__node *back;
  const tn__node *of; /* the call of which `back` computes the gradients */
  uint8_t *moved;     /* per output of `back`: its group has been handled */
  tn_entry *in;       /* inputs of the new call */
  tn_entry *grads;    /* per output of the call */
  tn_entry *found;    /* per input: its gradient by this call */
  uint8_t *wanted;    /* per input: requested */
  uint8_t *room;      /* per input of the call: scratch memory of its rule */
} linear;

static tn_entry get_input(const linear *l, uint32_t i) {
  const tn_entry read = l->back->in[l->of->n_out + i];
  return tn__entry_is_none(read) ? l->of->in[i] : read;
}

static bool is_in_group(const linear *l, uint32_t i, uint32_t group) {
  const uint32_t n = l->of->desc->n_inputs;
  return tn__operator_linear_groups(l->of->desc, i < n ? i : n - 1) >> group &
         1;
}

/* ---------------------------------------------------------------------- call
 */

/* Tests whether a gradient of the BACKWARD node's outputs belongs to the group,
 * and the group has not been handled. */
static bool has_pending_gradient(const linear *l, uint32_t group) {
  for (uint32_t i = 0; i < l->of->n_in; ++i)
    if (!l->moved[i] && !tn__entry_is_none(l->rule->grads[i]) &&
        is_in_group(l, i, group))
      return true;
  return false;
}

/* Fills the inputs of the new call. For inputs of the group: the output
 * gradients of the BACKWARD node, or zeros; for others: the inputs of the
 * original call. */
static tn_code fill_call_inputs(linear *l, uint32_t group) {
  for (uint32_t i = 0; i < l->of->n_in; ++i) {
    l->in[i] = get_input(l, i);
    if (tn__entry_is_none(l->in[i]) || !is_in_group(l, i, group)) continue;
    const tn_entry moves = l->moved[i] ? TN_ENTRY_NONE : l->rule->grads[i];
    if (tn__entry_is_none(moves))
      TN__TRY(
          tn__rule_add_constant(l->rule, TN__NODE_ZERO, l->in[i], &l->in[i]));
    else
      l->in[i] = moves;
    l->moved[i] = 1;
  }
  return TN_OK;
}

static tn_code add_call(linear *l, tn__node **out) {
  tn__node_spec spec = {.kind = TN__NODE_CALL,
                        .n_in = l->of->n_in,
                        .n_out = l->of->n_out,
                        .of = TN_NONE,
                        .in = l->in,
                        .op = l->of->op,
                        .params = l->of->params};
  return tn__rule_add_node(l->rule, &spec, "linear", out);
}

/* ----------------------------------------------------------------- gradients
 */

static tn_code add_answer_part(const linear *l, uint32_t at, tn_entry part) {
  tn_entry *sum = &l->rule->out[at];
  tn__node *node = NULL;
  if (tn__entry_is_none(part)) return TN_OK;
  if (tn__entry_is_none(*sum)) {
    *sum = part;
    return TN_OK;
  }
  tn__node_spec spec = {.kind = TN__NODE_SUM,
                        .n_in = 2,
                        .n_out = 1,
                        .of = TN_NONE,
                        .in = (tn_entry[]){*sum, part}};
  TN__TRY(tn__rule_add_node(l->rule, &spec, "sum", &node));
  *sum = (tn_entry){node->id, 0};
  return TN_OK;
}

/* Adds to the answers the gradients of inputs outside of the group: the
 * gradients of the new call, whose output gradients are those of the original
 * call. */
static tn_code add_other_gradients(linear *l, const tn__node *call,
                                   uint32_t group) {
  const uint32_t n_out = l->of->n_out;
  bool any = false;
  for (uint32_t i = 0; i < l->of->n_in; ++i) {
    l->wanted[i] = l->rule->wanted[n_out + i] && !is_in_group(l, i, group) &&
                   tn__rule_can_pass(call, i);
    any |= l->wanted[i];
    l->found[i] = TN_ENTRY_NONE;
  }
  if (!any) return TN_OK;
  memcpy(l->grads, l->back->in, n_out * sizeof *l->grads);
  tn__gradient_rule rule = *l->rule;
  rule.node = call;
  rule.grads = l->grads;
  rule.wanted = l->wanted;
  rule.out = l->found;
  rule.room = l->room;
  TN__TRY(tn__rule_apply(&rule));
  for (uint32_t i = 0; i < l->of->n_in; ++i)
    TN__TRY(add_answer_part(l, n_out + i, l->found[i]));
  return TN_OK;
}

static tn_code add_group_gradients(linear *l, uint32_t group) {
  tn__node *call = NULL;
  if (!has_pending_gradient(l, group)) return TN_OK;
  TN__TRY(fill_call_inputs(l, group));
  TN__TRY(add_call(l, &call));
  for (uint32_t i = 0; i < l->of->n_out; ++i)
    if (l->rule->wanted[i])
      TN__TRY(add_answer_part(l, i, (tn_entry){call->id, i}));
  return add_other_gradients(l, call, group);
}

tn_code tn__rule_apply_linear(const tn__gradient_rule *rule) {
  const tn__env *env = rule->graph->env;
  const tn__node *of = tn__node_at(rule->graph, rule->node->of);
  const size_t n = 2 * (size_t)of->n_in + of->n_out;
  const size_t bytes = n * sizeof(tn_entry) + 3 * (size_t)of->n_in;
  linear l = {.rule = rule, .back = rule->node, .of = of};
  l.in = tn__zalloc(env, bytes);
  if (!l.in) return tn__fail_memory(bytes, "the gradient of a node");
  l.found = l.in + of->n_in;
  l.grads = l.found + of->n_in;
  l.moved = (uint8_t *)(l.grads + of->n_out);
  l.wanted = l.moved + of->n_in;
  l.room = l.wanted + of->n_in;
  tn_code rc = TN_OK;
  for (uint32_t g = 0; rc == TN_OK && g < TN__MOST_GROUPS; ++g)
    rc = add_group_gradients(&l, g);
  tn__free(env, l.in);
  return rc;
}
