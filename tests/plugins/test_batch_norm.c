/* SPDX-License-Identifier: Apache-2.0
 * nn.batch_norm: NumPy's values in training and outside of it, channels of many
 * pieces, moving averages, and operands that do not fit.
 */
#include <stdlib.h>

#include "cases.h"
#include "tenon/graph.h"

Test(batch_norm, values_gradients_and_averages_are_those_of_numpy) {
  tn_runtime *rt = host_open();
  cases_check(rt, "nn.batch_norm", 8);
  tn_runtime_release(rt);
}

static double one(int64_t i) {
  return 1 + 0 * (double)i;
}

static double zero(int64_t i) {
  return 0 * (double)i;
}

static double head(int64_t i) {
  return cases_noise(3 * i + 1);
}

/* In training, with gamma 1, beta 0 and fresh averages. */
static void fill(tn_runtime *rt, cases_call *c, tn_array *data,
                 int64_t channels) {
  const tn_dtype dtype = tn_array_tensor(data)->dtype;
  *c = (cases_call){.op = "nn.batch_norm",
                    .params = "eps=0 fix_gamma=false",
                    .flags = TN_CALL_TRAIN,
                    .n_in = 5,
                    .n_aux = 2,
                    .n_out = 3};
  c->in[0] = data;
  c->in[1] = cases_array(rt, dtype, 1, &channels, one);
  c->in[2] = cases_array(rt, dtype, 1, &channels, zero);
  c->in[3] = cases_array(rt, dtype, 1, &channels, zero);
  c->in[4] = cases_array(rt, dtype, 1, &channels, one);
  for (int i = 0; i < 3; ++i) c->req[i] = TN_REQ_WRITE;
}

/* The output of channel `c` is as far from 0 as expected, and a moving average
 * is a tenth of the mean. */
static void check_channel(const cases_call *call, const int64_t *dims,
                          int64_t c, double tolerance) {
  double *x = cases_values(call->in[0]), *y = cases_values(call->out[0]);
  double *moving = cases_values(call->in[3]);
  const int64_t inner = dims[2], n = dims[0] * inner;
  double mean = 0, var = 0;
  for (int64_t i = 0; i < n; ++i)
    mean += x[(i / inner * dims[1] + c) * inner + i % inner] / (double)n;
  for (int64_t i = 0; i < n; ++i) {
    const double d = x[(i / inner * dims[1] + c) * inner + i % inner] - mean;
    var += d * d / (double)n;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (i / inner * dims[1] + c) * inner + i % inner;
    const double want = (x[at] - mean) / sqrt(var);
    cr_assert(fabs(y[at] - want) < tolerance, "%lld: %g, not %g", (long long)at,
              y[at], want);
  }
  cr_assert(fabs(moving[c] - mean / 10) < 1e-6 * fmax(1, fabs(mean)));
  free(x), free(y), free(moving);
}

/* The gradient of data of channel `c` is that of the formula. */
static void check_slopes(const cases_call *call, const int64_t *dims, int64_t c,
                         double tolerance) {
  double *x = cases_values(call->in[0]), *g = cases_values(call->heads[0]);
  double *to = cases_values(call->grads[0]);
  const int64_t inner = dims[2], n = dims[0] * inner;
  double mean = 0, var = 0, shift = 0, slope = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (i / inner * dims[1] + c) * inner + i % inner;
    mean += x[at] / (double)n;
    shift += g[at] / (double)n;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (i / inner * dims[1] + c) * inner + i % inner;
    var += (x[at] - mean) * (x[at] - mean) / (double)n;
    slope += (x[at] - mean) * g[at] / (double)n;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (i / inner * dims[1] + c) * inner + i % inner;
    const double want =
        (g[at] - shift - (x[at] - mean) * slope / var) / sqrt(var);
    cr_assert(fabs(to[at] - want) < tolerance, "%lld: %g, not %g",
              (long long)at, to[at], want);
  }
  free(x), free(g), free(to);
}

static void check_shape(tn_runtime *rt, const int64_t *dims,
                        double (*value)(int64_t i), double tolerance) {
  cases_call c;
  fill(rt, &c, cases_array(rt, TN_F32, 3, dims, value), dims[1]);
  cases_forward(rt, &c);
  check_channel(&c, dims, 0, tolerance);
  check_channel(&c, dims, dims[1] - 1, tolerance);
  cases_release(&c);
}

/* Outputs larger than any cache are written past the caches; planes begin
 * anywhere. */
