/* SPDX-License-Identifier: Apache-2.0
 * Gradients of gradients, in graphs, of operators that are linear in groups of
 * their inputs, up to the third order. Each order is compared with differences
 * of the order before, which are exact: it is of first degree in any one
 * element.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

enum { MOST_IN = 3, MOST_OUT = 2, MOST = 2 * (MOST_IN + MOST_OUT) };

typedef struct linear_case {
  const char *op;
  const char *params;
  uint32_t n_in;
  uint32_t moves; /* bits of inputs that are differentiated */
  uint32_t bends; /* of those that gradients of gradients depend on */
  uint32_t n_out;
  host_shape shapes[MOST_IN];
} linear_case;

static const linear_case cases[] = {
    {"nn.fully_connected",
     "num_hidden=3",
     3,
     7,
     3,
     1,
     {{2, {2, 4}}, {2, {3, 4}}, {1, {3}}}},
    {"nn.fully_connected",
     "num_hidden=2 no_bias=true",
     2,
     3,
     3,
     1,
     {{3, {2, 2, 2}}, {2, {2, 4}}}},
    {"nn.convolution",
     "kernel=(2,2) num_filter=2",
     3,
     7,
     3,
     1,
     {{4, {1, 2, 3, 3}}, {4, {2, 2, 2, 2}}, {1, {2}}}},
    {"nn.convolution",
     "kernel=(3,) stride=(2,) dilate=(2,) pad=(2,) num_filter=2 num_group=2 "
     "no_bias=true",
     2,
     3,
     3,
     1,
     {{3, {2, 2, 5}}, {3, {2, 1, 3}}}},
    {"nn.deconvolution",
     "kernel=(2,) stride=(2,) num_filter=2 no_bias=false",
     3,
     7,
     3,
     1,
     {{3, {1, 2, 3}}, {3, {2, 2, 2}}, {1, {2}}}},
    {"nn.affine_grid", "size=(2,2)", 1, 1, 0, 1, {{3, {1, 2, 3}}}},
    {"nn.resize", "sizes=(5,) axes=(1,) mode=cubic", 1, 1, 0, 1, {{2, {2, 3}}}},
    {"nn.resize",
     "sizes=(4,) axes=(1,) mode=linear coordinates=tf_crop_and_resize "
     "roi=(0.25,1.5) extrapolation_value=7",
     1,
     1,
     0,
     1,
     {{2, {2, 3}}}},
    {"nn.max_pool_indices",
     "kernel=(2,2) stride=(1,2)",
     1,
     1,
     0,
     1,
     {{4, {1, 2, 3, 4}}}},
    {"nn.max_pool_indices",
     "kernel=(2,) pad=(3,) stride=(2,)",
     1,
     1,
     0,
     1,
     {{3, {2, 1, 3}}}},
    {"nn.grid_generator", "target_shape=(2,3)", 1, 1, 0, 1, {{2, {2, 6}}}},
    {"nn.grid_generator",
     "transform_type=warp",
     1,
     1,
     0,
     1,
     {{4, {1, 2, 2, 3}}}},
    {"nn.unfold", "kernel=(2,) pad=(1,)", 1, 1, 0, 1, {{3, {1, 1, 4}}}},
    {"nn.fold", "output_size=(4,) kernel=(2,)", 1, 1, 0, 1, {{3, {1, 2, 3}}}},
    {"tensor.dot", NULL, 2, 3, 3, 1, {{2, {2, 3}}, {2, {3, 2}}}},
    {"tensor.dot",
     "transpose_a=true transpose_b=true",
     2,
     3,
     3,
     1,
     {{2, {3, 2}}, {2, {4, 3}}}},
    {"tensor.batch_dot",
     "transpose_b=true",
     2,
     3,
     3,
     1,
     {{3, {2, 2, 3}}, {3, {2, 2, 3}}}},
    {"tensor.sum", "axis=(1,)", 1, 1, 0, 1, {{2, {2, 3}}}},
    {"tensor.mean", "axis=(0,) keepdims=true", 1, 1, 0, 1, {{2, {2, 3}}}},
    {"tensor.broadcast_to", "shape=(3,2)", 1, 1, 0, 1, {{2, {1, 2}}}},
    {"tensor.broadcast_like", NULL, 2, 1, 0, 1, {{2, {1, 2}}, {2, {3, 2}}}},
    {"tensor.concat", "dim=1", 2, 3, 0, 1, {{2, {2, 1}}, {2, {2, 2}}}},
    {"tensor.stack", "axis=1", 2, 3, 0, 1, {{1, {3}}, {1, {3}}}},
    {"tensor.split", "num_outputs=2", 1, 1, 0, 2, {{2, {2, 4}}}},
    {"tensor.where", NULL, 3, 6, 0, 1, {{2, {2, 2}}, {2, {2, 2}}, {2, {2, 2}}}},
    {"tensor.add_n", NULL, 2, 3, 0, 1, {{1, {3}}, {1, {3}}}},
    {"tensor.take", "mode=clip", 2, 1, 0, 1, {{2, {3, 2}}, {1, {4}}}},
    {"tensor.pick", NULL, 2, 1, 0, 1, {{2, {2, 3}}, {1, {2}}}},
    {"tensor.tile", "reps=(2,)", 1, 1, 0, 1, {{1, {3}}}},
    {"tensor.cumsum", "axis=1 exclusive=true", 1, 1, 0, 1, {{2, {2, 3}}}},
    {"tensor.cumsum", "reverse=true", 1, 1, 0, 1, {{2, {3, 2}}}},
    {"tensor.repeat", "repeats=2", 1, 1, 0, 1, {{1, {3}}}},
    {"tensor.reshape", "shape=(-1,)", 1, 1, 0, 1, {{2, {2, 3}}}},
    {"tensor.flatten", NULL, 1, 1, 0, 1, {{3, {2, 2, 2}}}},
    {"tensor.slice", "begin=(1,) end=(3,)", 1, 1, 0, 1, {{1, {4}}}},
    {"tensor.slice_axis", "axis=0 begin=1 end=3", 1, 1, 0, 1, {{1, {4}}}},
    {"nn.embedding",
     "input_dim=3 output_dim=2",
     2,
     2,
     0,
     1,
     {{1, {4}}, {2, {3, 2}}}}};

