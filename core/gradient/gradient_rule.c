/* SPDX-License-Identifier: Apache-2.0
 * gradient_rule.c: the gradient of one node. For a call it is a BACKWARD node
 * if its operator has a backward kernel, or calls of the operators in its
 * table. For a BACKWARD node it is the gradient of the operator `<name>_grad`,
 * or, if the operator is linear, calls of the operator itself. Rules wire only
 * the operands that they read, so that a program need not keep the others.
 */
#include <stdio.h>
#include <string.h>

#include "gradient_rule.h"

/* ------------------------------------------------------------------- tables */

static const tn_gradient *get_gradient_table(const tn__node *node) {
  const tn_gradient *g = node->desc->gradient;
  return g && g->kind != TN_GRADIENT_NONE ? g : NULL;
}

static const tn_input_gradient *get_input_rule(const tn__node *node,
                                               uint32_t i) {
  const uint32_t n = node->desc->n_inputs;
  return get_gradient_table(node)->inputs[i < n ? i : n - 1];
}

bool tn__rule_can_pass(const tn__node *node, uint32_t i) {
  if (node->kind == TN__NODE_ZERO || node->kind == TN__NODE_ONE) return false;
  if (i >= node->n_in || tn__entry_is_none(node->in[i])) return false;
  if (node->in_flags && (node->in_flags[i] & TN_IN_METADATA)) return false;
  if (node->kind != TN__NODE_CALL || !get_gradient_table(node)) return true;
  return tn__gradient_is_nonzero(get_input_rule(node, i));
}

/* Whether the rule of one input reads the gradient of output `out`. */
static bool reads_output_gradient(const tn__node *node,
                                  const tn_input_gradient *rule, uint32_t out) {
  const tn_arg *arg = tn__node_output(node, out);
  const tn_arg *const *outputs = node->desc->outputs;
  for (uint32_t k = 0; k < rule->n_needs; ++k)
    if (rule->needs[k].what == TN_NEED_GRAD_OUT &&
        outputs[rule->needs[k].index] == arg)
      return true;
  return false;
}

bool tn__rule_reads_gradient(const tn__node *node, const uint8_t *wanted,
                             uint32_t out) {
  if (node->kind == TN__NODE_VARIABLE) return false;
  if (node->kind != TN__NODE_CALL || !get_gradient_table(node)) return true;
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (wanted[i] && reads_output_gradient(node, get_input_rule(node, i), out))
      return true;
  return false;
}

/* --------------------------------------------------------------- new nodes */

enum {
  LONGEST_STEM = 150
}; /* bytes of the name of an added node; a node with a longer name gets another
      name with a number */

tn_code tn__rule_add_node(const tn__gradient_rule *rule,
                          const tn__node_spec *like, const char *what,
                          tn__node **out) {
  const tn__node *of = rule->node;
  tn__node_spec spec = *like;
  char name[LONGEST_STEM + 32];
  (void)snprintf(name, sizeof name, "%s_%s", of->name, what);
  spec.name = strlen(of->name) <= LONGEST_STEM &&
                      !tn__map_get(&rule->graph->names, name)
                  ? name
                  : NULL;
  spec.stem = what;
  spec.flags |= TN__NODE_GRADIENT;
  if (spec.op) {
    spec.gradient_of = spec.kind == TN__NODE_CALL ? of->op : NULL;
    spec.after = rule->after;
    spec.n_after = rule->n_after;
  }
  TN__TRY(tn__node_add(rule->graph, &spec, out));
  for (uint32_t i = 0; i < of->n_attrs; ++i)
    TN__TRY(tn__attribute_set(rule->graph, (*out)->id, of->attrs[i].key,
                              of->attrs[i].value));
  return TN_OK;
}

tn_code tn__rule_add_constant(const tn__gradient_rule *rule, uint32_t kind,
                              tn_entry like, tn_entry *out) {
  tn__node *node = NULL;
  tn__node_spec spec = {
      .kind = kind, .n_in = 1, .n_out = 1, .of = TN_NONE, .in = &like};
  TN__TRY(tn__rule_add_node(rule, &spec, kind == TN__NODE_ZERO ? "zero" : "one",
                            &node));
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}

