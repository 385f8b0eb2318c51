/* SPDX-License-Identifier: Apache-2.0
 * bind.c: a graph becomes a program. What the user gave is looked up and
 * checked; then the stations of program.h follow one another.
 */
#include <stdio.h>
#include <string.h>

#include "passes.h"
#include "program.h"

/* A program on its way. */
typedef struct binding {
  tn_program *p;
  const tn_bind *how;
  const tn_argument **given; /* per argument and state; NULL: nothing said */
  tn_known *known;
  size_t n_known;
  tn_entry *of; /* arguments whose gradients are wanted */
  tn_entry *slopes;
  uint32_t *which; /* of `of`: number of the argument */
  uint32_t n_of;
  tn__pass_list passes;
} binding;

static tn_code memory_fail(size_t bytes) {
  return tn__fail_memory(bytes, "a program");
}

static const char *argument_name(const tn_program *p, uint32_t i) {
  return tn__node_at(p->graph, p->arguments[i].node)->name;
}

/* ------------------------------------------------------------ what is given */

static tn_code lists_make(binding *b) {
  tn_program *p = b->p;
  const size_t n = (size_t)p->n_arguments + p->n_states + 1;
  const size_t all = n + b->how->n_arguments;
  b->given = tn__arena_alloc(&p->arena, n * sizeof *b->given);
  b->known = tn__arena_alloc(&p->arena, all * sizeof *b->known);
  b->of = tn__arena_alloc(&p->arena, n * sizeof *b->of);
  b->slopes = tn__arena_alloc(&p->arena, n * sizeof *b->slopes);
  b->which = tn__arena_alloc(&p->arena, n * sizeof *b->which);
  p->gradients = tn__arena_alloc(&p->arena, n * sizeof *p->gradients);
  p->weights =
      tn__arena_alloc(&p->arena, (p->n_heads + 1u) * sizeof *p->weights);
  if (p->arena.failed) return memory_fail(n * sizeof *b->known);
  for (uint32_t i = 0; i < p->n_heads; ++i) p->weights[i] = TN_ENTRY_NONE;
  for (size_t i = 0; i < n; ++i) p->gradients[i] = TN_ENTRY_NONE;
  return TN_OK;
}

static tn_code unknown_argument(const tn_program *p, const char *name) {
  tn__fail(TN_NOT_FOUND, "the graph has no argument or state `%s`", name);
  const uint32_t n = p->n_arguments + p->n_states;
  const char **names = tn__alloc(p->env, (n + 1u) * sizeof *names);
  for (uint32_t i = 0; names && i < n; ++i) names[i] = argument_name(p, i);
  const char *nearest = names ? tn__nearest(name, names, n) : NULL;
  if (nearest) tn__fail_more(TN_NOT_FOUND, "; `%s`?", nearest);
  tn__free(p->env, names);
  return TN_NOT_FOUND;
}

static tn_code argument_find(const tn_program *p, const char *name,
                             uint32_t *out) {
  const tn__node *node = tn__map_get(&p->graph->names, name);
  for (uint32_t i = 0; node && i < p->n_arguments + p->n_states; ++i) {
    *out = i;
    if (p->arguments[i].node == node->id) return TN_OK;
  }
  return unknown_argument(p, name);
}

static tn_code array_check(const tn_program *p, const tn_array *array,
                           const char *name, const char *what) {
  char place[TN__DEVICE_TEXT], mine[TN__DEVICE_TEXT];
  if (!array) return TN_OK;
  if (array->env != p->env)
    return tn__fail(TN_INVALID, "%s `%s`: the array belongs to another runtime",
                    what, name);
  if (array->block->device == p->device) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s `%s`: the array lies on %s, the program runs "
                  "on %s; copy it with tn_array_to",
                  what, name, tn__device_text(array->block->device, place),
                  tn__device_text(p->device, mine));
}

