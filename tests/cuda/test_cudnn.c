/* SPDX-License-Identifier: Apache-2.0
 * plugins/cudnn through the library, with a simulated driver and cuDNN: values
 * of torch (tests/reference/conv.py) on two devices and from two threads, the
 * number of plans, operands at any address, empty products, and missing or lost
 * devices and libraries. At the end of every test both fakes report broken
 * rules and objects that were not freed.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../must.h"
#include "../plugins/windows.h"
#include "cudnn_fixture.h"
#include "tenon/graph.h"
#include "tenon/kernel_options.h"

static const windows_case conv_cases[] = {
#include "../plugins/conv_cases.inc"
};
enum { N_CASES = sizeof conv_cases / sizeof *conv_cases };

TestSuite(cudnn, .init = fixture_init, .fini = close_cudnn);

/* ------------------------------------------------------------------- values
 */

/* Sums are in f64 here; halves are rounded once, or twice where a bias is added
 * to existing values. */
static void check_types(const windows_case *c) {
  windows_check(fixture, c, TN_F64, 1e-13);
  windows_check(fixture, c, TN_F32, 1e-6);
  windows_check(fixture, c, TN_F16, 0x1p-9);
  windows_check(fixture, c, TN_BF16, 0x1p-6);
}

static void check_cases(const char *place) {
  windows_place = place;
  for (size_t i = 0; i < N_CASES; ++i) check_types(&conv_cases[i]);
}

Test(cudnn, values_and_gradients_are_those_of_torch) {
  open_cudnn(1, 5);
  check_cases("cuda");
  cr_assert_gt(fake_cudnn_counts_get().executed, 0);
}

Test(cudnn, the_second_device_has_handles_of_its_own) {
  open_cudnn(2, 6);
  check_cases("cuda(1)");
  cr_assert_eq(fake_cudnn_counts_get().handles, 2);
  check_cases("cuda(0)");
  cr_assert_eq(fake_cudnn_counts_get().handles, 4);
}

Test(cudnn, a_bias_is_added_before_where_no_engine_adds_it) {
  (void)setenv("FAKE_CUDNN_NO_FUSION", "1", 1);
  open_cudnn(1, 7);
  check_cases("cuda");
}

/* ------------------------------------------------------------ deconvolution
 */

static const windows_case deconv_cases[] = {
#include "../plugins/deconv_cases.inc"
};
enum { N_DECONVS = sizeof deconv_cases / sizeof *deconv_cases };

/* In this case, an odd number of elements is removed, with steps of 1. */
static bool is_odd(const windows_case *c) {
  return strstr(c->params, "target_shape=[5,3]") != NULL;
}

Test(cudnn, deconvolutions_and_their_gradients_are_those_of_torch) {
  int n_taken = 0;
  windows_place = "cuda";
  open_cudnn(1, 16);
  for (size_t i = 0; i < N_DECONVS; ++i) {
    if (is_odd(&deconv_cases[i])) continue;
    check_types(&deconv_cases[i]);
    ++n_taken;
  }
  cr_assert_eq(n_taken, (int)N_DECONVS - 1);
  cr_assert_gt(fake_cudnn_counts_get().executed, 0);
}

/* ------------------------------------------------------------------ pooling
 */

static tn_array *ones(const char *place, tn_dtype dtype, int32_t ndim,
                      const int64_t *dims) {
  tn_array *host = NULL, *out = NULL;
  double v[64];
  for (int i = 0; i < 64; ++i) v[i] = 1;
  host = host_many(fixture, dtype, ndim, dims, v);
  OK(tn_array_to(host, fixture_place(place), &out));
  tn_array_release(host);
  return out;
}

static const windows_case pool_cases[] = {
#include "../plugins/pool_cases.inc"
};
enum { N_POOLS = sizeof pool_cases / sizeof *pool_cases };

