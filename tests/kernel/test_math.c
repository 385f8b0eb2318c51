/* SPDX-License-Identifier: Apache-2.0
 * tenon/kernel/math.h: special values of every function, written out. They are
 * those of C's Annex F where C has the function, otherwise the limits of the
 * function; test_math_sweep.c checks the numbers between.
 */
#include "tenon/kernel/math.h"

#include <criterion/criterion.h>

/* Constants for use in initialisers. */
#define inf ((double)INFINITY)

/* x and the function's value there. */
typedef struct point {
  double x;
  double y;
} point;

typedef struct table {
  const char *name;
  float (*f32)(float x);
  double (*f64)(double x);
  point points[14];
  size_t n;
} table;

/* Whether two numbers are the same, signs of zeros included. */
static int same(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b && !signbit(a) == !signbit(b);
}

#define NONE ((double)NAN)
#define TABLE(name, ...)                                               \
  {                                                                    \
#name, tn_math_##name##_f32, tn_math_##name##_f64,                 \
        {__VA_ARGS__ }, sizeof((point[]){__VA_ARGS__}) / sizeof(point) \
  }

static const table tables[] = {
    TABLE(exp, {0, 1}, {-0.0, 1}, {inf, inf}, {-inf, 0}, {NONE, NONE},
          {1e4, inf}, {-1e4, 0}, {1e30, inf}, {-1e30, 0}),
    TABLE(expm1, {0, 0}, {-0.0, -0.0}, {inf, inf}, {-inf, -1}, {NONE, NONE},
          {1e4, inf}, {-1e4, -1}, {0x1p-140, 0x1p-140}),
    TABLE(log, {1, 0}, {0, -inf}, {-0.0, -inf}, {-1, NONE}, {-inf, NONE},
          {inf, inf}, {NONE, NONE}),
    TABLE(log2, {1, 0}, {8, 3}, {0x1p-140, -140}, {0, -inf}, {-0.0, -inf},
          {-1, NONE}, {-inf, NONE}, {inf, inf}, {NONE, NONE}),
    TABLE(log10, {1, 0}, {1000, 3}, {0, -inf}, {-0.0, -inf}, {-1, NONE},
          {-inf, NONE}, {inf, inf}, {NONE, NONE}),
    TABLE(log1p, {0, 0}, {-0.0, -0.0}, {-1, -inf}, {-2, NONE}, {-inf, NONE},
          {inf, inf}, {NONE, NONE}, {0x1p-140, 0x1p-140}),
    TABLE(sqrt, {0, 0}, {-0.0, -0.0}, {4, 2}, {-1, NONE}, {inf, inf},
          {-inf, NONE}, {NONE, NONE}, {0x1p-140, 0x1p-70}),
    TABLE(rsqrt, {0, inf}, {-0.0, -inf}, {4, 0.5}, {-1, NONE}, {inf, 0},
          {-inf, NONE}, {NONE, NONE}, {0x1p-140, 0x1p70}),
    TABLE(cbrt, {0, 0}, {-0.0, -0.0}, {-8, -2}, {inf, inf}, {-inf, -inf},
          {NONE, NONE}),
    TABLE(sin, {0, 0}, {-0.0, -0.0}, {inf, NONE}, {-inf, NONE}, {NONE, NONE},
          {0x1p-140, 0x1p-140}),
    TABLE(cos, {0, 1}, {-0.0, 1}, {inf, NONE}, {-inf, NONE}, {NONE, NONE}),
    TABLE(tan, {0, 0}, {-0.0, -0.0}, {inf, NONE}, {-inf, NONE}, {NONE, NONE},
          {0x1p-140, 0x1p-140}),
    TABLE(asin, {0, 0}, {-0.0, -0.0}, {1.5, NONE}, {-inf, NONE}, {NONE, NONE},
          {0x1p-140, 0x1p-140}),
    TABLE(acos, {1, 0}, {1.5, NONE}, {-inf, NONE}, {inf, NONE}, {NONE, NONE}),
    TABLE(atan, {0, 0}, {-0.0, -0.0}, {NONE, NONE}, {0x1p-140, 0x1p-140}),
    TABLE(sinh, {0, 0}, {-0.0, -0.0}, {inf, inf}, {-inf, -inf}, {NONE, NONE},
          {1e4, inf}, {-1e4, -inf}, {0x1p-140, 0x1p-140}),
    TABLE(cosh, {0, 1}, {-0.0, 1}, {inf, inf}, {-inf, inf}, {NONE, NONE},
          {1e4, inf}, {-1e4, inf}),
    TABLE(tanh, {0, 0}, {-0.0, -0.0}, {inf, 1}, {-inf, -1}, {NONE, NONE},
          {100, 1}, {-100, -1}, {0x1p-140, 0x1p-140}),
    TABLE(asinh, {0, 0}, {-0.0, -0.0}, {inf, inf}, {-inf, -inf}, {NONE, NONE},
          {0x1p-140, 0x1p-140}),
    TABLE(acosh, {1, 0}, {0.5, NONE}, {-inf, NONE}, {inf, inf}, {NONE, NONE}),
    TABLE(atanh, {0, 0}, {-0.0, -0.0}, {1, inf}, {-1, -inf}, {2, NONE},
          {-inf, NONE}, {NONE, NONE}, {0x1p-140, 0x1p-140}),
    TABLE(erf, {0, 0}, {-0.0, -0.0}, {inf, 1}, {-inf, -1}, {NONE, NONE},
          {100, 1}, {-100, -1}),
    TABLE(erfc, {0, 1}, {-0.0, 1}, {inf, 0}, {-inf, 2}, {NONE, NONE}, {100, 0},
          {-100, 2}),
    TABLE(gamma, {0, inf}, {-0.0, -inf}, {1, 1}, {5, 24}, {-2, NONE},
          {-inf, NONE}, {inf, inf}, {NONE, NONE}, {1e4, inf}),
    TABLE(lgamma, {1, 0}, {2, 0}, {0, inf}, {-0.0, inf}, {-2, inf}, {inf, inf},
          {-inf, inf}, {NONE, NONE}),
    TABLE(digamma, {0, -inf}, {-0.0, inf}, {-1, NONE}, {inf, inf}, {-inf, NONE},
          {NONE, NONE}),
    TABLE(trigamma, {0, inf}, {-0.0, inf}, {-1, inf}, {-1e20, inf}, {inf, 0},
          {-inf, NONE}, {NONE, NONE}),
    TABLE(abs, {-3, 3}, {-0.0, 0}, {-inf, inf}, {NONE, NONE}),
    TABLE(sign, {-3, -1}, {0.5, 1}, {0, 0}, {-0.0, 0}, {-inf, -1}, {inf, 1},
          {NONE, 0}),
    TABLE(floor, {1.5, 1}, {-1.5, -2}, {-0.5, -1}, {-0.0, -0.0}, {3, 3},
          {0x1p60, 0x1p60}, {8388607.5, 8388607}, {inf, inf}, {-inf, -inf},
          {NONE, NONE}),
    TABLE(ceil, {1.5, 2}, {-1.5, -1}, {-0.5, -0.0}, {-0.0, -0.0}, {3, 3},
          {0x1p60, 0x1p60}, {8388607.5, 8388608}, {inf, inf}, {-inf, -inf},
          {NONE, NONE}),
    TABLE(round, {1.5, 2}, {2.5, 3}, {-2.5, -3}, {0.4, 0}, {-0.4, -0.0},
          {0x1p60, 0x1p60}, {8388607.5, 8388608}, {inf, inf}, {-inf, -inf},
          {NONE, NONE}),
    TABLE(rint, {0.5, 0}, {1.5, 1}, {2.5, 2}, {-0.5, -1}, {-1.5, -2}, {1.6, 2},
          {-0.4, -0.0}, {0x1p60, 0x1p60}, {8388607.5, 8388607}, {inf, inf},
          {-inf, -inf}, {NONE, NONE}),
    TABLE(round_even, {0.5, 0}, {1.5, 2}, {2.5, 2}, {-0.5, -0.0}, {-1.5, -2},
          {1.6, 2}, {-0.0, -0.0}, {0x1p60, 0x1p60}, {8388607.5, 8388608},
          {inf, inf}, {-inf, -inf}, {NONE, NONE}),
    TABLE(trunc, {1.5, 1}, {-1.5, -1}, {-0.5, -0.0}, {3, 3}, {-0.0, -0.0},
          {0x1p60, 0x1p60}, {8388607.5, 8388607}, {inf, inf}, {-inf, -inf},
          {NONE, NONE}),
    TABLE(sigmoid, {0, 0.5}, {-0.0, 0.5}, {inf, 1}, {-inf, 0}, {1e4, 1},
          {-1e4, 0}, {NONE, NONE}),
    TABLE(softplus, {inf, inf}, {-inf, 0}, {1e4, 1e4}, {-1e4, 0}, {NONE, NONE}),
    TABLE(gelu, {0, 0}, {-0.0, -0.0}, {inf, inf}, {-inf, -0.0}, {1e4, 1e4},
          {-1e4, -0.0}, {NONE, NONE}),
};