static void known_add(binding *b, const char *name, const tn_array *array,
                      const tn_sig *known) {
  tn_known *to = &b->known[b->n_known];
  to->name = name;
  to->sig = known ? *known : tn__sig_unknown();
  if (array) {
    const tn_tensor *t = &array->tensor;
    to->sig.dtype = t->dtype;
    to->sig.ndim = t->ndim;
    memcpy(to->sig.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
  }
  if (to->sig.dtype != TN_DTYPE_UNKNOWN || to->sig.ndim >= 0) ++b->n_known;
}

static tn_code request_check(tn_req request, const char *what) {
  if (request == TN_REQ_NULL || request == TN_REQ_WRITE ||
      request == TN_REQ_ADD)
    return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: ask for TN_REQ_NULL, WRITE or ADD, and not for %d", what,
                  (int)request);
}

static tn_code argument_take(binding *b, const tn_argument *argument) {
  const tn_program *p = b->p;
  uint32_t i = 0;
  TN__TRY(argument_find(p, argument->name, &i));
  if (b->given[i])
    return tn__fail(TN_INVALID, "argument `%s` is given twice", argument->name);
  b->given[i] = argument;
  TN__TRY(array_check(p, argument->array, argument->name, "argument"));
  TN__TRY(array_check(p, argument->gradient, argument->name,
                      "the gradient of argument"));
  if (argument->has_request)
    TN__TRY(request_check(argument->request, argument->name));
  known_add(b, argument_name(p, i), argument->array, &argument->known);
  return TN_OK;
}

/* ----------------------------------------------------------------- gradients
 */

static bool is_float(const tn_sig *sig) {
  return sig->dtype == TN_F32 || sig->dtype == TN_F64 || sig->dtype == TN_F16 ||
         sig->dtype == TN_BF16;
}

static tn_req request_of(const binding *b, uint32_t i) {
  const tn_argument *given = b->given[i];
  const tn_sig *sig = tn__sig(b->p->graph, b->p->arguments[i]);
  if (given && given->has_request) return given->request;
  return is_float(sig) ? b->how->request : TN_REQ_NULL;
}

/* A variable for the gradient of a head, which may turn out not to be read. */
static tn_code weight_add(tn_program *p, uint32_t i) {
  char name[TN__ENTRY_TEXT], text[TN__ENTRY_TEXT];
  tn__node *node = NULL;
  (void)snprintf(name, sizeof name, "%.200s@weight",
                 tn__entry_text(p->graph, p->heads[i], text));
  const tn_sig sig = *tn__sig(p->graph, p->heads[i]);
  const tn__node_spec spec = {
      .kind = TN__NODE_VARIABLE,
      .n_out = 1,
      .of = TN_NONE,
      .name = tn__map_get(&p->graph->names, name) ? NULL : name,
      .stem = "weight@",
      .known = &sig};
  TN__TRY(tn__node_add(p->graph, &spec, &node));
  p->weights[i] = (tn_entry){node->id, 0};
  return TN_OK;
}

/* Heads that have gradients, and what they are weighted with. */
static tn_code weights_make(tn_program *p, tn_entry *heads, tn_entry *weights,
                            size_t *n) {
  *n = 0;
  for (uint32_t i = 0; i < p->n_heads; ++i) {
    if (!is_float(tn__sig(p->graph, p->heads[i]))) continue;
    TN__TRY(weight_add(p, i));
    heads[*n] = p->heads[i];
    weights[(*n)++] = p->weights[i];
  }
  return TN_OK;
}

static tn_code slopes_make(binding *b) {
  tn_program *p = b->p;
  const size_t room = p->n_heads + 1u;
  tn_entry *heads = tn__arena_alloc(&p->arena, room * sizeof *heads);
  tn_entry *weights = tn__arena_alloc(&p->arena, room * sizeof *weights);
  size_t n = 0;
  if (!heads || !weights) return memory_fail(room * sizeof *heads);
  TN__TRY(weights_make(p, heads, weights, &n));
  const tn__gradient_spec spec = {
      .query = {.heads = heads,
                .weights = weights,
                .of = b->of,
                .n_heads = n,
                .n_of = b->n_of},
      .flags = b->how->plan == TN_PLAN_DEFAULT || b->how->plan == TN_PLAN_NONE
                   ? 0
                   : TN__GRADIENT_COMPAT,
      .optional = 1};
  return tn__graph_gradient(p->graph, &spec, b->slopes);
}

/* Gradients have arrays of their own, so each is an entry that nothing else is
 * and that nobody else has as a gradient; what does not depend on an argument
 * has zeros. */
