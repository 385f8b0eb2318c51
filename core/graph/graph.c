/* SPDX-License-Identifier: Apache-2.0
 * graph.c: nodes, their lifetime and their names. A node is complete before it
 * enters the graph, so a failure leaves only unused memory in the arena.
 */
#include "graph.h"

#include <stdio.h>
#include <string.h>

const char *const tn__node_kinds[TN__N_KINDS] = {
    "variable", "call", "backward", "sum", "zero",
    "one",      "copy", "graph",    "loop"};

/* ----------------------------------------------------------------- lifetime */

tn_code tn__graph_create(tn__caller *caller, tn_graph **out) {
  const tn__env *env = caller->env;
  tn_graph *graph = tn__zalloc(env, sizeof *graph);
  *out = graph;
  if (!graph) return tn__fail_memory(sizeof *graph, "a graph");
  graph->caller = caller;
  graph->env = env;
  tn__arena_init(&graph->arena, env);
  tn__env_retain(env);
  return TN_OK;
}

void tn__node_drop(const tn_graph *graph, tn__node *node) {
  for (uint32_t i = 0; i < node->n_attrs; ++i) {
    tn__free(graph->env, (void *)(uintptr_t)node->attrs[i].key);
    tn__free(graph->env, (void *)(uintptr_t)node->attrs[i].value);
  }
  tn__free(graph->env, node->attrs);
  if (node->params) tn__params_release(node->params);
  if (node->op) tn__operator_unhold(node->op);
  tn__graph_release(node->inner);
}

void tn__graph_drop_facts(tn_graph *graph) {
  tn__free(graph->env, graph->sigs);
  tn__free(graph->env, graph->from);
  graph->sigs = NULL;
  graph->from = NULL;
  graph->n_sigs = 0;
  graph->facts &= ~(uint32_t)TN__FACT_SHAPES;
}

static void flag_states(const tn_graph *graph, const tn__node *node, bool on) {
  for (uint32_t i = node->n_in; i < node->n_in + node->n_aux; ++i) {
    tn__node *state = tn__node_at(graph, node->in[i].node);
    if (on)
      state->flags |= TN__NODE_STATE;
    else
      state->flags &= ~(uint32_t)TN__NODE_STATE;
  }
}

/* Recomputes which variables are states of operators, before the nodes from
 * number `n` on are removed: only the remaining nodes count. */
static void recompute_state_flags(const tn_graph *graph, uint32_t n) {
  bool any = false;
  for (uint32_t id = n; id < tn__n_nodes(graph); ++id) {
    any = any || tn__node_at(graph, id)->n_aux > 0;
    flag_states(graph, tn__node_at(graph, id), false);
  }
  for (uint32_t id = 0; any && id < n; ++id)
    flag_states(graph, tn__node_at(graph, id), true);
}

void tn__graph_truncate(tn_graph *graph, uint32_t n) {
  if (tn__n_nodes(graph) <= n) return;
  recompute_state_flags(graph, n);
  graph->facts &= ~(uint32_t)TN__FACT_LISTS;
  graph->n_entries = tn__node_at(graph, n)->first;
  if (graph->n_sigs > graph->n_entries) graph->n_sigs = graph->n_entries;
  while (tn__n_nodes(graph) > n) {
    tn__node *node = tn__node_at(graph, tn__n_nodes(graph) - 1);
    tn__map_remove(&graph->names, node->name);
    tn__node_drop(graph, node);
    --graph->nodes.n;
  }
}

void tn__graph_release(tn_graph *graph) {
  if (!graph) return;
  const tn__env *env = graph->env;
  tn__graph_truncate(graph, 0);
  while (graph->scopes.n > 0) (void)tn__scope_pop(graph);
  tn__graph_drop_facts(graph);
  tn__map_deinit(env, &graph->names);
  tn__map_deinit(env, &graph->stems);
  tn__vec_deinit(env, &graph->nodes);
  tn__vec_deinit(env, &graph->scopes);
  tn__free(env, graph->prefix);
  tn__arena_deinit(&graph->arena);
  tn__free(env, graph);
  tn__env_release(env); /* last: it may destroy the runtime */
}

/* ------------------------------------------------------------------- names */

static bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || (c != '\0' && strchr("_./-@'", c) != NULL);
}

