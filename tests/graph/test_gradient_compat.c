/* SPDX-License-Identifier: Apache-2.0
 * The gradient pass with MXNet's options, on operators without kernels that
 * have the tables of release 0.12. Published nets become graphs, are
 * differentiated, and go to the planner. It must find the published memory, and
 * the memory of the same nets as numbers (nets.h).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat/compat.h"
#include "fixture.h"
#include "gradient.h"
#include "nets.h"

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())

static void open_all(void) {
  world_open();
  OK(tn__plugin_load(w.registry, OLD_FILE));
}

TestSuite(gradient_compat, .init = open_all, .fini = world_close);

/* A net and its graph. */
typedef struct twins {
  net_graph *net;
  tn_graph *graph;
  uint32_t *of_net;   /* by node of the net: node of the graph */
  uint32_t *of_graph; /* by node of the graph: node of the net */
} twins;

/* ------------------------------------------------------------ net to graph */

static const char *op_name(const net_graph *n, net_op op) {
  static const char *const all[] = {[NET_CONV] = "conv",
                                    [NET_BN] = "bn",
                                    [NET_ACT] = "act",
                                    [NET_LEAKY] = "leaky",
                                    [NET_POOL] = "pool",
                                    [NET_LRN] = "lrn",
                                    [NET_DROPOUT] = "dropout",
                                    [NET_FLATTEN] = "flatten",
                                    [NET_FC] = "fc",
                                    [NET_CONCAT] = "concat",
                                    [NET_SLICE] = "slice",
                                    [NET_ADD] = "add",
                                    [NET_MUL] = "mul",
                                    [NET_BLOCK_GRAD] = "block_grad",
                                    [NET_SOFTMAX_OUTPUT] = "softmax_output",
                                    [NET_SOFTMAX_LOSS] = "softmax_loss"};
  return op == NET_ACT && n->cudnn ? "act_cudnn" : all[op];
}

static tn_entry entry_of(const twins *t, net_ref ref) {
  return (tn_entry){t->of_net[ref.node], ref.out};
}

static void add_call(twins *t, uint32_t k) {
  const net_node *node = &t->net->nodes[k];
  char name[64];
  tn_entry in[32];
  tn__node *made = NULL;
  (void)snprintf(name, sizeof name, "old.%s", op_name(t->net, node->op));
  cr_assert_leq(node->n_in, 32);
  for (uint32_t i = 0; i < node->n_in; ++i) in[i] = entry_of(t, node->in[i]);
  const tn__node_spec spec = {.kind = TN__NODE_CALL,
                              .n_in = node->n_args,
                              .n_aux = node->n_in - node->n_args,
                              .n_out = node->n_out,
                              .of = TN_NONE,
                              .stem = "n",
                              .in = in,
                              .op = op_get(name)};
  OK(tn__node_add(t->graph, &spec, &made));
  t->of_net[k] = made->id;
}

static void add_variable(twins *t, uint32_t k) {
  char name[32];
  tn_entry entry;
  (void)snprintf(name, sizeof name, "v%u", k);
  OK(tn__graph_variable(t->graph, name, NULL, &entry));
  t->of_net[k] = entry.node;
}

static void graph_make(twins *t, net_graph *net) {
  *t = (twins){.net = net};
  t->of_net = calloc(net->n_nodes, sizeof *t->of_net);
  OK(tn__graph_create(&w.caller, &t->graph));
  for (uint32_t k = 0; k < net->n_nodes; ++k)
    if (net->nodes[k].op == NET_VAR)
      add_variable(t, k);
    else
      add_call(t, k);
}

/* ----------------------------------------------------------------- gradient */

/* Arguments in the order in which the heads reach them. */
static uint32_t list_arguments(const twins *t, const tn_entry *heads,
                               tn_entry *of) {
  tn__order order;
  uint32_t n = 0;
  OK(tn__order_make(t->graph, heads, t->net->n_heads, &order));
  for (uint32_t i = 0; i < order.n; ++i) {
    const tn__node *node = tn__node_at(t->graph, order.ids[i]);
    if (node->kind == TN__NODE_VARIABLE && !(node->flags & TN__NODE_STATE))
      of[n++] = (tn_entry){node->id, 0};
  }
  tn__free(t->graph->env, order.ids);
  return n;
}

