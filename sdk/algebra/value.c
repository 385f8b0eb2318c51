/* SPDX-License-Identifier: Apache-2.0
 * value.c: computes the values of functions and formulas with the C library, in
 * the widest floating-point type.
 */
#include <math.h>

#include "algebra.h"

static const long double pi = 3.141592653589793238462643383279502884L;
static const long double half_root = 0.707106781186547524400844362104849039L;

/* The derivative of lgamma. A series computes it for large arguments;
 * recurrence and reflection lead to these. */
static long double digamma_value(long double x) {
  if (x <= 0 && x == floorl(x)) return NAN;
  if (x < 0) return digamma_value(1 - x) - pi / tanl(pi * x);
  long double sum = 0;
  while (x < 20) {
    sum -= 1 / x;
    x += 1;
  }
  const long double y = 1 / (x * x);
  const long double tail =
      y *
      (1 / 12.0L -
       y * (1 / 120.0L -
            y * (1 / 252.0L -
                 y * (1 / 240.0L - y * (1 / 132.0L - y * (691 / 32760.0L))))));
  return sum + logl(x) - 0.5L / x - tail;
}

/* The derivative of digamma: from 20 on by its series. */
static long double trigamma_value(long double x) {
  if (x <= 0 && x == floorl(x)) return INFINITY;
  const long double mirror = pi / sinl(pi * (x - roundl(x)));
  if (x < 0) return mirror * mirror - trigamma_value(1 - x);
  long double sum = 0;
  while (x < 20) {
    sum += 1 / (x * x);
    x += 1;
  }
  const long double y = 1 / (x * x);
  const long double tail =
      y / x *
      (1 / 6.0L -
       y * (1 / 30.0L -
            y * (1 / 42.0L -
                 y * (1 / 30.0L - y * (5 / 66.0L - y * (691 / 2730.0L))))));
  return sum + 1 / x + y / 2 + tail;
}

