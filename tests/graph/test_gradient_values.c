/* SPDX-License-Identifier: Apache-2.0
 * Gradients of graphs against differences of the function, in f64: each form of
 * operator, graphs and loops as operators, random graphs, second order.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

static uint64_t state; /* of the random numbers of tests */

static void open_all(void) {
  net_open();
  state = 20211;
}

TestSuite(gradient_values, .init = open_all, .fini = net_close);

static uint32_t random_below(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % n;
}

/* In [-1, 1], a multiple of 1/1000. */
static double random_number(void) {
  return ((double)random_below(2001) - 1000) / 1000;
}

/* -------------------------------------------------------------------- arrays
 */

enum { MOST = 8 };

/* Variables with arrays of random numbers. */
static feed feeds[MOST];
static size_t n_feeds;

static tn_entry fed_var(const char *name, size_t ndim, const int64_t *shape) {
  const tn_entry entry = var_node(g, name);
  double v[64];
  for (int i = 0; i < 64; ++i) v[i] = random_number();
  cr_assert_lt(n_feeds, MOST);
  feeds[n_feeds++] = (feed){name, create_doubles(ndim, shape, v)};
  return entry;
}

static void feeds_drop(void) {
  while (n_feeds > 0) tn__array_release(feeds[--n_feeds].array);
}

static tn_array *feed_of(tn_entry entry) {
  const char *name = tn__node_at(g, entry.node)->name;
  for (size_t i = 0; i < n_feeds; ++i)
    if (strcmp(feeds[i].name, name) == 0) return feeds[i].array;
  cr_assert_fail("%s is not fed", name);
  return NULL;
}

/* ---------------------------------------------------------------- differences
 */

/* The sum of head times weight. */
static double objective_of(tn_entry head, tn_entry weight) {
  const tn_entry both[] = {head, weight};
  tn_array *arrays[2] = {NULL};
  double sum = 0;
  evaluate_heads(g, feeds, n_feeds, both, 2, arrays);
  double *h = elements_of(arrays[0]), *k = elements_of(arrays[1]);
  cr_assert_eq(n_elements(arrays[0]), n_elements(arrays[1]));
  for (size_t i = 0; i < n_elements(arrays[0]); ++i) sum += h[i] * k[i];
  free(h), free(k);
  tn__array_release(arrays[0]), tn__array_release(arrays[1]);
  return sum;
}

/* The gradient for element i of a variable's array, by a difference. */
static double difference_at(tn_entry head, tn_entry weight, tn_array *of,
                            size_t i) {
  const double step = 1e-5;
  const size_t bytes = n_elements(of) * sizeof(double);
  double *v = elements_of(of), at = v[i];
  v[i] = at + step;
  OK(tn__array_set(of, v, bytes));
  const double above = objective_of(head, weight);
  v[i] = at - step;
  OK(tn__array_set(of, v, bytes));
  const double below = objective_of(head, weight);
  v[i] = at;
  OK(tn__array_set(of, v, bytes));
  free(v);
  return (above - below) / (2 * step);
}

static void compare_gradient(tn_entry head, tn_entry weight, tn_entry of,
                             tn_array *slope) {
  tn_array *array = feed_of(of);
  double *have = elements_of(slope);
  cr_assert_eq(n_elements(slope), n_elements(array));
  for (size_t i = 0; i < n_elements(array); ++i) {
    const double want = difference_at(head, weight, array, i);
    cr_assert(fabs(have[i] - want) <= 1e-7 * (1 + fabs(want)),
              "slope %zu of %s is %.12g, but differences give %.12g", i,
              tn__node_at(g, of.node)->name, have[i], want);
  }
  free(have);
}

/* Adds gradients of the head, with an output gradient, for n variables. */
static void add_gradients(tn_entry head, tn_entry weight, const tn_entry *of,
                          size_t n, tn_entry *out) {
  const tn__gradient_spec spec = {.query = {.heads = &head,
                                            .weights = &weight,
                                            .of = of,
                                            .n_heads = 1,
                                            .n_of = n}};
  OK(tn__graph_gradient(g, &spec, out));
}

static void check_n(tn_entry head, tn_entry weight, size_t n,
                    const tn_entry *of) {
  tn_entry slopes[MOST];
  tn_array *arrays[MOST] = {NULL};
  add_gradients(head, weight, of, n, slopes);
  evaluate_heads(g, feeds, n_feeds, slopes, n, arrays);
  for (size_t i = 0; i < n; ++i)
    compare_gradient(head, weight, of[i], arrays[i]);
  for (size_t i = 0; i < n; ++i) tn__array_release(arrays[i]);
}

