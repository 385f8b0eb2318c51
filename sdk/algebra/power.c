/* SPDX-License-Identifier: Apache-2.0
 * power.c: powers with a constant exponent, which kernels compute as products,
 * quotients and roots.
 */
#include <math.h>

#include "algebra.h"

bool tnm_expr_is_power(const tnm_expr *expr) {
  return (expr->kind == TNM_BINARY && expr->op == '^') ||
         (expr->kind == TNM_CALL && expr->index == TNM_F_POW);
}

double tnm_power_exponent(const tnm_expr *power) {
  const tnm_expr *exponent = power->args[1];
  if (exponent->kind == TNM_NUMBER) return exponent->number;
  if (exponent->kind == TNM_NEG && exponent->args[0]->kind == TNM_NUMBER)
    return -exponent->args[0]->number;
  return 0;
}

bool tnm_expr_is_root(const tnm_expr *expr) {
  return tnm_expr_is_power(expr) && tnm_power_exponent(expr) == 0.5;
}

bool tnm_expr_is_product(const tnm_expr *expr, int class_bit) {
  enum { MANY_FACTORS = 16 }; /* of a power of integers */
  const bool is_float = (class_bit & TNM_CLASS_FLOATS) != 0;
  if (!tnm_expr_is_power(expr)) return false;
  const double exponent = tnm_power_exponent(expr);
  const double most = is_float ? 4 : MANY_FACTORS;
  return exponent == -1 ||
         (exponent >= 1 && exponent <= most && exponent == floor(exponent));
}
