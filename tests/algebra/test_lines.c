/* SPDX-License-Identifier: Apache-2.0
 * Formulas with reductions: their values, compared with numbers that were
 * computed by hand, the form of their gradients, and the values of these,
 * compared with differences.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "formulas.h"

enum { N = 4 }; /* elements of a line */

/* ------------------------------------------------------------------- values */

static long double value_of(const char *text, const double *x, uint32_t n) {
  formulas f;
  const double *lines[3] = {x, x, x};
  const double params[2] = {2, 3};
  formulas_open(&f);
  const tnm_values values = {
      .params = params, .input_lines = lines, .n = n, .at = 1};
  const long double value = tnm_expr_value(parse_formula(&f, text), &values);
  formulas_close(&f);
  return value;
}

Test(lines, a_reduction_has_the_value_of_its_definition) {
  const double x[N] = {1, 2, 4, -3};
  cr_expect_eq(value_of("sum(x, axis)", x, N), 4);
  cr_expect_eq(value_of("mean(x, axis)", x, N), 1);
  cr_expect_eq(value_of("max(x, axis)", x, N), 4);
  cr_expect_eq(value_of("min(x, axis)", x, N), -3);
  cr_expect_eq(value_of("count(axis)", x, N), 4);
  cr_expect_eq(value_of("x - sum(x^2, axis)", x, N), -28);
  cr_expect_eq(value_of("sum((x - mean(x, axis))^2, axis)", x, N), 26);
  /* log(e + e^2 + e^4 + e^-3) */
  const long double sum = expl(1) + expl(2) + expl(4) + expl(-3);
  cr_expect_float_eq(value_of("logsumexp(x, axis)", x, N), logl(sum), 1e-15);
  /* two arguments of which the second is no axes are the function */
  cr_expect_eq(value_of("max(x, a)", x, N), 2);
}

Test(lines, reductions_pass_on_infinities_and_nan) {
  const double with_nan[2] = {NAN, 1};
  const double infinite[2] = {INFINITY, 1};
  const double low[2] = {-INFINITY, -INFINITY};
  cr_expect(isnan(value_of("max(x, axis)", with_nan, 2)));
  cr_expect(isnan(value_of("min(x, axis)", with_nan, 2)));
  cr_expect(isnan(value_of("logsumexp(x, axis)", with_nan, 2)));
  cr_expect(isinf(value_of("logsumexp(x, axis)", infinite, 2)));
  cr_expect(value_of("logsumexp(x, axis)", low, 2) == -INFINITY);
}

Test(lines, a_formula_is_printed_as_it_is_read) {
  static const char *const texts[] = {
      "x - mean(x, axis)", "sum(exp(x - max(x, axis)), axis)",
      "logsumexp(x, axis)/count(axis)", "min(x, axis)*min(x, y)"};
  formulas f;
  formulas_open(&f);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
    cr_expect_str_eq(formula_text(&f, parse_formula(&f, texts[i])), texts[i]);
  formulas_close(&f);
}

/* -------------------------------------------------------------------- texts */

#define FULL TNM_LEVEL_FULL
#define LINE TNM_LEVEL_LINE
#define PLACE TNM_LEVEL_PLACE

typedef struct form {
  const char *out;
  const char *two; /* NULL: one output */
  uint8_t inputs[3];
  uint8_t outputs[2];
  const char *gradients[3]; /* NULL: not compared as text */
} form;

#define SOFTMAX "exp(x - max(x, axis))/sum(exp(x - max(x, axis)), axis)"
#define VARIANCE "mean((x - mean(x, axis))^2, axis)"