/* Checks gradients of `head`, with output gradient `weight`, for these
 * variables. */
#define CHECK(head, weight, ...)                                \
  check_n((head), (weight),                                     \
          sizeof((tn_entry[]){__VA_ARGS__}) / sizeof(tn_entry), \
          (const tn_entry[]){__VA_ARGS__})

#define AXES(...)                                                         \
  sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) { \
    __VA_ARGS__                                                           \
  }

static tn_entry fed_vector(const char *name) {
  return fed_var(name, AXES(2, 3));
}

/* ----------------------------------------------------------------- operators
 */

Test(gradient_values, of_a_perceptron) {
  const tn_entry x = fed_var("x", AXES(4, 3)), v = fed_var("v", AXES(5, 3));
  const tn_entry b = fed_var("b", AXES(5)), u = fed_var("u", AXES(2, 5));
  const tn_entry h =
      OP(g, "tanh", NULL, NULL, OP(g, "dense", "num_hidden=5", NULL, x, v, b));
  const tn_entry out =
      OP(g, "dense", "num_hidden=2", NULL, h, u, TN_ENTRY_NONE);
  CHECK(out, fed_var("head", AXES(4, 2)), x, v, b, u);
  feeds_drop();
}

/* binary_op_duplicate_input: 2 x */
Test(gradient_values, of_a_product_with_itself) {
  const tn_entry x = fed_vector("x"), head = fed_vector("head");
  const tn_entry out = OP(g, "mul", NULL, NULL, x, x);
  CHECK(out, head, x);
  feeds_drop();
}

/* The other slots of the gradient are 0. */
Test(gradient_values, of_slices_of_which_one_is_used) {
  const tn_entry x = fed_var("x", AXES(2, 6)),
                 head = fed_var("head", AXES(2, 2));
  const tn_entry all = OP(g, "slices", "parts=3", NULL, x);
  CHECK(output_of(all, 1), head, x);
  feeds_drop();
}

/* elementwise_sum for n = 1... */
Test(gradient_values, of_sums_of_any_length) {
  const tn_entry x = fed_vector("x"), y = fed_vector("y"),
                 head = fed_vector("head");
  for (size_t n = 1; n < 6; ++n) {
    const tn_entry in[] = {x, y, x, OP(g, "tanh", NULL, NULL, y), y};
    const tn_entry out = op_n(g, "total", NULL, NULL, n, in);
    if (n == 1)
      CHECK(out, head, x);
    else
      CHECK(out, head, x, y);
  }
  feeds_drop();
}

Test(gradient_values, of_several_outputs) {
  const tn_entry x = fed_vector("x"), y = fed_vector("y"),
                 head = fed_vector("head");
  const tn_entry p = OP(g, "pair", NULL, NULL, x, y);
  CHECK(p, head, x, y);
  CHECK(output_of(p, 1), head, x, y);
  CHECK(OP(g, "mul", NULL, NULL, p, output_of(p, 1)), head, x, y);
  feeds_drop();
}

Test(gradient_values, of_an_operator_that_keeps_a_hidden_output) {
  const tn_entry x = fed_vector("x"), y = fed_vector("y"),
                 head = fed_vector("head");
  const tn_entry out = OP(g, "keep", NULL, NULL, x, y);
  CHECK(out, head, x);
  CHECK(out, head, y);
  CHECK(out, head, x, y);
  feeds_drop();
}

Test(gradient_values, of_an_operator_that_is_differentiated_by_others) {
  const tn_entry x = fed_vector("x"), y = fed_vector("y"),
                 head = fed_vector("head");
  CHECK(OP(g, "product", "alpha=-2.5", NULL, x, y), head, x, y);
  feeds_drop();
}

Test(gradient_values, are_zeros_before_a_block) {
  const tn_entry x = fed_vector("x"), head = fed_vector("head");
  const tn_entry out = OP(g, "cut", NULL, NULL, x);
  tn_entry slope;
  tn_array *array = NULL;
  add_gradients(out, head, &x, 1, &slope);
  evaluate_heads(g, feeds, n_feeds, &slope, 1, &array);
  double *v = elements_of(array);
  for (size_t i = 0; i < 6; ++i) cr_assert_eq(v[i], 0);
  free(v);
  tn__array_release(array);
  feeds_drop();
}

/* ------------------------------------------------------------- random graphs
 */

