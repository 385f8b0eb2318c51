/* SPDX-License-Identifier: Apache-2.0
 * graph_infer.c: pass "infer". Shapes and element types spread from node to
 * node, in both directions, until no node finds a new fact.
 */
#include "facts.h"

#include <string.h>

/* ---------------------------------------------------------------- operands */

static uint32_t count_operands(const tn_graph *graph, const tn__node *node) {
  const uint32_t own = node->n_in + node->n_aux + node->n_out;
  if (node->kind != TN__NODE_BACKWARD) return own;
  const tn__node *of = tn__node_at(graph, node->of);
  return own + of->n_in + of->n_out;
}

/* Entry number `k` of the entries about which a node has a rule: its inputs,
 * then its outputs; for a BACKWARD node also the inputs and outputs of its
 * forward node. */
static tn_entry get_operand(const tn_graph *graph, const tn__node *node,
                            uint32_t k) {
  if (k < node->n_in + node->n_aux) return node->in[k];
  k -= node->n_in + node->n_aux;
  if (k < node->n_out) return (tn_entry){node->id, k};
  k -= node->n_out;
  const tn__node *of = tn__node_at(graph, node->of);
  return k < of->n_in ? of->in[k] : (tn_entry){of->id, k - of->n_in};
}

static void count_users(tn__facts *f) {
  const tn_graph *graph = f->graph;
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    for (uint32_t k = count_operands(graph, node); k > 0; --k) {
      const tn_entry entry = get_operand(graph, node, k - 1);
      if (!tn__entry_is_none(entry)) ++f->first[tn__entry_id(graph, entry) + 1];
    }
  }
  for (uint32_t e = 0; e < graph->n_entries; ++e)
    f->first[e + 1] += f->first[e];
}

/* Writes the users of all entries into `users`. It moves first[e] to the end of
 * the users of e, where the users of e + 1 begin; a shift of `first` by one
 * restores it. */
static void list_users(tn__facts *f) {
  const tn_graph *graph = f->graph;
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    for (uint32_t k = count_operands(graph, node); k > 0; --k) {
      const tn_entry entry = get_operand(graph, node, k - 1);
      if (!tn__entry_is_none(entry))
        f->users[f->first[tn__entry_id(graph, entry)]++] = id;
    }
  }
  memmove(f->first + 1, f->first, graph->n_entries * sizeof *f->first);
  f->first[0] = 0;
}

/* ------------------------------------------------------------------- queue */

static void push_queue(tn__facts *f, uint32_t node) {
  const uint32_t room = tn__n_nodes(f->graph);
  if (f->queued[node]) return;
  f->queued[node] = 1;
  const uint32_t at = f->head + f->n_queued++;
  f->queue[at < room ? at : at - room] = node;
}

static uint32_t pop_queue(tn__facts *f) {
  const uint32_t node = f->queue[f->head];
  if (++f->head == tn__n_nodes(f->graph)) f->head = 0;
  --f->n_queued;
  f->queued[node] = 0;
  return node;
}

/* -------------------------------------------------------------------- open */

/* Makes space for the signatures of `n` entries; the new ones are unknown. */
static tn_code grow_sigs(tn_graph *graph, uint32_t n) {
  const size_t bytes = n * sizeof *graph->sigs;
  tn_sig *sigs = tn__alloc(graph->env, bytes);
  uint32_t *from = tn__alloc(graph->env, 2 * (size_t)n * sizeof *from);
  if (!sigs || !from) {
    tn__free(graph->env, sigs);
    tn__free(graph->env, from);
    return tn__fail_memory(bytes, "the shapes of a graph");
  }
  if (graph->n_sigs > 0) {
    memcpy(sigs, graph->sigs, graph->n_sigs * sizeof *sigs);
    memcpy(from, graph->from, 2 * (size_t)graph->n_sigs * sizeof *from);
  }
  const tn_sig unknown = tn__sig_unknown();
  for (uint32_t e = graph->n_sigs; e < n; ++e) sigs[e] = unknown;
  for (uint32_t e = 2 * graph->n_sigs; e < 2 * n; ++e) from[e] = TN_NONE;
  tn__free(graph->env, graph->sigs);
  tn__free(graph->env, graph->from);
  graph->sigs = sigs;
  graph->from = from;
  graph->n_sigs = n;
  return TN_OK;
}