static tn_code slope_own(binding *b, uint32_t k) {
  tn_graph *graph = b->p->graph;
  const tn_entry slope = b->slopes[k];
  bool own = !tn__entry_is_none(slope) &&
             tn__node_at(graph, slope.node)->kind != TN__NODE_VARIABLE;
  for (uint32_t i = 0; own && i < k; ++i)
    own = !tn__entry_same(slope, b->p->gradients[b->which[i]]);
  for (uint32_t i = 0; own && i < b->p->n_heads; ++i)
    own = !tn__entry_same(slope, b->p->heads[i]);
  tn_entry to = slope;
  if (!own) {
    const bool none = tn__entry_is_none(slope);
    tn__node *node = NULL;
    const tn__node_spec spec = {.kind = none ? TN__NODE_ZERO : TN__NODE_COPY,
                                .flags = TN__NODE_GRADIENT,
                                .n_in = 1,
                                .n_out = 1,
                                .of = TN_NONE,
                                .stem = none ? "zero@" : "copy@",
                                .in = none ? &b->of[k] : &slope};
    TN__TRY(tn__node_add(graph, &spec, &node));
    to = (tn_entry){node->id, 0};
  }
  b->p->gradients[b->which[k]] = to;
  return TN_OK;
}

static tn_code gradients_make(binding *b) {
  tn_program *p = b->p;
  for (uint32_t i = 0; i < p->n_arguments; ++i) {
    if (request_of(b, i) == TN_REQ_NULL) continue;
    b->which[b->n_of] = i;
    b->of[b->n_of++] = p->arguments[i];
  }
  if (b->n_of == 0) return TN_OK;
  for (uint32_t i = 0; i < p->n_heads; ++i)
    if (p->late[i])
      return tn__fail(TN_INVALID,
                      "head %u is to overwrite an argument, which the "
                      "gradients that were asked for may still read; put the "
                      "gradients into the graph (tn_graph_gradient)",
                      i);
  TN__TRY(slopes_make(b));
  for (uint32_t k = 0; k < b->n_of; ++k) TN__TRY(slope_own(b, k));
  return tn__graph_infer_more(p->graph);
}

/* ------------------------------------------------------------------- arrays */

/* Puts a given or new array in the place of an entry. */
static tn_code entry_give(tn_program *p, uint32_t entry, tn_array *array) {
  const tn_sig *sig = &p->graph->sigs[entry];
  const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
  tn__value *value = &p->values[entry];
  value->flags |= TN__ENTRY_EXTERNAL;
  if (value->array) return TN_OK;
  if (!array) return tn__array_create_on(p->device, &spec, &value->array);
  value->array = tn__array_retain(array);
  return TN_OK;
}

/* What an array must be like to be there. */
static tn_code fits(const tn_program *p, uint32_t entry, const tn_array *array,
                    const char *what) {
  const tn_sig *sig = &p->graph->sigs[entry];
  const tn_tensor *t = array ? &array->tensor : NULL;
  if (!array ||
      (t->dtype == sig->dtype && t->ndim == sig->ndim &&
       memcmp(t->shape, sig->shape, (size_t)t->ndim * sizeof *t->shape) == 0))
    return TN_OK;
  tn__buf have, want;
  tn__buf_init(&have, p->env);
  tn__buf_init(&want, p->env);
  tn__buf_shape(&have, t->ndim, t->shape);
  tn__buf_shape(&want, sig->ndim, sig->shape);
  tn__fail(TN_SHAPE, "%s: the array is %s %s, but it has to be %s %s", what,
           tn__dtype_name(t->dtype), have.s ? have.s : "?",
           tn__dtype_name(sig->dtype), want.s ? want.s : "?");
  tn__buf_deinit(&have);
  tn__buf_deinit(&want);
  return TN_SHAPE;
}

/* An argument that the flat graph does not compute with may be unknown. */
static tn_code argument_check(const binding *b, uint32_t i) {
  const tn_program *p = b->p;
  const bool given = b->given[i] && b->given[i]->array;
  if (given || tn__sig_complete(tn__sig(p->graph, p->arguments[i])))
    return TN_OK;
  return tn__fail(TN_INCOMPLETE,
                  "not enough is known of argument `%s`, which nothing is "
                  "computed of; give its shape and type",
                  argument_name(p, i));
}

