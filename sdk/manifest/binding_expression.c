/* SPDX-License-Identifier: Apache-2.0
 * binding_expression.c: reads an argument that is an expression of sizes,
 * dimensions and parameters. The result is an integer or a list of integers.
 */
#include <string.h>

#include "expr.h"
#include "lower_binding.h"

/* --------------------------------------------------------------- dimensions */

/* Finds the axis of `arg` with an extent that is exactly the dimension variable
 * `dim`. *axis is negative, so it counts from the last axis, if the pattern has
 * a pack before that axis. */
static bool find_axis(const tnm_bind *b, const tn_arg *arg, uint32_t dim,
                      int32_t *axis) {
  bool before = false, after = false;
  if (arg->shape_kind != TN_SHAPE_PATTERN) return false;
  for (uint32_t i = 0; i < arg->n_terms; ++i) {
    const tn_node *node = &b->lower->op->nodes[arg->terms[i].node];
    before = before || arg->terms[i].spread != 0;
    if (node->op != TN_NODE_DIM || (uint32_t)node->a != dim) continue;
    for (uint32_t k = i; k < arg->n_terms; ++k)
      after = after || arg->terms[k].spread != 0;
    *axis = (int32_t)i - (before ? (int32_t)arg->n_terms : 0);
    return !(before && after);
  }
  return false;
}

/* Finds the operand dimension that gives a dimension variable its value in a
 * call. Returns false if no operand has such a dimension. */
static bool find_dimension(tnm_bind *b, uint32_t dim, tnm_bound_arg *out) {
  const uint32_t skipped = TN_ARG_OPTIONAL | TN_ARG_VARIADIC;
  out->pass = TNM_PASS_DIMENSION;
  for (out->list = 0; out->list < 3; ++out->list) {
    const tnm_operands *operands = &b->lower->operands[out->list];
    for (out->index = 0; out->index < operands->n; ++out->index) {
      const tn_arg *arg = operands->v[out->index];
      if ((arg->flags & skipped) == 0 && find_axis(b, arg, dim, &out->axis))
        return true;
    }
  }
  out->list = TN_NONE;
  return false;
}

/* Finds, for every dimension variable in the expression, the operand dimension
 * that gives its value. Returns false after a message. */
static bool find_dimensions(tnm_bind *b, const tnm_tree *node, size_t first) {
  for (size_t i = first; i < b->program.nodes.n; ++i) {
    const tn_node *n = b->program.nodes.v[i];
    if (n->op == TN_NODE_PACK) {
      const size_t id = tnm_report_mismatch(
          b, node->pos, NULL, "a pack has no place in an argument");
      tnm_diag_add_help(
          b->lower->diags, id,
          "write `rank(x)`, `size(x)` or `shape(x)` of an operand "
          "`x`");
      return false;
    }
    if (n->op != TN_NODE_DIM ||
        find_dimension(b, (uint32_t)n->a, &b->dims[n->a]))
      continue;
    const char *name = b->lower->op->dims[n->a];
    const char *what = tnm_format_text(
        b->lower->arena, "no shape has the dimension `%s` by itself", name);
    const size_t id =
        tnm_report_mismatch(b, node->pos, NULL, what != NULL ? what : "");
    tnm_diag_add_help(b->lower->diags, id,
                      "name it in the shape of an input: `shape: [%s]`", name);
    return false;
  }
  return true;
}

/* -------------------------------------------------------------- expressions */

/* Warns if the C type may be too small for the values of an integer
 * expression; `size` is true for numbers of elements. */
static void warn_narrow_type(const tnm_bind *b, const tnm_tree *c,
                             const tnm_bound_arg *out, bool size) {
  const tn_node *const *nodes = (const tn_node *const *)b->program.nodes.v;
  const tnm_range have = tnm_node_range(b, nodes, out->index);
  const uint32_t type = out->c == TNM_C_POINTER ? out->element : out->c;
  const tnm_range want = tnm_c_range(type);
  char under[128];
  if (have.low >= want.low && have.high <= want.high) return;
  const bool above = have.high > want.high;
  if (size)
    snprintf(under, sizeof under,
             "calls above %lld elements will return OUT_OF_RANGE",
             (long long)want.high);
  else
    snprintf(under, sizeof under,
             "calls where %s is %s %lld will return OUT_OF_RANGE",
             out->c == TNM_C_POINTER ? "one" : "it", above ? "above" : "below",
             (long long)(above ? want.high : want.low));
  tnm_diag_spec spec = {"W0061", c->pos, under};
  tnm_diag_add(b->lower->diags, &spec, "`%s` may not fit %s", out->text,
               tnm_c_names[type]);
}

