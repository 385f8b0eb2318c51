/* SPDX-License-Identifier: Apache-2.0
 * copy_nodes.c: copies nodes of one graph into another. If requested, the
 * nodes of its graph replace each nested-graph node, but not a loop.
 */
#include <stdio.h>

#include "graph.h"

enum { TAIL = 80 }; /* letters to keep of a name that is too long */

/* The copy of nodes of `from` into `to`. */
typedef struct pasting {
  tn_graph *to;
  const tn_graph *from;
  const uint8_t *wanted; /* or NULL: all */
  const char *prefix;    /* or NULL */
  bool flat;             /* GRAPH nodes become their nodes */
  const tn_graph *top;   /* graph of which nodes keep their names; or NULL */
  tn_entry *map;         /* by entry of `from` */
  tn_entry *in;          /* space for the inputs of any node */
  uint32_t *after;
  const uint32_t *outer; /* control dependencies of the outer GRAPH node, in
                            `to` */
  uint32_t n_outer;
} pasting;

tn_entry *tn__graph_create_map(const tn_graph *from) {
  const size_t n = (size_t)from->n_entries + 1;
  tn_entry *map = tn__alloc(from->env, n * sizeof *map);
  for (size_t i = 0; map && i < n; ++i) map[i] = TN_ENTRY_NONE;
  return map;
}

static tn_code paste_fail(const tn_graph *from) {
  return tn__fail_memory(from->n_entries * sizeof(tn_entry),
                         "a copy of a graph");
}

static tn_entry map_entry(const pasting *p, tn_entry entry) {
  return tn__entry_is_none(entry) ? entry
                                  : p->map[tn__entry_id(p->from, entry)];
}

/* ---------------------------------------------------------------- one node */

static uint32_t node_mapped(const pasting *p, uint32_t node) {
  return node == TN_NONE ? TN_NONE : map_entry(p, (tn_entry){node, 0}).node;
}

/* Lists the control dependencies of a node, in `to`; returns their number. The
 * nodes that wait for a GRAPH node wait for its outputs instead. */
static uint32_t after_map(const pasting *p, const tn__node *node) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < node->n_after; ++i) {
    const tn__node *other = tn__node_at(p->from, node->after[i]);
    const bool flat = p->flat && other->kind == TN__NODE_GRAPH;
    for (uint32_t k = 0; k < (flat ? other->n_out : 1); ++k)
      p->after[n++] = map_entry(p, (tn_entry){other->id, k}).node;
  }
  for (uint32_t i = 0; i < p->n_outer; ++i) p->after[n++] = p->outer[i];
  return n;
}

static size_t most_after(const pasting *p, const tn__node *node) {
  size_t n = (size_t)node->n_after + p->n_outer;
  for (uint32_t i = 0; p->flat && i < node->n_after; ++i)
    n += tn__node_at(p->from, node->after[i])->n_out;
  return n;
}

static void inputs_map(const pasting *p, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
    p->in[i] = map_entry(p, node->in[i]);
}

static tn_code add_copy(const pasting *p, const tn__node *node,
                        const char *name, tn_graph *inner, tn__node **out) {
  inputs_map(p, node);
  const tn__node_spec spec = {.kind = node->kind,
                              .flags = node->flags,
                              .n_in = node->n_in,
                              .n_aux = node->n_aux,
                              .n_out = node->n_out,
                              .of = node_mapped(p, node->of),
                              .name = name,
                              .in = p->in,
                              .in_flags = node->in_flags,
                              .op = node->op,
                              .params = node->params,
                              .inner = inner,
                              .loop = node->loop,
                              .known = &node->known,
                              .gradient_of = node->gradient_of,
                              .after = p->after,
                              .n_after = after_map(p, node)};
  return tn__node_add(p->to, &spec, out);
}