/* Gets the gradient of output `i` of the node; adds a node of zeros if it has
 * none. */
static tn_code get_gradient_or_zeros(const tn__gradient_rule *rule, uint32_t i,
                                     tn_entry *out) {
  *out = rule->grads[i];
  if (!tn__entry_is_none(*out)) return TN_OK;
  return tn__rule_add_constant(rule, TN__NODE_ZERO,
                               (tn_entry){rule->node->id, i}, out);
}

/* ------------------------------------------------------------------ kernels */

/* The inputs of a new BACKWARD node. For each one, `in` is the entry, and
 * `flags` is TN_IN_METADATA if the node reads only the shape of the entry, or
 * 0. */
typedef struct backward_inputs {
  tn_entry *in;
  uint32_t *flags;
  uint32_t n_out; /* number of outputs of the forward node; their gradients are
                     the first inputs of the BACKWARD node */
  uint32_t n_in;
} backward_inputs;

static void set_needed_input(backward_inputs *w, uint32_t at, tn_entry entry,
                             const tn_need *need) {
  if (tn__entry_is_none(entry)) return;
  if (tn__entry_is_none(w->in[at]))
    w->flags[at] = need->metadata ? TN_IN_METADATA : 0;
  else if (!need->metadata)
    w->flags[at] = 0;
  w->in[at] = entry;
}

/* Sets the gradient of output `i` as an input that a need names. If only its
 * shape is needed, the output itself, which has the same shape, replaces the
 * gradient. */
static tn_code set_needed_gradient(const tn__gradient_rule *rule,
                                   backward_inputs *w, uint32_t i,
                                   const tn_need *need) {
  tn_entry grad = {rule->node->id, i};
  const bool is_read =
      !tn__entry_is_none(w->in[i]) && !(w->flags[i] & TN_IN_METADATA);
  if (is_read) return TN_OK;
  if (!need->metadata) TN__TRY(get_gradient_or_zeros(rule, i, &grad));
  set_needed_input(w, i, grad, need);
  return TN_OK;
}

/* Rejects a rule that would read a changed state. Gradients run after all calls
 * that change a state, so a rule may read a state only if no call changes it
 * after the differentiated call. */
static tn_code check_state(const tn__gradient_rule *rule, tn_entry entry) {
  const tn_graph *graph = rule->graph;
  if (tn__entry_is_none(entry)) return TN_OK;
  const tn__node *state = tn__node_at(graph, entry.node);
  if (!(state->flags & TN__NODE_STATE)) return TN_OK;
  for (uint32_t id = rule->node->id + 1; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    for (uint32_t i = node->n_in; i < node->n_in + node->n_aux; ++i)
      if (node->in[i].node == state->id)
        return tn__fail(TN_UNSUPPORTED,
                        "the gradient of `%s` reads the state `%s`, which "
                        "`%s` changes later, so it would read the changed "
                        "state; let `%s` read a copy of the state",
                        rule->node->name, state->name, node->name,
                        rule->node->name);
  }
  return TN_OK;
}

static tn_code set_need_inputs(const tn__gradient_rule *rule,
                               backward_inputs *w, const tn_need *need) {
  const tn__node *node = rule->node;
  const tn_op *op = node->desc;
  if (need->what == TN_NEED_IN) {
    for (uint32_t i = 0; i < node->n_in; ++i) {
      if (tn__node_input(node, i) != op->inputs[need->index]) continue;
      if (!need->metadata) TN__TRY(check_state(rule, node->in[i]));
      set_needed_input(w, w->n_out + i, node->in[i], need);
    }
    return TN_OK;
  }
  for (uint32_t i = 0; i < node->n_out; ++i) {
    if (tn__node_output(node, i) != op->outputs[need->index]) continue;
    if (need->what == TN_NEED_GRAD_OUT)
      TN__TRY(set_needed_gradient(rule, w, i, need));
    else
      set_needed_input(w, w->n_out + w->n_in + i, (tn_entry){node->id, i},
                       need);
  }
  return TN_OK;
}

