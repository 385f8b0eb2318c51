/* SPDX-License-Identifier: Apache-2.0
 * gradient_rule_inner.c: the gradient of a graph or loop that is used as an
 * operator. It is again a node with a graph or loop, over the gradient of the
 * inner one.
 *
 * It computes the needed part of the inner graph a second time. Inner entries
 * are not visible outside of a node. The alternatives would be nodes that get
 * outputs after their creation, which breaks the entries that users hold, or
 * nodes that have all inner entries as outputs, which makes each node as long
 * as its graph. A second computation costs one forward pass of the node. It
 * keeps only the node's inputs and, for a loop, the states before each step;
 * for a long loop this is the cheaper choice. Programs flatten graphs first, so
 * for graphs they pay nothing.
 *
 * Nodes that change a state or use random numbers are never computed twice. A
 * loop keeps their outputs of each step in hidden outputs, which cost nothing
 * until a node reads them; in the loop's gradient they replace these nodes. A
 * graph keeps nothing, so its gradient is refused.
 */
#include <stdio.h>
#include <string.h>

#include "gradient_rule_inner.h"

/* ----------------------------------------------------------------- variables
 */

/* Lets a variable of the inner graph get its value from an entry of the outer
 * graph. */
static tn_code connect_variable(tn__inner_gradient *x, tn_entry inside,
                                tn_entry outside) {
  const char *name = tn__node_at(x->graph, inside.node)->name;
  x->in[x->keys.n] = outside;
  return tn__vec_push(x->graph->env, &x->keys, (void *)(uintptr_t)name);
}

static tn_code connect_listed_variable(tn__inner_gradient *x, tn__vec *list,
                                       tn_entry inside, tn_entry outside) {
  const char *name = tn__node_at(x->graph, inside.node)->name;
  TN__TRY(connect_variable(x, inside, outside));
  return tn__vec_push(x->graph->env, list, (void *)(uintptr_t)name);
}

/* Adds a variable to the inner graph. */
static tn_code add_variable(tn__inner_gradient *x, const char *stem,
                            tn_entry *out) {
  tn__node *node = NULL;
  const tn__node_spec spec = {
      .kind = TN__NODE_VARIABLE, .n_out = 1, .of = TN_NONE, .stem = stem};
  TN__TRY(tn__node_add(x->graph, &spec, &node));
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}

static tn_code add_inner_node(tn__inner_gradient *x, tn__node_spec *spec,
                              tn_entry *out) {
  tn__node *node = NULL;
  spec->n_out = 1;
  spec->of = TN_NONE;
  spec->flags = TN__NODE_GRADIENT;
  TN__TRY(tn__node_add(x->graph, spec, &node));
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}

static tn_code add_inner_zeros(tn__inner_gradient *x, tn_entry like,
                               tn_entry *out) {
  tn__node_spec spec = {
      .kind = TN__NODE_ZERO, .n_in = 1, .in = &like, .stem = "zero"};
  return add_inner_node(x, &spec, out);
}

static tn_code add_inner_sum(tn__inner_gradient *x, tn_entry a, tn_entry b,
                             tn_entry *out) {
  tn__node_spec spec = {
      .kind = TN__NODE_SUM, .n_in = 2, .in = (tn_entry[]){a, b}, .stem = "sum"};
  return add_inner_node(x, &spec, out);
}

/* Replaces *entry by a copy of it that has a control dependency on a variable.
 * So the heads need the variable: a node must not have inputs that its heads do
 * not need. */
static tn_code add_pinned_copy(tn__inner_gradient *x, tn_entry variable_,
                               tn_entry *entry) {
  tn__node_spec spec = {.kind = TN__NODE_COPY,
                        .n_in = 1,
                        .in = entry,
                        .stem = "pin",
                        .after = &variable_.node,
                        .n_after = 1};
  return add_inner_node(x, &spec, entry);
}

/* ----------------------------------------------------------------- gradient */

/* Adds gradients to the inner graph, from those heads that have output
 * gradients. */
