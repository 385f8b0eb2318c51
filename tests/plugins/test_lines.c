/* SPDX-License-Identifier: Apache-2.0
 * Formulas with reductions (tests/plugins/forms/lines.yaml): NumPy's values,
 * the operators of nn, lines of every length, threads, special numbers and
 * operands that do not fit.
 */
#include <stdlib.h>

#include "cases.h"

Test(lines, values_and_gradients_are_those_of_numpy) {
  tn_runtime *rt = host_open();
  cases_check(rt, "forms.rms_norm", 6);
  cases_check(rt, "forms.line_layer_norm", 6);
  cases_check(rt, "forms.line_softmax", 6);
  cases_check(rt, "forms.line_log_softmax", 6);
  cases_check(rt, "forms.line_standardise", 5);
  cases_check(rt, "forms.line_sum", 5);
  cases_check(rt, "forms.line_l2_norm", 3);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------- beside hand-written
 */

static double weight(int64_t i) {
  return 1 + cases_noise(i + 7) / 4;
}

static double head(int64_t i) {
  return cases_noise(3 * i + 1);
}

/* A call of an operator with `n_in` inputs, of which the first has three
 * dimensions and the others one number for each place on axis 1. */
static void fill(tn_runtime *rt, cases_call *c, tn_dtype dtype,
                 const int64_t *dims) {
  c->in[0] = cases_array(rt, dtype, 3, dims, cases_noise);
  for (size_t i = 1; i < c->n_in; ++i)
    c->in[i] = cases_array(rt, dtype, 1, &dims[1], weight);
  c->heads[0] = cases_array(rt, dtype, 3, dims, head);
  for (size_t i = 0; i < c->n_in; ++i) c->req[i] = TN_REQ_WRITE;
}

static void run(tn_runtime *rt, cases_call *c, tn_dtype dtype,
                const int64_t *dims) {
  fill(rt, c, dtype, dims);
  cases_forward(rt, c);
  cases_backward(rt, c);
}

/* Fails unless two arrays are equal to `tolerance` of the largest element. */
static void expect_near(tn_array *a, tn_array *b, double tolerance,
                        const char *name) {
  double *x = cases_values(a), *y = cases_values(b);
  double most = 1;
  const int64_t n = tn_array_size(a);
  cr_assert_eq(n, tn_array_size(b));
  for (int64_t i = 0; i < n; ++i) most = fmax(most, fabs(y[i]));
  for (int64_t i = 0; i < n; ++i)
    cr_assert(fabs(x[i] - y[i]) <= tolerance * most,
              "%s, element %lld: %.9g, not %.9g", name, (long long)i, x[i],
              y[i]);
  free(x), free(y);
}

/* A formula and the operator of nn that computes the same. */
typedef struct pair {
  const char *op, *params;
  const char *of_nn, *params_of_nn;
  size_t n_in, n_out;
} pair;

/* Compares both on lines of one shape. Gradients of weights are sums over all
 * lines. */
static void compare_with_nn(tn_runtime *rt, const pair *p,
                            const int64_t *dims) {
  cases_call mine = {
      .op = p->op, .params = p->params, .n_in = p->n_in, .n_out = p->n_out};
  cases_call other = mine;
  other.op = p->of_nn;
  other.params = p->params_of_nn;
  run(rt, &mine, TN_F32, dims);
  run(rt, &other, TN_F32, dims);
  const double sums = sqrt((double)(dims[0] * dims[2]) + 1);
  for (size_t i = 0; i < p->n_out; ++i)
    expect_near(mine.out[i], other.out[i], 5e-7, p->op);
  for (size_t i = 0; i < p->n_in; ++i)
    expect_near(mine.grads[i], other.grads[i], (i == 0 ? 2e-6 : 5e-7 * sums),
                p->op);
  cases_release(&mine);
  cases_release(&other);
}

static const int64_t
    shapes[][3] = {{3, 7, 1},     {2, 1, 1},
                   {1, 15, 1},    {2, 16, 1},
                   {3, 17, 5},    {5, 1023, 1},
                   {4, 1024, 1},  {3, 1025, 2},
                   {2, 4095, 1},  {2, 4096, 1},
                   {2, 4097, 1},  {1, 70001, 1},
                   {3, 40, 5},    {300, 301, 1},
                   {2, 5000, 3},  {3, 40, 300},
                   {2, 1025, 70}, {1, 33, 257},
                   {300, 16, 1},  {70, 31, 3},
                   {2, 20001, 3}, {9, 33, 40},
                   {130, 64, 1},  {4300, 1001, 1}, /* written past the caches */
                   {0, 5, 2},     {2, 5, 0}};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static tn_runtime *open_with_nn(void) {
  tn_runtime *rt = host_open();
  OK(tn_plugin_load(rt, NN_FILE));
  return rt;
}

Test(lines, formulas_and_kernels_by_hand_agree) {
  tn_runtime *rt = open_with_nn();
  static const pair pairs[] = {
      {"forms.line_layer_norm", "axis=1 eps=1", "nn.layer_norm", "axis=1 eps=1",
       3, 3},
      {"forms.rms_norm", "axis=1 eps=1", "nn.rms_norm", "axis=1 eps=1", 2, 2},
      {"forms.line_softmax", "axis=1", "nn.softmax", "axis=1", 1, 1},
      {"forms.line_log_softmax", "axis=1", "nn.log_softmax", "axis=1", 1, 1},
      {"forms.line_l2_norm", "axis=1 eps=1", "nn.l2_normalization",
       "mode=channel eps=1", 1, 2}};
  for (size_t i = 0; i < N_SHAPES; ++i)
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; ++k)
      compare_with_nn(rt, &pairs[k], shapes[i]);
  tn_runtime_release(rt);
}