static tn_code alloc_lists(tn__facts *f) {
  const tn_graph *graph = f->graph;
  const size_t n = tn__n_nodes(graph);
  size_t most = 1, all = 1;
  for (uint32_t id = 0; id < n; ++id) {
    const size_t some = count_operands(graph, tn__node_at(graph, id));
    if (some > most) most = some;
    all += some;
  }
  const size_t first = graph->n_entries + (size_t)1;
  f->first = tn__zalloc(graph->env, first * sizeof *f->first);
  f->users = tn__alloc(graph->env, all * sizeof *f->users);
  f->queue = tn__alloc(graph->env, n * sizeof *f->queue);
  f->queued = tn__zalloc(graph->env, n);
  f->io = tn__alloc(graph->env, most * sizeof *f->io);
  f->absent = tn__alloc(graph->env, most * sizeof *f->absent);
  if (f->first && f->users && f->queue && f->queued && f->io && f->absent)
    return TN_OK;
  return tn__fail_memory(all * sizeof *f->users, "an inference");
}

static tn_code open_facts(tn__facts *f, tn_graph *graph) {
  const uint32_t known = graph->n_sigs;
  *f = (tn__facts){.graph = graph, .current = TN_NONE, .usual = TN_NONE};
  if (known < graph->n_entries) TN__TRY(grow_sigs(graph, graph->n_entries));
  TN__TRY(alloc_lists(f));
  count_users(f);
  list_users(f);
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id)
    if (tn__node_at(graph, id)->first >= known) push_queue(f, id);
  return TN_OK;
}

void tn__facts_close(tn__facts *f) {
  const tn__env *env = f->graph->env;
  tn__free(env, f->first);
  tn__free(env, f->users);
  tn__free(env, f->queue);
  tn__free(env, f->queued);
  tn__free(env, f->io);
  tn__free(env, f->absent);
}

/* -------------------------------------------------------------------- facts */

static bool add_shape_fact(tn_sig *to, const tn_sig *sig) {
  bool more = false;
  if (sig->ndim < 0) return false;
  if (to->ndim < 0) {
    to->ndim = sig->ndim;
    for (int32_t i = 0; i < sig->ndim; ++i) to->shape[i] = -1;
    more = true;
  }
  for (int32_t i = 0; i < sig->ndim; ++i) {
    if (to->shape[i] >= 0 || sig->shape[i] < 0) continue;
    to->shape[i] = sig->shape[i];
    more = true;
  }
  return more;
}

static bool add_dtype_fact(tn_sig *to, const tn_sig *sig) {
  if (to->dtype != TN_DTYPE_UNKNOWN || sig->dtype == TN_DTYPE_UNKNOWN)
    return false;
  to->dtype = sig->dtype;
  return true;
}

tn_code tn__facts_add(tn__facts *f, tn_entry entry, const tn_sig *sig,
                      uint32_t from) {
  tn_graph *graph = f->graph;
  const uint32_t id = tn__entry_id(graph, entry);
  tn_sig *to = &graph->sigs[id];
  tn_code code = TN_OK;
  if (tn__sig_has_conflict(to, sig, &code))
    return tn__facts_fail_conflict(graph, entry, TN_ENTRY_NONE, sig);
  const bool shape = add_shape_fact(to, sig), dtype = add_dtype_fact(to, sig);
  if (shape) graph->from[2 * (size_t)id] = from;
  if (dtype) graph->from[2 * (size_t)id + 1] = from;
  if (!shape && !dtype) return TN_OK;
  for (uint32_t k = f->first[id]; k < f->first[id + 1]; ++k)
    if (f->users[k] != f->current) push_queue(f, f->users[k]);
  return TN_OK;
}

