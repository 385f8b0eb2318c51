/* SPDX-License-Identifier: Apache-2.0
 * pass_inner.c: runs a pass on the graphs of nodes (TN_PASS_INNER). The pass
 * rewrites a copy of the node's graph, with the facts of the node. Then the
 * copy replaces the graph, and the inputs of the node are matched to the
 * variables of the copy.
 */
#include <string.h>

#include "passes.h"

/* A node with an inner graph that a pass rewrites. */
typedef struct inner_rewrite {
  tn_graph *graph; /* the graph of the node */
  tn__node *node;
  tn_graph *work;      /* the copy */
  const tn_entry *was; /* variables of the node's graph before the pass */
  const tn_entry *now; /* variables of the rewritten copy */
  uint32_t n_now;      /* number of arguments in `now`; the states follow */
  uint32_t n_now_states;
  const tn__node **kept; /* for each item of loop->kept: the node in the copy
                            that computes it */
} inner_rewrite;

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "the graph of a node");
}

static const char *get_old_name(const inner_rewrite *x, uint32_t i) {
  return tn__node_at(x->node->inner, x->was[i].node)->name;
}

/* -------------------------------------------------------------------- begin */

static bool is_sequence(const tn__node *node, uint32_t i) {
  for (uint32_t k = 0; node->loop && k < node->loop->n_sequences; ++k)
    if (node->loop->sequences[k] == i) return true;
  return false;
}

/* The signature of an input as the inner graph sees it; for a sequence of a
 * loop, that of one element. */
static tn_sig get_inner_sig(const inner_rewrite *x, uint32_t i) {
  tn_sig sig = *tn__entry_sig(x->graph, x->node->in[i]);
  if (!is_sequence(x->node, i) || sig.ndim < 1) return sig;
  --sig.ndim;
  memmove(sig.shape, sig.shape + 1, (size_t)sig.ndim * sizeof *sig.shape);
  return sig;
}

static tn_code set_inner_facts(const inner_rewrite *x) {
  const uint32_t n = x->node->n_in + x->node->n_aux;
  const size_t bytes = (n + 1u) * sizeof(tn_known);
  if (!(x->graph->facts & TN__FACT_SHAPES)) return TN_OK;
  tn_known *known = tn__alloc(x->graph->env, bytes);
  if (!known) return fail_memory(bytes);
  for (uint32_t i = 0; i < n; ++i)
    known[i] = (tn_known){get_old_name(x, i), get_inner_sig(x, i)};
  const tn_code rc = tn__graph_infer(x->work, known, n);
  tn__free(x->graph->env, known);
  return rc == TN_INCOMPLETE ? TN_OK : rc;
}

/* Notes the nodes of the copy that compute kept entries. A pass may change
 * their numbers, but not their addresses. */
static tn_code note_kept_nodes(inner_rewrite *x) {
  const tn__loop *loop = x->node->loop;
  const uint32_t n = loop ? loop->n_kept : 0;
  x->kept = tn__alloc(x->graph->env, (n + 1u) * sizeof *x->kept);
  if (!x->kept) return fail_memory(n * sizeof *x->kept);
  for (uint32_t k = 0; k < n; ++k)
    x->kept[k] = tn__node_at(x->work, loop->kept[k].node);
  return TN_OK;
}

/* ---------------------------------------------------------------------- end */

/* Position of a variable of the node's graph among those of the copy; TN_NONE
 * if no head needs it any more. */
static uint32_t find_new_position(const inner_rewrite *x, uint32_t i) {
  for (uint32_t k = 0; k < x->n_now + x->n_now_states; ++k)
    if (strcmp(tn__node_at(x->work, x->now[k].node)->name,
               get_old_name(x, i)) == 0)
      return k;
  return TN_NONE;
}

static tn_code list_new_variables(inner_rewrite *x) {
  return tn__graph_variables(x->work, &x->now, &x->n_now, &x->n_now_states);
}

/* Adds a control dependency of the first head on a variable that no head needs
 * any more. The node keeps all its inputs, and a loop needs its sequences and
 * states. */
static tn_code keep_variable_needed(const inner_rewrite *x, uint32_t i) {
  tn_graph *work = x->work;
  const tn__node *variable = tn__map_get(&work->names, get_old_name(x, i));
  tn__node *copy = NULL;
  const tn__node_spec spec = {.kind = TN__NODE_COPY,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = "pin",
                              .in = &work->heads[0],
                              .after = &variable->id,
                              .n_after = 1};
  TN__TRY(tn__node_add(work, &spec, &copy));
  work->heads[0] = (tn_entry){copy->id, 0};
  work->facts &= ~(uint32_t)TN__FACT_LISTS;
  return TN_OK;
}

static tn_code keep_variables_needed(inner_rewrite *x) {
  const uint32_t n = x->node->n_in + x->node->n_aux;
  TN__TRY(list_new_variables(x));
  for (uint32_t i = 0; i < n; ++i)
    if (find_new_position(x, i) == TN_NONE) TN__TRY(keep_variable_needed(x, i));
  if (x->work->facts & TN__FACT_SHAPES) {
    const tn_code rc = tn__graph_infer_more(x->work);
    if (rc != TN_OK && rc != TN_INCOMPLETE) return rc;
  }
  return list_new_variables(x);
}

/* Rejects a call that the pass has added and that changes a variable which no
 * node changed before. */
