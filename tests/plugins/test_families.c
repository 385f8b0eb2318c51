/* SPDX-License-Identifier: Apache-2.0
 * The families of plugins/elemwise against closed forms written here with libm:
 * values, gradients, and second gradients in f64; gradients also against
 * central differences of the operators. Expected numbers never come from the
 * operators themselves.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

static tn_runtime *rt;
static tn_tape *tape;

static void open_all(void) {
  rt = host_open();
  OK(tn_tape_create(rt, &tape));
}

static void close_all(void) {
  tn_tape_release(tape);
  tn_runtime_release(rt);
}

TestSuite(families, .init = open_all, .fini = close_all);

enum { N = 4, SECOND = 1 };

/* Fails the test unless `got` is near `want`, as a part of its size. */
static void expect_near(double got, double want, double part,
                        const char *what) {
  if (isnan(want) && isnan(got)) return;
  cr_assert(got == want || fabs(got - want) <= part * fmax(1, fabs(want)),
            "%s: %.17g, not %.17g", what, got, want);
}

static tn_operator *named(const char *format, const char *name) {
  char text[80];
  (void)snprintf(text, sizeof text, format, name);
  return host_operator(rt, text);
}

static tn_array *vector(const double *values) {
  return host_array(rt, TN_F64, (host_shape){1, {N}}, values);
}

/* ---------------------------------------------------------- closed forms */

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* By psi(x) = psi(x + 1) - 1/x up to where the series is exact; x > 0. */
static double psi(double x) {
  double sum = 0;
  for (; x < 20; ++x) sum -= 1 / x;
  const double f = 1 / (x * x);
  return sum + log(x) - 0.5 / x -
         f * (1. / 12 - f * (1. / 120 - f * (1. / 252 - f * (1. / 240))));
}

#define PI 3.14159265358979323846
#define UNARY(name, value, slope)        \
  static double name##_value(double x) { \
    return value;                        \
  }                                      \
  static double name##_slope(double x) { \
    (void)x;                             \
    return slope;                        \
  }

UNARY(copy, x, 1)
UNARY(negative, -x, -1)
UNARY(abs, fabs(x), x > 0 ? 1 : -1)
UNARY(square, x *x, 2 * x)
UNARY(reciprocal, 1 / x, -1 / (x * x))
UNARY(sqrt, sqrt(x), 0.5 / sqrt(x))
UNARY(rsqrt, 1 / sqrt(x), -0.5 / (x * sqrt(x)))
UNARY(cbrt, cbrt(x), 1 / (3 * cbrt(x * x)))
UNARY(rcbrt, 1 / cbrt(x), -1 / (3 * x * cbrt(x)))
UNARY(exp, exp(x), exp(x))
UNARY(expm1, expm1(x), exp(x))
UNARY(log, log(x), 1 / x)
UNARY(log10, log10(x), 1 / (x * log(10)))
UNARY(log2, log2(x), 1 / (x * log(2)))
UNARY(log1p, log1p(x), 1 / (1 + x))
UNARY(sin, sin(x), cos(x))
UNARY(cos, cos(x), -sin(x))
UNARY(tan, tan(x), 1 / (cos(x) * cos(x)))
UNARY(arcsin, asin(x), 1 / sqrt(1 - x * x))
UNARY(arccos, acos(x), -1 / sqrt(1 - x * x))
UNARY(arctan, atan(x), 1 / (1 + x * x))
UNARY(sinh, sinh(x), cosh(x))
UNARY(cosh, cosh(x), sinh(x))
UNARY(tanh, tanh(x), 1 / (cosh(x) * cosh(x)))
UNARY(arcsinh, asinh(x), 1 / sqrt(x * x + 1))
UNARY(arccosh, acosh(x), 1 / sqrt(x * x - 1))
UNARY(arctanh, atanh(x), 1 / (1 - x * x))
UNARY(degrees, x * 180 / PI, 180 / PI)
UNARY(radians, x *PI / 180, PI / 180)
UNARY(gamma, tgamma(x), tgamma(x) * psi(x))
UNARY(gammaln, lgamma(x), psi(x))
UNARY(erf, erf(x), 2 / sqrt(PI) * exp(-x * x))
UNARY(erfc, erfc(x), -2 / sqrt(PI) * exp(-x * x))
UNARY(softplus, log1p(exp(x)), sigmoid(x))
UNARY(sigmoid, sigmoid(x), sigmoid(x) * sigmoid(-x))
UNARY(relu, x > 0 ? x : 0, x > 0)
UNARY(gelu, x * 0.5 * (1 + erf(x / sqrt(2))),
      0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * PI))

