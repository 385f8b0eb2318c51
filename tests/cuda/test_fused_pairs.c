/* SPDX-License-Identifier: Apache-2.0
 * Layers followed by relu on a device. cuBLASLt and cuDNN, both simulated,
 * compute them as fused pairs where they can, with the values of the cpu. Where
 * they cannot there are two steps, and the program has a reason. The programs
 * also run recorded and monitored.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "tenon/kernel/kernel.h"
#include "tenon/kernel_options.h"

TestSuite(fused_pairs, .init = fixture_init, .fini = fixture_close);

static void open_all(uint64_t seed) {
  fixture_open(&(fake_cuda_options){.devices = 1, .seed = seed});
  OK(tn_plugin_load(fixture, NN_FILE));
  OK(tn_plugin_load(fixture, NN_CUDA_FILE));
  OK(tn_plugin_load(fixture, CUBLASLT_FILE));
  OK(tn_plugin_load(fixture, CUDNN_FILE));
}

/* --------------------------------------------------------------------- nets */

enum { MOST = 512 };

typedef struct layer {
  const char *op;
  const char *params;
  const char *act;
  int32_t ndim;
  int64_t data[5];
} layer;

static const layer connected = {
    "nn.fully_connected", "num_hidden=7", "act_type=relu", 2, {5, 9}};
static const layer images = {"nn.convolution",
                             "kernel=[3,3] num_filter=4 pad=[1,0]",
                             "act_type=relu",
                             4,
                             {2, 3, 5, 6}};
static const layer normal = {
    "nn.batch_norm", "fix_gamma=false", "act_type=relu", 3, {3, 4, 5}};

/* y = act(l(x)) */
static tn_graph *net(const layer *l, tn_dtype dtype) {
  tn_graph *g = NULL;
  tn_entry x;
  tn_sig sig = {.dtype = dtype, .ndim = l->ndim};
  memcpy(sig.shape, l->data, sizeof l->data);
  OK(tn_graph_create(fixture, &g));
  OK(tn_graph_variable(g, "x", &sig, &x));
  x = fixture_call(g, l->op, l->params, "l", 1, &x);
  x = fixture_call(g, "nn.activation", l->act, "y", 1, &x);
  OK(tn_graph_heads_set(g, &x, 1));
  return g;
}

static tn_program *bind(tn_graph *g, const char *place, uint32_t flags) {
  tn_program *p = NULL;
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .flags = flags,
                                .request = TN_REQ_WRITE,
                                .place = fixture_place(place)},
                     &p));
  return p;
}

static tn_array *named(tn_program *p, uint32_t what, const char *name) {
  tn_array *array = NULL;
  OK(tn_program_array(p, what, name, &array));
  return array;
}

static void put(tn_array *array, uint32_t what) {
  const tn_tensor *t = tn_array_tensor(array);
  const int64_t n = tn_tensor_size(t);
  static double wide[MOST];
  static float single[MOST];
  static uint16_t half[MOST];
  for (int64_t i = 0; i < n; ++i) {
    single[i] = (float)((i * 37 + what * 11) % 17 - 8) / 8;
    wide[i] = (double)single[i];
    half[i] = tn_kernel_f32_to_f16(single[i]);
  }
  const size_t bytes = (size_t)(n * tn_dtype_bytes(t->dtype));
  OK(tn_array_set(array,
                  t->dtype == TN_F64   ? (void *)wide
                  : t->dtype == TN_F32 ? (void *)single
                                       : (void *)half,
                  bytes));
}

static void put_all(tn_program *p, tn_graph *g) {
  const char *name = NULL;
  for (uint32_t i = 0; !tn_graph_name(g, TN_GRAPH_ARGUMENTS, i, &name, NULL);
       ++i)
    put(named(p, TN_PROGRAM_ARGUMENT, name), i + 1);
}

static void run(tn_program *p) {
  const tn_tensor *t = tn_array_tensor(named(p, TN_PROGRAM_OUTPUT, "y_output"));
  tn_array *weight = NULL;
  OK(tn_array_create_on(fixture, &(tn_spec){t->dtype, t->ndim, t->shape},
                        (tn_place){t->device_type, t->device_id}, &weight));
  put(weight, 9);
  OK(tn_program_forward(p, TN_CALL_TRAIN));
  OK(tn_program_backward(p, &weight, 1));
  tn_array_release(weight);
}

