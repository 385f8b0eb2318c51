/* SPDX-License-Identifier: Apache-2.0
 * plugins/elemwise through the public API: values by hand or closed form, every
 * request kind, layouts, dtypes, and gradients by finite differences.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "host.h"

/* ----------------------------------------------------------------- forward */

/* Checks op(inputs) for dense arrays of one shape. */
typedef struct value_case {
  const char *op;
  const char *params;
  size_t n_in;
  double in[2][6];
  double out[6];
} value_case;

/* sigmoid(0) = 1/2, sigmoid(ln 3) = 3/4; smooth_l1 with scalar 2: the kink is
 * at 1/4, inside 0.5*4*x^2, outside |x| - 1/8. */
#define LN3 1.0986122886681098
static const value_case value_cases[] = {
    {"quadratic",
     "a=1 b=2 c=3",
     1,
     {{1, 2, 3, 4, 0, -1}},
     {6, 11, 18, 27, 3, 2}},
    {"quadratic", "", 1, {{1, 2, 3, 4, 0, -1}}, {0, 0, 0, 0, 0, 0}},
    {"add",
     "",
     2,
     {{1, 2, 3, 4, 0, -1}, {1, 1, 2, 0, 5, 1}},
     {2, 3, 5, 4, 5, 0}},
    {"mul",
     "",
     2,
     {{1, 2, 3, 4, 0, -1}, {1, 1, 2, 0, 5, 1}},
     {1, 2, 6, 0, 0, -1}},
    {"relu", "", 1, {{1, -2, 3, -4, 0, -1}}, {1, 0, 3, 0, 0, 0}},
    {"sigmoid", "", 1, {{0, LN3, -LN3, 0, 0, 0}}, {.5, .75, .25, .5, .5, .5}},
    {"smooth_l1",
     "scalar=2",
     1,
     {{.125, -.125, 1, -1, 0, .25}},
     {.03125, .03125, .875, .875, 0, .125}},
    {"smooth_l1",
     "",
     1,
     {{.5, -.5, 10, -10, 0, 1}},
     {.125, .125, 9.5, 9.5, 0, .5}},
};
enum { N_VALUE_CASES = sizeof value_cases / sizeof value_cases[0] };

static tn_operator *operator_of(tn_runtime *rt, const char *op) {
  char name[64] = "elemwise.";
  strcat(name, op);
  return host_operator(rt, name);
}

