/* SPDX-License-Identifier: Apache-2.0
 * gradient_names.c: pass "gradient" with names: the caller names entries, and
 * the gradients get names.
 */
#include <stdio.h>
#include <string.h>

#include "gradient.h"

static const char suffix[] = TN__GRADIENT_SUFFIX;

/* The lists of one query for gradients: of entries, heads and weights, n_of +
 * n_heads each, and n_stop entries at which gradients stop. */
typedef struct gradient_lists {
  tn_graph *graph;
  tn_entry *of;
  tn_entry *stop;
  tn_entry *weights;
  tn_entry *out;
  size_t n_of;
} gradient_lists;

static void write_gradient_name(const tn_graph *graph, tn_entry entry, char *to,
                                size_t bytes) {
  char text[TN__ENTRY_TEXT];
  (void)snprintf(to, bytes, "%s%s", tn__entry_text(graph, entry, text), suffix);
}

/* Finds the variable "<head>@GRAD", the output gradient of a head;
 * TN_ENTRY_NONE if the graph has none. */
static tn_entry find_output_gradient(const tn_graph *graph, tn_entry head) {
  char name[TN__ENTRY_TEXT + sizeof suffix];
  write_gradient_name(graph, head, name, sizeof name);
  const tn__node *node = tn__map_get(&graph->names, name);
  if (!node || node->kind != TN__NODE_VARIABLE) return TN_ENTRY_NONE;
  return (tn_entry){node->id, 0};
}

static tn_code find_all(const tn_graph *graph, const char *const *names,
                        size_t n, tn_entry *out) {
  for (size_t i = 0; i < n; ++i)
    TN__TRY(tn__graph_find(graph, names[i], &out[i]));
  return TN_OK;
}

static tn_code make_lists(gradient_lists *a, const tn_gradient_names *what) {
  const tn_entry *variables = NULL;
  const tn__env *env = a->graph->env;
  uint32_t n_arguments = 0, n_states = 0;
  TN__TRY(tn__graph_variables(a->graph, &variables, &n_arguments, &n_states));
  a->n_of = what->of ? what->n_of : n_arguments;
  const size_t n = a->n_of + a->graph->n_heads + what->n_stop + 1;
  a->of = tn__alloc(env, n * sizeof *a->of);
  a->stop = tn__alloc(env, n * sizeof *a->stop);
  a->weights = tn__alloc(env, n * sizeof *a->weights);
  a->out = tn__alloc(env, n * sizeof *a->out);
  if (!a->of || !a->stop || !a->weights || !a->out)
    return tn__fail_memory(n * sizeof *a->of, "a question for gradients");
  for (size_t i = 0; i < a->graph->n_heads; ++i)
    a->weights[i] = find_output_gradient(a->graph, a->graph->heads[i]);
  TN__TRY(find_all(a->graph, what->stop, what->n_stop, a->stop));
  if (what->of) return find_all(a->graph, what->of, what->n_of, a->of);
  if (a->n_of > 0) memcpy(a->of, variables, a->n_of * sizeof *a->of);
  return TN_OK;
}

static tn_code name_gradient(tn_graph *graph, tn_entry of, tn_entry gradient) {
  char name[TN__ENTRY_TEXT + sizeof suffix];
  tn__node *node = NULL;
  if (tn__entry_is_none(gradient)) return TN_OK;
  write_gradient_name(graph, of, name, sizeof name);
  const tn__node_spec spec = {.kind = TN__NODE_COPY,
                              .flags = TN__NODE_GRADIENT,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .name = name,
                              .in = &gradient};
  return tn__node_add(graph, &spec, &node);
}

static tn_code add_gradients(gradient_lists *a, const tn_gradient_names *what) {
  TN__TRY(make_lists(a, what));
  const tn__gradient_spec spec = {.query = {.heads = a->graph->heads,
                                            .weights = a->weights,
                                            .of = a->of,
                                            .stop = a->stop,
                                            .n_heads = a->graph->n_heads,
                                            .n_of = a->n_of,
                                            .n_stop = what->n_stop},
                                  .optional = !what->of};
  TN__TRY(tn__graph_gradient(a->graph, &spec, a->out));
  for (size_t i = 0; i < a->n_of; ++i)
    TN__TRY(name_gradient(a->graph, a->of[i], a->out[i]));
  return TN_OK;
}

tn_code tn__graph_backward(tn_graph *graph, const tn_gradient_names *what) {
  gradient_lists a = {.graph = graph};
  const uint32_t before = tn__n_nodes(graph);
  const tn_code rc = add_gradients(&a, what);
  tn__free(graph->env, a.of);
  tn__free(graph->env, a.stop);
  tn__free(graph->env, a.weights);
  tn__free(graph->env, a.out);
  if (rc != TN_OK) tn__graph_truncate(graph, before);
  return rc;
}
