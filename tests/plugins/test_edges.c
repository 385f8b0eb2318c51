/* SPDX-License-Identifier: Apache-2.0
 * The families of plugins/elemwise at their difficult points: ties, kinks,
 * zeros with a sign, NaN, infinities, divisors of zero, integers at their
 * bounds, casts, and gradients that are not the derivative. Expected numbers
 * are by hand.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(edges, .init = open_all, .fini = close_all);

static tn_operator *named(const char *name) {
  char text[80];
  (void)snprintf(text, sizeof text, "elemwise.%s", name);
  return host_operator(rt, text);
}

#define N(...) (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))
#define ARRAY(dtype, ...)                                  \
  host_array(rt, dtype, (host_shape){1, {N(__VA_ARGS__)}}, \
             (double[]){__VA_ARGS__})

/* Equal, or both NaN, and of one sign if zero. */
static void expect_same(tn_array *array, const double *want, int64_t n,
                        const char *name) {
  double got[HOST_MAX];
  cr_assert_eq(host_values(array, got), n);
  for (int64_t i = 0; i < n; ++i) {
    const bool same =
        isnan(want[i])
            ? isnan(got[i]) != 0
            : got[i] == want[i] && !signbit(got[i]) == !signbit(want[i]);
    cr_assert(same, "%s, element %d: %g, not %g", name, (int)i, got[i],
              want[i]);
  }
}

enum { MOST = 8 };

/* op(in[0], in[1]) or op(in[0]), in f64 and f32. */
typedef struct edge {
  const char *op;
  const char *params;
  int64_t n;
  double in[2][MOST];
  double out[MOST];
} edge;

static void check_edge(const edge *e, tn_dtype dtype) {
  tn_operator *op = named(e->op);
  const bool two = strstr(
                       "mod power maximum minimum hypot equal not_equal "
                       "greater div lesser_equal broadcast_maximum",
                       e->op) != NULL;
  const host_shape shape = {1, {e->n}};
  tn_params *params = host_params(op, e->params);
  tn_array *in[2] = {host_array(rt, dtype, shape, e->in[0]),
                     two ? host_array(rt, dtype, shape, e->in[1]) : NULL};
  tn_array *y = NULL;
  OK(tn_call(rt, op, &(tn_inputs){two ? 2 : 1, in}, params, TN_OUT(&y)));
  expect_same(y, e->out, e->n, e->op);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(y);
  tn_params_release(params);
}

