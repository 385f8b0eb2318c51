/* SPDX-License-Identifier: Apache-2.0
 * element_reads.c: decides whether a nested graph or loop reads the elements of
 * an input or only its shape. Gradients read only shapes of operands that they
 * need for inference.
 */
#include "graph.h"

static bool has_inner_graph(const tn__node *node) {
  return node->kind == TN__NODE_GRAPH || node->kind == TN__NODE_LOOP;
}

bool tn__node_reads_input(const tn__node *node, const bool *inside,
                          uint32_t i) {
  if (node->kind == TN__NODE_ZERO || node->kind == TN__NODE_ONE) return false;
  if (i >= node->n_in) return true;
  if (inside) return inside[i];
  return !node->in_flags || (node->in_flags[i] & TN_IN_METADATA) == 0;
}

static tn_code mark_node_reads(const tn__node *node, bool *by_node) {
  bool *inside = NULL;
  if (has_inner_graph(node)) TN__TRY(tn__inner_list_reads(node, &inside));
  for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
    if (!tn__entry_is_none(node->in[i]) &&
        tn__node_reads_input(node, inside, i))
      by_node[node->in[i].node] = true;
  tn__free(node->inner ? node->inner->env : NULL, inside);
  return TN_OK;
}

static tn_code mark_all_reads(const tn_graph *graph, bool *by_node) {
  tn__order order;
  tn_code rc = TN_OK;
  TN__TRY(tn__order_make(graph, graph->heads, graph->n_heads, &order));
  for (uint32_t i = 0; rc == TN_OK && i < order.n; ++i)
    rc = mark_node_reads(tn__node_at(graph, order.ids[i]), by_node);
  tn__free(graph->env, order.ids);
  for (size_t i = 0; i < graph->n_heads; ++i)
    by_node[graph->heads[i].node] = true;
  return rc;
}

/* Marks the variables with elements that the inner graph of a node reads. The
 * kept entries of a loop add none: they are computed for its heads, or are
 * variables that the heads need not read. */
static tn_code mark_inner_reads(const tn__node *node, bool *by_node) {
  const tn__loop *loop = node->loop;
  TN__TRY(mark_all_reads(node->inner, by_node));
  for (uint32_t i = 0; loop && i < loop->n_kept; ++i)
    by_node[loop->kept[i].node] = true;
  return TN_OK;
}

/* Marks the initial states of a loop as read: the last states of a loop without
 * steps are the initial ones. */
static void mark_states(const tn__loop *loop, bool *list) {
  for (uint32_t i = 0; loop && i < loop->n_states; ++i)
    list[loop->states[i]] = true;
}

tn_code tn__inner_list_reads(const tn__node *node, bool **out) {
  tn_graph *graph = node->inner;
  const tn_entry *variables = NULL;
  uint32_t n_in = 0, n_aux = 0;
  *out = NULL;
  TN__TRY(tn__graph_variables(graph, &variables, &n_in, &n_aux));
  const size_t n = (size_t)n_in + n_aux + 1;
  bool *by_node = tn__zalloc(graph->env, tn__n_nodes(graph) + (size_t)1);
  bool *list = tn__zalloc(graph->env, n);
  tn_code rc = TN_OK;
  if (!by_node || !list)
    rc = tn__fail_memory(tn__n_nodes(graph), "the inputs that a graph reads");
  if (rc == TN_OK) rc = mark_inner_reads(node, by_node);
  for (uint32_t i = 0; rc == TN_OK && i < n_in + n_aux; ++i)
    list[i] = by_node[variables[i].node];
  if (rc == TN_OK) mark_states(node->loop, list);
  tn__free(graph->env, by_node);
  if (rc == TN_OK) {
    *out = list;
    return TN_OK;
  }
  tn__free(graph->env, list);
  return rc;
}
