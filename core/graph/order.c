/* SPDX-License-Identifier: Apache-2.0
 * order.c: which nodes some entries need, and in which order.
 */
#include "graph.h"

/* A node on the way down, and how far its children were looked at. */
typedef struct visit {
  uint32_t node;
  uint32_t next;
} visit;

typedef struct walk {
  const tn_graph *graph;
  uint8_t *seen;
  visit *path; /* at most one visit for each node */
  uint32_t depth;
  bool whole; /* a gradient's call counts as a child */
  tn__order *order;
} walk;

static void enter(walk *w, uint32_t node) {
  if (w->seen[node]) return;
  w->seen[node] = 1;
  w->path[w->depth++] = (visit){node, 0};
}

static uint32_t n_children(const walk *w, const tn__node *node) {
  return node->n_in + node->n_aux + node->n_after + w->whole;
}

/* Child `i` of a node; TN_NONE if nothing stands there. */
static uint32_t child_at(const tn__node *node, uint32_t i) {
  const uint32_t n = node->n_in + node->n_aux;
  if (i < n) return node->in[i].node;
  return i < n + node->n_after ? node->after[i - n] : node->of;
}

static void run(walk *w, uint32_t start) {
  enter(w, start);
  while (w->depth > 0) {
    visit *top = &w->path[w->depth - 1];
    const tn__node *node = tn__node_at(w->graph, top->node);
    if (top->next < n_children(w, node)) {
      const uint32_t child = child_at(node, top->next++);
      if (child != TN_NONE) enter(w, child);
      continue;
    }
    w->order->ids[w->order->n++] = top->node;
    --w->depth;
  }
}

static tn_code order_make(walk *w, const tn_entry *heads, size_t n_heads) {
  const tn_graph *graph = w->graph;
  tn__order *out = w->order;
  const size_t n = graph->nodes.n + 1; /* never nothing */
  out->n = 0;
  out->ids = tn__alloc(graph->env, n * sizeof *out->ids);
  w->seen = tn__zalloc(graph->env, n);
  w->path = tn__alloc(graph->env, n * sizeof *w->path);
  tn_code rc = TN_OK;
  if (!out->ids || !w->seen || !w->path)
    rc = tn__fail_memory(n * sizeof *w->path, "the order of a graph");
  for (size_t i = 0; rc == TN_OK && i < n_heads; ++i) run(w, heads[i].node);
  tn__free(graph->env, w->seen);
  tn__free(graph->env, w->path);
  if (rc == TN_OK) return TN_OK;
  tn__free(graph->env, out->ids);
  out->ids = NULL;
  return rc;
}

tn_code tn__order_make(const tn_graph *graph, const tn_entry *heads,
                       size_t n_heads, tn__order *out) {
  walk w = {.graph = graph, .order = out};
  return order_make(&w, heads, n_heads);
}

tn_code tn__order_whole(const tn_graph *graph, const tn_entry *heads,
                        size_t n_heads, tn__order *out) {
  walk w = {.graph = graph, .order = out, .whole = true};
  return order_make(&w, heads, n_heads);
}