/* Stores the arguments and their gradients; returns their number. */
static uint32_t add_gradients(twins *t, tn_entry *of, tn_entry *slopes) {
  const uint32_t n = t->net->n_heads;
  tn_entry *heads = calloc(n, sizeof *heads);
  tn_entry *weights = calloc(n, sizeof *weights);
  for (uint32_t h = 0; h < n; ++h) {
    char name[32];
    (void)snprintf(name, sizeof name, "head%u", h);
    heads[h] = entry_of(t, t->net->heads[h]);
    OK(tn__graph_variable(t->graph, name, NULL, &weights[h]));
  }
  const uint32_t n_of = list_arguments(t, heads, of);
  const tn__gradient_spec spec = {.query = {.heads = heads,
                                            .weights = weights,
                                            .of = of,
                                            .n_heads = n,
                                            .n_of = n_of},
                                  .flags = TN__GRADIENT_COMPAT};
  OK(tn__graph_gradient(t->graph, &spec, slopes));
  free(heads);
  free(weights);
  return n_of;
}

/* ------------------------------------------------------------- graph to net */

static net_op added_op(const tn_graph *graph, const tn__node *node) {
  switch (node->kind) {
    case TN__NODE_VARIABLE:
      return NET_VAR;
    case TN__NODE_BACKWARD:
      return NET_BACKWARD;
    case TN__NODE_SUM:
      return strncmp(node->name, "grad_add", 8) == 0 ? NET_GRAD_ADD : NET_SUM;
    case TN__NODE_COPY:
      return tn__node_at(graph, node->in[0].node)->kind == TN__NODE_VARIABLE
                 ? NET_HEAD_GRAD
                 : NET_COPY;
    default:
      cr_assert_fail("node %s is of kind %u", node->name, node->kind);
      return NET_VAR;
  }
}

static net_ref ref_of(const twins *t, tn_entry entry) {
  return (net_ref){t->of_graph[entry.node], entry.index};
}

/* The inputs of a node; for a backward node also the states of its forward
 * node. */
static uint32_t added_inputs(const twins *t, const tn__node *node,
                             net_ref *in) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (!tn__entry_is_none(node->in[i])) in[n++] = ref_of(t, node->in[i]);
  if (node->kind != TN__NODE_BACKWARD) return n;
  const tn__node *of = tn__node_at(t->graph, node->of);
  for (uint32_t i = 0; i < of->n_aux; ++i)
    in[n++] = ref_of(t, of->in[of->n_in + i]);
  return n;
}

/* Gradients have the shapes of their entries, other nodes those of their input;
 * the output gradient of head `h` has the shape of the head. */
static void added_shapes(const twins *t, const tn__node *node, net_node *to,
                         uint32_t *h) {
  const tn__node *of =
      node->kind == TN__NODE_BACKWARD ? tn__node_at(t->graph, node->of) : NULL;
  for (uint32_t i = 0; i < node->n_out; ++i)
    if (node->kind == TN__NODE_VARIABLE)
      to->shape[0] = *net_shape_of(t->net, t->net->heads[(*h)++]);
    else
      to->shape[i] =
          *net_shape_of(t->net, ref_of(t, of ? of->in[i] : node->in[0]));
}

static void add_back(twins *t, const tn__node *node, uint32_t *h) {
  net_ref in[64];
  const uint32_t n_in = added_inputs(t, node, in);
  cr_assert_leq(n_in, 64);
  net_node *to =
      net_add_node(t->net, added_op(t->graph, node), n_in, node->n_out);
  const uint32_t k = t->net->n_nodes - 1;
  memcpy(to->in, in, n_in * sizeof *in);
  if (node->kind == TN__NODE_BACKWARD) to->forward = t->of_graph[node->of];
  added_shapes(t, node, to, h);
  t->of_graph[node->id] = k;
  for (uint32_t i = 0; i < node->n_after; ++i)
    net_add_after(t->net, k, t->of_graph[node->after[i]]);
}