static const edge edges[] = {
    /* Halves: round goes away from zero, rint down. */
    {"round",
     "",
     6,
     {{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}},
     {-3, -2, -1, 1, 2, 3}},
    {"rint", "", 6, {{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}}, {-3, -2, -1, 0, 1, 2}},
    {"trunc", "", 4, {{-2.75, -0.0, 2.75, INFINITY}}, {-2, -0.0, 2, INFINITY}},
    {"fix", "", 4, {{-2.75, 2.75, -INFINITY, NAN}}, {-2, 2, -INFINITY, NAN}},
    {"floor", "", 4, {{-2.25, -0.0, 2.75, NAN}}, {-3, -0.0, 2, NAN}},
    {"ceil", "", 4, {{-2.25, 0.25, 2.75, INFINITY}}, {-2, 1, 3, INFINITY}},
    {"sign", "", 4, {{-INFINITY, 0, 3, NAN}}, {-1, 0, 1, 0}},
    {"abs", "", 4, {{-INFINITY, -0.0, -3, NAN}}, {INFINITY, 0, 3, NAN}},
    {"negative", "", 3, {{0, -0.0, INFINITY}}, {-0.0, 0, -INFINITY}},
    {"reciprocal",
     "",
     4,
     {{0, -0.0, INFINITY, NAN}},
     {INFINITY, -INFINITY, 0, NAN}},
    {"sqrt", "", 4, {{-1, -0.0, INFINITY, NAN}}, {NAN, -0.0, INFINITY, NAN}},
    {"rsqrt", "", 3, {{0, INFINITY, -1}}, {INFINITY, 0, NAN}},
    {"exp", "", 4, {{-INFINITY, 0, INFINITY, NAN}}, {0, 1, INFINITY, NAN}},
    {"log", "", 4, {{0, 1, INFINITY, -1}}, {-INFINITY, 0, INFINITY, NAN}},
    {"log1p", "", 3, {{-1, 0, -2}}, {-INFINITY, 0, NAN}},
    {"tanh", "", 4, {{-INFINITY, -0.0, INFINITY, NAN}}, {-1, -0.0, 1, NAN}},
    {"arcsin", "", 3, {{0, 2, NAN}}, {0, NAN, NAN}},
    {"arccosh", "", 3, {{1, 0.5, INFINITY}}, {0, NAN, INFINITY}},
    {"gamma", "", 3, {{1, 5, INFINITY}}, {1, 24, INFINITY}},
    {"softplus", "", 3, {{-INFINITY, 1000, NAN}}, {0, 1000, NAN}},
    {"erf", "", 3, {{-INFINITY, 0, INFINITY}}, {-1, 0, 1}},
    /* The divisor's sign; 0 for a divisor of 0. */
    {"mod",
     "",
     6,
     {{7, -7, 7, -7, 7, -7}, {3, 3, -3, -3, 0, 0}},
     {1, 2, -2, -1, 0, 0}},
    {"mod_scalar", "scalar=0", 2, {{7, -7}}, {0, 0}},
    {"rmod_scalar", "scalar=7", 4, {{3, -3, 0, 2.5}}, {1, -2, 0, 2}},
    {"power",
     "",
     5,
     {{0, -8, -8, NAN, 2}, {0, 3, 0.5, 0, -INFINITY}},
     {1, -512, NAN, 1, 0}},
    {"hypot", "", 3, {{3, INFINITY, 0}, {4, NAN, 0}}, {5, INFINITY, 0}},
    {"equal",
     "",
     4,
     {{0, NAN, INFINITY, 1}, {-0.0, NAN, INFINITY, 2}},
     {1, 0, 1, 0}},
    {"not_equal", "", 3, {{0, NAN, 1}, {-0.0, NAN, 2}}, {0, 1, 1}},
    {"greater", "", 3, {{1, NAN, 2}, {1, 0, 1}}, {0, 0, 1}},
    {"lesser_equal", "", 3, {{1, NAN, 2}, {1, 0, 1}}, {1, 0, 0}},
    {"clip",
     "a_min=-1 a_max=2",
     5,
     {{-INFINITY, -1, 0.5, 7, NAN}},
     {-1, -1, 0.5, 2, NAN}},
    {"zeros_like", "", 3, {{NAN, INFINITY, 5}}, {0, 0, 0}},
    {"ones_like", "", 3, {{NAN, INFINITY, 5}}, {1, 1, 1}},
};

Test(edges, values_at_the_edges_are_those_of_c_and_the_manual) {
  for (size_t i = 0; i < sizeof edges / sizeof *edges; ++i) {
    check_edge(&edges[i], TN_F64);
    check_edge(&edges[i], TN_F32);
  }
}

/* --------------------------------------------------------------- gradients */

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

static void expect_tie(const char *name) {
  tn_array *in[2] = {ARRAY(TN_F64, 2, 2), ARRAY(TN_F64, 2, 2)};
  tn_array *head = ARRAY(TN_F64, 5, 7), *grads[2] = {NULL, NULL};
  backward(named(name), NULL, &(tn_inputs){2, in}, head, grads);
  host_expect(grads[0], (double[]){5, 7}, 2, 0);
  host_expect(grads[1], (double[]){0, 0}, 2, 0);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(head);
  tn_array_release(grads[0]), tn_array_release(grads[1]);
}

Test(edges, of_two_equal_elements_the_first_gets_the_gradient) {
  expect_tie("maximum"), expect_tie("minimum");
  expect_tie("broadcast_maximum"), expect_tie("broadcast_minimum");
}

/* The remainder by 0 is 0 for every dividend, so both gradients are 0.
 */