static tn_code differentiate_inner(tn__inner_gradient *x) {
  tn_entry *heads = x->heads; /* not yet used */
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->n_bodies + x->n_kept; ++i) {
    if (tn__entry_is_none(x->weights[i])) continue;
    heads[n] = i < x->n_bodies ? x->bodies[i] : x->kept[i - x->n_bodies];
    x->weights[n++] = x->weights[i];
  }
  const tn__gradient_spec spec = {.query = {.heads = heads,
                                            .weights = x->weights,
                                            .of = x->of,
                                            .n_heads = n,
                                            .n_of = x->n_of},
                                  .optional = 1};
  return tn__graph_gradient(x->graph, &spec, x->gradients);
}

/* Sets the heads, and finds the variables that they need. */
static tn_code set_heads(tn__inner_gradient *x) {
  const tn__env *env = x->graph->env;
  const tn_entry *variables = NULL;
  const size_t bytes = tn__n_nodes(x->graph) * sizeof *x->needed;
  uint32_t n_arguments = 0, n_states = 0;
  TN__TRY(tn__graph_heads_set(x->graph, x->heads, x->n_heads));
  TN__TRY(tn__graph_variables(x->graph, &variables, &n_arguments, &n_states));
  tn__free(env, x->needed);
  x->needed = tn__zalloc(env, bytes);
  if (!x->needed) return tn__fail_memory(bytes, "a graph in a graph");
  for (uint32_t i = 0; i < n_arguments; ++i)
    x->needed[variables[i].node] = true;
  return TN_OK;
}

static bool is_variable_needed(const tn__inner_gradient *x, const char *name) {
  const tn__node *node = tn__map_get(&x->graph->names, name);
  return x->needed[node->id];
}

/* Removes from the lists the inputs that the gradient does not read. */
static void keep_needed_inputs(const tn__inner_gradient *x, tn__vec *names,
                               tn_entry *entries) {
  size_t n = 0;
  for (size_t i = 0; i < names->n; ++i) {
    if (!is_variable_needed(x, names->v[i])) continue;
    names->v[n] = names->v[i];
    if (entries) entries[n] = entries[i];
    ++n;
  }
  names->n = n;
}

enum { NEEDED = 1u << 0, SHAPES = 1u << 1 }; /* marks of a node */

/* Marks the nodes that the heads need. Also marks the calls that their
 * gradients belong to, and the nodes that these calls depend on, because they
 * determine the shapes of the gradients. */
static tn_code mark_calls(const tn__inner_gradient *x, uint8_t *marks) {
  const tn_graph *graph = x->graph;
  tn__order order;
  TN__TRY(tn__order_make(graph, x->heads, x->n_heads, &order));
  for (uint32_t i = 0; i < order.n; ++i) {
    const tn__node *node = tn__node_at(graph, order.ids[i]);
    marks[node->id] |= NEEDED;
    if (node->kind == TN__NODE_BACKWARD) marks[node->of] |= SHAPES;
  }
  tn__free(graph->env, order.ids);
  for (uint32_t id = tn__n_nodes(graph); id-- > 0;) {
    const tn__node *node = tn__node_at(graph, id);
    if (!(marks[id] & SHAPES)) continue;
    if (node->kind == TN__NODE_BACKWARD) marks[node->of] |= SHAPES;
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (!tn__entry_is_none(node->in[i])) marks[node->in[i].node] |= SHAPES;
  }
  return TN_OK;
}

/* Makes the heads need the input variables on which only shapes depend, so that
 * the node keeps them as inputs. */
static tn_code pin_marked_variables(tn__inner_gradient *x, const uint8_t *marks,
                                    uint32_t *after) {
  tn__node_spec spec = {.kind = TN__NODE_COPY,
                        .n_in = 1,
                        .in = &x->heads[0],
                        .stem = "pin",
                        .after = after};
  for (size_t i = 0; i < x->keys.n; ++i) {
    const tn__node *node = tn__map_get(&x->graph->names, x->keys.v[i]);
    if (marks[node->id] == SHAPES) after[spec.n_after++] = node->id;
  }
  return spec.n_after > 0 ? add_inner_node(x, &spec, &x->heads[0]) : TN_OK;
}

