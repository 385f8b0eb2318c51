/* SPDX-License-Identifier: Apache-2.0
 * Operators of plugins/nn that compute another one followed by an activation.
 * Every kernel has the bits of two calls, both passes, in every type, and
 * programs use them in place of the two. The tests of the two operators check
 * their values.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

typedef struct layer {
  const char *op;
  const char *params;
  const char *kernel; /* in f32 */
  int32_t ndim;
  int64_t data[5];
  int32_t weight_ndim;
  int64_t weight[5];
  int64_t filters; /* of a bias; 0: none */
} layer;

static const layer layers[] = {
    {"fully_connected", "num_hidden=33", "cpu.2", 2, {7, 19}, 2, {33, 19}, 33},
    {"fully_connected",
     "num_hidden=5 no_bias=true flatten=false",
     "cpu.2",
     3,
     {2, 3, 4},
     2,
     {5, 4},
     0},
    {"fully_connected", "num_hidden=5", "cpu.2", 2, {0, 4}, 2, {5, 4}, 5},
    {"convolution",
     "kernel=[2,3,2] num_filter=5 stride=[1,2,1]",
     "cpu",
     5,
     {2, 3, 4, 7, 5},
     5,
     {5, 3, 2, 3, 2},
     5},
    {"convolution",
     "kernel=[1,1] num_filter=70",
     "cpu.2",
     4,
     {2, 65, 9, 7},
     4,
     {70, 65, 1, 1},
     70},
    {"convolution",
     "kernel=[3,3] num_filter=6 num_group=6 pad=[1,1] no_bias=true",
     "cpu.3",
     4,
     {2, 6, 11, 13},
     4,
     {6, 1, 3, 3},
     0},
    {"convolution",
     "kernel=[3,3] num_filter=18 pad=[1,1]",
     "cpu.5",
     4,
     {3, 17, 13, 22},
     4,
     {18, 17, 3, 3},
     18},
    {"convolution",
     "kernel=[5,5] num_filter=9 stride=[2,1] pad=[2,1]",
     "cpu.6",
     4,
     {3, 2, 14, 17},
     4,
     {9, 2, 5, 5},
     9},
    {"convolution",
     "kernel=[3] num_filter=2",
     "cpu.6",
     3,
     {0, 2, 6},
     3,
     {2, 2, 3},
     2},
};
enum { N_LAYERS = sizeof layers / sizeof *layers, N_TYPES = 5 };
static const char *const types[N_TYPES] = {"relu", "sigmoid", "tanh",
                                           "softrelu", "softsign"};

/* ------------------------------------------------------------------- arrays */

static int64_t product(int32_t ndim, const int64_t *dims) {
  int64_t n = 1;
  for (int32_t d = 0; d < ndim; ++d) n *= dims[d];
  return n;
}

/* Numbers that rounding does something to. */
static tn_array *drawn(tn_runtime *rt, tn_dtype dtype, int32_t ndim,
                       const int64_t *dims, uint64_t seed) {
  const int64_t n = product(ndim, dims);
  double *values = host_draw(n, seed);
  for (int64_t i = 0; i < n; ++i)
    values[i] = sin(values[i] + (double)(i % 97) + (double)seed);
  tn_array *array = host_many(rt, dtype, ndim, dims, values);
  free(values);
  return array;
}

static size_t bytes_of(tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  return (size_t)(tn_tensor_size(t) * tn_dtype_bytes(t->dtype));
}

static void same_bits(tn_array *a, tn_array *b, const char *what) {
  const size_t n = bytes_of(a);
  char *one = malloc(n + 1), *two = malloc(n + 1);
  cr_assert_eq(n, bytes_of(b));
  OK(tn_array_get(a, one, n));
  OK(tn_array_get(b, two, n));
  for (size_t i = 0; i < n; ++i)
    cr_assert_eq(one[i], two[i], "%s: byte %zu differs", what, i);
  free(one), free(two);
}

/* -------------------------------------------------------------------- calls */