typedef struct unary_case {
  const char *name;
  double (*value)(double x);
  double (*slope)(double x);
  int second;
  double at[N];
} unary_case;

#define ROW(name, second, ...)                   \
  {                                              \
#name, name##_value, name##_slope, second, { \
      __VA_ARGS__                                \
    }                                            \
  }

/* No second order where the gradient does not depend on x, so that a tape has
 * nothing to follow. */
static const unary_case unary_cases[] = {
    ROW(copy, 0, -2, -0.5, 0.25, 3),
    ROW(negative, 0, -2, -0.5, 0.25, 3),
    ROW(abs, 0, -2, -0.5, 0.25, 3),
    ROW(square, SECOND, -2, -0.5, 0.25, 3),
    ROW(reciprocal, SECOND, -2, -0.5, 0.25, 3),
    ROW(sqrt, SECOND, 0.01, 0.5, 2, 30),
    ROW(rsqrt, SECOND, 0.25, 0.5, 2, 30),
    ROW(cbrt, SECOND, -8, -0.5, 0.3, 30),
    ROW(rcbrt, SECOND, -8, -0.5, 0.3, 30),
    ROW(exp, SECOND, -3, -0.1, 0.5, 2),
    ROW(expm1, SECOND, -3, -1e-3, 1e-3, 2),
    ROW(log, SECOND, 0.1, 0.9, 2, 30),
    ROW(log10, SECOND, 0.1, 0.9, 2, 30),
    ROW(log2, SECOND, 0.1, 0.9, 2, 30),
    ROW(log1p, SECOND, -0.75, -1e-3, 1e-3, 2),
    ROW(sin, SECOND, -3, -0.1, 0.5, 2),
    ROW(cos, SECOND, -3, -0.1, 0.5, 2),
    ROW(tan, SECOND, -1, -0.1, 0.5, 1.2),
    ROW(arcsin, SECOND, -0.75, -0.1, 0.2, 0.9),
    ROW(arccos, SECOND, -0.75, -0.1, 0.2, 0.9),
    ROW(arctan, SECOND, -4, -0.1, 0.5, 2),
    ROW(sinh, SECOND, -3, -0.1, 0.5, 2),
    ROW(cosh, SECOND, -3, -0.1, 0.5, 2),
    ROW(tanh, SECOND, -2, -0.1, 0.5, 1.5),
    ROW(arcsinh, SECOND, -3, -0.1, 0.5, 20),
    ROW(arccosh, SECOND, 1.1, 1.5, 2, 20),
    ROW(arctanh, SECOND, -0.75, -0.1, 0.2, 0.9),
    ROW(degrees, 0, -3, -0.1, 0.5, 2),
    ROW(radians, 0, -90, -10, 0.5, 200),
    ROW(gamma, SECOND, 0.5, 1.5, 2.25, 4),
    ROW(gammaln, SECOND, 0.5, 1.5, 2.25, 14),
    ROW(erf, SECOND, -2, -0.1, 0.5, 1.5),
    ROW(erfc, SECOND, -2, -0.1, 0.5, 1.5),
    ROW(softplus, SECOND, -3, -0.1, 0.5, 4),
    ROW(sigmoid, SECOND, -3, -0.1, 0.5, 4),
    ROW(relu, 0, -3, -0.1, 0.5, 4),
    ROW(gelu, SECOND, -3, -0.1, 0.5, 2),
};
enum { N_UNARY = sizeof unary_cases / sizeof *unary_cases };

