/* SPDX-License-Identifier: Apache-2.0
 * Losses of plugins/nn: the regression outputs, svm_output, make_loss and
 * kl_sparse_reg. Values and gradients of torch (tests/reference/losses.py),
 * larger shapes, special values, and labels that do not fit.
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

TestSuite(losses, .init = open_all, .fini = close_all);

Test(losses, values_and_gradients_are_those_of_torch) {
  cases_check(rt, "nn.linear_regression_output", 5);
  cases_check(rt, "nn.mae_regression_output", 5);
  cases_check(rt, "nn.logistic_regression_output", 5);
  cases_check(rt, "nn.svm_output", 5);
  cases_check(rt, "nn.make_loss", 4);
  cases_check(rt, "nn.kl_sparse_reg", 4);
}

/* ------------------------------------------------------------- large shapes */

enum { ROWS = 300, COLUMNS = 517 };
static const int64_t dims[2] = {ROWS, COLUMNS};

static double class_of(int64_t i) {
  return (double)(i % (COLUMNS + 1)); /* the last one is no class */
}

static double share(int64_t i) {
  return (cases_noise(i) + 2) / 4;
}

static double average(int64_t i) {
  return 0.25 + 0.5 * share(3 * i);
}

static double head(int64_t i) {
  return cases_noise(3 * i + 1);
}

static void fill(tn_runtime *host, const char *op, const char *params,
                 cases_call *c) {
  const bool is_kl = strstr(op, "kl") != NULL;
  const bool is_svm = strstr(op, "svm") != NULL;
  const bool is_regression = strstr(op, "regression") != NULL;
  *c = (cases_call){.op = op,
                    .params = params,
                    .flags = is_kl ? TN_CALL_TRAIN : 0,
                    .n_in = is_kl || is_svm || is_regression ? 2 : 1,
                    .n_aux = is_kl,
                    .n_out = is_kl ? 2 : 1};
  c->in[0] = cases_array(host, TN_F32, 2, dims, is_kl ? share : cases_noise);
  if (is_kl) c->in[1] = cases_array(host, TN_F32, 1, &dims[1], average);
  if (is_svm) c->in[1] = cases_array(host, TN_F32, 1, dims, class_of);
  if (is_regression) c->in[1] = cases_array(host, TN_F32, 2, dims, share);
  c->heads[0] = cases_array(host, TN_F32, 2, dims, head);
  c->req[0] = TN_REQ_WRITE;
  c->req[1] = TN_REQ_NULL;
}

/* Runs a call and compares all elements with `out` and `gradient`. */
static void check_large(const char *op, const char *params,
                        double (*out)(int64_t i),
                        double (*gradient)(int64_t i)) {
  cases_call c;
  fill(rt, op, params, &c);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *y = cases_values(c.out[0]), *dx = cases_values(c.grads[0]);
  for (int64_t i = 0; i < ROWS * COLUMNS; ++i) {
    const double want[2] = {out(i), gradient(i)};
    cr_assert(fabs(y[i] - want[0]) <= 4e-6 * fmax(1, fabs(want[0])),
              "%s %s: %.9g, not %.9g", op, params, y[i], want[0]);
    cr_assert(fabs(dx[i] - want[1]) <= 4e-6 * fmax(1, fabs(want[1])),
              "%s %s, gradient %lld: %.9g, not %.9g", op, params, (long long)i,
              dx[i], want[1]);
  }
  free(y), free(dx);
  cases_release(&c);
}

static double single(double x) {
  return (double)(float)x;
}

static double difference(int64_t i) {
  return single(cases_noise(i)) - single(share(i));
}

static double slope_of_square(int64_t i) {
  return difference(i); /* grad_scale divides it out */
}

static double slope_of_distance(int64_t i) {
  return difference(i) > 0 ? 1 : difference(i) < 0 ? -1 : 0;
}

static double sigmoid(int64_t i) {
  return 1 / (1 + exp(-cases_noise(i)));
}

static double slope_of_entropy(int64_t i) {
  return sigmoid(i) - share(i);
}

static double slope_of_hinge(int64_t i) {
  const double x = cases_noise(i);
  const bool hit = class_of(i / COLUMNS) == (double)(i % COLUMNS);
  return hit ? -2 * fmax(0, 1 - x) : 2 * fmax(0, 1 + x);
}

