/* SPDX-License-Identifier: Apache-2.0
 * gradient_check.c: checks that gradients of a graph have all operands that
 * their kernels read. A BACKWARD node of the gradient pass has only the
 * operands that its requested outputs need. So only the uses of its outputs in
 * the whole graph decide whether the operands suffice.
 */
#include "gradient.h"

/* A BACKWARD node `back`, and the call `of` that it differentiates. */
typedef struct gradient_call {
  const tn__node *back;
  const tn__node *of;
} gradient_call;

static tn_code fail_foreign_input(const gradient_call *p, uint32_t i) {
  return tn__fail(TN_INVALID,
                  "node `%s`: input %u is another entry than the one of `%s`",
                  p->back->name, i, p->of->name);
}

/* Tests whether the BACKWARD node reads a variable in place of operand `i` of
 * its call (inputs, then outputs), as it may: the operand is an output of a
 * call that must not be computed twice. In the gradient of a loop, the variable
 * is the output that the loop has kept. */
static bool may_be_kept_variable(const gradient_call *p, const tn_graph *graph,
                                 uint32_t i) {
  const tn_entry in = p->back->in[p->of->n_out + i];
  return i >= p->of->n_in && !tn__node_is_repeatable(p->of) &&
         tn__node_at(graph, in.node)->kind == TN__NODE_VARIABLE;
}

/* Checks that the BACKWARD node reads the call's own inputs and outputs, each
 * at its position. */
static tn_code check_operand_entries(const gradient_call *p,
                                     const tn_graph *graph) {
  const tn__node *of = p->of;
  const tn_entry *in = p->back->in;
  for (uint32_t i = 0; i < of->n_in + of->n_out; ++i) {
    const uint32_t at = of->n_out + i;
    const tn_entry own =
        i < of->n_in ? of->in[i] : (tn_entry){of->id, i - of->n_in};
    if (!tn__entry_is_none(in[at]) && !tn__entry_is_same(in[at], own) &&
        !may_be_kept_variable(p, graph, i))
      return fail_foreign_input(p, at);
  }
  return TN_OK;
}

static bool has_operand(const gradient_call *p, uint32_t at, bool metadata) {
  const tn__node *back = p->back;
  if (tn__entry_is_none(back->in[at])) return false;
  return metadata || !back->in_flags || !(back->in_flags[at] & TN_IN_METADATA);
}

/* Tests whether the BACKWARD node reads all operands that one declared need of
 * its operator names. */
static bool has_needed_operands(const gradient_call *p, const tn_need *need) {
  const tn__node *of = p->of;
  const tn_op *op = of->desc;
  const bool metadata = need->metadata != 0;
  if (need->what == TN_NEED_IN) {
    for (uint32_t i = 0; i < of->n_in; ++i)
      if (tn__node_input(of, i) == op->inputs[need->index] &&
          !tn__entry_is_none(of->in[i]) &&
          !has_operand(p, of->n_out + i, metadata))
        return false;
    return true;
  }
  const uint32_t first =
      need->what == TN_NEED_GRAD_OUT ? 0 : of->n_out + of->n_in;
  for (uint32_t i = 0; i < of->n_out; ++i)
    if (tn__node_output(of, i) == op->outputs[need->index] &&
        !has_operand(p, first + i, metadata))
      return false;
  return true;
}

static tn_code check_used_output(const gradient_call *p, uint32_t i) {
  const tn_op *op = p->of->desc;
  const uint32_t last = op->n_inputs - 1;
  const tn_input_gradient *rule = op->gradient->inputs[i < last ? i : last];
  if (rule->stop)
    return tn__fail(TN_INVALID,
                    "node `%s`: there is no gradient of input %u of `%s`",
                    p->back->name, i, p->of->name);
  for (uint32_t k = 0; k < rule->n_needs; ++k)
    if (!has_needed_operands(p, &rule->needs[k]))
      return tn__fail(TN_INVALID,
                      "node `%s`: its output %u is used, which needs an input "
                      "of it that is null",
                      p->back->name, i);
  return TN_OK;
}

static tn_code check_backward(const tn_graph *graph, const tn__node *back,
                              const uint8_t *used) {
  const gradient_call p = {back, tn__node_at(graph, back->of)};
  const tn_gradient *g = p.of->desc->gradient;
  if (!g || g->kind != TN_GRADIENT_KERNEL)
    return tn__fail(TN_INVALID, "node `%s`: no kernel computes gradients of %s",
                    back->name, p.of->op->name);
  TN__TRY(check_operand_entries(&p, graph));
  for (uint32_t i = 0; i < back->n_out; ++i)
    if (used[back->first + i]) TN__TRY(check_used_output(&p, i));
  return TN_OK;
}

static void mark_used_entry(const tn_graph *graph, tn_entry entry,
                            uint8_t *used) {
  if (!tn__entry_is_none(entry)) used[tn__entry_id(graph, entry)] = 1;
}

static void mark_used_entries(const tn_graph *graph, uint8_t *used) {
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
      mark_used_entry(graph, node->in[i], used);
  }
  for (size_t i = 0; i < graph->n_heads; ++i)
    mark_used_entry(graph, graph->heads[i], used);
}

tn_code tn__gradients_check(const tn_graph *graph) {
  tn_code rc = TN_OK;
  uint8_t *used = tn__zalloc(graph->env, (size_t)graph->n_entries + 1);
  if (!used)
    return tn__fail_memory(graph->n_entries, "the gradients of a graph");
  mark_used_entries(graph, used);
  for (uint32_t id = 0; rc == TN_OK && id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    if (node->kind == TN__NODE_BACKWARD) rc = check_backward(graph, node, used);
  }
  tn__free(graph->env, used);
  return rc;
}
