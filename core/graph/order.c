/* SPDX-License-Identifier: Apache-2.0
 * order.c: finds the nodes that some entries need, and an order for them.
 */
#include "graph.h"

/* A node on the current path, and the next child to visit. */
typedef struct visit {
  uint32_t node;
  uint32_t next;
  uint32_t turn; /* number of the next turn, after the children */
} visit;

/* A constraint on the order: a node must follow the node `before`, which then
 * counts as needed. */
typedef struct turn {
  uint32_t before;
  uint32_t next; /* next turn of the same node; TN_NONE */
} turn;

/* All constraints of an order, as a list for each node that must wait. */
typedef struct turns {
  turn *v;
  uint32_t n;
  uint32_t *first; /* by node: its first turn; TN_NONE */
} turns;

/* The state of a depth-first walk that writes an order. */
typedef struct walk {
  const tn_graph *graph;
  uint8_t *seen; /* for each node: 1 if the walk has entered it */
  visit *path;   /* at most one visit per node */
  uint32_t depth;
  bool whole;         /* true: the call that a gradient belongs to is visited
                         like a child of the gradient */
  const turns *turns; /* or NULL */
  tn__order *order;
} walk;

static void enter_node(walk *w, uint32_t node) {
  if (w->seen[node]) return;
  w->seen[node] = 1;
  w->path[w->depth++] =
      (visit){node, 0, w->turns ? w->turns->first[node] : TN_NONE};
}

static uint32_t count_children(const walk *w, const tn__node *node) {
  return node->n_in + node->n_aux + node->n_after + w->whole;
}

/* Child `i` of a node; TN_NONE if the position is empty. */
static uint32_t get_child(const tn__node *node, uint32_t i) {
  const uint32_t n = node->n_in + node->n_aux;
  if (i < n) return node->in[i].node;
  return i < n + node->n_after ? node->after[i - n] : node->of;
}

static void run_walk(walk *w, uint32_t start) {
  enter_node(w, start);
  while (w->depth > 0) {
    visit *top = &w->path[w->depth - 1];
    const tn__node *node = tn__node_at(w->graph, top->node);
    if (top->next < count_children(w, node)) {
      const uint32_t child = get_child(node, top->next++);
      if (child != TN_NONE) enter_node(w, child);
      continue;
    }
    if (top->turn != TN_NONE) {
      const turn *t = &w->turns->v[top->turn];
      top->turn = t->next;
      enter_node(w, t->before);
      continue;
    }
    w->order->ids[w->order->n++] = top->node;
    --w->depth;
  }
}

static tn_code make_order(walk *w, const tn_entry *heads, size_t n_heads) {
  const tn_graph *graph = w->graph;
  tn__order *out = w->order;
  const size_t n = graph->nodes.n + 1; /* never 0 */
  out->n = 0;
  out->ids = tn__alloc(graph->env, n * sizeof *out->ids);
  w->seen = tn__zalloc(graph->env, n);
  w->path = tn__alloc(graph->env, n * sizeof *w->path);
  tn_code rc = TN_OK;
  if (!out->ids || !w->seen || !w->path)
    rc = tn__fail_memory(n * sizeof *w->path, "the order of a graph");
  for (size_t i = 0; rc == TN_OK && i < n_heads; ++i)
    run_walk(w, heads[i].node);
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
  return make_order(&w, heads, n_heads);
}

tn_code tn__order_all(const tn_graph *graph, const tn_entry *heads,
                      size_t n_heads, tn__order *out) {
  walk w = {.graph = graph, .order = out, .whole = true};
  return make_order(&w, heads, n_heads);
}

/* ------------------------------------------------------------------- states */

/* The state of finding the constraints on nodes that use states. It visits the
 * needed nodes in the order of the graph. */
typedef struct turn_search {
  const tn_graph *graph;
  const uint8_t *needed; /* 1: needed first, 2: needed later */
  turns *turns;
  uint32_t *writer;  /* for each variable: the last node so far that changed it;
                        TN_NONE: none */
  uint32_t *readers; /* for each variable: index of the first node in the list
                        that has read it since it was changed; TN_NONE: none */
  turn *list;        /* list of readers */
  uint32_t n_list;
} turn_search;

static bool is_state(const tn_graph *graph, tn_entry entry) {
  return !tn__entry_is_none(entry) &&
         (tn__node_at(graph, entry.node)->flags & TN__NODE_STATE);
}