static void check_values(tn_runtime *rt, const value_case *c, tn_dtype dtype,
                         double tolerance) {
  const host_shape shape = {2, {2, 3}};
  tn_operator *op = operator_of(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[2] = {NULL, NULL}, *out = NULL;
  for (size_t i = 0; i < c->n_in; ++i)
    in[i] = host_array(rt, dtype, shape, c->in[i]);
  OK(tn_call(rt, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
  host_expect(out, c->out, 6, tolerance);
  tn_array_release(out), tn_array_release(in[0]), tn_array_release(in[1]);
  tn_params_release(params);
}

Test(elemwise, values_are_those_computed_by_hand_in_every_dtype) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < N_VALUE_CASES; ++i) {
    const value_case *c = &value_cases[i];
    const bool inexact = strcmp(c->op, "sigmoid") == 0;
    check_values(rt, c, TN_F64, 1e-15);
    check_values(rt, c, TN_F32, inexact ? 1e-6 : 0);
    if (inexact) continue; /* ln 3 has no short fraction */
    check_values(rt, c, TN_F16, 0);
    if (strcmp(c->op, "smooth_l1") != 0) check_values(rt, c, TN_BF16, 0);
  }
  tn_runtime_release(rt);
}

Test(elemwise, add_requests_accumulate_and_write_requests_overwrite) {
  tn_runtime *rt = host_open();
  const host_shape shape = {1, {6}};
  for (size_t i = 0; i < N_VALUE_CASES; ++i) {
    const value_case *c = &value_cases[i];
    const double poison[6] = {NAN, NAN, NAN, NAN, NAN, NAN};
    const double old[6] = {100, 200, 300, 400, 500, 600};
    double sum[6];
    tn_operator *op = operator_of(rt, c->op);
    tn_params *params = host_params(op, c->params);
    tn_array *in[2] = {NULL, NULL};
    for (size_t k = 0; k < c->n_in; ++k)
      in[k] = host_array(rt, TN_F64, shape, c->in[k]);
    tn_array *out = host_array(rt, TN_F64, shape, poison);
    OK(tn_call(rt, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
    host_expect(out, c->out, 6, 1e-15);
    tn_array *total = host_array(rt, TN_F64, shape, old);
    const tn_req add = TN_REQ_ADD;
    OK(tn_call(rt, op, &(tn_inputs){c->n_in, in}, params,
               &(tn_outputs){1, &total, &add}));
    for (int k = 0; k < 6; ++k) sum[k] = old[k] + c->out[k];
    host_expect(total, sum, 6, 1e-15);
    tn_array_release(out), tn_array_release(total);
    tn_array_release(in[0]), tn_array_release(in[1]);
    tn_params_release(params);
  }
  tn_runtime_release(rt);
}

Test(elemwise, an_output_may_be_the_input) {
  tn_runtime *rt = host_open();
  const host_shape shape = {2, {3, 2}};
  for (size_t i = 0; i < N_VALUE_CASES; ++i) {
    const value_case *c = &value_cases[i];
    tn_operator *op = operator_of(rt, c->op);
    tn_params *params = host_params(op, c->params);
    tn_array *in[2] = {NULL, NULL};
    for (size_t k = 0; k < c->n_in; ++k)
      in[k] = host_array(rt, TN_F64, shape, c->in[k]);
    tn_array *out = in[0];
    OK(tn_call(rt, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
    cr_assert_eq(out, in[0]);
    host_expect(out, c->out, 6, 1e-15);
    tn_array_release(in[0]), tn_array_release(in[1]);
    tn_params_release(params);
  }
  tn_runtime_release(rt);
}

Test(elemwise, strided_reversed_and_repeated_inputs_are_read_in_place) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "elemwise.quadratic");
  tn_params *params = host_params(op, "a=1 b=2 c=3");
  const double values[6] = {1, 2, 3, 4, 0, -1};
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {2, 3}}, values);
  tn_array *turned = NULL, *back = NULL, *row = NULL, *wide = NULL, *y = NULL;
  OK(tn_array_transpose(x, NULL, &turned));
  OK(tn_call(rt, op, TN_IN(turned), params, TN_OUT(&y)));
  host_expect(y, (double[]){6, 27, 11, 3, 18, 2}, 6, 0);
  tn_array_release(y), y = NULL;
  OK(tn_array_slice(
      x, &(tn_range){.axis = 1, .begin = 2, .end = -4, .step = -1}, &back));
  OK(tn_call(rt, op, TN_IN(back), params, TN_OUT(&y)));
  host_expect(y, (double[]){18, 11, 6, 2, 3, 27}, 6, 0);
  tn_array_release(y), y = NULL;
  OK(tn_array_index(x, 0, 0, &row));
  OK(tn_array_broadcast(row, 2, (int64_t[]){2, 3}, &wide));
  OK(tn_call(rt, op, TN_IN(wide), params, TN_OUT(&y)));
  host_expect(y, (double[]){6, 11, 18, 6, 11, 18}, 6, 0);
  tn_array_release(y), tn_array_release(wide), tn_array_release(row);
  tn_array_release(back), tn_array_release(turned), tn_array_release(x);
  tn_params_release(params);
  tn_runtime_release(rt);
}

Test(elemwise, empty_and_0d_arrays_are_ordinary) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "elemwise.quadratic");
  tn_params *params = host_params(op, "a=1 b=2 c=3");
  const double two = 2;
  tn_array *empty = host_array(rt, TN_F32, (host_shape){2, {0, 3}}, NULL);
  tn_array *point = host_array(rt, TN_F32, (host_shape){0, {0}}, &two);
  tn_array *y = NULL;
  OK(tn_call(rt, op, TN_IN(empty), params, TN_OUT(&y)));
  cr_assert_eq(tn_array_tensor(y)->ndim, 2);
  cr_assert_eq(tn_array_size(y), 0);
  tn_array_release(y), y = NULL;
  OK(tn_call(rt, op, TN_IN(point), params, TN_OUT(&y)));
  cr_assert_eq(tn_array_tensor(y)->ndim, 0);
  host_expect(y, (double[]){11}, 1, 0);
  tn_array_release(y), tn_array_release(point), tn_array_release(empty);
  tn_params_release(params);
  tn_runtime_release(rt);
}

