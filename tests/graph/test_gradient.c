/* SPDX-License-Identifier: Apache-2.0
 * Gradients of graphs: their nodes, the order of these, and their inputs. The
 * pass adds no node that was not requested. Differences of the function in f64
 * check the values, also of second order.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

TestSuite(gradient, .init = net_open, .fini = net_close);

/* ------------------------------------------------------------------ queries */

typedef struct question {
  tn_entry heads[4];
  tn_entry of[4];
  tn_entry stop[4];
  tn_entry weights[4];
  size_t n_heads;
  size_t n_of;
  size_t n_stop;
  bool weighted;
  uint32_t flags;
  uint32_t optional;
} question;

static tn_code ask_gradient(const question *q, tn_entry *out) {
  const tn__gradient_spec spec = {
      .query = {.heads = q->heads,
                .weights = q->weighted ? q->weights : NULL,
                .of = q->of,
                .stop = q->stop,
                .n_heads = q->n_heads,
                .n_of = q->n_of,
                .n_stop = q->n_stop},
      .flags = q->flags,
      .optional = q->optional};
  return tn__graph_gradient(g, &spec, out);
}

/* The gradient of one head, with output gradient `weight`, with respect to one
 * entry. */
static tn_code ask_one(tn_entry head, tn_entry weight, tn_entry of,
                       tn_entry *out) {
  const question q = {.heads = {head},
                      .weights = {weight},
                      .of = {of},
                      .n_heads = 1,
                      .n_of = 1,
                      .weighted = true};
  return ask_gradient(&q, out);
}

static tn_entry gradient_of(tn_entry head, tn_entry weight, tn_entry of) {
  tn_entry out;
  OK(ask_one(head, weight, of, &out));
  return out;
}

static const tn__node *node_of(tn_entry entry) {
  return tn__node_at(g, entry.node);
}

static const tn__node *find_named(const char *name) {
  const tn__node *node = tn__map_get(&g->names, name);
  cr_assert_not_null(node, "there is no node %s", name);
  return node;
}

static bool is_same(tn_entry a, tn_entry b) {
  return tn__entry_is_same(a, b);
}

/* The nodes from number `from` on as a text: v, the operator of a call, ~ and
 * the operator of a gradient, +n for a sum of n, 0, 1, =, G, L. */
static const char *list_added(uint32_t from) {
  static char text[1024];
  size_t at = 0;
  text[0] = 0;
  for (uint32_t i = from; i < tn__n_nodes(g); ++i) {
    const tn__node *node = tn__node_at(g, i);
    const char *op = node->desc ? node->desc->name : "";
    char one[64];
    switch (node->kind) {
      case TN__NODE_CALL:
        (void)snprintf(one, sizeof one, "%s", op);
        break;
      case TN__NODE_BACKWARD:
        (void)snprintf(one, sizeof one, "~%s", op);
        break;
      case TN__NODE_SUM:
        (void)snprintf(one, sizeof one, "+%u", node->n_in);
        break;
      default:
        (void)snprintf(one, sizeof one, "%c", "v???01=GL"[node->kind]);
    }
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? " " : "",
                           one);
  }
  return text;
}

#define ADDED(from, want) cr_assert_str_eq(list_added(from), (want))

/* The inputs of a node as a text, one letter per position: - nothing, s a
 * shape, x a value. */
static const char *list_wiring(tn_entry entry) {
  static char text[64];
  const tn__node *node = node_of(entry);
  for (uint32_t i = 0; i < node->n_in; ++i) {
    const bool shape = node->in_flags && node->in_flags[i] & TN_IN_METADATA;
    text[i] = tn__entry_is_none(node->in[i]) ? '-' : shape ? 's' : 'x';
  }
  text[node->n_in] = 0;
  return text;
}

static void is_params(const tn_params *params, const char *want) {
  const tn__fields fields = {params->fields, params->n_fields, 0, ""};
  tn__buf text;
  tn__buf_init(&text, &w.env);
  tn__fields_text(&fields, params->data, &text);
  cr_assert_str_eq(text.s, want);
  tn__buf_deinit(&text);
}

