/* SPDX-License-Identifier: Apache-2.0
 * Formulas as numbers: derivatives are compared with central differences, and
 * simplifying, folding, sharing and printing must not change the value.
 * Formulas are random; a failure prints the seed, and TN_TEST_SEED sets it.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formulas.h"

/* ---------------------------------------------------------------- randomness
 */

static uint64_t state;

static uint64_t seed_of(void) {
  const char *given = getenv("TN_TEST_SEED");
  const uint64_t seed =
      given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
  printf("# seed %llu\n", (unsigned long long)seed);
  return seed;
}

/* xorshift64*, the usual generator of this size. */
static uint32_t random_below(uint32_t n) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (uint32_t)((state * 2685821657736338717ull) >> 33) % n;
}

static double random_between(double low, double high) {
  return low + (high - low) * random_below(1000003) / 1000003.0;
}

static void begin_random(void) {
  state = seed_of() * 2 + 1;
}

/* ------------------------------------------------------------------ formulas
 */

/* Adds random text of bounded depth. Its functions are smooth and have small
 * values; a random point does not hit their kinks. */
static void random_text(tn__buf *out, int depth);

static void random_leaf(tn__buf *out) {
  static const char *const leaves[] = {"x", "y",   "z", "a", "b",
                                       "2", "0.5", "1", "3", "0"};
  tn__buf_add(out, "%s", leaves[random_below(10)]);
}

static void random_wrapped(tn__buf *out, const char *before, int depth,
                           const char *after) {
  tn__buf_add(out, "%s", before);
  random_text(out, depth - 1);
  tn__buf_add(out, "%s", after);
}

static void random_call(tn__buf *out, int depth) {
  static const char *const calls[] = {
      "sin(",      "cos(",      "tanh(",  "sigmoid(",  "softplus(", "erf(",
      "erfc(",     "atan(",     "asinh(", "gelu(",     "-(",        "abs(",
      "exp(-abs(", "cosh(sin(", "sign(",  "expm1(sin("};
  const char *call = calls[random_below(16)];
  const bool two = strchr(call, '(') != strrchr(call, '(');
  random_wrapped(out, call, depth, two ? "))" : ")");
}

/* Adds f(u^2 + 1), for a function with a limited domain. */
static void random_square(tn__buf *out, int depth) {
  static const char *const calls[] = {"log((",  "sqrt((",  "rsqrt((",
                                      "log2((", "log10((", "log1p((",
                                      "1/((",   "cbrt(("};
  random_wrapped(out, calls[random_below(8)], depth, ")^2 + 1)");
}

static void random_pair(tn__buf *out, int depth) {
  static const char *const infix[] = {" + ", " - ", "*", "*", " + "};
  static const char *const calls[] = {"min(", "max(", "hypot(1 + "};
  const uint32_t kind = random_below(9);
  if (kind < 5) {
    random_wrapped(out, "(", depth, infix[kind]);
    random_wrapped(out, "", depth, ")");
  } else if (kind < 8) {
    random_wrapped(out, calls[kind - 5], depth, ", ");
    random_wrapped(out, "", depth, ")");
  } else {
    random_wrapped(out, "((", depth, ")^2 + 0.5)^");
    random_wrapped(out, "tanh(", depth, ")");
  }
}

static void random_triple(tn__buf *out, int depth) {
  if (random_below(2) == 0)
    random_wrapped(out, "select(x > y, ", depth, ", ");
  else
    random_wrapped(out, "clip(", depth, ", -2, ");
  random_wrapped(out, "", depth, ")");
}

static void random_text(tn__buf *out, int depth) {
  const uint32_t kind = random_below(10);
  if (depth == 0 || kind == 0)
    random_leaf(out);
  else if (kind < 4)
    random_call(out, depth);
  else if (kind < 5)
    random_square(out, depth);
  else if (kind < 9)
    random_pair(out, depth);
  else
    random_triple(out, depth);
}

static const char *random_formula(formulas *f, int depth) {
  tn__buf buf;
  tn__buf_init(&buf, f->arena.env);
  random_text(&buf, depth);
  const char *text = tn__arena_text(&f->arena, buf.s, buf.n);
  tn__buf_deinit(&buf);
  return text;
}

/* -------------------------------------------------------------------- points
 */

typedef struct point {
  double in[3];
  double out[2];
  double grads[2];
  double params[2];
} point;

static point random_point(double low, double high) {
  point p = {.grads = {random_between(0.5, 2), random_between(0.5, 2)},
             .params = {random_between(0.5, 2), random_between(0.5, 2)}};
  for (size_t i = 0; i < 3; ++i) p.in[i] = random_between(low, high);
  return p;
}