/* ------------------------------------------------------------------ the net */

/* Variables that are output gradients, or that have requested gradients. */
typedef struct list {
  tn_entry of[MOST];
  uint32_t n;
} list;

typedef struct net {
  const linear_case *c;
  tn_runtime *rt;
  tn_graph *graph;
  tn_program *program;
  tn_argument arguments[4 * MOST];
  tn_entry variables[4 * MOST];
  uint32_t n_arguments;
  bool indices;    /* the next variable is one of indices */
  list slopes[3];  /* by order: gradients */
  list of[3];      /* by order: its target */
  list weights[3]; /* by order: of the heads that are differentiated */
} net;

static void push(list *l, tn_entry entry) {
  l->of[l->n++] = entry;
}

static tn_entry variable(net *n, int32_t ndim, const int64_t *dims) {
  char name[16];
  tn_argument *a = &n->arguments[n->n_arguments];
  int64_t size = 1;
  for (int32_t i = 0; i < ndim; ++i) size *= dims[i];
  (void)snprintf(name, sizeof name, "v%u", n->n_arguments);
  double *values = host_draw(size, n->n_arguments + 1);
  /* 0 or 1, which every axis has */
  for (int64_t i = 0; i < size && n->indices; ++i) values[i] = fabs(values[i]);
  *a = (tn_argument){.name = strdup(name),
                     .array = host_many(n->rt, TN_F64, ndim, dims, values)};
  free(values);
  tn_entry *out = &n->variables[n->n_arguments++];
  const tn_sig known = {.dtype = TN_F64, .ndim = ndim};
  tn_sig sig = known;
  memcpy(sig.shape, dims, (size_t)ndim * sizeof *dims);
  OK(tn_graph_variable(n->graph, name, &sig, out));
  return *out;
}

