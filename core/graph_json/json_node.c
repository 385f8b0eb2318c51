/* SPDX-License-Identifier: Apache-2.0
 * json_node.c: makes a node of a draft. The passes trust that the library has
 * made all nodes, and files are not trusted. So these checks accept only nodes
 * that the library could have made.
 */
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* --------------------------------------------------------------------- keys */

enum {
  KEYS_ANY = TN__KEY_NAME | TN__KEY_KIND | TN__KEY_AFTER | TN__KEY_GRADIENT |
             TN__KEY_ATTRIBUTES,
  KEYS_INNER = TN__KEY_INPUTS | TN__KEY_GRAPH
};

/* For each kind of node: the keys that it may have in addition to the common
 * ones, and those that it must have. */
static const struct {
  uint32_t may;
  uint32_t must;
} kinds[TN__N_KINDS] = {
    [TN__NODE_VARIABLE] = {TN__KEY_DTYPE | TN__KEY_SHAPE, 0},
    [TN__NODE_CALL] = {TN__KEY_OP | TN__KEY_PARAMS | TN__KEY_INPUTS |
                           TN__KEY_STATES,
                       TN__KEY_OP | TN__KEY_INPUTS},
    [TN__NODE_BACKWARD] = {TN__KEY_OF | TN__KEY_INPUTS,
                           TN__KEY_OF | TN__KEY_INPUTS},
    [TN__NODE_SUM] = {TN__KEY_INPUTS, TN__KEY_INPUTS},
    [TN__NODE_ZERO] = {TN__KEY_INPUTS, TN__KEY_INPUTS},
    [TN__NODE_ONE] = {TN__KEY_INPUTS, TN__KEY_INPUTS},
    [TN__NODE_COPY] = {TN__KEY_INPUTS, TN__KEY_INPUTS},
    [TN__NODE_GRAPH] = {KEYS_INNER | TN__KEY_STATES, KEYS_INNER},
    [TN__NODE_LOOP] = {KEYS_INNER | TN__KEY_STATES | TN__KEY_SEQUENCES |
                           TN__KEY_CARRIED | TN__KEY_REVERSE | TN__KEY_KEPT,
                       KEYS_INNER | TN__KEY_SEQUENCES}};

/* Returns the name of the key with the lowest bit that is set in `bits`. */
static const char *get_key_name(uint32_t bits) {
  return tn__draft_keys[__builtin_ctz(bits)];
}

static tn_code check_keys(const tn__node_draft *d) {
  const uint32_t base = TN__KEY_NAME | TN__KEY_KIND;
  if ((d->seen & base) != base)
    return tn__fail(TN_INVALID, "it has no `%s`",
                    get_key_name(base & ~d->seen));
  const uint32_t must = kinds[d->kind].must;
  if ((d->seen & must) != must)
    return tn__fail(TN_INVALID, "a node of kind `%s` needs `%s`",
                    tn__node_kinds[d->kind], get_key_name(must & ~d->seen));
  const uint32_t more = d->seen & ~(kinds[d->kind].may | KEYS_ANY);
  if (more)
    return tn__fail(TN_INVALID, "a node of kind `%s` has no `%s`",
                    tn__node_kinds[d->kind], get_key_name(more));
  return TN_OK;
}

/* -------------------------------------------------------------------- lists */

static tn_code fail_absent(uint32_t i) {
  return tn__fail(TN_INVALID, "input %u is null, but it is not optional", i);
}

static tn_code check_operands(const tn__node_draft *d, uint32_t least,
                              uint32_t most) {
  const tn_entry *in = TN__LIST(tn_entry, d->in);
  const uint32_t n = TN__LENGTH(tn_entry, d->in);
  if (n < least || n > most)
    return tn__fail(TN_INVALID, "a node of kind `%s` has %s%u input%s, not %u",
                    tn__node_kinds[d->kind], least == most ? "" : "at least ",
                    least, least == 1 ? "" : "s", n);
  for (uint32_t i = 0; i < n; ++i)
    if (tn__entry_is_none(in[i])) return fail_absent(i);
  return TN_OK;
}