/* Adds the known facts of entry `from`, with their sources, to entry `to`. */
static tn_code copy_facts(tn__facts *f, tn_entry to, tn_entry from) {
  const tn_graph *graph = f->graph;
  const uint32_t id = tn__entry_id(graph, from);
  const tn_sig sig = graph->sigs[id];
  const tn_sig type = {.dtype = sig.dtype, .ndim = -1};
  tn_sig shape = sig;
  shape.dtype = TN_DTYPE_UNKNOWN;
  TN__TRY(tn__facts_add(f, to, &shape, graph->from[2 * (size_t)id]));
  return tn__facts_add(f, to, &type, graph->from[2 * (size_t)id + 1]);
}

tn_code tn__facts_unify(tn__facts *f, tn_entry a, tn_entry b) {
  const tn_graph *graph = f->graph;
  tn_code code = TN_OK;
  if (tn__entry_is_none(a) || tn__entry_is_none(b) || tn__entry_is_same(a, b))
    return TN_OK;
  if (tn__sig_has_conflict(tn__entry_sig(graph, a), tn__entry_sig(graph, b),
                           &code))
    return tn__facts_fail_conflict(graph, a, b, tn__entry_sig(graph, b));
  TN__TRY(copy_facts(f, a, b));
  return copy_facts(f, b, a);
}

/* ------------------------------------------------------------------- rules */

/* Visits a copy, a sum or zeros: all operands have the same signature as the
 * first. */
static tn_code visit_equal_operands(tn__facts *f, const tn__node *node) {
  const tn_entry first = node->in[0];
  for (int round = 0; round < 2;
       ++round) { /* round 0: the first operand gets the facts of all others;
                     round 1: the others get those of the first */
    for (uint32_t i = 1; i < node->n_in; ++i)
      TN__TRY(tn__facts_unify(f, first, node->in[i]));
    TN__TRY(tn__facts_unify(f, first, (tn_entry){node->id, 0}));
  }
  return TN_OK;
}

/* Visits a BACKWARD node: a gradient has the signature of its entry. If the
 * call reads an entry twice, a fact about one of the two gradients reaches the
 * other. */
static tn_code visit_backward(tn__facts *f, const tn__node *node) {
  const tn__node *of = tn__node_at(f->graph, node->of);
  const uint32_t outputs = of->n_out + of->n_in;
  for (uint32_t i = 0; i < 2 * of->n_in; ++i) {
    const uint32_t at = i % of->n_in;
    TN__TRY(tn__facts_unify(f, (tn_entry){node->id, at}, of->in[at]));
  }
  for (uint32_t i = 0; i < of->n_out; ++i)
    TN__TRY(tn__facts_unify(f, node->in[i], (tn_entry){of->id, i}));
  for (uint32_t i = 0; i < of->n_out; ++i)
    TN__TRY(tn__facts_unify(f, node->in[outputs + i], (tn_entry){of->id, i}));
  return TN_OK;
}

/* Loads the known signatures of a call's operands for its inference rule. */
static tn_signature load_signature(tn__facts *f, const tn__node *node) {
  const uint32_t n_read = node->n_in + node->n_aux;
  tn_signature io = {
      .n_in = node->n_in, .n_out = node->n_out, .n_aux = node->n_aux};
  io.in = f->io;
  io.aux = io.in + node->n_in;
  io.out = io.aux + node->n_aux;
  for (uint32_t i = 0; i < n_read; ++i) {
    f->absent[i] = tn__entry_is_none(node->in[i]);
    f->io[i] = f->absent[i] ? tn__sig_unknown()
                            : *tn__entry_sig(f->graph, node->in[i]);
  }
  for (uint32_t i = 0; i < node->n_out; ++i)
    io.out[i] = f->graph->sigs[node->first + i];
  return io;
}

/* Tests whether the rule has stored one signature for each entry. If one entry
 * is two operands with different new facts, the node is visited again. */
static bool has_stored_facts(const tn__facts *f, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_in; ++i) {
    const tn_sig *now = &f->io[i];
    if (f->absent[i]) continue;
    tn_sig all = *tn__entry_sig(f->graph, node->in[i]);
    if (all.dtype != now->dtype || all.ndim != now->ndim) return false;
    for (int32_t d = 0; d < all.ndim; ++d)
      if (all.shape[d] != now->shape[d]) return false;
  }
  return true;
}

