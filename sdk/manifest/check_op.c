/* SPDX-License-Identifier: Apache-2.0
 * check_op.c: checks that the tables of one operator agree with each other: its
 * shape programs, operands, requirements and gradient. The structural part in
 * check.c has run before: pointers are present and enum values are valid.
 */
#include <string.h>

#include "check.h"

/* Checks that n is at most `most`; `what` names the counted things for the
 * message. */
static tn_code check_count(const char *what, uint32_t n, uint32_t most) {
  if (n <= most) return TN_OK;
  return tn__fail(TN_PLUGIN, "%u %s are too many; at most %u are allowed", n,
                  what, most);
}

/* ----------------------------------------------------------- shape programs */

/* Tests whether an index is one of n items. */
static bool is_index_below(int32_t index, uint32_t n) {
  return index >= 0 && (uint32_t)index < n;
}

/* Tests whether the operand exists. Any index of a variadic input exists,
 * because it represents any number of operands. */
static bool is_operand(const tn_op *op, int32_t list, int32_t index) {
  const uint32_t n[] = {op->n_inputs, op->n_outputs, op->n_aux};
  if (!is_index_below(list, 3)) return false;
  return is_index_below(index, n[list]);
}

/* Tests whether parameter `index` is one number that can be compared. */
static bool is_comparable(const tn_op *op, int32_t index) {
  return is_index_below(index, op->n_params) &&
         (op->params[index]->type == TN_FIELD_FLOAT ||
          op->params[index]->type == TN_FIELD_INT);
}

/* Tests whether a node refers to dimensions, parameters and operands that the
 * operator has. */
static bool has_valid_operands(const tn_op *op, const tn_node *node) {
  switch (node->op) {
    case TN_NODE_DIM:
      return is_index_below(node->a, op->n_dims);
    case TN_NODE_PACK:
      return is_index_below(node->a, op->n_packs);
    case TN_NODE_PARAM:
      return is_index_below(node->a, op->n_params);
    case TN_NODE_COMPARE_PARAMS:
      return is_comparable(op, node->a) &&
             (node->b == -1 || is_comparable(op, node->b)) &&
             node->c >= TN_NODE_EQ && node->c <= TN_NODE_GE;
    case TN_NODE_HAS:
      return is_index_below(node->a, op->n_inputs);
    case TN_NODE_OPERAND_RANK:
    case TN_NODE_OPERAND_SIZE:
    case TN_NODE_OPERAND_SHAPE:
      return is_operand(op, node->a, node->b);
    default:
      return true;
  }
}

/* Checks that node i of a shape program reads only nodes before it. */
static tn_code check_node(const tn_op *op, const tn_node *nodes, uint32_t i) {
  const int32_t args[] = {nodes[i].a, nodes[i].b, nodes[i].c};
  bool good = !op || has_valid_operands(op, &nodes[i]);
  for (uint32_t k = 0; k < tnm_node_arity(nodes[i].op); ++k)
    good = good && is_index_below(args[k], i);
  if (good) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "nodes[%u] (operation %u) refers to %d, %d, %d; not all of "
                  "these exist before it",
                  i, nodes[i].op, args[0], args[1], args[2]);
}

/* Counts the nodes of the expression at node `i` in parts[i], each as many
 * times as it is used. Rejects more than TNM_MOST_PARTS, because a node is
 * evaluated at each use: 60 nodes could cost 2^60 evaluations. */
static tn_code count_evaluations(const tn_node *nodes, uint32_t i,
                                 uint16_t *parts) {
  const int32_t args[] = {nodes[i].a, nodes[i].b, nodes[i].c};
  uint32_t n = 1;
  for (uint32_t k = 0; k < tnm_node_arity(nodes[i].op); ++k)
    n += parts[args[k]];
  if (n > TNM_MOST_PARTS)
    return tn__fail(TN_PLUGIN,
                    "nodes[%u] is an expression of %u parts, with each use of "
                    "a node counted; at most %d are allowed",
                    i, n, TNM_MOST_PARTS);
  parts[i] = (uint16_t)n;
  return TN_OK;
}

