/* SPDX-License-Identifier: Apache-2.0
 * Graphs and loops inside of graphs and loops: their inputs, the shapes of
 * their gradients, and programs of them for other shapes.
 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "program_fixture.h"

TestSuite(nested, .init = net_open, .fini = net_close);

static const char *const sequence[] = {"x"}, *const state[] = {"h"};

/* A loop over x with the state h, and the other inputs of its step. */
static tn_entry add_loop(tn_graph *graph, const tn_graph *step, size_t n,
                         const char *const *keys, const tn_entry *in) {
  tn_entry out;
  OK(tn__graph_loop(graph,
                    &(tn_loop){.struct_size = sizeof(tn_loop),
                               .n_in = (uint32_t)n,
                               .step = step,
                               .sequences = sequence,
                               .states = state,
                               .n_sequences = 1,
                               .n_states = 1,
                               .in = in,
                               .keys = keys},
                    &out));
  return out;
}

static const char *const keys[] = {"x", "h", "all", "z"};

static void expect_all(tn_array *array, double want) {
  double *v = elements_of(array);
  for (size_t i = 0; i < n_elements(array); ++i) cr_expect_eq(v[i], want);
  free(v);
}

static tn_array *create_same(double value, size_t ndim, const int64_t *shape) {
  double v[16];
  for (int i = 0; i < 16; ++i) v[i] = value;
  return create_doubles(ndim, shape, v);
}

/* h + the sum of x. */
static tn_graph *adding_graph(void) {
  tn_graph *s = net_new();
  HEADS(s, OP(s, "add", NULL, NULL, var_node(s, "h"), var_node(s, "x")));
  return s;
}

/* The step has many more entries than the outer graph, and a loop after them
 * all: each step adds 100 z, `all` has this sum, and x. */
Test(nested, loops_in_loops_use_their_own_entries) {
  enum { LONG = 100 };
  tn_graph *inner = adding_graph(), *step = net_new();
  const tn_entry all = var_node(step, "all"), z = var_node(step, "z");
  tn_entry h = var_node(step, "h");
  for (int i = 0; i < LONG; ++i) h = OP(step, "add", NULL, NULL, h, z);
  h = add_loop(step, inner, 2, keys, (const tn_entry[]){all, h});
  HEADS(step, OP(step, "add", NULL, NULL, h, var_node(step, "x")));
  const tn_entry in[] = {var_node(g, "x"), var_node(g, "h"), var_node(g, "all"),
                         var_node(g, "z")};
  HEADS(g, add_loop(g, step, 4, keys, in));
  give_array("x", create_same(2, SHAPE(5, 2)));
  give_array("h", create_same(1, SHAPE(2)));
  give_array("all", create_same(0.5, SHAPE(3, 2)));
  give_array("z", create_same(0.25, SHAPE(2)));
  for (uint32_t plan = TN_PLAN_DEFAULT; plan <= TN_PLAN_NONE; ++plan) {
    tn_program *p = BIND(.plan = plan);
    OK(tn__program_forward(p, 0));
    expect_all(head_of(p, 0), 1 + 5 * (LONG * 0.25 + 3 * 0.5 + 2));
    tn__program_release(p);
  }
  drop_arrays();
  tn__graph_release(step);
  tn__graph_release(inner);
}

/* -------------------------------------------------------------------- shapes
 */

/* The collected output has the loop's length and the state's shape, which is
 * not stated: it stays. */
Test(nested, a_passed_head_of_another_length_is_replaced) {
  tn_graph *step = net_new();
  const tn_entry h = var_node(step, "h");
  HEADS(step, OP(step, "add", NULL, NULL, h, h), h, var_node(step, "x"));
  const tn_entry in[] = {var_node(g, "x"), var_node(g, "h")};
  const tn_entry out = add_loop(g, step, 2, keys, in);
  HEADS(g, output_of(out, 1), out);
  give_array("x", create_same(2, SHAPE(4, 2)));
  give_array("h", create_same(1, SHAPE(3)));
  tn_array *mine[] = {create_same(0, SHAPE(4, 3)), create_same(0, SHAPE(3))};
  tn_program *p = BIND(.outputs = mine, .n_outputs = 2), *other = NULL;
  OK(tn__program_reshape(p, &(tn_known){"x", UNTYPED(2, 2)}, 1, &other));
  cr_assert_neq(head_of(other, 0), mine[0]);
  cr_assert_eq(head_of(other, 1), mine[1]);
  cr_assert_eq(n_elements(head_of(other, 0)), 6);
  OK(tn__program_forward(p, 0));
  expect_all(mine[1], 16);
  OK(tn__program_forward(other, 0));
  expect_all(mine[1], 4);
  tn__program_release(other);
  tn__program_release(p);
  tn__array_release(mine[0]), tn__array_release(mine[1]);
  drop_arrays();
  tn__graph_release(step);
}