/* ------------------------------------------------------------------ unary */

/* op(at + shift) */
static void evaluate(const unary_case *c, double shift, double *out) {
  double at[N];
  tn_array *y = NULL;
  for (int i = 0; i < N; ++i) at[i] = c->at[i] + shift;
  tn_array *x = vector(at);
  OK(tn_call(rt, named("elemwise.%s", c->name), TN_IN(x), NULL, TN_OUT(&y)));
  (void)host_values(y, out);
  tn_array_release(x), tn_array_release(y);
}

Test(families, functions_of_one_array_have_the_values_of_libm) {
  for (int k = 0; k < N_UNARY; ++k) {
    double got[N];
    evaluate(&unary_cases[k], 0, got);
    for (int i = 0; i < N; ++i)
      expect_near(got[i], unary_cases[k].value(unary_cases[k].at[i]), 4e-15,
                  unary_cases[k].name);
  }
}

Test(families, functions_of_one_array_compute_in_single_precision_as_well) {
  for (int k = 0; k < N_UNARY; ++k) {
    const unary_case *c = &unary_cases[k];
    double got[N];
    tn_array *y = NULL;
    tn_array *x = host_array(rt, TN_F32, (host_shape){1, {N}}, c->at);
    OK(tn_call(rt, named("elemwise.%s", c->name), TN_IN(x), NULL, TN_OUT(&y)));
    cr_assert_eq(tn_array_tensor(y)->dtype, TN_F32);
    (void)host_values(y, got);
    for (int i = 0; i < N; ++i)
      expect_near(got[i], c->value((double)(float)c->at[i]), 1e-6, c->name);
    tn_array_release(x), tn_array_release(y);
  }
}

/* dy/dx with the weights `head`; the tape forgets unless `flags` say more. */
static tn_array *gradient(tn_array *y, tn_array *x, const double *head,
                          uint32_t flags) {
  tn_array *w = vector(head), *g = NULL;
  tn_tape_query q = {.struct_size = sizeof q,
                     .heads = *TN_IN(y),
                     .head_gradients = *TN_IN(w),
                     .of = *TN_IN(x),
                     .gradients = *TN_OUT(&g),
                     .flags = flags};
  OK(tn_tape_gradient(tape, &q));
  tn_array_release(w);
  return g;
}

static const double weights[N] = {1, -2, 0.5, 3};

static void check_slopes(const unary_case *c, const double *slopes) {
  const double h = 1e-5;
  double above[N], below[N];
  evaluate(c, h, above);
  evaluate(c, -h, below);
  for (int i = 0; i < N; ++i) {
    const double central = (above[i] - below[i]) / (2 * h);
    expect_near(slopes[i], weights[i] * c->slope(c->at[i]), 1e-13, c->name);
    expect_near(slopes[i], weights[i] * central, 1e-5, c->name);
  }
}

Test(families, slopes_are_the_closed_forms_and_the_central_differences) {
  for (int k = 0; k < N_UNARY; ++k) {
    const unary_case *c = &unary_cases[k];
    double got[N];
    tn_array *x = vector(c->at), *y = NULL;
    OK(tn_tape_watch(tape, x));
    OK(tn_tape_call(tape, named("elemwise.%s", c->name), TN_IN(x), NULL,
                    TN_OUT(&y)));
    tn_array *g = gradient(y, x, weights, 0);
    (void)host_values(g, got);
    check_slopes(c, got);
    tn_array_release(x), tn_array_release(y), tn_array_release(g);
  }
}