/* A weight for each of the entries, of its shape. */
static void weigh(net *n, const list *heads, list *out) {
  OK(tn_graph_heads_set(n->graph, heads->of, heads->n));
  OK(tn_graph_infer(n->graph, NULL, 0));
  for (uint32_t i = 0; i < heads->n; ++i) {
    tn_sig sig;
    OK(tn_graph_sig(n->graph, heads->of[i], &sig));
    push(out, variable(n, sig.ndim, sig.shape));
  }
}

/* The next order, of the heads, for the array that of[order] names. */
static void differentiate(net *n, uint32_t order, const list *heads) {
  const tn_gradient_query q = {.heads = heads->of,
                               .weights = n->weights[order].of,
                               .n_heads = heads->n,
                               .of = n->of[order].of,
                               .n_of = n->of[order].n};
  OK(tn_graph_gradient(n->graph, &q, n->slopes[order].of));
  n->slopes[order].n = n->of[order].n;
}

static void build(net *n) {
  const linear_case *c = n->c;
  tn_entry in[MOST_IN];
  list heads = {.n = 0}, all = {.n = 0};
  tn_entry y;
  for (uint32_t i = 0; i < c->n_in; ++i) {
    n->indices = (c->moves >> i & 1) == 0;
    in[i] = variable(n, c->shapes[i].ndim, c->shapes[i].dims);
  }
  n->indices = false;
  OK(tn_graph_call(n->graph,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = c->op,
                                    .params = c->params,
                                    .n_in = c->n_in,
                                    .in = in},
                   &y));
  for (uint32_t i = 0; i < c->n_out; ++i) push(&heads, (tn_entry){y.node, i});
  for (uint32_t i = 0; i < c->n_in; ++i) {
    if (c->moves >> i & 1) push(&n->of[0], in[i]);
    if (c->bends >> i & 1) push(&n->of[1], in[i]), push(&n->of[2], in[i]);
  }
  weigh(n, &heads, &n->weights[0]);
  for (uint32_t i = 0; i < c->n_out; ++i) {
    push(&n->of[1], n->weights[0].of[i]);
    push(&n->of[2], n->weights[0].of[i]);
  }
  differentiate(n, 0, &heads);
  weigh(n, &n->slopes[0], &n->weights[1]);
  differentiate(n, 1, &n->slopes[0]);
  if (c->bends) {
    weigh(n, &n->slopes[1], &n->weights[2]);
    differentiate(n, 2, &n->slopes[1]);
  }
  for (uint32_t order = 0; order < 3; ++order)
    for (uint32_t i = 0; i < n->slopes[order].n; ++i)
      push(&all, n->slopes[order].of[i]);
  push(&all, y); /* which reads all inputs, as gradients may not */
  OK(tn_graph_heads_set(n->graph, all.of, all.n));
}

/* ------------------------------------------------------------------ compare */

static tn_array *array_of(const net *n, tn_entry variable_) {
  uint32_t i = 0;
  while (n->variables[i].node != variable_.node) ++i;
  return n->arguments[i].array;
}

static double *output(const net *n, uint32_t order, uint32_t i) {
  tn_array *array = NULL;
  for (uint32_t k = 0; k < order; ++k) i += n->slopes[k].n;
  OK(tn_program_output(n->program, i, &array));
  return host_many_values(array);
}

/* The weighted sum of the gradients of an order. */
static double total(const net *n, uint32_t order) {
  double sum = 0;
  OK(tn_program_forward(n->program, 0));
  for (uint32_t i = 0; i < n->slopes[order].n; ++i) {
    tn_array *weight = array_of(n, n->weights[order + 1].of[i]);
    double *w = host_many_values(weight), *v = output(n, order, i);
    for (int64_t k = 0; k < tn_array_size(weight); ++k) sum += w[k] * v[k];
    free(w), free(v);
  }
  return sum;
}

