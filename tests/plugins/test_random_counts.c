/* SPDX-License-Identifier: Apache-2.0
 * plugins/random: gamma numbers and counts against the exact functions of
 * SciPy, distributions by rows, classes and orders. Seeds are fixed: a bound of
 * five standard errors holds or does not, once and for all.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { MANY = 100000 };

/* Parameters; mean, variance and fourth central moment; the numbers below which
 * 1/40, 2/40, ... of all are. */
typedef struct gamma_case {
  const char *params;
  double moments[3];
  double quantiles[39];
} gamma_case;

/* Classes of about equal probability: class k has the counts from bounds[k - 1]
 * on and below bounds[k]. The chi-square of one sample in a thousand is above
 * `limit`. */
typedef struct count_case {
  const char *name, *params;
  double moments[3];
  int n;
  double bounds[15];
  double shares[16];
  double limit;
} count_case;

#include "counts_cases.inc"

static tn_runtime *open_with(uint32_t workers, uint64_t seed) {
  tn_runtime *rt = NULL;
  const tn_options options = {
      .struct_size = sizeof options, .workers = workers, .seed = seed};
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

static tn_code call(tn_runtime *rt, const char *name, const char *text,
                    const tn_inputs *in, tn_array **out) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  const tn_code rc = tn_call(rt, op, in, params, &(tn_outputs){1, out, NULL});
  tn_params_release(params);
  return rc;
}

/* `n` elements of f64 of a call without inputs, in a new runtime. */
static double *sample(const char *name, const char *params, int n,
                      uint32_t workers) {
  char text[200];
  tn_array *out = NULL;
  tn_runtime *rt = open_with(workers, 42);
  double *values = malloc(sizeof *values * (size_t)n);
  (void)snprintf(text, sizeof text, "shape=[%d] dtype=f64 %s", n, params);
  OK(call(rt, name, text, &(tn_inputs){0}, &out));
  OK(tn_array_get(out, values, sizeof *values * (size_t)n));
  tn_array_release(out);
  tn_runtime_release(rt);
  return values;
}

/* Mean and variance within five standard errors. */
static void check_moments(const char *name, const double *x,
                          const double moments[3]) {
  const double variance = moments[1];
  double m = 0, v = 0;
  for (int i = 0; i < MANY; ++i) m += x[i] / MANY;
  for (int i = 0; i < MANY; ++i) v += (x[i] - m) * (x[i] - m) / MANY;
  cr_expect_float_eq(m, moments[0], 5 * sqrt(variance / MANY), "%s: mean %g",
                     name, m);
  cr_expect_float_eq(v, variance,
                     5 * sqrt((moments[2] - variance * variance) / MANY),
                     "%s: variance %g", name, v);
}

/* The largest distance of the distributions, after Kolmogorov and Smirnov. */
static void check_quantiles(const gamma_case *c, const double *x) {
  for (int k = 0; k < 39; ++k) {
    int below = 0;
    for (int i = 0; i < MANY; ++i) below += x[i] <= c->quantiles[k];
    cr_expect_float_eq((double)below / MANY, (k + 1) / 40.0, 1.95 / sqrt(MANY),
                       "%s: quantile %d", c->params, k);
  }
}

Test(counts, gamma_numbers_have_their_distribution) {
  for (size_t i = 0; i < sizeof gammas / sizeof *gammas; ++i) {
    double *x = sample("random.gamma", gammas[i].params, MANY, 1);
    check_moments(gammas[i].params, x, gammas[i].moments);
    check_quantiles(&gammas[i], x);
    for (int k = 0; k < MANY; ++k) cr_assert(x[k] >= 0);
    free(x);
  }
}

static void check_classes(const count_case *c, const double *x) {
  int seen[16] = {0};
  double chi = 0;
  for (int i = 0; i < MANY; ++i) {
    int k = 0;
    cr_assert(x[i] >= 0 && x[i] == floor(x[i]), "%s: %g", c->params, x[i]);
    while (k < c->n - 1 && x[i] >= c->bounds[k]) ++k;
    ++seen[k];
  }
  for (int k = 0; k < c->n; ++k)
    chi += pow(seen[k] - MANY * c->shares[k], 2) / (MANY * c->shares[k]);
  cr_expect_leq(chi, c->limit, "%s %s: %g", c->name, c->params, chi);
}