typedef struct setting {
  tn_runtime *rt;
  const layer *layer;
  const char *type;
  tn_dtype dtype;
  size_t n_in;
  tn_array *in[3];
  char what[160];
} setting;

static setting setting_open(tn_runtime *rt, const layer *l, const char *type,
                            tn_dtype dtype) {
  setting s = {.rt = rt, .layer = l, .type = type, .dtype = dtype, .n_in = 2};
  s.in[0] = drawn(rt, dtype, l->ndim, l->data, 1);
  s.in[1] = drawn(rt, dtype, l->weight_ndim, l->weight, 2);
  if (l->filters > 0) s.in[s.n_in++] = drawn(rt, dtype, 1, &l->filters, 3);
  (void)snprintf(s.what, sizeof s.what, "%s %s %s, type %d", l->op, l->params,
                 type, (int)dtype);
  return s;
}

static void setting_close(setting *s) {
  for (size_t i = 0; i < s->n_in; ++i) tn_array_release(s->in[i]);
}

typedef struct call {
  tn_operator *op;
  tn_params *params;
  size_t n_in;
  tn_array *const *in;
  tn_array *out;
} call;

static call call_make(const setting *s, const char *op, const char *params,
                      size_t n_in, tn_array *const *in) {
  call c = {.n_in = n_in, .in = in};
  c.op = host_operator(s->rt, op);
  c.params = host_params(c.op, params);
  OK(tn_call(s->rt, c.op, &(tn_inputs){n_in, in}, c.params, TN_OUT(&c.out)));
  return c;
}

static void call_back(const setting *s, const call *c, tn_array *head,
                      tn_array **grads) {
  const tn_req req[3] = {TN_REQ_WRITE, TN_REQ_WRITE, TN_REQ_WRITE};
  tn_array *out = c->out;
  OK(tn_call_backward(s->rt, c->op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = c->params,
                                     .inputs = {c->n_in, c->in},
                                     .outputs = {1, &out},
                                     .out_grads = {1, &head},
                                     .in_grads = {c->n_in, grads, req}}));
}

static void call_end(call *c) {
  tn_array_release(c->out);
  tn_params_release(c->params);
}

static void compare(const setting *s) {
  const layer *l = s->layer;
  char op[80], both[80], params[160], type[40];
  tn_array *want[3] = {NULL}, *got[3] = {NULL}, *between = NULL;
  (void)snprintf(op, sizeof op, "nn.%s", l->op);
  (void)snprintf(both, sizeof both, "nn.%s_activation", l->op);
  (void)snprintf(type, sizeof type, "act_type=%s", s->type);
  (void)snprintf(params, sizeof params, "%s %s", l->params, type);
  call one = call_make(s, op, l->params, s->n_in, s->in);
  call two = call_make(s, "nn.activation", type, 1, &one.out);
  call joint = call_make(s, both, params, s->n_in, s->in);
  same_bits(two.out, joint.out, s->what);
  const tn_tensor *t = tn_array_tensor(joint.out);
  tn_array *head = drawn(s->rt, s->dtype, t->ndim, t->shape, 4);
  call_back(s, &two, head, &between);
  call_back(s, &one, between, want);
  call_back(s, &joint, head, got);
  for (size_t i = 0; i < s->n_in; ++i) same_bits(want[i], got[i], s->what);
  for (size_t i = 0; i < s->n_in; ++i)
    tn_array_release(want[i]), tn_array_release(got[i]);
  tn_array_release(head), tn_array_release(between);
  call_end(&one), call_end(&two), call_end(&joint);
}

static void compare_all(tn_runtime *rt) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  for (size_t i = 0; i < N_LAYERS; ++i)
    for (size_t t = 0; t < N_TYPES; ++t)
      for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
        setting s = setting_open(rt, &layers[i], types[t], dtypes[d]);
        compare(&s);
        setting_close(&s);
      }
}

Test(activated, calls_have_the_bits_of_two_calls) {
  tn_runtime *rt = host_open();
  compare_all(rt);
  tn_runtime_release(rt);
}

