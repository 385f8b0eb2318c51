/* SPDX-License-Identifier: Apache-2.0
 * Shapes and element types over graphs: in both directions, from partial facts,
 * to a fixed point; through gradients, inner graphs and loops; and messages for
 * contradicting or missing facts. Expected numbers are computed by hand, or are
 * those of MXNet's tests of the same name.
 */
#include <stdio.h>
#include <string.h>

#include "net.h"

TestSuite(graph_infer, .init = net_open, .fini = net_close);

static tn_known known_sig(const char *name, tn_sig sig) {
  return (tn_known){name, sig};
}

/* Of unknown shape. */
static tn_sig nothing_of(tn_dtype dtype) {
  return (tn_sig){.dtype = dtype, .ndim = -1};
}

#define INFER(...)                                    \
  tn__graph_infer(g, (const tn_known[]){__VA_ARGS__}, \
                  sizeof((tn_known[]){__VA_ARGS__}) / sizeof(tn_known))

static tn_entry find_entry(const char *name) {
  tn_entry entry;
  OK(tn__graph_find(g, name, &entry));
  return entry;
}

static void expect_sig(const char *name, tn_sig want) {
  is_sig(g, find_entry(name), want);
}

/* ------------------------------------------------ cases of MXNet's own tests
 */

static tn_entry mlp_graph(void) {
  const tn_entry data = var_node(g, "data");
  const tn_entry fc1 = OP(g, "dense", "num_hidden=1000", "fc1", data);
  const tn_entry act = OP(g, "tanh", NULL, "act", fc1);
  const tn_entry fc2 = OP(g, "dense", "num_hidden=10", "fc2", act);
  HEADS(g, fc2);
  return fc2;
}

Test(graph_infer, mlp2_infer_shape) {
  const tn_entry out = mlp_graph();
  OK(INFER(known_sig("data", F32(100, 100))));
  expect_sig("fc1_weight", F32(1000, 100));
  expect_sig("fc1_bias", F32(1000));
  expect_sig("fc2_weight", F32(10, 1000));
  expect_sig("fc2_bias", F32(10));
  is_sig(g, out, F32(100, 10));
}

Test(graph_infer, mlp2_infer_error) {
  mlp_graph();
  FAILS(INFER(known_sig("data", F32(100, 100)),
              known_sig("fc1_weight", F32(1, 100))),
        TN_SHAPE, "node `fc1` (lab.dense@1): shapes contradict",
        "dimension 0 of input `weight` is 1 by input `weight` (1,100)",
        "`data` is `data` (100,100), as was given",
        "`weight` is `fc1_weight` (1,100), as was given");
  expect_sig("data", nothing_of(TN_DTYPE_UNKNOWN)); /* nothing is kept */
}

/* The gradient has the shape of its entry. */
Test(graph_infer, backward_infer) {
  const tn_entry raw = var_node(g, "w");
  const tn_entry shifted = OP(g, "affine", "shift=1", NULL, raw);
  const tn_entry fc =
      OP(g, "dense", "num_hidden=1000", "fc", var_node(g, "data"), shifted);
  const tn__node *node = tn__node_at(g, fc.node);
  const tn_entry head = var_node(g, "head"), none = TN_ENTRY_NONE;
  tn__node *back = NULL;
  OK(tn__node_add(g,
                  &(tn__node_spec){.kind = TN__NODE_BACKWARD,
                                   .n_in = 5,
                                   .n_out = 3,
                                   .of = fc.node,
                                   .name = "back",
                                   .op = node->op,
                                   .params = node->params,
                                   .in = (tn_entry[]){head, node->in[0],
                                                      shifted, none, none}},
                  &back));
  HEADS(g, fc, (tn_entry){back->id, 0}, (tn_entry){back->id, 1});
  OK(INFER(known_sig("data", F32(7, 100))));
  expect_sig("w", F32(1000, 100));
  expect_sig("head", F32(7, 1000));
  is_sig(g, (tn_entry){back->id, 0}, F32(7, 100));
  is_sig(g, (tn_entry){back->id, 1}, F32(1000, 100));
  is_sig(g, (tn_entry){back->id, 2}, F32(1000));
}

