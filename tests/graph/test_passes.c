/* SPDX-License-Identifier: Apache-2.0
 * Passes of a plugin rewrite graphs and programs, and the library checks their
 * needs before any of them runs. A pass that fails, or breaks the graph, leaves
 * the graph unchanged; the message names pass, plugin and node. The plugin is
 * tests/graph/passes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pass_fixture.h"

TestSuite(passes, .init = open_all, .fini = net_close);

/* ----------------------------------------------------------------- rewriting
 */

Test(passes, rewrite_a_pattern) {
  simple_net();
  tn_graph *out = apply_passes(NAMES("rewriter.square"));
  cr_expect_str_eq(list_nodes(out),
                   "x v square:square0 same:z add:s >s_output");
  tn__graph_release(out);
}

Test(passes, follow_one_another) {
  simple_net();
  tn_graph *out = apply_passes(NAMES("rewriter.square", "rewriter.tidy"));
  cr_expect_str_eq(list_nodes(out), "x v square:square0 add:s >s_output");
  tn__graph_release(out);
}

Test(passes, that_change_nothing_leave_a_copy) {
  var_node(g, "alone");
  simple_net();
  OP(g, "tanh", NULL, "unused", var_node(g, "u"));
  char *before = json_of(g);
  tn_graph *out = apply_passes(NAMES("rewriter.bold", "rewriter.again"));
  char *after = json_of(out);
  cr_expect_str_eq(after, before);
  free(before), free(after);
  tn__graph_release(out);
}

/* A pass leaves nodes alone that no head needed before. */
Test(passes, remove_only_nodes_that_they_made_useless) {
  simple_net();
  tn_entry y;
  OK(tn__graph_find(g, "y_output", &y));
  OP(g, "tanh", NULL, "unused", y);
  tn_graph *out = apply_passes(NAMES("rewriter.square"));
  cr_expect_str_eq(list_nodes(out),
                   "x v square:square0 same:z add:s tanh:unused >s_output");
  tn__graph_release(out);
}

Test(passes, put_calls_after_their_inputs) {
  const tn_entry x = var_node(g, "x");
  const tn_entry y = OP(g, "affine", "scale=3 shift=1", "y", x);
  HEADS(g, OP(g, "tanh", NULL, "z", y));
  tn_graph *out = apply_passes(NAMES("rewriter.again"));
  cr_expect_str_eq(list_nodes(out),
                   "x affine:y affine:affine0 tanh:z >z_output");
  const tn__node *added = tn__map_get(&out->names, "affine0");
  const tn__node *first = tn__map_get(&out->names, "y");
  cr_expect_eq(memcmp(tn__node_struct(added), tn__node_struct(first),
                      first->desc->params_size),
               0);
  tn__graph_release(out);
}

Test(passes, of_a_hundred_thousand_nodes_take_time_in_proportion) {
  enum { N = 50000 };
  tn_entry y = var_node(g, "x");
  for (int i = 0; i < N; ++i)
    y = OP(g, "same", NULL, NULL, OP(g, "mul", NULL, NULL, y, y));
  HEADS(g, y);
  tn_graph *out = apply_passes(NAMES("rewriter.square", "rewriter.tidy"));
  cr_expect_eq(tn__n_nodes(out), N + 1);
  tn__graph_release(out);
}

Test(passes, know_the_shapes_that_the_graph_knows) {
  known_net();
  tn_graph *out = apply_passes(NAMES("rewriter.square", "rewriter.mark"));
  tn_entry head;
  OK(tn__graph_find(out, "square0_output", &head));
  cr_expect_str_eq(tn__attribute_get(tn__node_at(out, head.node), "length"),
                   "3");
  is_sig(out, head, F32(3));
  tn__graph_release(out);
}

Test(passes, of_the_library_are_in_the_same_list) {
  simple_net();
  tn_graph *out = apply_passes(NAMES("flatten", "rewriter.square"));
  tn__graph_release(out);
  tn_graph *net = g;
  g = net_new();
  tn_entry y;
  const tn_embedding what = {
      .struct_size = sizeof what, .inner = net, .name = "n"};
  OK(tn__graph_embed(g, &what, &y));
  HEADS(g, y);
  out = apply_passes(NAMES("flatten", "rewriter.square"));
  cr_expect_str_eq(list_nodes(out),
                   "n_x n_v square:square0 same:n/z add:n/s >n/s_output");
  tn__graph_release(out);
  tn__graph_release(net);
}

