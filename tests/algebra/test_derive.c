/* SPDX-License-Identifier: Apache-2.0
 * Derivatives: their form, against a table written by hand.
 */
#include <criterion/criterion.h>

#include "formulas.h"

/* What the gradient of x must be as text. */
static const struct {
  const char *out;
  const char *gradient;
} of_x[] = {
    /* every function; the calculus is that of any textbook */
    {"exp(x)", "grad.out*out"},
    {"expm1(x)", "grad.out*(out + 1)"},
    {"log(x)", "grad.out/x"},
    {"log1p(x)", "grad.out/(x + 1)"},
    {"log2(x)", "1.4426950408889634*grad.out/x"},
    {"log10(x)", "0.4342944819032518*grad.out/x"},
    {"sqrt(x)", "grad.out/(2*out)"},
    {"rsqrt(x)", "-0.5*grad.out*out^3"},
    {"cbrt(x)", "grad.out/(3*out^2)"},
    {"sin(x)", "grad.out*cos(x)"},
    {"cos(x)", "-grad.out*sin(x)"},
    {"tan(x)", "grad.out*(out^2 + 1)"},
    {"asin(x)", "grad.out*rsqrt(1 - x^2)"},
    {"acos(x)", "-grad.out*rsqrt(1 - x^2)"},
    {"atan(x)", "grad.out/(x^2 + 1)"},
    {"sinh(x)", "grad.out*cosh(x)"},
    {"cosh(x)", "grad.out*sinh(x)"},
    {"tanh(x)", "grad.out*(1 - out^2)"},
    {"asinh(x)", "grad.out*rsqrt(x^2 + 1)"},
    {"acosh(x)", "grad.out*rsqrt(x^2 - 1)"},
    {"atanh(x)", "grad.out/(1 - x^2)"},
    {"erf(x)", "1.1283791670955126*grad.out*exp(-x^2)"},
    {"erfc(x)", "-1.1283791670955126*grad.out*exp(-x^2)"},
    {"gamma(x)", "grad.out*gamma(x)*digamma(x)"},
    {"lgamma(x)", "grad.out*digamma(x)"},
    {"abs(x)", "grad.out*sign(x)"},
    {"sign(x)", "0"},
    {"floor(x)", "0"},
    {"ceil(x)", "0"},
    {"round(x)", "0"},
    {"rint(x)", "0"},
    {"trunc(x)", "0"},
    {"min(x, y)", "select(x <= y, grad.out, 0)"},
    {"max(x, y)", "select(x >= y, grad.out, 0)"},
    {"max(y, x)", "select(y >= x, 0, grad.out)"},
    {"pow(x, 3)", "3*grad.out*x^2"},
    {"mod(x, y)", "grad.out"},
    {"hypot(x, a)", "select(hypot(x, a) == 0, 0, grad.out*x/hypot(x, a))"},
    {"clip(x, -1, 1)", "select(x < -1, 0, select(x > 1, 0, grad.out))"},
    {"select(y > 0, x, 2*x)", "grad.out*select(y > 0, 1, 2)"},
    {"sigmoid(x)", "grad.out*out*(1 - out)"},
    {"softplus(x)", "grad.out*sigmoid(x)"},
};

Test(derive, the_gradient_of_every_function_is_that_of_the_table) {
  formulas f;
  formulas_open(&f);
  for (size_t i = 0; i < sizeof of_x / sizeof *of_x; ++i) {
    const tnm_expr *g[3];
    cr_assert_eq(formula_derive(&f, of_x[i].out, NULL, g), TNM_DERIVED, "%s",
                 of_x[i].out);
    cr_expect_str_eq(formula_text(&f, g[0]), of_x[i].gradient, "%s gives %s",
                     of_x[i].out, formula_text(&f, g[0]));
  }
  formulas_close(&f);
}