/* A gradient also determines the shape of its entry. */
Test(graph_infer, a_gradient_tells_the_forward_node) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  const tn_entry out = OP(g, "mul", NULL, "out", x, x);
  tn__node *back = NULL;
  OK(tn__node_add(g,
                  &(tn__node_spec){.kind = TN__NODE_BACKWARD,
                                   .n_in = 4,
                                   .n_out = 2,
                                   .of = out.node,
                                   .name = "back",
                                   .op = tn__node_at(g, out.node)->op,
                                   .in = (tn_entry[]){var_node(g, "head"), x, x,
                                                      TN_ENTRY_NONE}},
                  &back));
  const tn_entry use = OP(g, "add", NULL, "use", (tn_entry){back->id, 1}, y);
  HEADS(g, use, (tn_entry){back->id, 0});
  OK(INFER(known_sig("y", F64(3, 4))));
  expect_sig("x", F64(3, 4));
  expect_sig("head", F64(3, 4));
  is_sig(g, (tn_entry){back->id, 0}, F64(3, 4));
}

Test(graph_infer, incomplete_infer_elewise) {
  const tn_entry a = typed_var(g, "a", F32(-1, 10));
  const tn_entry b = typed_var(g, "b", F32(12, -1));
  HEADS(g, OP(g, "add", NULL, NULL, a, b));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("a", F32(12, 10));
  expect_sig("b", F32(12, 10));
}

Test(graph_infer, incomplete_infer_mlp) {
  const tn_entry a = typed_var(g, "a", F32(-1, 10));
  const tn_entry b = OP(g, "dense", "num_hidden=21", NULL, a);
  const tn_entry c = typed_var(g, "c", F32(5, -1));
  HEADS(g, OP(g, "add", NULL, NULL, b, c));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("a", F32(5, 10));
  expect_sig("c", F32(5, 21));
}

Test(graph_infer, incomplete_infer_slicechannel) {
  const tn_entry a = typed_var(g, "a", F32(-1, 10)),
                 c = typed_var(g, "c", F32(5));
  const tn_entry b = OP(g, "columns", "parts=10", NULL, a);
  const tn_entry d = OP(g, "add", NULL, NULL, output_of(b, 1), output_of(b, 3));
  const tn_entry x = typed_var(g, "x", F64(-1, 15, -1));
  const tn_entry y = OP(g, "slices", "parts=3", NULL, x);
  const tn_entry z = typed_var(g, "z", F64(3, 5, 2));
  HEADS(g, OP(g, "add", NULL, NULL, d, c),
        OP(g, "add", NULL, NULL, output_of(y, 1), z));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("a", F32(5, 10));
  expect_sig("x", F64(3, 15, 2));
}

Test(graph_infer, incomplete_infer_convolution) {
  const tn_entry a = typed_var(g, "a", F32(-1, 10, -1, -1));
  const tn_entry b =
      OP(g, "conv", "num_filter=21 kernel=[3,3] pad=[1,1]", "b", a);
  HEADS(g, OP(g, "add", NULL, NULL, b, typed_var(g, "c", F32(5, 21, 32, 32))));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("a", F32(5, 10, 32, 32));
  expect_sig("b_weight", F32(21, 10, 3, 3));
}

Test(graph_infer, incomplete_infer_concat) {
  const tn_entry a = typed_var(g, "a", F32(-1, 10)),
                 b = typed_var(g, "b", F32(-1, 5));
  const tn_entry c = OP(g, "concat", NULL, NULL, a, b);
  const tn_entry d = typed_var(g, "d", F32(2, -1));
  HEADS(g, OP(g, "add", NULL, NULL, d, c));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("a", F32(2, 10));
  expect_sig("b", F32(2, 5));
  expect_sig("d", F32(2, 15));
}

Test(graph_infer, fc_infer_type) {
  mlp_graph();
  OK(INFER(known_sig("data", SIG(TN_F16, 100, 100))));
  expect_sig("fc1_weight", SIG(TN_F16, 1000, 100));
  expect_sig("fc2_bias", SIG(TN_F16, 10));
}