Test(activated, calls_have_them_with_a_blas_too) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(NULL, &rt));
  OK(tn_plugin_load(rt, OPENBLAS_FILE));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  compare_all(rt);
  tn_runtime_release(rt);
}

/* NaN goes through relu as it does through nn.activation. */
Test(activated, calls_pass_nan_on) {
  tn_runtime *rt = host_open();
  setting s = setting_open(rt, &layers[0], "relu", TN_F32);
  const float odd[] = {NAN, INFINITY, -INFINITY};
  float row[19] = {0};
  memcpy(row, odd, sizeof odd);
  const int64_t shape[] = {1, 19};
  tn_array_release(s.in[0]);
  double wide[19];
  for (int i = 0; i < 19; ++i) wide[i] = (double)row[i];
  s.in[0] = host_many(rt, TN_F32, 2, shape, wide);
  compare(&s);
  setting_close(&s);
  tn_runtime_release(rt);
}

/* ----------------------------------------------------------------- programs */

static tn_program *program_make(const setting *s, const tn_graph *g,
                                uint32_t flags) {
  static const char *const names[] = {"x", "l_weight", "l_bias"};
  tn_argument given[3];
  tn_program *p = NULL;
  for (size_t i = 0; i < s->n_in; ++i)
    given[i] = (tn_argument){.name = names[i], .array = s->in[i]};
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .flags = flags,
                                .request = TN_REQ_WRITE,
                                .arguments = given,
                                .n_arguments = s->n_in},
                     &p));
  return p;
}

static void net(const setting *s, tn_graph **g) {
  char op[80], type[40];
  tn_entry x, l, y;
  (void)snprintf(op, sizeof op, "nn.%s", s->layer->op);
  (void)snprintf(type, sizeof type, "act_type=%s", s->type);
  OK(tn_graph_create(s->rt, g));
  OK(tn_graph_variable(*g, "x", NULL, &x));
  OK(tn_graph_call(*g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = op,
                                    .params = s->layer->params,
                                    .name = "l",
                                    .in = &x,
                                    .n_in = 1},
                   &l));
  OK(tn_graph_call(*g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = "nn.activation",
                                    .params = type,
                                    .name = "y",
                                    .in = &l,
                                    .n_in = 1},
                   &y));
  OK(tn_graph_heads_set(*g, &y, 1));
}

static void same_array(tn_program *a, tn_program *b, uint32_t what,
                       const char *name) {
  tn_array *one = NULL, *two = NULL;
  OK(tn_program_array(a, what, name, &one));
  OK(tn_program_array(b, what, name, &two));
  same_bits(one, two, name);
}

/* Two programs of one layer; the fused pair uses the algorithm of its first
 * operator. */
static void program_compare(const setting *s) {
  static const char *const names[] = {"x", "l_weight", "l_bias"};
  char kernel[80];
  tn_graph *g = NULL;
  tn_text *text = NULL;
  tn_program_stats stats = {.struct_size = sizeof stats};
  net(s, &g);
  tn_program *p[] = {program_make(s, g, TN_BIND_NO_FUSE),
                     program_make(s, g, 0)};
  OK(tn_program_stats_get(p[1], &stats));
  cr_assert_eq(stats.n_forward, 1, "%s", s->what);
  OK(tn_program_text(p[1], 1, &text));
  (void)snprintf(kernel, sizeof kernel, "  l  nn.%s_activation.%s ",
                 s->layer->op, s->layer->kernel);
  if (s->dtype == TN_F32)
    cr_assert_not_null(strstr(tn_text_get(text), kernel), "no %s in %s", kernel,
                       tn_text_get(text));
  tn_text_release(text);
  tn_array *out = NULL;
  OK(tn_program_output(p[0], 0, &out));
  const tn_tensor *t = tn_array_tensor(out);
  tn_array *head = drawn(s->rt, s->dtype, t->ndim, t->shape, 4);
  for (int i = 0; i < 2; ++i) {
    OK(tn_program_forward(p[i], TN_CALL_TRAIN));
    OK(tn_program_backward(p[i], &head, 1));
  }
  same_array(p[0], p[1], TN_PROGRAM_OUTPUT, "y_output");
  for (size_t i = 0; i < s->n_in; ++i)
    same_array(p[0], p[1], TN_PROGRAM_GRADIENT, names[i]);
  tn_program_release(p[0]), tn_program_release(p[1]);
  tn_array_release(head);
  tn_graph_release(g);
}

