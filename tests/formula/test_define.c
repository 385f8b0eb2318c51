/* SPDX-License-Identifier: Apache-2.0
 * Operators whose kernels are formulas: values, types, shapes, requests and
 * gradients. Numbers come from hand computation or quotients of differences.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../plugins/host.h"
#include "tenon/define.h"

static tn_runtime *open_runtime(void) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(NULL, &rt));
  return rt;
}

static tn_operator *define_text(tn_runtime *rt, const char *text) {
  tn_operator *op = NULL;
  OK(tn_operator_define(rt, text, NULL, &op));
  return op;
}

static const char cube[] =
    "opgen: 1\n"
    "op: cube\n"
    "summary: Scaled cube\n"
    "params: [{name: scale, type: float, default: 1}]\n"
    "dtypes: {T: [f16, bf16, f32, f64, i8, i32, i64, u64]}\n"
    "inputs: [{name: data, dtype: T}]\n"
    "outputs: [{name: out, dtype: T, shape: data, inplace: data}]\n"
    "forward: {out: scale*data^3}\n"
    "gradient: auto\n";

static tn_array *call_one(tn_runtime *rt, tn_operator *op, tn_params *params,
                          tn_array *x) {
  tn_array *out = NULL;
  OK(tn_call(rt, op, TN_IN(x), params, TN_OUT(&out)));
  return out;
}

/* Compares elements of any type. */
static void expect_values(tn_array *array, const double *want, int64_t n) {
  double *got = host_many_values(array);
  cr_assert_eq(tn_array_size(array), n);
  for (int64_t i = 0; i < n; ++i)
    cr_expect_eq(got[i], want[i], "element %lld: %g, not %g", (long long)i,
                 got[i], want[i]);
  free(got);
}

Test(formula, a_cube_has_its_values_in_every_type) {
  static const tn_dtype types[] = {TN_F16, TN_BF16, TN_F32, TN_F64,
                                   TN_I8,  TN_I32,  TN_I64, TN_U64};
  const double values[] = {1, 2, 3, 4};
  tn_runtime *rt = open_runtime();
  tn_operator *op = define_text(rt, cube);
  tn_params *params = host_params(op, "scale=2");
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    tn_array *x = host_many(rt, types[i], 2, (const int64_t[]){2, 2}, values);
    tn_array *y = call_one(rt, op, params, x);
    /* 128 wraps in i8. */
    const double last = types[i] == TN_I8 ? -128 : 128;
    expect_values(y, (const double[]){2, 16, 54, last}, 4);
    tn_array_release(x), tn_array_release(y);
  }
  tn_params_release(params);
  tn_runtime_release(rt);
}

/* The result of tn_operator_define is the operator of the text, not that of its
 * gradient, which follows it in order of names. */
Test(formula, the_defined_operator_is_that_of_the_text) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = define_text(rt, cube);
  cr_expect_str_eq(tn_operator_desc(op)->name, "cube");
  cr_expect_not_null(host_operator(rt, "host.cube_grad"));
  OK(tn_operator_remove(rt, op));
  op = define_text(rt, cube);
  tn_runtime_release(rt);
}

/* Sums of gradients of ones by a tape. */
static tn_array *gradient_of(tn_runtime *rt, tn_operator *op, tn_params *params,
                             tn_array *x) {
  tn_tape *tape = NULL;
  tn_array *y = NULL, *dx = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  OK(tn_tape_call(tape, op, TN_IN(x), params, TN_OUT(&y)));
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(y),
                                       .of = *TN_IN(x),
                                       .gradients = *TN_OUT(&dx)}));
  tn_array_release(y);
  tn_tape_release(tape);
  return dx;
}