/* -------------------------------------------------------- Paddle's document */

/* Case 1: one operator. Its gradient is one node of the same operator, with the
 * forward node's parameters and attributes. It reads the declared operands. */
Test(gradient, of_an_operator_is_the_gradient_of_that_operator) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 head = var_node(g, "head");
  const tn_entry out = OP(g, "mul", NULL, "m", x, y);
  OK(tn__attribute_set(g, out.node, "group", "second"));
  const uint32_t n = tn__n_nodes(g);
  const question q = {.heads = {out},
                      .weights = {head},
                      .of = {y, x},
                      .n_heads = 1,
                      .n_of = 2,
                      .weighted = true};
  tn_entry grads[2];
  OK(ask_gradient(&q, grads));
  ADDED(n, "~mul");
  const tn__node *back = tn__node_at(g, n);
  cr_assert_eq(back->of, out.node);
  cr_assert_str_eq(back->name, "m_backward");
  cr_assert_str_eq(tn__attribute_get(back, "group"), "second");
  cr_assert(is_same(grads[0], (tn_entry){n, 1}) &&
            is_same(grads[1], (tn_entry){n, 0}));
  cr_assert_str_eq(list_wiring(grads[0]), "xxx-");
  cr_assert(is_same(back->in[0], head) && is_same(back->in[1], x) &&
            is_same(back->in[2], y));
}

/* Inputs without a requested gradient add no reads. */
Test(gradient, reads_only_the_needs_of_requested_inputs) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 head = var_node(g, "head");
  const tn_entry out = OP(g, "mul", NULL, "m", x, y);
  cr_assert_str_eq(list_wiring(gradient_of(out, head, x)), "x-x-");
  const tn_entry fc = OP(g, "dense", "num_hidden=3", "fc", x);
  const tn_entry weight = node_of(fc)->in[1], bias = node_of(fc)->in[2];
  cr_assert_str_eq(list_wiring(gradient_of(fc, head, x)), "x-x--");
  cr_assert_str_eq(list_wiring(gradient_of(fc, head, weight)), "xx---");
  cr_assert_str_eq(list_wiring(gradient_of(fc, head, bias)), "x----");
  const tn_entry keep = OP(g, "keep", NULL, "k", x, y);
  cr_assert_str_eq(list_wiring(gradient_of(keep, head, x)),
                   "x----x"); /* hidden */
  cr_assert_str_eq(list_wiring(gradient_of(keep, head, y)),
                   "x-xs--"); /* shape(y) */
}

/* For computed gradients the head suffices, or inputs, or outputs. */
Test(gradient, keeps_inputs_or_outputs_or_neither) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 head = var_node(g, "head");
  cr_assert_str_eq(
      list_wiring(gradient_of(OP(g, "add", NULL, NULL, x, y), head, x)),
      "x---");
  cr_assert_str_eq(
      list_wiring(gradient_of(OP(g, "square", NULL, NULL, x), head, x)), "xx-");
  cr_assert_str_eq(
      list_wiring(gradient_of(OP(g, "exp", NULL, NULL, x), head, x)), "x-x");
}

/* A gradient that equals the head's adds no node. */
Test(gradient, that_is_the_heads_is_no_node) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 head = var_node(g, "head");
  const tn_entry out = OP(g, "plus", NULL, NULL, x, y);
  const uint32_t n = tn__n_nodes(g);
  cr_assert(is_same(gradient_of(out, head, x), head));
  cr_assert(is_same(gradient_of(out, head, y), head));
  ADDED(n, "");
}

/* simple_op_not_need_grad, op_all_input/all_output_not_need: nothing at all. */
Test(gradient, adds_nothing_where_nothing_passes) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  const tn_entry a = OP(g, "mul", NULL, "a", x, y);
  const tn_entry b = OP(g, "tanh", NULL, "b", a);
  const uint32_t n = tn__n_nodes(g);
  tn_entry out;
  OK(ask_gradient(&(question){.heads = {b},
                              .of = {x},
                              .stop = {a},
                              .n_heads = 1,
                              .n_of = 1,
                              .n_stop = 1,
                              .optional = 1},
                  &out));
  cr_assert(tn__entry_is_none(out));
  ADDED(n, "");
  OK(ask_gradient(&(question){.heads = {b},
                              .of = {x},
                              .stop = {b},
                              .n_heads = 1,
                              .n_of = 1,
                              .n_stop = 1,
                              .optional = 1},
                  &out));
  ADDED(n, "");
  OK(ask_gradient(&(question){.heads = {b}, .n_heads = 1}, &out));
  ADDED(n, "");
}

