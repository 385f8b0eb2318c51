/* SPDX-License-Identifier: Apache-2.0
 * nn.layer_norm: NumPy's values, long and many lines against sums in f64, and
 * operands that do not fit.
 */
#include <stdlib.h>

#include "cases.h"

Test(layer_norm, values_and_gradients_are_those_of_numpy) {
  tn_runtime *rt = host_open();
  cases_check(rt, "nn.layer_norm", 6);
  tn_runtime_release(rt);
}

static double weight(int64_t i) {
  return 1 + cases_noise(i + 7) / 4;
}

static double head(int64_t i) {
  return cases_noise(3 * i + 1);
}

static void fill(tn_runtime *rt, cases_call *c, tn_dtype dtype,
                 const int64_t *dims) {
  *c = (cases_call){.op = "nn.layer_norm",
                    .params = "axis=1 eps=0.001",
                    .n_in = 3,
                    .n_out = 3};
  c->in[0] = cases_array(rt, dtype, 3, dims, cases_noise);
  c->in[1] = cases_array(rt, dtype, 1, &dims[1], weight);
  c->in[2] = cases_array(rt, dtype, 1, &dims[1], cases_noise);
  c->heads[0] = cases_array(rt, dtype, 3, dims, head);
  for (int i = 0; i < 3; ++i) c->req[i] = TN_REQ_WRITE;
}

/* The expected values of a line of a call, computed in f64. */
typedef struct line {
  const double *x;
  const double *g;
  const double *gamma;
  int64_t n;
  int64_t apart;
  double mean;
  double rstd;
  double shift; /* means of g*gamma, and of its products with x - mean */
  double slope;
} line;

static void measure(line *l) {
  double var = 0;
  l->mean = l->shift = l->slope = 0;
  for (int64_t k = 0; k < l->n; ++k) l->mean += l->x[k * l->apart];
  l->mean /= (double)l->n;
  for (int64_t k = 0; k < l->n; ++k)
    var += pow(l->x[k * l->apart] - l->mean, 2);
  l->rstd = 1 / sqrt(var / (double)l->n + 0.001);
  for (int64_t k = 0; k < l->n; ++k) {
    const double turned = l->g[k * l->apart] * l->gamma[k];
    l->shift += turned / (double)l->n;
    l->slope += turned * (l->x[k * l->apart] - l->mean) / (double)l->n;
  }
}

static void check_near(double got, double want, double scale) {
  cr_assert(fabs(got - want) <= 4e-6 * scale, "%.9g, not %.9g", got, want);
}

static void check_shape(tn_runtime *rt, int64_t outer, int64_t n,
                        int64_t inner) {
  const int64_t dims[3] = {outer, n, inner};
  cases_call c;
  fill(rt, &c, TN_F32, dims);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *x = cases_values(c.in[0]), *y = cases_values(c.out[0]);
  double *gamma = cases_values(c.in[1]), *beta = cases_values(c.in[2]);
  double *g = cases_values(c.heads[0]), *dx = cases_values(c.grads[0]);
  double *dgamma = cases_values(c.grads[1]), *dbeta = cases_values(c.grads[2]);
  for (int64_t i = 0; i < outer * inner; ++i) {
    const int64_t at = i / inner * n * inner + i % inner;
    line l = {.x = x + at, .g = g + at, .gamma = gamma, .n = n, .apart = inner};
    measure(&l);
    for (int64_t k = 0; k < n; ++k) {
      const double d = (l.x[k * inner] - l.mean) * l.rstd;
      const double turned = l.g[k * inner] * gamma[k];
      check_near(y[at + k * inner], d * gamma[k] + beta[k], 4 + fabs(d));
      check_near(dx[at + k * inner],
                 (turned - l.shift - d * l.slope * l.rstd) * l.rstd,
                 4 + l.rstd);
      dgamma[k] -= l.g[k * inner] * d;
      dbeta[k] -= l.g[k * inner];
    }
  }
  for (int64_t k = 0; k < n; ++k) {
    check_near(dgamma[k], 0, 4 + sqrt((double)(outer * inner)));
    check_near(dbeta[k], 0, 4 + sqrt((double)(outer * inner)));
  }
  free(x), free(y), free(gamma), free(beta);
  free(g), free(dx), free(dgamma), free(dbeta);
  cases_release(&c);
}

Test(layer_norm, lines_of_every_length_and_number_are_right) {
  tn_runtime *rt = host_open();
  check_shape(rt, 3, 7, 1);
  check_shape(rt, 2000, 16, 1);
  check_shape(rt, 300, 301, 1);
  check_shape(rt, 5, 9000, 1);
  check_shape(rt, 3, 40, 5);
  check_shape(rt, 30, 70, 300);
  check_shape(rt, 3001, 1001, 1); /* written past the caches */
  check_shape(rt, 3650, 784, 1);  /* without being put together first */
  tn_runtime_release(rt);
}

static void make_rows(tn_runtime *rt, cases_call *c) {
  fill(rt, c, TN_F32, (const int64_t[]){900, 200, 1});
}