Test(counts, counts_have_their_distributions) {
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    double *x = sample(counts[i].name, counts[i].params, MANY, 1);
    check_moments(counts[i].params, x, counts[i].moments);
    check_classes(&counts[i], x);
    free(x);
  }
}

/* exp(-lam) is 1 for these means: a count of -1 would be a mistake. */
Test(counts, tiny_means_count_nothing) {
  static const char *const every[][2] = {
      {"random.poisson", "lam=1e-20"},
      {"random.negative_binomial", "k=0.01 p=0.5"},
      {"random.generalized_negative_binomial", "mu=1 alpha=100"}};
  for (size_t i = 0; i < 3; ++i) {
    double *x = sample(every[i][0], every[i][1], 2000, 1);
    for (int k = 0; k < 2000; ++k)
      cr_assert(x[k] >= 0 && (i > 0 || x[k] == 0), "%s: %g", every[i][0], x[k]);
    free(x);
  }
}

Test(counts, means_beyond_the_counts_are_refused) {
  tn_runtime *rt = open_with(1, 1);
  tn_array *out = NULL;
  cr_expect_eq(call(rt, "random.negative_binomial", "k=1 p=1e-10",
                    &(tn_inputs){0}, &out),
               TN_OUT_OF_RANGE);
  cr_expect(strstr(tn_error_text(), "means of counts are at most 2147483647"),
            "%s", tn_error_text());
  tn_runtime_release(rt);
}

Test(counts, the_number_of_workers_changes_nothing) {
  static const char *const every[][2] = {
      {"random.gamma", "alpha=0.3"},
      {"random.poisson", "lam=3"},
      {"random.poisson", "lam=300"},
      {"random.negative_binomial", "k=2 p=0.1"},
      {"random.generalized_negative_binomial", "mu=3 alpha=2"}};
  for (size_t i = 0; i < sizeof every / sizeof *every; ++i) {
    double *one = sample(every[i][0], every[i][1], 30011, 1);
    double *more = sample(every[i][0], every[i][1], 30011, 4);
    cr_expect_eq(memcmp(one, more, 30011 * sizeof *one), 0, "%s", every[i][0]);
    free(one), free(more);
  }
}

/* -------------------------------------------------------------------- rows */

enum { COLUMNS = 20000, ROWS = 2 };

/* Draws COLUMNS elements for each of two pairs of parameters, and compares mean
 * and variance of each row within five standard errors. */
static void check_rows(const char *name, const double *a, const double *b,
                       const double mean[ROWS], const double variance[ROWS]) {
  tn_runtime *rt = open_with(2, 11);
  tn_array *first = host_array(rt, TN_F64, (host_shape){1, {ROWS}}, a);
  tn_array *second =
      b != NULL ? host_array(rt, TN_F64, (host_shape){1, {ROWS}}, b) : NULL;
  tn_array *const in[] = {first, second};
  tn_array *out = NULL;
  double *x = malloc(sizeof *x * ROWS * COLUMNS);
  OK(call(rt, name, "shape=[20000]", &(tn_inputs){b != NULL ? 2 : 1, in},
          &out));
  OK(tn_array_get(out, x, sizeof *x * ROWS * COLUMNS));
  for (int r = 0; r < ROWS; ++r) {
    double m = 0, v = 0;
    for (int i = 0; i < COLUMNS; ++i) m += x[r * COLUMNS + i] / COLUMNS;
    for (int i = 0; i < COLUMNS; ++i)
      v += pow(x[r * COLUMNS + i] - m, 2) / COLUMNS;
    cr_expect_float_eq(m, mean[r], 5 * sqrt(variance[r] / COLUMNS),
                       "%s, row %d: mean %g", name, r, m);
    /* The excess of all these distributions is below 40. */
    cr_expect_float_eq(v, variance[r], 5 * variance[r] * sqrt(42.0 / COLUMNS),
                       "%s, row %d: variance %g", name, r, v);
  }
  free(x);
  tn_array_release(first), tn_array_release(second), tn_array_release(out);
  tn_runtime_release(rt);
}

#define TWO(...) ((const double[]){__VA_ARGS__})

