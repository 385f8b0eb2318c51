/* SPDX-License-Identifier: Apache-2.0
 * The normalisations rms_norm, group_norm, instance_norm, l2_normalization and
 * lrn of plugins/nn, and softmax_activation: values and gradients of torch
 * (tests/reference/norms.py); larger shapes against sums in f64, and gradients
 * there against difference quotients; operands that do not fit.
 */
#include <stdlib.h>

#include "cases.h"

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(norms, .init = open_all, .fini = close_all);

Test(norms, values_and_gradients_are_those_of_torch) {
  cases_check(rt, "nn.rms_norm", 5);
  cases_check(rt, "nn.group_norm", 6);
  cases_check(rt, "nn.instance_norm", 3);
  cases_check(rt, "nn.l2_normalization", 6);
  cases_check(rt, "nn.lrn", 5);
  cases_check(rt, "nn.softmax_activation", 4);
}

/* ------------------------------------------------------------- large shapes */

/* A call of data of rank 3, and the output that is wanted. */
typedef struct large {
  const char *op;
  const char *params;
  int64_t dims[3];
  size_t n_in; /* with gamma and beta, of the dimension `weights` */
  int weights;
  size_t n_out;
  /* Sets out from data, gamma and beta; NULL: only gradients are compared. */
  void (*compute)(const struct large *l, double *const in[3], double *out);
} large;

/* Element (o, k, i) of a tensor of rank 3. */
static int64_t place(const large *l, int64_t o, int64_t k, int64_t i) {
  return (o * l->dims[1] + k) * l->dims[2] + i;
}

/* rms_norm along axis 1, eps 1e-5. */
static void compute_rms(const large *l, double *const in[3], double *out) {
  for (int64_t o = 0; o < l->dims[0]; ++o)
    for (int64_t i = 0; i < l->dims[2]; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < l->dims[1]; ++k)
        sum += pow(in[0][place(l, o, k, i)], 2);
      const double rms = sqrt(sum / (double)l->dims[1] + 1e-5);
      for (int64_t k = 0; k < l->dims[1]; ++k)
        out[place(l, o, k, i)] = in[0][place(l, o, k, i)] / rms * in[1][k];
    }
}

/* group_norm with groups of `channels` channels, eps 1e-5. */
static void compute_groups(const large *l, double *const in[3], double *out,
                           int64_t channels) {
  const int64_t n = channels * l->dims[2];
  for (int64_t row = 0; row < l->dims[0] * l->dims[1] / channels; ++row) {
    const double *x = in[0] + row * n;
    double mean = 0, var = 0;
    for (int64_t k = 0; k < n; ++k) mean += x[k] / (double)n;
    for (int64_t k = 0; k < n; ++k) var += pow(x[k] - mean, 2) / (double)n;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t c = (row * channels + k / l->dims[2]) % l->dims[1];
      out[row * n + k] = (x[k] - mean) / sqrt(var + 1e-5) * in[1][c] + in[2][c];
    }
  }
}

static void compute_threes(const large *l, double *const in[3], double *out) {
  compute_groups(l, in, out, 3);
}

static void compute_instances(const large *l, double *const in[3],
                              double *out) {
  compute_groups(l, in, out, 1);
}

/* l2_normalization of channels. */
static void compute_l2(const large *l, double *const in[3], double *out) {
  for (int64_t o = 0; o < l->dims[0]; ++o)
    for (int64_t i = 0; i < l->dims[2]; ++i) {
      double sum = 1e-10;
      for (int64_t k = 0; k < l->dims[1]; ++k)
        sum += pow(in[0][place(l, o, k, i)], 2);
      for (int64_t k = 0; k < l->dims[1]; ++k)
        out[place(l, o, k, i)] = in[0][place(l, o, k, i)] / sqrt(sum);
    }
}

