/* SPDX-License-Identifier: Apache-2.0
 * gradient_check.c: checks that gradients of a graph have all operands that
 * their kernels read. A BACKWARD node of the gradient pass has only the
 * operands that its requested outputs need. So only the uses of its outputs in
 * the whole graph decide whether the operands suffice.
 */
#include "graph.h"

/* A BACKWARD node, and the call that it belongs to. */
typedef struct pairing {
  const tn__node *back;
  const tn__node *of;
} pairing;

static tn_code fail_foreign(const pairing *p, uint32_t i) {
  return tn__fail(TN_INVALID,
                  "node `%s`: input %u is another entry than the one of `%s`",
                  p->back->name, i, p->of->name);
}

/* Whether a variable may replace an output of a call that must not be computed
 * twice: in the gradient of a loop's step it is the kept output. */
static bool is_replaced(const pairing *p, const tn_graph *graph, uint32_t i) {
  const tn_entry in = p->back->in[p->of->n_out + i];
  return i >= p->of->n_in && !tn__node_is_repeatable(p->of) &&
         tn__node_at(graph, in.node)->kind == TN__NODE_VARIABLE;
}

/* Checks the inputs and outputs of the call at their positions in the gradient.
 */
static tn_code wires_check(const pairing *p, const tn_graph *graph) {
  const tn__node *of = p->of;
  const tn_entry *in = p->back->in;
  for (uint32_t i = 0; i < of->n_in + of->n_out; ++i) {
    const uint32_t at = of->n_out + i;
    const tn_entry own =
        i < of->n_in ? of->in[i] : (tn_entry){of->id, i - of->n_in};
    if (!tn__entry_is_none(in[at]) && !tn__entry_is_same(in[at], own) &&
        !is_replaced(p, graph, i))
      return fail_foreign(p, at);
  }
  return TN_OK;
}

static bool has_operand(const pairing *p, uint32_t at, bool metadata) {
  const tn__node *back = p->back;
  if (tn__entry_is_none(back->in[at])) return false;
  return metadata || !back->in_flags || !(back->in_flags[at] & TN_IN_METADATA);
}

/* Whether all operands of a need are present. */
static bool need_met(const pairing *p, const tn_need *need) {
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

static tn_code output_check(const pairing *p, uint32_t i) {
  const tn_op *op = p->of->desc;
  const uint32_t last = op->n_inputs - 1;
  const tn_input_gradient *rule = op->gradient->inputs[i < last ? i : last];
  if (rule->stop)
    return tn__fail(TN_INVALID,
                    "node `%s`: there is no gradient of input %u of `%s`",
                    p->back->name, i, p->of->name);
  for (uint32_t k = 0; k < rule->n_needs; ++k)
    if (!need_met(p, &rule->needs[k]))
      return tn__fail(TN_INVALID,
                      "node `%s`: its output %u is used, which needs an input "
                      "of it that is null",
                      p->back->name, i);
  return TN_OK;
}

static tn_code backward_check(const tn_graph *graph, const tn__node *back,
                              const uint8_t *used) {
  const pairing p = {back, tn__node_at(graph, back->of)};
  const tn_gradient *g = p.of->desc->gradient;
  if (!g || g->kind != TN_GRADIENT_KERNEL)
    return tn__fail(TN_INVALID, "node `%s`: no kernel computes gradients of %s",
                    back->name, p.of->op->name);
  TN__TRY(wires_check(&p, graph));
  for (uint32_t i = 0; i < back->n_out; ++i)
    if (used[back->first + i]) TN__TRY(output_check(&p, i));
  return TN_OK;
}

static void mark_used(const tn_graph *graph, tn_entry entry, uint8_t *used) {
  if (!tn__entry_is_none(entry)) used[tn__entry_id(graph, entry)] = 1;
}

static void mark_all(const tn_graph *graph, uint8_t *used) {
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
      mark_used(graph, node->in[i], used);
  }
  for (size_t i = 0; i < graph->n_heads; ++i)
    mark_used(graph, graph->heads[i], used);
}

tn_code tn__gradients_check(const tn_graph *graph) {
  tn_code rc = TN_OK;
  uint8_t *used = tn__zalloc(graph->env, (size_t)graph->n_entries + 1);
  if (!used)
    return tn__fail_memory(graph->n_entries, "the gradients of a graph");
  mark_all(graph, used);
  for (uint32_t id = 0; rc == TN_OK && id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    if (node->kind == TN__NODE_BACKWARD) rc = backward_check(graph, node, used);
  }
  tn__free(graph->env, used);
  return rc;
}