Test(activated, programs_make_one_step_of_two_calls) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16};
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < N_LAYERS; ++i)
    for (size_t d = 0; d < 2; ++d) {
      setting s = setting_open(rt, &layers[i], types[i % 3], dtypes[d]);
      program_compare(&s);
      setting_close(&s);
    }
  tn_runtime_release(rt);
}

/* -------------------------------------------------------------- batch norm */

/* As two calls, or as one of the operator for both. */
static tn_graph *norm_net(tn_runtime *rt, const char *params, const char *type,
                          bool both) {
  char all[120], act[40];
  tn_graph *g = NULL;
  tn_entry x;
  (void)snprintf(act, sizeof act, "act_type=%s", type);
  (void)snprintf(all, sizeof all, "%s %s", params, act);
  OK(tn_graph_create(rt, &g));
  OK(tn_graph_variable(g, "x", NULL, &x));
  tn_graph_node node = {
      .struct_size = sizeof node,
      .op = both ? "nn.batch_norm_activation" : "nn.batch_norm",
      .params = both ? all : params,
      .name = "l",
      .in = &x,
      .n_in = 1};
  OK(tn_graph_call(g, &node, &x));
  node = (tn_graph_node){.struct_size = sizeof node,
                         .op = "nn.activation",
                         .params = act,
                         .name = "y",
                         .in = &x,
                         .n_in = 1};
  if (!both) OK(tn_graph_call(g, &node, &x));
  OK(tn_graph_heads_set(g, &x, 1));
  return g;
}

static tn_array *named(tn_program *p, uint32_t what, const char *name) {
  tn_array *array = NULL;
  OK(tn_program_array(p, what, name, &array));
  return array;
}

/* Trains twice, so that averages move, and then does without. */
static tn_program *norm_run(tn_runtime *rt, tn_graph *g, tn_array *data,
                            uint32_t flags) {
  const tn_argument given = {.name = "x", .array = data};
  tn_program *p = NULL;
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .flags = flags,
                                .request = TN_REQ_WRITE,
                                .arguments = &given,
                                .n_arguments = 1},
                     &p));
  const tn_tensor *t = tn_array_tensor(data);
  const int64_t n = tn_array_size(named(p, TN_PROGRAM_ARGUMENT, "l_gamma"));
  tn_array *weight = drawn(rt, t->dtype, t->ndim, t->shape, 5);
  tn_array *gamma = drawn(rt, t->dtype, 1, &n, 6);
  OK(tn_array_copy(named(p, TN_PROGRAM_ARGUMENT, "l_gamma"), gamma));
  for (int i = 0; i < 2; ++i) {
    OK(tn_program_forward(p, TN_CALL_TRAIN));
    OK(tn_program_backward(p, &weight, 1));
  }
  tn_array_release(weight), tn_array_release(gamma);
  return p;
}

static void same_norm(tn_program *a, tn_program *b, const char *what) {
  static const char *const slopes[] = {"x", "l_gamma", "l_beta"};
  static const char *const states[] = {"l_moving_mean", "l_moving_var"};
  tn_array *one = NULL, *two = NULL;
  OK(tn_program_output(a, 0, &one));
  OK(tn_program_output(b, 0, &two));
  same_bits(one, two, what);
  for (int i = 0; i < 3; ++i)
    same_bits(named(a, TN_PROGRAM_GRADIENT, slopes[i]),
              named(b, TN_PROGRAM_GRADIENT, slopes[i]), slopes[i]);
  for (int i = 0; i < 2; ++i)
    same_bits(named(a, TN_PROGRAM_AUXILIARY, states[i]),
              named(b, TN_PROGRAM_AUXILIARY, states[i]), states[i]);
}

