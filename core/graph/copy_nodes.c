/* SPDX-License-Identifier: Apache-2.0
 * copy_nodes.c: copies nodes of one graph into another. If requested, the
 * nodes of its graph replace each nested-graph node, but not a loop.
 */
#include <stdio.h>

#include "graph.h"

enum { TAIL = 80 }; /* letters to keep of a name that is too long */

/* The state of copying nodes of the graph `from` to the end of the graph `to`.
 */
typedef struct node_copier {
  tn_graph *to;
  const tn_graph *from;
  const uint8_t *wanted; /* or NULL: all */
  const char *prefix;    /* or NULL */
  bool flat;             /* true: a GRAPH node is replaced by copies of the
                            nodes of its graph */
  const tn_graph *top;   /* the outermost graph, of which nodes keep their
                            names; NULL: no nodes keep them */
  tn_entry *map;         /* by entry of `from` */
  tn_entry *in;          /* space for the inputs of any node */
  uint32_t *after;       /* space for the dependencies of any node */
  const uint32_t *outer; /* nodes of `to` on which all copies depend, because
                            the outer GRAPH node depends on them */
  uint32_t n_outer;
} node_copier;

tn_entry *tn__graph_create_map(const tn_graph *from) {
  const size_t n = (size_t)from->n_entries + 1;
  tn_entry *map = tn__alloc(from->env, n * sizeof *map);
  for (size_t i = 0; map && i < n; ++i) map[i] = TN_ENTRY_NONE;
  return map;
}

static tn_code fail_paste(const tn_graph *from) {
  return tn__fail_memory(from->n_entries * sizeof(tn_entry),
                         "a copy of a graph");
}

static tn_entry map_entry(const node_copier *p, tn_entry entry) {
  return tn__entry_is_none(entry) ? entry
                                  : p->map[tn__entry_id(p->from, entry)];
}

/* ---------------------------------------------------------------- one node */

static uint32_t get_copied_node(const node_copier *p, uint32_t node) {
  return node == TN_NONE ? TN_NONE : map_entry(p, (tn_entry){node, 0}).node;
}

/* Lists the nodes of `to` on which the copy of `node` depends, and returns
 * their number. A node that depends on a replaced GRAPH node depends on the
 * outputs of that node instead. */
