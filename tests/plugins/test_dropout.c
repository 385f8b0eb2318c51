/* SPDX-License-Identifier: Apache-2.0
 * nn.dropout: which elements are dropped, by Philox and not by the kernel; the
 * effect of seeds and threads, but not of the memory of a program; and refused
 * parameters.
 */
#include <stdlib.h>

#include "cases.h"
#include "tenon/graph.h"
#include "tenon/kernel/kernel.h"

enum { N = 100003 };

/* A call on N numbers, with its mask. */
static void call_on_noise(tn_runtime *rt, cases_call *c, tn_dtype dtype,
                          const char *params) {
  const int64_t dims[1] = {N};
  *c = (cases_call){.op = "nn.dropout",
                    .params = params,
                    .flags = TN_CALL_TRAIN,
                    .n_in = 1,
                    .n_out = 2};
  c->in[0] = cases_array(rt, dtype, 1, dims, cases_noise);
  c->heads[0] = cases_array(rt, dtype, 1, dims, cases_noise);
  c->req[0] = TN_REQ_WRITE;
}

/* The words of a runtime's first call. */
static void check_words(tn_dtype dtype, const char *params, double p) {
  tn_runtime *rt = host_open();
  cases_call c;
  call_on_noise(rt, &c, dtype, params);
  OK(tn_random_seed(rt, 11));
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *x = cases_values(c.in[0]), *y = cases_values(c.out[0]);
  double *mask = cases_values(c.out[1]), *slope = cases_values(c.grads[0]);
  int64_t dropped = 0;
  for (int64_t i = 0; i < N; ++i) {
    const tn_kernel_bits bits = tn_kernel_philox(11, (uint64_t)i / 4, 0);
    const int drops = (double)bits.word[i % 4] < floor(p * 0x1p32);
    const double want = drops ? 0 : 1 / (1 - p);
    cr_assert(fabs(mask[i] - want) <= 4e-3 * want, "%lld: %g, not %g",
              (long long)i, mask[i], want);
    cr_assert(fabs(y[i] - x[i] * want) <= 8e-3 * fabs(x[i] * want));
    cr_assert(fabs(slope[i] - x[i] * want) <= 8e-3 * fabs(x[i] * want));
    dropped += drops;
  }
  /* Five times the deviation of a binomial. */
  cr_assert(fabs((double)dropped - N * p) < 5 * sqrt(N * p * (1 - p)));
  free(x), free(y), free(mask), free(slope);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(dropout, elements_with_low_words_are_dropped) {
  check_words(TN_F32, "", .5);
  check_words(TN_F32, "p=0.1", .1);
  check_words(TN_F64, "p=0.9", .9);
  check_words(TN_F16, "p=0.25", .25);
  check_words(TN_BF16, "p=0.5", .5);
}

/* The mask is the stored factor of the elements: 1/0.9 is neither a f16 nor a
 * bf16. */
static void check_scale(tn_dtype dtype) {
  tn_runtime *rt = host_open();
  cases_call c;
  call_on_noise(rt, &c, dtype, "p=0.1");
  cases_expect_factor(rt, &c);
  tn_runtime_release(rt);
}

Test(dropout, elements_and_gradients_have_one_scale) {
  check_scale(TN_F16);
  check_scale(TN_BF16);
}

static double *first_values(tn_runtime *rt, uint32_t flags,
                            const char *params) {
  cases_call c;
  call_on_noise(rt, &c, TN_F32, params);
  c.flags = flags;
  cases_forward(rt, &c);
  double *values = cases_values(c.out[0]);
  cases_release(&c);
  return values;
}

static int differs(const double *a, const double *b) {
  return memcmp(a, b, N * sizeof *a) != 0;
}

Test(dropout, calls_differ_and_seeds_repeat_them) {
  tn_runtime *rt = host_open();
  OK(tn_random_seed(rt, 3));
  double *a = first_values(rt, TN_CALL_TRAIN, "");
  double *b = first_values(rt, TN_CALL_TRAIN, "");
  OK(tn_random_seed(rt, 3));
  double *again = first_values(rt, 0, "mode=always");
  cr_assert(differs(a, b));
  cr_assert(!differs(a, again));
  free(a), free(b), free(again);
  tn_runtime_release(rt);
}

Test(dropout, outside_of_training_nothing_is_dropped) {
  tn_runtime *rt = host_open();
  cases_call c;
  call_on_noise(rt, &c, TN_F32, "p=0.75");
  c.flags = 0;
  OK(tn_random_seed(rt, 3));
  cases_forward(rt, &c);
  double *x = cases_values(c.in[0]), *y = cases_values(c.out[0]);
  cr_assert(!differs(x, y));
  /* In place, without the mask. */
  tn_operator *op = host_operator(rt, c.op);
  tn_array *same = c.in[0];
  OK(tn_call(rt, op, TN_IN(same), NULL, TN_OUT(&same)));
  double *z = cases_values(c.in[0]);
  cr_assert(!differs(x, z));
  free(x), free(y), free(z);
  cases_release(&c);
  tn_runtime_release(rt);
}

static void make(tn_runtime *rt, cases_call *c) {
  call_on_noise(rt, c, TN_F32, "p=0.3");
}

Test(dropout, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make);
}

