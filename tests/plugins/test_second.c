/* SPDX-License-Identifier: Apache-2.0
 * Gradients of gradients of operators that are not linear: those of graphs are
 * those of tapes, which the tests of the manifests compare with difference
 * quotients, and so are those of another device (SECOND_PLACE, with the plugins
 * of SECOND_FILES). Some are closed forms.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

enum { MOST_IN = 3, MOST = 2 * MOST_IN };

typedef struct second_case {
  const char *op;
  const char *params;
  uint32_t n_in;
  uint32_t moves; /* bits of inputs that are differentiated */
  uint32_t n_aux;
  bool trains;
  host_shape shapes[MOST_IN];
} second_case;

static const second_case cases[] = {
    {"nn.softmax", "axis=1 temperature=0.5", 1, 1, 0, 0, {{3, {2, 3, 2}}}},
    {"nn.log_softmax", "temperature=2", 1, 1, 0, 0, {{2, {2, 4}}}},
    {"nn.softmax_cross_entropy", "", 2, 1, 0, 0, {{2, {3, 4}}, {1, {3}}}},
    {"nn.softmax_output",
     "multi_output=true normalization=valid smooth_alpha=0.1",
     2,
     1,
     0,
     0,
     {{3, {2, 3, 2}}, {2, {2, 2}}}},
    {"nn.softmax_output",
     "out_grad=true use_ignore=true ignore_label=1",
     2,
     1,
     0,
     0,
     {{2, {3, 4}}, {1, {3}}}},
    {"nn.layer_norm", "", 3, 7, 0, 0, {{2, {3, 4}}, {1, {4}}, {1, {4}}}},
    {"nn.layer_norm",
     "axis=1 eps=0.1",
     3,
     7,
     0,
     0,
     {{3, {2, 3, 2}}, {1, {3}}, {1, {3}}}},
    {"nn.batch_norm",
     "fix_gamma=false",
     3,
     7,
     2,
     1,
     {{3, {3, 2, 3}}, {1, {2}}, {1, {2}}}},
    {"nn.batch_norm",
     "fix_gamma=false",
     3,
     7,
     2,
     0,
     {{3, {3, 2, 3}}, {1, {2}}, {1, {2}}}},
    {"nn.batch_norm", "axis=-1", 3, 7, 2, 1, {{2, {5, 2}}, {1, {2}}, {1, {2}}}},
    {"nn.batch_norm_activation",
     "act_type=relu fix_gamma=false",
     3,
     7,
     2,
     1,
     {{3, {3, 2, 3}}, {1, {2}}, {1, {2}}}},
    {"nn.rms_norm", "", 2, 3, 0, 0, {{2, {3, 4}}, {1, {4}}}},
    {"nn.rms_norm", "axis=1 eps=0.1", 2, 3, 0, 0, {{3, {2, 3, 2}}, {1, {3}}}},
    {"nn.l2_normalization", "eps=0.1", 1, 1, 0, 0, {{3, {2, 3, 2}}}},
    {"nn.l2_normalization", "mode=channel", 1, 1, 0, 0, {{3, {2, 3, 2}}}},
    {"nn.l2_normalization", "mode=spatial", 1, 1, 0, 0, {{3, {2, 2, 3}}}},
    {"nn.lrn",
     "nsize=3 alpha=2 beta=0.5 knorm=1",
     1,
     1,
     0,
     0,
     {{3, {2, 4, 2}}}},
    {"nn.lrn", "nsize=5", 1, 1, 0, 0, {{2, {2, 3}}}},
    {"nn.softmax_activation", "", 1, 1, 0, 0, {{3, {2, 3, 2}}}},
    {"nn.softmax_activation", "mode=channel", 1, 1, 0, 0, {{3, {2, 3, 2}}}},
    {"nn.pooling",
     "kernel=(2,2) pool_type=max",
     1,
     1,
     0,
     0,
     {{4, {1, 2, 3, 4}}}},
    {"nn.pooling",
     "kernel=(3,) pool_type=avg pad=(1,)",
     1,
     1,
     0,
     0,
     {{3, {1, 2, 5}}}},
    {"nn.pooling",
     "kernel=(2,) pool_type=max dilate=(2,)",
     1,
     1,
     0,
     0,
     {{3, {1, 2, 5}}}},
    {"nn.pooling",
     "kernel=(3,) pool_type=avg pad=(2,) dilate=(2,) count_include_pad=false",
     1,
     1,
     0,
     0,
     {{3, {1, 2, 5}}}},
    {"nn.leaky_relu", "act_type=elu slope=0.5", 1, 1, 0, 0, {{2, {3, 4}}}},
    {"nn.leaky_relu", "act_type=selu", 1, 1, 0, 0, {{2, {3, 4}}}},
    {"nn.leaky_relu", "act_type=prelu", 2, 3, 0, 0, {{2, {3, 4}}, {1, {4}}}},
    {"nn.leaky_relu", "act_type=prelu", 2, 3, 0, 0, {{2, {3, 4}}, {1, {1}}}},
    {"nn.leaky_relu", "act_type=rrelu", 1, 1, 0, 0, {{2, {3, 4}}}},
    {"tensor.max", "axis=(1,)", 1, 1, 0, 0, {{2, {3, 4}}}},
    {"tensor.min", "", 1, 1, 0, 0, {{2, {3, 4}}}},
    {"tensor.prod", "axis=(0,) keepdims=true", 1, 1, 0, 0, {{2, {3, 4}}}},
    {"tensor.nanprod", "", 1, 1, 0, 0, {{2, {2, 3}}}},
    {"tensor.nansum", "axis=(1,)", 1, 1, 0, 0, {{2, {2, 3}}}},
    {"tensor.norm", "axis=(1,)", 1, 1, 0, 0, {{2, {2, 3}}}},
    {"tensor.norm", "ord=1", 1, 1, 0, 0, {{2, {2, 3}}}},
    {"tensor.logsumexp", "axis=(1,)", 1, 1, 0, 0, {{2, {3, 4}}}},
    {"tensor.cumprod", "axis=1", 1, 1, 0, 0, {{2, {3, 4}}}},
    {"tensor.cumprod",
     "exclusive=true reverse=true",
     1,
     1,
     0,
     0,
     {{3, {4, 2, 2}}}},
    {"tensor.einsum", "equation=iij->j", 1, 1, 0, 0, {{3, {2, 2, 3}}}},
    {"tensor.einsum",
     "equation=bij,bkj->kib",
     2,
     3,
     0,
     0,
     {{3, {2, 3, 2}}, {3, {2, 2, 2}}}}};