Test(batch_norm, large_batches_come_out_as_small_ones_do) {
  static const int64_t dims[3] = {3, 2, 701003};
  tn_runtime *rt = host_open();
  cases_call c;
  fill(rt, &c, cases_array(rt, TN_F32, 3, dims, cases_noise), dims[1]);
  c.heads[0] = cases_array(rt, TN_F32, 3, dims, head);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  for (int64_t k = 0; k < dims[1]; ++k) {
    check_channel(&c, dims, k, 1e-5);
    check_slopes(&c, dims, k, 1e-5);
  }
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(batch_norm, channels_of_many_pieces_are_one) {
  static const int64_t shapes[][3] = {
      {3, 2, 9000}, {40, 3, 700}, {9, 20, 901}, {1000, 300, 1},
      {5000, 1, 1}, {300, 5, 1},  {2, 17, 3}};
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    check_shape(rt, shapes[i], cases_noise, 1e-5);
  tn_runtime_release(rt);
}

/* Noise far from 0 has few digits in f32, but those it has are kept. */
static double far_noise(int64_t i) {
  return 8192 + cases_noise(i);
}

Test(batch_norm, a_mean_that_is_large_costs_no_digits) {
  static const int64_t planes[3] = {4, 3, 5000}, columns[3] = {4000, 3, 1};
  tn_runtime *rt = host_open();
  check_shape(rt, planes, far_noise, 2e-3);
  check_shape(rt, columns, far_noise, 2e-3);
  tn_runtime_release(rt);
}

static double farther_noise(int64_t i) {
  return 1e6 + cases_noise(i);
}

/* The hidden outputs of adjacent channels: the error of the mean is less than
 * its rounding, that of the others less than the rounding of a sum. */
Test(batch_norm, variances_of_values_far_from_0_are_exact) {
  static const int64_t shapes[][3] = {{64, 4, 1}, {4096, 70, 1}, {5, 3, 4000}};
  tn_runtime *rt = host_open();
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
    const int64_t *dims = shapes[s], n = dims[0] * dims[2];
    cases_call c;
    fill(rt, &c, cases_array(rt, TN_F32, 3, dims, farther_noise), dims[1]);
    cases_forward(rt, &c);
    double *x = cases_values(c.in[0]), *mean = cases_values(c.out[1]);
    double *inverse = cases_values(c.out[2]);
    for (int64_t k = 0; k < dims[1]; ++k) {
      double sum = 0, spread = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = i / dims[2] * dims[1] + k;
        sum += x[at * dims[2] + i % dims[2]] - 1e6;
      }
      sum /= (double)n;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = i / dims[2] * dims[1] + k;
        const double d = x[at * dims[2] + i % dims[2]] - 1e6 - sum;
        spread += d * d / (double)n;
      }
      cr_assert(fabs(mean[k] - 1e6 - sum) <= 0.03126, "%g, not %g", mean[k],
                1e6 + sum);
      cr_assert(fabs(inverse[k] * sqrt(spread) - 1) < 2e-5, "%g, not %g",
                inverse[k], 1 / sqrt(spread));
    }
    free(x), free(mean), free(inverse);
    cases_release(&c);
  }
  tn_runtime_release(rt);
}

static void make(tn_runtime *rt, cases_call *c, const int64_t *dims) {
  fill(rt, c, cases_array(rt, TN_F32, 3, dims, cases_noise), dims[1]);
  c->heads[0] = cases_array(rt, TN_F32, 3, dims, cases_noise);
}

static void make_planes(tn_runtime *rt, cases_call *c) {
  make(rt, c, (const int64_t[]){7, 40, 800});
}

static void make_few_planes(tn_runtime *rt, cases_call *c) {
  make(rt, c, (const int64_t[]){5, 3, 20000});
}

static void make_columns(tn_runtime *rt, cases_call *c) {
  make(rt, c, (const int64_t[]){3000, 70, 1});
}

static void make_half(tn_runtime *rt, cases_call *c) {
  const int64_t dims[3] = {6, 18, 1500};
  fill(rt, c, cases_array(rt, TN_F16, 3, dims, cases_noise), dims[1]);
  c->heads[0] = cases_array(rt, TN_F16, 3, dims, cases_noise);
}

Test(batch_norm, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make_planes);
  cases_same_for_all_threads(make_few_planes);
  cases_same_for_all_threads(make_columns);
}