static tn_code set_all_inputs(const tn__gradient_rule *rule,
                              backward_inputs *w) {
  for (uint32_t i = 0; i < rule->node->n_in; ++i) {
    if (!rule->wanted[i]) continue;
    const tn_input_gradient *r = get_input_rule(rule->node, i);
    for (uint32_t k = 0; k < r->n_needs; ++k)
      TN__TRY(set_need_inputs(rule, w, &r->needs[k]));
  }
  return TN_OK;
}

static tn_code add_backward(const tn__gradient_rule *rule,
                            const backward_inputs *w) {
  const tn__node *of = rule->node;
  tn__node *node = NULL;
  tn__node_spec spec = {.kind = TN__NODE_BACKWARD,
                        .n_in = 2 * of->n_out + of->n_in,
                        .n_out = of->n_in,
                        .of = of->id,
                        .in = w->in,
                        .in_flags = w->flags,
                        .op = of->op,
                        .params = of->params};
  TN__TRY(tn__rule_add_node(rule, &spec, "backward", &node));
  for (uint32_t i = 0; i < of->n_in; ++i)
    if (rule->wanted[i]) rule->out[i] = (tn_entry){node->id, i};
  return TN_OK;
}

static tn_code add_kernel_gradient(const tn__gradient_rule *rule) {
  const tn__env *env = rule->graph->env;
  const tn__node *of = rule->node;
  const size_t n = 2 * (size_t)of->n_out + of->n_in;
  backward_inputs w = {.n_in = of->n_in, .n_out = of->n_out};
  w.in = tn__alloc(env, n * sizeof *w.in);
  w.flags = tn__zalloc(env, n * sizeof *w.flags);
  for (size_t i = 0; w.in && i < n; ++i) w.in[i] = TN_ENTRY_NONE;
  tn_code rc = w.in && w.flags ? set_all_inputs(rule, &w)
                               : tn__fail_memory(n * sizeof *w.in,
                                                 "the gradient of a node");
  if (rc == TN_OK) rc = add_backward(rule, &w);
  tn__free(env, w.in);
  tn__free(env, w.flags);
  return rc;
}

/* --------------------------------------------------------------- operators */

/* The evaluation of the gradient graph of one input: a stack machine that runs
 * the steps of the table in postfix order. */
typedef struct stack_machine {
  const tn__gradient_rule *rule;
  tn_entry *stack;
  uint32_t n;
} stack_machine;

static tn_code fail_absent_input(const tn__node *node) {
  return tn__fail(TN_INVALID,
                  "its gradient reads an input of %s that is not "
                  "given",
                  node->op->name);
}

/* Pushes an operand of the differentiated call; of a variadic operand, the
 * first. */
static tn_code push_entry(stack_machine *m, const tn_step *step) {
  const tn__node *node = m->rule->node;
  const tn_op *op = node->desc;
  tn_entry entry = TN_ENTRY_NONE;
  if (step->what == TN_NEED_IN) {
    if (step->index < node->n_in) entry = node->in[step->index];
    if (tn__entry_is_none(entry)) return fail_absent_input(node);
    TN__TRY(check_state(m->rule, entry));
  } else {
    uint32_t i = 0;
    while (tn__node_output(node, i) != op->outputs[step->index]) ++i;
    entry = (tn_entry){node->id, i};
    if (step->what == TN_NEED_GRAD_OUT)
      TN__TRY(get_gradient_or_zeros(m->rule, i, &entry));
  }
  m->stack[m->n++] = entry;
  return TN_OK;
}