static tn_code arguments_give(binding *b) {
  tn_program *p = b->p;
  for (uint32_t i = 0; i < p->n_arguments + p->n_states; ++i) {
    const tn_argument *given = b->given[i];
    const uint32_t entry = tn__entry_id(p->graph, p->arguments[i]);
    TN__TRY(argument_check(b, i));
    TN__TRY(entry_give(p, entry, given ? given->array : NULL));
    if (tn__entry_is_none(p->gradients[i])) continue;
    const uint32_t slope = tn__entry_id(p->graph, p->gradients[i]);
    tn_array *array = given ? given->gradient : NULL;
    TN__TRY(fits(p, slope, array, argument_name(p, i)));
    TN__TRY(entry_give(p, slope, array));
    p->values[slope].request = request_of(b, i);
  }
  return TN_OK;
}

static tn_code outputs_give(binding *b) {
  tn_program *p = b->p;
  const bool compat = b->how->plan >= TN_PLAN_COMPAT;
  for (uint32_t i = 0; i < p->n_heads; ++i) {
    char name[TN__ENTRY_TEXT];
    const uint32_t entry = tn__entry_id(p->graph, p->heads[i]);
    tn_array *array = i < b->how->n_outputs ? b->how->outputs[i] : NULL;
    (void)tn__entry_text(p->graph, p->heads[i], name);
    TN__TRY(array_check(p, array, name, "output"));
    TN__TRY(fits(p, entry, array, name));
    p->values[entry].flags |= TN__ENTRY_HEAD;
    if (compat && !array) continue; /* its planner counts them in */
    TN__TRY(entry_give(p, entry, array));
  }
  return TN_OK;
}

/* Whether the array of a head is that of an argument, or a part of it. */
static bool is_argument(const binding *b, const tn_array *array) {
  const uint32_t n = b->p->n_arguments + b->p->n_states;
  for (uint32_t i = 0; array && i < n; ++i)
    if (b->given[i] && b->given[i]->array &&
        b->given[i]->array->block == array->block)
      return true;
  return false;
}

static bool reads(const tn__node *reader, uint32_t node) {
  for (uint32_t i = 0; i < reader->n_in + reader->n_aux; ++i)
    if (!tn__entry_is_none(reader->in[i]) && reader->in[i].node == node)
      return true;
  return false;
}

/* Whether a node reads an argument that lies where `array` does. */
static bool reads_block(const binding *b, const tn__node *node,
                        const tn_array *array) {
  const tn_program *p = b->p;
  for (uint32_t i = 0; i < p->n_arguments + p->n_states; ++i)
    if (b->given[i] && b->given[i]->array &&
        b->given[i]->array->block == array->block &&
        reads(node, p->arguments[i].node))
      return true;
  return false;
}

/* A late head is computed where it is to be only if that can be put off until
 * everything else is there: nothing reads it, other heads of its node are as
 * late, and other late heads do not read what it overwrites, nor it what they
 * do. */
static bool may_be_late(const binding *b, uint32_t head) {
  const tn_program *p = b->p;
  const uint32_t node = p->heads[head].node;
  for (uint32_t i = 0; i < p->n_heads; ++i) {
    const bool late =
        i < b->how->n_outputs && is_argument(b, b->how->outputs[i]);
    const uint32_t other = p->heads[i].node;
    if (other == node && !late) return false;
    if (other != node && late &&
        (reads_block(b, tn__node_at(p->graph, other), b->how->outputs[head]) ||
         reads_block(b, tn__node_at(p->graph, node), b->how->outputs[i])))
      return false;
  }
  for (uint32_t i = 0; i < p->graph->nodes.n; ++i)
    if (reads(tn__node_at(p->graph, i), node)) return false;
  return true;
}

static tn_code head_copy(tn_program *p, uint32_t i) {
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = TN__NODE_COPY,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = "copy@",
                              .in = &p->heads[i]};
  TN__TRY(tn__node_add(p->graph, &spec, &node));
  p->heads[i] = (tn_entry){node->id, 0};
  return TN_OK;
}

