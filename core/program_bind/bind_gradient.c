/* SPDX-License-Identifier: Apache-2.0
 * bind_gradient.c: adds the requested gradients of a program.
 */
#include <stdio.h>
#include <string.h>

#include "gradient.h"
#include "stations.h"

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "a program");
}

/* ----------------------------------------------------------------- requests */

static tn_req get_request(const tn__user_options *options,
                          const tn_argument *given, const tn_sig *sig) {
  if (given && given->has_request) return given->request;
  return tn__dtype_is_float(sig->dtype) ? options->how->request : TN_REQ_NULL;
}

tn_code tn__bind_find_requests(const tn_graph *graph,
                               const tn__arguments *arguments,
                               const tn__user_options *options,
                               tn__arena *arena, tn__requests *out) {
  const size_t n = (size_t)arguments->n + arguments->n_states;
  *out = (tn__requests){0};
  out->by_argument = tn__arena_alloc(arena, (n + 1) * sizeof(tn_req));
  out->which = tn__arena_alloc(arena, (n + 1) * sizeof *out->which);
  out->computed = tn__arena_alloc(arena, (n + 1) * sizeof *out->computed);
  if (arena->failed) return fail_memory(n * sizeof *out->computed);
  for (uint32_t i = 0; i < n; ++i)
    out->by_argument[i] = get_request(options, options->arguments[i],
                                      tn__entry_sig(graph, arguments->v[i]));
  for (uint32_t i = 0; i < arguments->n; ++i)
    if (out->by_argument[i] != TN_REQ_NULL) out->which[out->n++] = i;
  return TN_OK;
}

tn_code tn__bind_list_gradients(const tn__arguments *arguments,
                                const tn__heads *heads, tn__arena *arena,
                                tn__gradients *out) {
  const size_t n = (size_t)arguments->n + arguments->n_states;
  out->v = tn__arena_alloc(arena, (n + 1) * sizeof *out->v);
  out->weights = tn__arena_alloc(arena, (heads->n + 1u) * sizeof(tn_entry));
  out->losses = tn__arena_alloc(arena, heads->n + 1u);
  if (arena->failed) return fail_memory(n * sizeof *out->v);
  for (size_t i = 0; i < n; ++i) out->v[i] = TN_ENTRY_NONE;
  for (uint32_t i = 0; i < heads->n; ++i) out->weights[i] = TN_ENTRY_NONE;
  return TN_OK;
}

/* --------------------------------------------------------- output gradients */

static bool is_name_unusable(const tn_graph *graph, const char *name) {
  return strlen(name) > TN__NAME_MAX || tn__map_get(&graph->names, name);
}

/* Adds a variable for the gradient of a head, which may remain unused. */
static tn_code add_output_gradient(tn_program *p, uint32_t i) {
  char name[TN__ENTRY_TEXT], text[TN__ENTRY_TEXT];
  tn__node *node = NULL;
  (void)snprintf(name, sizeof name, "%.200s@weight",
                 tn__entry_text(p->graph, p->heads.v[i], text));
  const tn_sig sig = *tn__entry_sig(p->graph, p->heads.v[i]);
  const tn__node_spec spec = {
      .kind = TN__NODE_VARIABLE,
      .n_out = 1,
      .of = TN_NONE,
      .name = is_name_unusable(p->graph, name) ? NULL : name,
      .stem = "weight@",
      .known = &sig};
  TN__TRY(tn__node_add(p->graph, &spec, &node));
  p->gradients.weights[i] = (tn_entry){node->id, 0};
  return TN_OK;
}

/* Tests whether the operator that makes an entry declares it as a loss. An
 * output that a loop collects per step is a loss if the output of the step is
 * one. */
static bool is_loss(const tn_graph *graph, tn_entry entry) {
  const tn__node *node = tn__node_at(graph, entry.node);
  while (node->kind == TN__NODE_COPY || node->kind == TN__NODE_LOOP) {
    if (node->kind == TN__NODE_COPY) {
      entry = node->in[0];
    } else if (entry.index < node->loop->n_states ||
               entry.index >= node->inner->n_heads) {
      return false;
    } else {
      graph = node->inner;
      entry = graph->heads[entry.index];
    }
    node = tn__node_at(graph, entry.node);
  }
  const tn_arg *arg = tn__node_output(node, entry.index);
  return arg && arg->role == TN_ROLE_LOSS;
}

/* Lists the heads from which gradients start, and the output gradient of each.
 */