/* Elements of any type. */
static int64_t get(tn_array *array, double *to) {
  const tn_tensor *t = tn_array_tensor(array);
  const int64_t n = tn_tensor_size(t);
  static float single[MOST];
  static uint16_t half[MOST];
  OK(tn_array_get(array,
                  t->dtype == TN_F64   ? (void *)to
                  : t->dtype == TN_F32 ? (void *)single
                                       : (void *)half,
                  (size_t)(n * tn_dtype_bytes(t->dtype))));
  for (int64_t i = 0; i < n && t->dtype != TN_F64; ++i)
    to[i] = (double)(t->dtype == TN_F32 ? single[i]
                                        : tn_kernel_f16_to_f32(half[i]));
  return n;
}

/* Products of few small numbers are exact, but for an engine of gradients that
 * is simulated with other bits in every call. */
static void same(tn_program *a, tn_program *b, uint32_t what,
                 const char *name) {
  static double one[MOST], two[MOST];
  const int64_t n = get(named(a, what, name), one);
  cr_assert_eq(n, get(named(b, what, name), two));
  for (int64_t i = 0; i < n; ++i)
    cr_assert_float_eq(one[i], two[i], 1e-3 * fabs(two[i]) + 1e-30,
                       "%s[%lld] is %g, not %g", name, (long long)i, two[i],
                       one[i]);
}

static void compare(const layer *l, tn_program *a, tn_program *b) {
  const int has_gamma = strcmp(l->op, "nn.batch_norm") == 0;
  same(a, b, TN_PROGRAM_OUTPUT, "y_output");
  same(a, b, TN_PROGRAM_GRADIENT, "x");
  same(a, b, TN_PROGRAM_GRADIENT, has_gamma ? "l_gamma" : "l_weight");
  if (has_gamma) same(a, b, TN_PROGRAM_GRADIENT, "l_beta");
}

static void shows(tn_program *p, const char *part) {
  tn_text *text = NULL;
  OK(tn_program_text(p, 1, &text));
  cr_assert_not_null(strstr(tn_text_get(text), part), "%s lacks `%s`",
                     tn_text_get(text), part);
  tn_text_release(text);
}

/* ------------------------------------------------------------------- values */

static void on_both(const layer *l, tn_dtype dtype, const char *kernel) {
  tn_graph *g = net(l, dtype);
  tn_program *here = bind(g, "cpu", TN_BIND_NO_FUSE),
             *there = bind(g, "cuda(0)", 0);
  shows(there, kernel);
  put_all(here, g), put_all(there, g);
  for (int i = 0; i < 3; ++i) run(there);
  run(here);
  compare(l, here, there);
  tn_program_release(here), tn_program_release(there);
  tn_graph_release(g);
}

Test(fused_pairs, of_a_product_have_the_values_of_the_cpu) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16};
  open_all(1);
  for (int i = 0; i < 2; ++i) {
    layer l = connected;
    on_both(&l, dtypes[i], "  l  cublaslt.fully_connected_activation.cuda ");
    l.params = "num_hidden=7 no_bias=true";
    on_both(&l, dtypes[i], "  l  cublaslt.fully_connected_activation.cuda ");
  }
}

Test(fused_pairs, of_a_convolution_have_the_values_of_the_cpu) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_F64};
  open_all(2);
  for (int i = 0; i < 3; ++i)
    on_both(&images, dtypes[i], "  l  cudnn.convolution_activation.cuda ");
}

Test(fused_pairs, of_a_batch_norm_have_the_values_of_the_cpu) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_F64};
  open_all(8);
  for (int i = 0; i < 3; ++i)
    on_both(&normal, dtypes[i], "  l  nn.batch_norm_activation.cuda ");
}

static void count(void *ctx, const char *name, tn_array *array) {
  (void)name, (void)array;
  ++*(int *)ctx;
}