Test(passes, infer_the_needs_of_later_ones) {
  const tn_entry x = typed_var(g, "x", F32(4));
  HEADS(g, OP(g, "mul", NULL, "y", x, x));
  tn_graph *out = apply_passes(NAMES("infer", "rewriter.mark"));
  cr_expect_str_eq(tn__attribute_get(tn__node_at(out, 1), "length"), "4");
  tn__graph_release(out);
}

/* ---------------------------------------------------------------- inside nodes
 */

static const tn_graph *inner_of(const tn_graph *graph, const char *name) {
  const tn__node *node = tn__map_get(&graph->names, name);
  return node->inner;
}

/* With these values for x, h and k. */
static void loop_computes(const char *const *names, size_t n, float last,
                          const float *each) {
  tn_array *x = floats(SHAPE(3, 1), VALUES(1, 2, 3)),
           *h = floats(SHAPE(1), VALUES(2)), *k = floats(SHAPE(1), VALUES(-1)),
           *out = NULL;
  const tn_argument given[] = {{.name = "x", .array = x},
                               {.name = "h", .array = h},
                               {.name = "k", .array = k}};
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = given,
                       .n_arguments = 3,
                       .passes = names,
                       .n_passes = n};
  tn_program *p = NULL;
  OK(tn__program_bind(g, &how, &p));
  OK(tn__program_forward(p, 0));
  OK(tn__program_output(p, 0, &out));
  expect(out, VALUES(last));
  OK(tn__program_output(p, 1, &out));
  expect(out, 3, each);
  tn__program_release(p);
  tn__array_release(x), tn__array_release(h), tn__array_release(k);
}

/* 2 -> (2 1 - 1)^2 = 1 -> (1 2 - 1)^2 = 1 -> (1 3 - 1)^2 = 4 */
Test(passes, look_into_the_steps_of_loops_if_they_say_so) {
  loop_net();
  tn_graph *out = apply_passes(NAMES("rewriter.square"));
  cr_expect_str_eq(list_nodes(inner_of(out, "loop")),
                   "x h k mul:hx add:sum mul:next >next_output>hx_output");
  tn__graph_release(out);
  out = apply_passes(NAMES("rewriter.deep_square"));
  cr_expect_str_eq(
      list_nodes(inner_of(out, "loop")),
      "x h k mul:hx add:sum square:square0 >square0_output>hx_output");
  tn__graph_release(out);
  loop_computes(NULL, 0, 4, THREE(2, 2, 3));
  loop_computes(NAMES("rewriter.deep_square"), 4, THREE(2, 2, 3));
}

Test(passes, may_change_the_order_of_inputs_of_a_step) {
  loop_net();
  loop_computes(NAMES("rewriter.turn"), 4, THREE(2, 2, 3));
  tn_graph *out = apply_passes(NAMES("rewriter.turn"));
  cr_expect_str_eq(list_nodes(inner_of(out, "loop")),
                   "x h k mul:hx add:sum mul:next >next_output>hx_output");
  tn__graph_release(out);
}

/* (2 1)^2 = 4 -> (4 2)^2 = 64 -> (64 3)^2 = 36864 */
Test(passes, may_leave_inputs_of_a_step_unread) {
  loop_net();
  loop_computes(NAMES("rewriter.drop"), 36864, THREE(2, 8, 192));
}

Test(passes, look_into_graphs_in_graphs) {
  loop_net();
  tn_graph *net = g;
  g = net_new();
  tn_entry y;
  const tn_embedding what = {
      .struct_size = sizeof what, .inner = net, .name = "n"};
  OK(tn__graph_embed(g, &what, &y));
  HEADS(g, y, OP(g, "mul", NULL, "z", y, y));
  tn_graph *out = apply_passes(NAMES("rewriter.deep_square"));
  cr_expect_not_null(
      strstr(list_nodes(inner_of(inner_of(out, "n"), "loop")), "square0"));
  cr_expect_not_null(strstr(list_nodes(out), "square0"));
  tn__graph_release(out);
  tn__graph_release(net);
}

Test(passes, tell_in_which_node_they_fail) {
  loop_net();
  expect_refused(
      NAMES("rewriter.deep_regrets"), TN_UNSUPPORTED,
      PARTS("node `loop`: the pass rewriter.deep_regrets of the plugin "
            "\"rewriter\"",
            "node `next`: 7 is too many"));
}