/* Calls the operator of a case in f32. */
static tn_code call_case(const windows_case *c) {
  tn_operator *op = host_operator(fixture, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[WINDOWS_IN] = {NULL}, *out = NULL;
  for (size_t i = 0; i < c->n_in; ++i) {
    const windows_operand *x = &c->in[i];
    tn_array *host = host_many(fixture, TN_F32, x->ndim, x->dims, x->v);
    OK(tn_array_to(host, fixture_place("cuda"), &in[i]));
    tn_array_release(host);
  }
  const tn_code code =
      tn_call(fixture, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out));
  for (size_t i = 0; i < c->n_in; ++i) tn_array_release(in[i]);
  tn_array_release(out);
  tn_params_release(params);
  return code;
}

/* Whether out is computed; if not, the case is one of those that cuDNN has no
 * words for. */
static bool is_taken(const windows_case *c) {
  const tn_code code = call_case(c);
  if (code != TN_OK) {
    FAILS(code, TN_UNSUPPORTED, "cudnn.pooling.cuda");
    cr_assert(strstr(c->params, "pool_type=sum") ||
                  strstr(c->params, "pooling_convention=full"),
              "%s: %s", c->params, tn_error_text());
  }
  return code == TN_OK;
}

Test(cudnn, a_deconvolution_that_leaves_a_window_out_is_refused) {
  open_cudnn(1, 16);
  for (size_t i = 0; i < N_DECONVS; ++i)
    if (is_odd(&deconv_cases[i]))
      FAILS(call_case(&deconv_cases[i]), TN_UNSUPPORTED,
            "target_shape wants one less at the end of dimension 2");
}

Test(cudnn,
     the_companion_of_nn_computes_a_deconvolution_that_leaves_a_window_out) {
  windows_place = "cuda";
  open_cudnn(1, 16);
  OK(tn_plugin_load(fixture, NN_CUDA_FILE));
  for (size_t i = 0; i < N_DECONVS; ++i)
    if (is_odd(&deconv_cases[i]))
      windows_check(fixture, &deconv_cases[i], TN_F32, 1e-5);
}

/* A gradient of the largest is refused, so that only out is compared. */
Test(cudnn, means_and_the_largest_of_windows_are_those_of_torch) {
  int n_taken = 0;
  windows_place = "cuda";
  open_cudnn(1, 4);
  for (size_t i = 0; i < N_POOLS; ++i) {
    windows_case c = pool_cases[i];
    if (!is_taken(&c)) continue;
    if (strstr(c.params, "pool_type=max")) c.n_grads = 0;
    windows_check(fixture, &c, TN_F64, 1e-14);
    windows_check(fixture, &c, TN_F32, 1e-6);
    windows_check(fixture, &c, TN_F16, 0x1p-10);
    windows_check(fixture, &c, TN_BF16, 0x1p-7);
    ++n_taken;
  }
  cr_assert_geq(n_taken, 20);
}

static void pool_refuses(const char *text, const char *why) {
  tn_operator *op = host_operator(fixture, "nn.pooling");
  tn_params *params = host_params(op, text);
  tn_array *in = ones("cuda", TN_F32, 3, (const int64_t[]){1, 1, 4});
  tn_array *out = NULL;
  FAILS(tn_call(fixture, op, TN_IN(in), params, TN_OUT(&out)), TN_UNSUPPORTED,
        why);
  tn_array_release(in);
  tn_params_release(params);
}

Test(cudnn, poolings_that_mean_something_else_are_refused) {
  open_cudnn(1, 4);
  pool_refuses("kernel=[2] pool_type=sum", "cuDNN has no sums of windows");
  pool_refuses("kernel=[3] stride=[2] pool_type=avg pooling_convention=full",
               "cuDNN counts what lies behind the padding of dimension 2");
  pool_refuses("kernel=[1] pad=[1]",
               "dimension 2 has windows without an element of `data`");
}