static tn_code store_signature(tn__facts *f, const tn__node *node) {
  const uint32_t n_read = node->n_in + node->n_aux;
  for (uint32_t i = 0; i < n_read; ++i)
    if (!f->absent[i])
      TN__TRY(tn__facts_add(f, node->in[i], &f->io[i], node->id));
  for (uint32_t i = 0; i < node->n_out; ++i)
    TN__TRY(tn__facts_add(f, (tn_entry){node->id, i}, &f->io[n_read + i],
                          node->id));
  if (!has_stored_facts(f, node)) push_queue(f, node->id);
  return TN_OK;
}

static tn_code visit_call(tn__facts *f, const tn__node *node) {
  tn_signature io = load_signature(f, node);
  tn_run run = {.struct_size = sizeof run, .device_type = TN_DEVICE_CPU};
  const tn_frame base = {.struct_size = sizeof base,
                         .host = &node->op->plugin->host,
                         .instance = node->op->plugin->instance,
                         .run = &run};
  const tn__infer_args args = {
      node->desc, node->op->name, tn__node_struct(node),
      f->absent,  &base,          f->usual == node->id};
  const tn_code rc = tn__infer_signature(&args, &io);
  if (rc != TN_OK && rc != TN_INCOMPLETE)
    return tn__facts_fail_call(f->graph, node, rc);
  return store_signature(f, node);
}

static tn_code visit_node(tn__facts *f, const tn__node *node) {
  switch (node->kind) {
    case TN__NODE_VARIABLE:
      return TN_OK;
    case TN__NODE_CALL:
      return visit_call(f, node);
    case TN__NODE_BACKWARD:
      return visit_backward(f, node);
    case TN__NODE_GRAPH:
    case TN__NODE_LOOP:
      return tn__facts_infer_inner(f, node);
    default:
      return visit_equal_operands(f, node);
  }
}

tn_code tn__facts_run(tn__facts *f) {
  while (f->n_queued > 0) {
    const tn__node *node = tn__node_at(f->graph, pop_queue(f));
    f->current = node->inner ? TN_NONE : node->id;
    const tn_code rc = visit_node(f, node);
    if (rc == TN_OK) continue;
    return node->kind == TN__NODE_CALL ? rc : tn__node_fail(node, rc);
  }
  return TN_OK;
}

/* Tests whether the signatures of all operands of a node are complete. */
static bool has_known_operands(const tn_graph *graph, const tn__node *node) {
  for (uint32_t k = count_operands(graph, node); k > 0; --k) {
    const tn_entry entry = get_operand(graph, node, k - 1);
    if (!tn__entry_is_none(entry) &&
        !tn__sig_is_complete(tn__entry_sig(graph, entry)))
      return false;
  }
  return true;
}

/* Lets one node after the other infer default shapes, in the order of the
 * graph. All consequences of one default are inferred before the next node. */
tn_code tn__facts_defaults(tn__facts *f) {
  const tn_graph *graph = f->graph;
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    const bool hook = node->kind == TN__NODE_CALL && node->desc->infer;
    if ((!hook && !node->inner) || has_known_operands(graph, node)) continue;
    f->usual = id;
    push_queue(f, id);
    TN__TRY(tn__facts_run(f));
  }
  f->usual = TN_NONE;
  return TN_OK;
}

/* -------------------------------------------------------------- variables */

/* Fails with TN_NOT_FOUND; suggests the variable with the nearest name. */
static tn_code fail_no_variable(const tn_graph *graph, const char *name) {
  const uint32_t n = tn__n_nodes(graph);
  const char **names = tn__alloc(graph->env, n * sizeof *names);
  size_t found = 0;
  for (uint32_t id = 0; names && id < n; ++id)
    if (tn__node_at(graph, id)->kind == TN__NODE_VARIABLE)
      names[found++] = tn__node_at(graph, id)->name;
  const char *near = names ? tn__find_nearest_word(name, names, found) : NULL;
  (void)tn__fail(TN_NOT_FOUND, "the graph has no variable `%s`", name);
  if (near) (void)tn__fail_more(TN_NOT_FOUND, "; did you mean `%s`?", near);
  tn__free(graph->env, names);
  return TN_NOT_FOUND;
}