/* h' = noise(h) x; the factors are collected. */
static void noise_net(void) {
  tn_graph *step = net_new();
  const tn_entry h = var_node(step, "h");
  const tn_entry noise = OP(step, "noise", NULL, "noise", h);
  HEADS(step, OP(step, "mul", NULL, "next", noise, var_node(step, "x")),
        output_of(noise, 1));
  tn_entry out;
  const tn_loop what = {.struct_size = sizeof what,
                        .n_in = 2,
                        .step = step,
                        .name = "loop",
                        .sequences = (const char *const[]){"x"},
                        .states = (const char *const[]){"h"},
                        .n_sequences = 1,
                        .n_states = 1,
                        .in = (const tn_entry[]){typed_var(g, "x", F64(2, 1)),
                                                 typed_var(g, "h", F64(1))},
                        .keys = (const char *const[]){"x", "h"}};
  OK(tn__graph_loop(g, &what, &out));
  HEADS(g, out);
  tn__graph_release(step);
}

/* The gradient of a rewritten graph still finds the kept outputs of the loop.
 */
Test(passes, keep_the_kept_entries_of_loops) {
  noise_net();
  tn_graph *out = apply_passes(NAMES("rewriter.calm"));
  const tn__node *loop = tn__map_get(&out->names, "loop");
  cr_assert_eq(loop->loop->n_kept, 2);
  for (uint32_t k = 0; k < 2; ++k) {
    const tn_entry kept = loop->loop->kept[k];
    cr_expect_eq(kept.node, 2);
    cr_expect_str_eq(tn__node_at(loop->inner, kept.node)->name, "noise");
    cr_expect_eq(kept.index, k);
  }
  tn__graph_release(out);
  expect_refused(NAMES("rewriter.quiet"), TN_INVALID,
                 PARTS("node `loop`: node `noise` would be removed"));
}

Test(passes, cannot_change_variables_that_a_node_only_reads) {
  loop_net();
  expect_refused(NAMES("rewriter.tracks"), TN_INVALID,
                 PARTS("node `loop`: `x` would become a state"));
}

/* ------------------------------------------------------------------- programs
 */

Test(passes, rewrite_a_program) {
  run plain, squared;
  simple_net();
  OK(run_open(&plain, NULL, 0));
  OK(run_open(&squared, NAMES("rewriter.square", "rewriter.tidy")));
  cr_expect(has_step(plain.p, "lab.mul"));
  cr_expect(has_step(squared.p, "square0"));
  cr_expect_not(has_step(squared.p, "lab.mul"));
  cr_expect_not(has_step(squared.p, "lab.same"));
  expect_values(&plain, THREE(11, 24, 39), THREE(2, 4, 6));
  expect_values(&squared, THREE(11, 24, 39), THREE(2, 4, 6));
  run_close(&plain);
  run_close(&squared);
}

Test(passes, run_after_the_gradient_if_the_list_says_so) {
  run r;
  simple_net();
  OK(run_open(&r, NAMES("rewriter.square", "gradient", "rewriter.twice")));
  cr_expect(has_step(r.p, "square0"));
  expect_values(&r, THREE(11, 24, 39), THREE(4, 8, 12));
  run_close(&r);
}

/* The gradient of a head is its output gradient, copied into an array of its
 * own. After a pass has removed the copy, the program adds one again. */
Test(passes, do_not_take_gradients_their_arrays) {
  run r;
  tn_array *dx = NULL;
  HEADS(g, var_node(g, "x"), OP(g, "same", NULL, "s", var_node(g, "v")));
  OK(run_open(&r, NAMES("gradient", "rewriter.bare")));
  tn_array *weights[] = {floats(SHAPE(3), VALUES(5, 6, 7)),
                         floats(SHAPE(3), VALUES(1, 1, 1))};
  OK(tn__program_forward(r.p, TN_CALL_TRAIN));
  OK(tn__program_backward(r.p, weights, 2));
  OK(tn__program_array(r.p, TN_PROGRAM_GRADIENT, "x", &dx));
  expect(dx, 3, THREE(5, 6, 7));
  tn__array_release(weights[0]), tn__array_release(weights[1]);
  run_close(&r);
}

/* x's gradient is that of the sum, and v's gradient is made of it. So it cannot
 * be in an array with request ADD, also after a pass has removed its copy. */