Test(families, slopes_of_slopes_are_central_differences_of_closed_forms) {
  const double ones[N] = {1, 1, 1, 1}, h = 1e-5;
  for (int k = 0; k < N_UNARY; ++k) {
    const unary_case *c = &unary_cases[k];
    double got[N];
    tn_array *x = vector(c->at), *y = NULL;
    if (!c->second) continue;
    OK(tn_tape_watch(tape, x));
    OK(tn_tape_call(tape, named("elemwise.%s", c->name), TN_IN(x), NULL,
                    TN_OUT(&y)));
    tn_array *g = gradient(y, x, weights, TN_TAPE_RECORD | TN_TAPE_KEEP);
    tn_array *s = gradient(g, x, ones, 0);
    (void)host_values(s, got);
    for (int i = 0; i < N; ++i) {
      const double at = c->at[i];
      const double want = (c->slope(at + h) - c->slope(at - h)) / (2 * h);
      expect_near(got[i], weights[i] * want, 2e-6, c->name);
    }
    tn_array_release(x), tn_array_release(y);
    tn_array_release(g), tn_array_release(s);
  }
}

/* ----------------------------------------------------------- two operands */

static double mod(double a, double b) {
  return b == 0 ? 0 : a - b * floor(a / b);
}

#define BINARY(name, value, left, right)                           \
  static double name##_value(double a, double b) {                 \
    return value;                                                  \
  }                                                                \
  static void name##_slopes(double a, double b, double slope[2]) { \
    (void)a, (void)b;                                              \
    slope[0] = left, slope[1] = right;                             \
  }

BINARY(add, a + b, 1, 1)
BINARY(sub, a - b, 1, -1)
BINARY(mul, a *b, b, a)
BINARY(div, a / b, 1 / b, -a / (b * b))
BINARY(mod, mod(a, b), 1, -floor(a / b))
BINARY(power, pow(a, b), b *pow(a, b - 1), pow(a, b) * log(a))
BINARY(maximum, a >= b ? a : b, a >= b, a < b)
BINARY(minimum, a <= b ? a : b, a <= b, a > b)
BINARY(hypot, hypot(a, b), a / hypot(a, b), b / hypot(a, b))
BINARY(equal, a == b, 0, 0)
BINARY(not_equal, a != b, 0, 0)
BINARY(greater, a > b, 0, 0)
BINARY(greater_equal, a >= b, 0, 0)
BINARY(lesser, a < b, 0, 0)
BINARY(lesser_equal, a <= b, 0, 0)

/* `reversed` is the operator of a number and an array, if there is one. */
typedef struct binary_case {
  const char *name;
  double (*value)(double a, double b);
  void (*slopes)(double a, double b, double slope[2]);
  const char *reversed;
} binary_case;