static tn_code check_count(const tn_graph *graph, size_t n) {
  size_t variables = 0;
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id)
    variables += tn__node_at(graph, id)->kind == TN__NODE_VARIABLE;
  if (n <= variables) return TN_OK;
  return tn__fail(TN_INVALID,
                  "something is said of %zu variables, but the graph has %zu",
                  n, variables);
}

/* Adds the facts that the caller states about variables. They replace facts
 * from the creation of a variable. */
static tn_code add_caller_facts(tn__facts *f, const tn_known *known, size_t n) {
  TN__TRY(check_count(f->graph, n));
  for (size_t i = 0; i < n; ++i) {
    const char *name = known[i].name;
    const tn__node *node = tn__map_get(&f->graph->names, name);
    if (!node || node->kind != TN__NODE_VARIABLE)
      return fail_no_variable(f->graph, name);
    TN__TRY(tn__sig_check(name, &known[i].sig));
    TN__TRY(tn__facts_add(f, (tn_entry){node->id, 0}, &known[i].sig, node->id));
  }
  return TN_OK;
}

/* Adds the facts from the creation of a variable, unless the caller states
 * others. */
static tn_code add_creation_facts(tn__facts *f, const tn__node *node) {
  const tn_entry entry = {node->id, 0};
  const tn_sig *now = tn__entry_sig(f->graph, entry);
  tn_sig sig = node->known;
  TN__TRY(tn__sig_check(node->name, &sig));
  if (now->ndim >= 0) sig.ndim = -1;
  if (now->dtype != TN_DTYPE_UNKNOWN) sig.dtype = TN_DTYPE_UNKNOWN;
  return tn__facts_add(f, entry, &sig, node->id);
}

/* ---------------------------------------------------------------- the pass */

static void forget_facts(tn_graph *graph) {
  tn__graph_drop_facts(graph);
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    if (node->inner) forget_facts(node->inner);
  }
}

tn_code tn__facts_begin(tn__facts *f, tn_graph *graph, const tn_known *known,
                        size_t n) {
  const uint32_t from = graph->n_sigs;
  TN__TRY(open_facts(f, graph));
  TN__TRY(add_caller_facts(f, known, n));
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    if (node->kind == TN__NODE_VARIABLE && node->first >= from)
      TN__TRY(add_creation_facts(f, node));
  }
  return TN_OK;
}

static tn_code infer_graph(tn_graph *graph, const tn_known *known, size_t n) {
  tn__facts f;
  tn_code rc = tn__facts_begin(&f, graph, known, n);
  if (rc == TN_OK) rc = tn__facts_run(&f);
  if (rc == TN_OK) rc = tn__facts_check_complete(graph);
  if (rc == TN_INCOMPLETE) {
    rc = tn__facts_defaults(&f);
    if (rc == TN_OK) rc = tn__facts_check_complete(graph);
  }
  tn__facts_close(&f);
  if (rc == TN_OK || rc == TN_INCOMPLETE)
    graph->facts |= TN__FACT_SHAPES;
  else
    forget_facts(graph);
  return rc;
}

tn_code tn__graph_infer(tn_graph *graph, const tn_known *known, size_t n) {
  forget_facts(graph);
  return infer_graph(graph, known, n);
}

tn_code tn__graph_infer_more(tn_graph *graph) {
  return infer_graph(graph, NULL, 0);
}

tn_code tn__graph_sig(const tn_graph *graph, tn_entry entry, tn_sig *out) {
  *out = tn__sig_unknown();
  TN__TRY(tn__entry_check(graph, entry, "the entry"));
  if (tn__entry_id(graph, entry) < graph->n_sigs)
    *out = *tn__entry_sig(graph, entry);
  return TN_OK;
}