enum { N_TABLES = sizeof tables / sizeof *tables };

Test(math, f32_is_as_written_at_special_values) {
  for (size_t i = 0; i < N_TABLES; ++i)
    for (size_t k = 0; k < tables[i].n; ++k) {
      const point *at = &tables[i].points[k];
      const double y = (double)tables[i].f32((float)at->x);
      cr_expect(same(y, at->y), "%s(%g) is %g, not %g", tables[i].name, at->x,
                y, at->y);
    }
}

Test(math, f64_is_as_written_at_special_values) {
  for (size_t i = 0; i < N_TABLES; ++i)
    for (size_t k = 0; k < tables[i].n; ++k) {
      const point *at = &tables[i].points[k];
      const double y = tables[i].f64(at->x);
      cr_expect(same(y, at->y), "%s(%g) is %g, not %g", tables[i].name, at->x,
                y, at->y);
    }
}

/* ------------------------------------------------------------ two arguments
 */

typedef struct row {
  double a;
  double b;
  double y;
} row;

static void expect_rows(const char *name, float (*f32)(float a, float b),
                        double (*f64)(double a, double b), const row *rows,
                        size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const row *at = &rows[i];
    const double narrow = (double)f32((float)at->a, (float)at->b);
    const double wide = f64(at->a, at->b);
    cr_expect(same(narrow, at->y), "%s_f32(%g, %g) is %g, not %g", name, at->a,
              at->b, narrow, at->y);
    cr_expect(same(wide, at->y), "%s_f64(%g, %g) is %g, not %g", name, at->a,
              at->b, wide, at->y);
  }
}