static tn_code paste_copy(const pasting *p, const tn__node *node,
                          const char *name) {
  tn_graph *inner = NULL;
  tn__node *copy = NULL;
  if (node->inner) TN__TRY(tn__graph_copy(node->inner, &inner));
  tn_code rc = add_copy(p, node, name, inner, &copy);
  if (rc != TN_OK) {
    tn__graph_release(inner);
    return rc;
  }
  TN__TRY(tn__attributes_set_sorted(p->to, copy, node->attrs, node->n_attrs));
  for (uint32_t i = 0; i < node->n_out; ++i)
    p->map[node->first + i] = (tn_entry){copy->id, i};
  return TN_OK;
}

/* ------------------------------------------------------------ a node's graph
 */

static tn_code paste_nodes(pasting *p);

/* The nodes that the heads need; the caller frees *out. */
static tn_code needed_nodes(const tn_graph *graph, uint8_t **out) {
  tn__order order;
  *out = tn__zalloc(graph->env, graph->nodes.n + 1);
  if (!*out) return paste_fail(graph);
  TN__TRY(tn__order_all(graph, graph->heads, graph->n_heads, &order));
  for (uint32_t i = 0; i < order.n; ++i) (*out)[order.ids[i]] = 1;
  tn__free(graph->env, order.ids);
  return TN_OK;
}

/* Lets the copied nodes inherit the attributes of the node, unless they have
 * their own. */
static tn_code attributes_inherit(const pasting *p, const tn__node *node,
                                  uint32_t from) {
  for (uint32_t id = from; id < tn__n_nodes(p->to); ++id)
    TN__TRY(tn__attributes_inherit(p->to, tn__node_at(p->to, id), node));
  return TN_OK;
}

/* An output that is also an input stays separate if gradients stop between the
 * two. */
static tn_code output_paste(const pasting *p, const tn__node *node, uint32_t i,
                            const pasting *inside) {
  const tn_entry head = node->inner->heads[i];
  const tn_entry entry = map_entry(inside, head);
  tn__node *copy = NULL;
  p->map[node->first + i] = entry;
  if (tn__node_at(node->inner, head.node)->kind != TN__NODE_VARIABLE ||
      !tn__attribute_get(node, "no_gradient"))
    return TN_OK;
  const tn__node_spec spec = {.kind = TN__NODE_COPY,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = "copy",
                              .in = &entry};
  TN__TRY(tn__node_add(p->to, &spec, &copy));
  p->map[node->first + i] = (tn_entry){copy->id, 0};
  return TN_OK;
}

static tn_code inner_paste(const pasting *p, pasting *inside,
                           const tn__node *node) {
  const tn_entry *variables = NULL;
  uint32_t n_arguments = 0, n_states = 0;
  const uint32_t from = tn__n_nodes(p->to);
  TN__TRY(
      tn__graph_variables(node->inner, &variables, &n_arguments, &n_states));
  for (uint32_t i = 0; i < n_arguments + n_states; ++i)
    inside->map[tn__entry_id(node->inner, variables[i])] =
        map_entry(p, node->in[i]);
  TN__TRY(paste_nodes(inside));
  for (uint32_t i = 0; i < node->n_out; ++i)
    TN__TRY(output_paste(p, node, i, inside));
  return attributes_inherit(p, node, from);
}

static tn_code paste_inner(const pasting *p, const tn__node *node,
                           const char *name) {
  uint8_t *wanted = NULL;
  pasting inside = {.to = p->to,
                    .from = node->inner,
                    .prefix = name,
                    .flat = true,
                    .top = p->top,
                    .outer = p->after,
                    .n_outer = after_map(p, node)};
  inside.map = tn__graph_create_map(node->inner);
  tn_code rc = inside.map ? TN_OK : paste_fail(node->inner);
  if (rc == TN_OK) rc = needed_nodes(node->inner, &wanted);
  inside.wanted = wanted;
  if (rc == TN_OK) rc = inner_paste(p, &inside, node);
  tn__free(p->to->env, wanted);
  tn__free(p->to->env, inside.map);
  return rc;
}

/* --------------------------------------------------------------------- all */