/* Layers that have no gradient on CUDA devices. */
static const second_case layers[] = {
    {"nn.fully_connected_activation",
     "num_hidden=3 act_type=tanh",
     3,
     7,
     0,
     0,
     {{2, {2, 4}}, {2, {3, 4}}, {1, {3}}}},
    {"nn.fully_connected_activation",
     "num_hidden=3 act_type=softsign no_bias=true flatten=false",
     2,
     3,
     0,
     0,
     {{3, {2, 2, 4}}, {2, {3, 4}}}},
    {"nn.convolution_activation",
     "kernel=(2,2) num_filter=2 act_type=sigmoid",
     3,
     7,
     0,
     0,
     {{4, {1, 2, 3, 3}}, {4, {2, 2, 2, 2}}, {1, {2}}}},
    {"nn.convolution_activation",
     "kernel=(3,) stride=(2,) pad=(1,) num_filter=2 num_group=2 no_bias=true "
     "act_type=softrelu",
     2,
     3,
     0,
     0,
     {{3, {2, 2, 5}}, {3, {2, 1, 3}}}},
    {"nn.batch_norm_activation",
     "act_type=tanh",
     3,
     7,
     2,
     1,
     {{2, {4, 2}}, {1, {2}}, {1, {2}}}}};

/* -------------------------------------------------------------------- values
 */

static tn_runtime *rt;

/* Numbers from -1 to 1, or labels of three classes. They are all different, so
 * that none is the largest by chance. */
static double *values_of(const host_shape *s, uint64_t seed, bool are_labels) {
  const int64_t n = host_count(s);
  double *v = host_draw(n, seed);
  for (int64_t i = 0; i < n; ++i)
    v[i] = are_labels ? (double)(i % 3) : v[i] + (double)(i * i % 31) * 0x1p-9;
  return v;
}

