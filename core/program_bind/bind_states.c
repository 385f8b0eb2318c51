/* SPDX-License-Identifier: Apache-2.0
 * bind_states.c: initial values of states that a program creates, as their
 * operators declare (`init` in a manifest). The call may be in the graph or
 * inside of a loop.
 */
#include "stations.h"

/* Sets out[node] to the initial value that an operator declares for the
 * variable; NULL: zeros, or the node is no state. */
static tn_code find_initials(const tn_graph *graph, const char **out);

/* Finds the initial values of a loop's states. They are the states of its step
 * graph, in the same order. */
static tn_code find_loop_initials(const tn_graph *graph, const tn__node *node,
                                  const char **out) {
  const tn_entry *inside = NULL;
  uint32_t n_in = 0, n_aux = 0;
  TN__TRY(tn__graph_variables(node->inner, &inside, &n_in, &n_aux));
  const size_t bytes = (tn__n_nodes(node->inner) + 1) * sizeof *out;
  const char **inner = tn__zalloc(graph->env, bytes);
  if (!inner) return tn__fail_memory(bytes, "a program");
  const tn_code rc = find_initials(node->inner, inner);
  for (uint32_t i = 0; rc == TN_OK && i < node->n_aux && i < n_aux; ++i)
    out[node->in[node->n_in + i].node] = inner[inside[n_in + i].node];
  tn__free(graph->env, inner);
  return rc;
}

static tn_code find_initials(const tn_graph *graph, const char **out) {
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    if (node->n_aux > 0 && node->inner)
      TN__TRY(find_loop_initials(graph, node, out));
    for (uint32_t i = node->n_in; i < node->n_in + node->n_aux; ++i) {
      const tn_arg *arg = tn__node_input(node, i);
      if (arg) out[node->in[i].node] = arg->initial;
    }
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ filling */

static tn_code fill_initial_value(const tn_program *p, tn_array *to,
                                  const char *text) {
  char *end = NULL;
  double value = 0;
  TN__TRY(tn__read_double(text, &end, &value));
  return value == 0 ? TN_OK : tn__array_fill(p, to, value);
}

tn_code tn__bind_init_states(const tn__user_options *options,
                             const tn_program *p) {
  if (p->arguments.n_states == 0) return TN_OK;
  const size_t bytes = (tn__n_nodes(p->graph) + 1) * sizeof(const char *);
  const char **begin = tn__zalloc(p->env, bytes);
  if (!begin) return tn__fail_memory(bytes, "a program");
  tn_code rc = find_initials(p->graph, begin);
  const uint32_t n = p->arguments.n + p->arguments.n_states;
  for (uint32_t i = p->arguments.n; rc == TN_OK && i < n; ++i) {
    const tn_entry state = p->arguments.v[i];
    const tn_argument *given = options->arguments[i];
    if ((given && given->array) || !begin[state.node]) continue;
    rc = fill_initial_value(p, p->values[tn__entry_id(p->graph, state)].array,
                            begin[state.node]);
  }
  tn__free(p->env, begin);
  return rc;
}