static long double value_at(const tnm_expr *e, const point *p) {
  const tnm_values values = {.inputs = p->in,
                             .outputs = p->out,
                             .grads = p->grads,
                             .params = p->params};
  return tnm_expr_value(e, &values);
}

static bool is_near(long double a, long double b, long double tol) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return fabsl(a - b) <= tol * (1 + fabsl(a) + fabsl(b));
}

/* Whether a value is small enough for differences. */
static bool is_tame(long double value) {
  return isfinite(value) && fabsl(value) < 1e6L;
}

/* (f(x + h) - f(x - h)) / 2h of the sum of grads times outputs. */
static long double central_difference(const tnm_expr *const *list, size_t n,
                                      point p, uint32_t input, double h) {
  point up = p;
  point down = p;
  long double sum = 0;
  up.in[input] += h;
  down.in[input] -= h;
  for (size_t o = 0; o < n; ++o)
    sum += p.grads[o] * (value_at(list[o], &up) - value_at(list[o], &down));
  return sum / ((long double)up.in[input] - down.in[input]);
}

/* Compares one gradient at one point. False if the point is near a kink, or if
 * differences are too inexact there. */
static bool compare_at(const tnm_expr *const *list, size_t n,
                       const tnm_expr *gradient, uint32_t input, point p,
                       const char *text) {
  for (size_t o = 0; o < n; ++o) {
    const long double value = value_at(list[o], &p);
    if (!is_tame(value)) return false;
    p.out[o] = (double)value;
  }
  const long double rough = central_difference(list, n, p, input, 1e-4);
  const long double fine = central_difference(list, n, p, input, 1e-5);
  if (!is_tame(fine) || !is_near(rough, fine, 1e-5L)) return false;
  const long double exact = value_at(gradient, &p);
  cr_assert(is_near(exact, fine, 1e-6L),
            "%s by input %u at (%g, %g, %g), a %g, b %g: derived %Lg, "
            "difference %Lg",
            text, input, p.in[0], p.in[1], p.in[2], p.params[0], p.params[1],
            exact, fine);
  return true;
}

/* ---------------------------------------------------------------- derivatives
 */

static const struct {
  const char *text;
  double low;
  double high;
} smooth[] = {
    {"exp(x)", -3, 3},
    {"expm1(x)", -3, 3},
    {"log(x)", 0.1, 5},
    {"log1p(x)", -0.9, 5},
    {"log2(x)", 0.1, 5},
    {"log10(x)", 0.1, 5},
    {"sqrt(x)", 0.1, 5},
    {"rsqrt(x)", 0.1, 5},
    {"cbrt(x)", 0.1, 5},
    {"sin(x)", -3, 3},
    {"cos(x)", -3, 3},
    {"tan(x)", -1.4, 1.4},
    {"asin(x)", -0.9, 0.9},
    {"acos(x)", -0.9, 0.9},
    {"atan(x)", -3, 3},
    {"sinh(x)", -3, 3},
    {"cosh(x)", -3, 3},
    {"tanh(x)", -3, 3},
    {"asinh(x)", -3, 3},
    {"acosh(x)", 1.2, 5},
    {"atanh(x)", -0.9, 0.9},
    {"erf(x)", -3, 3},
    {"erfc(x)", -3, 3},
    {"gamma(x)", 0.3, 5},
    {"gamma(x)", -1.9, -1.1},
    {"lgamma(x)", 0.3, 9},
    {"lgamma(x)", -2.9, -2.1},
    {"abs(x)", -3, 3},
    {"sign(x)", -3, 3},
    {"floor(x)", -3, 3},
    {"ceil(x)", -3, 3},
    {"round(x)", -3, 3},
    {"rint(x)", -3, 3},
    {"trunc(x)", -3, 3},
    {"min(x, y)", -3, 3},
    {"max(x, y)", -3, 3},
    {"pow(x, y)", 0.2, 3},
    {"x^a", 0.2, 3},
    {"a^x", -2, 2},
    {"x^3/y", 0.5, 3},
    {"x^-2", 0.5, 3},
    {"mod(x, y)", 0.5, 5},
    {"hypot(x, y)", 0.1, 3},
    {"clip(x, -1, y)", -3, 3},
    {"clip(x, y, 4)", -3, 3},
    {"select(x > 0, y, z)", -3, 3},
    {"select(x, y*x, z*x)", -3, 3},
    {"sigmoid(x)", -4, 4},
    {"softplus(x)", -4, 4},
    {"gelu(x)", -4, 4},
    {"x*sigmoid(a*x)", -4, 4},
    {"x/y", 0.5, 3},
    {"y/(x + z)", 0.5, 3},
    {"(x > y)*z", -3, 3},
};