tn_code tnm_check_nodes(const tn_op *op, const tn_node *nodes, uint32_t n) {
  uint16_t parts[TNM_MOST_NODES];
  TN__TRY(check_count("nodes", n, TNM_MOST_NODES));
  for (uint32_t i = 0; i < n; ++i) {
    TN__TRY(check_node(op, nodes, i));
    TN__TRY(count_evaluations(nodes, i, parts));
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- operators */

/* Checks that the element type, type variable or dtype parameter of an operand
 * exists. */
static tn_code check_arg_dtype(const tn_op *op, const tn_arg *arg) {
  TN__TRY(tnm_check_limit("dtype_var", arg->dtype_var, op->n_dtype_vars));
  TN__TRY(tnm_check_limit("dtype_param", arg->dtype_param, op->n_params));
  if (arg->dtype_param != TN_NONE &&
      op->params[arg->dtype_param]->type != TN_FIELD_DTYPE)
    return tn__fail(TN_PLUGIN, "dtype_param is %u, which is not a dtype",
                    arg->dtype_param);
  if (arg->dtype_var == TN_NONE && arg->dtype_param == TN_NONE &&
      !tn__dtype_bit(arg->dtype))
    return tn__fail(TN_PLUGIN, "dtype 0x%x is none that Tenon knows",
                    arg->dtype);
  return TN_OK;
}

/* Checks that the rule of an operand's shape refers to operands and nodes that
 * exist. */
static tn_code check_arg_shape(const tn_op *op, const tn_arg *arg) {
  if (arg->shape_kind == TN_SHAPE_SAME &&
      !is_operand(op, (int32_t)arg->shape_list, (int32_t)arg->shape_index))
    return tn__fail(TN_PLUGIN, "its shape is that of operand %u of list %u",
                    arg->shape_index, arg->shape_list);
  TN__TRY(check_count("terms", arg->n_terms, 2 * TN_MAX_NDIM));
  for (uint32_t i = 0; i < arg->n_terms; ++i)
    if (!is_index_below(arg->terms[i].node, op->n_nodes) ||
        arg->terms[i].spread > 1)
      return tn__fail(TN_PLUGIN, "terms[%u] is node %d, spread %u", i,
                      arg->terms[i].node, arg->terms[i].spread);
  return tnm_check_limit("count", arg->count, op->n_nodes);
}

static tn_code check_arg(const tn_op *op, const tn_arg *arg) {
  TN__TRY(tnm_check_name("it", arg->name, false));
  TN__TRY(check_arg_dtype(op, arg));
  TN__TRY(check_arg_shape(op, arg));
  TN__TRY(tnm_check_limit("inplace", arg->inplace, op->n_inputs));
  if ((arg->flags & TN_ARG_VIEW) != 0 && arg->inplace == TN_NONE)
    return tn__fail(TN_PLUGIN, "it is a view of no input");
  return tnm_check_limit("init", arg->init, op->n_inputs);
}

/* Checks a list of n operands; `what` names the list for messages. */
static tn_code check_args(const tn_op *op, const char *what,
                          const tn_arg *const *args, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    tn_code rc = check_arg(op, args[i]);
    if (!rc && (args[i]->role == TN_ROLE_LOSS) > (args == op->outputs))
      rc = tn__fail(TN_PLUGIN, "only an output may be a loss");
    if (!rc && args[i]->flags & TN_ARG_VARIADIC &&
        (args != op->inputs || i + 1 < n))
      rc = tn__fail(TN_PLUGIN, "only the last input may be variadic");
    if (rc)
      return tn__fail_more(rc, ", in %s %u (%.80s)", what, i,
                           args[i]->name ? args[i]->name : "?");
  }
  return TN_OK;
}

/* Tests whether a text has the form of a called operator: "plugin.op@1". */
static bool is_operator_step(const char *text) {
  const char *at = text == NULL ? NULL : strchr(text, '@');
  const char *dot = text == NULL ? NULL : strchr(text, '.');
  return at != NULL && dot != NULL && dot > text && at > dot + 1 && at[1];
}

/* Checks the steps of a gradient graph as a stack machine: each step pops only
 * values that are on the stack, and one value remains at the end. limits[] are
 * the numbers of inputs, outputs and output gradients, by TN_NEED_*. */
static tn_code check_steps(const tn_op *op, const tn_input_gradient *g,
                           const uint32_t *limits) {
  const bool graph = op->gradient->kind == TN_GRADIENT_GRAPH;
  const uint32_t n = TN_HAS(g, steps) ? g->n_steps : 0;
  uint32_t height = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const tn_step *step = &g->steps[i];
    const bool call = step->what == TN_STEP_CALL;
    if (call ? step->index > height : step->index >= limits[step->what])
      return tn__fail(TN_PLUGIN, "step %u uses an entry that does not exist",
                      i);
    if (call != is_operator_step(step->op))
      return tn__fail(TN_PLUGIN, "step %u names no operator", i);
    height = call ? height - step->index + 1 : height + 1;
  }
  if (height == (graph && !g->stop ? 1 : 0)) return TN_OK;
  return tn__fail(TN_PLUGIN, "its graph leaves %u values", height);
}