static tn_code paste_named(const pasting *p, const tn__node *node,
                           const char *name) {
  return p->flat && node->kind == TN__NODE_GRAPH ? paste_inner(p, node, name)
                                                 : paste_copy(p, node, name);
}

static bool is_taken(const pasting *p, const char *name) {
  return tn__map_get(&p->to->names, name) ||
         (p->top && tn__map_get(&p->top->names, name));
}

/* Copies a node under a name that begins so and ends with a number. */
static tn_code paste_counted(const pasting *p, const tn__node *node,
                             const char *stem) {
  const char *made = NULL;
  do {
    TN__TRY(tn__graph_name_make(p->to, NULL, stem, &made));
    TN__TRY(tn__graph_name_skip(p->to, stem));
  } while (is_taken(p, made));
  return paste_named(p, node, made);
}

/* Copies a node of an inner graph. Names of nested graphs grow longer: if one
 * is too long, its end is kept with a number, and also if the name exists
 * already. */
static tn_code paste_within(const pasting *p, const tn__node *node,
                            const tn__buf *name) {
  const bool cut = name->n > TN__NAME_MAX - TAIL;
  char stem[TN__NAME_MAX];
  if (name->n <= TN__NAME_MAX && !is_taken(p, name->s))
    return paste_named(p, node, name->s);
  (void)snprintf(stem, sizeof stem, "%s%s@", cut ? ".." : "",
                 name->s + (cut ? name->n - TAIL : 0));
  return paste_counted(p, node, stem);
}

static tn_code paste_node(const pasting *p, const tn__node *node) {
  if (!p->prefix) return paste_named(p, node, node->name);
  tn__buf name;
  tn__buf_init(&name, p->to->env);
  tn__buf_add(&name, "%s/%s", p->prefix, node->name);
  const tn_code rc = name.failed ? tn__fail_memory(name.n, "a node's name")
                                 : paste_within(p, node, &name);
  tn__buf_deinit(&name);
  return rc;
}

static size_t most_inputs(const pasting *p) {
  size_t most = 1;
  for (uint32_t i = 0; i < tn__n_nodes(p->from); ++i) {
    const tn__node *node = tn__node_at(p->from, i);
    const size_t n = (size_t)node->n_in + node->n_aux + most_after(p, node);
    if (n > most) most = n;
  }
  return most;
}

static tn_code paste_all(const pasting *p) {
  for (uint32_t i = 0; i < tn__n_nodes(p->from); ++i) {
    const tn__node *node = tn__node_at(p->from, i);
    if (p->wanted && !p->wanted[i]) continue;
    if (!tn__entry_is_none(p->map[node->first])) continue;
    TN__TRY(paste_node(p, node));
  }
  return TN_OK;
}

static tn_code paste_nodes(pasting *p) {
  const tn__env *env = p->to->env;
  const size_t most = most_inputs(p);
  p->in = tn__alloc(env, most * sizeof *p->in);
  p->after = tn__alloc(env, most * sizeof *p->after);
  const tn_code rc = p->in && p->after ? paste_all(p) : paste_fail(p->from);
  tn__free(env, p->in);
  tn__free(env, p->after);
  return rc;
}

static tn_code paste_or_truncate(pasting *p) {
  const uint32_t before = tn__n_nodes(p->to);
  const tn_code rc = paste_nodes(p);
  if (rc != TN_OK) tn__graph_truncate(p->to, before);
  return rc;
}

tn_code tn__graph_paste(tn_graph *to, const tn_graph *from,
                        const uint8_t *wanted, const char *prefix,
                        tn_entry *map) {
  pasting p = {
      .to = to, .from = from, .wanted = wanted, .prefix = prefix, .map = map};
  return paste_or_truncate(&p);
}

tn_code tn__graph_paste_flat(tn_graph *to, const tn_graph *from,
                             tn_entry *map) {
  pasting p = {.to = to, .from = from, .flat = true, .top = from, .map = map};
  return paste_or_truncate(&p);
}
