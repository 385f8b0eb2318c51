/* SPDX-License-Identifier: Apache-2.0
 * Random numbers of cuda(0) against those of the cpu, and a program that draws,
 * recorded and launched as one. The words of the generator are the same; only
 * functions such as the logarithm may differ in the last places.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "read_values.h"
#include "tenon/graph.h"

TestSuite(random, .init = fixture_init, .fini = fixture_close);

/* ------------------------------------------------------------------- random */

/* Numbers that the first call of a runtime draws on a device. */
static double *draw_on(const char *place, const char *name, const char *text,
                       tn_dtype dtype, int64_t n) {
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_array *out = NULL;
  fixture_open(&(fake_cuda_options){.devices = 1, .seed = 3});
  OK(tn_plugin_load(fixture, RANDOM_FILE));
  OK(tn_plugin_load(fixture, RANDOM_CUDA_FILE));
  OK(tn_operator_get(fixture, name, &op));
  OK(tn_params_parse(op, text, &params));
  OK(tn_array_create_on(fixture, &(tn_spec){dtype, 1, &n}, fixture_place(place),
                        &out));
  OK(tn_call(fixture, op, &(tn_inputs){0}, params, TN_OUT(&out)));
  double *v = read_values(out, &n);
  tn_params_release(params);
  tn_array_release(out);
  fixture_close();
  return v;
}

/* Within so many units in the last place of the type, of numbers of magnitude 1
 * and more. */
static void compare_draws(const char *name, const char *more, tn_dtype dtype,
                          const char *type, double units) {
  const int64_t n = 5003;
  char text[200];
  (void)snprintf(text, sizeof text, "shape=[%d] dtype=%s %s", (int)n, type,
                 more);
  double *want = draw_on("cpu", name, text, dtype, n);
  double *have = draw_on("cuda(0)", name, text, dtype, n);
  const double unit = dtype == TN_F64    ? 0x1p-52
                      : dtype == TN_F32  ? 0x1p-23
                      : dtype == TN_F16  ? 0x1p-10
                      : dtype == TN_BF16 ? 0x1p-7
                                         : 0;
  for (int64_t i = 0; i < n; ++i)
    cr_assert(fabs(have[i] - want[i]) <= units * unit * fmax(1, fabs(want[i])),
              "%s %s: element %lld is %.17g, on the cpu %.17g", name, text,
              (long long)i, have[i], want[i]);
  free(want);
  free(have);
}

static const struct {
  const char *name;
  tn_dtype dtype;
} types[] = {{"f32", TN_F32},   {"f64", TN_F64},  {"f16", TN_F16},
             {"bf16", TN_BF16}, {"i8", TN_I8},    {"u32", TN_U32},
             {"i64", TN_I64},   {"bool", TN_BOOL}};

Test(random, words_are_those_of_the_cpu) {
  for (size_t i = 0; i < 8; ++i) {
    if (i < 4)
      compare_draws("random.uniform", "low=-1 high=3", types[i].dtype,
                    types[i].name, 0);
    if (i >= 4 && i < 7)
      compare_draws("random.randint", "low=3 high=100", types[i].dtype,
                    types[i].name, 0);
    compare_draws("random.bernoulli", "p=0.3", types[i].dtype, types[i].name,
                  0);
  }
}

Test(random, numbers_are_those_of_the_cpu_but_for_their_functions) {
  for (size_t i = 0; i < 4; ++i) {
    compare_draws("random.normal", "loc=1 scale=2", types[i].dtype,
                  types[i].name, 8);
    compare_draws("random.exponential", "lam=0.5", types[i].dtype,
                  types[i].name, 8);
  }
}

/* Distributions of proposals: a function's last place could decide whether one
 * is taken; with these seeds none does. */
Test(random, gamma_numbers_and_counts_are_those_of_the_cpu) {
  for (size_t i = 0; i < 4; ++i) {
    compare_draws("random.gamma", "alpha=0.3 beta=2", types[i].dtype,
                  types[i].name, 64);
    compare_draws("random.gamma", "alpha=7", types[i].dtype, types[i].name, 64);
  }
  for (size_t i = 0; i < 7; ++i) {
    compare_draws("random.poisson", "lam=3", types[i].dtype, types[i].name, 0);
    compare_draws("random.poisson", "lam=60", types[i].dtype, types[i].name, 0);
    compare_draws("random.negative_binomial", "k=2 p=0.1", types[i].dtype,
                  types[i].name, 0);
    compare_draws("random.generalized_negative_binomial", "mu=3 alpha=1",
                  types[i].dtype, types[i].name, 0);
  }
}

/* draw_on passes an array of the parameter n. */
Test(random, orders_are_those_of_the_cpu) {
  const int64_t n = 5003;
  double *want = draw_on("cpu", "random.permutation", "n=5003", TN_I64, n);
  double *have = draw_on("cuda(0)", "random.permutation", "n=5003", TN_I64, n);
  for (int64_t i = 0; i < n; ++i)
    cr_assert_eq(have[i], want[i], "place %lld", (long long)i);
  free(want);
  free(have);
}

