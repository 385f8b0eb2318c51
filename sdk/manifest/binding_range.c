/* SPDX-License-Identifier: Apache-2.0
 * binding_range.c: computes the range of an integer expression. So `opgen
 * check`, and not a call, reports an argument with too narrow a type.
 */
#include "lower_binding.h"

/* The bound of a range without a limit, in place of infinity. The sum of two
 * such bounds does not overflow. */
#define RANGE_LIMIT ((int64_t)1 << 61)
/* The greatest assumed size and dimension, and the greatest int. */
#define MAX_INT 2147483647

/* Limits a bound of a range to RANGE_LIMIT in both directions. */
static int64_t limit_bound(int64_t value) {
  if (value > RANGE_LIMIT) return RANGE_LIMIT;
  return value < -RANGE_LIMIT ? -RANGE_LIMIT : value;
}

/* Returns a * b, at most RANGE_LIMIT and at least -RANGE_LIMIT. */
static int64_t multiply_bounds(int64_t a, int64_t b) {
  int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return limit_bound(out);
  return (a < 0) == (b < 0) ? RANGE_LIMIT : -RANGE_LIMIT;
}

/* Returns the range of values that a parameter may have. */
static tnm_range get_field_range(const tn_field *field) {
  tnm_range range = {-RANGE_LIMIT, RANGE_LIMIT};
  if (field->type == TN_FIELD_BOOL) return (tnm_range){0, 1};
  if (field->type == TN_FIELD_ENUM)
    return (tnm_range){0, (int64_t)field->n_values - 1};
  if ((field->flags & TN_FIELD_HAS_MIN) != 0)
    range.low = limit_bound(field->min_int);
  if ((field->flags & TN_FIELD_HAS_MAX) != 0)
    range.high = limit_bound(field->max_int);
  /* A parameter without a declared limit is assumed to be within the range of
   * int. */
  if ((field->flags & TN_FIELD_HAS_MIN) == 0 && range.high > -MAX_INT)
    range.low = -MAX_INT - 1;
  if ((field->flags & TN_FIELD_HAS_MAX) == 0 && range.low < MAX_INT)
    range.high = MAX_INT;
  if ((field->flags & TN_FIELD_OPTIONAL) == 0) return range;
  if (range.low > 0) range.low = 0; /* None counts as 0 */
  if (range.high < 0) range.high = 0;
  return range;
}

/* Returns the least range that contains both ranges. */
static tnm_range unite_ranges(tnm_range a, tnm_range b) {
  return (tnm_range){a.low < b.low ? a.low : b.low,
                     a.high > b.high ? a.high : b.high};
}

/* Returns the range of products of a value in `a` and a value in `b`. */
static tnm_range multiply_ranges(tnm_range a, tnm_range b) {
  const int64_t corners[] = {
      multiply_bounds(a.low, b.low), multiply_bounds(a.low, b.high),
      multiply_bounds(a.high, b.low), multiply_bounds(a.high, b.high)};
  tnm_range range = {corners[0], corners[0]};
  for (int i = 1; i < 4; ++i)
    range = unite_ranges(range, (tnm_range){corners[i], corners[i]});
  return range;
}

/* Returns the range of quotients of a dividend in `a` and a divisor in `b`.
 * Division rounds towards zero, so a quotient's magnitude is at most that of
 * the dividend; its sign may differ. */
static tnm_range get_quotient_range(tnm_range a, tnm_range b) {
  int64_t most = a.high > -a.low ? a.high : -a.low;
  if (b.low > 0)
    return (tnm_range){a.low < 0 ? a.low : 0, a.high < 0 ? -1 : a.high};
  return (tnm_range){-most, most};
}

/* Returns the range of remainders for divisors in `b`. A remainder has the sign
 * of the divisor and a smaller magnitude. */
static tnm_range get_remainder_range(tnm_range b) {
  return (tnm_range){b.low < 0 ? b.low + 1 : 0, b.high > 0 ? b.high - 1 : 0};
}

/* Returns the range of min(x, y), for x in a and y in b. */
static tnm_range min_ranges(tnm_range a, tnm_range b) {
  return (tnm_range){a.low < b.low ? a.low : b.low,
                     a.high < b.high ? a.high : b.high};
}

/* Returns the range of max(x, y), for x in a and y in b. */
static tnm_range max_ranges(tnm_range a, tnm_range b) {
  return (tnm_range){a.low > b.low ? a.low : b.low,
                     a.high > b.high ? a.high : b.high};
}

/* Returns the range of -x, for x in a. */
static tnm_range negate_range(tnm_range a) {
  return (tnm_range){-a.high, -a.low};
}

/* Returns the range of the absolute value of x, for x in a. */
static tnm_range absolute_range(tnm_range a) {
  if (a.low >= 0) return a;
  if (a.high <= 0) return negate_range(a);
  return (tnm_range){0, a.high > -a.low ? a.high : -a.low};
}

/* Returns the range of the results of operation `op` (TN_NODE_*) on a value in
 * `a` and a value in `b`. */
static tnm_range combine_ranges(uint32_t op, tnm_range a, tnm_range b) {
  switch (op) {
    case TN_NODE_ADD:
      return (tnm_range){limit_bound(a.low + b.low),
                         limit_bound(a.high + b.high)};
    case TN_NODE_SUB:
      return (tnm_range){limit_bound(a.low - b.high),
                         limit_bound(a.high - b.low)};
    case TN_NODE_MUL:
      return multiply_ranges(a, b);
    case TN_NODE_DIV:
      return get_quotient_range(a, b);
    case TN_NODE_MOD:
      return get_remainder_range(b);
    case TN_NODE_MIN:
      return min_ranges(a, b);
    case TN_NODE_MAX:
      return max_ranges(a, b);
    default: /* the range of powers is unknown; comparisons are handled above */
      return (tnm_range){-RANGE_LIMIT, RANGE_LIMIT};
  }
}

tnm_range tnm_node_range(const tnm_bind *bind, const tn_node *const *nodes,
                         uint32_t node) {
  const tn_node *n = nodes[node];
  if ((n->op >= TN_NODE_EQ && n->op <= TN_NODE_GE) ||
      n->op == TN_NODE_COMPARE_PARAMS)
    return (tnm_range){0, 1};
  switch (n->op) {
    case TN_NODE_CONST:
      return (tnm_range){limit_bound(n->value), limit_bound(n->value)};
    case TN_NODE_PARAM:
      return get_field_range(bind->lower->params[n->a]);
    case TN_NODE_RANK:
    case TN_NODE_OPERAND_RANK:
      return (tnm_range){0, TN_MAX_NDIM};
    case TN_NODE_HAS:
      return (tnm_range){0, 1};
    case TN_NODE_DIM:
    case TN_NODE_OPERAND_SIZE:
    case TN_NODE_OPERAND_SHAPE:
      return (tnm_range){0, MAX_INT};
    case TN_NODE_NEG:
      return negate_range(tnm_node_range(bind, nodes, (uint32_t)n->a));
    case TN_NODE_ABS:
      return absolute_range(tnm_node_range(bind, nodes, (uint32_t)n->a));
    case TN_NODE_SELECT:
      return unite_ranges(tnm_node_range(bind, nodes, (uint32_t)n->b),
                          tnm_node_range(bind, nodes, (uint32_t)n->c));
    default:
      return combine_ranges(n->op, tnm_node_range(bind, nodes, (uint32_t)n->a),
                            tnm_node_range(bind, nodes, (uint32_t)n->b));
  }
}