static double total_at(const net *n, uint32_t order, tn_array *x, int64_t at,
                       double step) {
  double *values = host_many_values(x);
  const size_t bytes = (size_t)tn_array_size(x) * sizeof *values;
  values[at] += step;
  OK(tn_array_set(x, values, bytes));
  const double sum = total(n, order);
  values[at] -= step;
  OK(tn_array_set(x, values, bytes));
  free(values);
  return sum;
}

static void compare(const net *n, uint32_t order) {
  for (uint32_t i = 0; i < n->slopes[order].n; ++i) {
    tn_array *x = array_of(n, n->of[order].of[i]);
    OK(tn_program_forward(n->program, 0));
    double *slope = output(n, order, i);
    for (int64_t at = 0; at < tn_array_size(x); ++at) {
      const double want = (total_at(n, order - 1, x, at, 1) -
                           total_at(n, order - 1, x, at, -1)) /
                          2;
      cr_assert(fabs(slope[at] - want) <= 1e-9 * fmax(1, fabs(want)),
                "%s, order %u, of %u, element %lld: %g, not %g", n->c->op,
                order + 1, i, (long long)at, slope[at], want);
    }
    free(slope);
  }
}

static void check(tn_runtime *rt, const linear_case *c) {
  net n = {.c = c, .rt = rt};
  OK(tn_graph_create(rt, &n.graph));
  build(&n);
  const tn_bind bind = {.struct_size = sizeof bind,
                        .arguments = n.arguments,
                        .n_arguments = n.n_arguments};
  OK(tn_program_bind(n.graph, &bind, &n.program));
  compare(&n, 1);
  if (c->bends) compare(&n, 2);
  tn_program_release(n.program);
  tn_graph_release(n.graph);
  for (uint32_t i = 0; i < n.n_arguments; ++i) {
    tn_array_release(n.arguments[i].array);
    free((char *)(uintptr_t)n.arguments[i].name);
  }
}

Test(linear, gradients_have_gradients_in_graphs) {
  tn_runtime *rt = host_open();
  OK(tn_plugin_load(rt, PLUGIN_OTHER));
  OK(tn_plugin_load(rt, ELEMWISE_FILE));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    check(rt, &cases[i]);
  tn_runtime_release(rt);
}

/* dot's gradient of lhs read rhs; so does that gradient's own. */
Test(linear, arrays_written_since_are_named) {
  const int64_t dims[] = {2, 2};
  double *values = host_draw(4, 1);
  tn_runtime *rt = host_open();
  OK(tn_plugin_load(rt, PLUGIN_OTHER));
  tn_array *in[2], *y = NULL, *weight, *first = NULL, *second = NULL;
  tn_tape *tape = NULL;
  for (int i = 0; i < 2; ++i) in[i] = host_many(rt, TN_F64, 2, dims, values);
  weight = host_many(rt, TN_F64, 2, dims, values);
  OK(tn_tape_create(rt, &tape));
  for (int i = 0; i < 2; ++i) OK(tn_tape_watch(tape, in[i]));
  OK(tn_tape_watch(tape, weight));
  OK(tn_tape_call(tape, host_operator(rt, "tensor.dot"), &(tn_inputs){2, in},
                  NULL, &(tn_outputs){1, &y, NULL}));
  tn_tape_query q = {.struct_size = sizeof q,
                     .flags = TN_TAPE_RECORD | TN_TAPE_KEEP,
                     .heads = {1, &y},
                     .head_gradients = {1, &weight},
                     .of = {1, in},
                     .gradients = {1, &first, NULL}};
  OK(tn_tape_gradient(tape, &q));
  OK(tn_array_set(in[1], values, 4 * sizeof *values));
  q = (tn_tape_query){.struct_size = sizeof q,
                      .heads = {1, &first},
                      .of = {1, &weight},
                      .gradients = {1, &second, NULL}};
  FAILS(tn_tape_gradient(tape, &q), TN_INVALID, "the value of input `rhs`");
  tn_tape_release(tape);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(weight);
  tn_array_release(y), tn_array_release(first);
  free(values);
  tn_runtime_release(rt);
}