/* A head that is an argument, or was a head before, and is to be in an array
 * that the user gives, is a copy; so is one that overwrites an argument too
 * early where it is computed. Where the argument that it is may be overwritten
 * itself, it is the copy of a copy, which is made before that. */
static tn_code heads_own(binding *b) {
  tn_program *p = b->p;
  for (uint32_t i = 0; i < p->n_heads && i < b->how->n_outputs; ++i) {
    const bool late = is_argument(b, b->how->outputs[i]);
    const bool variable =
        tn__node_at(p->graph, p->heads[i].node)->kind == TN__NODE_VARIABLE;
    bool own = !variable && (!late || may_be_late(b, i));
    for (uint32_t k = 0; own && k < i; ++k)
      own = !tn__entry_same(p->heads[i], p->heads[k]);
    if (own || !b->how->outputs[i]) continue;
    TN__TRY(head_copy(p, i));
    if (late && variable) TN__TRY(head_copy(p, i));
  }
  return TN_OK;
}

static tn_code late_list(binding *b) {
  tn_program *p = b->p;
  p->late = tn__arena_alloc(&p->arena, p->n_heads + 1u);
  if (!p->late) return memory_fail(p->n_heads);
  for (uint32_t i = 0; i < p->n_heads && i < b->how->n_outputs; ++i)
    p->late[i] = is_argument(b, b->how->outputs[i]);
  return TN_OK;
}

static tn_code weights_give(tn_program *p) {
  for (uint32_t i = 0; i < p->n_heads; ++i) {
    if (tn__entry_is_none(p->weights[i])) continue;
    const uint32_t entry = tn__entry_id(p->graph, p->weights[i]);
    p->values[entry].flags |= TN__ENTRY_EXTERNAL;
    if (p->values[entry].n_uses > 0) TN__TRY(entry_give(p, entry, NULL));
  }
  return TN_OK;
}

/* --------------------------------------------------------------------- bind */

/* Arguments and states are those of the user's graph, in its order: flat, it
 * may need fewer of them, and meet them in another one. */
static void arguments_find(tn_program *p, const tn_graph *graph,
                           const tn_entry *variables) {
  for (uint32_t i = 0; i < p->n_arguments + p->n_states; ++i) {
    const char *name = tn__node_at(graph, variables[i].node)->name;
    const tn__node *node = tn__map_get(&p->graph->names, name);
    p->arguments[i] = (tn_entry){node->id, 0};
  }
}

static tn_code begin(binding *b, const tn_graph *graph) {
  tn_program *p = b->p;
  const tn_entry *variables = NULL;
  if (graph->n_heads == 0)
    return tn__fail(TN_INVALID,
                    "the graph has no heads, so there is nothing to compute; "
                    "name them with tn_graph_heads_set");
  TN__TRY(tn__graph_copy(graph, &p->source));
  TN__TRY(tn__graph_flatten(graph, &p->graph));
  TN__TRY(tn__graph_variables((tn_graph *)(uintptr_t)graph, /* its cache */
                              &variables, &p->n_arguments, &p->n_states));
  const size_t n = (size_t)p->n_arguments + p->n_states + 1;
  p->arguments = tn__arena_alloc(&p->arena, n * sizeof *p->arguments);
  p->heads =
      tn__arena_alloc(&p->arena, (graph->n_heads + 1) * sizeof(tn_entry));
  if (p->arena.failed) return memory_fail(n * sizeof *p->arguments);
  arguments_find(p, graph, variables);
  p->n_heads = (uint32_t)graph->n_heads;
  memcpy(p->heads, p->graph->heads, graph->n_heads * sizeof *p->heads);
  return lists_make(b);
}

/* ------------------------------------------------------------------- passes
 */

/* Variables that a program knows by their entries, which passes renumber. */
typedef struct kept {
  const tn__node **v; /* arguments and states, then weights; NULL: none */
  uint32_t n;
} kept;

static tn_entry *kept_place(tn_program *p, uint32_t i) {
  const uint32_t n = p->n_arguments + p->n_states;
  return i < n ? &p->arguments[i] : &p->weights[i - n];
}