Test(elemwise, relu_is_computed_by_the_kernel_that_a_person_wrote) {
  tn_runtime *rt = host_open();
  tn_text *text = NULL;
  OK(tn_operator_explain(host_operator(rt, "elemwise.relu"), NULL, NULL,
                         &text));
  const char *hand = strstr(tn_text_get(text), "elemwise.relu.cpu");
  const char *made = strstr(tn_text_get(text), "elemwise.relu.cpu.generated");
  cr_assert_not_null(hand, "%s", tn_text_get(text));
  cr_assert_not_null(made, "%s", tn_text_get(text));
  cr_assert_lt(hand, made, "%s", tn_text_get(text));
  tn_text_release(text);
  tn_runtime_release(rt);
}

/* Both kernels of relu, the written one and the generated one that stays as its
 * reference, on halves of every kind; of two zeros either may come out. */
Test(elemwise, the_written_and_the_generated_relu_agree) {
  static const char *const kernels[] = {"elemwise.relu.cpu",
                                        "elemwise.relu.cpu.generated"};
  static const uint16_t halves[9] = {0,      0x8000, 0x0001, 0x8001, 0x7c00,
                                     0xfc00, 0x4300, 0xc300, 0x7bff};
  const double zeros[9] = {0};
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "elemwise.relu");
  tn_array *x = host_array(rt, TN_F16, (host_shape){1, {9}}, zeros);
  OK(tn_array_set(x, halves, sizeof halves));
  uint16_t got[2][9];
  for (size_t k = 0; k < 2; ++k) {
    tn_array *y = NULL;
    OK(tn_operator_pin(op, kernels[k]));
    OK(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)));
    OK(tn_array_get(y, got[k], sizeof got[k]));
    tn_array_release(y);
  }
  for (size_t i = 0; i < 9; ++i)
    cr_assert(got[0][i] == got[1][i] || ((got[0][i] | got[1][i]) & 0x7fff) == 0,
              "relu of %#x is %#x and %#x", halves[i], got[0][i], got[1][i]);
  tn_array_release(x);
  tn_runtime_release(rt);
}

/* --------------------------------------------------------------- gradients */

/* One backward call in f64 with head gradients `head`. */
static void run_backward(tn_runtime *rt, tn_operator *op,
                         const tn_params *params, tn_backward *call) {
  tn_array *out = NULL;
  OK(tn_call(rt, op, &call->inputs, params, TN_OUT(&out)));
  call->struct_size = sizeof *call;
  call->params = params;
  call->outputs = (tn_inputs){1, &out};
  OK(tn_call_backward(rt, op, call));
  tn_array_release(out);
}

