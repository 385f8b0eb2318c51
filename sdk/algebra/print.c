/* SPDX-License-Identifier: Apache-2.0
 * print.c: prints expressions as text with only the parentheses that the
 * grammar requires, and checks the limits of the text.
 */
#include <string.h>

#include "algebra.h"

/* Rules of the grammar, from loose to tight binding. */
enum { COMPARISON, SUM, PRODUCT, PREFIX, POWER, PRIMARY };

static int rule_of(const tnm_expr *e) {
  if (e->kind == TNM_NEG) return PREFIX;
  if (e->kind != TNM_BINARY) return PRIMARY;
  if (e->op == '+' || e->op == '-') return SUM;
  if (e->op == '^') return POWER;
  return strchr("*/%", e->op) ? PRODUCT : COMPARISON;
}

/* The loosest rule allowed for an operand of an operator. */
static int operand_rule(int rule, uint32_t i) {
  if (rule == COMPARISON) return SUM;
  if (rule == PREFIX) return PREFIX;
  if (rule == POWER) return i == 0 ? PRIMARY : PREFIX;
  return rule + (int)i;
}

static const char *operator_text(char op) {
  static const char letters[] = "+-*/%^<>lgen";
  static const char *const texts[] = {" + ",  " - ",  "*",    "/",
                                      " % ",  "^",    " < ",  " > ",
                                      " <= ", " >= ", " == ", " != "};
  return texts[strchr(letters, op) - letters];
}

static void print_node(tn__buf *out, const tnm_expr *e, int least);

static void print_call(tn__buf *out, const tnm_expr *e) {
  tn__buf_add(out, "%s(", e->text);
  for (uint32_t i = 0; i < e->n_args; ++i) {
    if (i > 0) tn__buf_add(out, ", ");
    print_node(out, e->args[i], COMPARISON);
  }
  tn__buf_add(out, ")");
}

static void print_bare(tn__buf *out, const tnm_expr *e, int rule) {
  switch (e->kind) {
    case TNM_NEG:
      tn__buf_add(out, "-");
      print_node(out, e->args[0], operand_rule(rule, 0));
      break;
    case TNM_BINARY:
      print_node(out, e->args[0], operand_rule(rule, 0));
      tn__buf_add(out, "%s", operator_text(e->op));
      print_node(out, e->args[1], operand_rule(rule, 1));
      break;
    case TNM_CALL:
      print_call(out, e);
      break;
    case TNM_REDUCE:
      tn__buf_add(out, "%s(", tnm_reduction_name(e->index));
      print_node(out, e->args[0], COMPARISON);
      tn__buf_add(out, ", %s)", e->text);
      break;
    case TNM_COUNT:
      tn__buf_add(out, "count(%s)", e->text);
      break;
    default:
      tn__buf_add(out, "%s%s", e->kind == TNM_GRAD ? "grad." : "", e->text);
  }
}

static void print_node(tn__buf *out, const tnm_expr *e, int least) {
  const int rule = rule_of(e);
  if (rule < least) tn__buf_add(out, "(");
  print_bare(out, e, rule);
  if (rule < least) tn__buf_add(out, ")");
}

void tnm_expr_print(tn__buf *out, const tnm_expr *expr) {
  print_node(out, expr, COMPARISON);
}

/* ------------------------------------------------------------------------ size
 */

/* The parser's depth at the deepest operand, as print_node nests it. */
static uint32_t depth_of(const tnm_expr *e, int least) {
  const int rule = rule_of(e);
  uint32_t deepest = 1;
  for (uint32_t i = 0; i < e->n_args; ++i) {
    const bool call = e->kind == TNM_CALL || e->kind == TNM_REDUCE;
    const bool deeper = call || rule == PREFIX || (rule == POWER && i == 1);
    const uint32_t depth =
        depth_of(e->args[i], call ? COMPARISON : operand_rule(rule, i)) +
        (deeper ? 1 : 0);
    if (depth > deepest) deepest = depth;
  }
  return deepest + (rule < least ? 1 : 0);
}

static void count_nodes(const tnm_expr *e, uint32_t *n) {
  if (e->kind == TNM_REDUCE || e->kind == TNM_COUNT) ++*n; /* the axes */
  if (++*n > TNM_EXPR_MAX_NODES) return;
  for (uint32_t i = 0; i < e->n_args; ++i) count_nodes(e->args[i], n);
}

bool tnm_expr_is_short(const tnm_expr *expr) {
  uint32_t n = 0;
  count_nodes(expr, &n);
  return n <= TNM_EXPR_MAX_NODES &&
         depth_of(expr, COMPARISON) <= TNM_EXPR_MAX_DEPTH;
}