static tn_code variables_keep(tn_program *p, kept *k) {
  k->n = p->n_arguments + p->n_states + p->n_heads;
  k->v = tn__arena_alloc(&p->arena, (k->n + 1u) * sizeof *k->v);
  if (!k->v) return memory_fail(k->n * sizeof *k->v);
  for (uint32_t i = 0; i < k->n; ++i) {
    const tn_entry entry = *kept_place(p, i);
    if (!tn__entry_is_none(entry)) k->v[i] = tn__node_at(p->graph, entry.node);
  }
  return TN_OK;
}

static void variables_renew(binding *b, const kept *k) {
  tn_program *p = b->p;
  for (uint32_t i = 0; i < k->n; ++i)
    if (k->v[i]) kept_place(p, i)->node = k->v[i]->id;
  for (uint32_t i = 0; i < b->n_of; ++i) b->of[i] = p->arguments[b->which[i]];
}

static tn_code passes_before(binding *b) {
  tn_program *p = b->p;
  kept variables;
  if (b->passes.n == 0) return TN_OK;
  TN__TRY(tn__graph_infer(p->graph, b->known, b->n_known));
  TN__TRY(tn__pass_list_check(&b->passes, p->graph));
  TN__TRY(variables_keep(p, &variables));
  TN__TRY(tn__pass_list_run(&b->passes, 0, b->passes.gradient, &p->graph));
  memcpy(p->heads, p->graph->heads, p->n_heads * sizeof *p->heads);
  variables_renew(b, &variables);
  return TN_OK;
}

/* Gradients are heads for as long as passes run. */
static tn_code slopes_as_heads(binding *b) {
  const tn_program *p = b->p;
  const size_t n = (size_t)p->n_heads + b->n_of;
  tn_entry *all = tn__arena_alloc(&b->p->arena, (n + 1) * sizeof *all);
  if (!all) return memory_fail(n * sizeof *all);
  memcpy(all, p->heads, p->n_heads * sizeof *all);
  for (uint32_t k = 0; k < b->n_of; ++k)
    all[p->n_heads + k] = p->gradients[b->which[k]];
  return tn__graph_heads_set(p->graph, all, n);
}

/* What heads and gradients must be like, they were made before: it may have
 * been undone. */
static tn_code passes_behind(binding *b) {
  tn_program *p = b->p;
  kept variables;
  if (b->passes.gradient + 1 >= b->passes.n) return TN_OK;
  TN__TRY(variables_keep(p, &variables));
  TN__TRY(slopes_as_heads(b));
  TN__TRY(tn__pass_list_run(&b->passes, b->passes.gradient + 1, b->passes.n,
                            &p->graph));
  variables_renew(b, &variables);
  memcpy(p->heads, p->graph->heads, p->n_heads * sizeof *p->heads);
  for (uint32_t k = 0; k < b->n_of; ++k)
    b->slopes[k] = p->graph->heads[p->n_heads + k];
  TN__TRY(heads_own(b));
  for (uint32_t k = 0; k < b->n_of; ++k) TN__TRY(slope_own(b, k));
  TN__TRY(tn__graph_heads_set(p->graph, p->heads, p->n_heads));
  return tn__graph_infer_more(p->graph);
}

/* The names, for a program that is made like this one. */
static tn_code passes_list(tn_program *p, const tn_bind *how) {
  const size_t n = how->n_passes;
  const char **names = tn__arena_alloc(&p->arena, (n + 1) * sizeof *names);
  for (size_t i = 0; names && i < n; ++i)
    names[i] =
        tn__arena_text(&p->arena, how->passes[i], strlen(how->passes[i]));
  if (p->arena.failed) return memory_fail(n * sizeof *names);
  p->how.passes = names;
  p->how.n_passes = n;
  return TN_OK;
}

/* What users see is counted when it is written, for tapes that watch it. */
static tn_code seen_list(tn_program *p, tn__seen *to, uint32_t first,
                         uint32_t n) {
  uint32_t most = 0;
  for (uint32_t i = first; i < first + n; ++i) most += p->steps[i]->n_out;
  to->arrays = tn__arena_alloc(&p->arena, (most + 1u) * sizeof(tn_array *));
  if (!to->arrays) return memory_fail(most * sizeof(tn_array *));
  for (uint32_t i = first; i < first + n; ++i)
    for (uint32_t k = 0; k < p->steps[i]->n_out; ++k) {
      const tn__value *value = &p->values[p->steps[i]->out[k]];
      if (value->flags & (TN__ENTRY_EXTERNAL | TN__ENTRY_HEAD))
        to->arrays[to->n++] = value->array;
    }
  return TN_OK;
}