Test(cudnn, the_gradient_of_the_largest_is_refused) {
  open_cudnn(1, 4);
  tn_operator *op = host_operator(fixture, "nn.pooling");
  tn_params *params = host_params(op, "kernel=[2]");
  tn_array *in = ones("cuda", TN_F32, 3, (const int64_t[]){1, 1, 4});
  tn_array *out = ones("cuda", TN_F32, 3, (const int64_t[]){1, 1, 3});
  tn_array *grad = NULL;
  const tn_req req = TN_REQ_WRITE;
  FAILS(tn_call_backward(fixture, op,
                         &(tn_backward){.struct_size = sizeof(tn_backward),
                                        .params = params,
                                        .inputs = *TN_IN(in),
                                        .outputs = *TN_IN(out),
                                        .out_grads = *TN_IN(out),
                                        .in_grads = {1, &grad, &req}}),
        TN_UNSUPPORTED, "which of several largest elements gets the gradient");
  tn_array_release(in), tn_array_release(out);
  tn_params_release(params);
}

/* -------------------------------------------------------------------- plans
 */

/* One image of 4 x 4 elements that are 1, and its windows of 3 x 3. */
typedef struct small {
  tn_operator *op;
  tn_params *params;
  tn_array *in[2];
} small;

static small small_make(const char *place, const char *params) {
  small s = {.op = host_operator(fixture, "nn.convolution")};
  s.params = host_params(s.op, params);
  s.in[0] = ones(place, TN_F32, 4, (const int64_t[]){1, 1, 4, 4});
  s.in[1] = ones(place, TN_F32, 4, (const int64_t[]){1, 1, 3, 3});
  return s;
}

static void small_release(small *s) {
  tn_array_release(s->in[0]);
  tn_array_release(s->in[1]);
  tn_params_release(s->params);
}

static const char no_step[] = "kernel=[3,3] num_filter=1 no_bias=true";
static const char one_step[] =
    "kernel=[3,3] pad=[1,1] num_filter=1 no_bias=true";

/* The sum of the output. */
static double total(tn_array *array) {
  tn_array *host = NULL;
  OK(tn_array_to(array, fixture_place("cpu"), &host));
  double *v = host_many_values(host), sum = 0;
  for (int64_t i = 0; i < tn_array_size(host); ++i) sum += v[i];
  free(v);
  tn_array_release(host);
  return sum;
}

static double small_call(const small *s) {
  tn_array *out = NULL, *in[] = {s->in[0], s->in[1]};
  OK(tn_call(fixture, s->op, &(tn_inputs){2, in}, s->params, TN_OUT(&out)));
  const double sum = total(out);
  tn_array_release(out);
  return sum;
}

Test(cudnn, calls_that_are_alike_share_a_plan) {
  open_cudnn(2, 8);
  small s = small_make("cuda", no_step), other = small_make("cuda", one_step);
  small there = small_make("cuda(1)", no_step);
  for (int i = 0; i < 3; ++i) cr_assert_eq(small_call(&s), 36);
  cr_assert_eq(fake_cudnn_counts_get().plans, 1);
  cr_assert_eq(small_call(&other), 100); /* 4 x 4 + 8 x 6 + 4 x 9 */
  cr_assert_eq(fake_cudnn_counts_get().plans, 2);
  cr_assert_eq(small_call(&there), 36);
  cr_assert_eq(fake_cudnn_counts_get().plans, 3);
  cr_assert_eq(small_call(&s), 36);
  cr_assert_eq(fake_cudnn_counts_get().plans, 3);
  small_release(&s), small_release(&other), small_release(&there);
}

/* ------------------------------------------------------------------ options
 */

static const char kernel_id[] = "cudnn.convolution.cuda";