static tn_array *array_at(const host_shape *s, const double *values,
                          const char *place) {
  tn_place at;
  tn_array *far = NULL;
  tn_array *near = host_many(rt, TN_F64, s->ndim, s->dims, values);
  if (place == NULL) return near;
  OK(tn_place_parse(rt, place, &at));
  OK(tn_array_to(near, at, &far));
  tn_array_release(near);
  return far;
}

static bool moves(const second_case *c, uint32_t i) {
  return (c->moves >> i & 1) != 0;
}

/* -------------------------------------------------------------------- tapes */

/* Results: second gradients of the moving inputs, then of the weights of
 * the head. */
typedef struct results {
  double *v[MOST_IN + 1];
  int64_t n[MOST_IN + 1];
  uint32_t n_of;
} results;

static void results_free(results *r) {
  for (uint32_t i = 0; i < r->n_of; ++i) free(r->v[i]);
}

static host_shape shape_of(const tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  host_shape s = {.ndim = t->ndim};
  if (t->ndim > 0) memcpy(s.dims, t->shape, (size_t)t->ndim * sizeof *t->shape);
  return s;
}

static tn_array *draw_like(tn_array *like, uint64_t seed, const char *place) {
  const host_shape s = shape_of(like);
  double *v = values_of(&s, seed, false);
  tn_array *array = array_at(&s, v, place);
  free(v);
  return array;
}

/* Every array that it makes is in `all`. */
static uint32_t inputs_of(const second_case *c, const char *place,
                          tn_array **all) {
  const host_shape channel = {1, {2}};
  for (uint32_t i = 0; i < c->n_in + c->n_aux; ++i) {
    const host_shape *s = i < c->n_in ? &c->shapes[i] : &channel;
    double *v = values_of(s, i + 1, i < c->n_in && !moves(c, i));
    for (int64_t k = 0; i >= c->n_in && k < 2; ++k)
      v[k] = i == c->n_in ? 0 : 1; /* as states begin */
    all[i] = array_at(s, v, place);
    free(v);
  }
  return c->n_in + c->n_aux;
}

static void by_tape(const second_case *c, const char *place, results *r) {
  tn_array *in[MOST] = {NULL}, *out[3] = {NULL}, *of[MOST_IN + 1];
  tn_array *first[MOST_IN] = {NULL}, *weights[MOST_IN];
  tn_array *second[MOST_IN + 1] = {NULL};
  tn_tape *tape = NULL;
  uint32_t n_out = 0, n = 0;
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  const uint32_t n_in = inputs_of(c, place, in);
  OK(tn_tape_create(rt, &tape));
  for (uint32_t i = 0; i < c->n_in; ++i) {
    if (!moves(c, i)) continue;
    OK(tn_tape_watch(tape, in[i]));
    of[n++] = in[i];
  }
  OK(tn_operator_outputs(op, params, c->n_in, &n_out, NULL));
  OK((c->trains ? tn_tape_call_train : tn_tape_call)(
      tape, op, &(tn_inputs){n_in, in}, params,
      &(tn_outputs){n_out, out, NULL}));
  tn_array *weight = draw_like(out[0], 7, place);
  OK(tn_tape_watch(tape, weight));
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .flags = TN_TAPE_RECORD,
                                       .heads = {1, out},
                                       .head_gradients = {1, &weight},
                                       .of = {n, of},
                                       .gradients = {n, first, NULL}}));
  for (uint32_t i = 0; i < n; ++i)
    weights[i] = draw_like(first[i], 20 + i, place);
  of[n] = weight;
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = {n, first},
                                       .head_gradients = {n, weights},
                                       .of = {n + 1, of},
                                       .gradients = {n + 1, second, NULL}}));
  r->n_of = n + 1;
  for (uint32_t i = 0; i <= n; ++i) {
    r->n[i] = tn_array_size(second[i]);
    r->v[i] = host_near_values(second[i]);
    tn_array_release(second[i]);
    if (i == n) continue;
    tn_array_release(first[i]);
    tn_array_release(weights[i]);
  }
  tn_tape_release(tape);
  tn_array_release(weight);
  for (uint32_t i = 0; i < n_in; ++i) tn_array_release(in[i]);
  for (uint32_t i = 0; i < n_out; ++i) tn_array_release(out[i]);
  tn_params_release(params);
}