/* Checks that the node has its number of states, and that all are variables. */
static tn_code check_states(const tn__node_draft *d, const tn_graph *graph,
                            uint32_t n) {
  const tn_entry *states = TN__LIST(tn_entry, d->states);
  const uint32_t have = TN__LENGTH(tn_entry, d->states);
  if (have != n)
    return tn__fail(TN_INVALID, "it has %u states, but must have %u", have, n);
  for (uint32_t i = 0; i < n; ++i)
    if (tn__entry_is_none(states[i]) ||
        tn__node_at(graph, states[i].node)->kind != TN__NODE_VARIABLE)
      return tn__fail(TN_INVALID,
                      "state %u must be a variable, because it is changed", i);
  return TN_OK;
}

/* Joins inputs and states in one list. */
static const tn_entry *join_operands(tn__node_draft *d) {
  if (d->states.n > 0) tn__buf_bytes(&d->in, d->states.s, d->states.n);
  return TN__LIST(tn_entry, d->in);
}

static const uint32_t *get_input_flags(const tn__node_draft *d) {
  const uint32_t *flags = TN__LIST(uint32_t, d->flags);
  for (uint32_t i = 0; i < TN__LENGTH(uint32_t, d->flags); ++i)
    if (flags[i]) return flags;
  return NULL;
}

/* Checks that only a BACKWARD node has inputs of which only the shape is read.
 */
static tn_code check_shape_inputs(const tn__node_draft *d) {
  if (d->kind == TN__NODE_BACKWARD || !get_input_flags(d)) return TN_OK;
  return tn__fail(TN_INVALID,
                  "only a node of kind `backward` reads a \"shape\" alone");
}

/* -------------------------------------------------------------------- calls */

static bool is_optional(const tn_op *op, uint32_t i) {
  return i < op->n_inputs && (op->inputs[i]->flags & TN_ARG_OPTIONAL) != 0;
}

static bool is_variadic(const tn_op *op) {
  return op->n_inputs > 0 &&
         (op->inputs[op->n_inputs - 1]->flags & TN_ARG_VARIADIC) != 0;
}

static tn_code check_call_inputs(const tn__node_draft *d, const tn_op *op) {
  const tn_entry *in = TN__LIST(tn_entry, d->in);
  const uint32_t n = TN__LENGTH(tn_entry, d->in);
  const uint32_t named = op->n_inputs - is_variadic(op);
  if (n > named && !is_variadic(op))
    return tn__fail(TN_INVALID, "it has %u inputs, but %s takes %u", n, d->op,
                    named);
  for (uint32_t i = 0; i < n || i < named; ++i)
    if ((i >= n || tn__entry_is_none(in[i])) && !is_optional(op, i))
      return i < n ? fail_absent(i)
                   : tn__fail(TN_INVALID, "input %u of %s, `%s`, is not given",
                              i, d->op, op->inputs[i]->name);
  return TN_OK;
}

static tn_code set_call_spec(tn__node_draft *d, tn_graph *graph,
                             tn__node_spec *spec) {
  const tn_op *op = spec->op->desc;
  if (d->seen & TN__KEY_PARAMS)
    TN__TRY(tn__params_parse(spec->op, d->params, &spec->params));
  else if (op->params_size > 0 && !spec->op->defaults)
    TN__TRY(tn__params_parse(spec->op, "", &spec->params));
  TN__TRY(check_call_inputs(d, op));
  TN__TRY(check_states(d, graph, op->n_aux));
  spec->n_aux = op->n_aux;
  return tn__operator_count_outputs(spec->op, spec->params, spec->n_in,
                                    &spec->n_out);
}

/* ---------------------------------------------------------- gradients, sums */

static tn_code set_backward_spec(const tn__node_draft *d, const tn_graph *graph,
                                 tn__node_spec *spec) {
  const tn__node *of =
      d->of < tn__n_nodes(graph) ? tn__node_at(graph, d->of) : NULL;
  if (!of || of->kind != TN__NODE_CALL)
    return tn__fail(TN_INVALID,
                    "`of` is %u, but must be the number of a call before it",
                    d->of);
  const uint64_t want = 2 * (uint64_t)of->n_out + of->n_in;
  if (spec->n_in != want)
    return tn__fail(TN_INVALID,
                    "the gradient of `%s` has %llu inputs: gradients of its "
                    "outputs, its inputs, its outputs; not %u",
                    of->name, (unsigned long long)want, spec->n_in);
  spec->of = d->of;
  spec->n_out = of->n_in;
  spec->op = of->op;
  spec->params = of->params;
  return TN_OK;
}

