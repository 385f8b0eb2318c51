/* SPDX-License-Identifier: Apache-2.0
 * reorder.c: makes a valid graph of the nodes that a pass leaves: each node
 * after its inputs, without nodes that are not needed any more, with new
 * inference. Finds passes that break a graph.
 */
#include <string.h>

#include "facts.h"
#include "gradient.h"
#include "passes.h"

/* ------------------------------------------------------------------- order */

/* Lists one entry of each node to keep after a pass: of nodes that the heads
 * need, of old nodes that they did not need before the pass either, and of old
 * variables. */
static tn_code list_kept_nodes(const tn_rewrite *r, tn_entry **out, size_t *n) {
  const tn_graph *graph = r->graph;
  tn__order now;
  *n = 0;
  *out = NULL;
  TN__TRY(tn__order_make(graph, graph->heads, graph->n_heads, &now));
  const size_t bytes = (tn__n_nodes(graph) + 1u) * sizeof **out;
  tn_entry *list = *out = tn__alloc(graph->env, bytes);
  uint8_t *stays = tn__zalloc(graph->env, tn__n_nodes(graph) + 1u);
  for (uint32_t i = 0; stays && i < now.n; ++i) stays[now.ids[i]] = 1;
  for (uint32_t id = 0; list && stays && id < tn__n_nodes(graph); ++id) {
    const bool old = id < r->n_old;
    const bool variable = tn__node_at(graph, id)->kind == TN__NODE_VARIABLE;
    if (stays[id] || (old && (variable || !r->needed[id])))
      list[(*n)++] = (tn_entry){id, 0};
  }
  const bool failed = !list || !stays;
  tn__free(graph->env, stays);
  tn__free(graph->env, now.ids);
  return failed ? tn__fail_memory(bytes, "the order of a graph") : TN_OK;
}

/* Makes the new number of each node, its position in `order`; TN_NONE for a
 * node that is removed. */
static tn_code make_node_numbers(const tn_graph *graph, const tn__order *order,
                                 uint32_t **out) {
  const size_t n = tn__n_nodes(graph);
  *out = tn__alloc(graph->env, (n + 1) * sizeof **out);
  if (!*out) return tn__fail_memory(n * sizeof **out, "the order of a graph");
  for (size_t i = 0; i < n; ++i) (*out)[i] = TN_NONE;
  for (uint32_t i = 0; i < order->n; ++i) (*out)[order->ids[i]] = i;
  return TN_OK;
}

static tn_code fail_cycle(const tn_graph *graph, const uint32_t *number,
                          const tn__node *node, uint32_t child) {
  if (child == TN_NONE || number[child] < number[node->id]) return TN_OK;
  return tn__fail(TN_INVALID,
                  "node `%s` would read node `%s`, which depends on it: a "
                  "cycle",
                  node->name, tn__node_at(graph, child)->name);
}