static tn_code add_call(stack_machine *m, const tn_step *step,
                        tn_operator *op) {
  const tn__node *of = m->rule->node;
  const tn_params *own = of->params ? of->params : of->op->defaults;
  const uint32_t first = m->n - step->index;
  tn_params *params = NULL;
  tn__node *node = NULL;
  TN__TRY(tn__params_expand_template(own, step->params, op, &params));
  tn__node_spec spec = {.kind = TN__NODE_CALL,
                        .n_in = step->index,
                        .of = TN_NONE,
                        .in = m->stack + first,
                        .op = op,
                        .params = params};
  tn_code rc = tn__operator_count_outputs(op, params, step->index, &spec.n_out);
  if (rc == TN_OK && op->desc->n_aux > 0)
    rc = tn__fail(TN_UNSUPPORTED, "its gradient calls %s, which has states",
                  op->name);
  if (rc == TN_OK) rc = tn__rule_add_node(m->rule, &spec, "grad", &node);
  tn__params_release(params);
  if (rc != TN_OK) return rc;
  m->n = first;
  m->stack[m->n++] = (tn_entry){node->id, 0};
  return TN_OK;
}

static tn_code push_call(stack_machine *m, const tn_step *step) {
  tn_operator *op = NULL;
  tn_code rc =
      tn__operator_get(m->rule->graph->caller->registry, step->op, &op);
  if (rc == TN_OK) rc = tn__operator_hold(op);
  if (rc == TN_NOT_FOUND)
    return tn__fail(TN_UNSUPPORTED, "its gradient cannot be computed: %s",
                    tn_error_text());
  if (rc != TN_OK) return rc;
  rc = add_call(m, step, op);
  tn__operator_unhold(op);
  return rc;
}

static tn_code run_steps(const tn__gradient_rule *rule, uint32_t i) {
  const tn_input_gradient *r = get_input_rule(rule->node, i);
  const size_t bytes = r->n_steps * sizeof(tn_entry);
  tn_code rc = TN_OK;
  stack_machine m = {.rule = rule, .stack = tn__alloc(rule->graph->env, bytes)};
  if (!m.stack) return tn__fail_memory(bytes, "the graph of a gradient");
  for (uint32_t k = 0; rc == TN_OK && k < r->n_steps; ++k)
    rc = r->steps[k].what == TN_STEP_CALL ? push_call(&m, &r->steps[k])
                                          : push_entry(&m, &r->steps[k]);
  if (rc == TN_OK) rule->out[i] = m.stack[0];
  tn__free(rule->graph->env, m.stack);
  return rc;
}

static tn_code add_graph_gradients(const tn__gradient_rule *rule) {
  for (uint32_t i = 0; i < rule->node->n_in; ++i)
    if (rule->wanted[i]) TN__TRY(run_steps(rule, i));
  return TN_OK;
}

static tn_code apply_call_rule(const tn__gradient_rule *rule) {
  const tn__node *node = rule->node;
  const tn_gradient *g = node->desc->gradient;
  if (get_gradient_table(node))
    return g->kind == TN_GRADIENT_KERNEL ? add_kernel_gradient(rule)
                                         : add_graph_gradients(rule);
  return tn__fail(TN_UNSUPPORTED,
                  "a requested gradient depends on it, and it has "
                  "no gradient: %s",
                  g && g->why ? g->why : "its manifest gives none");
}

/* ------------------------------------------------------------ second order */

/* Number of inputs of a node without the absent ones at the end. */
static uint32_t count_present_inputs(const tn__node *of) {
  uint32_t n = of->n_in;
  while (n > 0 && tn__entry_is_none(of->in[n - 1])) --n;
  return n;
}

/* Fills the inputs of a call of `<name>_grad` that the BACKWARD node does not
 * have. The kernel of `<name>_grad` reads no more inputs than the BACKWARD node
 * has, so any entry of the right shape is valid; existing entries cost nothing.
 */
static tn_code fill_grad_operator_inputs(const tn__gradient_rule *rule,
                                         const tn__node *of, tn_entry *in) {
  const tn__node *back = rule->node;
  const uint32_t n = count_present_inputs(of);
  memcpy(in, back->in, back->n_in * sizeof *in);
  for (uint32_t i = 0; i < of->n_out; ++i)
    if (tn__entry_is_none(in[i]))
      TN__TRY(tn__rule_add_constant(rule, TN__NODE_ZERO, (tn_entry){of->id, i},
                                    &in[i]));
  for (uint32_t i = 0; i < of->n_in; ++i)
    if (tn__entry_is_none(in[of->n_out + i])) in[of->n_out + i] = of->in[i];
  for (uint32_t i = 0; i < of->n_out; ++i)
    if (tn__entry_is_none(in[of->n_out + of->n_in + i]))
      in[of->n_out + of->n_in + i] = (tn_entry){of->id, i};
  memmove(in + of->n_out + n, in + of->n_out + of->n_in,
          of->n_out * sizeof *in);
  return TN_OK;
}