Test(counts, each_row_has_its_own_distribution) {
  check_rows("random.sample_uniform", TWO(0, -3), TWO(1, 5), TWO(0.5, 1),
             TWO(1 / 12.0, 64 / 12.0));
  check_rows("random.sample_normal", TWO(0, 100), TWO(1, 0.5), TWO(0, 100),
             TWO(1, 0.25));
  check_rows("random.sample_gamma", TWO(0.5, 20), TWO(2, 0.1), TWO(1, 2),
             TWO(2, 0.2));
  check_rows("random.sample_exponential", TWO(1, 4), NULL, TWO(1, 0.25),
             TWO(1, 0.0625));
  check_rows("random.sample_poisson", TWO(0.5, 40), NULL, TWO(0.5, 40),
             TWO(0.5, 40));
  check_rows("random.sample_negative_binomial", TWO(2, 5), TWO(0.5, 0.9),
             TWO(2, 5 / 9.0), TWO(4, 0.5 / 0.81));
  check_rows("random.sample_generalized_negative_binomial", TWO(2, 8),
             TWO(0.5, 0), TWO(2, 8), TWO(4, 8));
}

enum { N_DRAWN = 12000 };

/* Draws rows of equal parameters; 0: there is no second one. */
static double *sample_rows(const char *name, const double *parameters,
                           int columns, uint64_t cpu_mask) {
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 2,
                              .seed = 9,
                              .cpu_mask = cpu_mask};
  const int rows = N_DRAWN / columns;
  const int64_t length = rows;
  double *values = malloc(sizeof *values * N_DRAWN);
  char text[60];
  tn_runtime *rt = NULL;
  tn_array *in[2] = {NULL, NULL}, *out = NULL;
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  for (int k = 0; k < 2 && parameters[k] != 0; ++k) {
    for (int i = 0; i < rows; ++i) values[i] = parameters[k];
    OK(tn_array_create(rt, &(tn_spec){TN_F64, 1, &length}, &in[k]));
    OK(tn_array_set(in[k], values, sizeof *values * (size_t)rows));
  }
  (void)snprintf(text, sizeof text, "shape=[%d]", columns);
  OK(call(rt, name, text, &(tn_inputs){in[1] != NULL ? 2 : 1, in}, &out));
  OK(tn_array_get(out, values, sizeof *values * N_DRAWN));
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(out);
  tn_runtime_release(rt);
  return values;
}

/* Elements of short rows are drawn one by one. */
Test(counts, elements_of_long_rows_are_those_of_short_ones) {
  static const struct {
    const char *name;
    double parameters[2];
  } every[] = {{"random.sample_gamma", {0.2, 3}},
               {"random.sample_gamma", {1, 1}},
               {"random.sample_gamma", {40, 2}},
               {"random.sample_poisson", {10, 0}},
               {"random.sample_poisson", {20, 0}},
               {"random.sample_poisson", {12345, 0}}};
  static const uint64_t masks[] = {0, TN_CPU_AVX512,
                                   TN_CPU_AVX512 | TN_CPU_AVX2};
  for (size_t i = 0; i < sizeof every / sizeof *every; ++i) {
    double *few = sample_rows(every[i].name, every[i].parameters, 3, 0);
    for (int m = 0; m < 3; ++m) {
      double *many =
          sample_rows(every[i].name, every[i].parameters, 4000, masks[m]);
      for (int k = 0; k < N_DRAWN; ++k)
        cr_assert_float_eq(many[k], few[k], 1e-9 * fabs(few[k]),
                           "%s, element %d: %g, not %g", every[i].name, k,
                           many[k], few[k]);
      free(many);
    }
    free(few);
  }
}

Test(counts, uniform_rows_stay_below_their_bound_in_f32) {
  tn_runtime *rt = open_with(1, 5);
  const double low = 16777216, high = 16777218;
  tn_array *a = host_array(rt, TN_F32, (host_shape){0, {0}}, &low);
  tn_array *b = host_array(rt, TN_F32, (host_shape){0, {0}}, &high);
  tn_array *out = NULL;
  float x[1000];
  OK(call(rt, "random.sample_uniform", "shape=[1000]",
          &(tn_inputs){2, (tn_array *[]){a, b}}, &out));
  OK(tn_array_get(out, x, sizeof x));
  for (int i = 0; i < 1000; ++i) cr_assert_eq(x[i], (float)low);
  tn_array_release(a), tn_array_release(b), tn_array_release(out);
  tn_runtime_release(rt);
}