/* The result of a window of one element: x times 1. */
static double times_one_by(const char *name, const char *place, double x) {
  const char params[] = "kernel=[1] num_filter=1 no_bias=true";
  const int64_t dims[] = {1, 1, 1};
  tn_operator *op = host_operator(fixture, name);
  tn_params *p = host_params(op, params);
  tn_array *host = host_many(fixture, TN_F32, 3, dims, &x), *out = NULL;
  tn_array *in[2] = {NULL, ones(place, TN_F32, 3, dims)};
  OK(tn_array_to(host, fixture_place(place), &in[0]));
  OK(tn_call(fixture, op, &(tn_inputs){2, in}, p, TN_OUT(&out)));
  const double y = total(out);
  tn_array_release(host), tn_array_release(out);
  tn_array_release(in[0]), tn_array_release(in[1]);
  tn_params_release(p);
  return y;
}

static double times_one(const char *place, double x) {
  return times_one_by("nn.convolution", place, x);
}

/* TF32 has ten bits after the binary point. */
Test(cudnn, factors_are_rounded_only_if_that_is_allowed) {
  const double x = 1 + 0x1p-12;
  open_cudnn(1, 3);
  tn_operator *op = host_operator(fixture, "nn.convolution");
  cr_assert_eq(times_one("cuda", x), x);
  OK(tn_operator_tune(op, kernel_id, "fast=true"));
  cr_assert_eq(times_one("cuda", x), 1);
  OK(tn_operator_tune(op, kernel_id, NULL));
  cr_assert_eq(times_one("cuda", x), x);
}

Test(cudnn, deconvolutions_round_factors_only_if_that_is_allowed) {
  const double x = 1 + 0x1p-12;
  open_cudnn(1, 3);
  tn_operator *op = host_operator(fixture, "nn.deconvolution");
  OK(tn_operator_tune(op, "cudnn.deconvolution.cuda", "deterministic=true"));
  cr_assert_eq(times_one_by("nn.deconvolution", "cuda", x), x);
  OK(tn_operator_tune(op, "cudnn.deconvolution.cuda", "fast=true"));
  cr_assert_eq(times_one_by("nn.deconvolution", "cuda", x), 1);
}

/* The gradient of the weight of a small convolution. */
static double weight_gradient(const small *s, tn_array *head) {
  tn_array *grads[2] = {NULL, NULL}, *in[] = {s->in[0], s->in[1]};
  const tn_req req[] = {TN_REQ_NULL, TN_REQ_WRITE};
  OK(tn_call_backward(fixture, s->op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = s->params,
                                     .inputs = {2, in},
                                     .outputs = *TN_IN(head),
                                     .out_grads = *TN_IN(head),
                                     .in_grads = {2, grads, req}}));
  const double sum = total(grads[1]);
  tn_array_release(grads[1]);
  return sum;
}

Test(cudnn, bits_are_the_same_each_time_if_that_is_asked_for) {
  open_cudnn(1, 3);
  small s = small_make("cuda", no_step);
  tn_array *head = ones("cuda", TN_F32, 4, (const int64_t[]){1, 1, 2, 2});
  const double first = weight_gradient(&s, head);
  cr_assert_neq(weight_gradient(&s, head), first);
  OK(tn_operator_tune(s.op, kernel_id, "deterministic=true"));
  for (int i = 0; i < 2; ++i) cr_assert_eq(weight_gradient(&s, head), 36);
  tn_array_release(head);
  small_release(&s);
}

/* Of the arrays of the small call each has 256 bytes. */
Test(cudnn, engines_have_room_for_copies_unless_they_may_not) {
  (void)setenv("FAKE_CUDNN_NO_ENGINES", "1", 1);
  open_cudnn(1, 3);
  small s = small_make("cuda", no_step);
  tn_array *out = NULL;
  OK(tn_operator_tune(s.op, kernel_id, "workspace=1000"));
  FAILS(tn_call(fixture, s.op, &(tn_inputs){2, s.in}, s.params, TN_OUT(&out)),
        TN_UNSUPPORTED, "in 1768 bytes of workspace");
  OK(tn_operator_tune(s.op, kernel_id, "workspace=1000 copies=false"));
  FAILS(tn_call(fixture, s.op, &(tn_inputs){2, s.in}, s.params, TN_OUT(&out)),
        TN_UNSUPPORTED, "in 1000 bytes of workspace");
  OK(tn_operator_tune(s.op, kernel_id, "workspace=9223372036854775807"));
  FAILS(tn_call(fixture, s.op, &(tn_inputs){2, s.in}, s.params, TN_OUT(&out)),
        TN_UNSUPPORTED, "in 9223372036854775807 bytes of workspace");
  small_release(&s);
}