/* The expected texts are the textbook forms. */
static const form forms[] = {
    {"sum(x, axis)",
     NULL,
     {FULL, FULL, FULL},
     {LINE, 0},
     {"grad.out", "0", "0"}},
    {"mean(x, axis)",
     NULL,
     {FULL, FULL, FULL},
     {LINE, 0},
     {"grad.out/count(axis)", "0", "0"}},
    {"max(x, axis)",
     NULL,
     {FULL, FULL, FULL},
     {LINE, 0},
     {"grad.out*(x == out)", "0", "0"}},
    {"max(x*x, axis)", NULL, {FULL, FULL, FULL}, {LINE, 0}, {NULL}},
    {"logsumexp(x, axis)",
     NULL,
     {FULL, FULL, FULL},
     {LINE, 0},
     {"grad.out*exp(x - out)", "0", "0"}},
    {"x - mean(x, axis)",
     NULL,
     {FULL, FULL, FULL},
     {FULL, 0},
     {"grad.out - mean(grad.out, axis)", "0", "0"}},
    {"x*mean(x, axis)",
     NULL,
     {FULL, FULL, FULL},
     {FULL, 0},
     {"grad.out*mean(x, axis) + mean(grad.out*x, axis)", "0", "0"}},
    {SOFTMAX,
     NULL,
     {FULL, FULL, FULL},
     {FULL, 0},
     {"(grad.out - sum(grad.out*out, axis))*out", "0", "0"}},
    {"x - logsumexp(x, axis)",
     NULL,
     {FULL, FULL, FULL},
     {FULL, 0},
     {"grad.out - sum(grad.out, axis)*exp(out)", "0", "0"}},
    {"x*rsqrt(mean(x^2, axis) + a)*y",
     "rsqrt(mean(x^2, axis) + a)",
     {FULL, PLACE, FULL},
     {FULL, LINE},
     {NULL}},
    {"x*rsqrt(sum(x^2, axis) + a)",
     NULL,
     {FULL, FULL, FULL},
     {FULL, 0},
     {NULL}},
    {"(x - mean(x, axis))*rsqrt(" VARIANCE " + a)*y + z",
     NULL,
     {FULL, PLACE, PLACE},
     {FULL, 0},
     {NULL}},
    {"x*y + z",
     NULL,
     {FULL, LINE, PLACE},
     {FULL, 0},
     {"grad.out*y", "sum(grad.out*x, axis)", "grad.out"}},
    {"sum(x*y, axis)*z",
     NULL,
     {FULL, PLACE, LINE},
     {LINE, 0},
     {"grad.out*z*y", "grad.out*z*x", NULL}},
    {"logsumexp(x*y, axis) + min(x + z, axis)",
     NULL,
     {FULL, LINE, PLACE},
     {LINE, 0},
     {NULL}},
    {"count(axis)*x - sum(x, axis)",
     NULL,
     {FULL, FULL, FULL},
     {FULL, 0},
     {NULL}},
    {"exp(x)/mean(exp(x)*y, axis)",
     "mean(exp(x)*y, axis)^2",
     {FULL, PLACE, FULL},
     {FULL, LINE},
     {NULL}},
    {"tanh(x - max(x, axis))*sum(sin(x)*sum(x*y, axis), axis)",
     NULL,
     {FULL, FULL, FULL},
     {FULL, 0},
     {NULL}},
};

static void derive_form(formulas *f, const form *each, const tnm_expr **g) {
  const tnm_levels levels = {each->inputs, each->outputs, "axis"};
  cr_assert_eq(formula_derive_lines(f, each->out, each->two, &levels, g),
               TNM_DERIVED, "%s", each->out);
}

Test(lines, gradients_have_the_textbook_form) {
  formulas f;
  formulas_open(&f);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
    const tnm_expr *g[3];
    derive_form(&f, &forms[i], g);
    for (size_t k = 0; k < 3; ++k)
      if (forms[i].gradients[k] != NULL)
        cr_expect_str_eq(formula_text(&f, g[k]), forms[i].gradients[k],
                         "%s by input %zu gives %s", forms[i].out, k,
                         formula_text(&f, g[k]));
  }
  formulas_close(&f);
}

/* ------------------------------------------------------------------ numbers */

/* One line of each operand. Lines of level LINE repeat one number. */
typedef struct line_point {
  double in[3][N], out[2][N], grads[2][N];
} line_point;

static const double params[2] = {0.75, 1.25};

static long double value_at(const tnm_expr *e, const line_point *p,
                            uint32_t at) {
  const double *in[3] = {p->in[0], p->in[1], p->in[2]};
  const double *out[2] = {p->out[0], p->out[1]};
  const double *grads[2] = {p->grads[0], p->grads[1]};
  const tnm_values values = {.params = params,
                             .input_lines = in,
                             .output_lines = out,
                             .grad_lines = grads,
                             .n = N,
                             .at = at};
  return tnm_expr_value(e, &values);
}