Test(passes, do_not_add_to_entries_with_readers) {
  run r;
  tn_array *dx = NULL, *dv = NULL;
  const tn_entry x = var_node(g, "x"), v = var_node(g, "v");
  const tn_entry one = OP(g, "same", NULL, NULL, v);
  const tn_entry same = OP(g, "same", NULL, NULL, one);
  const tn_entry q = OP(g, "square", NULL, "q", same);
  const tn_entry y = OP(g, "plus", NULL, "y", x, q);
  HEADS(g, OP(g, "mul", NULL, "z", y, v));
  OK(run_open_as(
      &r, TN_REQ_ADD,
      NAMES("rewriter.square", "gradient", "rewriter.tidy", "rewriter.bare")));
  for (int i = 0; i < 2; ++i) run_train(r.p);
  OK(tn__program_array(r.p, TN_PROGRAM_GRADIENT, "x", &dx));
  OK(tn__program_array(r.p, TN_PROGRAM_GRADIENT, "v", &dv));
  expect(dx, 3, THREE(20, 40, 60));                  /* 2v */
  expect(dv, 3, THREE(2 * 301, 2 * 1202, 2 * 2703)); /* 2(x + 3v^2) */
  run_close(&r);
}

/* The same for a head that is an argument, in an array of the user. */
Test(passes, do_not_take_heads_their_arrays) {
  tn_array *x = floats(SHAPE(3), VALUES(1, 2, 3));
  tn_array *out = floats(SHAPE(3), VALUES(0, 0, 0));
  const tn_argument given = {.name = "x", .array = x};
  const char *const names[] = {"gradient", "rewriter.bare"};
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = &given,
                       .n_arguments = 1,
                       .outputs = &out,
                       .n_outputs = 1,
                       .passes = names,
                       .n_passes = 2};
  tn_program *p = NULL;
  HEADS(g, var_node(g, "x"));
  OK(tn__program_bind(g, &how, &p));
  OK(tn__program_forward(p, 0));
  expect(out, 3, THREE(1, 2, 3));
  tn__program_release(p);
  tn__array_release(x), tn__array_release(out);
}

Test(passes, of_a_program_are_those_of_its_reshaped_copy) {
  run r;
  tn_program *other = NULL;
  simple_net();
  OK(run_open(&r, NAMES("rewriter.square")));
  OK(tn__program_reshape(r.p, (tn_known[]){{.name = "x", .sig = F32(5)}}, 1,
                         &other));
  cr_expect(has_step(other, "square0"));
  tn__program_release(other);
  run_close(&r);
}

Test(passes, that_fail_leave_no_program) {
  run r;
  simple_net();
  FAILS(run_open(&r, NAMES("gradient", "rewriter.apart")), TN_INVALID,
        "the pass rewriter.apart of the plugin \"rewriter\"",
        "node `y_backward`", "is another entry than the one of `y`");
  cr_assert_null(r.p);
  run_close(&r);
  FAILS(run_open(&r, NAMES("rewriter.regrets")), TN_UNSUPPORTED,
        "the pass rewriter.regrets", "node `s`: 7 is too many");
  run_close(&r);
}

/* ---------------------------------------------------------------------- order
 */

Test(passes, need_facts_that_others_provide) {
  simple_net();
  expect_refused(
      NAMES("rewriter.tidy"), TN_INVALID,
      PARTS("the pass rewriter.tidy needs `rewriter.squared`, which is not "
            "there; the pass rewriter.square provides it"));
  expect_refused(
      NAMES("rewriter.tidy", "rewriter.square"), TN_INVALID,
      PARTS("the pass rewriter.tidy needs", "rewriter.square provides it"));
  expect_refused(
      NAMES("rewriter.mark"), TN_INVALID,
      PARTS("needs `shapes`, which is not there; the pass infer provides "
            "it"));
  expect_refused(
      NAMES("rewriter.careless"), TN_INVALID,
      PARTS("needs `other.magic`, which is not there, and no pass that is "
            "loaded provides it"));
}

/* The first would change the graph, but the library knows that the second
 * cannot run. */
Test(passes, are_checked_before_the_first_is_run) {
  simple_net();
  expect_refused(NAMES("rewriter.silent", "rewriter.tidy"), TN_INVALID,
                 PARTS("rewriter.tidy needs"));
}