static tn_entry random_node(const tn_entry *all, uint32_t n) {
  static const char *const binary[] = {"add", "sub", "mul", "tame", "pair"};
  static const char *const unary[] = {"tanh", "sigmoid", "same"};
  const tn_entry a = all[random_below(n)], b = all[random_below(n)];
  switch (random_below(8)) {
    case 0:
      return OP(g, unary[random_below(3)], NULL, NULL, a);
    case 1:
      return OP(g, "affine", "scale=-0.5 shift=0.25", NULL, a);
    case 2:
      return output_of(OP(g, "pair", NULL, NULL, a, b), random_below(2));
    case 3:
      return OP(g, "product", "alpha=0.5", NULL, a, b);
    case 4:
      return OP(g, "keep", NULL, NULL, a, b);
    case 5:
      return OP(g, "total", NULL, NULL, a, b, a);
    default:
      return OP(g, binary[random_below(5)], NULL, NULL, a, b);
  }
}

/* The last node depends on both variables. */
static tn_entry random_graph(tn_entry x, tn_entry y, uint32_t n) {
  tn_entry all[64] = {x, y};
  for (uint32_t i = 2; i < n; ++i) all[i] = random_node(all, i);
  return OP(g, "total", NULL, NULL, all[n - 1], all[n - 2], x,
            OP(g, "tanh", NULL, NULL, y));
}

Test(gradient_values, of_random_graphs) {
  const tn_entry x = fed_var("x", AXES(2)), y = fed_var("y", AXES(2));
  const tn_entry head = fed_var("head", AXES(2));
  const uint32_t n = tn__n_nodes(g);
  for (int i = 0; i < 200; ++i) {
    CHECK(random_graph(x, y, 4 + random_below(12)), head, x, y);
    tn__graph_truncate(g, n);
  }
  feeds_drop();
}

/* -------------------------------------------------------------- second order
 */

/* The gradient for x is a graph like any other. */
static void check_twice(tn_entry out, tn_entry head, tn_entry more, tn_entry x,
                        tn_entry y) {
  tn_entry first;
  add_gradients(out, head, &x, 1, &first);
  if (tn__entry_is_none(y))
    CHECK(first, more, x, head);
  else
    CHECK(first, more, x, y, head);
}

Test(gradient_values, of_gradients) {
  const tn_entry x = fed_vector("x"), y = fed_vector("y"),
                 head = fed_vector("head");
  const tn_entry more = fed_vector("more"), none = TN_ENTRY_NONE;
  check_twice(OP(g, "tanh", NULL, NULL, x), head, more, x, none);
  check_twice(OP(g, "square", NULL, NULL, OP(g, "exp", NULL, NULL, x)), head,
              more, x, none);
  check_twice(OP(g, "tame", NULL, NULL, y, OP(g, "mul", NULL, NULL, x, y)),
              head, more, x, y);
  check_twice(OP(g, "product", "alpha=3", NULL, x,
                 OP(g, "sigmoid", NULL, NULL, OP(g, "mul", NULL, NULL, x, y))),
              head, more, x, y);
  const tn_entry p =
      OP(g, "pair", NULL, NULL, OP(g, "mul", NULL, NULL, x, x), y);
  check_twice(OP(g, "mul", NULL, NULL, p, output_of(p, 1)), head, more, x, y);
  feeds_drop();
}

Test(gradient_values, of_gradients_without_an_operator) {
  const tn_entry x = fed_vector("x"), y = fed_vector("y"),
                 head = fed_vector("head");
  const tn_entry out = OP(g, "keep", NULL, "k", x, y);
  tn_entry first, second;
  add_gradients(out, head, &x, 1, &first);
  const tn__gradient_spec spec = {
      .query = {.heads = &first, .of = &y, .n_heads = 1, .n_of = 1}};
  /* the gradient for x reads y as a hidden output of the node */
  FAILS(tn__graph_gradient(g, &spec, &second), TN_UNSUPPORTED,
        "node `k_backward` (gradient of lab.keep@1)",
        "there is no operator lab.keep_grad@1");
  feeds_drop();
}

/* ------------------------------------------------------------- inner graphs */

/* out = tanh(x * w) + x, and w twice. */
static tn_graph *block_graph(void) {
  tn_graph *b = net_new();
  const tn_entry x = var_node(b, "x"), weight = var_node(b, "w");
  const tn_entry h =
      OP(b, "tanh", NULL, NULL, OP(b, "mul", NULL, NULL, x, weight));
  HEADS(b, OP(b, "add", NULL, NULL, h, x),
        OP(b, "mul", NULL, NULL, weight, weight));
  return b;
}

static tn_entry embed_graph(const tn_graph *inner, uint32_t n,
                            const tn_entry *in) {
  tn_entry out;
  const tn_embedding what = {.struct_size = sizeof what,
                             .n_in = n,
                             .inner = inner,
                             .in = in,
                             .keys = (const char *const[]){"x", "w"}};
  OK(tn__graph_embed(g, &what, &out));
  return out;
}