/* One step of gradients, with or without a monitor. */
Test(fused_pairs, of_gradients_have_the_values_of_the_cpu) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_F64};
  open_all(9);
  for (int i = 0; i < 6; ++i) {
    tn_graph *g = net(&normal, dtypes[i % 3]);
    tn_program *here = bind(g, "cpu", TN_BIND_NO_FUSE),
               *there = bind(g, "cuda(0)", 0);
    int seen = 0;
    shows(there, "  l_backward (gradient)  nn.batch_norm_activation.cuda ");
    put_all(here, g), put_all(there, g);
    if (i >= 3) OK(tn_program_monitor(there, count, &seen));
    for (int k = 0; k < 2; ++k) run(there);
    run(here);
    compare(&normal, here, there);
    cr_assert(i < 3 ? seen == 0 : seen >= 2 * (2 + 4), "%d outputs", seen);
    tn_program_release(here), tn_program_release(there);
    tn_graph_release(g);
  }
}

/* ------------------------------------------------------------------ two steps
 */

static void stays_two(const layer *l, tn_dtype dtype, const char *why) {
  tn_graph *g = net(l, dtype);
  tn_program *p = bind(g, "cuda(0)", 0);
  shows(p, why);
  tn_program_release(p);
  tn_graph_release(g);
}

Test(fused_pairs, are_not_made_where_no_kernel_can) {
  open_all(3);
  layer l = connected;
  stays_two(&l, TN_F64, "not one with l: ");
  l.act = "act_type=tanh";
  stays_two(&l, TN_F32, "not one with l: ");
  l = images;
  l.params = "kernel=[3,3] num_filter=4 no_bias=true";
  stays_two(&l, TN_F32, "it takes convolutions with a bias");
  l.params = images.params;
  l.data[0] = 0;
  stays_two(&l, TN_F32, "of which there is something to multiply");
  l = normal;
  l.act = "act_type=tanh";
  stays_two(&l, TN_F32, "not one with l: ");
}

Test(fused_pairs, are_not_made_where_there_is_no_engine) {
  open_all(4);
  cr_assert_eq(setenv("FAKE_CUDNN_NO_FUSION", "1", 1), 0);
  stays_two(&images, TN_F32, "not one with l: ");
  on_both(&images, TN_F32, "  l  cudnn.convolution.cuda ");
}

static void tune(const char *op, const char *kernel, const char *options) {
  tn_operator *found = NULL;
  OK(tn_operator_get(fixture, op, &found));
  OK(tn_operator_tune(found, kernel, options));
}

Test(fused_pairs, wait_for_options_that_the_first_has) {
  open_all(5);
  tune("nn.fully_connected", "cublaslt.fully_connected.cuda", "fast=true");
  stays_two(&connected, TN_F32,
            "not one with l: the kernel for both has other options");
  tune("nn.fully_connected_activation",
       "cublaslt.fully_connected_activation.cuda", "fast=true");
  stays_two(&connected, TN_F32, "  l  cublaslt.fully_connected_activation");
}

/* ----------------------------------------------------------- recorded, watched
 */

static void recorded(const layer *l) {
  tn_graph *g = net(l, TN_F32);
  tn_text *why = NULL;
  tn_program *steps = bind(g, "cuda(0)", 0),
             *one = bind(g, "cuda(0)", TN_BIND_CAPTURE);
  put_all(steps, g), put_all(one, g);
  for (int i = 0; i < 4; ++i) run(steps), run(one);
  OK(tn_program_captured(one, TN_PART_TRAIN, &why));
  cr_assert_null(why, "%s", tn_text_get(why));
  compare(l, steps, one);
  tn_program_release(steps), tn_program_release(one);
  tn_graph_release(g);
}

Test(fused_pairs, are_recorded) {
  open_all(6);
  recorded(&connected);
  recorded(&images);
  recorded(&normal);
}

typedef struct sight {
  char names[4][32];
  float v[4][MOST];
  int n;
} sight;

static void look(void *ctx, const char *name, tn_array *array) {
  sight *s = ctx;
  const size_t n = (size_t)tn_tensor_size(tn_array_tensor(array));
  if (s->n == 4) return;
  (void)snprintf(s->names[s->n], sizeof *s->names, "%s", name);
  OK(tn_array_get(array, s->v[s->n++], n * sizeof(float)));
}