Test(edges, the_remainder_by_zero_has_no_slopes) {
  static const char *const names[] = {"mod", "broadcast_mod"};
  for (int k = 0; k < 2; ++k) {
    tn_array *in[2] = {ARRAY(TN_F64, 7, -7, 0, 7),
                       ARRAY(TN_F64, 0, -0.0, 0, 4)};
    tn_array *head = ARRAY(TN_F64, 5, 7, 1, 2), *grads[2] = {NULL, NULL};
    backward(named(names[k]), NULL, &(tn_inputs){2, in}, head, grads);
    host_expect(grads[0], (double[]){5, 7, 1, 2}, 4, 0);
    host_expect(grads[1], (double[]){0, 0, 0, -2}, 4, 0);
    tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(head);
    tn_array_release(grads[0]), tn_array_release(grads[1]);
  }
}

static void expect_slopes(const char *name, const char *text, tn_array *x,
                          const double *want) {
  tn_operator *op = named(name);
  tn_params *params = host_params(op, text);
  double ones[HOST_MAX];
  const int64_t n = tn_array_size(x);
  for (int64_t i = 0; i < n; ++i) ones[i] = 2;
  tn_array *head = host_array(rt, TN_F64, (host_shape){1, {n}}, ones);
  tn_array *g = NULL;
  backward(op, params, TN_IN(x), head, &g);
  host_expect(g, want, n, 0);
  tn_array_release(g), tn_array_release(head), tn_array_release(x);
  tn_params_release(params);
}

/* Under a head of 2. */
Test(edges, slopes_at_kinks_are_those_of_the_manual) {
  expect_slopes("rmod_scalar", "scalar=7", ARRAY(TN_F64, 0, -0.0, 4),
                (double[]){0, 0, -2});
  const double zeros[4] = {0, 0, 0, 0};
  static const char *const steps[] = {"sign", "round",      "rint",
                                      "ceil", "floor",      "trunc",
                                      "fix",  "zeros_like", "ones_like"};
  expect_slopes("abs", "", ARRAY(TN_F64, -3, 0, 3), (double[]){-2, 0, 2});
  expect_slopes("clip", "a_min=-1 a_max=1", ARRAY(TN_F64, -2, -1, 0, 1, 2),
                (double[]){0, 2, 2, 2, 0});
  expect_slopes("maximum_scalar", "scalar=1", ARRAY(TN_F64, 0, 1, 2),
                (double[]){0, 2, 2});
  expect_slopes("minimum_scalar", "scalar=1", ARRAY(TN_F64, 0, 1, 2),
                (double[]){2, 2, 0});
  expect_slopes("hypot_scalar", "scalar=0", ARRAY(TN_F64, 0, 3),
                (double[]){0, 2});
  expect_slopes("power_scalar", "scalar=0", ARRAY(TN_F64, -2, 0, 3),
                (double[]){0, 0, 0});
  expect_slopes("rpower_scalar", "scalar=0", ARRAY(TN_F64, 0, -0.0, 0.5),
                (double[]){0, 0, 0});
  expect_slopes("smooth_l1", "scalar=2",
                ARRAY(TN_F64, -3, -0.25, -0.125, 0, 0.125, 0.25, 3),
                (double[]){-2, -2, -1, 0, 1, 2, 2});
  expect_slopes("relu", "", ARRAY(TN_F64, -3, 0, 3), (double[]){0, 0, 2});
  expect_slopes("make_loss", "", ARRAY(TN_F64, -3, 0, 3), (double[]){1, 1, 1});
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i)
    expect_slopes(steps[i], "", ARRAY(TN_F64, -2.5, 0, 0.75, 4), zeros);
}

static tn_array *recorded(tn_tape *tape, const char *name,
                          const tn_inputs *in) {
  tn_array *y = NULL;
  OK(tn_tape_call(tape, named(name), in, NULL, TN_OUT(&y)));
  return y;
}

static tn_array *gradient(tn_tape *tape, tn_array *y, tn_array *x) {
  tn_array *g = NULL;
  const tn_tape_query q = {.struct_size = sizeof q,
                           .heads = *TN_IN(y),
                           .of = *TN_IN(x),
                           .gradients = *TN_OUT(&g)};
  OK(tn_tape_gradient(tape, &q));
  return g;
}