/* Checks the needs and steps of the gradient of one input. */
static tn_code check_input_gradient(const tn_op *op,
                                    const tn_input_gradient *g) {
  static const char *const what[] = {"the gradient of output", "input",
                                     "output"};
  const uint32_t limits[] = {op->n_outputs, op->n_inputs, op->n_outputs};
  for (uint32_t i = 0; i < g->n_needs; ++i)
    if (g->needs[i].index >= limits[g->needs[i].what])
      return tn__fail(TN_PLUGIN, "need %u is %s %u; there are %u", i,
                      what[g->needs[i].what], g->needs[i].index,
                      limits[g->needs[i].what]);
  TN__TRY(check_steps(op, g, limits));
  return tnm_check_limit("inplace", g->inplace,
                         2 * op->n_outputs + op->n_inputs);
}

/* Checks how the operator computes its gradients. */
static tn_code check_gradient(const tn_op *op) {
  const tn_gradient *g = op->gradient;
  if (!g || (g->kind == TN_GRADIENT_NONE && !g->n_inputs)) return TN_OK;
  if (g->n_inputs != op->n_inputs)
    return tn__fail(TN_PLUGIN,
                    "the gradient of %.80s speaks of %u inputs; the operator "
                    "has %u",
                    op->name, g->n_inputs, op->n_inputs);
  for (uint32_t i = 0; i < g->n_inputs; ++i) {
    tn_code rc = check_input_gradient(op, g->inputs[i]);
    if (rc) return tn__fail_more(rc, ", in the gradient of input %u", i);
  }
  return TN_OK;
}

static tn_code check_dtype_vars(const tn_op *op) {
  const uint64_t known = (UINT64_C(1) << TN__N_DTYPES) - 1;
  for (uint32_t i = 0; i < op->n_dtype_vars; ++i) {
    TN__TRY(tnm_check_name("a type variable", op->dtype_vars[i]->name, false));
    if (!(op->dtype_vars[i]->allowed & known))
      return tn__fail(TN_PLUGIN, "the type variable %s allows no type",
                      op->dtype_vars[i]->name);
  }
  return TN_OK;
}

/* Checks the numbers of operands and variables of an operator. The time of
 * shape inference grows faster than these numbers. */
static tn_code check_operator_counts(const tn_op *op) {
  TN__TRY(check_count("inputs", op->n_inputs, TNM_MOST_OPERANDS));
  TN__TRY(check_count("outputs", op->n_outputs, TNM_MOST_OPERANDS));
  TN__TRY(check_count("states", op->n_aux, TNM_MOST_OPERANDS));
  TN__TRY(check_count("dimensions", op->n_dims, TNM_MOST_OPERANDS));
  TN__TRY(check_count("packs", op->n_packs, TNM_MOST_OPERANDS));
  return check_count("requirements", op->n_requires, TNM_MOST_OPERANDS);
}

static tn_code check_operator_body(const tn_op *op) {
  const tnm_fields params = {op->params, op->n_params, op->params_size};
  TN__TRY(check_operator_counts(op));
  TN__TRY(tnm_check_name("an operator", op->name, false));
  if (!op->interface)
    return tn__fail(TN_PLUGIN, "interface is 0; releases count from 1");
  TN__TRY(tnm_check_fields("parameter", &params, true));
  TN__TRY(check_dtype_vars(op));
  TN__TRY(tnm_check_nodes(op, op->nodes, op->n_nodes));
  TN__TRY(check_args(op, "input", op->inputs, op->n_inputs));
  TN__TRY(check_args(op, "output", op->outputs, op->n_outputs));
  TN__TRY(check_args(op, "aux", op->aux, op->n_aux));
  for (uint32_t i = 0; i < op->n_requires; ++i)
    if (op->requirements[i]->node >= op->n_nodes)
      return tn__fail(TN_PLUGIN, "requirement %u is node %u; there are %u", i,
                      op->requirements[i]->node, op->n_nodes);
  return check_gradient(op);
}

/* Tests whether a shape is declared to be computed by the plugin's own
 * function. */
static bool needs_infer_function(const tn_op *op) {
  bool hook = false;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    hook = hook || op->inputs[i]->shape_kind == TN_SHAPE_HOOK;
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    hook = hook || op->outputs[i]->shape_kind == TN_SHAPE_HOOK;
  for (uint32_t i = 0; i < op->n_aux; ++i)
    hook = hook || op->aux[i]->shape_kind == TN_SHAPE_HOOK;
  return hook;
}

tn_code tnm_check_op(const tn_op *op, bool has_functions) {
  TN__TRY(check_operator_body(op));
  if (has_functions && needs_infer_function(op) && !op->infer)
    return tn__fail(TN_PLUGIN, "a shape is left to a hook, but infer is NULL");
  return TN_OK;
}