static tn_code check_name(const tn_graph *graph, const char *name) {
  size_t n = 0;
  while (is_name_letter(name[n])) ++n;
  if (n == 0 || name[n] != '\0' || n > TN__NAME_MAX)
    return tn__fail(TN_INVALID,
                    "\"%.40s\" cannot name a node: a name is 1 to %d letters, "
                    "digits and _ . / - @ '",
                    name, TN__NAME_MAX);
  if (tn__map_get(&graph->names, name))
    return tn__fail(TN_EXISTS,
                    "the graph has a node named `%s` already; give this one "
                    "another name",
                    name);
  return TN_OK;
}

/* Finds the counter of a stem: the first number that may be unused in a name of
 * this stem. The number rises only when a node gets the name, so the name of a
 * node that was not added is used again. */
static tn_code get_stem_counter(tn_graph *graph, const char *stem,
                                uint64_t **out) {
  uint64_t *counter = tn__map_get(&graph->stems, stem);
  *out = counter;
  if (counter) return TN_OK;
  counter = tn__arena_alloc(&graph->arena, sizeof *counter);
  const char *key = tn__arena_text(&graph->arena, stem, strlen(stem));
  if (!counter || !key) {
    graph->arena.failed = false;
    return tn__fail_memory(sizeof *counter, "the name of a node");
  }
  *out = counter;
  return tn__map_set(graph->env, &graph->stems, key, counter);
}

/* Makes a name "<prefix><stem><number>" that no node of the graph has. */
static tn_code make_numbered_name(tn_graph *graph, const char *stem,
                                  const char **out) {
  tn__buf text;
  tn_code rc = TN_OK;
  uint64_t *number = NULL;
  TN__TRY(get_stem_counter(graph, stem, &number));
  tn__buf_init(&text, graph->env);
  for (;; ++*number) {
    text.n = 0;
    tn__buf_add(&text, "%s%s%llu", graph->prefix ? graph->prefix : "", stem,
                (unsigned long long)*number);
    if (text.failed || !tn__map_get(&graph->names, text.s)) break;
  }
  *out = text.failed ? NULL : tn__arena_text(&graph->arena, text.s, text.n);
  if (!*out) rc = tn__fail_memory(text.n, "the name of a node");
  tn__buf_deinit(&text);
  return rc;
}

tn_code tn__graph_name_make(tn_graph *graph, const char *name, const char *stem,
                            const char **out) {
  if (!name) return make_numbered_name(graph, stem, out);
  TN__TRY(check_name(graph, name));
  *out = tn__arena_text(&graph->arena, name, strlen(name));
  return *out ? TN_OK : tn__fail_memory(strlen(name), "the name of a node");
}

tn_code tn__graph_name_skip(tn_graph *graph, const char *stem) {
  uint64_t *number = NULL;
  TN__TRY(get_stem_counter(graph, stem, &number));
  ++*number;
  return TN_OK;
}

tn_code tn__graph_prefix(tn_graph *graph, const char *prefix) {
  char *copy = NULL;
  size_t n = 0;
  while (prefix && is_name_letter(prefix[n])) ++n;
  if (prefix && (prefix[n] != '\0' || n > TN__NAME_MAX / 2))
    return tn__fail(TN_INVALID,
                    "\"%.40s\" cannot begin a name: a prefix is at most %d "
                    "letters, digits and _ . / - @ '",
                    prefix, TN__NAME_MAX / 2);
  if (n > 0) {
    copy = tn__strdup(graph->env, prefix);
    if (!copy) return tn__fail_memory(n, "a prefix of names");
  }
  tn__free(graph->env, graph->prefix);
  graph->prefix = copy;
  return TN_OK;
}

/* ------------------------------------------------------------------- nodes */

tn_code tn__entry_check(const tn_graph *graph, tn_entry entry,
                        const char *what) {
  if (entry.node >= tn__n_nodes(graph))
    return tn__fail(TN_INVALID,
                    "%s is output %u of node %u, but the graph has %u nodes; "
                    "entries belong to the graph that returned them",
                    what, entry.index, entry.node, tn__n_nodes(graph));
  const tn__node *node = tn__node_at(graph, entry.node);
  if (entry.index >= node->n_out)
    return tn__fail(TN_INVALID, "%s is output %u of node `%s`, which has %u",
                    what, entry.index, node->name, node->n_out);
  return TN_OK;
}