/* A half is rounded where another level ends on its other side. */
Test(batch_norm, the_same_kernel_gives_the_same_halves_at_any_time) {
  tn_runtime *rt = host_open();
  cases_call a, b;
  make_half(rt, &a), make_half(rt, &b);
  cases_forward(rt, &a), cases_forward(rt, &b);
  cases_backward(rt, &a), cases_backward(rt, &b);
  double *x = cases_values(a.grads[0]), *y = cases_values(b.grads[0]);
  cr_assert_eq(memcmp(x, y, 6 * 18 * 1500 * sizeof *x), 0);
  free(x), free(y);
  cases_release(&a), cases_release(&b);
  tn_runtime_release(rt);
}

/* Each alone has the value that it has together with the others. */
Test(batch_norm, gradients_that_are_not_wanted_are_not_needed) {
  const int64_t dims[3] = {4, 3, 50};
  tn_runtime *rt = host_open();
  for (uint32_t flags = 0; flags <= TN_CALL_TRAIN; flags += TN_CALL_TRAIN) {
    cases_call all;
    make(rt, &all, dims);
    all.flags = flags;
    cases_forward(rt, &all);
    cases_backward(rt, &all);
    for (int i = 0; i < 3; ++i) {
      cases_call one_of = all;
      for (int k = 0; k < 3; ++k) {
        one_of.req[k] = k == i ? TN_REQ_WRITE : TN_REQ_NULL;
        one_of.grads[k] = NULL;
      }
      cases_backward(rt, &one_of);
      double *got = cases_values(one_of.grads[i]);
      double *want = cases_values(all.grads[i]);
      cr_assert_eq(
          memcmp(got, want, (size_t)tn_array_size(all.grads[i]) * sizeof *got),
          0, "gradient %d", i);
      free(got), free(want);
      tn_array_release(one_of.grads[i]);
    }
    cases_release(&all);
  }
  tn_runtime_release(rt);
}

Test(batch_norm, of_nothing_the_averages_stay) {
  const int64_t dims[3] = {0, 2, 4};
  tn_runtime *rt = host_open();
  cases_call c;
  make(rt, &c, dims);
  c.params = "fix_gamma=false";
  cases_forward(rt, &c);
  host_expect(c.in[3], (double[]){0, 0}, 2, 0);
  host_expect(c.in[4], (double[]){1, 1}, 2, 0);
  cases_backward(rt, &c);
  cr_assert_eq(tn_array_size(c.grads[0]), 0);
  host_expect(c.grads[1], (double[]){0, 0}, 2, 0);
  host_expect(c.grads[2], (double[]){0, 0}, 2, 0);
  cases_release(&c);
  tn_runtime_release(rt);
}

/* -1 dimensions are not known. */
static tn_code infer(tn_runtime *rt, const char *text, tn_sig *data,
                     tn_sig *gamma) {
  tn_operator *op = host_operator(rt, "nn.batch_norm");
  tn_params *params = host_params(op, text);
  tn_sig in[3] = {*data, *gamma, {.ndim = -1}};
  tn_sig out[3] = {{.ndim = -1}, {.ndim = -1}, {.ndim = -1}};
  tn_sig aux[2] = {{.ndim = -1}, {.ndim = -1}};
  const tn_code rc =
      tn_operator_infer(op, params, &(tn_signature){3, 3, 2, 0, in, out, aux});
  *data = in[0], *gamma = in[1];
  if (rc == TN_OK) {
    cr_assert_eq(aux[1].ndim, 1);
    cr_assert_eq(aux[1].shape[0], in[1].shape[0]);
    cr_assert_eq(out[2].dtype, TN_F32);
  }
  tn_params_release(params);
  return rc;
}

Test(batch_norm, channels_are_known_from_either_side) {
  tn_runtime *rt = host_open();
  tn_sig data = {TN_F32, 3, {2, 5, 7}}, gamma = {.ndim = -1};
  OK(infer(rt, "", &data, &gamma));
  cr_assert_eq(gamma.shape[0], 5);
  data = (tn_sig){TN_F32, 3, {2, 5, -1}}, gamma = (tn_sig){TN_F32, 1, {9}};
  OK(infer(rt, "axis=-1", &data, &gamma));
  cr_assert_eq(data.shape[2], 9);
  tn_runtime_release(rt);
}