static uint32_t map_dependencies(const node_copier *p, const tn__node *node) {
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

static size_t get_most_dependencies(const node_copier *p,
                                    const tn__node *node) {
  size_t n = (size_t)node->n_after + p->n_outer;
  for (uint32_t i = 0; p->flat && i < node->n_after; ++i)
    n += tn__node_at(p->from, node->after[i])->n_out;
  return n;
}

static void map_inputs(const node_copier *p, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
    p->in[i] = map_entry(p, node->in[i]);
}

static tn_code add_copy(const node_copier *p, const tn__node *node,
                        const char *name, tn_graph *inner, tn__node **out) {
  map_inputs(p, node);
  const tn__node_spec spec = {.kind = node->kind,
                              .flags = node->flags,
                              .n_in = node->n_in,
                              .n_aux = node->n_aux,
                              .n_out = node->n_out,
                              .of = get_copied_node(p, node->of),
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
                              .n_after = map_dependencies(p, node)};
  return tn__node_add(p->to, &spec, out);
}

static tn_code paste_copy(const node_copier *p, const tn__node *node,
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

static tn_code paste_nodes(node_copier *p);

/* Marks the nodes that the heads of a graph need. The caller frees *out. */
static tn_code mark_needed_nodes(const tn_graph *graph, uint8_t **out) {
  tn__order order;
  *out = tn__zalloc(graph->env, graph->nodes.n + 1);
  if (!*out) return fail_paste(graph);
  TN__TRY(tn__order_all(graph, graph->heads, graph->n_heads, &order));
  for (uint32_t i = 0; i < order.n; ++i) (*out)[order.ids[i]] = 1;
  tn__free(graph->env, order.ids);
  return TN_OK;
}

/* Gives the attributes of a GRAPH node to the copies of its inner nodes, from
 * node number `from` on. A copy keeps its own value of an attribute. */
static tn_code inherit_attributes(const node_copier *p, const tn__node *node,
                                  uint32_t from) {
  for (uint32_t id = from; id < tn__n_nodes(p->to); ++id)
    TN__TRY(tn__attributes_inherit(p->to, tn__node_at(p->to, id), node));
  return TN_OK;
}

/* Maps output `i` of a replaced GRAPH node. If the output is also an input, and
 * gradients stop between the two, it becomes a copy of the input. */
static tn_code paste_output(const node_copier *p, const tn__node *node,
                            uint32_t i, const node_copier *inside) {
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

static tn_code paste_inner_nodes(const node_copier *p, node_copier *inside,
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
    TN__TRY(paste_output(p, node, i, inside));
  return inherit_attributes(p, node, from);
}

static tn_code paste_inner(const node_copier *p, const tn__node *node,
                           const char *name) {
  uint8_t *wanted = NULL;
  node_copier inside = {.to = p->to,
                        .from = node->inner,
                        .prefix = name,
                        .flat = true,
                        .top = p->top,
                        .outer = p->after,
                        .n_outer = map_dependencies(p, node)};
  inside.map = tn__graph_create_map(node->inner);
  tn_code rc = inside.map ? TN_OK : fail_paste(node->inner);
  if (rc == TN_OK) rc = mark_needed_nodes(node->inner, &wanted);
  inside.wanted = wanted;
  if (rc == TN_OK) rc = paste_inner_nodes(p, &inside, node);
  tn__free(p->to->env, wanted);
  tn__free(p->to->env, inside.map);
  return rc;
}

/* --------------------------------------------------------------------- all */

static tn_code paste_named(const node_copier *p, const tn__node *node,
                           const char *name) {
  return p->flat && node->kind == TN__NODE_GRAPH ? paste_inner(p, node, name)
                                                 : paste_copy(p, node, name);
}

static bool has_node_named(const node_copier *p, const char *name) {
  return tn__map_get(&p->to->names, name) ||
         (p->top && tn__map_get(&p->top->names, name));
}

/* Copies a node; the name of the copy is `stem` and the first number that makes
 * it unique. */
static tn_code paste_numbered_copy(const node_copier *p, const tn__node *node,
                                   const char *stem) {
  const char *made = NULL;
  do {
    TN__TRY(tn__graph_name_make(p->to, NULL, stem, &made));
    TN__TRY(tn__graph_name_skip(p->to, stem));
  } while (has_node_named(p, made));
  return paste_named(p, node, made);
}

/* Copies a node of a nested graph under the name OUTER/NAME. If the name is too
 * long, the copy gets the end of it and a number; if the name exists, it gets a
 * number too. */
static tn_code paste_nested_copy(const node_copier *p, const tn__node *node,
                                 const tn__buf *name) {
  const bool cut = name->n > TN__NAME_MAX - TAIL;
  char stem[TN__NAME_MAX];
  if (name->n <= TN__NAME_MAX && !has_node_named(p, name->s))
    return paste_named(p, node, name->s);
  (void)snprintf(stem, sizeof stem, "%s%s@", cut ? ".." : "",
                 name->s + (cut ? name->n - TAIL : 0));
  return paste_numbered_copy(p, node, stem);
}

static tn_code paste_node(const node_copier *p, const tn__node *node) {
  if (!p->prefix) return paste_named(p, node, node->name);
  tn__buf name;
  tn__buf_init(&name, p->to->env);
  tn__buf_add(&name, "%s/%s", p->prefix, node->name);
  const tn_code rc = name.failed ? tn__fail_memory(name.n, "a node's name")
                                 : paste_nested_copy(p, node, &name);
  tn__buf_deinit(&name);
  return rc;
}

static size_t get_most_inputs(const node_copier *p) {
  size_t most = 1;
  for (uint32_t i = 0; i < tn__n_nodes(p->from); ++i) {
    const tn__node *node = tn__node_at(p->from, i);
    const size_t n =
        (size_t)node->n_in + node->n_aux + get_most_dependencies(p, node);
    if (n > most) most = n;
  }
  return most;
}

static tn_code paste_all(const node_copier *p) {
  for (uint32_t i = 0; i < tn__n_nodes(p->from); ++i) {
    const tn__node *node = tn__node_at(p->from, i);
    if (p->wanted && !p->wanted[i]) continue;
    if (!tn__entry_is_none(p->map[node->first])) continue;
    TN__TRY(paste_node(p, node));
  }
  return TN_OK;
}

static tn_code paste_nodes(node_copier *p) {
  const tn__env *env = p->to->env;
  const size_t most = get_most_inputs(p);
  p->in = tn__alloc(env, most * sizeof *p->in);
  p->after = tn__alloc(env, most * sizeof *p->after);
  const tn_code rc = p->in && p->after ? paste_all(p) : fail_paste(p->from);
  tn__free(env, p->in);
  tn__free(env, p->after);
  return rc;
}

static tn_code paste_or_truncate(node_copier *p) {
  const uint32_t before = tn__n_nodes(p->to);
  const tn_code rc = paste_nodes(p);
  if (rc != TN_OK) tn__graph_truncate(p->to, before);
  return rc;
}

tn_code tn__graph_paste(tn_graph *to, const tn_graph *from,
                        const uint8_t *wanted, const char *prefix,
                        tn_entry *map) {
  node_copier p = {
      .to = to, .from = from, .wanted = wanted, .prefix = prefix, .map = map};
  return paste_or_truncate(&p);
}

tn_code tn__graph_paste_flat(tn_graph *to, const tn_graph *from,
                             tn_entry *map) {
  node_copier p = {
      .to = to, .from = from, .flat = true, .top = from, .map = map};
  return paste_or_truncate(&p);
}