Test(graph_infer, symbol_infer_type) {
  const tn_entry data = var_node(g, "data");
  const tn_entry cast = OP(g, "cast", "dtype=f32", NULL, data);
  const tn_entry fc1 = OP(g, "dense", "num_hidden=128", "fc1", cast);
  const tn_entry label = var_node(g, "label");
  HEADS(g, OP(g, "sub", NULL, NULL, fc1, label));
  FAILS(INFER(known_sig("data", nothing_of(TN_F16))), TN_INCOMPLETE, "`data`");
  cr_assert_eq(tn__entry_sig(g, data)->dtype, TN_F16);
  cr_assert_eq(tn__entry_sig(g, find_entry("fc1_weight"))->dtype, TN_F32);
  cr_assert_eq(tn__entry_sig(g, label)->dtype, TN_F32);
  /* and from the far side */
  FAILS(INFER(known_sig("label", nothing_of(TN_F64))), TN_DTYPE,
        "node `sub0` (lab.sub@1)", "element types contradict",
        "`fc1_output` f32, as made by node `fc1` (lab.dense@1)");
}

Test(graph_infer, symbol_infer_shape) {
  const tn_entry x2h =
      OP(g, "dense", "num_hidden=128", "x2h", var_node(g, "data"));
  const tn_entry h2h =
      OP(g, "dense", "num_hidden=128", "h2h", var_node(g, "prevstate"));
  const tn_entry out =
      OP(g, "tanh", NULL, "out", OP(g, "add", NULL, NULL, x2h, h2h));
  HEADS(g, out);
  FAILS(INFER(known_sig("data", F32(10, 64))), TN_INCOMPLETE,
        "`prevstate` (10,?), `h2h_weight` (128,?)");
  expect_sig("data", F32(10, 64));
  expect_sig("x2h_weight", F32(128, 64));
  expect_sig("h2h_weight", F32(128, -1));
  expect_sig("prevstate", F32(10, -1));
  is_sig(g, out, F32(10, 128));
  OK(INFER(known_sig("data", F32(10, 64)),
           known_sig("prevstate", F32(10, 128))));
  expect_sig("h2h_weight", F32(128, 128));
}

Test(graph_infer, symbol_infer_shape_var) {
  const tn_entry a = typed_var(g, "a", F32(2, 3)), b = var_node(g, "b");
  HEADS(g, OP(g, "add", NULL, "sum", a, b));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("b", F32(2, 3));
  OK(INFER(known_sig("a", UNTYPED(5, 6)))); /* it is still f32 */
  expect_sig("a", F32(5, 6));
  expect_sig("sum_output", F32(5, 6));
}

/* Facts at both ends meet after as many steps as there are nodes, in either
 * direction. */
Test(graph_infer, incomplete_shape_inference_in_one_pass) {
  enum { N = 40 };
  tn_entry v[N + 1], sums[N];
  for (int i = 0; i <= N; ++i) {
    char name[16];
    (void)snprintf(name, sizeof name, "v%d", i);
    v[i] = var_node(g, name);
  }
  for (int i = N - 1; i >= 0; --i)
    sums[i] = OP(g, "add", NULL, NULL, v[i], v[i + 1]);
  OK(tn__graph_heads_set(g, sums, N));
  OK(INFER(known_sig("v0", F32(5, -1)), known_sig("v40", UNTYPED(-1, 7))));
  for (int i = 0; i <= N; ++i) is_sig(g, v[i], F32(5, 7));
}

/* ------------------------------------------------------------- both directions
 */

Test(graph_infer, products_and_sums_of_partial_shapes_meet) {
  const tn_entry a = typed_var(g, "a", F32(2, -1)), b = var_node(g, "b");
  const tn_entry c = typed_var(g, "c", UNTYPED(-1, 3));
  const tn_entry d = OP(g, "add", NULL, "d", OP(g, "mul", NULL, NULL, a, b),
                        OP(g, "mul", NULL, NULL, b, c));
  HEADS(g, d);
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("a", F32(2, 3));
  expect_sig("b", F32(2, 3));
  expect_sig("c", F32(2, 3));
  is_sig(g, d, F32(2, 3));
}