Test(batch_norm, operands_that_do_not_fit_are_refused) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.batch_norm");
  tn_params *none = NULL;
  tn_sig data = {TN_F32, 3, {2, 5, 7}}, gamma = {TN_F32, 1, {4}};
  FAILS(infer(rt, "", &data, &gamma), TN_SHAPE,
        "`gamma` (4) must have one number for each channel of `data` (2,5,7), "
        "which are along axis 1");
  gamma = (tn_sig){TN_F32, 2, {5, 1}};
  FAILS(infer(rt, "", &data, &gamma), TN_SHAPE, "`gamma` (5,1)");
  gamma = (tn_sig){.ndim = -1};
  FAILS(infer(rt, "axis=3", &data, &gamma), TN_OUT_OF_RANGE, "no axis 3");
  FAILS(tn_params_parse(op, "momentum=1.5", &none), TN_OUT_OF_RANGE,
        "momentum");
  FAILS(tn_params_parse(op, "eps=-1", &none), TN_OUT_OF_RANGE, "eps");
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------------ programs
 */

/* `data` through a layer named "bn"; its heads are the layer's. */
static tn_graph *layer_of(tn_runtime *rt) {
  tn_graph *g = NULL;
  tn_entry x, y;
  OK(tn_graph_create(rt, &g));
  OK(tn_graph_variable(g, "data", NULL, &x));
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = "nn.batch_norm",
                                    .params = "fix_gamma=true eps=0",
                                    .name = "bn",
                                    .in = &x,
                                    .n_in = 1},
                   &y));
  OK(tn_graph_heads_set(g, &y, 1));
  return g;
}

static tn_program *bound(const tn_graph *g, tn_array *data, tn_array *var) {
  const tn_argument given[] = {
      {.name = "data", .array = data, .known = {.ndim = -1}},
      {.name = "bn_moving_var", .array = var, .known = {.ndim = -1}}};
  tn_program *p = NULL;
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .arguments = given,
                                .n_arguments = var ? 2 : 1},
                     &p));
  return p;
}

static void state_is(tn_program *p, const char *name, const double *want) {
  tn_array *state = NULL;
  OK(tn_program_array(p, TN_PROGRAM_AUXILIARY, name, &state));
  host_expect(state, want, 2, 0);
}

Test(batch_norm, averages_that_a_program_makes_begin_as_the_manifest_says) {
  tn_runtime *rt = host_open();
  const double values[] = {1, 2, 3, 4}, four[] = {4, 4};
  tn_graph *g = layer_of(rt);
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {2, 2}}, values);
  tn_array *var = host_array(rt, TN_F32, (host_shape){1, {2}}, four);
  tn_array *out = NULL;
  tn_program *p = bound(g, x, NULL);
  state_is(p, "bn_moving_mean", (const double[]){0, 0});
  state_is(p, "bn_moving_var", (const double[]){1, 1});
  OK(tn_program_forward(p, 0));
  OK(tn_program_output(p, 0, &out));
  host_expect(out, values, 4, 0);
  tn_program_release(p);
  p = bound(g, x, var);
  state_is(p, "bn_moving_var", four);
  tn_program_release(p);
  tn_graph_release(g);
  tn_array_release(x), tn_array_release(var);
  tn_runtime_release(rt);
}

Test(batch_norm, averages_within_a_loop_begin_so_too) {
  tn_runtime *rt = host_open();
  static const char *const sequence[] = {"data"};
  const double values[] = {1, 2, 3, 4, 5, 6, 7, 8};
  tn_graph *step = layer_of(rt), *g = NULL;
  tn_array *x = host_array(rt, TN_F32, (host_shape){3, {2, 2, 2}}, values);
  tn_array *out = NULL;
  tn_entry in, y;
  OK(tn_graph_create(rt, &g));
  OK(tn_graph_variable(g, "data", NULL, &in));
  OK(tn_graph_loop(g,
                   &(tn_loop){.struct_size = sizeof(tn_loop),
                              .n_in = 1,
                              .step = step,
                              .name = "loop",
                              .sequences = sequence,
                              .n_sequences = 1,
                              .in = &in,
                              .keys = sequence},
                   &y));
  OK(tn_graph_heads_set(g, &y, 1));
  tn_program *p = bound(g, x, NULL);
  state_is(p, "loop_bn_moving_var", (const double[]){1, 1});
  OK(tn_program_forward(p, 0));
  OK(tn_program_output(p, 0, &out));
  host_expect(out, values, 8, 0);
  tn_program_release(p);
  tn_graph_release(g), tn_graph_release(step);
  tn_array_release(x);
  tn_runtime_release(rt);
}