Test(cudnn, engines_take_no_more_workspace_than_they_may) {
  open_cudnn(1, 3);
  small s = small_make("cuda", no_step);
  OK(tn_operator_tune(s.op, kernel_id, "workspace=0"));
  cr_assert_eq(small_call(&s), 36);
  FAILS(tn_operator_tune(s.op, kernel_id, "workspace=-1"), TN_OUT_OF_RANGE,
        "workspace");
  small_release(&s);
}

/* ---------------------------------------------------------------- measured
 */

static const double finer_than_tf32 = 1 + 0x1p-12;

/* A folder of its own, which the test leaves empty. */
static char *folder_make(void) {
  static char folder[] = "/tmp/tenon-cudnn-XXXXXX";
  cr_assert_not_null(mkdtemp(folder));
  (void)setenv("XDG_CACHE_HOME", folder, 1);
  return folder;
}

static void folder_remove(const char *folder) {
  char path[80];
  (void)snprintf(path, sizeof path, "%s/tenon/cudnn", folder);
  cr_assert_eq(unlink(path), 0);
  (void)snprintf(path, sizeof path, "%s/tenon", folder);
  cr_assert_eq(rmdir(path), 0);
  cr_assert_eq(rmdir(folder), 0);
}

/* Of the engines for f32 the first rounds to TF32; it is slow here. */
static void open_measuring(const char *options) {
  open_cudnn(1, 15);
  OK(tn_operator_tune(host_operator(fixture, "nn.convolution"), kernel_id,
                      options));
}

static void close_again(void) {
  fixture_close();
  must_be_silent(fake_cudnn_end());
}

Test(cudnn, the_fastest_engine_is_found_by_trying_and_kept) {
  const char *folder = folder_make();
  (void)setenv("FAKE_CUDNN_SLOW", "4", 1); /* ENGINE_TF32 */
  open_measuring("fast=true");
  cr_assert_eq(times_one("cuda", finer_than_tf32), 1);
  close_again();
  open_measuring("fast=true measure=true");
  cr_assert_eq(times_one("cuda", finer_than_tf32), finer_than_tf32);
  cr_assert_gt(fake_cudnn_counts_get().plans, 2);
  close_again();
  /* another process finds the choice, whichever engine is slow now */
  (void)setenv("FAKE_CUDNN_SLOW", "1", 1); /* ENGINE_PLAIN */
  const int64_t before = fake_cudnn_counts_get().plans;
  open_measuring("fast=true measure=true");
  cr_assert_eq(times_one("cuda", finer_than_tf32), finer_than_tf32);
  cr_assert_eq(fake_cudnn_counts_get().plans, before + 1);
  folder_remove(folder);
}

Test(cudnn, a_choice_that_cannot_be_kept_is_measured) {
  (void)setenv("XDG_CACHE_HOME", "/dev/null", 1);
  (void)setenv("FAKE_CUDNN_SLOW", "4", 1);
  open_measuring("fast=true measure=true");
  cr_assert_eq(times_one("cuda", finer_than_tf32), finer_than_tf32);
}

/* ------------------------------------------------------------------ threads
 */

enum { CALLS = 40 };

static void *call_often(void *arg) {
  const small *s = arg;
  for (int i = 0; i < CALLS; ++i) cr_assert_eq(small_call(s), 36);
  return NULL;
}