Test(elemwise, the_gradient_of_quadratic_is_the_one_of_the_manual) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "elemwise.quadratic");
  tn_params *params = host_params(op, "a=1 b=2 c=3");
  const host_shape shape = {2, {2, 2}};
  tn_array *x = host_array(rt, TN_F32, shape, (double[]){1, 2, 3, 4});
  tn_array *head = host_array(rt, TN_F32, shape, (double[]){1, 1, 1, 1});
  tn_array *dx = NULL;
  tn_backward call = {
      .inputs = {1, &x}, .out_grads = {1, &head}, .in_grads = {1, &dx, NULL}};
  run_backward(rt, op, params, &call);
  host_expect(dx, (double[]){4, 6, 8, 10}, 4, 0);
  tn_array_release(dx), tn_array_release(head), tn_array_release(x);
  tn_params_release(params);
  tn_runtime_release(rt);
}

Test(elemwise, of_two_gradients_one_may_be_null_and_one_added) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "elemwise.mul");
  const host_shape shape = {1, {3}};
  tn_array *in[2] = {host_array(rt, TN_F64, shape, (double[]){1, 2, 3}),
                     host_array(rt, TN_F64, shape, (double[]){4, 5, 6})};
  tn_array *head = host_array(rt, TN_F64, shape, (double[]){1, 10, 100});
  tn_array *grads[2] = {NULL,
                        host_array(rt, TN_F64, shape, (double[]){7, 7, 7})};
  const tn_req req[2] = {TN_REQ_NULL, TN_REQ_ADD};
  tn_backward call = {
      .inputs = {2, in}, .out_grads = {1, &head}, .in_grads = {2, grads, req}};
  run_backward(rt, op, NULL, &call);
  cr_assert_null(grads[0]);
  host_expect(grads[1], (double[]){8, 27, 307}, 3, 0);
  tn_array_release(grads[1]), tn_array_release(head);
  tn_array_release(in[0]), tn_array_release(in[1]);
  tn_runtime_release(rt);
}

/* Numbers in (-2, 2), away from the kinks at 0 and +-1/4 ... of the cases. */
static double point(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  const double u = (double)(*state >> 8) / 16777216.0;
  const double x = 4 * u - 2;
  return fabs(fabs(x) - 0.25) < 0.01 || fabs(fabs(x) - 1) < 0.01 ||
                 fabs(x) < 0.01
             ? x + 0.05
             : x;
}

/* sum(head * op(in)) as a function of all inputs. */
static double projected(tn_runtime *rt, tn_operator *op,
                        const tn_params *params, tn_array *const *in,
                        const double *head, size_t n_in) {
  double values[HOST_MAX], sum = 0;
  tn_array *out = NULL;
  OK(tn_call(rt, op, &(tn_inputs){n_in, in}, params, TN_OUT(&out)));
  const int64_t n = host_values(out, values);
  for (int64_t i = 0; i < n; ++i) sum += head[i] * values[i];
  tn_array_release(out);
  return sum;
}

static double slope(tn_runtime *rt, const value_case *c, double x[2][5],
                    const double *head, double *at) {
  const host_shape shape = {1, {5}};
  const double eps = 1e-5, old = *at;
  tn_operator *op = operator_of(rt, c->op);
  tn_params *params = host_params(op, c->params);
  double side[2];
  for (int s = 0; s < 2; ++s) {
    tn_array *in[2] = {NULL, NULL};
    *at = old + (s == 0 ? eps : -eps);
    for (size_t k = 0; k < c->n_in; ++k)
      in[k] = host_array(rt, TN_F64, shape, x[k]);
    side[s] = projected(rt, op, params, in, head, c->n_in);
    tn_array_release(in[0]), tn_array_release(in[1]);
  }
  *at = old;
  tn_params_release(params);
  return (side[0] - side[1]) / (2 * eps);
}