/* Copies the graph's gradient into the net. */
static void net_complete(twins *t) {
  tn_entry *of = calloc(t->net->n_nodes, sizeof *of);
  tn_entry *slopes = calloc(t->net->n_nodes, sizeof *slopes);
  const uint32_t before = t->net->n_nodes;
  const uint32_t n = add_gradients(t, of, slopes);
  uint32_t h = 0;
  t->of_graph = calloc(tn__n_nodes(t->graph), sizeof *t->of_graph);
  for (uint32_t k = 0; k < before; ++k) t->of_graph[t->of_net[k]] = k;
  for (uint32_t id = before; id < tn__n_nodes(t->graph); ++id)
    add_back(t, tn__node_at(t->graph, id), &h);
  t->net->args = calloc(n, sizeof *t->net->args);
  t->net->grads = calloc(n, sizeof *t->net->grads);
  t->net->n_args = n;
  for (uint32_t i = 0; i < n; ++i) {
    t->net->args[i] = t->of_graph[of[i].node];
    t->net->grads[i] = ref_of(t, slopes[i]);
  }
  free(of);
  free(slopes);
}

/* -------------------------------------------------------------------- memory
 */

enum { NONE, INPLACE, SHARE, BOTH, N_MODES };

typedef struct figures {
  uint32_t n_nodes; /* needed by the heads and the gradients */
  size_t bytes[N_MODES];
} figures;

/* Frees the net. */
static figures figures_of(net_graph *n) {
  figures f;
  net_plan *lowered = net_lower(n);
  f.n_nodes = (uint32_t)lowered->net.n_nodes;
  for (int mode = 0; mode < N_MODES; ++mode) {
    const compat_options options = {
        .no_inplace = mode == NONE || mode == SHARE,
        .no_share = mode == NONE || mode == INPLACE};
    tn__memory_plan plan;
    OK(compat_plan_init(&plan, tn__env_default(), &lowered->net, &options));
    f.bytes[mode] = sum_separate(&plan);
    tn__memory_plan_deinit(&plan);
  }
  net_plan_free(lowered);
  net_free(n);
  return f;
}

/* Compares figures by a graph with figures by numbers. */
static figures compare_nets(net_graph *mine, net_graph *other) {
  twins t;
  graph_make(&t, mine);
  net_complete(&t);
  tn__graph_release(t.graph);
  free(t.of_net);
  free(t.of_graph);
  const figures have = figures_of(mine);
  net_gradient(other, NULL, NULL);
  const figures want = figures_of(other);
  cr_assert_eq(have.n_nodes, want.n_nodes, "%u nodes, not %u", have.n_nodes,
               want.n_nodes);
  for (int mode = 0; mode < N_MODES; ++mode)
    cr_expect_eq(have.bytes[mode], want.bytes[mode],
                 "mode %d: %zu bytes, not %zu", mode, have.bytes[mode],
                 want.bytes[mode]);
  return have;
}

static void expect_published(figures f, const size_t mb[N_MODES]) {
  for (int mode = 0; mode < N_MODES; ++mode)
    cr_expect_eq(f.bytes[mode] >> 20, mb[mode], "mode %d: %zu MB, not %zu",
                 mode, f.bytes[mode] >> 20, mb[mode]);
}

Test(gradient_compat, of_inception_bn_takes_the_published_memory) {
  expect_published(
      compare_nets(net_inception_bn(32, false), net_inception_bn(32, false)),
      (const size_t[]){3826, 2781, 1504, 1340});
}

Test(gradient_compat, of_inception_bn_with_cudnn_takes_the_published_memory) {
  expect_published(
      compare_nets(net_inception_bn(32, true), net_inception_bn(32, true)),
      (const size_t[]){3826, 3231, 1854, 1784});
}

Test(gradient_compat, of_other_nets_equals_that_of_the_planner_nets) {
  static const int layers[4] = {3, 4, 6, 3};
  (void)compare_nets(net_resnet(32, layers), net_resnet(32, layers));
  (void)compare_nets(net_alexnet(32), net_alexnet(32));
  (void)compare_nets(net_vgg16(32), net_vgg16(32));
  (void)compare_nets(net_googlenet(32), net_googlenet(32));
}

/* Weights are used at every step, so their gradients are long sums. */
Test(gradient_compat, of_recurrent_nets_equals_that_of_the_planner_nets) {
  (void)compare_nets(net_lstm(3, 1), net_lstm(3, 1));
  (void)compare_nets(net_lstm(7, 2), net_lstm(7, 2));
  (void)compare_nets(net_lstm(8, 1), net_lstm(8, 1));
  (void)compare_nets(net_lstm(35, 2), net_lstm(35, 2));
}