#define EXPECT_ROWS(name, rows)                                        \
  expect_rows(#name, tn_math_##name##_f32, tn_math_##name##_f64, rows, \
              sizeof rows / sizeof *rows)

Test(math, min_and_max_prefer_the_first_and_pass_nan_on) {
  static const row least[] = {{1, 2, 1},
                              {2, 1, 1},
                              {-0.0, 0, -0.0},
                              {0, -0.0, 0},
                              {(double)NAN, 2, NAN},
                              {2, (double)NAN, NAN}};
  static const row most[] = {{1, 2, 2},
                             {2, 1, 2},
                             {-0.0, 0, -0.0},
                             {0, -0.0, 0},
                             {(double)NAN, 2, NAN},
                             {2, (double)NAN, NAN}};
  EXPECT_ROWS(min, least);
  EXPECT_ROWS(max, most);
}

Test(math, mod_has_the_sign_of_the_divisor) {
  static const row rows[] = {{7, 3, 1},
                             {-7, 3, 2},
                             {7, -3, -2},
                             {6, 3, 0},
                             {-6, 3, 0},
                             {6, -3, -0.0},
                             {-7, -3, -1},
                             {5, 0, 0},
                             {-5, 0, 0},
                             {NAN, 0, 0},
                             {5.5, 2, 1.5},
                             {1, INFINITY, 1},
                             {-1, INFINITY, INFINITY},
                             {1, -INFINITY, -INFINITY},
                             {INFINITY, 3, NAN},
                             {1, NAN, NAN},
                             {NAN, 1, NAN},
                             {0x1p100, 3, 1},
                             {0x1p101, 3, 2},
                             {0x1p127, 0x1p-149, 0},
                             {0x1p-149, 1, 0x1p-149}};
  EXPECT_ROWS(mod, rows);
}

