/* SPDX-License-Identifier: Apache-2.0
 * nn.ctc_loss: losses and gradients of torch (tests/reference/ctc.py), long
 * sequences against difference quotients, labels without a path, numbers that
 * are not finite, and operands that do not fit.
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

TestSuite(ctc, .init = open_all, .fini = close_all);

Test(ctc, losses_and_gradients_are_those_of_torch) {
  cases_check(rt, "nn.ctc_loss", 7);
}

/* ------------------------------------------------------------ long sequences
 */

enum { STEPS = 150, BATCH = 9, SYMBOLS = 37, PLACES = 40 };
static const int64_t data_dims[3] = {STEPS, BATCH, SYMBOLS};
static const int64_t label_dims[2] = {BATCH, PLACES};

/* Labels of several lengths, with equal neighbours. */
static double symbol_of(int64_t i) {
  const int64_t n = i / PLACES, u = i % PLACES;
  return u < PLACES - 3 * n ? (double)(1 + (u / 2 + n) % (SYMBOLS - 1)) : 0;
}

static double head(int64_t i) {
  return 1 + cases_noise(3 * i + 1) / 4;
}

static void fill(tn_runtime *host, tn_dtype dtype, cases_call *c) {
  *c = (cases_call){.op = "nn.ctc_loss",
                    .params = "",
                    .n_in = 2,
                    .n_out = 2,
                    .req = {TN_REQ_WRITE, TN_REQ_NULL}};
  c->in[0] = cases_array(host, dtype, 3, data_dims, cases_noise);
  c->in[1] = cases_array(host, TN_I32, 2, label_dims, symbol_of);
  c->heads[0] = cases_array(host, dtype, 1, label_dims, head);
}

/* The weighted sum of the losses for scores that are moved by `step` times
 * other noise. */
static double sum_moved(double step) {
  cases_call c;
  double sum = 0;
  fill(rt, TN_F64, &c);
  double *x = cases_values(c.in[0]);
  for (int64_t k = 0; k < STEPS * BATCH * SYMBOLS; ++k)
    x[k] += step * cases_noise(5 * k);
  OK(tn_array_set(c.in[0], x, STEPS * BATCH * SYMBOLS * sizeof *x));
  cases_forward(rt, &c);
  double *y = cases_values(c.out[0]);
  for (int64_t n = 0; n < BATCH; ++n) sum += y[n] * head(n);
  free(x), free(y);
  cases_release(&c);
  return sum;
}

Test(ctc, gradients_of_long_sequences_are_difference_quotients) {
  const double eps = 1e-4;
  double slope = 0;
  cases_call exact, single;
  fill(rt, TN_F64, &exact), fill(rt, TN_F32, &single);
  cases_forward(rt, &exact), cases_forward(rt, &single);
  cases_backward(rt, &exact), cases_backward(rt, &single);
  double *g = cases_values(exact.grads[0]), *f = cases_values(single.grads[0]);
  double *y = cases_values(exact.out[0]), *z = cases_values(single.out[0]);
  for (int64_t k = 0; k < STEPS * BATCH * SYMBOLS; ++k) {
    slope += g[k] * cases_noise(5 * k);
    cr_assert(fabs(f[k] - g[k]) < 1e-5, "%g, not %g", f[k], g[k]);
  }
  for (int64_t n = 0; n < BATCH; ++n)
    cr_assert(fabs(z[n] - y[n]) < 1e-5 * y[n], "%g, not %g", z[n], y[n]);
  const double want = (sum_moved(eps) - sum_moved(-eps)) / (2 * eps);
  cr_assert(fabs(slope - want) < 1e-6 * fmax(1, fabs(want)), "%.9g, not %.9g",
            slope, want);
  free(g), free(f), free(y), free(z);
  cases_release(&exact), cases_release(&single);
}

static void make_single(tn_runtime *host, cases_call *c) {
  fill(host, TN_F32, c);
}

Test(ctc, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make_single);
}

/* ----------------------------------------------------------- special values
 */

/* The loss and gradient of one sequence of scores that are all equal, but for
 * the first one. */
static void run_one(const char *params, const int64_t dims[2], double first,
                    int64_t places, const double *label, double *loss,
                    double *gradient) {
  double scores[HOST_MAX] = {first}, got[HOST_MAX];
  cases_call c = {.op = "nn.ctc_loss",
                  .params = params,
                  .n_in = 2,
                  .n_out = 2,
                  .req = {TN_REQ_WRITE, TN_REQ_NULL}};
  c.in[0] = host_many(rt, TN_F32, 3, (int64_t[]){dims[0], 1, dims[1]}, scores);
  c.in[1] = host_many(rt, TN_F32, 2, (int64_t[]){1, places}, label);
  c.heads[0] = host_many(rt, TN_F32, 1, (int64_t[]){1}, (double[]){1});
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  (void)host_values(c.out[0], loss);
  const int64_t n = host_values(c.grads[0], got);
  memcpy(gradient, got, (size_t)n * sizeof *got);
  cases_release(&c);
}

/* Equal neighbours want a step between them. */
Test(ctc, a_label_without_a_path_has_no_gradient) {
  double loss, g[HOST_MAX];
  const double twice[] = {1, 1}, apart[] = {1, 2};
  run_one("", (int64_t[]){2, 3}, 0, 2, twice, &loss, g);
  cr_assert(isinf(loss) && loss > 0);
  for (int i = 0; i < 6; ++i) cr_assert_eq(g[i], 0);
  run_one("", (int64_t[]){2, 3}, 0, 2, apart, &loss, g);
  cr_assert_float_eq(loss, log(9), 1e-6);
  run_one("", (int64_t[]){0, 3}, 0, 2, apart, &loss, g);
  cr_assert(isinf(loss) && loss > 0);
}