static tn_code check_inputs(const tn_graph *graph, const tn__node_spec *spec) {
  for (uint32_t i = 0; i < spec->n_in + spec->n_aux; ++i) {
    char what[48];
    if (tn__entry_is_none(spec->in[i])) continue;
    (void)snprintf(what, sizeof what, "input %u", i);
    TN__TRY(tn__entry_check(graph, spec->in[i], what));
  }
  return TN_OK;
}

/* Copies a list into the arena of the graph. Returns NULL for an empty list, or
 * without memory; the arena remembers that failure. */
static void *copy_list(tn_graph *graph, const void *list, size_t n,
                       size_t each) {
  void *copy = n > 0 && list ? tn__arena_alloc(&graph->arena, n * each) : NULL;
  if (copy) memcpy(copy, list, n * each);
  return copy;
}

static const tn__loop *copy_loop(tn_graph *graph, const tn__loop *loop) {
  tn__loop *copy = copy_list(graph, loop, loop != NULL, sizeof *loop);
  if (!copy) return NULL;
  copy->sequences = copy_list(graph, loop->sequences, loop->n_sequences,
                              sizeof *loop->sequences);
  copy->states =
      copy_list(graph, loop->states, loop->n_states, sizeof *loop->states);
  copy->kept = copy_list(graph, loop->kept, loop->n_kept, sizeof *loop->kept);
  return copy;
}

static tn__node *create_node(tn_graph *graph, const tn__node_spec *spec) {
  tn__node *node = tn__arena_alloc(&graph->arena, sizeof *node);
  if (!node) return NULL;
  node->kind = spec->kind;
  node->flags = spec->flags;
  node->id = tn__n_nodes(graph);
  node->first = graph->n_entries;
  node->n_in = spec->n_in;
  node->n_aux = spec->n_aux;
  node->n_out = spec->n_out;
  node->of = spec->of;
  node->in = copy_list(graph, spec->in, (size_t)spec->n_in + spec->n_aux,
                       sizeof *spec->in);
  node->in_flags =
      copy_list(graph, spec->in_flags, spec->n_in, sizeof *spec->in_flags);
  node->after =
      copy_list(graph, spec->after, spec->n_after, sizeof *spec->after);
  node->n_after = spec->n_after;
  node->loop = copy_loop(graph, spec->loop);
  node->gradient_of = spec->gradient_of;
  node->known = spec->known ? *spec->known : tn__sig_unknown();
  return node;
}

/* Appends the node to the lists of the graph. It cannot fail, because the
 * memory is reserved. */
static void append_node(tn_graph *graph, tn__node *node,
                        const tn__node_spec *spec) {
  node->op = spec->op;
  node->desc = spec->op ? spec->op->desc : NULL;
  node->params = spec->params ? tn__params_retain(spec->params) : NULL;
  node->inner = spec->inner;
  graph->nodes.v[graph->nodes.n++] = node;
  const tn_code rc = tn__map_set(graph->env, &graph->names, node->name, node);
  (void)rc; /* the memory is reserved */
  graph->n_entries += node->n_out;
  graph->facts &= ~(uint32_t)TN__FACT_LISTS;
  flag_states(graph, node, true);
}

tn_code tn__node_add(tn_graph *graph, const tn__node_spec *spec,
                     tn__node **out) {
  const char *name = NULL;
  *out = NULL;
  TN__TRY(check_inputs(graph, spec));
  if (graph->n_entries > TN_NONE - 1 - spec->n_out)
    return tn__fail(TN_OUT_OF_RANGE, "a graph has at most 2^32 entries");
  TN__TRY(tn__graph_name_make(graph, spec->name, spec->stem, &name));
  TN__TRY(tn__vec_reserve(graph->env, &graph->nodes, 1));
  TN__TRY(tn__map_reserve(graph->env, &graph->names, 1));
  tn__node *node = create_node(graph, spec);
  if (graph->arena.failed) {
    graph->arena.failed = false;
    return tn__fail_memory(sizeof *node, "a node of a graph");
  }
  if (spec->op) TN__TRY(tn__operator_hold(spec->op));
  node->name = name;
  append_node(graph, node, spec);
  *out = node;
  return TN_OK;
}