Test(graph_infer, a_state_is_inferred_like_an_input) {
  const tn_entry out = OP(g, "track", NULL, "t", typed_var(g, "x", F64(4, 2)));
  HEADS(g, out);
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("t_sum", F64(4, 2));
}

Test(graph_infer, an_input_that_is_not_there_is_no_obstacle) {
  const tn_entry x = typed_var(g, "x", F64(4, 2)), weight = var_node(g, "w");
  HEADS(g, OP(g, "dense", "num_hidden=3", "fc", x, weight, TN_ENTRY_NONE));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("w", F64(3, 2));
  expect_sig("fc_output", F64(4, 3));
}

Test(graph_infer, single_numbers_and_empty_arrays_are_known) {
  const tn_entry a = typed_var(g, "a", SCALAR(TN_F64)), b = var_node(g, "b");
  const tn_entry c = typed_var(g, "c", F64(0, 3)), d = var_node(g, "d");
  HEADS(g, OP(g, "add", NULL, NULL, a, b), OP(g, "add", NULL, NULL, c, d));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("b", SCALAR(TN_F64));
  expect_sig("d", F64(0, 3));
}

static tn_entry plain_node(uint32_t kind, const char *name, uint32_t n,
                           const tn_entry *in) {
  tn__node *node = NULL;
  OK(tn__node_add(g,
                  &(tn__node_spec){.kind = kind,
                                   .n_in = n,
                                   .n_out = 1,
                                   .of = TN_NONE,
                                   .name = name,
                                   .in = in},
                  &node));
  return (tn_entry){node->id, 0};
}

Test(graph_infer, sums_zeros_ones_and_copies_are_like_their_inputs) {
  const tn_entry a = var_node(g, "a"), b = typed_var(g, "b", F64(-1, 3)),
                 c = var_node(g, "c");
  const tn_entry sum =
      plain_node(TN__NODE_SUM, "sum", 3, (tn_entry[]){a, b, c});
  const tn_entry zero = plain_node(TN__NODE_ZERO, "zero", 1, &sum);
  const tn_entry one = plain_node(TN__NODE_ONE, "one", 1, &zero);
  const tn_entry copy = plain_node(TN__NODE_COPY, "copy", 1, &one);
  HEADS(g, OP(g, "add", NULL, NULL, copy, typed_var(g, "d", UNTYPED(2, -1))));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("a", F64(2, 3));
  expect_sig("c", F64(2, 3));
  is_sig(g, sum, F64(2, 3));
  is_sig(g, copy, F64(2, 3));
}

Test(graph_infer, a_sum_names_the_two_that_contradict) {
  const tn_entry a = typed_var(g, "a", F64(2, 3)), b = var_node(g, "b");
  const tn_entry c = typed_var(g, "c", F64(2, 4));
  const tn_entry in[] = {b, OP(g, "tanh", NULL, "t", a), c};
  HEADS(g, plain_node(TN__NODE_SUM, "sum", 3, in));
  FAILS(tn__graph_infer(g, NULL, 0), TN_SHAPE, "node `sum`: shapes contradict",
        "`b` (2,3), by node `t` (lab.tanh@1)",
        "`c` (2,4), as was given, must be the same");
}

/* Facts are kept, and only new nodes are visited. */
Test(graph_infer, goes_on_when_nodes_are_added) {
  const tn_entry a = var_node(g, "a");
  const tn_entry b = OP(g, "tanh", NULL, "b", a);
  HEADS(g, b);
  FAILS(INFER(known_sig("a", F64(-1, 3))), TN_INCOMPLETE, "`a` (?,3)");
  const tn_entry c =
      OP(g, "add", NULL, "c", b, typed_var(g, "d", UNTYPED(9, -1)));
  HEADS(g, c);
  OK(tn__graph_infer_more(g));
  expect_sig("a", F64(9, 3));
  is_sig(g, c, F64(9, 3));
  tn__graph_truncate(g, c.node);
  const tn_entry e = OP(g, "dense", "num_hidden=2", "e", b);
  HEADS(g, e);
  OK(tn__graph_infer_more(g));
  is_sig(g, e, F64(9, 2));
}