Test(counts, a_row_without_a_distribution_is_named) {
  static const struct {
    const char *name, *says;
    double a[2], b[2];
    size_t n;
  } bad[] = {{"random.sample_uniform",
              "row 1 has the parameters 2 and 1",
              {0, 2},
              {1, 1},
              2},
             {"random.sample_normal",
              "row 0 has the parameters 0 and -1",
              {0, 0},
              {-1, 1},
              2},
             {"random.sample_gamma",
              "row 1 has the parameters 0 and 1",
              {1, 0},
              {1, 1},
              2},
             {"random.sample_exponential",
              "row 0 has the parameter 0",
              {0, 1},
              {0},
              1},
             {"random.sample_poisson",
              "row 1 has the parameter -nan",
              {1, -NAN},
              {0},
              1},
             {"random.sample_poisson",
              "row 0 has the parameter inf",
              {INFINITY, 1},
              {0},
              1},
             {"random.sample_negative_binomial",
              "row 1 has the parameters 1 and 0",
              {1, 1},
              {0.5, 0},
              2},
             {"random.sample_generalized_negative_binomial",
              "row 0 has the parameters -1 and 0",
              {-1, 1},
              {0, 0},
              2}};
  tn_runtime *rt = open_with(1, 5);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    tn_array *a = host_array(rt, TN_F64, (host_shape){1, {2}}, bad[i].a);
    tn_array *b = host_array(rt, TN_F64, (host_shape){1, {2}}, bad[i].b);
    tn_array *out = NULL;
    tn_code rc = call(rt, bad[i].name, "shape=[3]",
                      &(tn_inputs){bad[i].n, (tn_array *[]){a, b}}, &out);
    if (rc == TN_OK) rc = tn_array_wait(out);
    cr_expect_eq(rc, TN_OUT_OF_RANGE, "%s", bad[i].name);
    cr_expect(
        strstr(tn_error_text(), bad[i].says) != NULL || isnan(bad[i].a[1]),
        "%s", tn_error_text());
    tn_array_release(a), tn_array_release(b), tn_array_release(out);
  }
  tn_runtime_release(rt);
}

/* ----------------------------------------------------------------- classes */

Test(counts, classes_are_drawn_with_their_probabilities) {
  static const double rows[] = {1, 2, 0, 5, 0, 0, 0, 7};
  static const double shares[] = {0.125, 0.25, 0, 0.625, 0, 0, 0, 1};
  tn_runtime *rt = open_with(2, 3);
  tn_array *data = host_array(rt, TN_F32, (host_shape){2, {2, 4}}, rows);
  tn_array *out[2] = {NULL, NULL};
  tn_operator *op = host_operator(rt, "random.multinomial");
  tn_params *params = host_params(op, "shape=[20000] dtype=i64");
  int64_t *k = malloc(sizeof *k * 2 * COLUMNS);
  float *log_prob = malloc(sizeof *log_prob * 2 * COLUMNS);
  OK(tn_call(rt, op, TN_IN(data), params, &(tn_outputs){2, out, NULL}));
  OK(tn_array_get(out[0], k, sizeof *k * 2 * COLUMNS));
  OK(tn_array_get(out[1], log_prob, sizeof *log_prob * 2 * COLUMNS));
  for (int r = 0; r < 2; ++r) {
    int seen[4] = {0};
    for (int i = r * COLUMNS; i < (r + 1) * COLUMNS; ++i) {
      cr_assert(k[i] >= 0 && k[i] < 4);
      ++seen[k[i]];
      cr_assert_float_eq(log_prob[i], logf((float)rows[4 * r + k[i]]), 1e-6f);
    }
    for (int c = 0; c < 4; ++c) {
      const double p = shares[4 * r + c];
      cr_expect_float_eq((double)seen[c] / COLUMNS, p,
                         5 * sqrt(p * (1 - p) / COLUMNS), "row %d, class %d", r,
                         c);
    }
  }
  free(k), free(log_prob);
  tn_params_release(params);
  tn_array_release(data), tn_array_release(out[0]), tn_array_release(out[1]);
  tn_runtime_release(rt);
}

