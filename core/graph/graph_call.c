/* SPDX-License-Identifier: Apache-2.0
 * graph_call.c: adds a call to a graph. The caller passes entries by position
 * or by name; missing inputs become variables.
 */
#include <stdio.h>
#include <string.h>

#include "graph.h"

/* The state of adding a call of an operator to a graph. */
typedef struct call_builder {
  tn_graph *graph;
  const tn_graph_node *what;
  tn_operator *op;
  const tn_op *desc;
  tn_params *params; /* owned, or NULL */
  const char *name;  /* name of the node, and stem of its variables */
  uint32_t n_in;
  tn_entry *in;   /* n_in inputs, then the states */
  uint8_t *given; /* for each operand: 1 if the caller has passed an entry or
                     TN_ENTRY_NONE */
} call_builder;

static bool is_variadic(const tn_op *op) {
  return op->n_inputs > 0 &&
         (op->inputs[op->n_inputs - 1]->flags & TN_ARG_VARIADIC) != 0;
}

static bool is_optional(const tn_op *op, uint32_t i) {
  return i < op->n_inputs && (op->inputs[i]->flags & TN_ARG_OPTIONAL) != 0;
}

/* ------------------------------------------------------------------ places */

static tn_code fail_too_many_inputs(const call_builder *a) {
  return tn__fail(TN_INVALID,
                  "%s takes %u inputs and %u states, but %u were "
                  "given",
                  a->op->name, a->desc->n_inputs, a->desc->n_aux,
                  a->what->n_in);
}

static tn_code alloc_lists(call_builder *a) {
  const tn_op *op = a->desc;
  const uint32_t given = a->what->keys ? 0 : a->what->n_in;
  a->n_in = op->n_inputs;
  if (is_variadic(op) && given >= op->n_inputs) a->n_in = given;
  if (is_variadic(op) && given < op->n_inputs) a->n_in = op->n_inputs - 1;
  if (!is_variadic(op) && given > op->n_inputs + op->n_aux)
    return fail_too_many_inputs(a);
  const size_t n = (size_t)a->n_in + op->n_aux + 1;
  a->in = tn__alloc(a->graph->env, n * sizeof *a->in);
  a->given = tn__zalloc(a->graph->env, n);
  if (!a->in || !a->given)
    return tn__fail_memory(n * sizeof *a->in, "the inputs of a node");
  for (size_t i = 0; i < n; ++i) a->in[i] = TN_ENTRY_NONE;
  return TN_OK;
}

static const char *get_operand_name(const call_builder *a, uint32_t place) {
  return place < a->n_in ? a->desc->inputs[place]->name
                         : a->desc->aux[place - a->n_in]->name;
}

static tn_code fail_unknown_key(const call_builder *a, const char *key) {
  const char *names[64];
  size_t n = 0;
  for (uint32_t i = 0; i < a->n_in + a->desc->n_aux && n < 64; ++i)
    names[n++] = get_operand_name(a, i);
  const char *nearest = tn__find_nearest_word(key, names, n);
  tn__fail(TN_NOT_FOUND, "%s has no input `%s`", a->op->name, key);
  if (nearest) return tn__fail_more(TN_NOT_FOUND, "; `%s`?", nearest);
  return TN_NOT_FOUND;
}

static tn_code find_operand_position(const call_builder *a, const char *key,
                                     uint32_t *out) {
  for (uint32_t i = 0; i < a->n_in + a->desc->n_aux; ++i) {
    if (strcmp(get_operand_name(a, i), key) != 0) continue;
    if (a->given[i])
      return tn__fail(TN_INVALID, "%s: input `%s` is given twice", a->op->name,
                      key);
    *out = i;
    return TN_OK;
  }
  return fail_unknown_key(a, key);
}

