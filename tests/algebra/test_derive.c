/* SPDX-License-Identifier: Apache-2.0
 * Derivatives and simplification: the form of the results, compared with tables
 * that were written by hand.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formulas.h"

/* The expected gradient of x as text. */
static const struct {
  const char *out;
  const char *gradient;
} of_x[] = {
    /* every function; the derivatives are those of any textbook */
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
    {"asin(x)", "grad.out*rsqrt((1 - x)*(x + 1))"},
    {"acos(x)", "-grad.out*rsqrt((1 - x)*(x + 1))"},
    {"atan(x)", "grad.out/(x^2 + 1)"},
    {"sinh(x)", "grad.out*cosh(x)"},
    {"cosh(x)", "grad.out*sinh(x)"},
    {"tanh(x)", "grad.out*(1 - out^2)"},
    {"asinh(x)", "grad.out*rsqrt(x^2 + 1)"},
    {"acosh(x)", "grad.out*rsqrt((x - 1)*(x + 1))"},
    {"atanh(x)", "grad.out/((1 - x)*(x + 1))"},
    {"erf(x)", "1.1283791670955126*grad.out*exp(-x^2)"},
    {"erfc(x)", "-1.1283791670955126*grad.out*exp(-x^2)"},
    {"gamma(x)", "grad.out*gamma(x)*digamma(x)"},
    {"lgamma(x)", "grad.out*digamma(x)"},
    {"digamma(x)", "grad.out*trigamma(x)"},
    {"abs(x)", "grad.out*sign(x)"},
    {"sign(x)", "0"},
    {"floor(x)", "0"},
    {"ceil(x)", "0"},
    {"round(x)", "0"},
    {"rint(x)", "0"},
    {"round_even(x)", "0"},
    {"trunc(x)", "0"},
    {"min(x, y)", "select(x <= y, grad.out, 0)"},
    {"max(x, y)", "select(x >= y, grad.out, 0)"},
    {"max(y, x)", "select(y >= x, 0, grad.out)"},
    {"pow(x, 3)", "3*grad.out*x^2"},
    {"mod(x, y)", "grad.out"},
    {"mod(y, x)", "select(x == 0, 0, -grad.out*floor(y/x))"},
    {"floor_div(x, y)", "0"},
    {"floor_div(y, x)", "0"},
    {"trunc_div(x, y)", "0"},
    {"trunc_mod(x, y)", "grad.out"},
    {"trunc_mod(y, x)", "select(x == 0, 0, -grad.out*trunc(y/x))"},
    {"bit_and(x, y)", "0"},
    {"bit_or(x, y)", "0"},
    {"bit_xor(x, y)", "0"},
    {"bit_not(x)", "0"},
    {"shift_left(x, y)", "0"},
    {"shift_right(x, y)", "0"},
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

static void expect_gradients(const char *out, const char *two,
                             const char *const *expected) {
  formulas f;
  const tnm_expr *g[3];
  formulas_open(&f);
  cr_assert_eq(formula_derive(&f, out, two, g), TNM_DERIVED, "%s", out);
  for (size_t i = 0; i < 3; ++i)
    cr_expect_str_eq(formula_text(&f, g[i]), expected[i], "%s by input %zu: %s",
                     out, i, formula_text(&f, g[i]));
  formulas_close(&f);
}

#define GRADIENTS(out, two, ...) \
  expect_gradients(out, two, (const char *const[]){__VA_ARGS__})

Test(derive, gradients_of_several_inputs_and_outputs_are_summed) {
  GRADIENTS("a*x^2 + b*x", NULL, "grad.out*(2*a*x + b)", "0", "0");
  GRADIENTS("x*y*z", NULL, "grad.out*y*z", "grad.out*x*z", "grad.out*x*y");
  GRADIENTS("x*y", "x + y", "grad.out*y + grad.two", "grad.out*x + grad.two",
            "0");
  GRADIENTS("2*x", "-x", "2*grad.out - grad.two", "0", "0");
}

Test(derive, an_output_replaces_its_formula_if_that_keeps_no_more) {
  GRADIENTS("a*exp(b*x)", NULL, "grad.out*b*out", "0", "0");
  GRADIENTS("3*sqrt(x)", NULL, "4.5*grad.out/out", "0", "0");
  GRADIENTS("1/x", NULL, "-grad.out*out^2", "0", "0");
  GRADIENTS("x/y", NULL, "grad.out/y", "-grad.out*out/y", "0");
  GRADIENTS("y*tanh(x)", "tanh(z)", "grad.out*y*(1 - tanh(x)^2)",
            "grad.out*tanh(x)", "grad.two*(1 - two^2)");
  /* {x, out} for each input are more than {x, y} for both. */
  GRADIENTS("hypot(x, y)", NULL,
            "select(hypot(x, y) == 0, 0, grad.out*x/hypot(x, y))",
            "select(hypot(x, y) == 0, 0, grad.out*y/hypot(x, y))", "0");
  /* x is needed anyway. */
  GRADIENTS("x*sigmoid(x)", NULL,
            "grad.out*sigmoid(x)*(x*(1 - sigmoid(x)) + 1)", "0", "0");
}

/* Rounding has removed the last digits of x in out, or all of them. */
Test(derive, an_output_with_an_added_number_does_not_replace_its_formula) {
  GRADIENTS("exp(x) - 1", NULL, "grad.out*exp(x)", "0", "0");
  GRADIENTS("sqrt(x) + 100", NULL, "grad.out/(2*sqrt(x))", "0", "0");
  GRADIENTS("5 - 4*sigmoid(x)", NULL, "-4*grad.out*sigmoid(x)*(1 - sigmoid(x))",
            "0", "0");
}

Test(derive, selections_in_derivatives_multiply_no_branch_that_is_0) {
  GRADIENTS("clip(x, -1, sqrt(y))", NULL,
            "select(x < -1, 0, select(x > sqrt(y), 0, grad.out))",
            "select(max(x, -1) > sqrt(y), grad.out/(2*sqrt(y)), 0)", "0");
  GRADIENTS("clip(x, sqrt(y), 3)", NULL,
            "select(x < sqrt(y), 0, select(x > 3, 0, grad.out))",
            "select(x < sqrt(y), select(sqrt(y) > 3, 0, grad.out/(2*sqrt(y))), "
            "0)",
            "0");
}

/* In f32 1e20*x is 1 where 1e40*x is infinite. */
Test(derive, numbers_that_fit_in_floats_are_not_merged_to_larger_ones) {
  GRADIENTS("(1e20*x)^2", NULL, "2e+20*grad.out*(1e+20*x)", "0", "0");
  GRADIENTS("(x/1e20)^2", NULL, "2e-20*grad.out*(1e-20*x)", "0", "0");
  GRADIENTS("cos((1e16*x)^3)", NULL,
            "-3e+16*grad.out*sin((1e+16*x)^3)*(1e+16*x)^2", "0", "0");
  GRADIENTS("1e20*y*(1e20*x)", NULL, "1e+20*grad.out*(1e+20*y)",
            "1e+20*grad.out*(1e+20*x)", "0");
  GRADIENTS("(1e20*x)^2*y + (1e20*x)^2*z", NULL,
            "2e+20*grad.out*(1e+20*x*(y + z))", "grad.out*(1e+20*x)^2",
            "grad.out*(1e+20*x)^2");
  /* The inner x must not count as a factor. */
  GRADIENTS("sin((1e20*x)^2 + 1)*log((1e20*x)^2 + 1)", NULL,
            "2e+20*grad.out*(1e+20*x*(cos((1e+20*x)^2 + 1)*log((1e+20*x)^2 + "
            "1) + sin((1e+20*x)^2 + 1)/((1e+20*x)^2 + 1)))",
            "0", "0");
  /* If an author's formula exceeds the range, its derivative does, too. */
  GRADIENTS("(1e40*x)^2", NULL, "2e+80*grad.out*x", "0", "0");
}

Test(derive, powers_follow_the_table_at_their_holes) {
  GRADIENTS("a^x", NULL, "select((a == 0)*(x >= 0), 0, grad.out*log(a)*a^x)",
            "0", "0");
  GRADIENTS("x^a", NULL, "select(a == 0, 0, grad.out*a*x^(a - 1))", "0", "0");
  GRADIENTS("2^x", NULL, "0.6931471805599453*grad.out*out", "0", "0");
}

Test(derive, a_missing_derivative_is_reported) {
  formulas f;
  const tnm_expr *g[3];
  formulas_open(&f);
  cr_expect_eq(formula_derive(&f, "trigamma(x)", NULL, g), TNM_DERIVE_UNKNOWN);
  cr_expect_eq(formula_derive(&f, "trigamma(a)*x", NULL, g), TNM_DERIVED);
  char text[512] = "x";
  for (int i = 0; i < 60; ++i) {
    memmove(text + 6, text, strlen(text) + 1);
    memcpy(text, "x*sin(", 6);
    strcat(text, ")");
  }
  cr_expect_eq(formula_derive(&f, text, NULL, g), TNM_DERIVE_LONG);
  formulas_close(&f);
}

/* ---------------------------------------------------------- simplification */

typedef const tnm_expr *change(tn__arena *arena, const tnm_expr *expr);

static void expect_texts(change *body, const char *const (*pairs)[2],
                         size_t n) {
  formulas f;
  formulas_open(&f);
  for (size_t i = 0; i < n; ++i) {
    const tnm_expr *e = body(&f.arena, parse_formula(&f, pairs[i][0]));
    cr_expect_str_eq(formula_text(&f, e), pairs[i][1], "%s gives %s",
                     pairs[i][0], formula_text(&f, e));
  }
  formulas_close(&f);
}

Test(derive, terms_are_collected_and_factored) {
  static const char *const pairs[][2] = {
      {"x*1 + 0", "x"},
      {"0*sin(x)", "0"},
      {"x*x", "x^2"},
      {"(a*x)*b", "a*x*b"},
      {"2*x*3", "6*x"},
      {"2*x + 3*x", "5*x"},
      {"x - x", "0"},
      {"x/x", "1"},
      {"--x", "x"},
      {"-(x - y)", "y - x"},
      {"1/(1/x)", "x"},
      {"sqrt(x)^2", "x"},
      {"a*x + b*x", "x*(a + b)"},
      {"2*x + 2*y", "2*(x + y)"},
      {"x*y + x", "x*(y + 1)"},
      {"x^a*x^b", "x^(a + b)"},
      {"select(x > 0, y, y)", "y"},
      {"select(1 < 2, x, y)", "x"},
      {"z*select(x > 0, y, 0)", "select(x > 0, z*y, 0)"},
      {"select(x > 0, y, 0) + select(x > 0, 0, z)", "select(x > 0, y, z)"},
      {"x % y", "x % y"},
      {"1/0", "1/0"},
      {"-x^2", "-x^2"},
      {"(-x)^2", "x^2"},
      {"x/3", "x/3"},
      {"x/2", "0.5*x"},
  };
  expect_texts(tnm_expr_simplify, pairs, sizeof pairs / sizeof *pairs);
}

Test(derive, only_exact_constants_are_folded_in_forward_formulas) {
  static const char *const pairs[][2] = {
      {"2*3*x", "6*x"},
      {"6/3 + x", "2 + x"},
      {"7/2*x", "7/2*x"},
      {"7 % 4*x", "3*x"},
      {"0.1*0.2*x", "0.1*0.2*x"},
      {"x + 0", "x + 0"},
      {"x - 0", "x"},
      {"1*x/1", "x"},
      {"x^1", "x"},
      {"0*x", "0*x"},
      {"--x", "x"},
      {"2 - 3", "2 - 3"},
      {"2^10*x", "1024*x"},
      {"select(1, x, x + 1)", "x"},
      {"select(0, x, x + y)", "x + y"},
      {"select(x > 0, x*y*1, x*y)", "x*y"},
      {"select(1, a, b)", "a"},
      /* All tensors that are read decide the class. */
      {"select(1, x, y)", "select(1, x, y)"},
      {"select(x > 0, y*1, y)", "select(x > 0, y, y)"},
  };
  expect_texts(tnm_expr_fold, pairs, sizeof pairs / sizeof *pairs);
}

Test(derive, parts_that_occur_twice_are_ordered) {
  formulas f;
  tnm_sharing sharing;
  formulas_open(&f);
  const tnm_expr *e =
      parse_formula(&f, "sin(x*y) + cos(x*y)*sin(x*y) - -1 - -1");
  cr_assert_not_null(tnm_expr_share(&f.arena, e, &sharing));
  cr_assert_eq(sharing.n, 2);
  cr_expect_str_eq(formula_text(&f, sharing.v[0]), "x*y");
  cr_expect_str_eq(formula_text(&f, sharing.v[1]), "sin(x*y)");
  cr_expect_eq(sharing.v[1]->args[0], sharing.v[0]);
  formulas_close(&f);
}

/* ------------------------------------------------------------------ classes */

Test(derive, a_formula_computes_in_the_widest_class_of_its_operands) {
  static const struct {
    tn_dtype a;
    tn_dtype b;
    const char *name;
  } cases[] = {
      {TN_F16, TN_F32, "f32"},   {TN_F32, TN_F64, "f64"},
      {TN_I64, TN_F16, "f64"},   {TN_U32, TN_F32, "f64"},
      {TN_I32, TN_F32, "f32"},   {TN_U8, TN_I16, "i32"},
      {TN_BOOL, TN_BOOL, "i32"}, {TN_I8, TN_U32, "i64"},
      {TN_U64, TN_U8, "u64"},    {TN_U64, TN_I64, "u64"},
      {TN_BOOL, TN_U64, "u64"},  {TN_U64, TN_BF16, "f64"},
      {TN_U64, TN_F64, "f64"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const int a = tnm_class_of(cases[i].a);
    const int b = tnm_class_of(cases[i].b);
    cr_expect_str_eq(tnm_class_name(tnm_class_join(a, b)), cases[i].name);
    cr_expect_eq(tnm_class_join(a, b), tnm_class_join(b, a));
    cr_expect_eq(tnm_class_join(a, 0), a);
  }
  cr_expect_eq(tnm_class_of(TN_DTYPE_UNKNOWN), 0);
}

Test(derive, the_class_of_several_operands_does_not_depend_on_their_order) {
  for (int a = 1; a & TNM_CLASS_ALL; a *= 2)
    for (int b = 1; b & TNM_CLASS_ALL; b *= 2)
      for (int c = 1; c & TNM_CLASS_ALL; c *= 2)
        cr_expect_eq(tnm_class_join(tnm_class_join(a, b), c),
                     tnm_class_join(a, tnm_class_join(b, c)), "%d %d %d", a, b,
                     c);
}

/* ------------------------------------------------------------------- bounds */

/* Terms of a formula, joined by `op`; the caller frees it. */
static char *long_formula(const char *op, const char *format, int n) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&text, &bytes);
  for (int i = 0; i < n; ++i) {
    (void)fputs(i ? op : "", file);
    (void)fprintf(file, format, i + 2, i + 3);
  }
  cr_assert_eq(fclose(file), 0);
  return text;
}