/* x * stop(x^2): the second factor counts as a constant. */
Test(edges, nothing_goes_back_through_stop_gradient) {
  tn_tape *tape = NULL;
  tn_array *x = ARRAY(TN_F64, 3, -2);
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  tn_array *square = recorded(tape, "square", TN_IN(x));
  tn_array *constant = recorded(tape, "stop_gradient", TN_IN(square));
  tn_array *y = recorded(tape, "mul", TN_IN(x, constant));
  tn_array *g = gradient(tape, y, x);
  host_expect(g, (double[]){9, 4}, 2, 0);
  tn_array_release(x), tn_array_release(square), tn_array_release(constant);
  tn_array_release(y), tn_array_release(g);
  tn_tape_release(tape);
}

/* A loss of 3 x: the head's weight is 1, so dx is 3. */
Test(edges, comparisons_and_steps_pass_zeros_on_a_tape) {
  tn_tape *tape = NULL;
  tn_array *x = ARRAY(TN_F64, 3, -2), *z = ARRAY(TN_F64, 1, 1);
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  tn_array *above = recorded(tape, "broadcast_greater", TN_IN(x, z));
  tn_array *whole = recorded(tape, "floor", TN_IN(above));
  tn_array *y = recorded(tape, "broadcast_mul", TN_IN(x, whole));
  tn_array *g = gradient(tape, y, x);
  host_expect(g, (double[]){1, 0}, 2, 0);
  tn_array_release(x), tn_array_release(z), tn_array_release(above);
  tn_array_release(whole), tn_array_release(y), tn_array_release(g);
  tn_tape_release(tape);
}

/* The gradients of a product for the output gradient `head`, as a separate
 * call. */
static tn_code slopes_of_product(tn_array *head, tn_array *const x[2],
                                 const tn_outputs *slopes) {
  tn_array *y = NULL;
  OK(tn_call(rt, named("broadcast_mul"), TN_IN(x[0], x[1]), NULL, TN_OUT(&y)));
  const tn_code rc = tn_call(rt, named("broadcast_mul_grad"),
                             TN_IN(head, x[0], x[1], y), NULL, slopes);
  tn_array_release(y);
  return rc;
}

Test(edges, slopes_of_broadcasts_are_sums_that_are_added_where_asked) {
  const host_shape wide = {2, {2, 3}}, column = {2, {2, 1}}, row = {1, {3}};
  tn_array *x[2] = {host_array(rt, TN_F32, column, (double[]){10, 20}),
                    host_array(rt, TN_F32, row, (double[]){1, 2, 3})};
  tn_array *head = host_array(rt, TN_F32, wide, (double[]){1, 1, 2, 1, 0, 1});
  tn_array *slopes[2] = {
      NULL, host_array(rt, TN_F32, row, (double[]){1000, 2000, 3000})};
  const tn_req req[2] = {TN_REQ_WRITE, TN_REQ_ADD};
  OK(slopes_of_product(head, x, &(tn_outputs){2, slopes, req}));
  cr_assert_eq(tn_array_tensor(slopes[0])->ndim, 2);
  host_expect(slopes[0], (double[]){9, 4}, 2, 0);
  host_expect(slopes[1], (double[]){1030, 2010, 3040}, 3, 0);
  tn_array_release(x[0]), tn_array_release(x[1]), tn_array_release(head);
  tn_array_release(slopes[0]), tn_array_release(slopes[1]);
}

/* Not even by a kernel: it would read an absent operand. */
Test(edges, a_head_that_is_no_broadcast_of_the_inputs_is_refused) {
  const host_shape wide = {2, {2, 3}}, row = {1, {3}};
  tn_array *x[2] = {host_array(rt, TN_F32, wide, (double[6]){0}),
                    host_array(rt, TN_F32, row, (double[3]){0})};
  tn_array *head = host_array(rt, TN_F32, row, (double[3]){0});
  tn_array *slopes[2] = {NULL, NULL};
  const tn_outputs out = {2, slopes, NULL};
  FAILS(slopes_of_product(head, x, &out), TN_SHAPE, "`out_head`");
  tn_array_release(x[0]), tn_array_release(x[1]), tn_array_release(head);
}

