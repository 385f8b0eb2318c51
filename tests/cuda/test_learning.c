/* SPDX-License-Identifier: Apache-2.0
 * Kernels of nn and optim for CUDA in their real use: a network with random
 * operators, states and parameters that change, with steps one by one and
 * launched as one. Also the differences between a device and the cpu.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "tenon/graph.h"

enum { ROWS = 6, N_LAYERS = 7, N_STEPS = 6, RUNS = 5, MOST = 512 };

TestSuite(learning, .init = fixture_init, .fini = fixture_close);

static void open_all(uint64_t seed) {
  fixture_open(&(fake_cuda_options){.devices = 1, .seed = seed});
  OK(tn_plugin_load(fixture, NN_FILE));
  OK(tn_plugin_load(fixture, NN_CUDA_FILE));
  OK(tn_plugin_load(fixture, CUBLASLT_FILE));
  OK(tn_plugin_load(fixture, OPTIM_FILE));
  OK(tn_plugin_load(fixture, OPTIM_CUDA_FILE));
}

/* Numbers between -0.5 and 0.5 that depend on their position. */
static void put(tn_array *array, uint32_t what) {
  float v[MOST];
  const int64_t n = tn_array_size(array);
  cr_assert(n <= MOST);
  for (int64_t i = 0; i < n; ++i)
    v[i] = (float)((what * 31 + (uint32_t)i * 7) % 41) / 41 - 0.5f;
  OK(tn_array_set(array, v, (size_t)n * sizeof *v));
}

/* -------------------------------------------------------------------- a net */

typedef struct layer {
  const char *op, *params, *name;
} layer;

static const layer layers[N_LAYERS] = {
    {"nn.batch_norm", "fix_gamma=false", "norm"},
    {"nn.leaky_relu", "act_type=rrelu", "bent"},
    {"nn.pooling", "kernel=(2,2) pool_type=max", "pool"},
    {"nn.dropout", "p=0.25", "drop"},
    {"nn.layer_norm", "", "lines"},
    {"nn.fully_connected", "num_hidden=3", "all"},
    {"nn.softmax_output", "normalization=batch", "softmax"}};

/* Each optimizer changes a weight of its own. */
static const struct {
  const char *op, *params, *weight;
} steps[N_STEPS] = {
    {"optim.adam_update", "lr=0.5 step=1", "all_weight"},
    {"optim.rmsprop_update", "lr=0.5", "norm_gamma"},
    {"optim.ftrl_update", "lr=0.5", "norm_beta"},
    {"optim.sgd_mom_update", "lr=0.5 momentum=0.5", "lines_gamma"},
    {"optim.sgd_update", "lr=0.5", "lines_beta"},
    {"optim.rmspropalex_update", "lr=0.5", "all_bias"}};

static tn_graph *net(void) {
  const tn_sig images = {TN_F32, 4, {ROWS, 2, 4, 5}};
  const tn_sig labels = {TN_F32, 1, {ROWS}};
  tn_entry in[2], heads[1 + N_STEPS], of[N_STEPS], slopes[N_STEPS];
  tn_graph *g = NULL;
  OK(tn_graph_create(fixture, &g));
  OK(tn_graph_variable(g, "data", &images, &in[0]));
  OK(tn_graph_variable(g, "softmax_label", &labels, &in[1]));
  for (uint32_t i = 0; i < N_LAYERS; ++i)
    in[0] = fixture_call(g, layers[i].op, layers[i].params, layers[i].name,
                         i + 1 < N_LAYERS ? 1 : 2, in);
  heads[0] = in[0];
  for (int i = 0; i < N_STEPS; ++i)
    OK(tn_graph_find(g, steps[i].weight, &of[i]));
  OK(tn_graph_gradient(
      g,
      &(tn_gradient_query){
          .heads = heads, .n_heads = 1, .of = of, .n_of = N_STEPS},
      slopes));
  for (int i = 0; i < N_STEPS; ++i)
    heads[1 + i] =
        fixture_call(g, steps[i].op, steps[i].params, steps[i].op + 6, 2,
                     (const tn_entry[]){of[i], slopes[i]});
  OK(tn_graph_heads_set(g, heads, 1 + N_STEPS));
  return g;
}

/* All arguments but the labels. */
static void put_all(tn_program *p, tn_graph *g, uint32_t run) {
  const char *name = NULL;
  for (uint32_t i = 0; !tn_graph_name(g, TN_GRAPH_ARGUMENTS, i, &name, NULL);
       ++i) {
    tn_array *array = NULL;
    float labels[ROWS];
    OK(tn_program_array(p, TN_PROGRAM_ARGUMENT, name, &array));
    if (strcmp(name, "softmax_label") != 0) {
      put(array, run + i);
      continue;
    }
    for (uint32_t k = 0; k < ROWS; ++k) labels[k] = (float)((k + run) % 3);
    OK(tn_array_set(array, labels, sizeof labels));
  }
}