static tn_code check_cycles(const tn_graph *graph, const tn__order *order,
                            const uint32_t *number) {
  for (uint32_t k = 0; k < order->n; ++k) {
    const tn__node *node = tn__node_at(graph, order->ids[k]);
    for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
      TN__TRY(fail_cycle(graph, number, node, node->in[i].node));
    for (uint32_t i = 0; i < node->n_after; ++i)
      TN__TRY(fail_cycle(graph, number, node, node->after[i]));
    TN__TRY(fail_cycle(graph, number, node, node->of));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ numbers */

static void renumber_entry(const uint32_t *number, tn_entry *entry) {
  if (!tn__entry_is_none(*entry)) entry->node = number[entry->node];
}

static void renumber_node(const uint32_t *number, tn__node *node) {
  uint32_t *after = (uint32_t *)(uintptr_t)node->after; /* owned by the node */
  node->id = number[node->id];
  if (node->of != TN_NONE) node->of = number[node->of];
  for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
    renumber_entry(number, &node->in[i]);
  for (uint32_t i = 0; i < node->n_after; ++i) after[i] = number[after[i]];
  node->flags &= ~(uint32_t)TN__NODE_STATE;
}

static void remove_nodes(tn_graph *graph, const uint32_t *number) {
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    tn__node *node = tn__node_at(graph, id);
    if (number[id] != TN_NONE) continue;
    tn__map_remove(&graph->names, node->name);
    tn__node_drop(graph, node);
  }
}

/* Sorts the graph's nodes by their new numbers. It cannot fail: `list` has
 * space for all nodes. */
static void renumber_nodes(tn_graph *graph, const tn__order *order,
                           const uint32_t *number, tn__node **list) {
  remove_nodes(graph, number);
  for (uint32_t i = 0; i < order->n; ++i)
    list[i] = tn__node_at(graph, order->ids[i]);
  graph->nodes.n = order->n;
  graph->n_entries = 0;
  for (uint32_t i = 0; i < order->n; ++i) {
    graph->nodes.v[i] = list[i];
    renumber_node(number, list[i]);
    list[i]->first = graph->n_entries;
    graph->n_entries += list[i]->n_out;
    for (uint32_t k = 0; k < list[i]->n_aux; ++k)
      list[list[i]->in[list[i]->n_in + k].node]->flags |= TN__NODE_STATE;
  }
  for (size_t i = 0; i < graph->n_heads; ++i)
    renumber_entry(number, &graph->heads[i]);
  graph->facts &= ~(uint32_t)TN__FACT_LISTS;
}

static tn_code reorder_nodes(tn_rewrite *r) {
  tn_graph *graph = r->graph;
  tn_entry *roots = NULL;
  uint32_t *number = NULL;
  tn__order order = {0};
  size_t n = 0;
  tn_code rc = list_kept_nodes(r, &roots, &n);
  if (rc == TN_OK) rc = tn__order_all(graph, roots, n, &order);
  if (rc == TN_OK) rc = make_node_numbers(graph, &order, &number);
  if (rc == TN_OK) rc = check_cycles(graph, &order, number);
  const size_t bytes = (order.n + 1u) * sizeof(tn__node *);
  tn__node **list = rc == TN_OK ? tn__alloc(graph->env, bytes) : NULL;
  if (rc == TN_OK && !list) rc = tn__fail_memory(bytes, "the order of a graph");
  if (rc == TN_OK) renumber_nodes(graph, &order, number, list);
  tn__free(graph->env, list);
  tn__free(graph->env, number);
  tn__free(graph->env, order.ids);
  tn__free(graph->env, roots);
  return rc;
}

/* -------------------------------------------------------------------- facts */

static void print_sig(const tn_sig *sig, tn__buf *out) {
  tn__buf_add(out, "%s ",
              sig->dtype == TN_DTYPE_UNKNOWN ? "of unknown type"
                                             : tn__dtype_name(sig->dtype));
  tn__buf_shape(out, sig->ndim, sig->shape);
}

static tn_code fail_changed_head(const tn_graph *graph, size_t i,
                                 const tn_sig *was, tn_code code) {
  char name[TN__ENTRY_TEXT];
  tn__buf before, now;
  tn__buf_init(&before, graph->env);
  tn__buf_init(&now, graph->env);
  print_sig(was, &before);
  print_sig(tn__entry_sig(graph, graph->heads[i]), &now);
  (void)tn__fail(code, "head %zu was %s, and would be %s, as `%s` is", i,
                 before.s ? before.s : "?", now.s ? now.s : "?",
                 tn__entry_text(graph, graph->heads[i], name));
  tn__buf_deinit(&before);
  tn__buf_deinit(&now);
  return code;
}

static tn_code check_heads(const tn_rewrite *r) {
  const tn_graph *graph = r->graph;
  tn_code code = TN_OK;
  for (size_t i = 0; i < graph->n_heads; ++i)
    if (tn__sig_has_conflict(&r->heads[i],
                             tn__entry_sig(graph, graph->heads[i]), &code))
      return fail_changed_head(graph, i, &r->heads[i], code);
  return TN_OK;
}

tn_code tn__rewrite_finish(tn_rewrite *r) {
  TN__TRY(reorder_nodes(r));
  TN__TRY(tn__gradients_check(r->graph));
  const tn_code rc = tn__graph_infer(r->graph, r->known, r->n_known);
  if (rc != TN_OK && (rc != TN_INCOMPLETE || r->complete)) return rc;
  return check_heads(r);
}