/* ------------------------------------------------------------------- graphs */

typedef struct net {
  tn_graph *graph;
  tn_argument arguments[2 * MOST];
  tn_entry variables[2 * MOST];
  uint32_t n;
} net;

static tn_entry variable(net *n, const host_shape *s, uint64_t seed,
                         bool are_labels) {
  char name[16];
  tn_entry entry;
  tn_sig sig = {.dtype = TN_F64, .ndim = s->ndim};
  memcpy(sig.shape, s->dims, (size_t)s->ndim * sizeof *s->dims);
  (void)snprintf(name, sizeof name, "v%u", n->n);
  double *v = values_of(s, seed, are_labels);
  n->arguments[n->n] =
      (tn_argument){.name = strdup(name), .array = array_at(s, v, NULL)};
  free(v);
  OK(tn_graph_variable(n->graph, name, &sig, &entry));
  return n->variables[n->n++] = entry;
}

/* A variable of the shape of an entry. */
static tn_entry weigh(net *n, tn_entry entry, uint64_t seed) {
  tn_sig sig;
  host_shape s = {0};
  OK(tn_graph_heads_set(n->graph, &entry, 1));
  OK(tn_graph_infer(n->graph, NULL, 0));
  OK(tn_graph_sig(n->graph, entry, &sig));
  s.ndim = sig.ndim;
  memcpy(s.dims, sig.shape, (size_t)sig.ndim * sizeof *s.dims);
  return variable(n, &s, seed, false);
}

/* The second gradients; the variables are heads as well, as some of them are
 * read by no gradient. */
static uint32_t build(net *n, const second_case *c, tn_entry *heads) {
  tn_entry in[MOST_IN], of[MOST_IN + 1], first[MOST_IN], weights[MOST_IN], y;
  uint32_t n_of = 0;
  for (uint32_t i = 0; i < c->n_in; ++i) {
    in[i] = variable(n, &c->shapes[i], i + 1, !moves(c, i));
    if (moves(c, i)) of[n_of++] = in[i];
  }
  OK(tn_graph_call(n->graph,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = c->op,
                                    .params = c->params,
                                    .n_in = c->n_in,
                                    .in = in},
                   &y));
  tn_entry weight = weigh(n, y, 7);
  OK(tn_graph_gradient(n->graph,
                       &(tn_gradient_query){.heads = &y,
                                            .weights = &weight,
                                            .n_heads = 1,
                                            .of = of,
                                            .n_of = n_of},
                       first));
  for (uint32_t i = 0; i < n_of; ++i) weights[i] = weigh(n, first[i], 20 + i);
  of[n_of] = weight;
  OK(tn_graph_gradient(n->graph,
                       &(tn_gradient_query){.heads = first,
                                            .weights = weights,
                                            .n_heads = n_of,
                                            .of = of,
                                            .n_of = n_of + 1},
                       heads));
  memcpy(heads + n_of + 1, n->variables, n->n * sizeof *heads);
  OK(tn_graph_heads_set(n->graph, heads, n_of + 1 + n->n));
  return n_of + 1;
}

static void by_graph(const second_case *c, results *r) {
  net n = {.n = 0};
  tn_entry heads[MOST_IN + 1 + 2 * MOST];
  tn_program *program = NULL;
  tn_array *array = NULL;
  OK(tn_graph_create(rt, &n.graph));
  r->n_of = build(&n, c, heads);
  OK(tn_program_bind(n.graph,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .arguments = n.arguments,
                                .n_arguments = n.n},
                     &program));
  OK(tn_program_forward(program, c->trains ? TN_CALL_TRAIN : 0));
  for (uint32_t i = 0; i < r->n_of; ++i) {
    OK(tn_program_output(program, i, &array));
    r->n[i] = tn_array_size(array);
    r->v[i] = host_many_values(array);
  }
  tn_program_release(program);
  tn_graph_release(n.graph);
  for (uint32_t i = 0; i < n.n; ++i) {
    tn_array_release(n.arguments[i].array);
    free((char *)(uintptr_t)n.arguments[i].name);
  }
}