/* Adds the constraint that `node` follows `before`, unless `node` is needed
 * first and `before` is needed later. */
static void add_turn(const turn_search *l, uint32_t node, uint32_t before) {
  turns *t = l->turns;
  if (before == TN_NONE || before == node) return;
  if (l->needed[node] < l->needed[before]) return;
  t->v[t->n] = (turn){before, t->first[node]};
  t->first[node] = t->n++;
}

static void add_state_use(turn_search *l, uint32_t node, uint32_t state,
                          bool writes) {
  add_turn(l, node, l->writer[state]);
  if (!writes) {
    l->list[l->n_list] = (turn){node, l->readers[state]};
    l->readers[state] = l->n_list++;
    return;
  }
  for (uint32_t r = l->readers[state]; r != TN_NONE; r = l->list[r].next)
    add_turn(l, node, l->list[r].before);
  l->writer[state] = node;
  l->readers[state] = TN_NONE;
}

static void find_turns(turn_search *l) {
  for (uint32_t id = 0; id < tn__n_nodes(l->graph); ++id) {
    const tn__node *node = tn__node_at(l->graph, id);
    for (uint32_t i = 0; l->needed[id] && i < node->n_in + node->n_aux; ++i)
      if (is_state(l->graph, node->in[i]))
        add_state_use(l, id, node->in[i].node, i >= node->n_in);
  }
}

static size_t count_uses(const tn_graph *graph, const tn__order *order) {
  size_t n = 0;
  for (uint32_t k = 0; k < order->n; ++k) {
    const tn__node *node = tn__node_at(graph, order->ids[k]);
    for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
      n += is_state(graph, node->in[i]);
  }
  return n;
}

/* Finds the constraints for `n` uses of states. Each use makes a node wait at
 * most once, and a node waits for each use at most once. */
static tn_code make_turns(turn_search *l, size_t n) {
  const tn__env *env = l->graph->env;
  const size_t nodes = l->graph->nodes.n + 1;
  turns *t = l->turns;
  t->v = tn__alloc(env, (2 * n + 1) * sizeof *t->v);
  t->first = tn__alloc(env, nodes * sizeof *t->first);
  l->writer = tn__alloc(env, nodes * sizeof *l->writer);
  l->readers = tn__alloc(env, nodes * sizeof *l->readers);
  l->list = tn__alloc(env, (n + 1) * sizeof *l->list);
  const bool made = t->v && t->first && l->writer && l->readers && l->list;
  for (size_t i = 0; made && i < nodes; ++i)
    t->first[i] = l->writer[i] = l->readers[i] = TN_NONE;
  if (made) find_turns(l);
  tn__free(env, l->writer);
  tn__free(env, l->readers);
  tn__free(env, l->list);
  return made ? TN_OK
              : tn__fail_memory(n * sizeof(turn), "the order of states");
}

/* Makes an order in which the nodes use states in the order of the graph. */
static tn_code order_state_uses(const tn_graph *graph, const tn_entry *heads,
                                size_t n_heads, const uint8_t *needed,
                                tn__order *order) {
  const size_t n = count_uses(graph, order);
  turns all = {0};
  turn_search l = {.graph = graph, .needed = needed, .turns = &all};
  walk w = {.graph = graph, .order = order, .turns = &all};
  if (n < 2) return TN_OK;
  tn_code rc = make_turns(&l, n);
  if (rc == TN_OK) {
    tn__free(graph->env, order->ids);
    rc = make_order(&w, heads, n_heads);
  }
  tn__free(graph->env, all.v);
  tn__free(graph->env, all.first);
  return rc;
}

tn_code tn__order_steps(const tn_graph *graph, const tn_entry *heads,
                        uint32_t *n_first, size_t n_heads, tn__order *out) {
  tn__order first;
  *out = (tn__order){0};
  TN__TRY(tn__order_make(graph, heads, *n_first, &first));
  uint8_t *needed = tn__zalloc(graph->env, graph->nodes.n + 1);
  tn_code rc = needed ? tn__order_make(graph, heads, n_heads, out)
                      : tn__fail_memory(graph->nodes.n, "the order of a graph");
  for (uint32_t i = 0; rc == TN_OK && i < out->n; ++i)
    needed[out->ids[i]] = i < first.n ? 1 : 2;
  if (rc == TN_OK) rc = order_state_uses(graph, heads, n_heads, needed, out);
  *n_first = first.n;
  tn__free(graph->env, first.ids);
  tn__free(graph->env, needed);
  return rc;
}