/* ------------------------------------------------------------ inner graphs */

static tn_code set_inner_spec(const tn__node_draft *d, const tn_graph *graph,
                              tn__node_spec *spec) {
  const tn_entry *variables = NULL;
  uint32_t n_arguments = 0, n_states = 0;
  if (d->inner->n_heads == 0)
    return tn__fail(TN_INVALID,
                    "its graph has no heads, which are its outputs");
  TN__TRY(tn__graph_variables(d->inner, &variables, &n_arguments, &n_states));
  TN__TRY(check_operands(d, 0, UINT32_MAX));
  if (spec->n_in != n_arguments)
    return tn__fail(TN_INVALID,
                    "it has %u inputs, but the heads of its graph depend on %u "
                    "arguments",
                    spec->n_in, n_arguments);
  TN__TRY(check_states(d, graph, n_states));
  spec->n_aux = n_states;
  spec->inner = d->inner;
  spec->n_out = (uint32_t)d->inner->n_heads;
  return TN_OK;
}

/* Checks that the positions of sequences and states are below the number of
 * inputs, and that no two are equal. */
static tn_code check_positions(const tn__node_draft *d, uint8_t *used) {
  const tn__buf *lists[] = {&d->sequences, &d->carried};
  for (int k = 0; k < 2; ++k)
    for (uint32_t i = 0; i < TN__LENGTH(uint32_t, *lists[k]); ++i) {
      const uint32_t at = TN__LIST(uint32_t, *lists[k])[i];
      if (at >= TN__LENGTH(tn_entry, d->in))
        return tn__fail(TN_INVALID, "a loop with %u inputs has no input %u",
                        TN__LENGTH(tn_entry, d->in), at);
      if (used[at]++)
        return tn__fail(TN_INVALID,
                        "input %u occurs twice in `sequences` and "
                        "`carried`",
                        at);
    }
  return TN_OK;
}

/* Checks that the heads of the step graph need the nodes of the kept entries.
 * Otherwise those nodes could read variables that the loop does not pass to the
 * step. */
static tn_code check_kept(const tn__node_draft *d) {
  const tn_graph *step = d->inner;
  const tn_entry *kept = TN__LIST(tn_entry, d->kept);
  const uint32_t n = TN__LENGTH(tn_entry, d->kept);
  tn__order order = {0};
  if (n == 0) return TN_OK;
  for (uint32_t i = 0; i < n; ++i)
    TN__TRY(tn__entry_check(step, kept[i], "a kept entry of a step"));
  uint8_t *needed = tn__zalloc(step->env, tn__n_nodes(step));
  if (!needed) return tn__fail_memory(tn__n_nodes(step), "a loop");
  tn_code rc = tn__order_make(step, step->heads, step->n_heads, &order);
  for (uint32_t i = 0; i < order.n; ++i) needed[order.ids[i]] = 1;
  tn__free(step->env, order.ids);
  for (uint32_t i = 0; rc == TN_OK && i < n; ++i)
    if (!needed[kept[i].node])
      rc = tn__fail(TN_INVALID,
                    "a loop keeps outputs of node `%s`, which the "
                    "heads of its graph do not need",
                    tn__node_at(step, kept[i].node)->name);
  tn__free(step->env, needed);
  return rc;
}

static tn_code set_loop_spec(const tn__node_draft *d, tn_graph *graph,
                             tn__loop *loop, tn__node_spec *spec) {
  TN__TRY(set_inner_spec(d, graph, spec));
  *loop = (tn__loop){.n_sequences = TN__LENGTH(uint32_t, d->sequences),
                     .n_states = TN__LENGTH(uint32_t, d->carried),
                     .n_kept = TN__LENGTH(tn_entry, d->kept),
                     .reverse = d->reverse,
                     .sequences = TN__LIST(uint32_t, d->sequences),
                     .states = TN__LIST(uint32_t, d->carried),
                     .kept = TN__LIST(tn_entry, d->kept)};
  TN__TRY(check_kept(d));
  if (loop->n_sequences == 0)
    return tn__fail(TN_INVALID, "a loop needs at least one sequence");
  if (loop->n_states > d->inner->n_heads)
    return tn__fail(TN_INVALID,
                    "a loop that carries %u states needs as many heads in its "
                    "graph, which has %zu",
                    loop->n_states, d->inner->n_heads);
  uint8_t *used = tn__zalloc(graph->env, (size_t)spec->n_in + 1);
  if (!used) return tn__fail_memory(spec->n_in, "the inputs of a loop");
  const tn_code rc = check_positions(d, used);
  tn__free(graph->env, used);
  spec->n_out += loop->n_states + loop->n_kept;
  spec->loop = loop;
  return rc;
}