Test(math, numbers_become_the_nearest_integers) {
  const int64_t high = INT64_MAX, low = INT64_MIN;
  static const double x[] = {0,       -0.0, 2.9,      -2.9,      0x1p31 - 1,
                             0x1p31,  3e9,  -0x1p31,  -3e9,      0x1p63 - 1024,
                             -0x1p63, 1e19, INFINITY, -INFINITY, NAN};
  const int32_t i32[] = {0,         0,         2,         -2,        INT32_MAX,
                         INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN, INT32_MAX,
                         INT32_MIN, INT32_MAX, INT32_MAX, INT32_MIN, 0};
  const int64_t i64[] = {0,           0,         2,
                         -2,          INT32_MAX, INT64_C(2147483648),
                         3000000000,  INT32_MIN, -3000000000,
                         high - 1023, low,       high,
                         high,        low,       0};
  for (size_t i = 0; i < sizeof x / sizeof *x; ++i) {
    cr_expect_eq(tn_math_to_i32(x[i]), i32[i], "%g", x[i]);
    cr_expect_eq(tn_math_to_i64(x[i]), i64[i], "%g", x[i]);
  }
}

Test(math, pow_is_that_of_annex_f) {
  static const row rows[] = {{2, 10, 1024},
                             {-2, 3, -8},
                             {-2, 2, 4},
                             {-8, 1.0 / 3, NAN},
                             {NAN, 0, 1},
                             {1, NAN, 1},
                             {NAN, 1, NAN},
                             {2, NAN, NAN},
                             {0, 3, 0},
                             {-0.0, 3, -0.0},
                             {-0.0, 2, 0},
                             {0, -1, INFINITY},
                             {-0.0, -1, -INFINITY},
                             {-0.0, -2, INFINITY},
                             {-0.0, -0.5, INFINITY},
                             {-1, INFINITY, 1},
                             {-1, -INFINITY, 1},
                             {0.5, INFINITY, 0},
                             {0.5, -INFINITY, INFINITY},
                             {2, INFINITY, INFINITY},
                             {2, -INFINITY, 0},
                             {-INFINITY, 3, -INFINITY},
                             {-INFINITY, 2, INFINITY},
                             {-INFINITY, -3, -0.0},
                             {-INFINITY, 0.5, INFINITY},
                             {INFINITY, -2, 0},
                             {INFINITY, 0.5, INFINITY},
                             {0, INFINITY, 0},
                             {0, -INFINITY, INFINITY},
                             {-INFINITY, 2.75, INFINITY},
                             {-0.0, 2.75, 0},
                             {-1, 16777215, -1},
                             {-1, 16777216, 1},
                             {4, 0.5, 2},
                             {10, -400, 0},
                             {10, 400, INFINITY}};
  EXPECT_ROWS(pow, rows);
}

Test(math, hypot_is_infinite_where_a_side_is) {
  static const row rows[] = {{3, 4, 5},
                             {-3, -4, 5},
                             {0, -0.0, 0},
                             {INFINITY, NAN, INFINITY},
                             {NAN, -INFINITY, INFINITY},
                             {NAN, 1, NAN},
                             {0x1p127, 0, 0x1p127},
                             {0x1p-149, 0, 0x1p-149}};
  EXPECT_ROWS(hypot, rows);
}

/* Arguments beyond the floats: odd exponents above 2^24, and sums of squares
 * that overflow or vanish. The last one is 3, 4 and 5 of the least number. */
Test(math, doubles_have_their_own_ends) {
  static const row powers[] = {{-1, 0x1p53 - 1, -1},
                               {-1, 0x1p53, 1},
                               {-1, -0x1p52 - 1, -1},
                               {-1, 0x1p1000, 1},
                               {-0.0, -0x1p52 - 1, -INFINITY},
                               {1 + 0x1p-52, 0x1p70, INFINITY},
                               {1 + 0x1p-52, -0x1p70, 0},
                               {2, 1023, 0x1p1023},
                               {2, -1074, 0x1p-1074},
                               {-2, -1073, -0x1p-1073},
                               {0x1p-1074, -1, INFINITY},
                               {0x1p-1074, 0.5, 0x1p-537},
                               {-2, -1075, -0.0},
                               {3, 0x1p-1074, 1},
                               {-1, 0x1p-1074, NAN},
                               {-3, -0x1p-1074, NAN}};
  static const row sums[] = {{0x1.8p1023, 0, 0x1.8p1023},
                             {0x1.8p1022, 0x1p1023, 0x1.4p1023},
                             {0x1p1023, 0x1.fp1023, INFINITY},
                             {0x3p-1074, 0x4p-1074, 0x5p-1074}};
  for (size_t i = 0; i < sizeof powers / sizeof *powers; ++i) {
    const double y = tn_math_pow_f64(powers[i].a, powers[i].b);
    cr_expect(same(y, powers[i].y), "power %zu is %a", i, y);
  }
  for (size_t i = 0; i < sizeof sums / sizeof *sums; ++i) {
    const double y = tn_math_hypot_f64(sums[i].a, sums[i].b);
    cr_expect(same(y, sums[i].y), "hypotenuse %zu is %a", i, y);
  }
}