/* The array between the two exists only for a monitor. */
static void watched(const layer *l) {
  static sight seen[2];
  tn_graph *g = net(l, TN_F32);
  memset(seen, 0, sizeof seen);
  for (int i = 0; i < 2; ++i) {
    tn_program *p = bind(g, i ? "cuda(0)" : "cpu", 0);
    put_all(p, g);
    OK(tn_program_monitor(p, look, &seen[i]));
    OK(tn_program_forward(p, 0));
    OK(tn_program_monitor(p, NULL, NULL));
    OK(tn_program_forward(p, 0));
    tn_program_release(p);
  }
  cr_assert_eq(seen[0].n, 2);
  cr_assert_eq(seen[1].n, 2);
  for (int k = 0; k < 2; ++k) {
    cr_assert_str_eq(seen[0].names[k], k ? "y_output" : "l_output");
    cr_assert_str_eq(seen[1].names[k], seen[0].names[k]);
    cr_assert_eq(memcmp(seen[0].v[k], seen[1].v[k], sizeof seen[0].v[k]), 0);
  }
  tn_graph_release(g);
}

Test(fused_pairs, are_two_for_monitors) {
  open_all(7);
  watched(&connected);
  watched(&images);
}

static void ignore(void *ctx, const char *name, tn_array *array) {
  (void)ctx, (void)name, (void)array;
}

static tn_entry grouped(tn_graph *g, const char *group, const char *op,
                        const char *params, tn_entry in) {
  const tn_entry out = fixture_call(g, op, params, NULL, 1, &in);
  OK(tn_graph_attribute_set(g, out.node, "group", group));
  return out;
}

/* A fused pair on the device, layers, and a copy of their output to the cpu. */
static tn_graph *copied_net(void) {
  static const char dense[] = "nn.fully_connected";
  const tn_sig sig = {TN_F32, 2, {8, 16}};
  tn_graph *g = NULL;
  tn_entry x;
  OK(tn_graph_create(fixture, &g));
  OK(tn_graph_variable(g, "x", &sig, &x));
  x = grouped(g, "device", dense, "num_hidden=32", x);
  x = grouped(g, "device", "nn.activation", "act_type=relu", x);
  x = grouped(g, "device", dense, "num_hidden=16", x);
  x = grouped(g, "device", dense, "num_hidden=32", x);
  x = grouped(g, "host", "elemwise.tanh", NULL, x);
  OK(tn_graph_heads_set(g, &x, 1));
  return g;
}

/* Two programs share one memory. The monitored one begins with a fused pair
 * while results of the other are still copied. */
Test(fused_pairs, that_are_monitored_wait_for_users_of_their_memory) {
  float want[256], have[256];
  fixture_open_all(
      &(fake_cuda_options){.devices = 1, .seed = 3, .latency_us = 50});
  OK(tn_plugin_load(fixture, NN_FILE));
  OK(tn_plugin_load(fixture, NN_CUDA_FILE));
  OK(tn_plugin_load(fixture, CUBLASLT_FILE));
  tn_graph *g = copied_net();
  const tn_group groups[] = {{"device", fixture_place("cuda(0)")},
                             {"host", fixture_place("cpu")}};
  tn_program *one = NULL, *two = NULL;
  tn_bind how = {.struct_size = sizeof how, .groups = groups, .n_groups = 2};
  OK(tn_program_bind(g, &how, &one));
  how.shared = one;
  OK(tn_program_bind(g, &how, &two));
  put_all(one, g), put_all(two, g);
  tn_array *y = NULL;
  OK(tn_program_output(two, 0, &y));
  OK(tn_program_forward(two, 0));
  OK(tn_array_get(y, want, sizeof want));
  put(named(one, TN_PROGRAM_ARGUMENT, "x"), 5);
  OK(tn_program_forward(one, 0));
  OK(tn_wait_all(fixture));
  OK(tn_program_monitor(one, ignore, NULL));
  for (int i = 0; i < 6; ++i) {
    OK(tn_program_forward(two, 0));
    OK(tn_program_forward(one, 0));
    OK(tn_array_get(y, have, sizeof have));
    cr_expect_arr_eq(have, want, sizeof want);
  }
  tn_program_release(one), tn_program_release(two);
  tn_graph_release(g);
}