/* zero_prop: a net with only blocked outputs has no gradient to compute. */
/* `rough` has no gradient, and none is needed: it is zero for the entries
 * before it, for any head. */
Test(gradient, goes_no_further_than_formulas_that_are_zero) {
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  const tn_entry rough =
      OP(g, "rough", NULL, NULL, OP(g, "tanh", NULL, NULL, x));
  const tn_entry whole = OP(g, "stairs", NULL, NULL, rough);
  const tn_entry y = OP(g, "mul", NULL, NULL, whole, x);
  uint32_t n = tn__n_nodes(g);
  const tn_entry dx = gradient_of(y, head, x);
  ADDED(n, "~mul");
  cr_assert(is_same(dx, (tn_entry){n, 1}));
  n = tn__n_nodes(g);
  (void)gradient_of(whole, head, x);
  ADDED(n, "0");
}

Test(gradient, adds_nothing_to_a_net_that_is_blocked_at_its_end) {
  const tn_entry x = var_node(g, "x"), weight = var_node(g, "w");
  const tn_entry out =
      OP(g, "cut", NULL, NULL,
         OP(g, "tanh", NULL, NULL, OP(g, "mul", NULL, NULL, x, weight)));
  const uint32_t n = tn__n_nodes(g);
  const question q = {.heads = {out},
                      .of = {x, weight},
                      .n_heads = 1,
                      .n_of = 2,
                      .optional = 1};
  tn_entry grads[2];
  OK(ask_gradient(&q, grads));
  ADDED(n, "");
}

/* Case 2, net_fc_backward_normal: fc is a product, a sum, a sigmoid. */
Test(gradient, of_a_net_comes_in_reverse_order) {
  const tn_entry x = var_node(g, "x"), weight = var_node(g, "w"),
                 b = var_node(g, "b");
  const tn_entry out =
      OP(g, "sigmoid", NULL, NULL,
         OP(g, "add", NULL, NULL, OP(g, "mul", NULL, NULL, x, weight), b));
  const uint32_t n = tn__n_nodes(g) + 1;
  const question q = {.heads = {out},
                      .weights = {var_node(g, "head")},
                      .of = {x, weight, b},
                      .n_heads = 1,
                      .n_of = 3,
                      .weighted = true};
  tn_entry grads[3];
  OK(ask_gradient(&q, grads));
  ADDED(n, "~sigmoid ~add ~mul");
}

/* net_fc_backward_not_have_b */
Test(gradient, of_a_shorter_net_is_shorter) {
  const tn_entry x = var_node(g, "x"), weight = var_node(g, "w"),
                 head = var_node(g, "head");
  const tn_entry out =
      OP(g, "sigmoid", NULL, NULL, OP(g, "mul", NULL, NULL, x, weight));
  const uint32_t n = tn__n_nodes(g);
  (void)gradient_of(out, head, weight);
  ADDED(n, "~sigmoid ~mul");
}

/* The same net as a node of its own: its gradient is a node as well, over the
 * gradient of the inner net. */
static tn_graph *fc_net(void) {
  tn_graph *net = net_new();
  const tn_entry x = var_node(net, "x"), weight = var_node(net, "w"),
                 b = var_node(net, "b");
  HEADS(net, OP(net, "sigmoid", NULL, "act",
                OP(net, "add", NULL, "sum",
                   OP(net, "mul", NULL, "product", x, weight), b)));
  return net;
}

static tn_entry embed_graph(const tn_graph *inner, const char *name,
                            tn_entry x) {
  tn_entry out;
  OK(tn__graph_embed(g,
                     &(tn_embedding){.struct_size = sizeof(tn_embedding),
                                     .n_in = 1,
                                     .inner = inner,
                                     .name = name,
                                     .in = &x,
                                     .keys = (const char *const[]){"x"}},
                     &out));
  return out;
}