/* lrn with nsize 5, alpha 2, beta 0.75, knorm 2. */
static void compute_lrn(const large *l, double *const in[3], double *out) {
  for (int64_t o = 0; o < l->dims[0]; ++o)
    for (int64_t c = 0; c < l->dims[1]; ++c)
      for (int64_t i = 0; i < l->dims[2]; ++i) {
        double sum = 0;
        for (int64_t k = c - 2; k <= c + 2; ++k)
          if (k >= 0 && k < l->dims[1]) sum += pow(in[0][place(l, o, k, i)], 2);
        const int64_t at = place(l, o, c, i);
        out[at] = in[0][at] * pow(2 + 2 * sum / 5, -0.75);
      }
}

static double weight(int64_t i) {
  return 1 + cases_noise(i + 7) / 4;
}

static double head(int64_t i) {
  return cases_noise(3 * i + 1);
}

static void fill(tn_runtime *host, const large *l, tn_dtype dtype,
                 cases_call *c) {
  *c = (cases_call){
      .op = l->op, .params = l->params, .n_in = l->n_in, .n_out = l->n_out};
  c->in[0] = cases_array(host, dtype, 3, l->dims, cases_noise);
  for (size_t i = 1; i < l->n_in; ++i)
    c->in[i] = cases_array(host, dtype, 1, &l->dims[l->weights], weight);
  c->heads[0] = cases_array(host, dtype, 3, l->dims, head);
  for (size_t i = 0; i < l->n_in; ++i) c->req[i] = TN_REQ_WRITE;
}

/* The weighted sum of the outputs for inputs that are moved by `step` times
 * other noise. */
static double sum_moved(const large *l, double step) {
  cases_call c;
  double sum = 0;
  fill(rt, l, TN_F64, &c);
  for (size_t i = 0; i < l->n_in; ++i) {
    double *v = cases_values(c.in[i]);
    const int64_t n = tn_array_size(c.in[i]);
    for (int64_t k = 0; k < n; ++k)
      v[k] += step * cases_noise(5 * k + (int64_t)i);
    OK(tn_array_set(c.in[i], v, (size_t)n * sizeof *v));
    free(v);
  }
  cases_forward(rt, &c);
  double *y = cases_values(c.out[0]), *h = cases_values(c.heads[0]);
  for (int64_t k = 0; k < tn_array_size(c.out[0]); ++k) sum += y[k] * h[k];
  free(y), free(h);
  cases_release(&c);
  return sum;
}

static void check_quotient(const large *l, cases_call *c) {
  const double eps = 1e-5;
  double slope = 0, scale = 1;
  for (size_t i = 0; i < l->n_in; ++i) {
    double *g = cases_values(c->grads[i]);
    for (int64_t k = 0; k < tn_array_size(c->grads[i]); ++k) {
      slope += g[k] * cases_noise(5 * k + (int64_t)i);
      scale += fabs(g[k]);
    }
    free(g);
  }
  const double want = (sum_moved(l, eps) - sum_moved(l, -eps)) / (2 * eps);
  cr_assert(fabs(slope - want) <= 1e-8 * scale, "%s %s: %.12g, not %.12g",
            l->op, l->params, slope, want);
}

/* f32 against f64. */
static void check_alike(const large *l, tn_array *single, tn_array *exact,
                        double near) {
  double *have = cases_values(single), *want = cases_values(exact);
  double most = 1;
  for (int64_t k = 0; k < tn_array_size(exact); ++k)
    most = fmax(most, fabs(want[k]));
  for (int64_t k = 0; k < tn_array_size(exact); ++k)
    cr_assert(fabs(have[k] - want[k]) <= near * most,
              "%s %s, element %lld: %.9g, not %.9g", l->op, l->params,
              (long long)k, have[k], want[k]);
  free(have), free(want);
}