Test(formula, the_derived_gradient_is_computed) {
  const double values[] = {1, -2, 0.5};
  tn_runtime *rt = open_runtime();
  tn_operator *op = define_text(rt, cube);
  tn_params *params = host_params(op, "scale=2");
  tn_array *x = host_array(rt, TN_F32, (host_shape){1, {3}}, values);
  tn_array *dx = gradient_of(rt, op, params, x);
  host_expect(dx, (const double[]){6, 24, 1.5}, 3, 0);
  tn_array_release(x), tn_array_release(dx);
  tn_params_release(params);
  tn_runtime_release(rt);
}

Test(formula, a_gradient_has_a_gradient) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = define_text(rt, cube);
  tn_array *x =
      host_array(rt, TN_F64, (host_shape){1, {2}}, (const double[]){2, -1});
  tn_tape *tape = NULL;
  tn_array *y = NULL, *dx = NULL, *second = NULL;
  tn_tape_query query = {.struct_size = sizeof query,
                         .flags = TN_TAPE_RECORD,
                         .heads = {1, &y},
                         .of = {1, &x},
                         .gradients = {1, &dx, NULL}};
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  OK(tn_tape_call(tape, op, TN_IN(x), NULL, TN_OUT(&y)));
  OK(tn_tape_gradient(tape, &query));
  query = (tn_tape_query){.struct_size = sizeof query,
                          .heads = {1, &dx},
                          .of = {1, &x},
                          .gradients = {1, &second, NULL}};
  OK(tn_tape_gradient(tape, &query));
  host_expect(second, (const double[]){12, -6}, 2, 0);
  tn_tape_release(tape);
  tn_array_release(x), tn_array_release(y);
  tn_array_release(dx), tn_array_release(second);
  tn_runtime_release(rt);
}

static const char blend[] =
    "opgen: 1\n"
    "op: blend\n"
    "summary: A product and a sum\n"
    "dtypes: {T: [f32, f64]}\n"
    "inputs: [{name: a, dtype: T}, {name: b, dtype: T}]\n"
    "outputs: [{name: out, dtype: T, shape: broadcast}]\n"
    "forward: {out: a*b + 2*b}\n"
    "gradient: auto\n";

Test(formula, inputs_are_broadcast_and_their_gradients_summed) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = define_text(rt, blend);
  tn_array *a = host_array(rt, TN_F32, (host_shape){2, {2, 3}},
                           (const double[]){1, 2, 3, 4, 5, 6});
  tn_array *b = host_array(rt, TN_F32, (host_shape){1, {3}},
                           (const double[]){1, 10, 100});
  tn_array *y = NULL, *grads[2] = {NULL, NULL}, *of[2] = {a, b};
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, a));
  OK(tn_tape_watch(tape, b));
  OK(tn_tape_call(tape, op, TN_IN(a, b), NULL, TN_OUT(&y)));
  host_expect(y, (const double[]){3, 40, 500, 6, 70, 800}, 6, 0);
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(y),
                                       .of = {2, of},
                                       .gradients = {2, grads, NULL}}));
  host_expect(grads[0], (const double[]){1, 10, 100, 1, 10, 100}, 6, 0);
  host_expect(grads[1], (const double[]){9, 11, 13}, 3, 0);
  tn_tape_release(tape);
  tn_array_release(a), tn_array_release(b), tn_array_release(y);
  tn_array_release(grads[0]), tn_array_release(grads[1]);
  tn_runtime_release(rt);
}

Test(formula, results_are_added_and_written_in_place) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = define_text(rt, cube);
  const host_shape two = {1, {2}};
  tn_array *x = host_array(rt, TN_F32, two, (const double[]){1, 2});
  tn_array *sum = host_array(rt, TN_F32, two, (const double[]){10, 20});
  const tn_req add = TN_REQ_ADD;
  OK(tn_call(rt, op, TN_IN(x), NULL, &(const tn_outputs){1, &sum, &add}));
  host_expect(sum, (const double[]){11, 28}, 2, 0);
  OK(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&x)));
  host_expect(x, (const double[]){1, 8}, 2, 0);
  tn_array_release(x), tn_array_release(sum);
  tn_runtime_release(rt);
}

