/* SPDX-License-Identifier: Apache-2.0
 * graph_copy.c: copies whole graphs, as they are or flat.
 */
#include "graph.h"

static tn_code fail_copy(const tn_graph *from) {
  return tn__fail_memory(from->n_entries * sizeof(tn_entry),
                         "a copy of a graph");
}

static tn_code copy_heads(tn_graph *to, const tn_graph *from,
                          const tn_entry *map) {
  tn_entry *heads = tn__alloc(to->env, (from->n_heads + 1) * sizeof *heads);
  if (!heads) return fail_copy(from);
  for (size_t i = 0; i < from->n_heads; ++i)
    heads[i] = map[tn__entry_id(from, from->heads[i])];
  const tn_code rc = tn__graph_heads_set(to, heads, from->n_heads);
  tn__free(to->env, heads);
  return rc;
}

static tn_code copy_graph(const tn_graph *graph, bool flat, tn_graph **out) {
  tn_graph *made = NULL;
  tn_entry *map = tn__graph_create_map(graph);
  *out = NULL;
  if (!map) return fail_copy(graph);
  tn_code rc = tn__graph_create(graph->caller, &made);
  if (rc == TN_OK)
    rc = flat ? tn__graph_paste_flat(made, graph, map)
              : tn__graph_paste(made, graph, NULL, NULL, map);
  if (rc == TN_OK) rc = copy_heads(made, graph, map);
  tn__free(graph->env, map);
  if (rc != TN_OK) {
    tn__graph_release(made);
    return rc;
  }
  *out = made;
  return TN_OK;
}

tn_code tn__graph_copy(const tn_graph *graph, tn_graph **out) {
  return copy_graph(graph, false, out);
}

tn_code tn__graph_flatten(const tn_graph *graph, tn_graph **out) {
  return copy_graph(graph, true, out);
}
