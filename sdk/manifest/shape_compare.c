/* SPDX-License-Identifier: Apache-2.0
 * shape_compare.c: the operators of conditions, and comparisons of parameters
 * of type float. All other rules about shapes compute with integers.
 */
#include <string.h>

#include "expr.h"

uint32_t tnm_find_binary_node(char op) {
  static const struct {
    char op;
    uint32_t node;
  } ops[] = {
      {'+', TN_NODE_ADD}, {'-', TN_NODE_SUB}, {'*', TN_NODE_MUL},
      {'/', TN_NODE_DIV}, {'%', TN_NODE_MOD}, {'^', TN_NODE_POW},
      {'<', TN_NODE_LT},  {'>', TN_NODE_GT},  {'l', TN_NODE_LE},
      {'g', TN_NODE_GE},  {'e', TN_NODE_EQ},
  };
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i)
    if (ops[i].op == op) return ops[i].node;
  return TN_NODE_NE;
}

/* One side of a comparison: a parameter, or the number if `param` is -1. */
typedef struct side {
  int32_t param;
  double number;
  bool is_float; /* a parameter of type float */
} side;

/* Reads a side. Returns false if it is neither a number nor a parameter of type
 * float or int. */
static bool read_side(const tnm_scope *scope, const tnm_expr *expr, side *out) {
  *out = (side){.param = -1};
  const bool negative = expr->kind == TNM_NEG;
  if (negative) expr = expr->args[0];
  if (expr->kind == TNM_NUMBER) {
    out->number = negative && expr->number > 0 ? -expr->number : expr->number;
    return true;
  }
  const uint32_t index = expr->kind == TNM_NAME && !negative
                             ? tnm_scope_param(scope, expr->text)
                             : TN_NONE;
  if (index == TN_NONE) return false;
  const uint32_t type = scope->params[index]->type;
  out->param = (int32_t)index;
  out->is_float = type == TN_FIELD_FLOAT;
  return type == TN_FIELD_FLOAT || type == TN_FIELD_INT;
}

/* Returns the comparison with its sides exchanged. */
static uint32_t exchange_sides(uint32_t op) {
  if (op == TN_NODE_LT) return TN_NODE_GT;
  if (op == TN_NODE_LE) return TN_NODE_GE;
  if (op == TN_NODE_GT) return TN_NODE_LT;
  return op == TN_NODE_GE ? TN_NODE_LE : op;
}

bool tnm_compare_floats(const tnm_scope *scope, const tnm_expr *expr,
                        tn_node *out) {
  uint32_t op = tnm_find_binary_node(expr->op);
  side a, b;
  if (op < TN_NODE_EQ || op > TN_NODE_GE ||
      !read_side(scope, expr->args[0], &a) ||
      !read_side(scope, expr->args[1], &b) || !(a.is_float || b.is_float))
    return false;
  if (a.param < 0) {
    const side first = a;
    a = b;
    b = first;
    op = exchange_sides(op);
  }
  *out = (tn_node){.op = TN_NODE_COMPARE_PARAMS,
                   .a = a.param,
                   .b = b.param,
                   .c = (int32_t)op};
  memcpy(&out->value, &b.number, sizeof out->value);
  return true;
}