static void set_rates(tn_program *p, uint32_t run) {
  const tn_value lr = tn_value_float("lr", 1.0 / (2 + run));
  const tn_value step = tn_value_int("step", 1 + run);
  for (int i = 0; i < N_STEPS; ++i) OK(tn_program_set(p, steps[i].op + 6, &lr));
  OK(tn_program_set(p, "adam_update", &step));
}

/* The results of all runs, one after the other. */
typedef struct found {
  size_t n;
  float v[RUNS * (1 + N_STEPS) * 128];
} found;

static void run_all(uint32_t flags, found *f) {
  tn_graph *g = net();
  tn_program *p = NULL;
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .place = fixture_place("cuda(0)")};
  OK(tn_program_bind(g, &how, &p));
  OK(tn_random_seed(fixture, 7));
  f->n = 0;
  for (uint32_t run = 0; run < RUNS; ++run) {
    put_all(p, g, run);
    set_rates(p, run);
    OK(tn_program_forward(p, TN_CALL_TRAIN));
    for (uint32_t k = 0; k <= N_STEPS; ++k) {
      tn_array *out = NULL;
      OK(tn_program_output(p, k, &out));
      const size_t n = (size_t)tn_array_size(out);
      cr_assert(f->n + n <= sizeof f->v / sizeof *f->v);
      OK(tn_array_get(out, f->v + f->n, n * sizeof(float)));
      f->n += n;
    }
  }
  tn_program_release(p);
  tn_graph_release(g);
}

Test(learning, a_recording_reads_everything_that_changes) {
  static found one_by_one, as_one;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    open_all(seed);
    run_all(0, &one_by_one);
    run_all(TN_BIND_CAPTURE, &as_one);
    cr_expect_gt(fake_graph_counts_get().launched, 0);
    cr_assert_eq(one_by_one.n, as_one.n);
    for (size_t i = 0; i < as_one.n; ++i)
      cr_assert(isfinite(as_one.v[i]) && as_one.v[i] >= one_by_one.v[i] &&
                    as_one.v[i] <= one_by_one.v[i],
                "number %zu is %.9g, not %.9g", i, (double)as_one.v[i],
                (double)one_by_one.v[i]);
    fixture_close();
  }
}

/* --------------------------------------------------------------- embeddings */

static tn_array *array_of(tn_dtype dtype, int32_t ndim, const int64_t *shape,
                          const void *values, size_t bytes) {
  tn_array *array = NULL;
  OK(tn_array_create_on(fixture, &(tn_spec){dtype, ndim, shape},
                        fixture_place("cuda(0)"), &array));
  OK(tn_array_set(array, values, bytes));
  return array;
}

/* Of four indices -1 and 3 are none. */
Test(learning, an_index_out_of_range_gives_nan_and_counts_nothing) {
  const int32_t index[] = {2, -1, 3, 2};
  const float numbers[] = {1, 2, 3, 4, 5, 6},
              heads[] = {1, 10, 100, 1000, 2, 20, 3, 30};
  float out[8], slopes[6];
  tn_operator *op = NULL;
  tn_params *params = NULL;
  open_all(1);
  OK(tn_operator_get(fixture, "nn.embedding", &op));
  OK(tn_params_parse(op, "input_dim=3 output_dim=2", &params));
  tn_array *in[] = {
      array_of(TN_I32, 1, (const int64_t[]){4}, index, sizeof index),
      array_of(TN_F32, 2, (const int64_t[]){3, 2}, numbers, sizeof numbers)};
  tn_array *head =
      array_of(TN_F32, 2, (const int64_t[]){4, 2}, heads, sizeof heads);
  tn_array *y = NULL, *grads[2] = {NULL, NULL};
  const tn_req req[] = {TN_REQ_NULL, TN_REQ_WRITE};
  OK(tn_call(fixture, op, &(tn_inputs){2, in}, params, TN_OUT(&y)));
  OK(tn_array_get(y, out, sizeof out));
  cr_expect(out[0] >= 5 && out[0] <= 5 && out[7] >= 6 && out[7] <= 6);
  for (int i = 2; i < 6; ++i) cr_expect(isnan(out[i]), "element %d", i);
  const tn_backward back = {.struct_size = sizeof back,
                            .params = params,
                            .inputs = {2, in},
                            .outputs = {1, &y},
                            .out_grads = {1, &head},
                            .in_grads = {2, grads, req}};
  OK(tn_call_backward(fixture, op, &back));
  OK(tn_array_get(grads[1], slopes, sizeof slopes));
  const float want[] = {0, 0, 0, 0, 4, 40};
  cr_expect_arr_eq(slopes, want, sizeof want);
  tn_array *all[] = {in[0], in[1], head, y, grads[1]};
  for (int i = 0; i < 5; ++i) tn_array_release(all[i]);
  tn_params_release(params);
}