Test(formula, views_of_any_strides_are_read) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = define_text(rt, cube);
  const int32_t axes[] = {1, 0};
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {2, 3}},
                           (const double[]){1, 2, 3, 4, 5, 6});
  tn_array *turned = NULL;
  OK(tn_array_transpose(x, axes, &turned));
  tn_array *y = call_one(rt, op, NULL, turned);
  host_expect(y, (const double[]){1, 64, 8, 125, 27, 216}, 6, 0);
  tn_array_release(x), tn_array_release(turned), tn_array_release(y);
  tn_runtime_release(rt);
}

/* More elements than one slice of a parallel loop, and a last block that is not
 * full. */
Test(formula, many_elements_are_computed_in_blocks) {
  enum { N = 100003 };
  static double values[N];
  tn_runtime *rt = open_runtime();
  tn_operator *op = define_text(
      rt,
      "opgen: 1\nop: f\nsummary: Several values at once\n"
      "dtypes: {T: [f64]}\n"
      "inputs: [{name: x, dtype: T}]\n"
      "outputs: [{name: out, dtype: T, shape: x}]\n"
      "forward: {out: (x + 1)*(x + 2) - (x + 3)*(x + 4) + (x + 1)*(x + 3)}\n"
      "gradient: none\n");
  const int64_t dims[] = {N};
  for (int i = 0; i < N; ++i) values[i] = i % 1000;
  tn_array *x = host_many(rt, TN_F64, 1, dims, values);
  tn_array *y = call_one(rt, op, NULL, x);
  double *got = host_many_values(y);
  for (int i = 0; i < N; ++i) {
    const double v = values[i];
    const double want =
        (v + 1) * (v + 2) - (v + 3) * (v + 4) + (v + 1) * (v + 3);
    cr_assert_eq(got[i], want, "element %d: %g, not %g", i, got[i], want);
  }
  free(got);
  tn_array_release(x), tn_array_release(y);
  tn_runtime_release(rt);
}

/* The values of each function, against those of C. */
Test(formula, functions_are_those_of_c) {
  static const struct {
    const char *formula;
    double at, want;
  } cases[] = {
      {"exp(x)", 0.5, 1.6487212707001282},
      {"log1p(x)", 0.5, 0.4054651081081644},
      {"x^0.5", 2, 1.4142135623730951},
      {"x^-1", 4, 0.25},
      {"x^7", 2, 128},
      {"x^2.5", 4, 32},
      {"2^x", 3, 8},
      {"-x^2", 3, -9},
      {"x % 3", -7, 2},
      {"trunc_mod(x, 3)", -7, -1},
      {"floor_div(x, 3)", -7, -3},
      {"select(x > 1, 10, 20)", 2, 10},
      {"select(x > 1, 10, 20)", 1, 20},
      {"(x < 2) + (x <= 2) + (x == 2) + (x != 2) + (x >= 2) + (x > 2)", 2, 3},
      {"clip(x, 0, 1)", 7, 1},
      {"hypot(x, 4)", 3, 5},
      {"rint(x)", 0.5, 0},
      {"round(x)", 0.5, 1},
      {"gamma(x)", 5, 24},
      {"sigmoid(x)", 0, 0.5},
      {"max(x, 2)*min(x, 2)", 5, 10},
      {"sign(x)", -3, -1}};
  tn_runtime *rt = open_runtime();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const tn_formula formula = {.struct_size = sizeof formula,
                                .expression = cases[i].formula};
    tn_operator *op = NULL;
    OK(tn_formula_define(rt, &formula, &op));
    tn_array *x = host_array(rt, TN_F64, (host_shape){0, {0}}, &cases[i].at);
    tn_array *y = call_one(rt, op, NULL, x);
    host_expect(y, &cases[i].want, 1, 1e-14);
    tn_array_release(x), tn_array_release(y);
  }
  tn_runtime_release(rt);
}