Test(graph_infer, a_hundred_thousand_nodes_follow_from_the_end) {
  enum { N = 100000 };
  tn_entry x = var_node(g, "x");
  for (int i = 0; i < N; ++i) x = OP(g, "tanh", NULL, NULL, x);
  HEADS(g, OP(g, "add", NULL, NULL, x, typed_var(g, "y", F64(2))));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("x", F64(2));
}

/* ------------------------------------------------------------------ messages
 */

Test(graph_infer, names_the_sources_of_a_contradiction) {
  const tn_entry data = typed_var(g, "data", F64(5, 3));
  const tn_entry h = OP(g, "dense", "num_hidden=4", "h", data);
  const tn_entry label = typed_var(g, "label", F64(5, 7));
  const tn_entry loss = OP(g, "sub", NULL, "loss", h, label);
  HEADS(g, loss);
  FAILS(tn__graph_infer(g, NULL, 0), TN_SHAPE, "node `loss` (lab.sub@1)",
        "`lhs` is `h_output` (5,4), as made by node `h` (lab.dense@1)",
        "`rhs` is `label` (5,7), as was given");
}

Test(graph_infer, names_the_rule_that_needs_a_shape) {
  const tn_entry data = typed_var(g, "data", F64(5, 3)),
                 both = var_node(g, "w");
  const tn_entry a = OP(g, "dense", "num_hidden=4", "a", data, both);
  const tn_entry b = OP(g, "dense", "num_hidden=6", "b", data, both);
  HEADS(g, a, b);
  FAILS(tn__graph_infer(g, NULL, 0), TN_SHAPE, "node `b` (lab.dense@1)",
        "`weight` is `w` (4,3), by node `a` (lab.dense@1)");
}

Test(graph_infer, one_entry_cannot_be_two_things) {
  const tn_entry x = typed_var(g, "x", F64(4, 3));
  HEADS(g, OP(g, "dense", "num_hidden=5", "fc", x, x));
  FAILS(tn__graph_infer(g, NULL, 0), TN_SHAPE, "node `fc` (lab.dense@1)",
        "`x` (4,3), as was given");
}

Test(graph_infer, types_contradict_by_name) {
  const tn_entry a = typed_var(g, "a", F64(2)), b = typed_var(g, "b", F32(2));
  HEADS(g, OP(g, "add", NULL, "sum", OP(g, "tanh", NULL, "t", a), b));
  FAILS(tn__graph_infer(g, NULL, 0), TN_DTYPE, "node `sum` (lab.add@1)",
        "`lhs` is `t_output` f64, as made by node `t` (lab.tanh@1)",
        "`rhs` is `b` f32, as was given");
}

Test(graph_infer, lists_ten_names_of_unknown_entries) {
  tn_entry heads[12];
  for (int i = 0; i < 12; ++i) {
    char name[16];
    (void)snprintf(name, sizeof name, "v%d", i);
    heads[i] = var_node(g, name);
  }
  OK(tn__graph_heads_set(g, heads, 12));
  FAILS(tn__graph_infer(g, NULL, 0), TN_INCOMPLETE,
        "not enough is known of `v0` of unknown shape and type, `v1`",
        "`v9` of unknown shape and type and 2 more; state more");
  FAILS(INFER(known_sig("v3", F64(1)), known_sig("v0", F64(1))), TN_INCOMPLETE,
        "known of `v1` of unknown shape and type, `v2`", "`v11` of unknown");
  cr_assert_null(strstr(tn_error_text(), "`v3`"));
}