/* No cache holds these and their gradients; rows fill cache lines. Blocks of
 * rows are no multiple of the four that are computed together. Sums over so
 * many rows may differ by more between levels. */
static void make_large(tn_runtime *rt, cases_call *c) {
  fill(rt, c, TN_F32, (const int64_t[]){3650, 784, 1});
  c->req[1] = c->req[2] = TN_REQ_NULL;
}

static void make_columns(tn_runtime *rt, cases_call *c) {
  fill(rt, c, TN_F32, (const int64_t[]){20, 30, 400});
}

Test(layer_norm, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make_rows);
  cases_same_for_all_threads(make_large);
  cases_same_for_all_threads(make_columns);
}

/* For rows far from 0, f32 has kept few digits, and the mean must not lose any
 * of them. */
static double far_noise(int64_t i) {
  return 8192 + cases_noise(i);
}

Test(layer_norm, a_mean_that_is_large_costs_no_digits) {
  const int64_t dims[3] = {2, 4000, 1};
  tn_runtime *rt = host_open();
  cases_call near, far;
  fill(rt, &near, TN_F32, dims), fill(rt, &far, TN_F32, dims);
  tn_array_release(far.in[0]);
  far.in[0] = cases_array(rt, TN_F32, 3, dims, far_noise);
  cases_forward(rt, &near), cases_forward(rt, &far);
  double *a = cases_values(near.out[0]), *b = cases_values(far.out[0]);
  for (int64_t i = 0; i < 8000; ++i)
    cr_assert(fabs(a[i] - b[i]) < 2e-3, "%lld: %g and %g", (long long)i, a[i],
              b[i]);
  free(a), free(b);
  cases_release(&near), cases_release(&far);
  tn_runtime_release(rt);
}

Test(layer_norm, gradients_that_are_not_wanted_are_not_needed) {
  tn_runtime *rt = host_open();
  cases_call all;
  fill(rt, &all, TN_F32, (const int64_t[]){40, 33, 1});
  cases_forward(rt, &all);
  cases_backward(rt, &all);
  for (int i = 0; i < 3; ++i) {
    cases_call one = all;
    for (int k = 0; k < 3; ++k) {
      one.req[k] = k == i ? TN_REQ_WRITE : TN_REQ_NULL;
      one.grads[k] = NULL;
    }
    cases_backward(rt, &one);
    double *got = cases_values(one.grads[i]);
    double *want = cases_values(all.grads[i]);
    for (int64_t k = 0; k < tn_array_size(all.grads[i]); ++k)
      cr_assert(fabs(got[k] - want[k]) <= 1e-6 * fmax(1, fabs(want[k])));
    free(got), free(want);
    tn_array_release(one.grads[i]);
  }
  cases_release(&all);
  tn_runtime_release(rt);
}

Test(layer_norm, of_no_lines_the_gradients_of_weights_are_zero) {
  tn_runtime *rt = host_open();
  cases_call c;
  fill(rt, &c, TN_F32, (const int64_t[]){0, 2, 3});
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  cr_assert_eq(tn_array_size(c.grads[0]), 0);
  host_expect(c.grads[1], (double[]){0, 0}, 2, 0);
  host_expect(c.grads[2], (double[]){0, 0}, 2, 0);
  cases_release(&c);
  tn_runtime_release(rt);
}

static tn_code infer(tn_runtime *rt, const char *text, tn_sig *data,
                     tn_sig *gamma) {
  tn_operator *op = host_operator(rt, "nn.layer_norm");
  tn_params *params = host_params(op, text);
  tn_sig in[3] = {*data, *gamma, {.ndim = -1}};
  tn_sig out[3] = {{.ndim = -1}, {.ndim = -1}, {.ndim = -1}};
  const tn_code rc =
      tn_operator_infer(op, params, &(tn_signature){3, 3, 0, 0, in, out, NULL});
  *data = in[0], *gamma = in[1];
  if (rc == TN_OK) cr_assert_eq(out[2].ndim, data->ndim);
  tn_params_release(params);
  return rc;
}

Test(layer_norm, shapes_go_both_ways_and_must_fit) {
  tn_runtime *rt = host_open();
  tn_sig data = {TN_F32, 3, {2, -1, 7}}, gamma = {TN_F32, 1, {9}};
  OK(infer(rt, "axis=1", &data, &gamma));
  cr_assert_eq(data.shape[1], 9);
  data = (tn_sig){TN_F32, 2, {2, 5}}, gamma = (tn_sig){.ndim = -1};
  OK(infer(rt, "", &data, &gamma));
  cr_assert_eq(gamma.shape[0], 5);
  gamma = (tn_sig){TN_F32, 1, {4}};
  FAILS(infer(rt, "", &data, &gamma), TN_SHAPE,
        "`gamma` (4) must have one number for each place on the lines of "
        "`data` (2,5) along axis -1");
  FAILS(infer(rt, "axis=2", &data, &gamma), TN_OUT_OF_RANGE, "no axis 2");
  tn_runtime_release(rt);
}