#define PAIR(name, reversed) \
  { #name, name##_value, name##_slopes, reversed }
static const binary_case binary_cases[] = {
    PAIR(add, NULL),           PAIR(sub, "rsub"),     PAIR(mul, NULL),
    PAIR(div, "rdiv"),         PAIR(mod, "rmod"),     PAIR(power, "rpower"),
    PAIR(maximum, NULL),       PAIR(minimum, NULL),   PAIR(hypot, NULL),
    PAIR(equal, NULL),         PAIR(not_equal, NULL), PAIR(greater, NULL),
    PAIR(greater_equal, NULL), PAIR(lesser, NULL),    PAIR(lesser_equal, NULL),
};
enum { N_BINARY = sizeof binary_cases / sizeof *binary_cases };

/* The third pair is a tie. */
static const double lefts[N] = {0.75, 5, 1.5, 7.25};
static const double rights[N] = {2, 1.5, 1.5, 3};

/* One backward call: the gradients of all inputs under `head`. */
static void backward(tn_operator *op, const tn_params *params,
                     const tn_inputs *in, tn_array *head, tn_array **grads) {
  tn_array *out = NULL;
  OK(tn_call(rt, op, in, params, TN_OUT(&out)));
  const tn_backward call = {.struct_size = sizeof call,
                            .params = params,
                            .inputs = *in,
                            .outputs = {1, &out},
                            .out_grads = {1, &head},
                            .in_grads = {in->n, grads, NULL}};
  OK(tn_call_backward(rt, op, &call));
  tn_array_release(out);
}

static void check_pair(const binary_case *c, const char *format) {
  tn_operator *op = named(format, c->name);
  tn_array *in[2] = {vector(lefts), vector(rights)}, *y = NULL;
  tn_array *head = vector(weights), *grads[2] = {NULL, NULL};
  double got[3][N], slope[2];
  OK(tn_call(rt, op, &(tn_inputs){2, in}, NULL, TN_OUT(&y)));
  backward(op, NULL, &(tn_inputs){2, in}, head, grads);
  (void)host_values(y, got[0]);
  (void)host_values(grads[0], got[1]), (void)host_values(grads[1], got[2]);
  for (int i = 0; i < N; ++i) {
    c->slopes(lefts[i], rights[i], slope);
    expect_near(got[0][i], c->value(lefts[i], rights[i]), 4e-15, c->name);
    expect_near(got[1][i], weights[i] * slope[0], 1e-13, c->name);
    expect_near(got[2][i], weights[i] * slope[1], 1e-13, c->name);
  }
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(y);
  tn_array_release(head), tn_array_release(grads[0]);
  tn_array_release(grads[1]);
}

Test(families, functions_of_two_arrays_have_the_closed_forms) {
  for (int k = 0; k < N_BINARY; ++k)
    check_pair(&binary_cases[k], "elemwise.%s");
}

Test(families, broadcast_functions_of_equal_shapes_do_the_same) {
  for (int k = 0; k < N_BINARY; ++k)
    check_pair(&binary_cases[k], "elemwise.broadcast_%s");
}

/* Rows of 2 against columns of 3: both gradients are sums. */
static void check_outer(const binary_case *c) {
  tn_operator *op = named("elemwise.broadcast_%s", c->name);
  tn_array *in[2] = {host_array(rt, TN_F64, (host_shape){2, {2, 1}}, lefts),
                     host_array(rt, TN_F64, (host_shape){1, {3}}, rights)};
  const double head[6] = {1, -2, 0.5, 3, 10, -4};
  tn_array *w = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, head);
  tn_array *y = NULL, *grads[2] = {NULL, NULL};
  double values[6], left[2] = {0}, right[3] = {0}, slope[2];
  OK(tn_call(rt, op, &(tn_inputs){2, in}, NULL, TN_OUT(&y)));
  backward(op, NULL, &(tn_inputs){2, in}, w, grads);
  for (int i = 0; i < 6; ++i) {
    values[i] = c->value(lefts[i / 3], rights[i % 3]);
    c->slopes(lefts[i / 3], rights[i % 3], slope);
    left[i / 3] += head[i] * slope[0], right[i % 3] += head[i] * slope[1];
  }
  host_expect(y, values, 6, 4e-15);
  cr_assert_eq(tn_array_tensor(grads[0])->ndim, 2, "%s", c->name);
  host_expect(grads[0], left, 2, 1e-13);
  cr_assert_eq(tn_array_tensor(grads[1])->ndim, 1, "%s", c->name);
  host_expect(grads[1], right, 3, 1e-13);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(y);
  tn_array_release(w), tn_array_release(grads[0]), tn_array_release(grads[1]);
}

Test(families, gradients_are_summed_over_repeated_elements) {
  for (int k = 0; k < N_BINARY; ++k) check_outer(&binary_cases[k]);
}

/* An array and a number; a number and an array if `reversed`. */
static void check_scalar(const binary_case *c, const char *name, int reversed) {
  char text[32];
  const double number = 1.5;
  tn_operator *op = named("elemwise.%s_scalar", name);
  (void)snprintf(text, sizeof text, "scalar=%g", number);
  tn_params *params = host_params(op, text);
  tn_array *x = vector(lefts), *y = NULL, *g = NULL, *w = vector(weights);
  double values[N], slopes[N], slope[2];
  OK(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)));
  backward(op, params, TN_IN(x), w, &g);
  for (int i = 0; i < N; ++i) {
    const double a = reversed ? number : lefts[i];
    const double b = reversed ? lefts[i] : number;
    c->slopes(a, b, slope);
    values[i] = c->value(a, b), slopes[i] = weights[i] * slope[reversed];
  }
  host_expect(y, values, N, 4e-15);
  host_expect(g, slopes, N, 1e-13);
  tn_array_release(x), tn_array_release(y), tn_array_release(g);
  tn_array_release(w), tn_params_release(params);
}