static const tn__node *inner_named(const tn__node *node, const char *name) {
  const tn__node *found = tn__map_get(&node->inner->names, name);
  cr_assert_not_null(found, "%s has no inner node %s", node->name, name);
  return found;
}

Test(gradient, of_a_nested_net_is_a_nested_net) {
  tn_graph *net = fc_net();
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  const tn_entry out = embed_graph(net, "fc", x);
  const uint32_t n = tn__n_nodes(g);
  const tn_entry dx = gradient_of(out, head, x);
  ADDED(n, "G");
  const tn__node *back = node_of(dx);
  const uint32_t act = inner_named(back, "act_backward")->id;
  const uint32_t sum = inner_named(back, "sum_backward")->id;
  const uint32_t product = inner_named(back, "product_backward")->id;
  cr_assert(act < sum && sum < product);
  cr_assert_eq(back->n_out, 1);
  tn__graph_release(net);
}

/* Case 4, net_shared_weight: two products with one weight. */
Test(gradient, of_a_shared_variable_is_a_sum_after_its_summands) {
  const tn_entry x = var_node(g, "x"), weight = var_node(g, "w"),
                 head = var_node(g, "head");
  const tn_entry out =
      OP(g, "mul", NULL, NULL, OP(g, "mul", NULL, NULL, x, weight), weight);
  const uint32_t n = tn__n_nodes(g);
  const tn_entry dw = gradient_of(out, head, weight);
  ADDED(n, "~mul ~mul +2");
  cr_assert_eq(node_of(dw)->kind, TN__NODE_SUM);
}

Test(gradient, of_three_uses_is_one_sum_of_three) {
  const tn_entry x = var_node(g, "x"), b = var_node(g, "b"),
                 head = var_node(g, "head");
  tn_entry y = x;
  for (int i = 0; i < 3; ++i) y = OP(g, "mul", NULL, NULL, y, b);
  const uint32_t n = tn__n_nodes(g);
  (void)gradient_of(y, head, b);
  ADDED(n, "~mul ~mul ~mul +3");
}

/* shared_var: a later gradient follows the sum of the earlier ones. */
Test(gradient, of_a_shared_variable_in_the_middle_is_summed_at_once) {
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  const tn_entry y = OP(g, "tanh", NULL, NULL, x);
  const tn_entry a = OP(g, "square", NULL, NULL, y);
  const tn_entry b = OP(g, "exp", NULL, NULL, y);
  const tn_entry out = OP(g, "mul", NULL, NULL, a, b);
  const uint32_t n = tn__n_nodes(g);
  (void)gradient_of(out, head, x);
  ADDED(n, "~mul ~exp ~square +2 ~tanh");
}

/* Case 5, op_part_of_output_are_not_need: zeros replace an absent gradient,
 * before the node that reads them, and only if it reads them. */
Test(gradient, of_an_unused_output_is_zeros_where_they_are_read) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 head = var_node(g, "head");
  const tn_entry p = OP(g, "pair", NULL, "p", x, y);
  const uint32_t n = tn__n_nodes(g);
  const tn_entry dx = gradient_of(output_of(p, 1), head, x);
  ADDED(n, "0 ~pair");
  cr_assert_str_eq(list_wiring(dx), "xx-x--"); /* grads, y of x and y */
  cr_assert(is_same(node_of(dx)->in[0], (tn_entry){n, 0}));
  cr_assert(is_same(node_of((tn_entry){n, 0})->in[0], output_of(p, 0)));
  const tn_entry k = OP(g, "keep", NULL, "k", x, y);
  const uint32_t m = tn__n_nodes(g);
  (void)gradient_of(k, head, x); /* the hidden output's gradient is not read */
  ADDED(m, "~keep");
}

/* op_part_of_input_are_not_need: the gradient that was not requested has a
 * position without readers. */