static tn_code pin_shapes(tn__inner_gradient *x) {
  const tn__env *env = x->graph->env;
  uint8_t *marks = tn__zalloc(env, tn__n_nodes(x->graph) + (size_t)1);
  uint32_t *after = tn__alloc(env, (x->keys.n + 1) * sizeof *after);
  tn_code rc = TN_OK;
  if (!marks || !after)
    rc = tn__fail_memory(x->keys.n * sizeof *after, "a graph in a graph");
  if (rc == TN_OK) rc = mark_calls(x, marks);
  if (rc == TN_OK) rc = pin_marked_variables(x, marks, after);
  tn__free(env, marks);
  tn__free(env, after);
  return rc;
}

static tn_code enter_heads(tn__inner_gradient *x) {
  TN__TRY(pin_shapes(x));
  TN__TRY(set_heads(x));
  keep_needed_inputs(x, &x->keys, x->in);
  keep_needed_inputs(x, &x->sequences, NULL);
  return TN_OK;
}

/* Makes the name of the new node in the graph's arena: "<name>_backward". */
static tn_code make_node_name(const tn__inner_gradient *x, const char **out) {
  char name[200];
  tn_graph *graph = x->rule->graph;
  (void)snprintf(name, sizeof name, "%.160s_backward", x->node->name);
  return tn__graph_name_make(
      graph, tn__map_get(&graph->names, name) ? NULL : name, "backward", out);
}

/* ------------------------------------------------------------------- graphs */

static tn_code add_graph_variables(tn__inner_gradient *x) {
  const tn__gradient_rule *rule = x->rule;
  for (uint32_t i = 0; i < x->node->n_in; ++i) {
    TN__TRY(connect_variable(x, x->inputs[i], x->node->in[i]));
    if (!rule->wanted[i]) continue;
    x->of[x->n_of] = x->inputs[i];
    x->which[x->n_of++] = i;
  }
  for (uint32_t i = 0; i < x->n_bodies; ++i) {
    x->weights[i] = TN_ENTRY_NONE;
    if (tn__entry_is_none(rule->grads[i])) continue;
    TN__TRY(add_variable(x, "grad", &x->weights[i]));
    TN__TRY(connect_variable(x, x->weights[i], rule->grads[i]));
  }
  return TN_OK;
}

static tn_code add_graph_node(tn__inner_gradient *x) {
  const char *name = NULL;
  tn_entry first;
  for (uint32_t k = 0; k < x->n_of; ++k)
    if (!tn__entry_is_none(x->gradients[k]))
      x->heads[x->n_heads++] = x->gradients[k];
  if (x->n_heads == 0) return TN_OK;
  TN__TRY(enter_heads(x));
  TN__TRY(make_node_name(x, &name));
  const tn_embedding what = {.struct_size = sizeof what,
                             .n_in = (uint32_t)x->keys.n,
                             .inner = x->graph,
                             .name = name,
                             .in = x->in,
                             .keys = (const char *const *)x->keys.v,
                             .attributes = x->node->attrs,
                             .n_attributes = x->node->n_attrs};
  TN__TRY(tn__graph_embed(x->rule->graph, &what, &first));
  for (uint32_t k = 0; k < x->n_of; ++k)
    if (!tn__entry_is_none(x->gradients[k])) {
      x->rule->out[x->which[k]] = first;
      ++first.index;
    }
  return TN_OK;
}

tn_code tn__rule_apply_graph(const tn__gradient_rule *rule) {
  tn__inner_gradient x;
  tn_code rc = tn__inner_begin(&x, rule);
  if (rc == TN_OK) rc = add_graph_variables(&x);
  if (rc == TN_OK) rc = differentiate_inner(&x);
  if (rc == TN_OK) rc = add_graph_node(&x);
  return tn__inner_end(&x, rc);
}

/* -------------------------------------------------------------------- loops
 *
 * The gradient of
 *
 *   state', out[t] = step(x[t], state, w)      for t = 0, 1, ...
 *
 * is a loop in the other direction. The loop has the state before each step as
 * a hidden output. One step of the gradient is
 *
 *   dstate, dw, dx[t] = gradient of step at (x[t], state[t], w),
 *                       with output gradients dstate' and dout[t]
 *   dw is added to the previous dw
 *
 * dstate' begins as the gradient of the last state, dw as zeros. If this loop
 * is differentiated again, the states before each step have gradients as well,
 * which are added to dstate, and so have the kept entries of each step, which
 * are further output gradients. */

enum { CONSTANT = 0, SEQUENCE = 1, STATE = 2 };