Test(gradient_values, of_an_inner_graph) {
  const tn_entry x = fed_vector("x"), y = fed_vector("y"),
                 head = fed_vector("head");
  tn_graph *b = block_graph();
  const tn_entry a = embed_graph(b, 2, (const tn_entry[]){x, y});
  CHECK(a, head, x, y);
  CHECK(output_of(a, 1), head, y);
  const tn_entry c = embed_graph(b, 2, (const tn_entry[]){output_of(a, 1), a});
  CHECK(OP(g, "add", NULL, NULL, c, output_of(c, 1)), head, x, y);
  check_twice(a, head, fed_vector("more"), x, y);
  tn__graph_release(b);
  feeds_drop();
}

Test(gradient_values, of_an_inner_graph_of_an_inner_graph) {
  const tn_entry x = fed_vector("x"), y = fed_vector("y"),
                 head = fed_vector("head");
  tn_graph *b = block_graph(), *outer = net_new(), *mine = g;
  g = outer;
  const tn_entry in[] = {var_node(g, "x"), var_node(g, "w")};
  const tn_entry one = embed_graph(b, 2, in);
  const tn_entry two =
      embed_graph(b, 2, (const tn_entry[]){one, output_of(one, 1)});
  HEADS(g, two);
  g = mine;
  CHECK(embed_graph(outer, 2, (const tn_entry[]){x, y}), head, x, y);
  tn__graph_release(outer);
  tn__graph_release(b);
  feeds_drop();
}

Test(gradient_values, of_an_inner_graph_that_changes_a_state_are_refused) {
  const tn_entry x = fed_vector("x"), head = fed_vector("head");
  tn_graph *b = net_new();
  HEADS(b, OP(b, "track", NULL, "t", var_node(b, "x")));
  tn_entry out, slope;
  OK(tn__graph_embed(g,
                     &(tn_embedding){.struct_size = sizeof(tn_embedding),
                                     .n_in = 1,
                                     .inner = b,
                                     .name = "block",
                                     .in = &x},
                     &out));
  const tn__gradient_spec spec = {
      .query = {
          .heads = &out, .weights = &head, .of = &x, .n_heads = 1, .n_of = 1}};
  FAILS(tn__graph_gradient(g, &spec, &slope), TN_UNSUPPORTED, "node `block`",
        "`t` (lab.track@1)", "changes a state", "tn_graph_compose");
  tn__graph_release(b);
  feeds_drop();
}

/* --------------------------------------------------------------------- loops
 */

/* h = tanh(dense(x, v) + h * u); out = h * h, and x itself. */
static tn_graph *recurrent_graph(void) {
  tn_graph *s = net_new();
  const tn_entry x = var_node(s, "x"), h = var_node(s, "h"),
                 u = var_node(s, "u");
  const tn_entry fc =
      OP(s, "dense", "num_hidden=2", "fc", x, var_node(s, "v"), TN_ENTRY_NONE);
  const tn_entry next =
      OP(s, "tanh", NULL, "next",
         OP(s, "add", NULL, NULL, fc, OP(s, "mul", NULL, NULL, h, u)));
  HEADS(s, next, OP(s, "mul", NULL, "out", next, h), x);
  return s;
}

static tn_entry loop_of(const tn_graph *step, bool reverse, size_t n,
                        const char *const *keys, const tn_entry *in) {
  tn_entry out;
  OK(tn__graph_loop(g,
                    &(tn_loop){.struct_size = sizeof(tn_loop),
                               .n_in = (uint32_t)n,
                               .step = step,
                               .sequences = (const char *const[]){"x"},
                               .states = (const char *const[]){"h"},
                               .n_sequences = 1,
                               .n_states = 1,
                               .reverse = reverse,
                               .in = in,
                               .keys = keys},
                    &out));
  return out;
}

static const char *const rnn_keys[] = {"x", "h", "v", "u"};

/* Case 3 of Paddle's document: the gradient of a loop is a loop over the
 * gradient of its step, in the other direction. */