Test(families, functions_of_an_array_and_a_number_have_the_closed_forms) {
  for (int k = 0; k < N_BINARY; ++k) {
    const binary_case *c = &binary_cases[k];
    check_scalar(c, c->name, 0);
    if (c->reversed) check_scalar(c, c->reversed, 1);
  }
}

/* Of x^y: the derivative by x, differentiated by y. */
Test(families, slopes_by_one_operand_have_slopes_by_the_other) {
  const double ones[N] = {1, 1, 1, 1};
  tn_array *a = vector(lefts), *b = vector(rights), *y = NULL;
  double want[N];
  OK(tn_tape_watch(tape, a));
  OK(tn_tape_watch(tape, b));
  OK(tn_tape_call(tape, named("elemwise.%s", "power"), TN_IN(a, b), NULL,
                  TN_OUT(&y)));
  tn_array *g = gradient(y, a, ones, TN_TAPE_RECORD | TN_TAPE_KEEP);
  tn_array *s = gradient(g, b, ones, 0);
  for (int i = 0; i < N; ++i) /* d/db (b a^(b-1)) */
    want[i] = pow(lefts[i], rights[i] - 1) * (1 + rights[i] * log(lefts[i]));
  host_expect(s, want, N, 1e-12);
  tn_array_release(a), tn_array_release(b), tn_array_release(y);
  tn_array_release(g), tn_array_release(s);
}

/* ---------------------------------------------- broadcasts, second order */

/* Rows of 2 against columns of 3, and the weights of the sums: `w` those of the
 * results, `u` and `v` those of the gradients of either operand. */
enum { ROWS = 2, COLUMNS = 3, CELLS = ROWS * COLUMNS };
typedef struct table {
  double a[ROWS];
  double b[COLUMNS];
  double w[CELLS];
} table;

static const table table_at = {
    {0.75, 5}, {2, 1.5, 1.3}, {1, -2, 0.5, 3, 10, -4}};
static const double u[ROWS] = {1.5, -0.5};
static const double v[COLUMNS] = {-1, 2, 0.25};

/* Sum of u times the gradients of a, and v times those of b. */
static double weighted_slopes(const binary_case *c, const table *t) {
  double sum = 0, slope[2];
  for (int i = 0; i < CELLS; ++i) {
    c->slopes(t->a[i / COLUMNS], t->b[i % COLUMNS], slope);
    sum += t->w[i] * (u[i / COLUMNS] * slope[0] + v[i % COLUMNS] * slope[1]);
  }
  return sum;
}

/* Its own derivative by the number at `of`, which is in `t`. */
static double second_slope(const binary_case *c, table *t, double *of) {
  const double h = 1e-5, at = *of;
  *of = at + h;
  const double above = weighted_slopes(c, t);
  *of = at - h;
  const double below = weighted_slopes(c, t);
  *of = at;
  return (above - below) / (2 * h);
}

/* Whether three arrays hold the gradients of a, b and w, and `more` times
 * these. */
static void expect_second(const binary_case *c, tn_array *const got[3],
                          double more) {
  double values[CELLS];
  table t = table_at;
  double *const of[3] = {t.a, t.b, t.w};
  const int64_t n[3] = {ROWS, COLUMNS, CELLS};
  const int32_t ndim[3] = {2, 1, 2};
  for (int k = 0; k < 3; ++k) {
    cr_assert_eq(tn_array_tensor(got[k])->ndim, ndim[k], "%s", c->name);
    cr_assert_eq(host_values(got[k], values), n[k], "%s", c->name);
    for (int64_t i = 0; i < n[k]; ++i)
      expect_near(values[i], second_slope(c, &t, &of[k][i]) + more * of[k][i],
                  2e-6, c->name);
  }
}