Test(edges, gradients_of_broadcasts_are_added_where_that_is_asked_for) {
  tn_operator *op = named("broadcast_mul");
  const host_shape wide = {2, {2, 3}}, point = {0, {0}};
  tn_array *in[2] = {host_array(rt, TN_F32, wide, (double[]){1, 2, 3, 4, 5, 6}),
                     host_array(rt, TN_F32, point, (double[]){10})};
  tn_array *grads[2] = {NULL, host_array(rt, TN_F32, point, (double[]){1000})};
  tn_array *head = host_array(rt, TN_F32, wide, (double[]){1, 1, 1, 1, 1, 2});
  tn_array *out = NULL;
  const tn_req req[2] = {TN_REQ_NULL, TN_REQ_ADD};
  OK(tn_call(rt, op, &(tn_inputs){2, in}, NULL, TN_OUT(&out)));
  host_expect(out, (double[]){10, 20, 30, 40, 50, 60}, 6, 0);
  const tn_backward call = {.struct_size = sizeof call,
                            .inputs = {2, in},
                            .outputs = {1, &out},
                            .out_grads = {1, &head},
                            .in_grads = {2, grads, req}};
  OK(tn_call_backward(rt, op, &call));
  cr_assert_null(grads[0]);
  host_expect(grads[1], (double[]){1027}, 1, 0);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(out);
  tn_array_release(head), tn_array_release(grads[1]);
}

/* ---------------------------------------------------------------- integers */

static tn_array *bytes_of(tn_dtype dtype, int64_t n, const void *bytes) {
  tn_array *array = NULL;
  OK(tn_array_create(rt, &(tn_spec){dtype, 1, &n}, &array));
  OK(tn_array_set(array, bytes, (size_t)n * (size_t)tn_dtype_bytes(dtype)));
  return array;
}

#define INTS(dtype, type, ...)                                             \
  bytes_of(dtype, (int64_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)), \
           (type[]){__VA_ARGS__})

/* Checks the bytes of op(a, b), or op(a), and releases all. */
static void expect_bytes(const char *name, const char *text, tn_array **in,
                         tn_array *want) {
  tn_operator *op = named(name);
  unsigned char left[HOST_MAX], right[HOST_MAX];
  const tn_tensor *t = tn_array_tensor(want);
  const size_t n =
      (size_t)tn_array_size(want) * (size_t)tn_dtype_bytes(t->dtype);
  tn_params *params = host_params(op, text);
  tn_array *y = NULL;
  OK(tn_call(rt, op, &(tn_inputs){in[1] ? 2 : 1, in}, params, TN_OUT(&y)));
  cr_assert_eq(tn_array_tensor(y)->dtype, t->dtype, "%s", name);
  cr_assert_eq(tn_array_size(y), tn_array_size(want), "%s", name);
  OK(tn_array_get(y, left, n));
  OK(tn_array_get(want, right, n));
  cr_assert_arr_eq(left, right, n, "%s", name);
  tn_array_release(y), tn_array_release(want), tn_params_release(params);
  tn_array_release(in[0]), tn_array_release(in[1]);
}

#define IS(name, text, a, b, want) \
  expect_bytes(name, text, (tn_array *[]){a, b}, want)
#define I8(...) INTS(TN_I8, int8_t, __VA_ARGS__)
#define U8(...) INTS(TN_U8, uint8_t, __VA_ARGS__)
#define I32(...) INTS(TN_I32, int32_t, __VA_ARGS__)
#define U32(...) INTS(TN_U32, uint32_t, __VA_ARGS__)
#define I64(...) INTS(TN_I64, int64_t, __VA_ARGS__)
#define BOOL(...) INTS(TN_BOOL, uint8_t, __VA_ARGS__)
#define F64(...) INTS(TN_F64, double, __VA_ARGS__)