Test(graph_infer, entries_that_no_head_needs_may_be_unknown) {
  const tn_entry a = typed_var(g, "a", F64(2)), b = var_node(g, "b");
  const tn_entry c = OP(g, "tanh", NULL, "c", a);
  (void)OP(g, "tanh", NULL, "d", b);
  HEADS(g, c);
  OK(tn__graph_infer(g, NULL, 0));
}

Test(graph_infer, an_output_that_compute_decides_is_never_known) {
  HEADS(g, OP(g, "find", NULL, "f", typed_var(g, "x", F64(4))));
  FAILS(tn__graph_infer(g, NULL, 0), TN_INCOMPLETE,
        "`f_output` of unknown shape until it is computed");
}

Test(graph_infer, facts_must_be_of_a_variable) {
  const tn_entry data = var_node(g, "data");
  HEADS(g, OP(g, "tanh", NULL, "t", data));
  FAILS(INFER(known_sig("dta", F64(2))), TN_NOT_FOUND,
        "the graph has no variable `dta`; did you mean `data`?");
  FAILS(INFER(known_sig("t", F64(2))), TN_NOT_FOUND, "no variable `t`");
  FAILS(INFER(known_sig("data", F64(2)), known_sig("more", F64(2))), TN_INVALID,
        "2 variables, but the graph has 1");
  FAILS(INFER(known_sig("data", F64(-2))), TN_INVALID, "dimension 0 is -2");
  FAILS(INFER(known_sig("data", (tn_sig){.ndim = 17})), TN_INVALID, "rank 17");
  FAILS(INFER(known_sig("data", (tn_sig){.dtype = 0x7777, .ndim = -1})),
        TN_DTYPE, "0x7777 is no element type");
}

/* ------------------------------------------------------------- inner graphs */

/* out = tanh(dense(x, w)), with w unknown. */
static tn_graph *block_graph(void) {
  tn_graph *b = net_new();
  HEADS(b, OP(b, "tanh", NULL, "out",
              OP(b, "dense", "num_hidden=4", "fc", var_node(b, "x"))));
  return b;
}

static tn_entry embed_graph(const tn_graph *inner, const char *name,
                            const char *const *keys, const tn_entry *in,
                            uint32_t n) {
  tn_entry out;
  OK(tn__graph_embed(g,
                     &(tn_embedding){.struct_size = sizeof(tn_embedding),
                                     .n_in = n,
                                     .inner = inner,
                                     .name = name,
                                     .in = in,
                                     .keys = keys},
                     &out));
  return out;
}

Test(graph_infer, an_inner_graph_is_inferred_from_outside_and_back) {
  tn_graph *b = block_graph();
  const tn_entry x = var_node(g, "x");
  const tn_entry y = embed_graph(b, "block", (const char *const[]){"x"}, &x, 1);
  const tn_entry z = OP(g, "add", NULL, "z", y, typed_var(g, "t", F64(6, -1)));
  HEADS(g, z);
  OK(INFER(known_sig("x", UNTYPED(-1, 3))));
  expect_sig("x", F64(6, 3));
  expect_sig("block_fc_weight", F64(4, 3));
  is_sig(g, y, F64(6, 4));
  expect_sig("t", F64(6, 4));
  tn__graph_release(b);
}

Test(graph_infer, two_uses_of_an_inner_graph_are_separate) {
  tn_graph *b = block_graph();
  const tn_entry p = typed_var(g, "p", F64(2, 3)),
                 q = typed_var(g, "q", F32(5, 7));
  const char *const keys[] = {"x"};
  const tn_entry y = embed_graph(b, "a", keys, &p, 1),
                 z = embed_graph(b, "b", keys, &q, 1);
  HEADS(g, y, z);
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("a_fc_weight", F64(4, 3));
  expect_sig("b_fc_weight", F32(4, 7));
  tn__graph_release(b);
}

Test(graph_infer, a_contradiction_inside_names_both_nodes) {
  tn_graph *b = block_graph();
  const tn_entry in[] = {typed_var(g, "x", F64(2, 3)),
                         typed_var(g, "w", F64(4, 5))};
  const char *const keys[] = {"x", "fc_weight"};
  HEADS(g, embed_graph(b, "block", keys, in, 2));
  FAILS(tn__graph_infer(g, NULL, 0), TN_SHAPE,
        "node `block`: node `fc` (lab.dense@1): shapes contradict",
        "`x` (2,3), as the graph around it says",
        "`fc_weight` (4,5), as the graph around it says");
  tn__graph_release(b);
}