static tn_code make_output_gradients(tn_program *p, tn_entry *heads,
                                     tn_entry *weights, size_t *n) {
  *n = 0;
  for (uint32_t i = 0; i < p->heads.n; ++i) {
    if (!tn__dtype_is_float(tn__entry_sig(p->graph, p->heads.v[i])->dtype))
      continue;
    TN__TRY(add_output_gradient(p, i));
    if (is_loss(p->graph, p->heads.v[i])) p->gradients.losses[i] = TN__LOSS;
    heads[*n] = p->heads.v[i];
    weights[(*n)++] = p->gradients.weights[i];
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- gradients */

static tn_code make_gradients(tn__requests *requests, tn_program *p) {
  const size_t room = (size_t)p->heads.n + 1;
  tn_entry *heads = tn__arena_alloc(&p->arena, room * sizeof *heads);
  tn_entry *weights = tn__arena_alloc(&p->arena, room * sizeof *weights);
  tn_entry *of = tn__arena_alloc(&p->arena, requests->n * sizeof *of);
  size_t n = 0;
  if (p->arena.failed) return fail_memory(room * sizeof *heads);
  for (uint32_t k = 0; k < requests->n; ++k)
    of[k] = p->arguments.v[requests->which[k]];
  TN__TRY(make_output_gradients(p, heads, weights, &n));
  const tn__gradient_spec spec = {.query = {.heads = heads,
                                            .weights = weights,
                                            .of = of,
                                            .n_heads = n,
                                            .n_of = requests->n},
                                  .flags = TN__GRADIENT_INFERRED,
                                  .optional = 1};
  return tn__graph_gradient(p->graph, &spec, requests->computed);
}

enum { /* marks of an entry */
       READ = 1u << 0,
       GRADIENT = 1u << 1,
       USED = 1u << 2 /* the entry is a head, or another gradient has it
                          already */
};

/* Makes marks of all entries: nodes read the entry, it is the gradient of
 * several arguments, it is a head. */
static tn_code mark_entries(const tn__requests *requests, tn_program *p,
                            uint8_t **out) {
  const tn_graph *graph = p->graph;
  uint8_t *marks = tn__arena_alloc(&p->arena, graph->n_entries + 1u);
  if (!marks) return fail_memory(graph->n_entries);
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (!tn__entry_is_none(node->in[i]))
        marks[tn__entry_id(graph, node->in[i])] = READ;
  }
  for (uint32_t k = 0; k < requests->n; ++k) {
    if (tn__entry_is_none(requests->computed[k])) continue;
    uint8_t *mark = &marks[tn__entry_id(graph, requests->computed[k])];
    *mark |= *mark & GRADIENT ? READ : GRADIENT;
  }
  for (uint32_t i = 0; i < p->heads.n; ++i)
    marks[tn__entry_id(graph, p->heads.v[i])] |= USED;
  *out = marks;
  return TN_OK;
}

/* Tests whether the entry of gradient `k` can have the user's array of the
 * gradient, and marks it as used; otherwise a copy of the entry has the array.
 * The entry must be no variable, no head and no other gradient. With request
 * ADD it must have no readers either: they would read the sum over all runs. A
 * gradient of an argument that no head depends on is zeros. */
static bool can_use_entry_array(const tn__requests *requests, uint32_t k,
                                const tn_graph *graph, uint8_t *marks) {
  const tn_entry gradient = requests->computed[k];
  if (tn__entry_is_none(gradient) ||
      tn__node_at(graph, gradient.node)->kind == TN__NODE_VARIABLE)
    return false;
  uint8_t *mark = &marks[tn__entry_id(graph, gradient)];
  const bool adds = requests->by_argument[requests->which[k]] == TN_REQ_ADD;
  if ((*mark & USED) || (adds && (*mark & READ))) return false;
  *mark |= USED;
  return true;
}

static tn_code make_own_entry(const tn__requests *requests, uint32_t k,
                              tn_program *p, tn_entry *out) {
  const bool none = tn__entry_is_none(requests->computed[k]);
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = none ? TN__NODE_ZERO : TN__NODE_COPY,
                              .flags = TN__NODE_GRADIENT,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = none ? "zero@" : "copy@",
                              .in = none ? &p->arguments.v[requests->which[k]]
                                         : &requests->computed[k]};
  TN__TRY(tn__node_add(p->graph, &spec, &node));
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}

tn_code tn__bind_copy_gradients(const tn__requests *requests, tn_program *p) {
  uint8_t *marks = NULL;
  TN__TRY(mark_entries(requests, p, &marks));
  for (uint32_t k = 0; k < requests->n; ++k) {
    tn_entry own = requests->computed[k];
    if (!can_use_entry_array(requests, k, p->graph, marks))
      TN__TRY(make_own_entry(requests, k, p, &own));
    p->gradients.v[requests->which[k]] = own;
  }
  return TN_OK;
}

tn_code tn__bind_gradients(tn__requests *requests, tn_program *p) {
  if (requests->n == 0) return TN_OK;
  for (uint32_t i = 0; i < p->heads.n; ++i)
    if (p->heads.late[i])
      return tn__fail(TN_INVALID,
                      "head %u is to overwrite an argument, which the "
                      "requested gradients may still read; put the "
                      "gradients into the graph (tn_graph_gradient)",
                      i);
  TN__TRY(make_gradients(requests, p));
  TN__TRY(tn__bind_copy_gradients(requests, p));
  return tn__graph_infer_more(p->graph);
}