Test(counts, classes_without_probabilities_are_refused) {
  static const struct {
    double p[2];
    const char *says;
  } bad[] = {{{0, 0}, "row 0 have the sum 0"},
             {{1, -1}, "row 0 has the probability -1 for class 1"},
             {{INFINITY, 1}, "row 0 has the probability inf for class 0"}};
  tn_runtime *rt = open_with(1, 3);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    tn_array *data = host_array(rt, TN_F64, (host_shape){1, {2}}, bad[i].p);
    tn_array *out[2] = {NULL, NULL};
    tn_operator *op = host_operator(rt, "random.multinomial");
    tn_code rc =
        tn_call(rt, op, TN_IN(data), NULL, &(tn_outputs){2, out, NULL});
    if (rc == TN_OK) rc = tn_array_wait(out[0]);
    cr_expect_eq(rc, TN_OUT_OF_RANGE);
    cr_expect(strstr(tn_error_text(), bad[i].says) != NULL, "%s",
              tn_error_text());
    tn_array_release(data), tn_array_release(out[0]), tn_array_release(out[1]);
  }
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------------ orders */

/* Each of the 24 orders of four numbers: a chi-square of 23 degrees of freedom
 * is above 49.7 once in a thousand samples. */
Test(counts, all_orders_are_equally_likely) {
  enum { TIMES = 4800 };
  tn_runtime *rt = open_with(1, 8);
  int seen[256] = {0}, kinds = 0;
  double chi = 0;
  for (int i = 0; i < TIMES; ++i) {
    tn_array *out = NULL;
    int64_t x[4];
    OK(call(rt, "random.permutation", "n=4", &(tn_inputs){0}, &out));
    OK(tn_array_get(out, x, sizeof x));
    ++seen[x[0] << 6 | x[1] << 4 | x[2] << 2 | x[3]];
    tn_array_release(out);
  }
  for (int i = 0; i < 256; ++i)
    if (seen[i] > 0)
      ++kinds, chi += pow(seen[i] - TIMES / 24.0, 2) * 24 / TIMES;
  cr_expect_eq(kinds, 24);
  cr_expect_leq(chi, 49.7, "%g", chi);
  tn_runtime_release(rt);
}

Test(counts, a_permutation_has_every_number_once) {
  enum { N = 70001 };
  tn_runtime *rt = open_with(2, 8);
  tn_array *out = NULL;
  int64_t *x = malloc(sizeof *x * N);
  char *seen = calloc(N, 1);
  int64_t fixed = 0;
  OK(call(rt, "random.permutation", "n=70001", &(tn_inputs){0}, &out));
  OK(tn_array_get(out, x, sizeof *x * N));
  for (int64_t i = 0; i < N; ++i) {
    cr_assert(x[i] >= 0 && x[i] < N && !seen[x[i]], "%lld", (long long)i);
    seen[x[i]] = 1;
    fixed += x[i] == i;
  }
  cr_expect_leq(fixed, 10); /* 1 is expected */
  free(x), free(seen);
  tn_array_release(out);
  tn_runtime_release(rt);
}

/* The rows of a shuffle are those of the data, and its gradient goes back to
 * where they were. */
Test(counts, a_shuffle_moves_whole_rows_and_its_gradient_moves_them_back) {
  enum { N = 30 };
  tn_runtime *rt = open_with(1, 8);
  double values[2 * N];
  float y[2 * N], dx[2 * N];
  int moved = 0;
  for (int i = 0; i < 2 * N; ++i) values[i] = i;
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {N, 2}}, values);
  tn_array *out[2] = {NULL, NULL}, *grad = NULL;
  tn_operator *op = host_operator(rt, "random.shuffle");
  OK(tn_call(rt, op, TN_IN(x), NULL, &(tn_outputs){2, out, NULL}));
  OK(tn_array_get(out[0], y, sizeof y));
  for (int i = 0; i < N; ++i) {
    cr_assert_eq(y[2 * i] + 1, y[2 * i + 1]);
    moved += y[2 * i] != (float)(2 * i);
  }
  cr_expect_geq(moved, N / 2);
  OK(tn_call_backward(rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .inputs = *TN_IN(x),
                                     .outputs = *TN_IN(out[0], out[1]),
                                     .out_grads = *TN_IN(out[0], NULL),
                                     .in_grads = *TN_OUT(&grad)}));
  OK(tn_array_get(grad, dx, sizeof dx));
  for (int i = 0; i < 2 * N; ++i) cr_assert_eq(dx[i], (float)i);
  tn_array_release(x), tn_array_release(grad);
  tn_array_release(out[0]), tn_array_release(out[1]);
  tn_runtime_release(rt);
}
