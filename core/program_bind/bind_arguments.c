/* SPDX-License-Identifier: Apache-2.0
 * bind_arguments.c: lists the arguments of a program, and finds the options
 * that the user passes for each.
 */
#include <string.h>

#include "stations.h"

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "a program");
}

/* ---------------------------------------------------------------- arguments */

/* The state of listing the arguments of a program: variables of the user's
 * graph. */
typedef struct argument_search {
  const tn_graph *graph;
  const tn_graph *flat;
  tn_entry *found; /* nodes of `flat` */
  uint8_t *listed; /* for each node of `graph`: 1 if the list has it already */
  uint32_t n;
} argument_search;

static void add_argument(argument_search *f, const tn__node *variable) {
  const tn__node *node = tn__map_get(&f->flat->names, variable->name);
  if (f->listed[variable->id]) return;
  f->listed[variable->id] = 1;
  f->found[f->n++] = (tn_entry){node->id, 0};
}

/* Adds variables that no head needs, but for which the user passes options. The
 * call that a gradient belongs to may need their shapes. */
static void add_unneeded_arguments(argument_search *f, const tn_bind *how,
                                   bool states) {
  for (size_t i = 0; i < how->n_arguments; ++i) {
    const tn__node *node =
        tn__map_get(&f->graph->names, how->arguments[i].name);
    if (node && node->kind == TN__NODE_VARIABLE &&
        ((node->flags & TN__NODE_STATE) != 0) == states)
      add_argument(f, node);
  }
}

tn_code tn__bind_find_arguments(const tn_graph *graph, const tn_graph *flat,
                                const tn_bind *how, tn__arena *arena,
                                tn__arguments *out) {
  const tn_entry *v = NULL;
  uint32_t n_arguments = 0, n_states = 0;
  TN__TRY(tn__graph_variables((tn_graph *)(uintptr_t)graph, /* cached in the
                                                               graph */
                              &v, &n_arguments, &n_states));
  const size_t most = n_arguments + n_states + how->n_arguments + 1;
  argument_search f = {.graph = graph, .flat = flat};
  f.listed = tn__arena_alloc(arena, tn__n_nodes(graph) + (size_t)1);
  f.found = tn__arena_alloc(arena, most * sizeof *f.found);
  if (arena->failed) return fail_memory(most * sizeof *f.found);
  for (uint32_t i = 0; i < n_arguments; ++i)
    add_argument(&f, tn__node_at(graph, v[i].node));
  add_unneeded_arguments(&f, how, false);
  const uint32_t n = f.n;
  for (uint32_t i = n_arguments; i < n_arguments + n_states; ++i)
    add_argument(&f, tn__node_at(graph, v[i].node));
  add_unneeded_arguments(&f, how, true);
  *out = (tn__arguments){.v = f.found, .n = n, .n_states = f.n - n};
  return TN_OK;
}

/* ------------------------------------------------------------------ options */

/* The search for the arguments that options name. */
typedef struct option_search {
  const tn_graph *graph;
  const tn__arguments *arguments;
  uint32_t *numbers; /* for each node of the graph: number of its argument or
                        state, counted from 1; 0: the node is none */
} option_search;

static const char *get_argument_name(const option_search *s, uint32_t i) {
  return tn__node_at(s->graph, s->arguments->v[i].node)->name;
}

static tn_code fail_unknown_argument(const option_search *s, const char *name) {
  const tn__env *env = s->graph->env;
  tn__fail(TN_NOT_FOUND, "the graph has no argument or state `%s`", name);
  const uint32_t n = s->arguments->n + s->arguments->n_states;
  const char **names = tn__alloc(env, (n + 1u) * sizeof *names);
  for (uint32_t i = 0; names && i < n; ++i) names[i] = get_argument_name(s, i);
  const char *nearest = names ? tn__find_nearest_word(name, names, n) : NULL;
  if (nearest) tn__fail_more(TN_NOT_FOUND, "; `%s`?", nearest);
  tn__free(env, names);
  return TN_NOT_FOUND;
}

static tn_code find_argument(const option_search *s, const char *name,
                             uint32_t *out) {
  const tn__node *node = tn__map_get(&s->graph->names, name);
  const uint32_t number = node ? s->numbers[node->id] : 0;
  if (number == 0) return fail_unknown_argument(s, name);
  *out = number - 1;
  return TN_OK;
}

tn_code tn__bind_array_check(const tn__env *env, const tn_array *array,
                             const char *name, const char *what) {
  if (!array || array->env == env) return TN_OK;
  return tn__fail(TN_INVALID, "%s `%s`: the array belongs to another runtime",
                  what, name);
}

static void add_known_facts(tn__user_options *out, const char *name,
                            const tn_array *array, const tn_sig *known) {
  tn_known *to = &out->known[out->n_known];
  to->name = name;
  to->sig = known ? *known : tn__sig_unknown();
  if (array) {
    const tn_tensor *t = &array->tensor;
    to->sig.dtype = t->dtype;
    to->sig.ndim = t->ndim;
    memcpy(to->sig.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
  }
  if (to->sig.dtype != TN_DTYPE_UNKNOWN || to->sig.ndim >= 0) ++out->n_known;
}

tn_code tn__bind_request_check(tn_req request, const char *what) {
  if (request == TN_REQ_NULL || request == TN_REQ_WRITE ||
      request == TN_REQ_ADD)
    return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: ask for TN_REQ_NULL, WRITE or ADD, and not for %d", what,
                  (int)request);
}

static tn_code add_options(const option_search *s, const tn_argument *argument,
                           tn__user_options *out) {
  const tn__env *env = s->graph->env;
  const char *name = argument->name;
  uint32_t i = 0;
  TN__TRY(find_argument(s, name, &i));
  if (out->arguments[i])
    return tn__fail(TN_INVALID, "argument `%s` is given twice", name);
  out->arguments[i] = argument;
  TN__TRY(tn__bind_array_check(env, argument->array, name, "argument"));
  TN__TRY(tn__bind_array_check(env, argument->gradient, name,
                               "the gradient of argument"));
  if (argument->has_request)
    TN__TRY(tn__bind_request_check(argument->request, name));
  add_known_facts(out, get_argument_name(s, i), argument->array,
                  &argument->known);
  return TN_OK;
}

tn_code tn__bind_read_options(const tn_graph *flat,
                              const tn__arguments *arguments,
                              const tn_bind *how, tn__arena *arena,
                              tn__user_options *out) {
  const size_t n = (size_t)arguments->n + arguments->n_states;
  const size_t all = n + how->n_arguments + 1;
  const size_t nodes = (size_t)tn__n_nodes(flat) + 1;
  option_search s = {.graph = flat, .arguments = arguments};
  s.numbers = tn__arena_alloc(arena, nodes * sizeof *s.numbers);
  *out = (tn__user_options){.how = how};
  out->arguments = tn__arena_alloc(arena, (n + 1) * sizeof *out->arguments);
  out->known = tn__arena_alloc(arena, all * sizeof *out->known);
  if (arena->failed) return fail_memory(all * sizeof *out->known);
  for (uint32_t i = 0; i < n; ++i) s.numbers[arguments->v[i].node] = i + 1;
  for (size_t i = 0; i < how->n_arguments; ++i)
    TN__TRY(add_options(&s, &how->arguments[i], out));
  return TN_OK;
}