/* Reports an expression with a kind of value, `is`, that does not fit the
 * argument's C type. `wanted` is the help text. Returns false, for the caller
 * to return. */
static bool report_unfit_expression(tnm_bind *b, const tnm_tree *node,
                                    const char *is, const tnm_c_type *type,
                                    const char *wanted) {
  const char *what = tnm_format_text(
      b->lower->arena, "`%s` is %s, %s wants something else", node->text, is,
      type->c == TNM_C_POINTER ? "a pointer" : tnm_c_names[type->c]);
  const size_t id =
      tnm_report_mismatch(b, node->pos, NULL, what != NULL ? what : "");
  tnm_diag_add_help(b->lower->diags, id, "%s", wanted);
  return false;
}

/* Returns the name of the operand of which a node computes a dimension or the
 * size. */
static const char *get_operand_name(const tnm_bind *b, const tn_node *node) {
  const bool dim = node->op == TN_NODE_DIM;
  if (!dim && node->op != TN_NODE_OPERAND_SIZE) return "x";
  const uint32_t list = dim ? b->dims[node->a].list : (uint32_t)node->a;
  const uint32_t index = dim ? b->dims[node->a].index : (uint32_t)node->b;
  return b->lower->operands[list].names[index];
}

/* Returns the help text for an integer where the function expects a pointer. */
static const char *get_pointer_help(tnm_bind *b, const tnm_bind_entry *at,
                                    const tn_node *node) {
  if (!tnm_is_integer_list(&at->type)) return "pass the name of a tensor";
  const char *name = get_operand_name(b, node);
  const char *text = tnm_format_text(
      b->lower->arena,
      "pass `shape(%s)` for all its dimensions; or write `c: %s` for this "
      "number, or add `by: address` for a pointer to it",
      name, tnm_c_names[at->type.element]);
  return text != NULL ? text : "";
}

/* Makes an integer expression, or a list of them, an argument. Returns false
 * after a message if the C type does not fit. */
static bool set_expression_argument(tnm_bind *b, const tnm_bind_entry *at,
                                    tnm_bound_arg *out) {
  out->pass = TNM_PASS_NODES;
  out->element = at->type.element;
  if (tnm_is_integer_list(&at->type)) {
    warn_narrow_type(b, at->c, out, false);
    return true;
  }
  const char *wanted = "write `c: const int64*`, or another type of integers";
  return report_unfit_expression(b, at->pass, "a list of integers", &at->type,
                                 wanted);
}

bool tnm_read_bound_expression(tnm_bind *b, const tnm_bind_entry *at,
                               tnm_bound_arg *out) {
  const tnm_item item = {at->pass->text, at->pass->pos};
  const size_t first = b->program.nodes.n;
  uint32_t top = 0;
  bool list = false;
  if (!tnm_read_line(b->lower->diags, at->pass) ||
      !tnm_program_value(&b->program, &item, &top, &list) ||
      !find_dimensions(b, at->pass, first))
    return false;
  const tn_node *n = b->program.nodes.v[top];
  const bool size = n->op == TN_NODE_OPERAND_SIZE;
  out->pass = TNM_PASS_NODE;
  out->index = top;
  if (list) return set_expression_argument(b, at, out);
  if (out->c > TNM_C_U64)
    return report_unfit_expression(
        b, at->pass, "an integer", &at->type,
        out->c == TNM_C_POINTER ? get_pointer_help(b, at, n)
                                : "pass a number or a parameter of type float");
  warn_narrow_type(b, at->c, out, size);
  if (size) {
    out->pass = TNM_PASS_SIZE;
    out->list = (uint32_t)n->a;
    out->index = (uint32_t)n->b;
  }
  if (n->op == TN_NODE_DIM) {
    const tnm_bound_arg *source = &b->dims[n->a];
    out->pass = TNM_PASS_DIMENSION;
    out->list = source->list;
    out->index = source->index;
    out->axis = source->axis;
  }
  return true;
}