/* Makes a call of layer norm with the gradients of a set of inputs. */
static void run_gradients(tn_runtime *rt, cases_call *c, tn_dtype dtype,
                          const int64_t *dims, size_t set) {
  *c = (cases_call){.op = "forms.line_layer_norm",
                    .params = "axis=1 eps=0.001",
                    .n_in = 3,
                    .n_out = 3};
  fill(rt, c, dtype, dims);
  for (size_t i = 0; i < c->n_in; ++i)
    c->req[i] = (set >> i & 1) != 0 ? TN_REQ_WRITE : TN_REQ_NULL;
  cases_forward(rt, c);
  cases_backward(rt, c);
}

/* A call with all gradients computes them in other loops, which may round
 * products and sums together. */
Test(lines, each_gradient_alone_is_that_of_a_call_with_all) {
  static const int64_t few[][3] = {
      {70, 33, 1}, {3, 1000, 1}, {5, 70, 3}, {2, 20001, 3}, {4, 40, 90}};
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16};
  static const double near[] = {2e-6, 1e-14, 1e-3};
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < 3 * sizeof few / sizeof *few; ++i) {
    cases_call all, one;
    run_gradients(rt, &all, types[i % 3], few[i / 3], 7);
    for (size_t set = 1; set < 7; ++set) {
      run_gradients(rt, &one, types[i % 3], few[i / 3], set);
      for (size_t k = 0; k < 3; ++k)
        if (set >> k & 1)
          expect_near(one.grads[k], all.grads[k], near[i % 3], "alone");
      cases_release(&one);
    }
    cases_release(&all);
  }
  tn_runtime_release(rt);
}

/* ----------------------------------------------------------- threads, levels
 */

static void make_norm(tn_runtime *rt, cases_call *c, const int64_t *dims) {
  *c = (cases_call){.op = "forms.line_layer_norm",
                    .params = "axis=1 eps=0.001",
                    .n_in = 3,
                    .n_out = 3};
  fill(rt, c, TN_F32, dims);
}

static void make_rows(tn_runtime *rt, cases_call *c) {
  make_norm(rt, c, (const int64_t[]){900, 200, 1});
}

static void make_columns(tn_runtime *rt, cases_call *c) {
  make_norm(rt, c, (const int64_t[]){20, 30, 400});
}