Test(passes, that_do_not_exist_are_named_with_those_that_do) {
  simple_net();
  expect_refused(
      NAMES("rewriter.sqare"), TN_NOT_FOUND,
      PARTS("there is no pass `rewriter.sqare` (known: infer, flatten, "
            "gradient, rewriter.square,",
            "did you mean `rewriter.square`?"));
}

Test(passes, know_that_the_gradient_is_a_programs) {
  run r;
  simple_net();
  expect_refused(NAMES("gradient"), TN_UNSUPPORTED, PARTS("tn_bind.passes"));
  FAILS(run_open(&r, NAMES("rewriter.twice", "gradient")), TN_INVALID,
        "the pass rewriter.twice needs `gradient`",
        "the pass gradient provides");
  run_close(&r);
  FAILS(run_open(&r, NAMES("gradient", "gradient")), TN_INVALID,
        "the pass gradient is in the list twice");
  run_close(&r);
}

Test(passes, can_be_listed) {
  tn_pass_info info = {.struct_size = sizeof info};
  OK(tn__pass_at(w.registry, 0, &info));
  cr_expect_str_eq(info.name, "infer");
  cr_expect_null(info.plugin);
  OK(tn__pass_at(w.registry, 3, &info));
  cr_expect_str_eq(info.name, "rewriter.square");
  cr_expect_str_eq(info.plugin, "rewriter");
  cr_expect_str_eq(info.doc, "x*x");
  cr_expect_str_eq(info.provides[0], "rewriter.squared");
  OK(tn__pass_at(w.registry, 4, &info));
  cr_expect_str_eq(info.needs[0], "rewriter.squared");
  FAILS(tn__pass_at(w.registry, 99, &info), TN_NOT_FOUND, "ends before 99");
}

/* -------------------------------------------------------------------- bad ones
 */

#define BAD(name, code, ...)                                            \
  expect_refused(                                                       \
      NAMES("rewriter." name), (code),                                  \
      PARTS("the pass rewriter." name " of the plugin \"rewriter\" (/", \
            __VA_ARGS__))

Test(passes, that_make_a_cycle_are_refused) {
  simple_net();
  BAD("cycle", TN_INVALID, "would read node `", "which depends on it: a cycle");
}

Test(passes, that_call_with_too_many_inputs_are_refused) {
  simple_net();
  BAD("of_three", TN_INVALID, "lab.mul@1 takes 2 inputs and 0 states, but 3");
}

/* A pass does not make variables. */
Test(passes, that_call_with_too_few_inputs_are_refused) {
  simple_net();
  BAD("of_one", TN_INVALID,
      "a call of lab.mul@1: its input `rhs` is not given");
}

Test(passes, that_call_unknown_operators_are_refused) {
  simple_net();
  BAD("unknown", TN_NOT_FOUND, "lab.mull");
}

Test(passes, that_make_types_contradict_are_refused) {
  known_net();
  BAD("type", TN_DTYPE, "node `y` (lab.mul@1)", "f64");
}

Test(passes, that_change_the_type_of_a_head_are_refused) {
  known_net();
  BAD("head_type", TN_DTYPE, "head 0 was f32 (3), and would be f64 (3)",
      "`cast0_output`");
}

Test(passes, that_lose_a_head_are_refused) {
  simple_net();
  BAD("lost_head", TN_INVALID, "node `s` would have no readers");
}

Test(passes, that_name_entries_of_elsewhere_are_refused) {
  simple_net();
  BAD("foreign", TN_INVALID, "node 9999, but the graph has 5 nodes");
}

Test(passes, that_give_up_are_named_with_the_node) {
  simple_net();
  BAD("regrets", TN_UNSUPPORTED, "node `s`: 7 is too many");
}

Test(passes, that_fail_without_a_message_get_one) {
  simple_net();
  BAD("silent", TN_PLUGIN, "it gave no reason");
}

Test(passes, that_would_change_computed_entries_are_refused) {
  HEADS(g, OP(g, "track", NULL, "t", var_node(g, "x")));
  BAD("state", TN_INVALID, "node `t` changes `t_sum`",
      "only a variable can be changed", "`same0` is none");
}

/* A pass may try a change that fails, and continue. */
Test(passes, may_try_a_change_that_fails) {
  simple_net();
  tn_graph *out = apply_passes(NAMES("rewriter.bold"));
  tn__graph_release(out);
}