static const char norm[] =
    "opgen: 1\n"
    "op: norm\n"
    "summary: Divides each line by the root of its mean square\n"
    "params:\n"
    "  - {name: axis, type: int, default: -1}\n"
    "  - {name: eps, type: float, default: 1e-6}\n"
    "dtypes: {T: [f16, f32, f64]}\n"
    "axes: [axis]\n"
    "inputs:\n"
    "  - {name: data, dtype: T}\n"
    "  - {name: gamma, dtype: T, shape: {place: axis}}\n"
    "outputs:\n"
    "  - {name: out, dtype: T, shape: data, inplace: data}\n"
    "  - {name: rstd, dtype: T, shape: {line: axis}, hidden: true}\n"
    "forward:\n"
    "  out: data*rsqrt(mean(data^2, axis) + eps)*gamma\n"
    "  rstd: rsqrt(mean(data^2, axis) + eps)\n"
    "gradient: auto\n";

/* Reference of `norm` for two lines of three elements along the last axis. */
static double norm_at(const double *x, const double *gamma, int i) {
  const double *line = x + i / 3 * 3;
  const double square =
      (line[0] * line[0] + line[1] * line[1] + line[2] * line[2]) / 3;
  return x[i] / sqrt(square + 1e-6) * gamma[i % 3];
}

/* The sum of all elements times their number from 1. */
static double norm_sum(const double *x, const double *gamma) {
  double sum = 0;
  for (int i = 0; i < 6; ++i) sum += norm_at(x, gamma, i) * (i + 1);
  return sum;
}

static double quotient_of(const double *x, const double *gamma, int i,
                          bool of_gamma) {
  const double step = 1e-5;
  double copies[2][6], gammas[2][3];
  for (int k = 0; k < 2; ++k) {
    memcpy(copies[k], x, 6 * sizeof *x);
    memcpy(gammas[k], gamma, 3 * sizeof *gamma);
    if (of_gamma)
      gammas[k][i] += k ? step : -step;
    else
      copies[k][i] += k ? step : -step;
  }
  return (norm_sum(copies[1], gammas[1]) - norm_sum(copies[0], gammas[0])) /
         (2 * step);
}

Test(formula, reductions_have_values_and_gradients) {
  const double x[] = {1, -2, 3, 0.5, 4, -1}, g[] = {1, 2, -0.5};
  const double heads[] = {1, 2, 3, 4, 5, 6};
  double want[6], dx[6], dg[3];
  tn_runtime *rt = open_runtime();
  tn_operator *op = define_text(rt, norm);
  tn_array *in[2] = {host_array(rt, TN_F64, (host_shape){2, {2, 3}}, x),
                     host_array(rt, TN_F64, (host_shape){1, {3}}, g)};
  tn_array *head = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, heads);
  tn_array *y = NULL, *grads[2] = {NULL, NULL};
  tn_tape *tape = NULL;
  for (int i = 0; i < 6; ++i) want[i] = norm_at(x, g, i);
  for (int i = 0; i < 6; ++i) dx[i] = quotient_of(x, g, i, false);
  for (int i = 0; i < 3; ++i) dg[i] = quotient_of(x, g, i, true);
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, in[0]));
  OK(tn_tape_watch(tape, in[1]));
  OK(tn_tape_call(tape, op, &(const tn_inputs){2, in}, NULL, TN_OUT(&y)));
  host_expect(y, want, 6, 1e-14);
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(y),
                                       .head_gradients = *TN_IN(head),
                                       .of = {2, in},
                                       .gradients = {2, grads, NULL}}));
  host_expect(grads[0], dx, 6, 1e-8);
  host_expect(grads[1], dg, 3, 1e-8);
  tn_tape_release(tape);
  for (int i = 0; i < 2; ++i)
    tn_array_release(in[i]), tn_array_release(grads[i]);
  tn_array_release(head), tn_array_release(y);
  tn_runtime_release(rt);
}

/* Lines along the first axis, longer than a block, and a line without
 * elements. */
