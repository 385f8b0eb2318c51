/* SPDX-License-Identifier: Apache-2.0
 * alias.c: finds results that equal an input: views, for example of `reshape`,
 * and gradients that equal the gradient of an output, for example of a sum. If
 * the plan puts both into one place, the step has nothing to compute. For an
 * output, its operator declares the view. For a gradient, the evidence is the
 * formula that opgen read or derived, and that types and shapes follow from one
 * another. Hand-written kernels have no formula: only gradients of views are
 * known for them.
 */
#include <string.h>

#include "program.h"

/* An operand of an operator's table. */
typedef struct place {
  uint32_t list; /* TN_OPERAND_* */
  uint32_t index;
} place;

static const tn_arg *get_arg(const tn_op *op, place at) {
  if (at.list == TN_OPERAND_IN && at.index < op->n_inputs)
    return op->inputs[at.index];
  if (at.list == TN_OPERAND_OUT && at.index < op->n_outputs)
    return op->outputs[at.index];
  return NULL;
}

/* Follows the shape rules of an operator from operand to operand, and returns
 * the first operand with that shape. A rule names an earlier operand. */
static place find_shape_operand(const tn_op *op, place at) {
  for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; ++i) {
    const tn_arg *arg = get_arg(op, at);
    if (!arg || arg->shape_kind != TN_SHAPE_SAME) break;
    at = (place){arg->shape_list, arg->shape_index};
  }
  return at;
}

static bool has_same_shape(const tn_op *op, place a, place b) {
  const place one = find_shape_operand(op, a), two = find_shape_operand(op, b);
  return one.list == two.list && one.index == two.index;
}

static bool has_same_type(const tn_arg *a, const tn_arg *b) {
  return a->dtype_var != TN_NONE && a->dtype_var == b->dtype_var;
}

/* Tests whether a formula is exactly "grad.<name>". */
static bool is_gradient_of(const char *formula, const char *name) {
  static const char grad[] = "grad.";
  const size_t n = sizeof grad - 1;
  return strncmp(formula, grad, n) == 0 && strcmp(formula + n, name) == 0;
}

/* Returns the output of a call with a gradient that equals that of input `i`;
 * TN_NONE: none. */
static uint32_t find_gradient_alias(const tn_op *op, uint32_t i) {
  const tn_input_gradient *rule = op->gradient->inputs[i];
  if (rule->stop || !rule->formula || rule->n_needs != 1) return TN_NONE;
  const tn_need *need = rule->needs;
  if (need->what != TN_NEED_GRAD_OUT || need->metadata) return TN_NONE;
  const place in = {TN_OPERAND_IN, i}, out = {TN_OPERAND_OUT, need->index};
  const tn_arg *arg = get_arg(op, out);
  const bool same = arg && is_gradient_of(rule->formula, arg->name) &&
                    has_same_type(arg, get_arg(op, in)) &&
                    has_same_shape(op, in, out);
  return same ? need->index : TN_NONE;
}

/* Returns the input that output `i` is a view of; TN_NONE: none. An operator
 * with states has no views here, because a call may change a state. */
static uint32_t find_viewed_input(const tn_op *op, uint32_t i) {
  const tn_arg *arg = op->outputs[i];
  const bool seen = (arg->flags & TN_ARG_VIEW) != 0 && op->n_aux == 0;
  return seen ? arg->inplace : TN_NONE;
}

/* Tests whether the gradient of input `i` is a view of the output's gradient,
 * because the only output is a view of the input. With a formula, the formula
 * decides alone; a kernel that reads other operands does not compute such a
 * gradient. */
static bool is_view_gradient(const tn_op *op, uint32_t i) {
  const tn_input_gradient *rule = op->gradient->inputs[i];
  if (op->n_outputs != 1 || find_viewed_input(op, 0) != i || rule->stop ||
      rule->formula)
    return false;
  for (uint32_t k = 0; k < rule->n_needs; ++k)
    if (rule->needs[k].what != TN_NEED_GRAD_OUT && !rule->needs[k].metadata)
      return false;
  return true;
}

uint32_t tn__step_find_alias(const tn__step *step, uint32_t i) {
  const tn_program *p = step->program;
  if (step->kind != TN__STEP_CALL || p->how.plan != TN_PLAN_DEFAULT)
    return TN_NONE;
  const bool back = step->node->kind == TN__NODE_BACKWARD;
  const tn__node *of =
      back ? tn__node_at(p->graph, step->node->of) : step->node;
  if (of->kind != TN__NODE_CALL || step->joint ||
      of->n_out != of->desc->n_outputs || of->n_in != of->desc->n_inputs)
    return TN_NONE;
  if (!back) return i < of->n_out ? find_viewed_input(of->desc, i) : TN_NONE;
  if (i >= of->n_in) return TN_NONE;
  return is_view_gradient(of->desc, i) ? 0 : find_gradient_alias(of->desc, i);
}

bool tn__step_is_alias(const tn__step *step, uint32_t i) {
  const tn__plan_place *at = tn__plan_place_of(step->program, step->out[i]);
  if (!at || at->alias < 0) return false;
  return tn__step_find_alias(step, i) == (uint32_t)at->alias;
}