tn_code tn__graph_variable(tn_graph *graph, const char *name,
                           const tn_sig *known, tn_entry *out) {
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = TN__NODE_VARIABLE,
                              .n_out = 1,
                              .of = TN_NONE,
                              .name = name,
                              .known = known};
  *out = TN_ENTRY_NONE;
  if (known) TN__TRY(tn__sig_check(name, known));
  TN__TRY(tn__node_add(graph, &spec, &node));
  const tn_code rc = tn__scopes_apply(graph, node, NULL, 0);
  if (rc != TN_OK) {
    tn__graph_truncate(graph, node->id);
    return rc;
  }
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}

tn_code tn__graph_heads_set(tn_graph *graph, const tn_entry *heads, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    char what[48];
    (void)snprintf(what, sizeof what, "head %zu", i);
    TN__TRY(tn__entry_check(graph, heads[i], what));
  }
  tn_entry *copy = copy_list(graph, heads, n, sizeof *heads);
  if (n > 0 && !copy) {
    graph->arena.failed = false;
    return tn__fail_memory(n * sizeof *heads, "the heads of a graph");
  }
  graph->facts &= ~(uint32_t)TN__FACT_LISTS;
  graph->heads = copy;
  graph->n_heads = n;
  return TN_OK;
}

static tn_code check_dependency(const tn_graph *graph, uint32_t node,
                                uint32_t on) {
  const uint32_t nodes[] = {node, on};
  for (int i = 0; i < 2; ++i) {
    TN__TRY(tn__entry_check(graph, (tn_entry){nodes[i], 0},
                            "the node of a control dependency"));
    const tn__node *one = tn__node_at(graph, nodes[i]);
    if (one->kind == TN__NODE_VARIABLE)
      return tn__fail(TN_INVALID,
                      "`%s` is a variable: nothing is computed there that "
                      "could wait or be waited for",
                      one->name);
  }
  if (on < node) return TN_OK;
  return tn__fail(TN_INVALID,
                  "node `%s` cannot wait for node `%s`, which is %s; add them "
                  "in the order in which they are to run",
                  tn__node_at(graph, node)->name, tn__node_at(graph, on)->name,
                  on == node ? "itself" : "younger");
}

tn_code tn__graph_depends(tn_graph *graph, uint32_t node, uint32_t on) {
  TN__TRY(check_dependency(graph, node, on));
  tn__node *waiting = tn__node_at(graph, node);
  for (uint32_t i = 0; i < waiting->n_after; ++i)
    if (waiting->after[i] == on) return TN_OK;
  const size_t n = waiting->n_after + (size_t)1;
  uint32_t *list = tn__arena_alloc(&graph->arena, n * sizeof *list);
  if (!list) {
    graph->arena.failed = false;
    return tn__fail_memory(n * sizeof *list, "control dependencies");
  }
  if (n > 1) memcpy(list, waiting->after, (n - 1) * sizeof *list);
  list[n - 1] = on;
  waiting->after = list;
  waiting->n_after = (uint32_t)n;
  graph->facts &= ~(uint32_t)TN__FACT_LISTS;
  return TN_OK;
}

/* ------------------------------------------------------------ declarations */

const tn_arg *tn__node_input(const tn__node *node, uint32_t i) {
  const tn_op *op = node->desc;
  if (node->kind != TN__NODE_CALL) return NULL;
  if (i >= node->n_in)
    return i - node->n_in < op->n_aux ? op->aux[i - node->n_in] : NULL;
  return op->inputs[i < op->n_inputs ? i : op->n_inputs - 1];
}

/* The declaration of actual output `i`. At most one declared output is
 * variadic; its actual outputs shift the outputs after it. */
const tn_arg *tn__node_output(const tn__node *node, uint32_t i) {
  const tn_op *op = node->desc;
  if (node->kind != TN__NODE_CALL) return NULL;
  uint32_t counted = 0;
  while (counted < op->n_outputs && op->outputs[counted]->count == TN_NONE)
    ++counted;
  if (i < counted) return op->outputs[i];
  const uint32_t n = node->n_out - (op->n_outputs - 1);
  return op->outputs[i < counted + n ? counted : i - n + 1];
}

uint32_t tn__node_count_visible(const tn__node *node) {
  uint32_t n = node->n_out;
  if (node->kind == TN__NODE_LOOP)
    return n - node->loop->n_states - node->loop->n_kept;
  if (node->kind != TN__NODE_CALL) return n;
  while (n > 0 && (tn__node_output(node, n - 1)->flags & TN_ARG_HIDDEN)) --n;
  return n;
}