static void make_long(tn_runtime *rt, cases_call *c) {
  make_norm(rt, c, (const int64_t[]){6, 9000, 1});
}

static void make_softmax(tn_runtime *rt, cases_call *c) {
  *c = (cases_call){
      .op = "forms.line_softmax", .params = "axis=1", .n_in = 1, .n_out = 1};
  fill(rt, c, TN_F32, (const int64_t[]){900, 200, 1});
}

Test(lines, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make_rows);
  cases_same_for_all_threads(make_columns);
  cases_same_for_all_threads(make_long);
  cases_same_for_all_threads(make_softmax);
}

/* ------------------------------------------------------------------- special
 */

static tn_array *call_one(tn_runtime *rt, const char *name, const char *text,
                          tn_array *x, size_t which) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *out[4] = {NULL, NULL, NULL, NULL};
  uint32_t n = 0;
  OK(tn_operator_outputs(op, params, 1, &n, NULL));
  const tn_outputs outs = {n, out, NULL};
  OK(tn_call(rt, op, TN_IN(x), params, &outs));
  for (size_t i = 0; i < n; ++i)
    if (i != which) tn_array_release(out[i]);
  tn_params_release(params);
  return out[which];
}

static tn_array *make_row(tn_runtime *rt, tn_dtype dtype, int64_t n,
                          const double *values) {
  const int64_t dims[2] = {1, n};
  return host_many(rt, dtype, 2, dims, values);
}

static double call_scalar(tn_runtime *rt, const char *name, size_t which,
                          int64_t n, const double *values) {
  tn_array *x = make_row(rt, TN_F32, n, values);
  tn_array *y = call_one(rt, name, "", x, which);
  double *found = cases_values(y);
  const double first = found[0];
  free(found);
  tn_array_release(x), tn_array_release(y);
  return first;
}

Test(lines, infinities_and_nan_have_the_documented_results) {
  tn_runtime *rt = host_open();
  const double with_nan[3] = {1, NAN, 2};
  const double low[3] = {-INFINITY, -INFINITY, -INFINITY};
  const double high[3] = {1, INFINITY, 2};
  const double large[3] = {1e38, 1e38, 1e38};
  cr_expect(isnan(call_scalar(rt, "forms.line_sum", 1, 3, with_nan)));
  cr_expect(isnan(call_scalar(rt, "forms.line_sum", 2, 3, with_nan)));
  cr_expect(isinf(call_scalar(rt, "forms.line_sum", 1, 3, high)));
  cr_expect(call_scalar(rt, "forms.line_sum", 1, 3, low) == -INFINITY);
  /* sums of floats are infinite only if their f64 sum is no float */
  cr_expect_float_eq(call_scalar(rt, "forms.line_sum", 0, 3, large) / 3e38, 1,
                     1e-6);
  cr_expect(call_scalar(rt, "forms.line_log_softmax", 0, 3, high) == -INFINITY);
  tn_runtime_release(rt);
}

Test(lines, a_line_without_elements_has_a_sum_and_no_maximum) {
  tn_runtime *rt = open_with_nn();
  const int64_t dims[2] = {2, 0};
  tn_array *x = host_many(rt, TN_F32, 2, dims, NULL);
  tn_operator *op = host_operator(rt, "forms.line_sum");
  tn_array *out[4] = {NULL, NULL, NULL, NULL};
  const tn_outputs outs = {4, out, NULL};
  FAILS(tn_call(rt, op, TN_IN(x), NULL, &outs), TN_INVALID,
        "no maximum of no elements");
  tn_array_release(x);
  tn_runtime_release(rt);
}

Test(lines, an_axis_that_does_not_exist_is_refused) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "forms.line_softmax");
  tn_params *params = host_params(op, "axis=2");
  tn_array *x = make_row(rt, TN_F32, 3, (const double[]){1, 2, 3});
  tn_array *y = NULL;
  FAILS(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)), TN_OUT_OF_RANGE,
        "no axis 2 of 2 dimensions");
  tn_params_release(params);
  tn_array_release(x);
  tn_runtime_release(rt);
}