static tn_code add_grad_operator_call(const tn__gradient_rule *rule,
                                      const tn__node *of, tn_operator *op,
                                      tn__node **out) {
  const tn__node *back = rule->node;
  const tn__env *env = rule->graph->env;
  tn_params *params = NULL;
  tn__node_spec spec = {.kind = TN__NODE_CALL,
                        .n_in = 2 * of->n_out + count_present_inputs(of),
                        .n_out = count_present_inputs(of),
                        .of = TN_NONE,
                        .op = op};
  TN__TRY(tn__params_convert(of->params ? of->params : of->op->defaults, op,
                             &params));
  tn_entry *in = tn__alloc(env, back->n_in * sizeof *in);
  tn_code rc =
      in ? fill_grad_operator_inputs(rule, of, in)
         : tn__fail_memory(back->n_in * sizeof *in, "the gradient of a node");
  spec.in = in;
  spec.params = params;
  if (rc == TN_OK) rc = tn__rule_add_node(rule, &spec, "twin", out);
  tn__free(env, in);
  tn__params_release(params);
  return rc;
}

/* Differentiates a BACKWARD node of operator NAME: adds a call of the operator
 * `<name>_grad`, which computes the same, and differentiates that call. A
 * program computes the call only if its own gradient reads its outputs. */
static tn_code apply_backward_rule(const tn__gradient_rule *rule) {
  const tn__node *of = tn__node_at(rule->graph, rule->node->of);
  const tn__gradient_counts counts = {count_present_inputs(of), of->n_out};
  const uint32_t outputs = of->n_out + counts.n_in; /* index of the first
                                                       output of `of` */
  const uint32_t absent = of->n_in - counts.n_in;
  tn_operator *op = NULL;
  tn__node *twin = NULL;
  TN__TRY(tn__operator_gradient(of->op, &counts, &op));
  const tn_code rc = add_grad_operator_call(rule, of, op, &twin);
  tn__operator_unhold(op);
  TN__TRY(rc);
  tn__gradient_rule second = *rule;
  second.node = twin;
  second.wanted = rule->room;
  for (uint32_t i = 0; i < twin->n_in; ++i)
    rule->room[i] = rule->wanted[i < outputs ? i : i + absent] &&
                    tn__rule_can_pass(twin, i);
  TN__TRY(apply_call_rule(&second));
  for (uint32_t i = twin->n_in; i-- > outputs && absent > 0;) {
    rule->out[i + absent] = rule->out[i];
    rule->out[i] = TN_ENTRY_NONE;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ the rest
 */

static void pass_gradient_through(const tn__gradient_rule *rule) {
  for (uint32_t i = 0; i < rule->node->n_in; ++i)
    if (rule->wanted[i]) rule->out[i] = rule->grads[0];
}

tn_code tn__rule_apply(const tn__gradient_rule *rule) {
  const tn__node *node = rule->node;
  tn_code rc = TN_OK;
  for (uint32_t i = 0; i < node->n_in; ++i) rule->out[i] = TN_ENTRY_NONE;
  switch (node->kind) {
    case TN__NODE_CALL:
      rc = apply_call_rule(rule);
      break;
    case TN__NODE_BACKWARD:
      rc = tn__operator_is_linear(node->desc) ? tn__rule_apply_linear(rule)
                                              : apply_backward_rule(rule);
      break;
    case TN__NODE_GRAPH:
      rc = tn__rule_apply_graph(rule);
      break;
    case TN__NODE_LOOP:
      rc = tn__rule_apply_loop(rule);
      break;
    default:
      pass_gradient_through(rule);
  }
  return rc == TN_OK ? TN_OK : tn__node_fail(node, rc);
}