Test(ctc, an_empty_label_is_all_blanks) {
  double loss, g[HOST_MAX];
  run_one("", (int64_t[]){3, 2}, 0, 0, NULL, &loss, g);
  cr_assert_float_eq(loss, 3 * log(2), 1e-6);
  for (int i = 0; i < 6; ++i)
    cr_assert_float_eq(g[i], i % 2 ? 0.5 : -0.5, 1e-6);
  run_one("", (int64_t[]){0, 2}, 0, 0, NULL, &loss, g);
  cr_assert_eq(loss, 0);
  run_one("blank_label=last", (int64_t[]){2, 1}, 5, 0, NULL, &loss, g);
  cr_assert_eq(loss, 0);
}

/* A score of minus infinity is a symbol that is impossible. */
Test(ctc, scores_that_are_nan_or_infinite_go_their_way) {
  double loss, g[HOST_MAX];
  const double label[] = {1}, none[] = {0};
  run_one("", (int64_t[]){1, 2}, -INFINITY, 1, label, &loss, g);
  cr_assert_eq(loss, 0);
  cr_assert(g[0] == 0 && g[1] == 0);
  run_one("", (int64_t[]){1, 2}, -INFINITY, 1, none, &loss, g);
  cr_assert(isinf(loss));
  cr_assert(g[0] == 0 && g[1] == 0);
  run_one("", (int64_t[]){2, 2}, NAN, 1, label, &loss, g);
  cr_assert(isnan(loss) && isnan(g[0]));
  run_one("", (int64_t[]){2, 2}, NAN, 1, none, &loss, g);
  cr_assert(isnan(loss) && isnan(g[0]));
}

/* The only path of a label of all steps has the probability exp(-20000), which
 * f64 does not hold. */
Test(ctc, improbable_labels_keep_their_losses) {
  enum { LONG = 400 };
  double loss[HOST_MAX], x[3 * LONG] = {0}, label[LONG];
  const int64_t dims[3] = {LONG, 1, 3}, symbol_dims[2] = {1, LONG};
  for (int t = 0; t < LONG; ++t) {
    x[3 * t] = 50;
    label[t] = 1 + t % 2;
  }
  tn_array *scores = host_many(rt, TN_F64, 3, dims, x), *y = NULL;
  tn_array *symbols = host_many(rt, TN_F64, 2, symbol_dims, label);
  OK(tn_call(rt, host_operator(rt, "nn.ctc_loss"), TN_IN(scores, symbols), NULL,
             TN_OUT(&y)));
  (void)host_values(y, loss);
  cr_assert(fabs(loss[0] - 50 * LONG) < 1e-8, "%.17g", loss[0]);
  tn_array_release(scores), tn_array_release(symbols), tn_array_release(y);
}

/* ------------------------------------------------------------------ failures
 */

static tn_code call(const char *text, const tn_inputs *in, tn_array **out) {
  tn_operator *op = host_operator(rt, "nn.ctc_loss");
  tn_params *params = host_params(op, text);
  const tn_code code = tn_call(rt, op, in, params, TN_OUT(out));
  tn_params_release(params);
  return code;
}

Test(ctc, symbols_and_lengths_out_of_range_are_errors) {
  const double zeros[12] = {0}, high[] = {1, 3}, good[] = {1, 2}, four[] = {4};
  const double three[] = {3}, two[] = {2}, gap[] = {1, 0};
  const int64_t dims[3] = {3, 1, 3}, pair[2] = {1, 2}, one = 1;
  tn_array *x = host_many(rt, TN_F32, 3, dims, zeros), *y = NULL;
  tn_array *bad = host_many(rt, TN_I32, 2, pair, high);
  tn_array *label = host_many(rt, TN_I32, 2, pair, good);
  tn_array *hole = host_many(rt, TN_I32, 2, pair, gap);
  tn_array *long_one = host_many(rt, TN_I32, 1, &one, four);
  tn_array *all = host_many(rt, TN_I32, 1, &one, three);
  tn_array *both = host_many(rt, TN_I32, 1, &one, two);
  FAILS(call("", TN_IN(x, bad), &y), TN_OUT_OF_RANGE,
        "element 1 of `label` is 3, but its symbols are from 1 to 2");
  FAILS(call("blank_label=last", TN_IN(x, label), &y), TN_OUT_OF_RANGE,
        "element 1 of `label` is 2, but its symbols are from 0 to 1");
  FAILS(call("use_data_lengths=true", TN_IN(x, label, long_one), &y),
        TN_OUT_OF_RANGE,
        "element 0 of `data_lengths` is 4, but it must be from 0 to 3");
  FAILS(call("use_label_lengths=true", TN_IN(x, label, all, all), &y),
        TN_OUT_OF_RANGE,
        "element 0 of `label_lengths` is 3, but it must be from 0 to 2");
  FAILS(call("use_label_lengths=true", TN_IN(x, hole, all, both), &y),
        TN_OUT_OF_RANGE, "element 1 of `label` is 0");
  FAILS(call("use_label_lengths=true", TN_IN(x, label), &y), TN_SHAPE,
        "give `label_lengths` or set use_label_lengths=false");
  OK(call("", TN_IN(x, hole), &y)); /* ends before the 0 */
  tn_array_release(x), tn_array_release(y), tn_array_release(bad);
  tn_array_release(label), tn_array_release(hole), tn_array_release(all);
  tn_array_release(long_one), tn_array_release(both);
}