Test(lines, a_scalar_is_a_line_of_one_element) {
  tn_runtime *rt = host_open();
  tn_array *x = host_many(rt, TN_F32, 0, NULL, (const double[]){3});
  tn_array *y = call_one(rt, "forms.line_sum", "axis=0", x, 0);
  host_expect(y, (const double[]){3}, 1, 0);
  tn_array_release(x), tn_array_release(y);
  tn_runtime_release(rt);
}

Test(lines, integers_are_added_exactly) {
  tn_runtime *rt = host_open();
  const double whole[4] = {1073741824, 1073741823, 5, -7};
  tn_array *wide = make_row(rt, TN_F64, 4, whole), *x = NULL;
  OK(tn_array_cast(wide, TN_I32, &x));
  tn_array *y = call_one(rt, "forms.line_sum", "", x, 0);
  double *found = cases_values(y);
  cr_expect_eq(found[0], 2147483645);
  free(found);
  tn_array_release(wide), tn_array_release(x), tn_array_release(y);
  tn_runtime_release(rt);
}

/* A view that repeats one element along the axis. */
Test(lines, a_repeated_element_is_read_with_stride_zero) {
  tn_runtime *rt = host_open();
  const int64_t dims[2] = {2, 1}, wide[2] = {2, 5};
  tn_array *x = host_many(rt, TN_F32, 2, dims, (const double[]){3, -2});
  tn_array *view = NULL;
  OK(tn_array_broadcast(x, 2, wide, &view));
  tn_array *y = call_one(rt, "forms.line_sum", "", view, 0);
  host_expect(y, (const double[]){15, -10}, 2, 0);
  tn_array_release(x), tn_array_release(view), tn_array_release(y);
  tn_runtime_release(rt);
}

/* -------------------------------------------------------------------- shapes
 */

static tn_code infer(tn_runtime *rt, tn_sig *data, tn_sig *gamma, tn_sig *out) {
  tn_operator *op = host_operator(rt, "forms.rms_norm");
  tn_params *params = host_params(op, "axis=1");
  tn_sig in[2] = {*data, *gamma};
  tn_signature io = {.in = in, .n_in = 2, .out = out, .n_out = 2};
  const tn_code code = tn_operator_infer(op, params, &io);
  tn_params_release(params);
  if (code == TN_OK) *data = in[0], *gamma = in[1];
  return code;
}

Test(lines, shapes_follow_in_both_directions) {
  tn_runtime *rt = host_open();
  tn_sig data = {.dtype = TN_F32, .ndim = 3, .shape = {2, -1, 4}};
  tn_sig gamma = {.dtype = TN_F32, .ndim = 1, .shape = {3}};
  tn_sig out[2] = {{.ndim = -1}, {.ndim = -1}};
  OK(infer(rt, &data, &gamma, out));
  cr_expect_eq(data.shape[1], 3);
  cr_expect_eq(out[0].shape[1], 3);
  cr_expect(out[1].ndim == 3 && out[1].shape[0] == 2 && out[1].shape[1] == 1 &&
            out[1].shape[2] == 4);
  tn_sig lines = {.dtype = TN_F32, .ndim = 3, .shape = {2, 1, 4}};
  tn_sig unknown = {.dtype = TN_F32, .ndim = -1};
  tn_sig both[2] = {{.ndim = -1}, lines};
  OK(infer(rt, &unknown, &gamma, both));
  cr_expect(unknown.ndim == 3 && unknown.shape[0] == 2 &&
            unknown.shape[1] == 3 && unknown.shape[2] == 4);
  tn_sig wrong = {.dtype = TN_F32, .ndim = 1, .shape = {4}};
  tn_sig none[2] = {{.ndim = -1}, {.ndim = -1}};
  FAILS(infer(rt, &data, &wrong, none), TN_SHAPE, "gamma");
  tn_runtime_release(rt);
}