/* ------------------------------------------------------------------ compare */

static void compare(const second_case *c, const results *have,
                    const results *want) {
  cr_assert_eq(have->n_of, want->n_of);
  for (uint32_t i = 0; i < want->n_of; ++i) {
    cr_assert_eq(have->n[i], want->n[i]);
    for (int64_t k = 0; k < want->n[i]; ++k)
      cr_assert(fabs(have->v[i][k] - want->v[i][k]) <=
                    1e-9 * fmax(1, fabs(want->v[i][k])),
                "%s %s, gradient %u, element %lld: %.12g, not %.12g", c->op,
                c->params, i, (long long)k, have->v[i][k], want->v[i][k]);
  }
}

static void check_graph(const second_case *c) {
  results graph, tape;
  by_graph(c, &graph);
  by_tape(c, NULL, &tape);
  compare(c, &graph, &tape);
  results_free(&graph);
  results_free(&tape);
}

static void open_all(void) {
  rt = host_open();
  OK(tn_plugin_load(rt, PLUGIN_OTHER));
  OK(tn_plugin_load(rt, ELEMWISE_FILE));
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(second, .init = open_all, .fini = close_all);

Test(second, gradients_of_graphs_are_those_of_tapes) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    check_graph(&cases[i]);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i)
    check_graph(&layers[i]);
}

Test(second, gradients_of_another_device_are_those_of_the_cpu) {
  const char *place = getenv("SECOND_PLACE"), *files = getenv("SECOND_FILES");
  if (place == NULL || files == NULL)
    cr_skip_test("SECOND_PLACE and SECOND_FILES name no device");
  host_load_all(rt, files);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    results here, there;
    if (strstr(cases[i].params, "rrelu")) continue; /* drawn */
    by_tape(&cases[i], NULL, &here);
    by_tape(&cases[i], place, &there);
    compare(&cases[i], &there, &here);
    results_free(&here);
    results_free(&there);
  }
}

/* Products that f64 does not hold, as in test_reduce.c. */
static void check_far(const char *op, const char *place) {
  static const double x[] = {1e200, 1e200, 1e-200, 3, INFINITY, 2,
                             3,     4,     2,      3, 4,        5};
  static const double want[] = {
      6, 6, INFINITY, 2e200, 48, INFINITY, INFINITY, INFINITY, 120, 80, 60, 48};
  const host_shape shape = {2, {3, 4}}, line = {1, {3}};
  const double two[] = {2, 2, 2};
  tn_array *data = array_at(&shape, x, place), *slope = NULL;
  tn_array *head = array_at(&line, two, place);
  tn_operator *prod = host_operator(rt, op);
  tn_params *params = host_params(prod, "axis=(1,)");
  const tn_backward back = {.struct_size = sizeof back,
                            .params = params,
                            .inputs = {1, &data},
                            .outputs = {1, &head},
                            .out_grads = {1, &head},
                            .in_grads = {1, &slope, (tn_req[]){TN_REQ_WRITE}}};
  OK(tn_call_backward(rt, prod, &back));
  double *have = host_near_values(slope);
  for (int i = 0; i < 12; ++i)
    cr_assert(
        have[i] == want[i] || fabs(have[i] - want[i]) <= 1e-14 * fabs(want[i]),
        "%s, element %d: %g, not %g", op, i, have[i], want[i]);
  tn_array_release(data), tn_array_release(head), tn_array_release(slope);
  free(have);
  tn_params_release(params);
}

Test(second, products_of_the_others_are_within_reach_of_a_device) {
  const char *place = getenv("SECOND_PLACE"), *files = getenv("SECOND_FILES");
  if (place != NULL && files != NULL) host_load_all(rt, files);
  check_far("tensor.prod", files == NULL ? NULL : place);
  check_far("tensor.nanprod", files == NULL ? NULL : place);
}

/* ------------------------------------------------------------- closed forms */

/* Losses whose gradients do not read that of the output, and the derivative of
 * the gradient of an element by that element. */
typedef struct loss_case {
  second_case call;
  double (*slope)(double x);
} loss_case;