static tn_array *rows_of(const double *values) {
  return host_array(rt, TN_F64, (host_shape){2, {ROWS, 1}}, values);
}

static tn_array *columns_of(const double *values) {
  return host_array(rt, TN_F64, (host_shape){1, {COLUMNS}}, values);
}

static tn_array *cells_of(const double *values) {
  return host_array(rt, TN_F64, (host_shape){2, {ROWS, COLUMNS}}, values);
}

static void second_by_tape(const binary_case *c) {
  tn_array *a = rows_of(table_at.a), *b = columns_of(table_at.b);
  tn_array *w = cells_of(table_at.w), *y = NULL;
  tn_array *wa = rows_of(u), *wb = columns_of(v);
  tn_array *first[2] = {NULL}, *second[3] = {NULL};
  OK(tn_tape_watch(tape, a));
  OK(tn_tape_watch(tape, b));
  OK(tn_tape_watch(tape, w));
  OK(tn_tape_call(tape, named("elemwise.broadcast_%s", c->name), TN_IN(a, b),
                  NULL, TN_OUT(&y)));
  tn_tape_query q = {.struct_size = sizeof q,
                     .heads = *TN_IN(y),
                     .head_gradients = *TN_IN(w),
                     .of = *TN_IN(a, b),
                     .gradients = {2, first, NULL},
                     .flags = TN_TAPE_RECORD | TN_TAPE_KEEP};
  OK(tn_tape_gradient(tape, &q));
  q = (tn_tape_query){.struct_size = sizeof q,
                      .heads = *TN_IN(first[0], first[1]),
                      .head_gradients = *TN_IN(wa, wb),
                      .of = *TN_IN(a, b, w),
                      .gradients = {3, second, NULL}};
  OK(tn_tape_gradient(tape, &q));
  expect_second(c, second, 0);
  tn_array *const all[] = {
      a, b, w, y, wa, wb, first[0], first[1], second[0], second[1], second[2]};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    tn_array_release(all[i]);
}

Test(families, broadcasts_have_slopes_of_slopes_by_tape) {
  for (int k = 0; k < N_BINARY; ++k) second_by_tape(&binary_cases[k]);
}

/* The gradients, and beside them half the squares of a, b and w, so that the
 * sum depends on these even if the gradients do not. */
static void add_second(tn_graph *graph, const char *op) {
  tn_entry in[3], more[2], y, first[2], second[3];
  OK(tn_graph_variable(graph, "a", NULL, &in[0]));
  OK(tn_graph_variable(graph, "b", NULL, &in[1]));
  OK(tn_graph_variable(graph, "w", NULL, &in[2]));
  OK(tn_graph_variable(graph, "u", NULL, &more[0]));
  OK(tn_graph_variable(graph, "v", NULL, &more[1]));
  const tn_graph_node call = {
      .struct_size = sizeof call, .op = op, .in = in, .n_in = 2};
  OK(tn_graph_call(graph, &call, &y));
  const tn_gradient_query once = {
      .heads = &y, .weights = &in[2], .n_heads = 1, .of = in, .n_of = 2};
  OK(tn_graph_gradient(graph, &once, first));
  const tn_entry heads[] = {first[0], first[1], in[0], in[1], in[2]};
  const tn_entry weight[] = {more[0], more[1], in[0], in[1], in[2]};
  const tn_gradient_query twice = {
      .heads = heads, .weights = weight, .n_heads = 5, .of = in, .n_of = 3};
  OK(tn_graph_gradient(graph, &twice, second));
  OK(tn_graph_heads_set(graph, second, 3));
}