static void check_large(const large *l) {
  cases_call single, exact;
  fill(rt, l, TN_F32, &single), fill(rt, l, TN_F64, &exact);
  cases_forward(rt, &single), cases_forward(rt, &exact);
  cases_backward(rt, &single), cases_backward(rt, &exact);
  double *in[3] = {NULL}, *out = cases_values(exact.out[0]);
  double *want = cases_values(exact.out[0]);
  for (size_t i = 0; i < l->n_in; ++i) in[i] = cases_values(exact.in[i]);
  if (l->compute) l->compute(l, in, want);
  for (int64_t k = 0; k < tn_array_size(exact.out[0]); ++k)
    cr_assert(fabs(out[k] - want[k]) <= 1e-11 * fmax(1, fabs(want[k])),
              "%s %s, element %lld: %.17g, not %.17g", l->op, l->params,
              (long long)k, out[k], want[k]);
  check_quotient(l, &exact);
  check_alike(l, single.out[0], exact.out[0], 4e-6);
  for (size_t i = 0; i < l->n_in; ++i)
    check_alike(l, single.grads[i], exact.grads[i], 1e-5);
  for (size_t i = 0; i < 3; ++i) free(in[i]);
  free(out), free(want);
  cases_release(&single), cases_release(&exact);
}

static const large shapes[] = {
    {"nn.rms_norm", "axis=1", {2000, 16, 1}, 2, 1, 2, compute_rms},
    {"nn.rms_norm", "axis=1", {300, 301, 1}, 2, 1, 2, compute_rms},
    {"nn.rms_norm", "axis=1", {5, 9000, 1}, 2, 1, 2, compute_rms},
    {"nn.rms_norm", "axis=1", {10, 70, 300}, 2, 1, 2, compute_rms},
    {"nn.rms_norm", "axis=1", {3, 40, 5}, 2, 1, 2, compute_rms},
    {"nn.group_norm", "num_groups=4", {70, 12, 33}, 3, 1, 3, compute_threes},
    {"nn.group_norm", "num_groups=20", {90, 60, 1}, 3, 1, 3, compute_threes},
    {"nn.group_norm", "num_groups=2", {2, 6, 9000}, 3, 1, 3, compute_threes},
    {"nn.instance_norm", "eps=1e-5", {40, 7, 131}, 3, 1, 3, compute_instances},
    {"nn.l2_normalization", "mode=channel", {10, 70, 300}, 1, 0, 2, compute_l2},
    {"nn.l2_normalization", "", {300, 301, 1}, 1, 0, 2, compute_l2},
    {"nn.l2_normalization", "mode=spatial", {3, 5, 9000}, 1, 0, 2, NULL},
    {"nn.lrn", "nsize=5 alpha=2", {3, 40, 300}, 1, 0, 2, compute_lrn},
    {"nn.lrn", "nsize=5 alpha=2", {2, 3, 1000}, 1, 0, 2, compute_lrn},
    {"nn.lrn", "nsize=5 alpha=2", {400, 50, 1}, 1, 0, 2, compute_lrn},
    {"nn.softmax_activation", "", {7, 30, 50}, 1, 0, 1, NULL},
    {"nn.softmax_activation", "mode=channel", {7, 30, 300}, 1, 0, 1, NULL}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

Test(norms, large_shapes_are_those_of_formulas) {
  for (size_t i = 0; i < N_SHAPES; ++i) check_large(&shapes[i]);
}

/* --------------------------------------------------------------- threads */

static const large *current;

static void make_exact(tn_runtime *host, cases_call *c) {
  fill(host, current, TN_F64, c);
}

/* In f32, sums over so many elements may differ by more between levels. */
static void make_single(tn_runtime *host, cases_call *c) {
  fill(host, current, TN_F32, c);
  c->req[1] = c->req[2] = TN_REQ_NULL;
}

Test(norms, results_do_not_depend_on_threads) {
  for (size_t i = 0; i < N_SHAPES; ++i) {
    current = &shapes[i];
    cases_same_for_all_threads(make_exact);
    cases_same_for_all_threads(make_single);
  }
}

/* ------------------------------------------------------------ special values
 */

/* One call of numbers in one row, without a gradient. */
static tn_array *call_row(const char *op, const char *text, tn_dtype dtype,
                          int64_t n, const double *numbers) {
  const double ones[] = {1, 1, 1, 1}, zeros[] = {0, 0, 0, 0};
  tn_operator *type = host_operator(rt, op);
  tn_params *params = host_params(type, text);
  tn_array *in[3], *out = NULL;
  in[0] = host_array(rt, dtype, (host_shape){2, {1, n}}, numbers);
  in[1] = host_array(rt, dtype, (host_shape){1, {n}}, ones);
  in[2] = host_array(rt, dtype, (host_shape){1, {n}}, zeros);
  const size_t n_in = strstr(op, "rms") ? 2 : strstr(op, "group") ? 3 : 1;
  OK(tn_call(rt, type, &(tn_inputs){n_in, in}, params, TN_OUT(&out)));
  for (int i = 0; i < 3; ++i) tn_array_release(in[i]);
  tn_params_release(params);
  return out;
}

static void expect_row(const char *op, const char *text, tn_dtype dtype,
                       const double *numbers, const double *want) {
  double got[HOST_MAX];
  tn_array *out = call_row(op, text, dtype, 2, numbers);
  (void)host_values(out, got);
  for (int i = 0; i < 2; ++i)
    cr_assert(isnan(want[i]) ? isnan(got[i]) : fabs(got[i] - want[i]) <= 1e-3,
              "%s %s: %g, not %g", op, text, got[i], want[i]);
  tn_array_release(out);
}

/* The sums of squares are beyond f16, which has no numbers above 65504. */
Test(norms, halves_are_squared_in_f32) {
  const double large_ones[] = {3e4, 4e4};
  expect_row("nn.rms_norm", "", TN_F16, large_ones,
             (double[]){0.848528, 1.131371});
  expect_row("nn.group_norm", "num_groups=1", TN_F16, large_ones,
             (double[]){-1, 1});
  expect_row("nn.l2_normalization", "", TN_F16, large_ones,
             (double[]){0.6, 0.8});
  expect_row("nn.lrn", "nsize=3 alpha=3 beta=0.5", TN_F16, large_ones,
             (double[]){0.6, 0.8});
}

Test(norms, nothing_to_divide_by_is_nan) {
  const double zeros[] = {0, 0}, equal[] = {3, 3};
  const double nans[] = {NAN, NAN};
  expect_row("nn.rms_norm", "eps=0", TN_F32, zeros, nans);
  expect_row("nn.group_norm", "num_groups=1 eps=0", TN_F32, equal, nans);
  expect_row("nn.l2_normalization", "eps=0", TN_F32, zeros, nans);
  expect_row("nn.lrn", "nsize=1 knorm=0", TN_F32, zeros, nans);
  expect_row("nn.rms_norm", "", TN_F32, zeros, zeros);
  expect_row("nn.l2_normalization", "", TN_F32, zeros, zeros);
}

Test(norms, a_number_that_is_nan_spoils_its_line_only) {
  const double numbers[] = {NAN, 1, 3, 4};
  double got[HOST_MAX];
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {2, 2}}, numbers);
  tn_array *y = NULL;
  OK(tn_call(rt, host_operator(rt, "nn.l2_normalization"), TN_IN(x), NULL,
             TN_OUT(&y)));
  (void)host_values(y, got);
  cr_assert(isnan(got[0]) && isnan(got[1]));
  cr_assert(fabs(got[2] - 0.6) < 1e-6 && fabs(got[3] - 0.8) < 1e-6);
  tn_array_release(x), tn_array_release(y);
}