static double valid; /* elements of the data above 0.5 */

static double slope_of_valid(int64_t i) {
  (void)i;
  return 1000 / valid;
}

static double means[COLUMNS]; /* of the columns of share */

static double slope_of_divergence(int64_t i) {
  const int64_t column = i % COLUMNS;
  const double a = 0.75 * average(column) + 0.25 * means[column];
  return head(i) + 2 * (-0.1 / a + 0.9 / (1 - a));
}

Test(losses, large_shapes_are_those_of_formulas) {
  for (int64_t i = 0; i < ROWS * COLUMNS; ++i) {
    valid += single(cases_noise(i)) > 0.5;
    means[i % COLUMNS] += share(i) / ROWS;
  }
  check_large("nn.linear_regression_output", "grad_scale=517", cases_noise,
              slope_of_square);
  check_large("nn.mae_regression_output", "grad_scale=517", cases_noise,
              slope_of_distance);
  check_large("nn.logistic_regression_output", "grad_scale=517", sigmoid,
              slope_of_entropy);
  check_large("nn.svm_output", "", cases_noise, slope_of_hinge);
  check_large("nn.make_loss",
              "normalization=valid valid_thresh=0.5 grad_scale=1000",
              cases_noise, slope_of_valid);
  check_large("nn.kl_sparse_reg", "momentum=0.75 penalty=2", share,
              slope_of_divergence);
}

static void make_hinges(tn_runtime *host, cases_call *c) {
  fill(host, "nn.svm_output", "", c);
}

static void make_averages(tn_runtime *host, cases_call *c) {
  fill(host, "nn.kl_sparse_reg", "", c);
}

static void make_sigmoids(tn_runtime *host, cases_call *c) {
  fill(host, "nn.logistic_regression_output", "", c);
}

Test(losses, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make_hinges);
  cases_same_for_all_threads(make_averages);
  cases_same_for_all_threads(make_sigmoids);
}

/* ------------------------------------------------------------ special values
 */

/* The gradient of a call of a row, with one label for each element or one. */
static void expect_gradient(const char *op, const char *params, int64_t n,
                            const double *x, int64_t n_labels,
                            const double *labels, const double *want) {
  double got[HOST_MAX];
  cases_call c = {.op = op,
                  .params = params,
                  .n_in = 2,
                  .n_out = 1,
                  .req = {TN_REQ_WRITE, TN_REQ_NULL}};
  c.in[0] = host_array(rt, TN_F32, (host_shape){2, {1, n}}, x);
  c.in[1] = n_labels == 1
                ? host_array(rt, TN_F32, (host_shape){1, {1}}, labels)
                : host_array(rt, TN_F32, (host_shape){2, {1, n}}, labels);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  (void)host_values(c.grads[0], got);
  for (int64_t i = 0; i < n; ++i)
    cr_assert(
        isnan(want[i]) ? isnan(got[i]) : got[i] >= want[i] && got[i] <= want[i],
        "%s: %g, not %g", op, got[i], want[i]);
  cases_release(&c);
}

Test(losses, numbers_that_are_nan_or_infinite_go_their_way) {
  const double x[] = {NAN, INFINITY, -INFINITY, 1}, label[] = {0, 0, 0, NAN};
  expect_gradient("nn.linear_regression_output", "grad_scale=4", 4, x, 4, label,
                  (double[]){NAN, INFINITY, -INFINITY, NAN});
  expect_gradient("nn.mae_regression_output", "grad_scale=4", 4, x, 4, label,
                  (double[]){0, 1, -1, 0});
  expect_gradient("nn.logistic_regression_output", "grad_scale=4", 4, x, 4,
                  label, (double[]){NAN, 1, 0, NAN});
  expect_gradient("nn.svm_output", "", 4, x, 1, &label[3],
                  (double[]){0, INFINITY, 0, 4});
}

/* -0.0 is no negative number, and 2^53 + 1 is no class of a few. */
Test(losses, labels_beyond_the_classes_are_no_class) {
  const double x[] = {0, 0};
  const double labels[] = {-1, 2, 1e30, -0.0, 1.9};
  const double wanted[][2] = {{2, 2}, {2, 2}, {2, 2}, {-2, 2}, {2, -2}};
  for (int i = 0; i < 5; ++i)
    expect_gradient("nn.svm_output", "", 2, x, 1, &labels[i], wanted[i]);
}