static tn_code set_passed_operands(call_builder *a) {
  const tn_graph_node *what = a->what;
  if (what->keys && is_variadic(a->desc) && a->desc->n_inputs > a->n_in)
    for (uint32_t i = 0; i < what->n_in; ++i)
      if (strcmp(what->keys[i], a->desc->inputs[a->n_in]->name) == 0)
        return tn__fail(TN_INVALID,
                        "%s: input `%s` is any number of entries, which are "
                        "given by position",
                        a->op->name, what->keys[i]);
  for (uint32_t i = 0; i < what->n_in; ++i) {
    uint32_t place = i;
    if (what->keys) TN__TRY(find_operand_position(a, what->keys[i], &place));
    a->in[place] = what->in[i];
    a->given[place] = 1;
  }
  return TN_OK;
}

/* ------------------------------------------------------------ absent inputs */

/* Tests whether a condition of the operator on parameters and present inputs
 * fails. `absent` marks the absent inputs. */
static bool is_violated(const call_builder *a, const tn_require *require,
                        const uint32_t *absent) {
  const tn_params *params = a->params ? a->params : a->op->defaults;
  const tn_signature inputs = {.n_in = a->n_in}; /* only their number */
  const tn__scope scope = {.nodes = a->desc->nodes,
                           .n_nodes = a->desc->n_nodes,
                           .fields = a->desc->params,
                           .n_fields = a->desc->n_params,
                           .params = params ? params->data : NULL,
                           .io = &inputs,
                           .absent = absent};
  tn__ivalue value;
  return tn__expr_eval(&scope, require->node, &value) == TN_OK && value.known &&
         value.n == TN__SCALAR && value.v[0] == 0;
}

static uint32_t count_violated(const call_builder *a, const uint32_t *absent) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < a->desc->n_requires; ++i)
    n += is_violated(a, a->desc->requirements[i], absent);
  return n;
}

/* Decides which optional inputs without an entry remain absent, such that the
 * conditions of the operator hold. The others get variables. */
static void decide_absent_inputs(const call_builder *a, uint32_t *absent) {
  const tn_op *op = a->desc;
  for (uint32_t i = 0; i < a->n_in; ++i) {
    if (a->given[i])
      absent[i] = tn__entry_is_none(a->in[i]);
    else
      absent[i] = is_optional(op, i) && op->inputs[i]->role != TN_ROLE_WEIGHT;
  }
  for (uint32_t i = 0; i < a->n_in; ++i) {
    if (a->given[i] || !is_optional(op, i)) continue;
    const uint32_t before = count_violated(a, absent);
    absent[i] = !absent[i];
    if (count_violated(a, absent) >= before) absent[i] = !absent[i];
  }
}

/* --------------------------------------------------------------- variables */

static tn_code add_operand_variable(call_builder *a, uint32_t place) {
  char name[512];
  tn__node *node = NULL;
  (void)snprintf(name, sizeof name, "%s_%s", a->name,
                 get_operand_name(a, place));
  const tn__node_spec spec = {
      .kind = TN__NODE_VARIABLE, .n_out = 1, .of = TN_NONE, .name = name};
  TN__TRY(tn__node_add(a->graph, &spec, &node));
  TN__TRY(tn__scopes_apply(a->graph, node, a->what->attributes,
                           a->what->n_attributes));
  a->in[place] = (tn_entry){node->id, 0};
  return TN_OK;
}

static tn_code fail_required_absent(const call_builder *a, uint32_t place) {
  return tn__fail(TN_INVALID, "%s: input `%s` is not optional", a->op->name,
                  get_operand_name(a, place));
}

static tn_code add_missing_operands(call_builder *a) {
  const uint32_t n = a->n_in + a->desc->n_aux;
  uint32_t *absent =
      tn__zalloc(a->graph->env, ((size_t)n + 1) * sizeof *absent);
  if (!absent) return tn__fail_memory(n, "the inputs of a node");
  decide_absent_inputs(a, absent);
  tn_code rc = TN_OK;
  for (uint32_t i = 0; rc == TN_OK && i < n; ++i) {
    if (!a->given[i] && !absent[i]) rc = add_operand_variable(a, i);
    if (a->given[i] && tn__entry_is_none(a->in[i]) && !is_optional(a->desc, i))
      rc = fail_required_absent(a, i);
  }
  tn__free(a->graph->env, absent);
  return rc;
}