static tn_code check_states(const inner_rewrite *x) {
  for (uint32_t i = 0; i < x->node->n_in; ++i)
    if (find_new_position(x, i) >= x->n_now)
      return tn__fail(TN_INVALID,
                      "`%s` would become a state, but the node's input "
                      "for it must not change",
                      get_old_name(x, i));
  return TN_OK;
}

/* Tests whether the heads of the rewritten copy still need a node. */
static bool is_still_needed(const inner_rewrite *x, const tn__order *order,
                            const tn__node *node) {
  for (uint32_t i = 0; i < order->n; ++i)
    if (tn__node_at(x->work, order->ids[i]) == node) return true;
  return false;
}

/* Checks that the kept entries of a loop are still computed: they are among its
 * outputs. */
static tn_code check_kept(const inner_rewrite *x) {
  const tn__loop *loop = x->node->loop;
  tn__order order;
  tn_code rc = TN_OK;
  if (!loop || loop->n_kept == 0) return TN_OK;
  TN__TRY(tn__order_make(x->work, x->work->heads, x->work->n_heads, &order));
  for (uint32_t k = 0; rc == TN_OK && k < loop->n_kept; ++k)
    if (!is_still_needed(x, &order, x->kept[k]))
      rc = tn__fail(TN_INVALID,
                    "node `%s` would be removed, but the loop keeps "
                    "its random numbers or states",
                    tn__node_at(x->node->inner, loop->kept[k].node)->name);
  tn__free(x->graph->env, order.ids);
  return rc;
}

/* Reorders the lists of a loop: to the new order of the inner graph's variables
 * and nodes. place[i] is the new position of input i. */
static tn_code reorder_loop_lists(const inner_rewrite *x,
                                  const uint32_t *place) {
  const tn__loop *old = x->node->loop;
  tn__arena *arena = &x->graph->arena;
  const uint32_t n_both = old->n_sequences + old->n_states;
  tn__loop *loop = tn__arena_alloc(arena, sizeof *loop);
  uint32_t *both = tn__arena_alloc(arena, (n_both + 1u) * sizeof *both);
  tn_entry *kept = tn__arena_alloc(arena, (old->n_kept + 1u) * sizeof *kept);
  if (!loop || !both || !kept) return fail_memory(n_both * sizeof *both);
  *loop = *old;
  for (uint32_t i = 0; i < old->n_sequences; ++i)
    both[i] = place[old->sequences[i]];
  for (uint32_t i = 0; i < old->n_states; ++i)
    both[old->n_sequences + i] = place[old->states[i]];
  for (uint32_t k = 0; k < old->n_kept; ++k)
    kept[k] = (tn_entry){x->kept[k]->id, old->kept[k].index};
  loop->sequences = both;
  loop->states = both + old->n_sequences;
  loop->kept = kept;
  x->node->loop = loop;
  return TN_OK;
}

/* Reorders the inputs of a node to the new order of the inner graph's
 * variables. place[i] is the new position of input i. */
static tn_code reorder_node_lists(const inner_rewrite *x,
                                  const uint32_t *place) {
  tn__node *node = x->node;
  const uint32_t n = node->n_in + node->n_aux;
  tn_entry *in = tn__arena_alloc(&x->graph->arena, (n + 1u) * sizeof *in);
  if (!in) return fail_memory(n * sizeof *in);
  for (uint32_t i = 0; i < n; ++i) in[place[i]] = node->in[i];
  if (node->loop) TN__TRY(reorder_loop_lists(x, place));
  memcpy(node->in, in, n * sizeof *in);
  return TN_OK;
}

static tn_code replace_inner_graph(inner_rewrite *x) {
  const uint32_t n = x->node->n_in + x->node->n_aux;
  TN__TRY(keep_variables_needed(x));
  TN__TRY(check_states(x));
  TN__TRY(check_kept(x));
  uint32_t *place = tn__alloc(x->graph->env, (n + 1u) * sizeof *place);
  if (!place) return fail_memory(n * sizeof *place);
  for (uint32_t i = 0; i < n; ++i) place[i] = find_new_position(x, i);
  const tn_code rc = reorder_node_lists(x, place);
  tn__free(x->graph->env, place);
  if (rc != TN_OK) return rc;
  tn_graph *old = x->node->inner;
  x->node->inner = x->work;
  x->work = old;
  return TN_OK;
}

/* ---------------------------------------------------------------------- all */

static tn_code run_on_node(tn_graph *graph, tn__node *node,
                           const tn__pass *pass) {
  uint32_t n = 0, n_states = 0;
  inner_rewrite x = {.graph = graph, .node = node};
  tn_code rc = tn__graph_variables(node->inner, &x.was, &n, &n_states);
  if (rc == TN_OK) rc = tn__graph_copy(node->inner, &x.work);
  if (rc == TN_OK) rc = set_inner_facts(&x);
  if (rc == TN_OK) rc = note_kept_nodes(&x);
  if (rc == TN_OK) rc = tn__pass_run_inner(x.work, pass);
  if (rc == TN_OK) rc = tn__rewrite_run(x.work, pass);
  if (rc == TN_OK) rc = replace_inner_graph(&x);
  tn__graph_release(x.work);
  tn__free(graph->env, x.kept);
  return rc == TN_OK ? TN_OK : tn__node_fail(node, rc);
}

tn_code tn__pass_run_inner(tn_graph *graph, const tn__pass *pass) {
  if (!(pass->desc->flags & TN_PASS_INNER)) return TN_OK;
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    tn__node *node = tn__node_at(graph, id);
    if (node->inner) TN__TRY(run_on_node(graph, node, pass));
  }
  return TN_OK;
}