Test(edges, integers_wrap) {
  IS("add", "", U8(250, 1), U8(10, 2), U8(4, 3));
  IS("broadcast_sub", "", U8(1, 7), U8(2), U8(255, 5));
  IS("mul", "", I32(65536, -3), I32(65536, 5), I32(0, -15));
  IS("negative", "", I8(-128, 5), NULL, I8(-128, -5));
  IS("abs", "", I32(INT32_MIN, -5), NULL, I32(INT32_MIN, 5));
  IS("square", "", U32(65537, 9), NULL, U32(131073, 81));
  IS("add", "", I64(INT64_MAX, 1), I64(1, 1), I64(INT64_MIN, 2));
  IS("add_scalar", "scalar=-3", I8(-127, 5), NULL, I8(126, 2));
}

/* 2^53 and 2^53 + 1 are one double. */
Test(edges, sixty_four_bits_are_compared_and_kept_exactly) {
  const int64_t big = INT64_C(9007199254740992);
  IS("greater", "", I64(big + 1, big), I64(big, big + 1), I64(1, 0));
  IS("maximum", "", I64(big + 1, -5), I64(big, -6), I64(big + 1, -5));
  IS("copy", "", I64(big + 1, INT64_MIN), NULL, I64(big + 1, INT64_MIN));
  IS("equal", "", U32(4294967295u, 1), U32(4294967295u, 2), U32(1, 0));
}

Test(edges, remainders_of_integers_take_the_divisors_sign) {
  IS("mod", "", I32(7, -7, 7, -7, 7), I32(3, 3, -3, -3, 0),
     I32(1, 2, -2, -1, 0));
  IS("mod", "", I64(INT64_MIN, 5), I64(-1, 0), I64(0, 0));
  IS("mod", "", U8(250, 7), U8(16, 0), U8(10, 0));
  IS("rmod_scalar", "scalar=7", I8(3, -3, 0), NULL, I8(1, -2, 0));
}

Test(edges, integers_are_clipped) {
  IS("clip", "a_min=-3 a_max=100", I8(-128, -3, 50, 127), NULL,
     I8(-3, -3, 50, 100));
}

/* The nearest that the type computed in has, which small types then cut. */
Test(edges, numbers_beyond_an_integer_type_are_its_bounds) {
  IS("clip", "a_min=0 a_max=1e10", I32(1, -2, INT32_MAX), NULL,
     I32(1, 0, INT32_MAX));
  IS("clip", "a_min=-inf a_max=inf", I64(1, INT64_MIN, INT64_MAX), NULL,
     I64(1, INT64_MIN, INT64_MAX));
  IS("clip", "a_min=2.9 a_max=3e9", U8(1, 2, 255), NULL, U8(2, 2, 255));
  IS("minimum_scalar", "scalar=3e9", I32(1, -2), NULL, I32(1, -2));
  IS("maximum_scalar", "scalar=-1e300", I64(1, -2), NULL, I64(1, -2));
  IS("maximum_scalar", "scalar=1e19", I64(1, -2), NULL,
     I64(INT64_MAX, INT64_MAX));
  IS("maximum_scalar", "scalar=1000", U8(1, 2), NULL, U8(232, 232));
  IS("lesser_scalar", "scalar=3e9", I32(1, -2, 3), NULL, I32(1, 1, 1));
  IS("greater_scalar", "scalar=inf", I64(1, -2, 3), NULL, I64(0, 0, 0));
  IS("greater_scalar", "scalar=-inf", I32(1, -2, 3), NULL, I32(1, 1, 1));
  IS("add_scalar", "scalar=nan", I32(1, -2), NULL, I32(1, -2));
  IS("add_scalar", "scalar=nan", U32(1, 2), NULL, U32(1, 2));
}