Test(cudnn, two_threads_share_plans_and_no_handle) {
  pthread_t threads[2];
  open_cudnn(2, 9);
  small s[] = {small_make("cuda(0)", no_step), small_make("cuda(1)", no_step)};
  small more[] = {small_make("cuda(0)", no_step),
                  small_make("cuda(0)", no_step)};
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 2; ++i)
      cr_assert_eq(pthread_create(&threads[i], NULL, call_often,
                                  round ? &more[i] : &s[i]),
                   0);
    for (int i = 0; i < 2; ++i) (void)pthread_join(threads[i], NULL);
  }
  for (int i = 0; i < 2; ++i) small_release(&s[i]), small_release(&more[i]);
}

/* ---------------------------------------------------------------- recorded
 */

static const int64_t image[] = {2, 2, 6, 6}, means[] = {2, 3, 2, 2};
static const char *const net_arrays[] = {"data", "conv_weight", "conv_bias"};
enum { N_NET = 3, RUNS = 5, MOST = 144 };

/* The means of the results of 3 x 3 windows over an image. */
static tn_program *net(const char *place, uint32_t flags) {
  const tn_sig sig = {TN_F32, 4, {image[0], image[1], image[2], image[3]}};
  tn_graph_node node = {.struct_size = sizeof node,
                        .op = "nn.convolution",
                        .params = "kernel=[3,3] num_filter=3",
                        .name = "conv",
                        .n_in = 1};
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .request = TN_REQ_WRITE,
                       .place = fixture_place(place)};
  tn_program *p = NULL;
  tn_graph *g = NULL;
  tn_entry x;
  OK(tn_graph_create(fixture, &g));
  OK(tn_graph_variable(g, "data", &sig, &x));
  node.in = &x;
  OK(tn_graph_call(g, &node, &x));
  node.op = "nn.pooling";
  node.params = "kernel=[2,2] stride=[2,2] pool_type=avg";
  node.name = "pool";
  OK(tn_graph_call(g, &node, &x));
  OK(tn_graph_heads_set(g, &x, 1));
  OK(tn_program_bind(g, &how, &p));
  tn_graph_release(g);
  return p;
}

/* Eighths that depend on their position and on the run. */
static void fill(tn_array *array, int run) {
  float v[MOST];
  const int64_t n = tn_array_size(array);
  for (int64_t i = 0; i < n; ++i)
    v[i] = (float)((i * 7 + run * 5) % 17 - 8) / 8;
  OK(tn_array_set(array, v, (size_t)n * sizeof *v));
}

static tn_array *of(tn_program *p, uint32_t what, const char *name) {
  tn_array *array = NULL;
  OK(tn_program_array(p, what, name, &array));
  return array;
}

static void net_run(tn_program *p, const char *place, int run) {
  tn_array *host = NULL, *head = NULL;
  for (int i = 0; i < N_NET; ++i)
    fill(of(p, TN_PROGRAM_ARGUMENT, net_arrays[i]), run + i);
  OK(tn_array_create(fixture, &(tn_spec){TN_F32, 4, means}, &host));
  fill(host, run + N_NET);
  OK(tn_array_to(host, fixture_place(place), &head));
  OK(tn_program_forward(p, TN_CALL_TRAIN));
  OK(tn_program_backward(p, &head, 1));
  tn_array_release(host), tn_array_release(head);
}

static void expect_same(tn_array *a, tn_array *b) {
  float x[MOST], y[MOST];
  const size_t bytes = (size_t)tn_array_size(a) * sizeof *x;
  OK(tn_array_get(a, x, bytes));
  OK(tn_array_get(b, y, bytes));
  for (size_t i = 0; i < bytes / sizeof *x; ++i)
    cr_assert_float_eq(x[i], y[i], 1e-5, "element %zu", i);
}

static void is_launched_as_one(tn_program *p, uint32_t part) {
  tn_text *why = NULL;
  OK(tn_program_captured(p, part, &why));
  cr_assert_null(why, "%s", why ? tn_text_get(why) : "");
}