Test(formula, lines_are_of_any_length) {
  enum { N = 700 };
  static double values[2 * N];
  double want[2] = {0, 0};
  tn_runtime *rt = open_runtime();
  tn_operator *op = NULL;
  const tn_formula total = {.struct_size = sizeof total,
                            .name = "total",
                            .expression = "sum(x, axis) + max(x, axis)"};
  OK(tn_formula_define(rt, &total, &op));
  tn_params *params = host_params(op, "axis=0");
  for (int i = 0; i < 2 * N; ++i) values[i] = i % 13;
  for (int i = 0; i < 2 * N; ++i) want[i % 2] += values[i];
  want[0] += 12, want[1] += 12;
  tn_array *x = host_many(rt, TN_F32, 2, (const int64_t[]){N, 2}, values);
  tn_array *y = call_one(rt, op, params, x);
  host_expect_shape(y, &(const host_shape){2, {1, 2}}, "total", "axis=0");
  host_expect(y, want, 2, 0);
  tn_array *none = host_many(rt, TN_F32, 2, (const int64_t[]){0, 2}, values);
  tn_array *bad = NULL;
  tn_code rc = tn_call(rt, op, TN_IN(none), params, TN_OUT(&bad));
  if (rc == TN_OK) rc = tn_array_get(bad, values, 2 * sizeof(float));
  FAILS(rc, TN_INVALID, "there is no maximum of no elements");
  tn_array_release(x), tn_array_release(y);
  tn_array_release(none), tn_array_release(bad);
  tn_params_release(params);
  tn_runtime_release(rt);
}

/* log(sum(exp(x))) of large and of infinite numbers. */
Test(formula, a_logsumexp_does_not_overflow) {
  const double values[] = {1000, 1000, -INFINITY, -INFINITY, 0, 0};
  tn_runtime *rt = open_runtime();
  tn_operator *op = NULL;
  const tn_formula formula = {.struct_size = sizeof formula,
                              .expression = "logsumexp(x, axis)"};
  OK(tn_formula_define(rt, &formula, &op));
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {3, 2}}, values);
  tn_array *y = call_one(rt, op, NULL, x);
  double *got = host_many_values(y);
  cr_expect_float_eq(got[0], 1000.6931471805599, 1e-4);
  cr_expect_eq(got[1], -INFINITY);
  cr_expect_float_eq(got[2], 0.6931471805599453, 1e-6);
  free(got);
  tn_array_release(x), tn_array_release(y);
  tn_runtime_release(rt);
}

/* A manifest in a file is a plugin, too. */
Test(formula, a_file_of_formulas_is_loaded_without_a_compiler) {
  char folder[] = "/tmp/tnformula.XXXXXX", path[64];
  cr_assert_not_null(mkdtemp(folder));
  (void)snprintf(path, sizeof path, "%s/plugin.yaml", folder);
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fputs(
      "opgen: 1\nplugin: lab\nrelease: 1\nsummary: A trial\n"
      "license: Apache-2.0\noperators: [twice.yaml]\n",
      file);
  fclose(file);
  (void)snprintf(path, sizeof path, "%s/twice.yaml", folder);
  file = fopen(path, "w");
  cr_assert_not_null(file);
  fputs(
      "opgen: 1\nop: twice\nsummary: Twice\n"
      "inputs: [{name: x, dtype: f32}]\n"
      "outputs: [{name: out, dtype: f32, shape: x}]\n"
      "forward: {out: 2*x}\ngradient: auto\n",
      file);
  fclose(file);
  tn_runtime *rt = open_runtime();
  OK(tn_plugin_load(rt, path));
  size_t n = 0;
  tn_operator *op = NULL;
  while (tn_operator_at(rt, n, &op) == TN_OK) ++n;
  cr_expect_eq(n, 2); /* and that of its gradient */
  tn_runtime_release(rt);
  remove(path);
  (void)snprintf(path, sizeof path, "%s/plugin.yaml", folder);
  remove(path);
  rmdir(folder);
}