Test(gradient, of_an_input_without_request_is_not_computed) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 head = var_node(g, "head");
  const tn_entry deep = OP(g, "tanh", NULL, NULL, x);
  const tn_entry out = OP(g, "mul", NULL, NULL, deep, y);
  const uint32_t n = tn__n_nodes(g);
  (void)gradient_of(out, head, y);
  ADDED(n, "~mul"); /* no ~tanh */
}

/* linear_net_intermediate_variable_has_no_grad: nets before it are empty. */
Test(gradient, stops_at_an_intermediate_entry) {
  const tn_entry x = var_node(g, "x"), b = var_node(g, "b"),
                 c = var_node(g, "c");
  const tn_entry one = OP(g, "mul", NULL, "one", x, b);
  const tn_entry two = OP(g, "mul", NULL, "two", one, c);
  const tn_entry three = OP(g, "mul", NULL, "three", two, c);
  const question q = {.heads = {three},
                      .weights = {var_node(g, "head")},
                      .of = {c, b},
                      .stop = {two},
                      .n_heads = 1,
                      .n_of = 2,
                      .n_stop = 1,
                      .weighted = true,
                      .optional = 1};
  const uint32_t n = tn__n_nodes(g);
  tn_entry grads[2];
  OK(ask_gradient(&q, grads));
  ADDED(n, "~mul"); /* one use of c only */
  cr_assert(tn__entry_is_none(grads[1]));
}

/* var_no_grad: a variable's own attribute, and half_backward: one side only. */
Test(gradient, of_a_variable_without_gradient_is_not_computed) {
  const tn_entry x = var_node(g, "x"), b = var_node(g, "b"),
                 head = var_node(g, "head");
  const tn_entry out = OP(g, "mul", NULL, NULL, OP(g, "tanh", NULL, "t", x), b);
  OK(tn__attribute_set(g, find_named("t")->id, "no_gradient", "1"));
  const uint32_t n = tn__n_nodes(g);
  tn_entry dx;
  (void)gradient_of(out, head, b);
  ADDED(n, "~mul");
  OK(ask_gradient(
      &(question){.heads = {out}, .of = {x}, .n_heads = 1, .n_of = 1}, &dx));
  cr_assert_eq(node_of(dx)->kind,
               TN__NODE_ZERO); /* it depends, but is stopped */
  cr_assert(is_same(node_of(dx)->in[0], x));
}

/* AppendBackward: without a weight the head's gradient is ones. */
Test(gradient, of_a_head_begins_with_ones) {
  const tn_entry x = var_node(g, "x"), b = var_node(g, "b");
  const tn_entry out =
      OP(g, "add", NULL, NULL,
         OP(g, "mul", NULL, NULL, OP(g, "add", NULL, NULL, x, b), x), b);
  const uint32_t n = tn__n_nodes(g);
  tn_entry grads[2];
  OK(ask_gradient(
      &(question){.heads = {out}, .of = {x, b}, .n_heads = 1, .n_of = 2},
      grads));
  ADDED(n, "1 ~add ~mul ~add +2 +2");
}

/* Case 3 is among the loops below. */

/* ---------------------------------------------------------------- corner cases
 */

Test(gradient, of_a_head_itself_is_its_weight) {
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  cr_assert(is_same(gradient_of(x, head, x), head));
  const tn_entry y = OP(g, "tanh", NULL, NULL, x);
  cr_assert(is_same(gradient_of(y, head, y), head));
  tn_entry twice;
  OK(ask_gradient(&(question){.heads = {y, y},
                              .weights = {head, head},
                              .of = {y},
                              .n_heads = 2,
                              .n_of = 1,
                              .weighted = true},
                  &twice));
  cr_assert_eq(node_of(twice)->kind, TN__NODE_SUM);
  cr_assert_eq(node_of(twice)->n_in, 2);
}

Test(gradient, of_a_repeated_input_is_the_sum_of_both) {
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  const tn_entry out = OP(g, "mul", NULL, NULL, x, x);
  const uint32_t n = tn__n_nodes(g);
  const tn_entry dx = gradient_of(out, head, x);
  ADDED(n, "~mul +2");
  const tn__node *sum = node_of(dx);
  cr_assert(is_same(sum->in[0], (tn_entry){n, 0}) &&
            is_same(sum->in[1], (tn_entry){n, 1}));
}