static uint32_t n_arguments(tn_graph *graph) {
  const tn_entry *list = NULL;
  uint32_t n = 0, n_states = 0;
  OK(tn__graph_variables(graph, &list, &n, &n_states));
  return n;
}

static tn_entry gradient_of(tn_entry head, tn_entry of) {
  const tn__gradient_spec spec = {
      .query = {.heads = &head, .of = &of, .n_heads = 1, .n_of = 1}};
  tn_entry out;
  OK(tn__graph_gradient(g, &spec, &out));
  return out;
}

static tn_entry embed_graph(const tn_graph *inner, size_t n,
                            const char *const *names, const tn_entry *in) {
  tn_entry out;
  OK(tn__graph_embed(g,
                     &(tn_embedding){.struct_size = sizeof(tn_embedding),
                                     .n_in = (uint32_t)n,
                                     .inner = inner,
                                     .in = in,
                                     .keys = names},
                     &out));
  return out;
}

/* The gradient of a sum reads none of its terms, but has the shape of one. */
Test(nested, gradients_of_graphs_know_their_shapes) {
  static const char *const names[] = {"x", "b", "c"};
  tn_graph *inner = net_new();
  HEADS(inner, OP(inner, "plus_all", NULL, NULL,
                  OP(inner, "plus_all", NULL, NULL, var_node(inner, "x"),
                     var_node(inner, "b")),
                  var_node(inner, "c")));
  const tn_entry in[] = {var_node(g, "x"), var_node(g, "b"), var_node(g, "c")};
  const tn_entry y = embed_graph(inner, 3, names, in);
  HEADS(g, gradient_of(y, in[1]), gradient_of(y, in[0]));
  give_array("x", create_same(2, SHAPE(4, 1)));
  give_array("b", create_same(1, SHAPE(3)));
  give_array("c", create_same(1, SHAPE(2, 1, 1)));
  tn_program *p = BIND(.plan = TN_PLAN_DEFAULT);
  OK(tn__program_forward(p, 0));
  cr_assert_eq(n_elements(head_of(p, 0)), 3);
  expect_all(head_of(p, 0), 2 * 4);
  cr_assert_eq(n_elements(head_of(p, 1)), 4);
  expect_all(head_of(p, 1), 2 * 3);
  tn__program_release(p);
  drop_arrays();
  tn__graph_release(inner);
}

/* The same for elements of a sequence. */
Test(nested, gradients_of_loops_know_their_shapes) {
  tn_graph *step = net_new();
  HEADS(step, OP(step, "plus_all", NULL, NULL, var_node(step, "h"),
                 var_node(step, "x")));
  const tn_entry in[] = {var_node(g, "x"), var_node(g, "h")};
  const tn_entry y = add_loop(g, step, 2, keys, in);
  HEADS(g, gradient_of(y, in[0]));
  give_array("x", create_same(2, SHAPE(4, 1)));
  give_array("h", create_same(1, SHAPE(3)));
  tn_program *p = BIND(.plan = TN_PLAN_DEFAULT);
  OK(tn__program_forward(p, 0));
  cr_assert_eq(n_elements(head_of(p, 0)), 4);
  expect_all(head_of(p, 0), 3);
  tn__program_release(p);
  drop_arrays();
  tn__graph_release(step);
}

/* Elements of `x` and `w`, which are computed, are only summed: the gradient
 * reads no elements of them or of the loop's results. */
Test(nested, gradients_of_loops_keep_nothing_for_its_shape) {
  enum { WIDE = 1000 };
  static const char *const names[] = {"x", "h", "w"};
  tn_graph *step = net_new();
  HEADS(step, OP(step, "plus_all", NULL, NULL,
                 OP(step, "plus_all", NULL, NULL, var_node(step, "h"),
                    var_node(step, "x")),
                 var_node(step, "w")));
  const tn_entry in[] = {OP(g, "square", NULL, "x2", var_node(g, "x")),
                         var_node(g, "h"),
                         OP(g, "square", NULL, "w2", var_node(g, "w"))};
  const tn_entry y = add_loop(g, step, 3, names, in);
  HEADS(g, gradient_of(y, in[0]), gradient_of(y, in[2]), gradient_of(y, in[1]));
  give_array("x", create_filled(TN_F64, SHAPE(4, WIDE, 1)));
  give_array("h", create_filled(TN_F64, SHAPE(WIDE, 3)));
  give_array("w", create_filled(TN_F64, SHAPE(WIDE, 1)));
  for (uint32_t plan = TN_PLAN_DEFAULT; plan <= TN_PLAN_NONE; ++plan) {
    tn_program *p = BIND(.plan = plan);
    OK(tn__program_forward(p, 0));
    cr_assert_eq(n_elements(head_of(p, 0)), 4 * WIDE);
    expect_all(head_of(p, 0), 3);
    cr_assert_eq(n_elements(head_of(p, 1)), WIDE);
    expect_all(head_of(p, 1), 4 * 3);
    expect_all(head_of(p, 2), 1);
    has_text(p, "x2  nothing");
    has_text(p, "w2  nothing");
    has_text(p, "loop0  nothing");
    if (plan == TN_PLAN_DEFAULT) /* ones like y, zeros like an element of w */
      cr_assert_eq(stats_of(p).pool_bytes, (3 + 1) * WIDE * sizeof(double));
    tn__program_release(p);
  }
  drop_arrays();
  tn__graph_release(step);
}