static tn_code how_check(const tn_bind *how, const tn_graph *graph) {
  TN__TRY(request_check(how->request, "tn_bind.request"));
  if (how->plan > TN_PLAN_COMPAT_SHARE)
    return tn__fail(TN_INVALID, "tn_bind.plan: there is no plan %u", how->plan);
  if (how->n_outputs > graph->n_heads)
    return tn__fail(TN_INVALID, "%zu outputs were given for %zu heads",
                    how->n_outputs, (size_t)graph->n_heads);
  return TN_OK;
}

static tn_code groups_check(const tn_bind *how) {
  if (how->n_groups == 0) return TN_OK;
  return tn__fail(TN_UNIMPLEMENTED,
                  "tn_bind.groups: programs run on one device yet");
}

static tn_code all_stations(binding *b, const tn_graph *graph) {
  tn_program *p = b->p;
  TN__TRY(groups_check(b->how));
  TN__TRY(how_check(b->how, graph));
  TN__TRY(passes_list(p, b->how));
  TN__TRY(begin(b, graph));
  for (size_t i = 0; i < b->how->n_arguments; ++i)
    TN__TRY(argument_take(b, &b->how->arguments[i]));
  TN__TRY(passes_before(b));
  TN__TRY(heads_own(b));
  TN__TRY(late_list(b));
  TN__TRY(tn__graph_heads_set(p->graph, p->heads, p->n_heads));
  TN__TRY(b->passes.n > 0 ? tn__graph_infer_more(p->graph)
                          : tn__graph_infer(p->graph, b->known, b->n_known));
  TN__TRY(gradients_make(b));
  TN__TRY(passes_behind(b));
  TN__TRY(tn__steps_make(p, p->gradients, p->n_arguments));
  TN__TRY(arguments_give(b));
  TN__TRY(outputs_give(b));
  TN__TRY(weights_give(p));
  TN__TRY(tn__arrays_make(p));
  TN__TRY(tn__steps_choose(p));
  TN__TRY(tn__steps_again(p, b->how));
  TN__TRY(tn__steps_fuse(p));
  TN__TRY(tn__program_memory(p, b->how));
  for (uint32_t i = 0; i < p->n_steps; ++i) tn__step_ready(p->steps[i]);
  TN__TRY(seen_list(p, &p->seen[0], 0, p->n_forward));
  return seen_list(p, &p->seen[1], p->n_forward, p->n_steps - p->n_forward);
}

static tn_code device_find(tn_program *p, const tn_bind *how) {
  if (how->place.device_type == 0) {
    p->device = p->env->cpu;
    return TN_OK;
  }
  return tn__device_find(p->env->cpu->devices, how->place.device_type,
                         how->place.device_id, &p->device);
}

tn_code tn__program_bind(const tn_graph *graph, const tn_bind *how,
                         tn_program **out) {
  tn_program *p = tn__zalloc(graph->env, sizeof *p);
  *out = NULL;
  if (!p) return memory_fail(sizeof *p);
  binding b = {.p = p, .how = how};
  p->caller = graph->caller;
  p->env = graph->env;
  p->how = (tn_bind){.struct_size = sizeof p->how,
                     .flags = how->flags,
                     .plan = how->plan,
                     .request = how->request,
                     .place = how->place,
                     .memory = how->memory};
  atomic_init(&p->n_holds, 1);
  tn__arena_init(&p->arena, p->env);
  tn__env_retain(p->env);
  tn_code rc = device_find(p, how);
  if (rc == TN_OK)
    rc = tn__pass_list_open(&b.passes, p->caller, how->passes, how->n_passes);
  if (rc == TN_OK) rc = all_stations(&b, graph);
  if (b.passes.caller) tn__pass_list_close(&b.passes);
  if (rc != TN_OK) {
    tn__program_release(p);
    return rc;
  }
  *out = p;
  return TN_OK;
}