Test(gradient, of_an_entry_that_no_head_needs_is_an_error) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  const tn_entry out = OP(g, "tanh", NULL, NULL, x);
  const uint32_t n = tn__n_nodes(g);
  tn_entry grads[2];
  FAILS(ask_gradient(
            &(question){.heads = {out}, .of = {x, y}, .n_heads = 1, .n_of = 2},
            grads),
        TN_INVALID, "`y`", "(entry 1)", "no head depends on it");
  cr_assert_eq(tn__n_nodes(g), n);
  cr_assert(tn__entry_is_none(grads[0]));
}

/* zero_prop2: an operator without gradient may precede one that blocks
 * gradients. */
Test(gradient, of_an_operator_without_one_is_refused_unless_it_is_blocked) {
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  const tn_entry rough = OP(g, "rough", NULL, "r", x);
  const tn_entry cut = OP(g, "cut", NULL, NULL, rough);
  const tn_entry open = OP(g, "tanh", NULL, NULL, rough);
  const uint32_t n = tn__n_nodes(g);
  tn_entry dx;
  OK(ask_gradient(
      &(question){.heads = {cut}, .of = {x}, .n_heads = 1, .n_of = 1}, &dx));
  ADDED(n, "0");
  tn__graph_truncate(g, n);
  FAILS(ask_one(open, head, x, &dx), TN_UNSUPPORTED, "node `r` (lab.rough@1)",
        "no gradient", "it is constant between its jumps");
  cr_assert_eq(tn__n_nodes(g), n);
}

Test(gradient, stops_at_inputs_that_the_operator_never_differentiates) {
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  const tn_entry out = OP(g, "mul", NULL, NULL, OP(g, "cut", NULL, NULL, x), x);
  const uint32_t n = tn__n_nodes(g);
  const tn_entry dx = gradient_of(out, head, x);
  ADDED(n, "~mul"); /* by the second factor only */
  cr_assert_eq(dx.index, 1);
}

/* Integers have no gradient, by a parameter or by the operator. So entries
 * computed from them need none: lab.cast and lab.find have none. */
Test(gradient, stops_at_integers) {
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  const tn_entry whole = OP(g, "cast", "dtype=i32", NULL, x);
  const tn_entry back = OP(g, "cast", "dtype=f64", NULL, whole);
  const tn_entry places = OP(g, "find", NULL, NULL, x);
  const tn_entry again = OP(g, "cast", "dtype=f64", NULL, places);
  const tn_entry half = OP(g, "cast", "dtype=f16", "half", x);
  const tn_entry first = OP(g, "mul", NULL, NULL, back, x);
  const tn_entry second = OP(g, "mul", NULL, NULL, x, again);
  uint32_t n = tn__n_nodes(g);
  tn_entry dx = gradient_of(first, head, x);
  ADDED(n, "~mul");
  cr_assert_eq(dx.index, 1);
  n = tn__n_nodes(g);
  dx = gradient_of(second, head, x);
  ADDED(n, "~mul");
  cr_assert_eq(dx.index, 0);
  FAILS(ask_one(half, head, x, &dx), TN_UNSUPPORTED, "node `half`");
}

Test(gradient, goes_through_an_operator_with_states) {
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  const tn_entry out = OP(g, "track", NULL, "t", x);
  const uint32_t n = tn__n_nodes(g);
  (void)gradient_of(out, head, x);
  ADDED(n, "~track");
}

Test(gradient, does_not_ask_an_input_that_is_not_there) {
  const tn_entry x = var_node(g, "x"), weight = var_node(g, "w"),
                 head = var_node(g, "head");
  const tn_entry out =
      OP(g, "dense", "num_hidden=2", "fc", x, weight, TN_ENTRY_NONE);
  cr_assert_str_eq(list_wiring(gradient_of(out, head, weight)), "xx--");
}

