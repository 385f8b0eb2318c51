/* SPDX-License-Identifier: Apache-2.0
 * compose.c: graphs and loops used as operators (embed, loop), and two graphs
 * joined into one (compose).
 */
#include <stdio.h>
#include <string.h>

#include "graph.h"

/* ------------------------------------------------------------------- embed */

/* The state of adding a nested graph as one node of `graph`. */
typedef struct embedding {
  tn_graph *graph;
  tn_graph *inner; /* copy of the nested graph; the new node owns it as soon as
                      the node exists */
  const char *name;
  const tn_entry *given; /* the caller's entries for n_given inputs: in the
                            order of the inputs, or, if `keys` is not NULL, for
                            the inputs with these names */
  const char *const *keys;
  uint32_t n_given;
  const tn_attribute *attributes;
  size_t n_attributes;
  uint32_t n_in;
  uint32_t n_aux;
  const tn_entry *inside; /* the variables of `inner` */
  uint32_t *places;       /* by node of `inner`: position of the variable */
  tn_entry *in;
} embedding;

static const char *get_inner_name(const embedding *e, uint32_t i) {
  return tn__node_at(e->inner, e->inside[i].node)->name;
}

/* Position of the variable with this name among the inputs of the nested graph;
 * TN_NONE if its heads depend on no such variable. */
static uint32_t find_variable_position(const embedding *e, const char *name) {
  const tn__node *node = tn__map_get(&e->inner->names, name);
  return node ? e->places[node->id] : TN_NONE;
}

static tn_code find_input_position(const embedding *e, uint32_t i,
                                   uint32_t *out) {
  const uint32_t n = e->n_in + e->n_aux;
  *out = i;
  if (!e->keys)
    return i < n ? TN_OK
                 : tn__fail(TN_INVALID,
                            "%s has %u variables, but %u entries were given",
                            e->name, n, e->n_given);
  *out = find_variable_position(e, e->keys[i]);
  return *out != TN_NONE ? TN_OK
                         : tn__fail(TN_NOT_FOUND, "%s has no variable `%s`",
                                    e->name, e->keys[i]);
}

static tn_code add_outer_variable(const embedding *e, uint32_t i) {
  char name[512];
  tn__node *node = NULL;
  (void)snprintf(name, sizeof name, "%s_%s", e->name, get_inner_name(e, i));
  const tn__node_spec spec = {
      .kind = TN__NODE_VARIABLE,
      .n_out = 1,
      .of = TN_NONE,
      .name = name,
      .known = &tn__node_at(e->inner, e->inside[i].node)->known};
  TN__TRY(tn__node_add(e->graph, &spec, &node));
  e->in[i] = (tn_entry){node->id, 0};
  return tn__scopes_apply(e->graph, node, e->attributes, e->n_attributes);
}

static tn_code check_state(const embedding *e, uint32_t i) {
  if (i < e->n_in || e->in[i].node >= tn__n_nodes(e->graph)) return TN_OK;
  if (tn__node_at(e->graph, e->in[i].node)->kind == TN__NODE_VARIABLE)
    return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s changes its state `%s`, so it must be a variable",
                  e->name, get_inner_name(e, i));
}

static tn_code set_embedding_inputs(embedding *e) {
  const uint32_t n = e->n_in + e->n_aux;
  for (uint32_t i = 0; i < n; ++i) e->in[i] = TN_ENTRY_NONE;
  for (uint32_t i = 0; i < e->n_given; ++i) {
    uint32_t place = 0;
    TN__TRY(find_input_position(e, i, &place));
    if (!tn__entry_is_none(e->in[place]))
      return tn__fail(TN_INVALID, "%s: `%s` is given twice", e->name,
                      get_inner_name(e, place));
    e->in[place] = e->given[i];
  }
  for (uint32_t i = 0; i < n; ++i) {
    if (tn__entry_is_none(e->in[i])) TN__TRY(add_outer_variable(e, i));
    TN__TRY(check_state(e, i));
  }
  return TN_OK;
}

static tn_code init_embedding(embedding *e, const char *name,
                              const char *stem) {
  TN__TRY(tn__graph_name_make(e->graph, name, stem, &e->name));
  TN__TRY(tn__graph_variables(e->inner, &e->inside, &e->n_in, &e->n_aux));
  const uint32_t n = e->n_in + e->n_aux, n_nodes = tn__n_nodes(e->inner);
  e->in = tn__alloc(e->graph->env, (n + (size_t)1) * sizeof *e->in);
  e->places =
      tn__alloc(e->graph->env, (n_nodes + (size_t)1) * sizeof *e->places);
  if (!e->in || !e->places)
    return tn__fail_memory(n * sizeof *e->in + n_nodes * sizeof *e->places,
                           "the inputs of a graph");
  for (uint32_t id = 0; id < n_nodes; ++id) e->places[id] = TN_NONE;
  for (uint32_t i = 0; i < n; ++i) e->places[e->inside[i].node] = i;
  return TN_OK;
}