Test(numbers, gradients_of_all_functions_are_those_of_differences) {
  formulas f;
  formulas_open(&f);
  begin_random();
  for (size_t i = 0; i < sizeof smooth / sizeof *smooth; ++i) {
    const tnm_expr *g[3];
    const tnm_expr *out = parse_formula(&f, smooth[i].text);
    int compared = 0;
    cr_assert_eq(formula_derive(&f, smooth[i].text, NULL, g), TNM_DERIVED);
    for (int k = 0; k < 40; ++k) {
      const point p = random_point(smooth[i].low, smooth[i].high);
      for (uint32_t x = 0; x < 3; ++x)
        compared += compare_at(&out, 1, g[x], x, p, smooth[i].text);
    }
    cr_expect_gt(compared, 90, "%s: %d", smooth[i].text, compared);
  }
  formulas_close(&f);
}

static const char *pair_text(formulas *f, const char *one, const char *two) {
  tn__buf buf;
  tn__buf_init(&buf, f->arena.env);
  tn__buf_add(&buf, "%s and %s", one, two);
  const char *text = tn__arena_text(&f->arena, buf.s, buf.n);
  tn__buf_deinit(&buf);
  return text;
}

Test(numbers, gradients_of_random_formulas_are_those_of_differences) {
  formulas f;
  int compared = 0;
  int derived = 0;
  begin_random();
  for (int k = 0; k < 600; ++k) {
    const tnm_expr *g[3];
    formulas_open(&f);
    const char *one = random_formula(&f, 4);
    const char *two = random_formula(&f, 3);
    const tnm_expr *list[2] = {parse_formula(&f, one), parse_formula(&f, two)};
    const int status = formula_derive(&f, one, two, g);
    cr_assert(status == TNM_DERIVED || status == TNM_DERIVE_LONG, "%s", one);
    derived += status == TNM_DERIVED;
    for (uint32_t x = 0; status == TNM_DERIVED && x < 3; ++x)
      for (int i = 0; i < 5; ++i)
        compared += compare_at(list, 2, g[x], x, random_point(-2, 2),
                               pair_text(&f, one, two));
    formulas_close(&f);
  }
  cr_expect_gt(derived, 500, "%d", derived);
  cr_expect_gt(compared, 6000, "%d", compared);
}

/* -------------------------------------------------------------- same formulas
 */

static void expect_same(const tnm_expr *a, const tnm_expr *b, long double tol,
                        const char *text) {
  for (int i = 0; i < 10; ++i) {
    const point p = random_point(-2, 2);
    const long double value = value_at(a, &p);
    if (!is_tame(value)) continue;
    cr_assert(is_near(value, value_at(b, &p), tol),
              "%s at (%g, %g, %g), a %g, b %g: %Lg and %Lg", text, p.in[0],
              p.in[1], p.in[2], p.params[0], p.params[1], value,
              value_at(b, &p));
  }
}

Test(numbers, simplification_folding_and_sharing_keep_the_value) {
  formulas f;
  begin_random();
  for (int k = 0; k < 1500; ++k) {
    tnm_sharing sharing;
    formulas_open(&f);
    const char *text = random_formula(&f, 5);
    const tnm_expr *e = parse_formula(&f, text);
    expect_same(e, tnm_expr_simplify(&f.arena, e), 1e-9L, text);
    expect_same(e, tnm_expr_fold(&f.arena, e), 0, text);
    const tnm_expr *shared = tnm_expr_share(&f.arena, e, &sharing);
    expect_same(e, shared, 0, text);
    cr_assert(tnm_expr_equal(e, shared), "%s", text);
    formulas_close(&f);
  }
}

Test(numbers, printed_formulas_parse_to_the_same_tree) {
  formulas f;
  begin_random();
  for (int k = 0; k < 1500; ++k) {
    const tnm_expr *g[3] = {NULL};
    formulas_open(&f);
    const char *text = random_formula(&f, 4);
    const tnm_expr *e = parse_formula(&f, text);
    const char *again = formula_text(&f, e);
    cr_assert(tnm_expr_equal(e, parse_formula(&f, again)), "%s printed as %s",
              text, again);
    if (formula_derive(&f, text, NULL, g) == TNM_DERIVED)
      for (int x = 0; x < 3; ++x)
        cr_assert(
            tnm_expr_equal(g[x], parse_formula(&f, formula_text(&f, g[x]))),
            "%s gives %s", text, formula_text(&f, g[x]));
    formulas_close(&f);
  }
}