Test(math, decimal_logarithms_of_powers_of_ten_are_exact) {
  double power = 1;
  for (int i = 0; i <= 22; ++i, power *= 10)
    cr_expect_eq(tn_math_log10_f64(power), (double)i, "10^%d", i);
}

/* From mpmath with 1500 bits. The first angle is nearest of all doubles to a
 * multiple of a quarter of a turn, the last one is the largest. */
Test(math, large_angles_are_reduced_with_all_their_digits) {
  static const double rows[][4] = {
      {0x1.6ac5b262ca1ffp+849, 1.0, -4.687165924254628e-19,
       -2.133485385753704e+18},
      {1e22, -0.8522008497671888, 0.523214785395139, -1.6287782256068988},
      {0x1.fffffffffffffp+1023, 0.004961954789184062, -0.9999876894265599,
       -0.004962015874444895}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const double *r = rows[i];
    const double found[] = {tn_math_sin_f64(r[0]), tn_math_cos_f64(r[0]),
                            tn_math_tan_f64(r[0])};
    for (int k = 0; k < 3; ++k)
      cr_expect(fabs(found[k] - r[k + 1]) <= 0x1.8p-52 * fabs(r[k + 1]),
                "angle %zu, function %d: %.17g", i, k, found[k]);
  }
}

Test(math, clip_leaves_nan_and_select_takes_either) {
  cr_expect_eq(tn_math_clip_f32(5, 0, 1), 1);
  cr_expect_eq(tn_math_clip_f32(-5, 0, 1), 0);
  cr_expect_eq(tn_math_clip_f64(0.5, 0, 1), 0.5);
  cr_expect_eq(tn_math_clip_f64(5, 2, 1), 1);
  cr_expect_eq(tn_math_clip_f64(5, 0, (double)NAN), 5);
  cr_expect(isnan(tn_math_clip_f32(NAN, 0, 1)));
  cr_expect_eq(tn_math_select_f32(2, 3, 4), 3);
  cr_expect_eq(tn_math_select_f64(0, (double)NAN, 4), 4);
  cr_expect_eq(tn_math_select_i32(1, 3, 4), 3);
  cr_expect_eq(tn_math_select_i64(0, 3, 4), 4);
}