/* ------------------------------------------------------------- empty shapes */

static void check_empty(const char *op, const char *params, size_t n_in,
                        size_t n_out, const int64_t *dims) {
  cases_call c = {.op = op, .params = params, .n_in = n_in, .n_out = n_out};
  c.in[0] = cases_array(rt, TN_F32, 3, dims, cases_noise);
  for (size_t i = 1; i < n_in; ++i)
    c.in[i] = cases_array(rt, TN_F32, 1, &dims[1], weight);
  c.heads[0] = cases_array(rt, TN_F32, 3, dims, head);
  for (size_t i = 0; i < n_in; ++i) c.req[i] = TN_REQ_WRITE;
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  for (size_t i = 1; i < n_in; ++i) {
    double *g = cases_values(c.grads[i]);
    for (int64_t k = 0; k < dims[1]; ++k) cr_assert_eq(g[k], 0, "%s", op);
    free(g);
  }
  cases_release(&c);
}

Test(norms, of_no_elements_the_gradients_of_weights_are_zero) {
  static const int64_t empty[3][3] = {{0, 4, 3}, {2, 0, 3}, {2, 4, 0}};
  for (int i = 0; i < 3; ++i) {
    check_empty("nn.rms_norm", "axis=1 eps=0", 2, 2, empty[i]);
    check_empty("nn.group_norm", "num_groups=2 eps=0", 3, 3, empty[i]);
    check_empty("nn.instance_norm", "eps=0", 3, 3, empty[i]);
    check_empty("nn.l2_normalization", "mode=channel", 1, 2, empty[i]);
    check_empty("nn.l2_normalization", "mode=spatial", 1, 2, empty[i]);
    check_empty("nn.lrn", "nsize=3", 1, 2, empty[i]);
    check_empty("nn.softmax_activation", "mode=channel", 1, 1, empty[i]);
  }
}