Test(gradient, of_an_operator_by_others_is_calls_of_them) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 head = var_node(g, "head");
  const tn_entry out = OP(g, "product", "alpha=3", "p", x, y);
  const uint32_t n = tn__n_nodes(g);
  const tn_entry dx = gradient_of(out, head, x);
  ADDED(n, "affine mul");
  const tn__node *affine = tn__node_at(g, n);
  is_params(affine->params, "scale=3 shift=0");
  cr_assert(is_same(affine->in[0], head) && is_same(node_of(dx)->in[1], y));
  tn_entry none;
  FAILS(ask_one(OP(g, "orphan", NULL, "o", x), head, x, &none), TN_UNSUPPORTED,
        "node `o` (lab.orphan@1)",
        "no operator \"nobody.has@1\": no plugin \"nobody\" is loaded");
  OK(tn__plugin_load(w.registry, TENSOR_FILE));
  FAILS(ask_one(OP(g, "misspelt", NULL, "m", x), head, x, &none),
        TN_UNSUPPORTED, "node `m` (lab.misspelt@1)",
        "did you mean \"tensor.sum\"?");
}

Test(gradient, checks_its_question) {
  const tn_entry x = var_node(g, "x"), far = {99, 0};
  tn_entry out;
  FAILS(ask_gradient(
            &(question){.heads = {far}, .of = {x}, .n_heads = 1, .n_of = 1},
            &out),
        TN_INVALID, "a head is output 0 of node 99");
  FAILS(ask_gradient(
            &(question){.heads = {x}, .of = {far}, .n_heads = 1, .n_of = 1},
            &out),
        TN_INVALID, "an entry with a requested gradient");
  FAILS(ask_gradient(&(question){.heads = {x},
                                 .of = {x},
                                 .stop = {far},
                                 .n_heads = 1,
                                 .n_of = 1,
                                 .n_stop = 1},
                     &out),
        TN_INVALID, "an entry where gradients stop");
}

/* -------------------------------------------------------------------- sums */

/* x is used `n` times; returns the nodes that its gradient adds. */
static const char *fan_out(int n, uint32_t flags) {
  tn_entry all[32], dx, x = var_node(g, "x"), head = var_node(g, "head");
  for (int i = 0; i < n; ++i) all[i] = OP(g, "tanh", NULL, NULL, x);
  if (n == 0) all[n++] = OP(g, "cut", NULL, NULL, x);
  const tn_entry out = op_n(g, "total", NULL, NULL, (size_t)n, all);
  const uint32_t from = tn__n_nodes(g);
  OK(ask_gradient(&(question){.heads = {out},
                              .weights = {head},
                              .of = {x},
                              .n_heads = 1,
                              .n_of = 1,
                              .weighted = true,
                              .flags = flags},
                  &dx));
  return list_added(from);
}

Test(gradient, of_no_use_is_zeros) {
  cr_assert_str_eq(fan_out(0, 0), "0");
}

Test(gradient, of_one_use_is_that) {
  cr_assert_str_eq(fan_out(1, 0), "~total ~tanh");
}

Test(gradient, of_two_uses_is_a_sum) {
  cr_assert_str_eq(fan_out(2, 0), "~total ~tanh ~tanh +2");
}

Test(gradient, of_twenty_uses_is_one_sum) {
  cr_assert_str_eq(fan_out(20, 0),
                   "~total ~tanh ~tanh ~tanh ~tanh ~tanh ~tanh ~tanh ~tanh "
                   "~tanh ~tanh ~tanh ~tanh ~tanh ~tanh ~tanh ~tanh ~tanh "
                   "~tanh ~tanh ~tanh +20");
}

Test(gradient, of_seven_uses_is_one_sum_with_compat_too) {
  cr_assert_str_eq(fan_out(7, TN__GRADIENT_COMPAT),
                   "= ~total ~tanh ~tanh ~tanh ~tanh ~tanh ~tanh ~tanh +7");
}

Test(gradient, of_eight_uses_are_partial_sums_with_compat) {
  cr_assert_str_eq(
      fan_out(8, TN__GRADIENT_COMPAT),
      "= ~total ~tanh ~tanh +2 ~tanh +2 ~tanh +2 ~tanh +2 ~tanh +2 ~tanh +2 "
      "~tanh +2 =");
  /* each summand follows the partial sum, and its forward node */
  const uint32_t last = tn__n_nodes(g) - 3;
  const tn__node *summand = tn__node_at(g, last);
  cr_assert_eq(summand->n_after, 2);
  cr_assert_eq(summand->after[0], summand->of);
  cr_assert_eq(summand->after[1], last - 1);
}