/* Memory of an allocator. It is freed only at the end, so every derivation pays
 * for new pages. */
typedef struct pages {
  struct page *last;
  size_t bytes;
} pages;

typedef struct page {
  _Alignas(64) struct page *previous;
} page;

static void *add_page(void *ctx, size_t bytes, size_t align) {
  pages *p = ctx;
  void *memory = NULL;
  cr_assert_leq(align, sizeof(page));
  if (posix_memalign(&memory, sizeof(page), sizeof(page) + bytes)) return NULL;
  page *added = memory;
  added->previous = p->last;
  p->last = added;
  p->bytes += bytes;
  return added + 1;
}

static void keep_page(void *ctx, void *memory) {
  (void)ctx, (void)memory;
}

static void free_pages(pages *p) {
  while (p->last) {
    page *previous = p->last->previous;
    free(p->last);
    p->last = previous;
  }
}

/* A formula of n terms, and the result of deriving it. */
typedef struct long_case {
  const char *op;
  const char *format;
  int n;
  int status;
  size_t bytes_max; /* that the derivation may allocate */
} long_case;

static void derive_once(const long_case *c, const char *text, pages *p) {
  formulas f;
  const tnm_expr *g[3];
  tn__env env = *tn__env_default();
  env.allocator = (tn_allocator){p, add_page, keep_page};
  formulas_open(&f);
  f.arena.env = &env;
  cr_expect_eq(formula_derive(&f, text, NULL, g), c->status, "%d of %s", c->n,
               c->format);
  formulas_close(&f);
}