static void check_loop(bool reverse) {
  const tn_entry x = fed_var("x", AXES(4, 2, 3)), h = fed_var("h", AXES(2, 2));
  const tn_entry v = fed_var("v", AXES(2, 3)), u = fed_var("u", AXES(2, 2));
  tn_graph *s = recurrent_graph();
  const tn_entry in[] = {x, h, v, u};
  const tn_entry out = loop_of(s, reverse, 4, rnn_keys, in);
  const tn_entry last = fed_var("last", AXES(2, 2));
  const tn_entry each = fed_var("each", AXES(4, 2, 2));
  CHECK(out, last, x, h, v, u);
  const uint32_t n = tn__n_nodes(g);
  CHECK(output_of(out, 1), each, x, h, v, u);
  const tn__node *back = NULL;
  for (uint32_t i = n; i < tn__n_nodes(g); ++i)
    if (tn__node_at(g, i)->kind == TN__NODE_LOOP) back = tn__node_at(g, i);
  cr_assert_not_null(back);
  cr_assert_eq(back->loop->reverse, !reverse);
  cr_assert_not_null(tn__map_get(&back->inner->names, "next_backward"));
  CHECK(output_of(out, 2), fed_var("same", AXES(4, 2, 3)), x);
  tn__graph_release(s);
  feeds_drop();
}

Test(gradient_values, of_a_loop) {
  check_loop(false);
}

Test(gradient_values, of_a_loop_from_its_end) {
  check_loop(true);
}

/* From the last state and from a collected output, together. */
Test(gradient_values, of_a_loop_in_a_graph) {
  const tn_entry x = fed_var("x", AXES(3, 2, 3)), h = fed_var("h", AXES(2, 2));
  const tn_entry v = fed_var("v", AXES(2, 3)), u = fed_var("u", AXES(2, 2));
  tn_graph *s = recurrent_graph();
  const tn_entry in[] = {OP(g, "tanh", NULL, NULL, x), h, v,
                         OP(g, "square", NULL, NULL, u)};
  const tn_entry out = loop_of(s, false, 4, rnn_keys, in);
  const tn_entry again[] = {in[0], out, v, out};
  const tn_entry second = loop_of(s, false, 4, rnn_keys, again);
  CHECK(OP(g, "mul", NULL, NULL, output_of(out, 1), output_of(second, 1)),
        fed_var("each", AXES(3, 2, 2)), x, h, v, u);
  tn__graph_release(s);
  feeds_drop();
}

/* h + x: its gradient reads neither sequence nor state. */
Test(gradient_values, of_a_loop_that_only_sums) {
  const tn_entry x = fed_var("x", AXES(4, 2)), h = fed_var("h", AXES(2));
  tn_graph *s = net_new();
  HEADS(s, OP(s, "add", NULL, NULL, var_node(s, "h"), var_node(s, "x")));
  const tn_entry in[] = {x, h};
  const tn_entry out = loop_of(s, false, 2, rnn_keys, in);
  CHECK(out, fed_var("last", AXES(2)), x, h);
  tn__graph_release(s);
  feeds_drop();
}

/* The step ignores the state, so nothing depends on its old value. */
Test(gradient_values, of_a_loop_that_forgets) {
  const tn_entry x = fed_var("x", AXES(4, 2)), h = fed_var("h", AXES(2));
  tn_graph *s = net_new();
  const tn_entry sx = var_node(s, "x"), sh = var_node(s, "h");
  HEADS(s, OP(s, "square", NULL, NULL, sx), OP(s, "mul", NULL, NULL, sx, sh));
  const tn_entry in[] = {x, h};
  const tn_entry out = loop_of(s, false, 2, rnn_keys, in);
  CHECK(output_of(out, 1), fed_var("each", AXES(4, 2)), x, h);
  CHECK(out, fed_var("last", AXES(2)), x, h);
  tn__graph_release(s);
  feeds_drop();
}

/* The gradient's loop can be differentiated: its step has kernels with
 * operators as gradients. */
Test(gradient_values, of_gradients_of_a_loop) {
  const tn_entry x = fed_var("x", AXES(3, 2)), h = fed_var("h", AXES(2));
  const tn_entry u = fed_var("u", AXES(2)), last = fed_var("last", AXES(2));
  tn_graph *s = net_new();
  const tn_entry sx = var_node(s, "x"), sh = var_node(s, "h"),
                 su = var_node(s, "u");
  HEADS(s, OP(s, "tanh", NULL, NULL,
              OP(s, "add", NULL, NULL, OP(s, "mul", NULL, NULL, sh, su), sx)));
  const tn_entry in[] = {x, h, u};
  const tn_entry out =
      loop_of(s, false, 3, (const char *const[]){"x", "h", "u"}, in);
  tn_entry first[3];
  add_gradients(out, last, in, 3, first);
  CHECK(first[2], fed_var("more", AXES(2)), x, h, u, last);
  CHECK(first[0], fed_var("each", AXES(3, 2)), x, h, u, last);
  tn__graph_release(s);
  feeds_drop();
}