typedef struct loop {
  tn__inner_gradient x;
  const tn__loop *like; /* the differentiated loop */
  uint8_t *roles;       /* by input: CONSTANT, SEQUENCE or STATE */
  uint32_t n_states;    /* number of states of the differentiated loop; their
                           gradients are first in x.of */
  tn_entry *after;      /* for each state, an entry of the inner graph: the
                           gradient with respect to the state after the step
                           (dstate') */
  tn_entry *sums;       /* for each other gradient, an entry of the inner graph:
                           the sum before the step; NONE if the gradient is
                           collected per step */
} loop;

static void find_roles(const tn__loop *like, uint8_t *roles) {
  for (uint32_t i = 0; i < like->n_sequences; ++i)
    roles[like->sequences[i]] = SEQUENCE;
  for (uint32_t i = 0; i < like->n_states; ++i) roles[like->states[i]] = STATE;
}

/* Adds the inputs of the original step: elements, states, constants. */
static tn_code add_loop_inputs(loop *l) {
  tn__inner_gradient *x = &l->x;
  const tn__node *node = x->node;
  const tn__loop *like = l->like;
  for (uint32_t i = 0; i < node->n_in; ++i) {
    if (l->roles[i] == STATE) continue;
    if (l->roles[i] == SEQUENCE)
      TN__TRY(
          connect_listed_variable(x, &x->sequences, x->inputs[i], node->in[i]));
    else
      TN__TRY(connect_variable(x, x->inputs[i], node->in[i]));
  }
  for (uint32_t k = 0; k < like->n_states; ++k)
    TN__TRY(connect_listed_variable(x, &x->sequences,
                                    x->inputs[like->states[k]],
                                    (tn_entry){node->id, x->n_bodies + k}));
  for (uint32_t k = 0; k < x->n_kept; ++k)
    TN__TRY(connect_listed_variable(
        x, &x->sequences, x->replacements[k],
        (tn_entry){node->id, x->n_bodies + l->n_states + k}));
  return TN_OK;
}

/* --------------------------------------------- replacements of kept entries */

/* Replaces *entry by its item in `by`, unless that item is TN_ENTRY_NONE. */
static void replace_entry(const tn__inner_gradient *x, const tn_entry *by,
                          tn_entry *entry) {
  if (tn__entry_is_none(*entry)) return;
  const tn_entry other = by[tn__entry_id(x->graph, *entry)];
  if (!tn__entry_is_none(other)) *entry = other;
}

/* Removes the control dependencies of a node on nodes that must not be computed
 * twice. */
static void remove_dependencies(const tn_graph *graph, tn__node *node) {
  uint32_t *after = (uint32_t *)(uintptr_t)node->after; /* owned by this copy */
  uint32_t n = 0;
  for (uint32_t i = 0; i < node->n_after; ++i)
    if (tn__node_is_repeatable(tn__node_at(graph, after[i])))
      after[n++] = after[i];
  node->n_after = n;
}

/* Makes the readers of kept entries read their replacements. */
static tn_code replace_kept(tn__inner_gradient *x) {
  if (x->n_kept == 0) return TN_OK;
  tn_entry *by = tn__graph_create_map(x->graph);
  if (!by) return tn__fail_memory(x->graph->n_entries, "a graph in a graph");
  for (uint32_t k = 0; k < x->n_kept; ++k)
    by[tn__entry_id(x->graph, x->kept[k])] = x->replacements[k];
  for (uint32_t id = 0; id < tn__n_nodes(x->graph); ++id) {
    tn__node *node = tn__node_at(x->graph, id);
    for (uint32_t i = 0; i < node->n_in; ++i)
      replace_entry(x, by, &node->in[i]);
    remove_dependencies(x->graph, node);
  }
  for (uint32_t k = 0; k < x->n_of; ++k) replace_entry(x, by, &x->gradients[k]);
  tn__free(x->graph->env, by);
  return TN_OK;
}

/* Adds the output gradients of a step, dstate' and dout[t], as variables of the
 * inner graph. */