/* It draws random numbers, or others take part in its calls. */
static bool has_resources(const tn_operator *op) {
  for (size_t i = 0; i < op->kernels.n; ++i) {
    const tn__kernel *kernel = op->kernels.v[i];
    if (kernel->desc->n_resources > 0) return true;
  }
  return false;
}

bool tn__node_is_repeatable(const tn__node *node) {
  if (node->n_aux > 0 || (node->op && has_resources(node->op))) return false;
  for (uint32_t i = 0; node->inner && i < tn__n_nodes(node->inner); ++i)
    if (!tn__node_is_repeatable(tn__node_at(node->inner, i))) return false;
  return true;
}

const void *tn__node_struct(const tn__node *node) {
  const tn_params *params =
      node->params || !node->op ? node->params : node->op->defaults;
  return params ? params->data : NULL;
}

/* ---------------------------------------------------------------- messages */

tn_code tn__node_fail(const tn__node *node, tn_code code) {
  const char *why = tn_error_text();
  if (!node->op) return tn__fail(code, "node `%s`: %s", node->name, why);
  if (node->gradient_of)
    return tn__fail(code, "node `%s` (%s, for the gradient of %s): %s",
                    node->name, node->op->name, node->gradient_of->name, why);
  return tn__fail(code, "node `%s` (%s%s): %s", node->name,
                  node->kind == TN__NODE_BACKWARD ? "gradient of " : "",
                  node->op->name, why);
}

bool tn__node_is_variable_gradient(const tn__node *node) {
  static const char suffix[] = TN__GRADIENT_SUFFIX;
  const size_t n = strlen(node->name), m = sizeof suffix - 1;
  return node->kind == TN__NODE_COPY && (node->flags & TN__NODE_GRADIENT) &&
         n > m && strcmp(node->name + n - m, suffix) == 0;
}

const char *tn__entry_text(const tn_graph *graph, tn_entry entry, char *to) {
  const tn__node *node = tn__node_at(graph, entry.node);
  const tn_arg *arg = tn__node_output(node, entry.index);
  if (node->kind == TN__NODE_VARIABLE || tn__node_is_variable_gradient(node))
    (void)snprintf(to, TN__ENTRY_TEXT, "%s", node->name);
  else if (arg && node->n_out == node->desc->n_outputs)
    (void)snprintf(to, TN__ENTRY_TEXT, "%s_%s", node->name,
                   node->n_out == 1 ? "output" : arg->name);
  else if (node->n_out == 1)
    (void)snprintf(to, TN__ENTRY_TEXT, "%s_output", node->name);
  else
    (void)snprintf(to, TN__ENTRY_TEXT, "%s_output%u", node->name, entry.index);
  return to;
}

/* -------------------------------------------------------------- signatures */

tn_sig tn__sig_unknown(void) {
  tn_sig sig = {.dtype = TN_DTYPE_UNKNOWN, .ndim = -1};
  for (int i = 0; i < TN_MAX_NDIM; ++i) sig.shape[i] = -1;
  return sig;
}

bool tn__sig_is_complete(const tn_sig *sig) {
  if (sig->dtype == TN_DTYPE_UNKNOWN || sig->ndim < 0) return false;
  for (int32_t i = 0; i < sig->ndim; ++i)
    if (sig->shape[i] < 0) return false;
  return true;
}

tn_code tn__sig_check(const char *name, const tn_sig *sig) {
  if (sig->ndim < -1 || sig->ndim > TN_MAX_NDIM)
    return tn__fail(TN_INVALID, "variable `%s`: rank %d is not in [-1, %d]",
                    name, sig->ndim, TN_MAX_NDIM);
  if (sig->dtype != TN_DTYPE_UNKNOWN && !tn__dtype_bit(sig->dtype))
    return tn__fail(TN_DTYPE, "variable `%s`: 0x%x is no element type", name,
                    (unsigned)sig->dtype);
  for (int32_t i = 0; i < sig->ndim; ++i)
    if (sig->shape[i] < -1)
      return tn__fail(TN_INVALID,
                      "variable `%s`: dimension %d is %lld; it must be -1 "
                      "(unknown) or more",
                      name, i, (long long)sig->shape[i]);
  return TN_OK;
}