/* --------------------------------------------------------------- attributes */

static int compare_keys(const void *a, const void *b) {
  return strcmp(((const tn_attribute *)a)->key, ((const tn_attribute *)b)->key);
}

static tn_code sort_attributes(const tn__node_draft *d) {
  tn_attribute *list = TN__LIST(tn_attribute, d->attributes);
  const uint32_t n = TN__LENGTH(tn_attribute, d->attributes);
  if (n > 1) qsort(list, n, sizeof *list, compare_keys);
  for (uint32_t i = 0; i < n; ++i) {
    if (list[i].key[0] == '\0')
      return tn__fail(TN_INVALID, "the key of an attribute is empty");
    if (i > 0 && strcmp(list[i - 1].key, list[i].key) == 0)
      return tn__fail(TN_INVALID, "it has the attribute `%.200s` twice",
                      list[i].key);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- enter */

static tn_code set_kind_spec(tn__node_draft *d, tn_graph *graph, tn__loop *loop,
                             tn__node_spec *spec) {
  switch (d->kind) {
    case TN__NODE_VARIABLE:
      spec->known = &d->known;
      return TN_OK;
    case TN__NODE_CALL:
      return set_call_spec(d, graph, spec);
    case TN__NODE_BACKWARD:
      return set_backward_spec(d, graph, spec);
    case TN__NODE_GRAPH:
      return set_inner_spec(d, graph, spec);
    case TN__NODE_LOOP:
      return set_loop_spec(d, graph, loop, spec);
    case TN__NODE_SUM:
      return check_operands(d, 2, UINT32_MAX);
    default:
      return check_operands(d, 1, 1);
  }
}

static tn_code add_node(tn__node_draft *d, tn_graph *graph,
                        const tn__node_spec *begun) {
  tn__loop loop;
  tn__node *node = NULL;
  tn__node_spec spec = *begun;
  tn_code rc = set_kind_spec(d, graph, &loop, &spec);
  spec.in = join_operands(d);
  if (rc == TN_OK && d->in.failed)
    rc = tn__fail_memory(d->in.n, "the inputs of a node");
  if (rc == TN_OK) rc = tn__node_add(graph, &spec, &node);
  /* A gradient borrows its call's parameters. */
  if (d->kind == TN__NODE_CALL) tn__params_release(spec.params);
  if (rc != TN_OK) return rc;
  d->inner = NULL;
  return tn__attributes_set_sorted(graph, node,
                                   TN__LIST(tn_attribute, d->attributes),
                                   TN__LENGTH(tn_attribute, d->attributes));
}

tn_code tn__draft_add_node(tn__node_draft *d, tn_graph *graph) {
  tn__node_spec spec = {
      .kind = d->kind,
      .flags = d->seen & TN__KEY_GRADIENT ? TN__NODE_GRADIENT : 0,
      .n_in = TN__LENGTH(tn_entry, d->in),
      .n_out = 1,
      .of = TN_NONE,
      .name = d->name,
      .in_flags = get_input_flags(d),
      .after = TN__LIST(uint32_t, d->after),
      .n_after = TN__LENGTH(uint32_t, d->after)};
  TN__TRY(check_keys(d));
  TN__TRY(check_shape_inputs(d));
  TN__TRY(sort_attributes(d));
  if (d->kind != TN__NODE_CALL) return add_node(d, graph, &spec);
  TN__TRY(tn__operator_get(graph->caller->registry, d->op, &spec.op));
  TN__TRY(tn__operator_hold(spec.op));
  const tn_code rc = add_node(d, graph, &spec);
  tn__operator_unhold(spec.op);
  return rc == TN_NOT_FOUND ? TN_INVALID : rc;
}