Test(cudnn, programs_are_recorded_and_launched_as_one) {
  open_cudnn(1, 14);
  tn_program *one = net("cuda", TN_BIND_CAPTURE), *cpu = net("cpu", 0);
  for (int run = 0; run < RUNS; ++run) {
    tn_array *a = NULL, *b = NULL;
    net_run(one, "cuda", run);
    net_run(cpu, "cpu", run);
    OK(tn_program_output(one, 0, &a));
    OK(tn_program_output(cpu, 0, &b));
    expect_same(a, b);
    for (int i = 0; i < N_NET; ++i)
      expect_same(of(one, TN_PROGRAM_GRADIENT, net_arrays[i]),
                  of(cpu, TN_PROGRAM_GRADIENT, net_arrays[i]));
  }
  is_launched_as_one(one, TN_PART_TRAIN);
  is_launched_as_one(one, TN_PART_BACKWARD);
  tn_program_release(one), tn_program_release(cpu);
}

/* ----------------------------------------------------------- addresses
 */

/* Elements from `begin` on of a longer image: an address that is a multiple of
 * an element, and no more. */
static tn_array *part(tn_array *from, int64_t begin, int64_t n) {
  const tn_range range = {.axis = 0, .begin = begin, .end = begin + n};
  const int64_t dims[] = {1, 1, 4, 4};
  tn_array *view = NULL, *out = NULL;
  OK(tn_array_slice(from, &range, &view));
  OK(tn_array_reshape(view, 4, dims, &out));
  tn_array_release(view);
  return out;
}

Test(cudnn, operands_may_have_any_address) {
  const int64_t n = 17;
  open_cudnn(1, 10);
  small s = small_make("cuda", no_step);
  tn_array *longer = ones("cuda", TN_F32, 1, &n);
  tn_array_release(s.in[0]);
  s.in[0] = part(longer, 1, 16);
  cr_assert_eq((uintptr_t)tn_array_tensor(s.in[0])->data % 16, 4);
  for (int i = 0; i < 2; ++i) cr_assert_eq(small_call(&s), 36);
  /* the one that was made in advance, and the one for such addresses */
  cr_assert_eq(fake_cudnn_counts_get().plans, 2);
  tn_array_release(longer);
  small_release(&s);
}

/* -------------------------------------------------------- nothing to multiply
 */

static void check_empty(tn_dtype dtype) {
  static const double bias[] = {0.5, -2};
  static const double out[] = {0.5, 0.5, 0.5, 0.5, -2, -2, -2, -2};
  static const double head[] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const double to_bias[] = {10, 26};
  const windows_case no_channels = {
      "nn.convolution",
      "kernel=[3] num_filter=2",
      3,
      {{3, {1, 0, 6}, NULL}, {3, {2, 0, 3}, NULL}, {1, {2}, bias}},
      {3, {1, 2, 4}, out},
      {3, {1, 2, 4}, head},
      3,
      {{3, {1, 0, 6}, NULL}, {3, {2, 0, 3}, NULL}, {1, {2}, to_bias}}};
  static const double weight[] = {1, 2, 3}, zeros[] = {0, 0, 0}, one[] = {7};
  const windows_case no_images = {
      "nn.convolution",
      "kernel=[3] num_filter=1",
      3,
      {{3, {0, 1, 6}, NULL}, {3, {1, 1, 3}, weight}, {1, {1}, one}},
      {3, {0, 1, 4}, NULL},
      {3, {0, 1, 4}, NULL},
      3,
      {{3, {0, 1, 6}, NULL}, {3, {1, 1, 3}, zeros}, {1, {1}, zeros}}};
  windows_check(fixture, &no_channels, dtype, 0);
  windows_check(fixture, &no_images, dtype, 0);
}

Test(cudnn, nothing_to_multiply_leaves_zeros_or_the_bias) {
  windows_place = "cuda";
  open_cudnn(1, 11);
  check_empty(TN_F16);
  check_empty(TN_F32);
  check_empty(TN_F64);
  cr_assert_eq(fake_cudnn_counts_get().plans, 0);
}