static double half(double x) {
  (void)x;
  return 0.5; /* grad_scale 2, four elements of an example */
}

static double none(double x) {
  (void)x;
  return 0;
}

static double half_bell(double x) {
  const double p = 1 / (1 + exp(-x));
  return 0.5 * p * (1 - p);
}

static const loss_case losses[] = {
    {{"nn.linear_regression_output",
      "grad_scale=2",
      2,
      1,
      0,
      0,
      {{2, {3, 4}}, {2, {3, 4}}}},
     half},
    {{"nn.mae_regression_output", "", 2, 1, 0, 0, {{2, {3, 4}}, {2, {3, 4}}}},
     none},
    {{"nn.logistic_regression_output",
      "grad_scale=2",
      2,
      1,
      0,
      0,
      {{2, {3, 4}}, {2, {3, 4}}}},
     half_bell},
    {{"nn.make_loss", "normalization=valid", 1, 1, 0, 0, {{2, {3, 4}}}}, none}};

static void check_loss(const loss_case *c, const char *place) {
  const host_shape *shape = &c->call.shapes[0];
  double *x = values_of(shape, 1, false), *w = values_of(shape, 20, false);
  results have;
  by_tape(&c->call, place, &have);
  cr_assert_eq(have.n[0], host_count(shape));
  for (int64_t i = 0; i < have.n[0]; ++i) {
    const double want = w[i] * c->slope(x[i]);
    cr_assert(fabs(have.v[0][i] - want) <= 1e-12, "%s: %.12g, not %.12g",
              c->call.op, have.v[0][i], want);
    cr_assert(fabs(have.v[1][i]) <= 0, "%s", c->call.op);
  }
  results_free(&have);
  free(x), free(w);
}

Test(second, those_of_losses_are_closed_forms) {
  const char *place = getenv("SECOND_PLACE"), *files = getenv("SECOND_FILES");
  if (place != NULL && files != NULL) host_load_all(rt, files);
  for (size_t i = 0; i < sizeof losses / sizeof *losses; ++i)
    check_loss(&losses[i], files == NULL ? NULL : place);
}

/* Of p = softmax(x) and the gradient p - e of the loss, the sum with weights w
 * has the gradient p_i (w_i - sum of p w). */
Test(second, that_of_a_loss_goes_through_its_softmax) {
  const double x[3] = {0.5, -1, 2}, w[3] = {1, -2, 3}, label = 1;
  double p[3], sum = 0, dot = 0, want[3];
  tn_array *in[2], *out = NULL, *first = NULL, *second = NULL;
  tn_tape *tape = NULL;
  for (int i = 0; i < 3; ++i) sum += exp(x[i]);
  for (int i = 0; i < 3; ++i) dot += w[i] * (p[i] = exp(x[i]) / sum);
  for (int i = 0; i < 3; ++i) want[i] = p[i] * (w[i] - dot);
  in[0] = host_many(rt, TN_F64, 2, (const int64_t[]){1, 3}, x);
  in[1] = host_many(rt, TN_F64, 1, (const int64_t[]){1}, &label);
  tn_array *weights = host_many(rt, TN_F64, 2, (const int64_t[]){1, 3}, w);
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, in[0]));
  OK(tn_tape_call(tape, host_operator(rt, "nn.softmax_output"),
                  &(tn_inputs){2, in}, NULL, &(tn_outputs){1, &out, NULL}));
  tn_tape_query q = {.struct_size = sizeof q,
                     .flags = TN_TAPE_RECORD,
                     .heads = {1, &out},
                     .of = {1, in},
                     .gradients = {1, &first, NULL}};
  OK(tn_tape_gradient(tape, &q));
  q = (tn_tape_query){.struct_size = sizeof q,
                      .heads = {1, &first},
                      .head_gradients = {1, &weights},
                      .of = {1, in},
                      .gradients = {1, &second, NULL}};
  OK(tn_tape_gradient(tape, &q));
  host_expect(second, want, 3, 1e-12);
  tn_tape_release(tape);
  tn_array *all[] = {in[0], in[1], weights, out, first, second};
  for (int i = 0; i < 6; ++i) tn_array_release(all[i]);
}