static tn_code add_loop_output_gradients(loop *l) {
  tn__inner_gradient *x = &l->x;
  for (uint32_t i = 0; i < x->n_bodies; ++i) {
    tn_entry grad = x->rule->grads[i];
    x->weights[i] = TN_ENTRY_NONE;
    if (i < l->n_states) {
      if (tn__entry_is_none(grad))
        TN__TRY(tn__rule_add_constant(x->rule, TN__NODE_ZERO,
                                      (tn_entry){x->node->id, i}, &grad));
      TN__TRY(add_variable(x, "grad", &x->weights[i]));
      TN__TRY(connect_listed_variable(x, &x->states, x->weights[i], grad));
      l->after[i] = x->weights[i];
    } else if (!tn__entry_is_none(grad)) {
      TN__TRY(add_variable(x, "grad", &x->weights[i]));
      TN__TRY(connect_listed_variable(x, &x->sequences, x->weights[i], grad));
    }
  }
  for (uint32_t k = 0; k < x->n_kept; ++k) {
    const tn_entry grad = x->rule->grads[x->n_bodies + l->n_states + k];
    tn_entry *weight = &x->weights[x->n_bodies + k];
    *weight = TN_ENTRY_NONE;
    if (tn__entry_is_none(grad)) continue;
    TN__TRY(add_variable(x, "grad", weight));
    TN__TRY(connect_listed_variable(x, &x->sequences, *weight, grad));
  }
  return TN_OK;
}

/* Lists all states, then the other requested gradients. */
static void list_loop_requests(loop *l) {
  tn__inner_gradient *x = &l->x;
  const tn__loop *like = l->like;
  for (uint32_t k = 0; k < like->n_states; ++k) {
    x->of[x->n_of] = x->inputs[like->states[k]];
    x->which[x->n_of++] = like->states[k];
  }
  for (uint32_t i = 0; i < x->node->n_in; ++i) {
    if (!x->rule->wanted[i] || l->roles[i] == STATE) continue;
    x->of[x->n_of] = x->inputs[i];
    x->which[x->n_of++] = i;
  }
}

/* Adds dstate as heads: for each state, the gradient that the step computes
 * plus the output gradient of the state before the step. */
static tn_code add_state_heads(loop *l) {
  tn__inner_gradient *x = &l->x;
  for (uint32_t k = 0; k < l->n_states; ++k) {
    const tn_entry more = x->rule->grads[x->n_bodies + k];
    tn_entry head = x->gradients[k], extra = TN_ENTRY_NONE;
    if (!tn__entry_is_none(more)) {
      TN__TRY(add_variable(x, "grad", &extra));
      TN__TRY(connect_listed_variable(x, &x->sequences, extra, more));
    }
    if (tn__entry_is_none(head))
      head = extra;
    else if (!tn__entry_is_none(extra))
      TN__TRY(add_inner_sum(x, head, extra, &head));
    if (tn__entry_is_none(head))
      TN__TRY(add_inner_zeros(x, l->after[k], &head));
    x->heads[x->n_heads++] = head;
  }
  return TN_OK;
}

/* Adds dw as heads: for each constant, the previous sum plus the gradient of
 * this step. These sums are states of the new loop. */
static tn_code add_sum_heads(loop *l) {
  tn__inner_gradient *x = &l->x;
  for (uint32_t k = l->n_states; k < x->n_of; ++k) {
    const uint32_t i = x->which[k];
    tn_entry zero;
    l->sums[k] = TN_ENTRY_NONE;
    if (tn__entry_is_none(x->gradients[k]) || l->roles[i] == SEQUENCE) continue;
    TN__TRY(
        tn__rule_add_constant(x->rule, TN__NODE_ZERO, x->node->in[i], &zero));
    TN__TRY(add_variable(x, "sum", &l->sums[k]));
    TN__TRY(connect_listed_variable(x, &x->states, l->sums[k], zero));
    TN__TRY(
        add_inner_sum(x, l->sums[k], x->gradients[k], &x->heads[x->n_heads++]));
  }
  return TN_OK;
}

/* Adds dx[t] as heads: the gradients of the elements of sequences. */
static void add_collected_heads(loop *l) {
  tn__inner_gradient *x = &l->x;
  for (uint32_t k = l->n_states; k < x->n_of; ++k)
    if (tn__entry_is_none(l->sums[k]) && !tn__entry_is_none(x->gradients[k]))
      x->heads[x->n_heads++] = x->gradients[k];
}

