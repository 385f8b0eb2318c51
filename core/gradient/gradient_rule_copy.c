/* SPDX-License-Identifier: Apache-2.0
 * gradient_rule_copy.c: the graph in which the gradient of an inner graph is
 * made. It contains a copy of the inner graph; the gradient computes the nodes
 * that it needs a second time. Nodes that must not be computed twice are
 * refused in graphs, and in loops variables replace them.
 */
#include <stdio.h>
#include <string.h>

#include "gradient_rule_inner.h"

/* ------------------------------------------------------------------- refused
 */

static tn_code fail_repeated(const tn__node *one, const char *advice) {
  return tn__fail(TN_UNSUPPORTED,
                  "its gradient computes it a second time, but its node "
                  "`%s`%s%s%s changes a state or draws random numbers; %s",
                  one->name, one->op ? " (" : "", one->op ? one->op->name : "",
                  one->op ? ")" : "", advice);
}

/* Rejects an inner graph with nodes that must not be computed twice, because
 * its gradient would compute them again. */
static tn_code check_repeats(const tn__node *node) {
  const tn_graph *graph = node->inner;
  for (uint32_t i = 0; i < tn__n_nodes(graph); ++i)
    if (!tn__node_is_repeatable(tn__node_at(graph, i)))
      return fail_repeated(tn__node_at(graph, i),
                           "flatten the graph, or use tn_graph_compose instead "
                           "of tn_graph_embed");
  return TN_OK;
}

/* Checks the step graph of a loop. Fails with TN_UNSUPPORTED if the gradient of
 * a step would compute a node a second time that must not be computed twice and
 * that the loop has not kept, or a node that uses a state, which has changed
 * since. */
tn_code tn__inner_check_step(const tn__inner_gradient *x) {
  const tn_graph *step = x->graph;
  tn__order order;
  tn_code rc = TN_OK;
  TN__TRY(tn__order_make(step, step->heads, step->n_heads, &order));
  for (uint32_t i = 0; rc == TN_OK && i < order.n; ++i) {
    const tn__node *node = tn__node_at(step, order.ids[i]);
    if (node->id >= x->n_copied) continue;
    if (!tn__node_is_repeatable(node))
      rc = fail_repeated(node,
                         "this was not known when the loop was made: load "
                         "the plugins of its operators before");
    else if (node->flags & TN__NODE_STATE)
      rc = tn__fail(TN_UNSUPPORTED,
                    "its gradient computes it a second time, but one "
                    "of its nodes reads the state `%s`, which another "
                    "has changed; make it a state of the loop, which "
                    "each step passes to the next",
                    node->name);
  }
  tn__free(step->env, order.ids);
  return rc;
}

/* -------------------------------------------------------------------- lists */

static tn_code alloc_lists(tn__inner_gradient *x) {
  const tn__env *env = x->rule->graph->env;
  const tn__node *node = x->node;
  const size_t n = (size_t)node->n_in + node->n_out + x->n_bodies + 1;
  const size_t bytes = 2 * n * sizeof(tn_entry);
  x->in = tn__alloc(env, bytes);
  x->heads = tn__alloc(env, bytes);
  x->weights = tn__alloc(env, bytes);
  x->of = tn__alloc(env, bytes);
  x->gradients = tn__alloc(env, bytes);
  x->which = tn__alloc(env, bytes);
  x->inputs = tn__alloc(env, bytes);
  x->bodies = tn__alloc(env, bytes);
  x->kept = tn__alloc(env, bytes);
  x->replacements = tn__alloc(env, bytes);
  if (x->in && x->heads && x->weights && x->of && x->gradients && x->which &&
      x->inputs && x->bodies && x->kept && x->replacements)
    return TN_OK;
  return tn__fail_memory(bytes, "the gradient of a graph in a graph");
}

/* Adds variables that replace the kept entries, with names that the node's
 * graph does not have. They are the first nodes, because nodes read only
 * earlier nodes. */
static tn_code add_replacements(tn__inner_gradient *x) {
  const tn_graph *from = x->node->inner;
  char name[32];
  uint32_t number = 0;
  for (uint32_t k = 0; k < x->n_kept; ++k) {
    tn__node *node = NULL;
    do (void)snprintf(name, sizeof name, "kept%u", number++);
    while (tn__map_get(&from->names, name));
    const tn__node_spec spec = {
        .kind = TN__NODE_VARIABLE, .n_out = 1, .of = TN_NONE, .name = name};
    TN__TRY(tn__node_add(x->graph, &spec, &node));
    x->replacements[k] = (tn_entry){node->id, 0};
  }
  return TN_OK;
}

static void map_entries(const tn_graph *from, const tn_entry *map,
                        const tn_entry *list, uint32_t n, tn_entry *to) {
  for (uint32_t i = 0; i < n; ++i) to[i] = map[tn__entry_id(from, list[i])];
}

/* Copies the node's graph, with its known signatures. */
static tn_code copy_inner_graph(tn__inner_gradient *x, const tn_entry *inputs,
                                uint32_t n_inputs) {
  const tn_graph *from = x->node->inner;
  const tn__loop *loop = x->node->loop;
  tn_entry *map = tn__graph_create_map(from);
  if (!map) return tn__fail_memory(from->n_entries, "a graph in a graph");
  tn_code rc = add_replacements(x);
  if (rc == TN_OK) rc = tn__graph_paste(x->graph, from, NULL, NULL, map);
  if (rc == TN_OK) {
    map_entries(from, map, inputs, n_inputs, x->inputs);
    map_entries(from, map, from->heads, x->n_bodies, x->bodies);
    if (loop) map_entries(from, map, loop->kept, x->n_kept, x->kept);
    x->n_copied = tn__n_nodes(x->graph);
  }
  tn__free(from->env, map);
  return rc;
}

tn_code tn__inner_begin(tn__inner_gradient *x, const tn__gradient_rule *rule) {
  const tn__node *node = rule->node;
  const tn_entry *inputs = NULL;
  uint32_t n_arguments = 0, n_states = 0;
  *x = (tn__inner_gradient){.rule = rule, .node = node};
  if (!node->loop) TN__TRY(check_repeats(node));
  x->n_bodies = (uint32_t)node->inner->n_heads;
  x->n_kept = node->loop ? node->loop->n_kept : 0;
  TN__TRY(tn__graph_variables(node->inner, &inputs, &n_arguments, &n_states));
  TN__TRY(alloc_lists(x));
  TN__TRY(tn__graph_create(node->inner->caller, &x->graph));
  return copy_inner_graph(x, inputs, n_arguments);
}

tn_code tn__inner_end(tn__inner_gradient *x, tn_code rc) {
  const tn__env *env = x->rule->graph->env;
  tn__graph_release(x->graph);
  tn__vec_deinit(env, &x->keys);
  tn__vec_deinit(env, &x->sequences);
  tn__vec_deinit(env, &x->states);
  tn__free(env, x->in);
  tn__free(env, x->heads);
  tn__free(env, x->weights);
  tn__free(env, x->of);
  tn__free(env, x->gradients);
  tn__free(env, x->which);
  tn__free(env, x->inputs);
  tn__free(env, x->bodies);
  tn__free(env, x->kept);
  tn__free(env, x->replacements);
  tn__free(env, x->needed);
  return rc;
}