/* ----------------------------------------------------------------- programs */

enum { LAYERS = 5 };

static tn_entry layer(tn_graph *g, const char *op, const char *params,
                      tn_entry in) {
  tn_entry out;
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = op,
                                    .params = params,
                                    .n_in = 1,
                                    .in = &in},
                   &out));
  return out;
}

/* Layers of tanh and dropout around `x`, as a program that recomputes all steps
 * that it can. */
static tn_program *layers_bind(tn_runtime *rt, tn_array *x) {
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_entry h;
  OK(tn_graph_create(rt, &g));
  OK(tn_graph_variable(g, "x", NULL, &h));
  for (int i = 0; i < LAYERS; ++i) {
    h = layer(g, "nn.dropout", "p=0.1", h);
    for (int k = 0; k < 3; ++k)
      h = layer(g, "nn.activation", "act_type=tanh", h);
  }
  OK(tn_graph_heads_set(g, &h, 1));
  const tn_argument argument = {.name = "x", .array = x};
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .request = TN_REQ_WRITE,
                                .arguments = &argument,
                                .n_arguments = 1,
                                .memory = TN_MEMORY_MINIMAL},
                     &p));
  tn_graph_release(g);
  return p;
}

static double positive(int64_t i) {
  return 0.25 + fabs(cases_noise(i));
}

/* Exactly the elements dropped in the forward pass have the gradient 0. */
static void expect_same_dropped(tn_program *p) {
  tn_array *out = NULL, *slope = NULL;
  int64_t dropped = 0;
  OK(tn_program_output(p, 0, &out));
  OK(tn_program_array(p, TN_PROGRAM_GRADIENT, "x", &slope));
  double *y = cases_values(out), *dx = cases_values(slope);
  for (int64_t i = 0; i < N; ++i) {
    cr_assert_eq(y[i] == 0, dx[i] == 0, "%lld: %g with the slope %g",
                 (long long)i, y[i], dx[i]);
    dropped += y[i] == 0;
  }
  const double share = 1 - pow(0.9, LAYERS);
  cr_assert(fabs((double)dropped / N - share) < 0.02);
  free(y), free(dx);
}

Test(dropout, programs_of_little_memory_never_draw_again) {
  tn_runtime *rt = host_open();
  const int64_t dims[1] = {N};
  tn_array *x = cases_array(rt, TN_F32, 1, dims, positive);
  tn_array *weight = cases_array(rt, TN_F32, 1, dims, positive);
  tn_program *p = layers_bind(rt, x);
  tn_program_stats stats = {.struct_size = sizeof stats};
  OK(tn_program_stats_get(p, &stats));
  cr_assert_gt(stats.repeated, 0);
  for (int run = 0; run < 2; ++run) {
    OK(tn_program_forward(p, TN_CALL_TRAIN));
    OK(tn_program_backward(p, &weight, 1));
    expect_same_dropped(p);
  }
  tn_program_release(p);
  tn_array_release(x), tn_array_release(weight);
  tn_runtime_release(rt);
}

Test(dropout, a_probability_is_from_0_to_1) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.dropout");
  tn_params *none = NULL;
  FAILS(tn_params_parse(op, "p=1.25", &none), TN_OUT_OF_RANGE, "p");
  FAILS(tn_params_parse(op, "p=-0.5", &none), TN_OUT_OF_RANGE, "p");
  FAILS(tn_params_parse(op, "mode=never", &none), TN_INVALID, "always");
  tn_runtime_release(rt);
}