static tn_code add_embedding_node(embedding *e, uint32_t kind, uint32_t n_out,
                                  const tn__loop *loop, tn_entry *out) {
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = kind,
                              .n_in = e->n_in,
                              .n_aux = e->n_aux,
                              .n_out = n_out,
                              .of = TN_NONE,
                              .name = e->name,
                              .in = e->in,
                              .inner = e->inner,
                              .loop = loop};
  TN__TRY(set_embedding_inputs(e));
  TN__TRY(tn__node_add(e->graph, &spec, &node));
  e->inner = NULL;
  TN__TRY(tn__scopes_apply(e->graph, node, e->attributes, e->n_attributes));
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}

static tn_code end_embedding(embedding *e, uint32_t before, tn_code rc) {
  tn__graph_release(e->inner);
  tn__free(e->graph->env, e->places);
  tn__free(e->graph->env, e->in);
  if (rc != TN_OK) tn__graph_truncate(e->graph, before);
  return rc;
}

static tn_code check_inner_graph(const tn_graph *graph, const tn_graph *inner) {
  if (inner->caller != graph->caller)
    return tn__fail(TN_INVALID, "the two graphs belong to different runtimes");
  if (inner->n_heads == 0)
    return tn__fail(TN_INVALID,
                    "a graph used as an operator needs heads, which are its "
                    "outputs; name them with tn_graph_heads_set");
  return TN_OK;
}

tn_code tn__graph_embed(tn_graph *graph, const tn_embedding *what,
                        tn_entry *out) {
  const uint32_t before = tn__n_nodes(graph);
  embedding e = {.graph = graph,
                 .given = what->in,
                 .keys = what->keys,
                 .n_given = what->n_in,
                 .attributes = what->attributes,
                 .n_attributes = what->n_attributes};
  TN__TRY(check_inner_graph(graph, what->inner));
  TN__TRY(tn__graph_copy(what->inner, &e.inner));
  tn_code rc = init_embedding(&e, what->name, "graph");
  if (rc == TN_OK)
    rc = add_embedding_node(&e, TN__NODE_GRAPH, (uint32_t)what->inner->n_heads,
                            NULL, out);
  return end_embedding(&e, before, rc);
}

/* -------------------------------------------------------------------- loop */

static tn_code find_argument(const embedding *e, const char *name,
                             uint32_t *out) {
  *out = find_variable_position(e, name);
  if (*out < e->n_in) return TN_OK;
  return tn__fail(TN_NOT_FOUND,
                  "%s: the step has no argument `%s` that its heads depend on",
                  e->name, name);
}

static tn_code find_arguments(const embedding *e, const char *const *names,
                              uint32_t n, uint32_t *out, uint8_t *used) {
  for (uint32_t i = 0; i < n; ++i) {
    TN__TRY(find_argument(e, names[i], &out[i]));
    if (used[out[i]]++)
      return tn__fail(TN_INVALID,
                      "%s: `%s` is named twice among sequences and states",
                      e->name, names[i]);
  }
  return TN_OK;
}

/* Lists the entries of the step graph that a loop must keep, because the loop's
 * gradient must not compute their nodes a second time. The caller frees *out.
 */
static tn_code find_kept_entries(const tn_graph *step, tn_entry **out,
                                 uint32_t *n) {
  tn__order order;
  *n = 0;
  *out = NULL;
  TN__TRY(tn__order_make(step, step->heads, step->n_heads, &order));
  tn_entry *list = tn__alloc(step->env, (step->n_entries + 1u) * sizeof *list);
  for (uint32_t i = 0; list && i < order.n; ++i) {
    const tn__node *node = tn__node_at(step, order.ids[i]);
    for (uint32_t k = 0; !tn__node_is_repeatable(node) && k < node->n_out; ++k)
      list[(*n)++] = (tn_entry){node->id, k};
  }
  tn__free(step->env, order.ids);
  *out = list;
  return list ? TN_OK : tn__fail_memory(step->n_entries, "a loop");
}

static tn_code embed_loop(embedding *e, const tn__loop *loop, tn_entry *out) {
  const uint32_t n_heads = (uint32_t)e->inner->n_heads;
  tn__loop whole = *loop;
  tn_entry *kept = NULL;
  TN__TRY(find_kept_entries(e->inner, &kept, &whole.n_kept));
  whole.kept = kept;
  const uint32_t n_hidden = whole.n_states + whole.n_kept;
  const tn_code rc =
      add_embedding_node(e, TN__NODE_LOOP, n_heads + n_hidden, &whole, out);
  tn__free(e->graph->env, kept);
  return rc;
}