Test(graph_infer, unknown_entries_of_an_inner_graph_are_named) {
  tn_graph *b = net_new();
  const tn_entry x = var_node(b, "x");
  HEADS(b, OP(b, "find", NULL, "f", x));
  const tn_entry out = typed_var(g, "x", F64(3));
  HEADS(g, embed_graph(b, "block", NULL, &out, 1));
  FAILS(tn__graph_infer(g, NULL, 0), TN_INCOMPLETE, "`block/f_output`");
  tn__graph_release(b);
}

/* --------------------------------------------------------------------- loops
 */

/* h = tanh(dense(x, w) + h); out = square(h). */
static tn_entry recurrent_graph(const tn_entry *in, const char *const *keys,
                                uint32_t n) {
  tn_graph *s = net_new();
  const tn_entry x = var_node(s, "x"), h = var_node(s, "h");
  const tn_entry fc = OP(s, "dense", "num_hidden=4", "fc", x, var_node(s, "w"));
  const tn_entry next =
      OP(s, "tanh", NULL, "next", OP(s, "add", NULL, NULL, fc, h));
  tn_entry out;
  HEADS(s, next, OP(s, "square", NULL, "out", next));
  OK(tn__graph_loop(g,
                    &(tn_loop){.struct_size = sizeof(tn_loop),
                               .n_in = n,
                               .step = s,
                               .name = "loop",
                               .sequences = (const char *const[]){"x"},
                               .states = (const char *const[]){"h"},
                               .n_sequences = 1,
                               .n_states = 1,
                               .in = in,
                               .keys = keys},
                    &out));
  tn__graph_release(s);
  return out;
}

Test(graph_infer, a_loop_has_one_more_axis_outside) {
  const tn_entry x = typed_var(g, "x", F64(7, 2, 3));
  const tn_entry out = recurrent_graph(&x, (const char *const[]){"x"}, 1);
  HEADS(g, out, output_of(out, 1));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("loop_w", F64(4, 3));
  expect_sig("loop_h", F64(2, 4));
  is_sig(g, out, F64(2, 4));                  /* the last state */
  is_sig(g, output_of(out, 1), F64(7, 2, 4)); /* collected */
  is_sig(g, output_of(out, 2), F64(7, 2, 4)); /* each state before its step */
}

Test(graph_infer, outputs_of_a_loop_determine_its_inputs) {
  const tn_entry x = typed_var(g, "x", F64(-1, -1, 3));
  const tn_entry out = recurrent_graph(&x, (const char *const[]){"x"}, 1);
  const tn_entry sum = OP(g, "add", NULL, NULL, output_of(out, 1),
                          typed_var(g, "t", UNTYPED(9, 2, -1)));
  HEADS(g, sum);
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("x", F64(9, 2, 3));
  expect_sig("loop_h", F64(2, 4));
  expect_sig("t", F64(9, 2, 4));
}

Test(graph_infer, a_state_is_alike_before_and_after_a_step) {
  const tn_entry in[] = {typed_var(g, "x", F64(7, 2, 3)),
                         typed_var(g, "h", F64(2, 5))};
  HEADS(g, recurrent_graph(in, (const char *const[]){"x", "h"}, 2));
  FAILS(tn__graph_infer(g, NULL, 0), TN_SHAPE, "node `loop`", "(2,4)",
        "(2,5), as the graph around it says");
}

Test(graph_infer, a_loop_needs_an_axis_to_go_along) {
  const tn_entry x = typed_var(g, "x", SCALAR(TN_F64));
  HEADS(g, recurrent_graph(&x, (const char *const[]){"x"}, 1));
  FAILS(tn__graph_infer(g, NULL, 0), TN_SHAPE, "node `loop`: `x` is a single");
}