static double next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / 9007199254740992.0;
}

static void fill_line(double *line, int level, uint64_t *state) {
  const double first = 0.5 + next_random(state);
  for (uint32_t i = 0; i < N; ++i)
    line[i] = (level & PLACE) != 0 ? 0.5 + next_random(state) : first;
}

/* The sum of grads times outputs over a line. */
static long double loss_at(const form *each, const tnm_expr *const *outs,
                           const line_point *p) {
  long double loss = 0;
  for (uint32_t o = 0; outs[o] != NULL; ++o)
    for (uint32_t i = 0; i < ((each->outputs[o] & PLACE) != 0 ? N : 1); ++i)
      loss += p->grads[o][i] * value_at(outs[o], p, i);
  return loss;
}

/* The difference quotient by element i of an input; by all elements if they are
 * one number. */
static long double difference_at(const form *each, const tnm_expr *const *outs,
                                 const line_point *p, uint32_t input,
                                 uint32_t i) {
  const double h = 1e-6;
  line_point up = *p, down = *p;
  const bool is_line = (each->inputs[input] & PLACE) == 0;
  for (uint32_t k = is_line ? 0 : i; k < (is_line ? N : i + 1); ++k) {
    up.in[input][k] += h;
    down.in[input][k] -= h;
  }
  return (loss_at(each, outs, &up) - loss_at(each, outs, &down)) /
         ((long double)up.in[input][i] - down.in[input][i]);
}

static void compare_form(formulas *f, const form *each, uint64_t *state) {
  const tnm_expr *outs[3] = {parse_formula(f, each->out), NULL, NULL};
  const tnm_expr *g[3];
  line_point p;
  if (each->two != NULL) outs[1] = parse_formula(f, each->two);
  derive_form(f, each, g);
  for (uint32_t i = 0; i < 3; ++i) fill_line(p.in[i], each->inputs[i], state);
  for (uint32_t o = 0; outs[o] != NULL; ++o) {
    fill_line(p.grads[o], each->outputs[o], state);
    for (uint32_t i = 0; i < N; ++i)
      p.out[o][i] = (double)value_at(outs[o], &p, i);
  }
  for (uint32_t k = 0; k < 3; ++k)
    for (uint32_t i = 0; i < N; ++i) {
      const long double expected = difference_at(each, outs, &p, k, i);
      const long double found = value_at(g[k], &p, i);
      cr_expect(fabsl(found - expected) < 1e-7L * (1 + fabsl(expected)),
                "%s by input %u, element %u: derived %Lg, difference %Lg (%s)",
                each->out, k, i, found, expected, formula_text(f, g[k]));
    }
}

Test(lines, gradients_equal_difference_quotients) {
  uint64_t state = 7;
  formulas f;
  formulas_open(&f);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i)
    for (size_t times = 0; times < 20; ++times)
      compare_form(&f, &forms[i], &state);
  formulas_close(&f);
}

/* Number of different reductions in an expression. */
static void count_reductions(const tnm_expr *e, const tnm_expr **seen,
                             size_t *n) {
  for (uint32_t i = 0; i < e->n_args; ++i)
    count_reductions(e->args[i], seen, n);
  for (size_t i = 0; i < *n; ++i)
    if (tnm_expr_equal(seen[i], e)) return;
  if (e->kind == TNM_REDUCE && *n < 16) seen[(*n)++] = e;
}

Test(lines, the_gradient_of_layer_norm_has_three_reductions) {
  static const uint8_t inputs[3] = {FULL, PLACE, PLACE};
  static const uint8_t outputs[2] = {FULL, LINE};
  const tnm_levels levels = {inputs, outputs, "axis"};
  formulas f;
  const tnm_expr *g[3];
  formulas_open(&f);
  cr_assert_eq(formula_derive_lines(
                   &f, "(x - mean(x, axis))*rsqrt(" VARIANCE " + a)*y + z",
                   "rsqrt(" VARIANCE " + a)", &levels, g),
               TNM_DERIVED);
  const tnm_expr *seen[16];
  size_t n = 0;
  count_reductions(g[0], seen, &n);
  /* mean(x), mean(g*y), mean(g*y*(x - mean(x))) */
  cr_expect_eq(n, 3, "%s", formula_text(&f, g[0]));
  formulas_close(&f);
}