/* From Gauss's theorem, with Euler's constant and log(2) written out. */
Test(math, digamma_has_its_known_values) {
  static const row rows[] = {{1, -0.57721566490153286, 0},
                             {2, 0.42278433509846714, 0},
                             {0.5, -1.9635100260214235, 0},
                             {-0.5, 0.036489973978576520, 0},
                             {1e10, 23.025850929890457, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const double y = tn_math_digamma_f64(rows[i].a);
    cr_expect(fabs(y - rows[i].b) < 2e-15 * (1 + fabs(y)), "row %zu: %.17g", i,
              y);
    cr_expect_eq(tn_math_digamma_f32((float)rows[i].a), (float)rows[i].b,
                 "row %zu", i);
  }
}

/* Below 0 by less than a half, where 1 + x would round x away. */
Test(math, digamma_is_exact_beside_zero) {
  cr_expect_eq(tn_math_digamma_f64(0x1p-60), -0x1p60);
  cr_expect_eq(tn_math_digamma_f64(-0x1p-60), 0x1p60);
  cr_expect_eq(tn_math_digamma_f32(-0x1p-60f), 0x1p60f);
}

/* By tests/reference/trigamma.py, with mpmath. */
Test(math, trigamma_has_its_known_values) {
  static const row rows[] = {
#include "trigamma_cases.inc"
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const double y = tn_math_trigamma_f64(rows[i].a);
    cr_expect(fabs(y - rows[i].b) <= 4.5 * 0x1p-52 * fabs(rows[i].b),
              "trigamma(%.17g) is %.17g, not %.17g", rows[i].a, y, rows[i].b);
    cr_expect_float_eq(tn_math_trigamma_f32((float)rows[i].a), (float)rows[i].b,
                       0x1p-23f * fabsf((float)rows[i].b), "row %zu", i);
  }
}

/* ----------------------------------------------------------------- integers
 */

Test(math, integers_divide_downwards_and_by_zero_give_zero) {
  static const int rows[][4] = {
      {7, 3, 2, 1},   {-7, 3, -3, 2}, {7, -3, -3, -2}, {-7, -3, 2, -1},
      {6, -3, -2, 0}, {-6, 3, -2, 0}, {5, 0, 0, 0},    {0, -5, 0, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const int *r = rows[i];
    cr_expect_eq(tn_math_div_i32(r[0], r[1]), r[2], "row %zu", i);
    cr_expect_eq(tn_math_mod_i32(r[0], r[1]), r[3], "row %zu", i);
    cr_expect_eq(tn_math_div_i64(r[0], r[1]), r[2], "row %zu", i);
    cr_expect_eq(tn_math_mod_i64(r[0], r[1]), r[3], "row %zu", i);
  }
}

Test(math, integers_divide_towards_zero_too) {
  static const int rows[][4] = {
      {7, 3, 2, 1},    {-7, 3, -2, -1}, {7, -3, -2, 1},
      {-7, -3, 2, -1}, {6, -3, -2, 0},  {-6, 3, -2, 0},
      {5, 0, 0, 0},    {0, -5, 0, 0},   {-1, 5, 0, -1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const int *r = rows[i];
    cr_expect_eq(tn_math_trunc_div_i32(r[0], r[1]), r[2], "row %zu", i);
    cr_expect_eq(tn_math_trunc_mod_i32(r[0], r[1]), r[3], "row %zu", i);
    cr_expect_eq(tn_math_trunc_div_i64(r[0], r[1]), r[2], "row %zu", i);
    cr_expect_eq(tn_math_trunc_mod_i64(r[0], r[1]), r[3], "row %zu", i);
  }
  cr_expect_eq(tn_math_trunc_div_i32(INT32_MIN, -1), INT32_MIN);
  cr_expect_eq(tn_math_trunc_mod_i32(INT32_MIN, -1), 0);
  cr_expect_eq(tn_math_trunc_div_i64(INT64_MIN, -1), INT64_MIN);
  cr_expect_eq(tn_math_trunc_mod_i64(INT64_MIN, -1), 0);
  cr_expect_eq(tn_math_floor_div_i32(-7, 3), -3);
  cr_expect_eq(tn_math_floor_div_i64(-7, 3), -3);
}

/* 1 is 9 times 0.1 and a rest, though 1/0.1 is rounded to 10. */
Test(math, whole_quotients_of_floats_belong_to_remainders) {
  cr_expect_eq(tn_math_floor_div_f64(1, 0.1), 9);
  cr_expect_eq(tn_math_floor_div_f32(1, 0.1f), 9);
  cr_expect_eq(tn_math_floor_div_f64(-1, INFINITY), -1);
  cr_expect_eq(tn_math_floor_div_f32(5, 0), INFINITY);
  cr_expect_eq(tn_math_trunc_div_f64(-7, 2), -3);
  cr_expect_eq(tn_math_trunc_mod_f32(-7, 2), -1);
  cr_expect(isnan(tn_math_trunc_mod_f32(1, 0)));
  cr_expect(isnan(tn_math_trunc_mod_f64(1, 0)));
}

Test(math, bits_are_shifted_out) {
  cr_expect_eq(tn_math_bit_and_i32(12, 10), 8);
  cr_expect_eq(tn_math_bit_or_i64(12, 10), 14);
  cr_expect_eq(tn_math_bit_xor_i32(12, 10), 6);
  cr_expect_eq(tn_math_bit_not_i64(0), -1);
  cr_expect_eq(tn_math_shift_left_i32(1, 31), INT32_MIN);
  cr_expect_eq(tn_math_shift_left_i32(1, 32), 0);
  cr_expect_eq(tn_math_shift_left_i64(3, 63), INT64_MIN);
  cr_expect_eq(tn_math_shift_left_i64(1, -1), 0);
  cr_expect_eq(tn_math_shift_right_i32(-8, 1), -4);
  cr_expect_eq(tn_math_shift_right_i32(-8, 40), -1);
  cr_expect_eq(tn_math_shift_right_i64(8, -1), 0);
  cr_expect_eq(tn_math_shift_right_i64(INT64_MIN, 63), -1);
}

Test(math, integers_wrap) {
  cr_expect_eq(tn_math_abs_i32(INT32_MIN), INT32_MIN);
  cr_expect_eq(tn_math_abs_i64(INT64_MIN), INT64_MIN);
  cr_expect_eq(tn_math_abs_i64(-5), 5);
  cr_expect_eq(tn_math_div_i32(INT32_MIN, -1), INT32_MIN);
  cr_expect_eq(tn_math_mod_i32(INT32_MIN, -1), 0);
  cr_expect_eq(tn_math_div_i64(INT64_MIN, -1), INT64_MIN);
  cr_expect_eq(tn_math_mod_i64(INT64_MIN, -1), 0);
  cr_expect_eq(tn_math_pow_i32(3, 5), 243);
  cr_expect_eq(tn_math_pow_i32(-3, 3), -27);
  cr_expect_eq(tn_math_pow_i32(2, 31), INT32_MIN);
  cr_expect_eq(tn_math_pow_i32(2, 32), 0);
  cr_expect_eq(tn_math_pow_i32(0, 0), 1);
  cr_expect_eq(tn_math_pow_i32(2, -1), 0);
  cr_expect_eq(tn_math_pow_i64(3, 40), -6289078614652622815);
  cr_expect_eq(tn_math_pow_i64(7, 0), 1);
}

Test(math, integers_are_ordered_and_bounded) {
  cr_expect_eq(tn_math_min_i32(-1, 2), -1);
  cr_expect_eq(tn_math_max_i64(-1, 2), 2);
  cr_expect_eq(tn_math_sign_i32(-7), -1);
  cr_expect_eq(tn_math_sign_i64(0), 0);
  cr_expect_eq(tn_math_clip_i32(9, -1, 5), 5);
  cr_expect_eq(tn_math_clip_i64(-9, -1, 5), -1);
}

/* ------------------------------------------------------------ near and far */

typedef struct near_form {
  const char *name;
  float (*near)(float x, uint32_t *far);
  float (*any)(float x);
} near_form;

/* Arguments within the range have the same bits, and the others are reported as
 * outside. */
Test(math, logarithms_report_unsupported_arguments) {
  static const near_form forms[] = {
      {"log", tn_math_log_near_f32, tn_math_log_f32},
      {"log2", tn_math_log2_near_f32, tn_math_log2_f32},
      {"log10", tn_math_log10_near_f32, tn_math_log10_f32}};
  static const uint32_t edges[] = {
      0,          1,          0x007fffff, 0x00800000, 0x7f7fffff,
      0x7f800000, 0x7f800001, 0x7fffffff, 0x80000000, 0x807fffff,
      0x80800000, 0xff7fffff, 0xff800000, 0xffffffff};
  enum { N_EDGES = sizeof edges / sizeof *edges, N = 500000 };
  for (size_t f = 0; f < sizeof forms / sizeof *forms; ++f)
    for (uint32_t i = 0; i < N; ++i) {
      const uint32_t bits = i < N_EDGES ? edges[i] : i * 8591u;
      const float x = tn_math_from_bits_f32(bits);
      uint32_t far = 0;
      const float y = forms[f].near(x, &far), want = forms[f].any(x);
      const int is_near = isnormal(x) && x > 0;
      cr_assert_eq(far >> 31, !is_near, "%s(%a)", forms[f].name, (double)x);
      if (is_near)
        cr_assert_eq(tn_math_bits_f32(y), tn_math_bits_f32(want), "%s(%a)",
                     forms[f].name, (double)x);
    }
}