static long double modulo_value(long double x, long double y) {
  if (y == 0) return 0;
  const long double r = fmodl(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* The whole quotient that belongs to the remainder with the sign of y. */
static long double floor_quotient(long double x, long double y) {
  return y == 0 ? x / y : roundl((x - modulo_value(x, y)) / y);
}

/* Operations on the bits of whole numbers, within 64 bits. */
static long double bits_value(uint32_t function, const long double *x) {
  const int64_t a = (int64_t)x[0], b = (int64_t)x[1];
  switch (function) {
    case TNM_F_BIT_AND:
      return (long double)(a & b);
    case TNM_F_BIT_OR:
      return (long double)(a | b);
    case TNM_F_BIT_XOR:
      return (long double)(a ^ b);
    case TNM_F_BIT_NOT:
      return (long double)~a;
    case TNM_F_SHIFT_LEFT:
      return b < 0 || b > 63 ? 0 : ldexpl(x[0], (int)b);
    default: /* shift_right */
      return (long double)(a >> (b < 0 || b > 63 ? 63 : b));
  }
}

static long double sign_of(long double x) {
  if (x > 0) return 1;
  return x < 0 ? -1 : x;
}

static long double smaller_of(long double x, long double y) {
  return x <= y || isnan(x) ? x : y;
}

static long double larger_of(long double x, long double y) {
  return x >= y || isnan(x) ? x : y;
}

static long double sigmoid_value(long double x) {
  if (x >= 0) return 1 / (1 + expl(-x));
  return expl(x) / (1 + expl(x));
}

static long double softplus_value(long double x) {
  return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

/* Functions that C does not have. */
static long double other_value(uint32_t function, const long double *x) {
  switch (function) {
    case TNM_F_RSQRT:
      return 1 / sqrtl(x[0]);
    case TNM_F_DIGAMMA:
      return digamma_value(x[0]);
    case TNM_F_TRIGAMMA:
      return trigamma_value(x[0]);
    case TNM_F_SIGN:
      return sign_of(x[0]);
    case TNM_F_RINT:
      return ceill(x[0] - 0.5L);
    case TNM_F_MIN:
      return smaller_of(x[0], x[1]);
    case TNM_F_MAX:
      return larger_of(x[0], x[1]);
    case TNM_F_MOD:
      return modulo_value(x[0], x[1]);
    case TNM_F_FLOOR_DIV:
      return floor_quotient(x[0], x[1]);
    case TNM_F_TRUNC_DIV:
      return truncl(x[0] / x[1]);
    case TNM_F_TRUNC_MOD:
      return fmodl(x[0], x[1]);
    case TNM_F_CLIP:
      return smaller_of(larger_of(x[0], x[1]), x[2]);
    case TNM_F_SELECT:
      return x[0] != 0 ? x[1] : x[2];
    case TNM_F_SIGMOID:
      return sigmoid_value(x[0]);
    case TNM_F_SOFTPLUS:
      return softplus_value(x[0]);
    case TNM_F_GELU:
      return x[0] * erfcl(-x[0] * half_root) / 2;
    default:
      return bits_value(function, x);
  }
}

typedef long double library_function(long double x);

static library_function *const library[TNM_N_FUNCTIONS] = {
    [TNM_F_EXP] = expl,      [TNM_F_EXPM1] = expm1l,
    [TNM_F_LOG] = logl,      [TNM_F_LOG1P] = log1pl,
    [TNM_F_LOG2] = log2l,    [TNM_F_LOG10] = log10l,
    [TNM_F_SQRT] = sqrtl,    [TNM_F_CBRT] = cbrtl,
    [TNM_F_SIN] = sinl,      [TNM_F_COS] = cosl,
    [TNM_F_TAN] = tanl,      [TNM_F_ASIN] = asinl,
    [TNM_F_ACOS] = acosl,    [TNM_F_ATAN] = atanl,
    [TNM_F_SINH] = sinhl,    [TNM_F_COSH] = coshl,
    [TNM_F_TANH] = tanhl,    [TNM_F_ASINH] = asinhl,
    [TNM_F_ACOSH] = acoshl,  [TNM_F_ATANH] = atanhl,
    [TNM_F_ERF] = erfl,      [TNM_F_ERFC] = erfcl,
    [TNM_F_GAMMA] = tgammal, [TNM_F_LGAMMA] = lgammal,
    [TNM_F_ABS] = fabsl,     [TNM_F_FLOOR] = floorl,
    [TNM_F_CEIL] = ceill,    [TNM_F_ROUND] = roundl,
    [TNM_F_TRUNC] = truncl,  [TNM_F_ROUND_EVEN] = nearbyintl,
};

long double tnm_function_value(uint32_t function, const long double *x) {
  if (library[function] != NULL) return library[function](x[0]);
  if (function == TNM_F_POW) return powl(x[0], x[1]);
  if (function == TNM_F_HYPOT) return hypotl(x[0], x[1]);
  return other_value(function, x);
}

long double tnm_operator_value(char op, long double a, long double b) {
  switch (op) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return a / b;
    case '%':
      return modulo_value(a, b);
    case '^':
      return powl(a, b);
    case '<':
      return a < b;
    case '>':
      return a > b;
    case 'l':
      return a <= b;
    case 'g':
      return a >= b;
    case 'e':
      return a == b;
    default:
      return a != b;
  }
}

/* ------------------------------------------------------------------- lines */

static long double add_values(long double a, long double b) {
  return a + b;
}

/* Combines the values of an expression at all elements of a line. */
static long double combine_line(const tnm_expr *expr, tnm_values line,
                                long double first,
                                long double combine(long double, long double)) {
  const uint32_t n = line.n == 0 ? 1 : line.n;
  long double all = first;
  for (line.at = 0; line.at < n; ++line.at)
    all = combine(all, tnm_expr_value(expr, &line));
  return all;
}

/* log(sum(exp(x))); the largest element is subtracted first, unless it is
 * infinite. */
static long double log_of_sum(const tnm_expr *expr, tnm_values line) {
  const uint32_t n = line.n == 0 ? 1 : line.n;
  const long double most = combine_line(expr, line, -INFINITY, larger_of);
  const long double origin = isfinite(most) ? most : 0;
  long double all = 0;
  for (line.at = 0; line.at < n; ++line.at)
    all += expl(tnm_expr_value(expr, &line) - origin);
  return logl(all) + origin;
}

static long double reduction_value(const tnm_expr *expr,
                                   const tnm_values *values) {
  const tnm_expr *arg = expr->args[0];
  const uint32_t n = values->n == 0 ? 1 : values->n;
  switch (expr->index) {
    case TNM_R_SUM:
      return combine_line(arg, *values, 0, add_values);
    case TNM_R_MEAN:
      return combine_line(arg, *values, 0, add_values) / n;
    case TNM_R_MAX:
      return combine_line(arg, *values, -INFINITY, larger_of);
    case TNM_R_MIN:
      return combine_line(arg, *values, INFINITY, smaller_of);
    default:
      return log_of_sum(arg, *values);
  }
}

/* The value of an operand: of its single element, or of one of its line. */
static long double operand_value(const tnm_expr *expr, const double *single,
                                 const double *const *lines,
                                 const tnm_values *values) {
  return values->n == 0 ? single[expr->index] : lines[expr->index][values->at];
}

/* The value of an expression without operands. */
static long double leaf_value(const tnm_expr *expr, const tnm_values *v) {
  switch (expr->kind) {
    case TNM_NUMBER:
      return expr->number;
    case TNM_INPUT:
      return operand_value(expr, v->inputs, v->input_lines, v);
    case TNM_OUTPUT:
      return operand_value(expr, v->outputs, v->output_lines, v);
    case TNM_GRAD:
      return operand_value(expr, v->grads, v->grad_lines, v);
    case TNM_COUNT:
      return v->n == 0 ? 1 : v->n;
    default:
      return v->params[expr->index];
  }
}

long double tnm_expr_value(const tnm_expr *expr, const tnm_values *values) {
  long double x[3] = {0};
  if (expr->n_args == 0) return leaf_value(expr, values);
  if (expr->kind == TNM_REDUCE) return reduction_value(expr, values);
  for (uint32_t i = 0; i < expr->n_args; ++i)
    x[i] = tnm_expr_value(expr->args[i], values);
  switch (expr->kind) {
    case TNM_NEG:
      return -x[0];
    case TNM_BINARY:
      return tnm_operator_value(expr->op, x[0], x[1]);
    default:
      return tnm_function_value(expr->index, x);
  }
}