/* gradient_graph_possible_with_cycle: data + data + ..., eight times and more.
 * Nodes follow their inputs and control dependencies. */
Test(gradient, of_a_sum_with_itself_has_no_cycle) {
  const tn_entry x = var_node(g, "data");
  tn_entry y = x, dx;
  for (int i = 0; i < 12; ++i) y = OP(g, "mul", NULL, NULL, y, x);
  OK(ask_gradient(&(question){.heads = {y},
                              .of = {x},
                              .n_heads = 1,
                              .n_of = 1,
                              .flags = TN__GRADIENT_COMPAT},
                  &dx));
  for (uint32_t i = 0; i < tn__n_nodes(g); ++i) {
    const tn__node *node = tn__node_at(g, i);
    for (uint32_t k = 0; k < node->n_in; ++k)
      cr_assert(tn__entry_is_none(node->in[k]) || node->in[k].node < i);
    for (uint32_t k = 0; k < node->n_after; ++k)
      cr_assert_lt(node->after[k], i);
  }
}

/* The gradients of both summands equal the head's. */
Test(gradient, that_two_variables_share_is_copied_only_with_compat) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 head = var_node(g, "head");
  const tn_entry in[] = {x, y};
  tn__node *sum = NULL;
  OK(tn__node_add(g,
                  &(tn__node_spec){.kind = TN__NODE_SUM,
                                   .n_in = 2,
                                   .n_out = 1,
                                   .of = TN_NONE,
                                   .name = "sum",
                                   .in = in},
                  &sum));
  question q = {.heads = {{sum->id, 0}},
                .weights = {head},
                .of = {x, y},
                .n_heads = 1,
                .n_of = 2,
                .weighted = true};
  tn_entry grads[2];
  OK(ask_gradient(&q, grads));
  cr_assert(is_same(grads[0], head) && is_same(grads[1], head));
  q.flags = TN__GRADIENT_COMPAT;
  const uint32_t n = tn__n_nodes(g);
  OK(ask_gradient(&q, grads));
  ADDED(n, "= =");
  cr_assert(!is_same(grads[0], grads[1]));
}

/* -------------------------------------------------------------------- faults
 */

/* A failure leaves the graph as it was. */
Test(gradient, survives_each_failing_allocation) {
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  tn_graph *net = fc_net();
  const tn_entry a =
      embed_graph(net, "fc", OP(g, "product", "alpha=2", NULL, x, x));
  const tn_entry p = OP(g, "pair", NULL, NULL, a, x);
  const uint32_t n = tn__n_nodes(g);
  const question q = {.heads = {p},
                      .weights = {head},
                      .of = {x},
                      .n_heads = 1,
                      .n_of = 1,
                      .weighted = true};
  int64_t struck = 0;
  tn_entry dx;
  for (int64_t i = 1;; ++i) {
    w.memory.asked = 0;
    w.memory.fail_at = i;
    const tn_code rc = ask_gradient(&q, &dx);
    w.memory.fail_at = 0;
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
    cr_assert_eq(tn__n_nodes(g), n);
    cr_assert(tn__entry_is_none(dx));
    ++struck;
  }
  cr_assert_gt(struck, 30);
  ADDED(n, "0 ~pair G affine mul affine mul +3");
  tn__graph_release(net);
}

/* Only the number of nodes matters, not their depth. */
Test(gradient, of_a_hundred_thousand_nodes_has_as_many) {
  enum { N = 100000 };
  const tn_entry x = var_node(g, "x"), head = var_node(g, "head");
  tn_entry y = x;
  for (int i = 0; i < N; ++i) y = OP(g, "tanh", NULL, NULL, y);
  const uint32_t n = tn__n_nodes(g);
  (void)gradient_of(y, head, x);
  cr_assert_eq(tn__n_nodes(g), n + N);
}