Test(losses, averages_of_zero_and_one_have_infinite_gradients) {
  const double x[] = {0, 1}, heads[] = {1, 1};
  double got[HOST_MAX];
  cases_call c = {.op = "nn.kl_sparse_reg",
                  .params = "momentum=0",
                  .flags = TN_CALL_TRAIN,
                  .n_in = 2,
                  .n_aux = 1,
                  .n_out = 2,
                  .req = {TN_REQ_WRITE}};
  c.in[0] = host_array(rt, TN_F32, (host_shape){2, {1, 2}}, x);
  c.in[1] = host_array(rt, TN_F32, (host_shape){1, {2}}, heads);
  c.heads[0] = host_array(rt, TN_F32, (host_shape){2, {1, 2}}, heads);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  (void)host_values(c.grads[0], got);
  cr_assert(isinf(got[0]) && got[0] < 0 && isinf(got[1]) && got[1] > 0);
  cases_release(&c);
}

Test(losses, of_no_examples_the_averages_stay) {
  const int64_t none[2] = {0, 3};
  const double old[] = {0.25, 0.5, 0.75};
  cases_call c = {.op = "nn.kl_sparse_reg",
                  .params = "",
                  .flags = TN_CALL_TRAIN,
                  .n_in = 2,
                  .n_aux = 1,
                  .n_out = 2,
                  .req = {TN_REQ_WRITE}};
  c.in[0] = cases_array(rt, TN_F32, 2, none, share);
  c.in[1] = host_array(rt, TN_F32, (host_shape){1, {3}}, old);
  c.heads[0] = cases_array(rt, TN_F32, 2, none, share);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  host_expect(c.in[1], old, 3, 0);
  host_expect(c.out[1], old, 3, 0);
  cases_release(&c);
}

/* ------------------------------------------------------------------- labels */

static tn_code infer(const char *op, tn_sig *data, tn_sig *label) {
  tn_operator *type = host_operator(rt, op);
  tn_params *params = host_params(type, "");
  tn_sig in[2] = {*data, *label}, out[1] = {{.ndim = -1}};
  const tn_code rc = tn_operator_infer(
      type, params, &(tn_signature){2, 1, 0, 0, in, out, NULL});
  *data = in[0], *label = in[1];
  tn_params_release(params);
  return rc;
}

Test(losses, labels_have_the_shape_of_the_data_or_fewer_dimensions) {
  tn_sig data = {TN_F32, 2, {4, -1}}, label = {TN_F32, 2, {-1, 3}};
  OK(infer("nn.mae_regression_output", &data, &label));
  cr_assert_eq(data.shape[1], 3);
  cr_assert_eq(label.shape[0], 4);
  data = (tn_sig){TN_F32, 2, {4, 3}}, label = (tn_sig){.ndim = -1};
  OK(infer("nn.mae_regression_output", &data, &label));
  cr_assert_eq(label.ndim, 2);
  data = (tn_sig){TN_F32, 2, {4, 1}}, label = (tn_sig){.ndim = -1};
  OK(infer("nn.linear_regression_output", &data, &label));
  cr_assert_eq(label.ndim, 1);
  cr_assert_eq(label.shape[0], 4);
  data = (tn_sig){TN_F32, 2, {4, 6}}, label = (tn_sig){TN_F32, 3, {4, 2, 3}};
  OK(infer("nn.logistic_regression_output", &data, &label));
}

Test(losses, labels_that_do_not_fit_are_errors) {
  tn_sig data = {TN_F32, 2, {4, 6}}, label = {TN_F32, 1, {24}};
  FAILS(infer("nn.linear_regression_output", &data, &label), TN_SHAPE,
        "`label` (24) must have the shape of `data` (4,6), or its first "
        "dimension and as many elements");
  label = (tn_sig){TN_F32, 2, {4, 5}};
  cr_assert_eq(infer("nn.linear_regression_output", &data, &label), TN_SHAPE);
  label = (tn_sig){TN_F32, 1, {3}};
  cr_assert_eq(infer("nn.svm_output", &data, &label), TN_SHAPE);
}