Test(edges, casts_truncate_wrap_and_ask_whether) {
  IS("cast", "dtype=i32", F64(-2.75, 2.75, -0.5), NULL, I32(-2, 2, 0));
  IS("cast", "dtype=bool", F64(0, 0.25, NAN), NULL, BOOL(0, 1, 1));
  IS("cast", "dtype=u8", I32(-1, 256, 300), NULL, U8(255, 0, 44));
  IS("cast", "dtype=i64", BOOL(1, 0), NULL, I64(1, 0));
  IS("cast", "dtype=f64", U32(4294967295u, 1), NULL, F64(4294967295., 1));
}

/* Under TN_REQ_ADD a float becomes an integer first, as where it is written,
 * and the sum is one of integers: 2^24 + 1 is no float, 2^53 + 1 no double. */
Test(edges, additions_to_integers_have_the_written_value) {
  static const tn_dtype from[] = {TN_F16, TN_F32, TN_F64};
  static const char *const names[] = {"dtype=i32", "dtype=i64"};
  tn_operator *op = named("cast");
  const tn_req add = TN_REQ_ADD;
  for (int k = 0; k < 6; ++k) {
    tn_params *params = host_params(op, names[k % 2]);
    tn_array *x = ARRAY(from[k / 2], -0.5, 2.75, 0.75, -2.75);
    tn_array *y = k % 2 ? I64(1, -1, (INT64_C(1) << 53) + 1, 0)
                        : I32(1, -1, (1 << 24) + 1, 0);
    tn_array *want = k % 2 ? I64(1, 1, (INT64_C(1) << 53) + 1, -2)
                           : I32(1, 1, (1 << 24) + 1, -2);
    char left[64], right[64];
    const size_t n = (size_t)tn_array_tensor(y)->shape[0] * (k % 2 ? 8 : 4);
    OK(tn_call(rt, op, TN_IN(x), params, &(tn_outputs){1, &y, &add}));
    OK(tn_array_get(y, left, n));
    OK(tn_array_get(want, right, n));
    cr_assert_arr_eq(left, right, n, "%s of %x", names[k % 2], from[k / 2]);
    tn_array_release(x), tn_array_release(y), tn_array_release(want);
    tn_params_release(params);
  }
}

/* The gradient comes back in the type of the input. */
Test(edges, the_gradient_of_a_cast_is_cast_back) {
  tn_operator *op = named("cast");
  tn_params *params = host_params(op, "dtype=f64");
  tn_array *x = ARRAY(TN_F32, 1, 2), *head = ARRAY(TN_F64, 0.5, -3);
  tn_array *g = NULL;
  backward(op, params, TN_IN(x), head, &g);
  cr_assert_eq(tn_array_tensor(g)->dtype, TN_F32);
  host_expect(g, (double[]){0.5, -3}, 2, 0);
  tn_array_release(x), tn_array_release(head), tn_array_release(g);
  tn_params_release(params);
}

/* ------------------------------------------------------------ whole numbers */

/* x times the remainder of its whole part by 4, in three calls of integers. */
static const struct whole_call {
  const char *op;
  const char *params;
} whole_calls[] = {
    {"cast", "dtype=i32"}, {"mod_scalar", "scalar=4"}, {"cast", "dtype=f64"}};

static tn_array *whole_by_tape(tn_array *x, tn_array *weight) {
  tn_tape *tape = NULL;
  tn_array *at[5] = {x}, *g = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  for (int i = 0; i < 3; ++i) {
    tn_operator *op = named(whole_calls[i].op);
    tn_params *params = host_params(op, whole_calls[i].params);
    OK(tn_tape_call(tape, op, TN_IN(at[i]), params, TN_OUT(&at[i + 1])));
    tn_params_release(params);
  }
  OK(tn_tape_call(tape, named("mul"), TN_IN(x, at[3]), NULL, TN_OUT(&at[4])));
  const tn_tape_query q = {.struct_size = sizeof q,
                           .heads = *TN_IN(at[4]),
                           .head_gradients = *TN_IN(weight),
                           .of = *TN_IN(x),
                           .gradients = *TN_OUT(&g)};
  OK(tn_tape_gradient(tape, &q));
  for (int i = 1; i < 5; ++i) tn_array_release(at[i]);
  tn_tape_release(tape);
  return g;
}