static bool reads_sequence(const tn__inner_gradient *x) {
  for (size_t i = 0; i < x->sequences.n; ++i)
    if (is_variable_needed(x, x->sequences.v[i])) return true;
  return false;
}

/* Makes the heads need every state, and one sequence, which determines the
 * number of steps. */
static tn_code pin_loop_inputs(loop *l) {
  tn__inner_gradient *x = &l->x;
  TN__TRY(set_heads(x));
  for (uint32_t k = 0; k < l->n_states; ++k)
    if (!is_variable_needed(x, tn__node_at(x->graph, l->after[k].node)->name))
      TN__TRY(add_pinned_copy(x, l->after[k], &x->heads[k]));
  if (reads_sequence(x)) return TN_OK;
  return add_pinned_copy(x, x->inputs[l->like->sequences[0]], &x->heads[0]);
}

/* Writes the answers: the requested gradients among the outputs of the new
 * node. States and sums are in the order of the heads, collected gradients
 * follow. */
static void write_loop_answers(const loop *l, uint32_t node) {
  const tn__inner_gradient *x = &l->x;
  uint32_t at = 0;
  for (int collected = 0; collected < 2; ++collected)
    for (uint32_t k = 0; k < x->n_of; ++k) {
      const bool state = k < l->n_states;
      if (!state && tn__entry_is_none(x->gradients[k])) continue;
      const bool last = !state && tn__entry_is_none(l->sums[k]);
      if (last != (collected != 0)) continue;
      const tn_entry entry = {node, at++};
      if (x->rule->wanted[x->which[k]]) x->rule->out[x->which[k]] = entry;
    }
}

static tn_code add_loop_node(loop *l) {
  tn__inner_gradient *x = &l->x;
  const char *name = NULL;
  tn_entry first;
  TN__TRY(make_node_name(x, &name));
  const tn_loop what = {.struct_size = sizeof what,
                        .n_in = (uint32_t)x->keys.n,
                        .step = x->graph,
                        .name = name,
                        .sequences = (const char *const *)x->sequences.v,
                        .states = (const char *const *)x->states.v,
                        .n_sequences = (uint32_t)x->sequences.n,
                        .n_states = (uint32_t)x->states.n,
                        .reverse = !l->like->reverse,
                        .in = x->in,
                        .keys = (const char *const *)x->keys.v,
                        .attributes = x->node->attrs,
                        .n_attributes = x->node->n_attrs};
  TN__TRY(tn__graph_loop(x->rule->graph, &what, &first));
  write_loop_answers(l, first.node);
  return TN_OK;
}

static tn_code make_loop(loop *l) {
  TN__TRY(add_loop_inputs(l));
  TN__TRY(add_loop_output_gradients(l));
  list_loop_requests(l);
  TN__TRY(differentiate_inner(&l->x));
  TN__TRY(replace_kept(&l->x));
  TN__TRY(add_state_heads(l));
  TN__TRY(add_sum_heads(l));
  add_collected_heads(l);
  if (l->x.n_heads == 0) return TN_OK;
  TN__TRY(pin_loop_inputs(l));
  TN__TRY(enter_heads(&l->x));
  TN__TRY(tn__inner_check_step(&l->x));
  return add_loop_node(l);
}

tn_code tn__rule_apply_loop(const tn__gradient_rule *rule) {
  const tn__env *env = rule->graph->env;
  const tn__node *node = rule->node;
  loop l = {.like = node->loop, .n_states = node->loop->n_states};
  const size_t n = (size_t)node->n_in + node->n_out + 1;
  tn_code rc = tn__inner_begin(&l.x, rule);
  l.after = tn__alloc(env, n * sizeof *l.after);
  l.sums = tn__alloc(env, n * sizeof *l.sums);
  l.roles = tn__zalloc(env, n);
  if (rc == TN_OK && (!l.after || !l.sums || !l.roles))
    rc = tn__fail_memory(n * sizeof *l.sums, "the gradient of a loop");
  if (rc == TN_OK) find_roles(l.like, l.roles);
  if (rc == TN_OK) rc = make_loop(&l);
  tn__free(env, l.roles);
  tn__free(env, l.after);
  tn__free(env, l.sums);
  return tn__inner_end(&l.x, rc);
}