static void check_gradient(tn_runtime *rt, const value_case *c) {
  const host_shape shape = {1, {5}};
  uint32_t state = 42;
  double x[2][5], head[5];
  tn_operator *op = operator_of(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[2] = {NULL, NULL}, *grads[2] = {NULL, NULL};
  for (int i = 0; i < 5; ++i)
    head[i] = point(&state), x[0][i] = point(&state), x[1][i] = point(&state);
  for (size_t k = 0; k < c->n_in; ++k)
    in[k] = host_array(rt, TN_F64, shape, x[k]);
  tn_array *head_array = host_array(rt, TN_F64, shape, head);
  tn_backward call = {.inputs = {c->n_in, in},
                      .out_grads = {1, &head_array},
                      .in_grads = {c->n_in, grads, NULL}};
  run_backward(rt, op, params, &call);
  for (size_t k = 0; k < c->n_in; ++k) {
    double want[5];
    for (int i = 0; i < 5; ++i) want[i] = slope(rt, c, x, head, &x[k][i]);
    host_expect(grads[k], want, 5, 1e-8);
    tn_array_release(grads[k]), tn_array_release(in[k]);
  }
  tn_array_release(head_array);
  tn_params_release(params);
}

Test(elemwise, every_gradient_is_the_slope_of_its_operator) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < N_VALUE_CASES; ++i)
    check_gradient(rt, &value_cases[i]);
  tn_runtime_release(rt);
}

/* --------------------------------------------------------------- bad calls */

Test(elemwise, contradictions_name_both_sources) {
  tn_runtime *rt = host_open();
  tn_operator *add = host_operator(rt, "elemwise.add");
  double zeros[9] = {0};
  tn_array *a = host_array(rt, TN_F32, (host_shape){2, {2, 3}}, zeros);
  tn_array *b = host_array(rt, TN_F32, (host_shape){2, {3, 3}}, zeros);
  tn_array *c = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, zeros);
  tn_array *y = NULL;
  const tn_code shape = tn_call(rt, add, TN_IN(a, b), NULL, TN_OUT(&y));
  FAILS(shape, TN_SHAPE, "elemwise.add");
  FAILS(shape, TN_SHAPE, "(2,3)");
  FAILS(shape, TN_SHAPE, "(3,3)");
  const tn_code dtype = tn_call(rt, add, TN_IN(a, c), NULL, TN_OUT(&y));
  FAILS(dtype, TN_DTYPE, "f32");
  FAILS(dtype, TN_DTYPE, "f64");
  FAILS(dtype, TN_DTYPE, "lhs");
  FAILS(dtype, TN_DTYPE, "rhs");
  const tn_code arity = tn_call(rt, add, TN_IN(a), NULL, TN_OUT(&y));
  FAILS(arity, TN_INVALID, "elemwise.add");
  FAILS(arity, TN_INVALID, "2");
  cr_assert_null(y);
  tn_array_release(a), tn_array_release(b), tn_array_release(c);
  tn_runtime_release(rt);
}

Test(elemwise, integers_are_refused_with_the_types_that_would_do) {
  tn_runtime *rt = host_open();
  tn_array *x = NULL, *y = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_I32, 1, (int64_t[]){3}}, &x));
  const tn_code rc = tn_call(rt, host_operator(rt, "elemwise.quadratic"),
                             TN_IN(x), NULL, TN_OUT(&y));
  FAILS(rc, TN_DTYPE, "i32");
  FAILS(rc, TN_DTYPE, "f32");
  tn_array_release(x);
  tn_runtime_release(rt);
}

Test(elemwise, unknown_operators_and_parameters_come_with_a_suggestion) {
  tn_runtime *rt = host_open();
  tn_operator *op = NULL;
  tn_params *params = NULL;
  FAILS(tn_operator_get(rt, "elemwise.quadratc", &op), TN_NOT_FOUND,
        "elemwise.quadratic");
  cr_assert_null(op);
  op = host_operator(rt, "elemwise.smooth_l1");
  FAILS(tn_params_parse(op, "scaler=1", &params), TN_NOT_FOUND, "scalar");
  FAILS(tn_params_parse(op, "scalar=one", &params), TN_INVALID, "one");
  cr_assert_null(params);
  tn_runtime_release(rt);
}