/* The gradient of a gradient adds no arguments. With y the square of h + the
 * sum of x, dy/dh = 2 (h + sum), and the gradient of its square is 8 (h + sum).
 */
Test(nested, gradients_of_gradients_have_no_arguments_of_their_own) {
  tn_graph *step = adding_graph();
  const tn_entry in[] = {var_node(g, "x"), var_node(g, "h")};
  const tn_entry end = add_loop(g, step, 2, keys, in);
  const tn_entry y = OP(g, "mul", NULL, NULL, end, end);
  const tn_entry first = gradient_of(y, in[1]);
  HEADS(g, gradient_of(OP(g, "mul", NULL, NULL, first, first), in[0]));
  cr_assert_eq(n_arguments(g), 2);
  give_array("x", create_same(2, SHAPE(4, 3)));
  give_array("h", create_same(1, SHAPE(3)));
  tn_program *p = BIND(.plan = TN_PLAN_DEFAULT);
  OK(tn__program_forward(p, 0));
  expect_all(head_of(p, 0), 8 * (1 + 4 * 2));
  tn__program_release(p);
  drop_arrays();
  tn__graph_release(step);
}

/* ----------------------------------------------------------------- variables
 */

/* The step reads only the shapes of x and c. Outputs after the state are the
 * state before each step, and x and c of each step. */
static const char keeps[] =
    "{\"tenon\": 1, \"nodes\": [{\"name\": \"x\", \"kind\": \"variable\"},"
    "{\"name\": \"h\", \"kind\": \"variable\"},"
    "{\"name\": \"c\", \"kind\": \"variable\"},"
    "{\"name\": \"l\", \"kind\": \"loop\","
    " \"inputs\": [[1, 0], [0, 0], [2, 0]], \"sequences\": [1],"
    " \"carried\": [0], \"kept\": [[0, 0], [2, 0]], \"graph\": {\"nodes\": ["
    "{\"name\": \"x\", \"kind\": \"variable\"},"
    "{\"name\": \"h\", \"kind\": \"variable\"},"
    "{\"name\": \"c\", \"kind\": \"variable\"},"
    "{\"name\": \"a\", \"kind\": \"zero\", \"inputs\": [[0, 0]]},"
    "{\"name\": \"b\", \"kind\": \"zero\", \"inputs\": [[2, 0]]},"
    "{\"name\": \"p\", \"kind\": \"call\", \"op\": \"lab.add@1\","
    " \"inputs\": [[1, 0], [3, 0]]},"
    "{\"name\": \"q\", \"kind\": \"call\", \"op\": \"lab.add@1\","
    " \"inputs\": [[5, 0], [4, 0]]}], \"heads\": [[6, 0]]}}],"
    " \"heads\": [[3, 2], [3, 3]]}";

Test(nested, variables_that_are_kept_are_read) {
  tn_graph *parsed = NULL;
  OK(tn__graph_parse(&w.caller, keeps, strlen(keeps), &parsed));
  tn__graph_release(g);
  g = parsed;
  give_array("x", create_same(2, SHAPE(4, 3)));
  give_array("h", create_same(1, SHAPE(3)));
  give_array("c", create_same(5, SHAPE(3)));
  for (uint32_t plan = TN_PLAN_DEFAULT; plan <= TN_PLAN_NONE; ++plan) {
    tn_program *p = BIND(.plan = plan);
    OK(tn__program_forward(p, 0));
    cr_assert_eq(n_elements(head_of(p, 0)), 4 * 3);
    expect_all(head_of(p, 0), 2);
    cr_assert_eq(n_elements(head_of(p, 1)), 4 * 3);
    expect_all(head_of(p, 1), 5);
    tn__program_release(p);
  }
  drop_arrays();
}