/* Derives until more than `bytes` are allocated. Returns the processor time for
 * each allocated byte, in nanoseconds. */
static double time_bytes(const long_case *c, pages *p, size_t bytes) {
  char *text = long_formula(c->op, c->format, c->n);
  const size_t before = p->bytes;
  const clock_t begin = clock();
  do derive_once(c, text, p);
  while (p->bytes - before <= bytes);
  const clock_t ticks = clock() - begin;
  free(text);
  return 1e9 * (double)ticks / CLOCKS_PER_SEC / (double)(p->bytes - before);
}

/* Returns the ratio of a formula's time for each byte to that of a short
 * formula of the same form. */
static double compare_to_short(const long_case *c) {
  const long_case brief = {c->op, c->format, 25, TNM_DERIVED, 0};
  pages p = {NULL, 0};
  const double expected = time_bytes(&brief, &p, 50000000);
  const size_t before = p.bytes;
  const double ns = time_bytes(c, &p, 0);
  cr_expect_leq(p.bytes - before, c->bytes_max, "%zu bytes for %d of %s",
                p.bytes - before, c->n, c->format);
  free_pages(&p);
  return ns / expected;
}

/* Three of the formulas have 9 KB, the largest that the parser reads. They take
 * 1 to 2 times as long for each byte as short ones. With all numbers in one
 * bucket of the table they took 6 to 50 times as long. Other programs disturb
 * some attempts, so the best one counts. */
Test(derive, long_formulas_take_bounded_time) {
  static const long_case cases[] = {
      {" + ", "sin(x*%d)*exp(x*%d)", 372, TNM_DERIVE_LONG, 900000000},
      {" + ", "sin(x*%d)*exp(x*%d)", 200, TNM_DERIVED, 300000000},
      {" * ", "sin(x*%d)", 800, TNM_DERIVE_LONG, 200000000},
      {" / ", "(x + %d)", 800, TNM_DERIVE_LONG, 200000000},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    double ratio = compare_to_short(&cases[i]);
    for (int k = 0; k < 2 && ratio >= 4; ++k)
      ratio = compare_to_short(&cases[i]);
    cr_expect_lt(ratio, 4, "%g times as long for %d of %s", ratio, cases[i].n,
                 cases[i].format);
  }
}