static void second_by_graph(const binary_case *c) {
  char op[48];
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  tn_array *second[3] = {NULL};
  tn_argument in[] = {{.name = "a", .array = rows_of(table_at.a)},
                      {.name = "b", .array = columns_of(table_at.b)},
                      {.name = "w", .array = cells_of(table_at.w)},
                      {.name = "u", .array = rows_of(u)},
                      {.name = "v", .array = columns_of(v)}};
  (void)snprintf(op, sizeof op, "elemwise.broadcast_%s", c->name);
  OK(tn_graph_create(rt, &graph));
  add_second(graph, op);
  const bool weighs = weighted_slopes(c, &table_at) != 0;
  const tn_bind bind = {.struct_size = sizeof bind,
                        .arguments = in,
                        .n_arguments = weighs ? 5 : 3};
  OK(tn_program_bind(graph, &bind, &program));
  OK(tn_program_forward(program, 0));
  for (size_t i = 0; i < 3; ++i) OK(tn_program_output(program, i, &second[i]));
  expect_second(c, second, 1);
  tn_program_release(program);
  tn_graph_release(graph);
  for (int i = 0; i < 5; ++i) tn_array_release(in[i].array);
}

Test(families, broadcasts_have_slopes_of_slopes_by_graph) {
  for (int k = 0; k < N_BINARY; ++k) second_by_graph(&binary_cases[k]);
}

/* ------------------------------------------------------------- kept operands
 */

/* The operands that a gradient reads beside the output gradient: x, an input,
 * or y, the output. A y marks gradients that MXNet 0.12 computes from the
 * output too, and that need nothing else here. */
static const struct kept_case {
  const char *keeps;
  const char *names[20];
} kept_cases[] = {
    {"",
     {"copy", "negative", "cast", "degrees", "radians", "add", "sub",
      "grad_add", "add_scalar", "sub_scalar", "rsub_scalar", "mul_scalar",
      "div_scalar", "broadcast_add", "broadcast_sub", "make_loss",
      "stop_gradient", "zeros_like", "ones_like"}},
    {"",
     {"sign", "round", "rint", "ceil", "floor", "trunc", "fix", "equal",
      "not_equal", "greater", "greater_equal", "lesser", "lesser_equal",
      "equal_scalar", "broadcast_equal", "mod_scalar", "is_equal"}},
    {"y",
     {"sigmoid", "tanh", "tan", "exp", "sqrt", "cbrt", "rpower_scalar", "relu",
      "reciprocal", "rsqrt", "rcbrt", "expm1"}},
    {"x",
     {"abs",     "square",  "log",     "log10",   "log2",   "log1p",    "gamma",
      "gammaln", "sin",     "cos",     "arcsin",  "arccos", "arctan",   "sinh",
      "cosh",    "arcsinh", "arccosh", "arctanh", "clip",   "smooth_l1"}},
    {"x",
     {"mul", "power", "maximum", "minimum", "mod", "hypot", "rdiv_scalar",
      "rmod_scalar", "power_scalar", "maximum_scalar", "minimum_scalar",
      "hypot_scalar", "erf", "erfc", "softplus", "gelu"}},
};

static void expect_kept(const char *name, const char *keeps) {
  const tn_op *op = tn_operator_desc(named("elemwise.%s", name));
  for (uint32_t i = 0; i < op->gradient->n_inputs; ++i) {
    const tn_input_gradient *of = op->gradient->inputs[i];
    for (uint32_t k = 0; k < of->n_needs; ++k) {
      const uint32_t what = of->needs[k].what;
      cr_expect(what == TN_NEED_GRAD_OUT ||
                    *keeps == (what == TN_NEED_IN ? 'x' : 'y'),
                "%s keeps %s", name, what == TN_NEED_IN ? "an input" : "out");
    }
  }
}

Test(families, gradients_keep_at_most_the_operands_of_mxnet) {
  for (size_t i = 0; i < sizeof kept_cases / sizeof *kept_cases; ++i)
    for (const char *const *name = kept_cases[i].names;
         name < kept_cases[i].names + 20 && *name; ++name)
      expect_kept(*name, kept_cases[i].keeps);
}