static void check_empty_deconvolution(tn_dtype dtype) {
  static const double bias[] = {0.5, -2};
  static const double out[] = {0.5, 0.5, 0.5, -2, -2, -2};
  static const double head[] = {1, 2, 3, 4, 5, 6}, to_bias[] = {6, 15};
  const windows_case no_channels = {
      "nn.deconvolution",
      "kernel=[3] num_filter=2 no_bias=false",
      3,
      {{3, {1, 0, 1}, NULL}, {3, {0, 2, 3}, NULL}, {1, {2}, bias}},
      {3, {1, 2, 3}, out},
      {3, {1, 2, 3}, head},
      3,
      {{3, {1, 0, 1}, NULL}, {3, {0, 2, 3}, NULL}, {1, {2}, to_bias}}};
  static const double weight[] = {1, 2, 3}, zeros[] = {0, 0, 0};
  const windows_case no_images = {
      "nn.deconvolution",
      "kernel=[3] num_filter=1",
      2,
      {{3, {0, 1, 4}, NULL}, {3, {1, 1, 3}, weight}},
      {3, {0, 1, 6}, NULL},
      {3, {0, 1, 6}, NULL},
      2,
      {{3, {0, 1, 4}, NULL}, {3, {1, 1, 3}, zeros}}};
  windows_check(fixture, &no_channels, dtype, 0);
  windows_check(fixture, &no_images, dtype, 0);
}

Test(cudnn, an_empty_deconvolution_leaves_zeros_or_the_bias) {
  windows_place = "cuda";
  open_cudnn(1, 11);
  check_empty_deconvolution(TN_F32);
  check_empty_deconvolution(TN_F64);
  cr_assert_eq(fake_cudnn_counts_get().plans, 0);
}

/* ------------------------------------------------------------- failures
 */

static void refuses(const char *why) {
  tn_array *out = NULL;
  small s = small_make("cuda", no_step);
  FAILS(tn_call(fixture, s.op, &(tn_inputs){2, s.in}, s.params, TN_OUT(&out)),
        TN_UNSUPPORTED, why);
  small_release(&s);
}

Test(cudnn, of_an_older_version_is_refused_by_its_number) {
  (void)setenv("FAKE_CUDNN_VERSION", "8907", 1);
  open_cudnn(1, 12);
  refuses("cuDNN 8.9.7 was found, and version 9 is wanted");
}

Test(cudnn, of_a_newer_version_is_refused_by_its_number) {
  (void)setenv("FAKE_CUDNN_VERSION", "100102", 1);
  open_cudnn(1, 12);
  refuses("cuDNN 10.1.2 was found, and version 9 is wanted");
}

Test(cudnn, without_engines_is_reported_with_the_request) {
  (void)setenv("FAKE_CUDNN_NO_ENGINES", "1", 1);
  open_cudnn(1, 12);
  refuses(
      "cuDNN 9.19.0 names no engine that computes this in 268436224 bytes of "
      "workspace, without rounding");
}

Test(cudnn, on_a_gpu_that_is_lost_fails_with_its_reason) {
  tn_array *out = NULL;
  open_cudnn(1, 13);
  small s = small_make("cuda", no_step);
  cr_assert_eq(small_call(&s), 36);
  fixture_is_broken = true;
  fake_cuda_lose(0, 719);
  tn_code code =
      tn_call(fixture, s.op, &(tn_inputs){2, s.in}, s.params, TN_OUT(&out));
  if (code == TN_OK) code = tn_array_wait(out);
  cr_assert_eq(code, TN_DEVICE, "%s", tn_error_text());
  cr_assert_not_null(strstr(tn_error_text(), "the GPU is lost"), "%s",
                     tn_error_text());
  tn_array_release(out);
  small_release(&s);
}