static tn_code add_loop(embedding *e, const tn_loop *what, uint32_t *places,
                        tn_entry *out) {
  const tn__loop loop = {.n_sequences = what->n_sequences,
                         .n_states = what->n_states,
                         .reverse = what->reverse != 0,
                         .sequences = places,
                         .states = places + what->n_sequences};
  uint8_t *used = tn__zalloc(e->graph->env, (size_t)e->n_in + 1);
  if (!used) return tn__fail_memory(e->n_in, "the inputs of a loop");
  tn_code rc =
      find_arguments(e, what->sequences, what->n_sequences, places, used);
  if (rc == TN_OK)
    rc = find_arguments(e, what->states, what->n_states,
                        places + what->n_sequences, used);
  tn__free(e->graph->env, used);
  TN__TRY(rc);
  return embed_loop(e, &loop, out);
}

static tn_code check_loop(const tn_loop *what) {
  if (what->n_sequences == 0)
    return tn__fail(TN_INVALID,
                    "a loop needs a sequence; its length is the "
                    "number of steps");
  if (what->step->n_heads < what->n_states)
    return tn__fail(TN_INVALID,
                    "the step of a loop with %u states needs at least as many "
                    "heads, its new states first; it has %zu",
                    what->n_states, what->step->n_heads);
  return TN_OK;
}

tn_code tn__graph_loop(tn_graph *graph, const tn_loop *what, tn_entry *out) {
  const uint32_t before = tn__n_nodes(graph);
  embedding e = {.graph = graph,
                 .given = what->in,
                 .keys = what->keys,
                 .n_given = what->n_in,
                 .attributes = what->attributes,
                 .n_attributes = what->n_attributes};
  TN__TRY(check_inner_graph(graph, what->step));
  TN__TRY(check_loop(what));
  const size_t n = (size_t)what->n_sequences + what->n_states;
  uint32_t *places = tn__alloc(graph->env, n * sizeof *places);
  if (!places) return tn__fail_memory(n * sizeof *places, "a loop");
  tn_code rc = tn__graph_copy(what->step, &e.inner);
  if (rc == TN_OK) rc = init_embedding(&e, what->name, "loop");
  if (rc == TN_OK) rc = add_loop(&e, what, places, out);
  tn__free(graph->env, places);
  return end_embedding(&e, before, rc);
}

/* ----------------------------------------------------------------- compose */

static tn_code replace_variable(const tn_graph *graph, const tn_graph *other,
                                const char *name, tn_entry entry,
                                tn_entry *map) {
  const tn__node *node = tn__map_get(&other->names, name);
  if (!node || node->kind != TN__NODE_VARIABLE)
    return tn__fail(TN_NOT_FOUND, "the graph has no variable `%s` to replace",
                    name);
  if (node->flags & TN__NODE_STATE)
    return tn__fail(TN_INVALID,
                    "variable `%s` is a state, which a call changes; "
                    "only a variable can replace it: give the two the "
                    "same name",
                    name);
  TN__TRY(tn__entry_check(graph, entry, name));
  map[node->first] = entry;
  return TN_OK;
}

/* For each variable of `from`, sets its item of the map to the variable of `to`
 * with the same name, if there is one. */
static void map_variables_by_name(const tn_graph *from, const tn_graph *to,
                                  tn_entry *map) {
  for (uint32_t i = 0; i < tn__n_nodes(from); ++i) {
    const tn__node *node = tn__node_at(from, i);
    const tn__node *same = tn__map_get(&to->names, node->name);
    if (node->kind == TN__NODE_VARIABLE && same &&
        same->kind == TN__NODE_VARIABLE && tn__entry_is_none(map[node->first]))
      map[node->first] = (tn_entry){same->id, 0};
  }
}

tn_code tn__graph_compose(tn_graph *graph, const tn_graph *other,
                          const char *const *names, const tn_entry *entries,
                          size_t n, tn_entry *heads) {
  tn_code rc = TN_OK;
  if (other->caller != graph->caller)
    return tn__fail(TN_INVALID, "the two graphs belong to different runtimes");
  tn_entry *map = tn__graph_create_map(other);
  if (!map)
    return tn__fail_memory(other->n_entries * sizeof *map, "two graphs");
  for (size_t i = 0; rc == TN_OK && i < n; ++i)
    rc = replace_variable(graph, other, names[i], entries[i], map);
  if (rc == TN_OK) {
    map_variables_by_name(other, graph, map);
    rc = tn__graph_paste(graph, other, NULL, NULL, map);
  }
  for (size_t i = 0; rc == TN_OK && i < other->n_heads; ++i)
    heads[i] = map[tn__entry_id(other, other->heads[i])];
  tn__free(graph->env, map);
  return rc;
}