static tn_entry whole_node(tn_graph *g, const char *op, const char *params,
                           const tn_entry *in, uint32_t n) {
  char name[32];
  tn_entry out;
  (void)snprintf(name, sizeof name, "elemwise.%s", op);
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = name,
                                    .params = params,
                                    .in = in,
                                    .n_in = n},
                   &out));
  return out;
}

static tn_program *whole_bind(tn_array *x) {
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_entry in[2];
  OK(tn_graph_create(rt, &g));
  OK(tn_graph_variable(g, "x", NULL, &in[0]));
  in[1] = in[0];
  for (int i = 0; i < 3; ++i)
    in[1] = whole_node(g, whole_calls[i].op, whole_calls[i].params, &in[1], 1);
  const tn_entry head = whole_node(g, "mul", NULL, in, 2);
  OK(tn_graph_heads_set(g, &head, 1));
  const tn_argument argument = {.name = "x", .array = x};
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .request = TN_REQ_WRITE,
                                .arguments = &argument,
                                .n_arguments = 1},
                     &p));
  tn_graph_release(g);
  return p;
}

/* The gradient of a remainder of integers is 0, and so is the gradient through
 * a cast to them. */
Test(edges, nothing_goes_back_through_whole_numbers) {
  tn_array *x = ARRAY(TN_F64, 1.5, 7.25, -3), *weight = ARRAY(TN_F64, 2, 3, 5);
  const double want[] = {2, 9, 5};
  tn_array *by_tape = whole_by_tape(x, weight), *by_program = NULL;
  tn_program *p = whole_bind(x);
  OK(tn_program_forward(p, TN_CALL_TRAIN));
  OK(tn_program_backward(p, &weight, 1));
  OK(tn_program_array(p, TN_PROGRAM_GRADIENT, "x", &by_program));
  host_expect(by_tape, want, 3, 0);
  host_expect(by_program, want, 3, 0);
  tn_program_release(p);
  tn_array_release(x), tn_array_release(weight), tn_array_release(by_tape);
}

/* ------------------------------------------------------- sums of halves */

/* 64 products of two numbers a little above 1, less their values as halves: a
 * sum that is 0 if each is rounded first. */
static void check_half_sum(tn_dtype dtype, double step, tn_req how) {
  enum { N_TERMS = 128 };
  double x[N_TERMS], head[N_TERMS];
  const int64_t dims[1] = {N_TERMS};
  const double one = 1, start = how == TN_REQ_ADD ? 1 : 0;
  for (int i = 0; i < N_TERMS; ++i) {
    x[i] = i % 2 ? 1 + step : 1 + 2 * step;
    head[i] = i % 2 ? 1 + step : -1;
  }
  tn_array *lhs = host_many(rt, dtype, 1, dims, x);
  tn_array *head_array = host_many(rt, dtype, 1, dims, head);
  tn_array *rhs = host_many(rt, dtype, 0, NULL, &one);
  tn_array *grads[2] = {NULL, host_many(rt, dtype, 0, NULL, &start)};
  const tn_backward back = {.struct_size = sizeof back,
                            .inputs = {2, (tn_array *[]){lhs, rhs}},
                            .outputs = {1, &lhs},
                            .out_grads = {1, &head_array},
                            .in_grads = {2, grads, (tn_req[]){0, how}}};
  OK(tn_call_backward(rt, named("broadcast_mul"), &back));
  const double want = start + N_TERMS / 2 * step * step;
  host_expect(grads[1], &want, 1, how == TN_REQ_ADD ? step : 0);
  tn_array *all[] = {lhs, head_array, rhs, grads[1]};
  for (int i = 0; i < 4; ++i) tn_array_release(all[i]);
}

Test(edges, gradients_of_repeated_halves_are_not_rounded_before_the_sum) {
  check_half_sum(TN_F16, 0x1p-10, TN_REQ_WRITE);
  check_half_sum(TN_BF16, 0x1p-7, TN_REQ_WRITE);
  check_half_sum(TN_F16, 0x1p-10, TN_REQ_ADD);
}