/* ------------------------------------------------------------------ recorded
 */

enum { RUNS = 5, PLACES_OF = 40, ROWS = 6, COLUMNS_OF = 50 };

/* Kernels of every kind: drawn and constant numbers, places,
 * transposed squares, sums, choices and parts. */
static tn_entry build_graph(tn_graph *g, tn_entry x) {
  const tn_entry noise =
      fixture_call(g, "random.normal", "shape=[6,50]", "noise", 0, NULL);
  const tn_entry sum =
      fixture_call(g, "tensor.add_n", NULL, "sum", 2, (tn_entry[]){x, noise});
  const tn_entry turned =
      fixture_call(g, "tensor.transpose", NULL, "turned", 1, &sum);
  const tn_entry counted = fixture_call(
      g, "tensor.arange", "start=40 dtype=i32", "counted", 0, NULL);
  const tn_entry taken = fixture_call(g, "tensor.take", "mode=wrap", "taken", 2,
                                      (tn_entry[]){turned, counted});
  const tn_entry coin =
      fixture_call(g, "random.bernoulli", "shape=[40,6]", "coin", 0, NULL);
  const tn_entry chosen = fixture_call(g, "tensor.where", NULL, "chosen", 3,
                                       (tn_entry[]){coin, taken, coin});
  const tn_entry least = fixture_call(g, "tensor.min", "axis=[0] keepdims=true",
                                      "least", 1, &chosen);
  return fixture_call(g, "tensor.concat", "dim=0", "all", 2,
                      (tn_entry[]){chosen, least});
}

/* Results of runs that draw, and the gradients of x. */
static void run_program(uint32_t flags, float *out) {
  const tn_sig sig = {TN_F32, 2, {ROWS, COLUMNS_OF}};
  const size_t n = (PLACES_OF + 1) * ROWS, slopes = ROWS * COLUMNS_OF;
  float v[ROWS * COLUMNS_OF];
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_array *array = NULL, *weight = NULL;
  const int64_t all[] = {PLACES_OF + 1, ROWS};
  tn_entry x;
  OK(tn_graph_create(fixture, &g));
  OK(tn_graph_variable(g, "x", &sig, &x));
  x = build_graph(g, x);
  OK(tn_graph_heads_set(g, &x, 1));
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .request = TN_REQ_WRITE,
                                .flags = flags,
                                .place = fixture_place("cuda(0)")},
                     &p));
  for (size_t i = 0; i < slopes; ++i) v[i] = (float)(i % 17) / 8;
  OK(tn_program_array(p, TN_PROGRAM_ARGUMENT, "x", &array));
  OK(tn_array_set(array, v, sizeof v));
  OK(tn_array_create_on(fixture, &(tn_spec){TN_F32, 2, all},
                        fixture_place("cuda(0)"), &weight));
  OK(tn_array_set(weight, v, n * sizeof *v));
  OK(tn_random_seed(fixture, 5));
  for (int run = 0; run < RUNS; ++run, out += n + slopes) {
    OK(tn_program_forward(p, TN_CALL_TRAIN));
    OK(tn_program_backward(p, &weight, 1));
    OK(tn_program_output(p, 0, &array));
    OK(tn_array_get(array, out, n * sizeof *out));
    OK(tn_program_array(p, TN_PROGRAM_GRADIENT, "x", &array));
    OK(tn_array_get(array, out + n, slopes * sizeof *out));
  }
  for (uint32_t part = TN_PART_TRAIN; flags && part <= TN_PART_BACKWARD;
       ++part) {
    tn_text *why = NULL;
    OK(tn_program_captured(p, part, &why));
    cr_assert_null(why, "%s", tn_text_get(why));
  }
  tn_array_release(weight);
  tn_program_release(p);
  tn_graph_release(g);
}

Test(arrays, of_programs_are_recorded_with_random_numbers) {
  enum { EACH = (PLACES_OF + 1) * ROWS + ROWS * COLUMNS_OF };
  static float steps[RUNS][EACH], one[RUNS][EACH];
  fixture_open(&(fake_cuda_options){.devices = 1, .seed = 4});
  OK(tn_plugin_load(fixture, TENSOR_FILE));
  OK(tn_plugin_load(fixture, TENSOR_CUDA_FILE));
  OK(tn_plugin_load(fixture, RANDOM_FILE));
  OK(tn_plugin_load(fixture, RANDOM_CUDA_FILE));
  run_program(0, steps[0]);
  run_program(TN_BIND_CAPTURE, one[0]);
  for (int run = 0; run < RUNS; ++run)
    for (int i = 0; i < EACH; ++i)
      cr_assert_eq(one[run][i], steps[run][i], "run %d, number %d: %g, not %g",
                   run, i, (double)one[run][i], (double)steps[run][i]);
  for (int run = 1; run < RUNS; ++run)
    cr_assert_arr_neq(one[run], one[run - 1], sizeof one[run]);
  fixture_close();
}