static tn_code check_states(const call_builder *a) {
  for (uint32_t i = a->n_in; i < a->n_in + a->desc->n_aux; ++i) {
    TN__TRY(tn__entry_check(a->graph, a->in[i], get_operand_name(a, i)));
    const tn__node *node = tn__node_at(a->graph, a->in[i].node);
    if (node->kind != TN__NODE_VARIABLE)
      return tn__fail(TN_INVALID,
                      "%s changes its state `%s`, so it must be a variable; "
                      "node `%s` is none",
                      a->op->name, get_operand_name(a, i), node->name);
  }
  return TN_OK;
}

/* -------------------------------------------------------------------- call */

/* Shortens the list of inputs by the absent ones at its end. */
static void trim_absent_inputs(call_builder *a) {
  while (a->n_in > 0 && tn__entry_is_none(a->in[a->n_in - 1])) {
    memmove(&a->in[a->n_in - 1], &a->in[a->n_in],
            a->desc->n_aux * sizeof *a->in);
    --a->n_in;
  }
}

/* Returns "fully_connected" for "nn.fully_connected@1". */
static void write_stem(const tn_operator *op, char *to, size_t bytes) {
  const char *dot = strrchr(op->name, '.');
  const char *from = dot ? dot + 1 : op->name;
  (void)snprintf(to, bytes, "%.*s", (int)strcspn(from, "@"), from);
}

static tn_code add_node(call_builder *a, tn__node **out) {
  tn__node_spec spec = {.kind = TN__NODE_CALL,
                        .n_in = a->n_in,
                        .n_aux = a->desc->n_aux,
                        .of = TN_NONE,
                        .name = a->name,
                        .in = a->in,
                        .op = a->op,
                        .params = a->params};
  TN__TRY(tn__operator_count_outputs(a->op, a->params, a->n_in, &spec.n_out));
  TN__TRY(tn__node_add(a->graph, &spec, out));
  return tn__scopes_apply(a->graph, *out, a->what->attributes,
                          a->what->n_attributes);
}

static tn_code create_params(call_builder *a) {
  if (a->what->params)
    return tn__params_parse(a->op, a->what->params, &a->params);
  if (a->desc->params_size > 0 && !a->op->defaults)
    return tn__params_parse(a->op, "", &a->params);
  return TN_OK;
}

static tn_code add_call_node(call_builder *a, tn__node **out) {
  char stem[200];
  TN__TRY(create_params(a));
  write_stem(a->op, stem, sizeof stem);
  TN__TRY(tn__graph_name_make(a->graph, a->what->name, stem, &a->name));
  TN__TRY(alloc_lists(a));
  TN__TRY(set_passed_operands(a));
  TN__TRY(add_missing_operands(a));
  TN__TRY(check_states(a));
  trim_absent_inputs(a);
  return add_node(a, out);
}

tn_code tn__graph_call(tn_graph *graph, const tn_graph_node *what,
                       tn_entry *out) {
  call_builder a = {.graph = graph, .what = what};
  const uint32_t before = tn__n_nodes(graph);
  tn__node *node = NULL;
  TN__TRY(tn__operator_get(graph->caller->registry, what->op, &a.op));
  TN__TRY(tn__operator_hold(a.op));
  a.desc = a.op->desc;
  const tn_code rc = add_call_node(&a, &node);
  if (a.params) tn__params_release(a.params);
  tn__free(graph->env, a.in);
  tn__free(graph->env, a.given);
  tn__operator_unhold(a.op);
  if (rc != TN_OK) {
    tn__graph_truncate(graph, before);
    return rc;
  }
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}