/* Both ways by way of f32. */
static tn_array *half_of(const float *v, int64_t n) {
  tn_array *half = NULL;
  tn_array *wide = array_of(TN_F32, 1, &n, v, (size_t)n * sizeof *v);
  OK(tn_array_cast(wide, TN_F16, &half));
  tn_array_release(wide);
  return half;
}

static void read_half(tn_array *half, float *v) {
  tn_array *wide = NULL;
  OK(tn_array_cast(half, TN_F32, &wide));
  OK(tn_array_get(wide, v, (size_t)tn_array_size(wide) * sizeof *v));
  tn_array_release(wide);
}

/* The factors are 1/0.9 and 0.2295, which are no f16. */
static void check_scale(const char *name, const char *text, int64_t n) {
  float x[MOST], y[MOST], factor[MOST];
  tn_array *made[2] = {NULL, NULL};
  tn_operator *op = NULL;
  tn_params *params = NULL;
  OK(tn_operator_get(fixture, name, &op));
  OK(tn_params_parse(op, text, &params));
  for (int64_t i = 0; i < n; ++i) x[i] = (float)(i - n / 2) * 0.3f;
  tn_array *half = half_of(x, n);
  OK(tn_call(fixture, op, TN_IN(half), params, &(tn_outputs){2, made, NULL}));
  read_half(half, x);
  read_half(made[0], y);
  read_half(made[1], factor);
  for (int64_t i = 0; i < n; ++i) x[i] *= factor[i];
  tn_array *rounded = half_of(x, n);
  read_half(rounded, x);
  cr_expect_arr_eq(x, y, (size_t)n * sizeof *x, "%s of %d", name, (int)n);
  tn_array *all[] = {half, made[0], made[1], rounded};
  for (int i = 0; i < 4; ++i) tn_array_release(all[i]);
  tn_params_release(params);
}

Test(learning, elements_are_multiplied_by_the_stored_factors) {
  open_all(1);
  check_scale("nn.dropout", "p=0.1 mode=always", 64);
  check_scale("nn.dropout", "p=0.1 mode=always", 67);
  check_scale("nn.leaky_relu", "act_type=rrelu", 64);
  check_scale("nn.leaky_relu", "act_type=rrelu", 67);
}

/* Rounding to the type of `data` must not raise a slope of rrelu to `upper`. */
static int count_reached(tn_operator *op, const tn_params *params) {
  float x[MOST], factor[MOST];
  tn_array *made[2] = {NULL, NULL}, *wide = NULL, *data = NULL;
  const int64_t n = MOST;
  int reached = 0;
  for (int64_t i = 0; i < n; ++i) x[i] = -1;
  wide = array_of(TN_F32, 1, &n, x, sizeof x);
  OK(tn_array_cast(wide, TN_BF16, &data));
  OK(tn_call_train(fixture, op, TN_IN(data), params,
                   &(tn_outputs){2, made, NULL}));
  read_half(made[1], factor);
  for (int64_t i = 0; i < n; ++i) reached += factor[i] >= 0.5f;
  tn_array *all[] = {wide, data, made[0], made[1]};
  for (int i = 0; i < 4; ++i) tn_array_release(all[i]);
  return reached;
}

Test(learning, drawn_slopes_stay_below_upper) {
  tn_operator *op = NULL;
  tn_params *params = NULL;
  int reached = 0;
  open_all(1);
  OK(tn_operator_get(fixture, "nn.leaky_relu", &op));
  OK(tn_params_parse(op, "act_type=rrelu lower=0.25 upper=0.5", &params));
  for (int k = 0; k < 16; ++k) reached += count_reached(op, params);
  cr_expect_eq(reached, 0, "%d slopes are 0.5", reached);
  tn_params_release(params);
}

/* The sum of a million equal numbers in f32 drifts away. */
Test(learning, long_lines_of_softmax_lose_no_digits) {
  enum { LONG = 1000000 };
  const int64_t shape[] = {1, LONG};
  const double low = -2.3, want = exp(low) / (1 + (LONG - 1) * exp(low));
  tn_operator *op = NULL;
  tn_array *out = NULL;
  float *x = malloc(LONG * sizeof *x);
  cr_assert_not_null(x);
  open_all(1);
  for (int i = 0; i < LONG; ++i) x[i] = i == 0 ? 0 : (float)low;
  tn_array *data = array_of(TN_F32, 2, shape, x, LONG * sizeof *x);
  OK(tn_operator_get(fixture, "nn.softmax", &op));
  OK(tn_call(fixture, op, TN_IN(data), NULL, TN_OUT(&out)));
  OK(tn_array_get(out, x, LONG * sizeof *x));
  for (int i = 1; i < LONG; i += 99999)
    cr_assert(fabs((double)x[i] - want) < 1e-6 * want, "%d: %.9g, not %.9g", i,
              (double)x[i], want);
  free(x);
  tn_array_release(data);
  tn_array_release(out);
}