Test(graph_infer, a_loop_does_not_go_along_packed_elements) {
  const tn_entry x =
      typed_var(g, "x", (tn_sig){.dtype = TN_I4, .ndim = 2, .shape = {7, 3}});
  HEADS(g, recurrent_graph(&x, (const char *const[]){"x"}, 1));
  FAILS(tn__graph_infer(g, NULL, 0), TN_UNSUPPORTED,
        "node `loop`: `x` is i4, whose elements share bytes", "elemwise.cast");
}

/* -------------------------------------------------------------------- faults
 */

Test(graph_infer, survives_each_failing_allocation) {
  const tn_entry in[] = {var_node(g, "x"), typed_var(g, "y", F64(-1, 4))};
  const tn_entry out = recurrent_graph(in, (const char *const[]){"x"}, 1);
  HEADS(g, OP(g, "add", NULL, NULL, out, in[1]));
  const tn_known all = known_sig("x", F64(7, 2, 3));
  int64_t struck = 0;
  for (int64_t i = 1;; ++i) {
    w.memory.asked = 0;
    w.memory.fail_at = i;
    const tn_code rc = tn__graph_infer(g, &all, 1);
    w.memory.fail_at = 0;
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
    cr_assert_eq(g->n_sigs, 0);
    ++struck;
  }
  cr_assert_gt(struck, 10);
  expect_sig("y", F64(2, 4));
}

Test(graph_infer, a_call_of_a_gradient_names_the_differentiated_node) {
  const tn_entry x = typed_var(g, "x", F32(3, 4));
  const tn_entry y = OP(g, "skewed", NULL, "y", x);
  tn_entry dx;
  OK(tn__graph_gradient(
      g,
      &(tn__gradient_spec){
          .query = {.heads = &y, .of = &x, .n_heads = 1, .n_of = 1}},
      &dx));
  HEADS(g, dx);
  FAILS(tn__graph_infer(g, NULL, 0), TN_SHAPE,
        "(lab.sub@1, for the gradient of lab.skewed@1): ");
}

/* ----------------------------------------------------------- usual shapes */

/* `gate` accepts a gamma of (1); by default gamma has one number per column. */
static void build_gates(bool gate_first) {
  const tn_entry data = typed_var(g, "data", F32(4, 3)),
                 gamma = var_node(g, "gamma");
  const tn_entry one = typed_var(g, "one", F32(1));
  const tn_entry first = gate_first ? OP(g, "gate", NULL, "gate", data, gamma)
                                    : OP(g, "sub", NULL, "same", gamma, one);
  const tn_entry second = gate_first ? OP(g, "sub", NULL, "same", gamma, one)
                                     : OP(g, "gate", NULL, "gate", data, gamma);
  HEADS(g, first, second);
}

Test(graph_infer, a_usual_shape_waits_for_all_that_others_tell) {
  build_gates(true);
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("gamma", F32(1));
  net_renew();
  build_gates(false);
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("gamma", F32(1));
}

Test(graph_infer, an_unstated_shape_is_the_default_one) {
  const tn_entry gamma = var_node(g, "gamma");
  HEADS(g, OP(g, "gate", NULL, "gate", typed_var(g, "data", F32(4, 3)), gamma));
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("gamma", F32(3));
}

Test(graph_infer, a_usual_shape_reaches_an_embedded_graph) {
  tn_entry out;
  tn_graph *inner = net_new();
  HEADS(inner, OP(inner, "gate", NULL, "gate", var_node(inner, "in"),
                  var_node(inner, "factor")));
  const tn_entry in[] = {typed_var(g, "data", F32(4, 3)), var_node(g, "gamma")};
  OK(tn__graph_embed(g,
                     &(tn_embedding){.struct_size = sizeof(tn_embedding),
                                     .inner = inner,
                                     .name = "block",
                                     .n_in = 2,
                                     .in = in},
                     &out));
  HEADS(g, out);
  OK(tn__graph_infer(g, NULL, 0));
  expect_sig("gamma", F32(3));
  tn__graph_release(inner);
}
