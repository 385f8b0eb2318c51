/* SPDX-License-Identifier: Apache-2.0
 * graph_query.c: finds entries by name, and lists entries.
 */
#include <string.h>

#include "graph.h"

/* --------------------------------------------------------------- by name */

/* Tests whether output `i` of the node, a visible one, has this name. */
static bool has_output_name(const tn_graph *graph, const tn__node *node,
                            uint32_t i, const char *name) {
  char text[TN__ENTRY_TEXT];
  return strcmp(tn__entry_text(graph, (tn_entry){node->id, i}, text), name) ==
         0;
}

/* Finds an entry by name "<node>_<output>". Tries each underscore of `name` as
 * the end of the node's name. */
static bool find_output(const tn_graph *graph, const char *name,
                        tn_entry *out) {
  char stem[TN__ENTRY_TEXT];
  for (const char *at = strchr(name, '_'); at; at = strchr(at + 1, '_')) {
    const size_t n = (size_t)(at - name);
    if (n >= sizeof stem) return false;
    memcpy(stem, name, n);
    stem[n] = '\0';
    const tn__node *node = tn__map_get(&graph->names, stem);
    for (uint32_t i = 0; node && i < node->n_out; ++i) {
      *out = (tn_entry){node->id, i};
      if (has_output_name(graph, node, i, name)) return true;
    }
  }
  return false;
}

/* Largest number of names that are compared to find the nearest one: of
 * variables, and of first outputs of nodes. */
enum { CANDIDATES = 1024 };

typedef struct candidates {
  const char *names[CANDIDATES];
  char texts[CANDIDATES][TN__ENTRY_TEXT];
} candidates;

static tn_code fail_not_found(const tn_graph *graph, const char *name) {
  candidates *all = tn__alloc(graph->env, sizeof *all);
  uint32_t n = 0;
  for (; all && n < tn__n_nodes(graph) && n < CANDIDATES; ++n)
    all->names[n] = tn__entry_text(graph, (tn_entry){n, 0}, all->texts[n]);
  const char *nearest = all ? tn__find_nearest_word(name, all->names, n) : NULL;
  tn__fail(TN_NOT_FOUND,
           "the graph has no variable `%s` and no node with such an output",
           name);
  if (nearest) tn__fail_more(TN_NOT_FOUND, "; did you mean `%s`?", nearest);
  tn__free(graph->env, all);
  return TN_NOT_FOUND;
}

tn_code tn__graph_find(const tn_graph *graph, const char *name, tn_entry *out) {
  const tn__node *node = tn__map_get(&graph->names, name);
  *out = node ? (tn_entry){node->id, 0} : TN_ENTRY_NONE;
  if (node &&
      (node->kind == TN__NODE_VARIABLE || tn__node_is_variable_gradient(node)))
    return TN_OK;
  if (find_output(graph, name, out)) return TN_OK;
  *out = TN_ENTRY_NONE;
  return fail_not_found(graph, name);
}

/* ------------------------------------------------------------------ lists */

static tn_code make_lists(tn_graph *graph) {
  tn__order order;
  TN__TRY(tn__order_make(graph, graph->heads, graph->n_heads, &order));
  tn_entry *list =
      tn__arena_alloc(&graph->arena, ((size_t)order.n + 1) * sizeof *list);
  if (!list) {
    graph->arena.failed = false;
    tn__free(graph->env, order.ids);
    return tn__fail_memory(order.n * sizeof *list, "the lists of a graph");
  }
  graph->arguments = list;
  graph->n_arguments = 0;
  for (uint32_t state = 0; state < 2; ++state) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < order.n; ++i) {
      const tn__node *node = tn__node_at(graph, order.ids[i]);
      if (node->kind != TN__NODE_VARIABLE) continue;
      if (((node->flags & TN__NODE_STATE) != 0) != (state != 0)) continue;
      *list++ = (tn_entry){node->id, 0};
      ++n;
    }
    if (state)
      graph->n_states = n;
    else
      graph->n_arguments = n;
  }
  graph->facts |= TN__FACT_LISTS;
  tn__free(graph->env, order.ids);
  return TN_OK;
}

tn_code tn__graph_variables(tn_graph *graph, const tn_entry **out,
                            uint32_t *n_arguments, uint32_t *n_states) {
  if (!(graph->facts & TN__FACT_LISTS)) TN__TRY(make_lists(graph));
  *out = graph->arguments;
  *n_arguments = graph->n_arguments;
  *n_states = graph->n_states;
  return TN_OK;
}

/* Entry number `index` among the visible ones, in order of nodes. */
static bool find_visible_entry(const tn_graph *graph, size_t index,
                               tn_entry *out) {
  for (uint32_t i = 0; i < tn__n_nodes(graph); ++i) {
    const uint32_t n = tn__node_count_visible(tn__node_at(graph, i));
    if (index < n) {
      *out = (tn_entry){i, (uint32_t)index};
      return true;
    }
    index -= n;
  }
  return false;
}

static tn_code find_list_entry(tn_graph *graph, uint32_t list, size_t index,
                               tn_entry *out) {
  const tn_entry *variables = NULL;
  uint32_t n_arguments = 0, n_states = 0;
  TN__TRY(tn__graph_variables(graph, &variables, &n_arguments, &n_states));
  bool found = false;
  switch (list) {
    case TN_GRAPH_ARGUMENTS:
      if ((found = index < n_arguments)) *out = variables[index];
      break;
    case TN_GRAPH_AUXILIARIES:
      if ((found = index < n_states)) *out = variables[n_arguments + index];
      break;
    case TN_GRAPH_HEADS:
      if ((found = index < graph->n_heads)) *out = graph->heads[index];
      break;
    case TN_GRAPH_NODES:
      found = index < graph->nodes.n;
      *out = (tn_entry){(uint32_t)index, 0};
      break;
    case TN_GRAPH_INTERNALS:
      found = find_visible_entry(graph, index, out);
      break;
    default:
      return tn__fail(TN_INVALID, "there is no list %u", list);
  }
  return found ? TN_OK
               : tn__fail(TN_NOT_FOUND, "the list ends before %zu", index);
}

tn_code tn__graph_name(tn_graph *graph, uint32_t list, size_t index,
                       const char **name, tn_entry *entry) {
  char text[TN__ENTRY_TEXT];
  tn_entry found = TN_ENTRY_NONE;
  *name = NULL;
  *entry = TN_ENTRY_NONE;
  TN__TRY(find_list_entry(graph, list, index, &found));
  const tn__node *node = tn__node_at(graph, found.node);
  if (list == TN_GRAPH_NODES || node->kind == TN__NODE_VARIABLE) {
    *name = node->name;
  } else {
    (void)tn__entry_text(graph, found, text);
    *name = tn__arena_text(&graph->arena, text, strlen(text));
  }
  if (!*name) {
    graph->arena.failed = false;
    return tn__fail_memory(sizeof text, "the name of an entry");
  }
  *entry = found;
  return TN_OK;
}