/* Two calls, joined ones, and a call of the operator for both. */
static void norm_compare(tn_runtime *rt, tn_array *data, const char *params,
                         const char *type) {
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn_graph *two = norm_net(rt, params, type, false);
  tn_graph *one = norm_net(rt, params, type, true);
  tn_program *apart = norm_run(rt, two, data, TN_BIND_NO_FUSE);
  tn_program *joined = norm_run(rt, two, data, 0);
  tn_program *called = norm_run(rt, one, data, 0);
  OK(tn_program_stats_get(joined, &stats));
  cr_assert_eq(stats.n_forward, 1);
  tn_program *all[] = {apart, joined, called};
  same_norm(apart, joined, type);
  same_norm(apart, called, type);
  for (int i = 0; i < 3; ++i) OK(tn_program_forward(all[i], 0));
  same_norm(apart, joined, type);
  same_norm(apart, called, type);
  tn_program_release(apart), tn_program_release(joined);
  tn_program_release(called);
  tn_graph_release(two), tn_graph_release(one);
}

Test(activated, batch_norms_have_the_bits_of_two_calls) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  static const char *const params[] = {"fix_gamma=false", "axis=-1",
                                       "use_global_stats=true"};
  static const int64_t shapes[][4] = {
      {3, 5, 7, 9}, {2, 20, 33, 31}, {3, 0, 2, 2}};
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < 3 * 4 * 3; ++i) {
    tn_array *data = drawn(rt, dtypes[i / 3 % 4], 4, shapes[i / 12], 1);
    norm_compare(rt, data, params[i % 3], types[i % N_TYPES]);
    tn_array_release(data);
  }
  tn_runtime_release(rt);
}

/* A file holds the graph as it was written. */
Test(activated, saved_graphs_stay_as_they_are) {
  tn_runtime *rt = host_open();
  setting s = setting_open(rt, &layers[0], "relu", TN_F32);
  tn_graph *g = NULL;
  tn_text *before = NULL, *after = NULL;
  net(&s, &g);
  OK(tn_graph_json(g, &before));
  tn_program *p = program_make(&s, g, 0);
  OK(tn_graph_json(g, &after));
  cr_assert_str_eq(tn_text_get(before), tn_text_get(after));
  cr_assert_not_null(strstr(tn_text_get(after), "nn.activation@1"));
  tn_text_release(before), tn_text_release(after);
  tn_program_release(p);
  tn_graph_release(g);
  setting_close(&s);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------------ bad input
 */

Test(activated, operands_that_do_not_fit_are_refused) {
  tn_runtime *rt = host_open();
  setting s = setting_open(rt, &layers[0], "relu", TN_F32);
  tn_operator *op = host_operator(rt, "nn.fully_connected_activation");
  tn_params *params = NULL;
  tn_array *out = NULL;
  FAILS(tn_params_parse(op, "num_hidden=3 act_type=gelu", &params), TN_INVALID,
        "act_type");
  FAILS(tn_params_parse(op, "num_hidden=3", &params), TN_INVALID, "act_type");
  params = host_params(op, "num_hidden=33 act_type=relu no_bias=true");
  FAILS(tn_call(rt, op, &(tn_inputs){3, s.in}, params, TN_OUT(&out)), TN_SHAPE,
        "give `bias` or set no_bias=true");
  tn_params_release(params);
  params = host_params(op, "num_hidden=33 act_type=relu");
  tn_array *wrong[] = {s.in[1], s.in[0], s.in[2]};
  FAILS(tn_call(rt, op, &(tn_inputs){3, wrong}, params, TN_OUT(&out)), TN_SHAPE,
        "nn.fully_connected_activation");
  tn_params_release(params);
  setting_close(&s);
  tn_runtime_release(rt);
}