/* ------------------------------------------------------------------ failures
 */

static tn_code infer(const char *op, const char *text, tn_sig *data,
                     tn_sig *gamma, tn_sig *last) {
  tn_operator *type = host_operator(rt, op);
  tn_params *params = host_params(type, text);
  const uint32_t n_in = strstr(op, "rms") ? 2 : strstr(op, "group") ? 3 : 1;
  const uint32_t n_out = n_in == 3 ? 3 : strstr(op, "softmax") ? 1 : 2;
  tn_sig in[3] = {*data, *gamma, {.ndim = -1}};
  tn_sig out[3] = {{.ndim = -1}, {.ndim = -1}, {.ndim = -1}};
  const tn_code rc = tn_operator_infer(
      type, params, &(tn_signature){n_in, n_out, 0, 0, in, out, NULL});
  *data = in[0], *gamma = in[1], *last = out[n_out - 1];
  tn_params_release(params);
  return rc;
}

Test(norms, shapes_go_both_ways) {
  tn_sig data = {TN_F32, 3, {2, -1, 7}}, gamma = {TN_F32, 1, {9}}, last;
  OK(infer("nn.rms_norm", "axis=1", &data, &gamma, &last));
  cr_assert_eq(data.shape[1], 9);
  cr_assert_eq(last.shape[1], 1);
  data = (tn_sig){TN_F32, 3, {2, -1, 7}}, gamma = (tn_sig){TN_F32, 1, {9}};
  OK(infer("nn.group_norm", "num_groups=3", &data, &gamma, &last));
  cr_assert_eq(data.shape[1], 9);
  cr_assert_eq(last.ndim, 2);
  cr_assert_eq(last.shape[1], 3);
  data = (tn_sig){TN_F32, 3, {2, 5, 7}};
  OK(infer("nn.l2_normalization", "mode=spatial", &data, &gamma, &last));
  cr_assert_eq(last.shape[0], 2);
  cr_assert_eq(last.shape[1], 5);
  cr_assert_eq(last.shape[2], 1);
}

Test(norms, operands_that_do_not_fit_are_errors) {
  tn_sig data = {TN_F32, 2, {2, 5}}, gamma = {TN_F32, 1, {4}}, last;
  FAILS(infer("nn.rms_norm", "", &data, &gamma, &last), TN_SHAPE,
        "`gamma` (4) must have one number for each place on the lines of "
        "`data` (2,5) along axis -1");
  gamma = (tn_sig){.ndim = -1};
  FAILS(infer("nn.rms_norm", "axis=2", &data, &gamma, &last), TN_OUT_OF_RANGE,
        "no axis 2");
  FAILS(infer("nn.group_norm", "num_groups=2", &data, &gamma, &last), TN_SHAPE,
        "channels of `data` must divide into `num_groups`");
  FAILS(infer("nn.l2_normalization", "mode=spatial", &data, &gamma, &last),
        TN_SHAPE, "`data` (2,5) has rank 2, but `mode` sums over dimension 2");
  FAILS(infer("nn.lrn", "nsize=4", &data, &gamma, &last), TN_SHAPE,
        "`nsize` must be odd");
}
