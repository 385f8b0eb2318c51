/* SPDX-License-Identifier: Apache-2.0
 * Passes: those of a plugin rewrite graphs and programs, and what they need is
 * asked for before any of them runs. One that fails, or breaks the graph,
 * leaves it as it was, and the message names pass, plugin and node. The plugin
 * is tests/graph/passes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../by_hand.h"
#include "net.h"

static void open_all(void) {
  net_open();
  w.registry->passes = &tn__passes_table;
  OK(tn__plugin_load(w.registry, PASSES_FILE));
}

TestSuite(passes, .init = open_all, .fini = net_close);

/* ------------------------------------------------------------------ helpers */

#define NAMES(...)                    \
  (const char *const[]){__VA_ARGS__}, \
      sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

/* The nodes of a graph, with the operators of calls, and its heads. */
static const char *listed(const tn_graph *graph) {
  static char text[1000];
  char name[TN__ENTRY_TEXT];
  size_t at = 0;
  for (uint32_t id = 0; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%s ",
                           node->desc ? node->desc->name : "",
                           node->desc ? ":" : "", node->name);
  }
  for (size_t i = 0; i < graph->n_heads; ++i)
    at += (size_t)snprintf(text + at, sizeof text - at, ">%s",
                           tn__entry_text(graph, graph->heads[i], name));
  return text;
}

static char *json_of(const tn_graph *graph) {
  tn_text *text = NULL;
  OK(tn__graph_json(graph, &text));
  char *copy = strdup(tn_text_get(text));
  tn_text_release(text);
  return copy;
}

/* The graph after these passes; it is itself what it was. */
static tn_graph *apply(const char *const *names, size_t n) {
  char *before = json_of(g);
  tn_graph *out = NULL;
  OK(tn__graph_apply(g, names, n, &out));
  char *after = json_of(g);
  cr_assert_str_eq(before, after);
  free(before), free(after);
  return out;
}

static void refused(const char *const *names, size_t n, tn_code code,
                    const char *const *parts) {
  char *before = json_of(g);
  tn_graph *out = g;
  const tn_code got = tn__graph_apply(g, names, n, &out);
  cr_assert_eq(got, code, "%s: %s", tn_code_name(got), tn_error_text());
  expect_text(parts);
  cr_assert_null(out);
  char *after = json_of(g);
  cr_assert_str_eq(before, after);
  free(before), free(after);
}
#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* s = same(x*x) + v */
static void simple_net(void) {
  const tn_entry x = var(g, "x"), v = var(g, "v");
  const tn_entry y = OP(g, "mul", NULL, "y", x, x);
  const tn_entry z = OP(g, "same", NULL, "z", y);
  HEADS(g, OP(g, "add", NULL, "s", z, v));
}

/* The same, of which all is known. */
static void known_net(void) {
  simple_net();
  OK(tn__graph_infer(g, (tn_known[]){{.name = "x", .sig = F32(3)}}, 1));
}

/* ------------------------------------------------------------------ a program
 */

typedef struct run {
  tn_array *x;
  tn_array *v;
  tn_program *p;
} run;

static tn_code run_open_as(run *r, tn_req request, const char *const *names,
                           size_t n) {
  r->x = floats(SHAPE(3), VALUES(1, 2, 3));
  r->v = floats(SHAPE(3), VALUES(10, 20, 30));
  const tn_argument given[] = {{.name = "x", .array = r->x},
                               {.name = "v", .array = r->v}};
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = given,
                       .n_arguments = 2,
                       .request = request,
                       .passes = names,
                       .n_passes = n};
  r->p = NULL;
  return tn__program_bind(g, &how, &r->p);
}

static tn_code run_open(run *r, const char *const *names, size_t n) {
  return run_open_as(r, TN_REQ_WRITE, names, n);
}

static void run_close(run *r) {
  tn__program_release(r->p);
  tn__array_release(r->x), tn__array_release(r->v);
}

static void run_train(tn_program *p) {
  tn_array *ones = floats(SHAPE(3), VALUES(1, 1, 1));
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_backward(p, &ones, 1));
  tn__array_release(ones);
}

static void computes(const run *r, const float *head, const float *slope) {
  tn_array *out = NULL, *dx = NULL;
  run_train(r->p);
  OK(tn__program_output(r->p, 0, &out));
  OK(tn__program_array(r->p, TN_PROGRAM_GRADIENT, "x", &dx));
  expect(out, 3, head);
  expect(dx, 3, slope);
}
#define THREE(...) ((const float[3]){__VA_ARGS__})

static bool has_step(const tn_program *p, const char *part) {
  tn_text *text = NULL;
  OK(tn__program_text(p, 0, &text));
  const bool found = strstr(tn_text_get(text), part) != NULL;
  tn_text_release(text);
  return found;
}

/* ----------------------------------------------------------------- rewriting
 */

Test(passes, rewrite_a_pattern) {
  simple_net();
  tn_graph *out = apply(NAMES("rewriter.square"));
  cr_expect_str_eq(listed(out), "x v square:square0 same:z add:s >s_output");
  tn__graph_release(out);
}

Test(passes, follow_one_another) {
  simple_net();
  tn_graph *out = apply(NAMES("rewriter.square", "rewriter.tidy"));
  cr_expect_str_eq(listed(out), "x v square:square0 add:s >s_output");
  tn__graph_release(out);
}

Test(passes, that_change_nothing_leave_a_copy) {
  var(g, "alone");
  simple_net();
  OP(g, "tanh", NULL, "unused", var(g, "u"));
  char *before = json_of(g);
  tn_graph *out = apply(NAMES("rewriter.bold", "rewriter.again"));
  char *after = json_of(out);
  cr_expect_str_eq(after, before);
  free(before), free(after);
  tn__graph_release(out);
}

/* What nobody needed before is none of the pass's business. */
Test(passes, take_out_only_what_they_made_useless) {
  simple_net();
  tn_entry y;
  OK(tn__graph_find(g, "y_output", &y));
  OP(g, "tanh", NULL, "unused", y);
  tn_graph *out = apply(NAMES("rewriter.square"));
  cr_expect_str_eq(listed(out),
                   "x v square:square0 same:z add:s tanh:unused >s_output");
  tn__graph_release(out);
}

Test(passes, put_calls_behind_what_they_read) {
  const tn_entry x = var(g, "x");
  const tn_entry y = OP(g, "affine", "scale=3 shift=1", "y", x);
  HEADS(g, OP(g, "tanh", NULL, "z", y));
  tn_graph *out = apply(NAMES("rewriter.again"));
  cr_expect_str_eq(listed(out), "x affine:y affine:affine0 tanh:z >z_output");
  const tn__node *added = tn__map_get(&out->names, "affine0");
  const tn__node *first = tn__map_get(&out->names, "y");
  cr_expect_eq(memcmp(tn__node_struct(added), tn__node_struct(first),
                      first->desc->params_size),
               0);
  tn__graph_release(out);
}

Test(passes, of_a_hundred_thousand_nodes_take_time_in_proportion) {
  enum { N = 50000 };
  tn_entry y = var(g, "x");
  for (int i = 0; i < N; ++i)
    y = OP(g, "same", NULL, NULL, OP(g, "mul", NULL, NULL, y, y));
  HEADS(g, y);
  tn_graph *out = apply(NAMES("rewriter.square", "rewriter.tidy"));
  cr_expect_eq(tn__n_nodes(out), N + 1);
  tn__graph_release(out);
}

Test(passes, know_the_shapes_that_the_graph_knows) {
  known_net();
  tn_graph *out = apply(NAMES("rewriter.square", "rewriter.mark"));
  tn_entry head;
  OK(tn__graph_find(out, "square0_output", &head));
  cr_expect_str_eq(tn__attribute_get(tn__node_at(out, head.node), "length"), "3");
  is_sig(out, head, F32(3));
  tn__graph_release(out);
}

Test(passes, of_the_library_are_in_the_same_list) {
  simple_net();
  tn_graph *out = apply(NAMES("flatten", "rewriter.square"));
  tn__graph_release(out);
  tn_graph *net = g;
  g = net_new();
  tn_entry y;
  const tn_embedding what = {
      .struct_size = sizeof what, .inner = net, .name = "n"};
  OK(tn__graph_embed(g, &what, &y));
  HEADS(g, y);
  out = apply(NAMES("flatten", "rewriter.square"));
  cr_expect_str_eq(listed(out),
                   "n_x n_v square:square0 same:n/z add:n/s >n/s_output");
  tn__graph_release(out);
  tn__graph_release(net);
}

Test(passes, infer_what_others_need) {
  const tn_entry x = typed(g, "x", F32(4));
  HEADS(g, OP(g, "mul", NULL, "y", x, x));
  tn_graph *out = apply(NAMES("infer", "rewriter.mark"));
  cr_expect_str_eq(tn__attribute_get(tn__node_at(out, 1), "length"), "4");
  tn__graph_release(out);
}

/* ---------------------------------------------------------------- inside nodes
 */

/* h' = (h x + k) (h x + k), over x; collected: h x. */
static void loop_net(void) {
  tn_graph *step = net_new();
  const tn_entry x = var(step, "x"), h = var(step, "h"), k = var(step, "k");
  const tn_entry hx = OP(step, "mul", NULL, "hx", h, x),
                 sum = OP(step, "add", NULL, "sum", hx, k);
  HEADS(step, OP(step, "mul", NULL, "next", sum, sum), hx);
  tn_entry out;
  const tn_loop what = {
      .struct_size = sizeof what,
      .n_in = 3,
      .step = step,
      .name = "loop",
      .sequences = (const char *const[]){"x"},
      .states = (const char *const[]){"h"},
      .n_sequences = 1,
      .n_states = 1,
      .in = (const tn_entry[]){typed(g, "x", F32(3, 1)), typed(g, "h", F32(1)),
                               typed(g, "k", F32(1))},
      .keys = (const char *const[]){"x", "h", "k"}};
  OK(tn__graph_loop(g, &what, &out));
  HEADS(g, out, output(out, 1));
  tn__graph_release(step);
}

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
  tn_graph *out = apply(NAMES("rewriter.square"));
  cr_expect_str_eq(listed(inner_of(out, "loop")),
                   "x h k mul:hx add:sum mul:next >next_output>hx_output");
  tn__graph_release(out);
  out = apply(NAMES("rewriter.deep_square"));
  cr_expect_str_eq(
      listed(inner_of(out, "loop")),
      "x h k mul:hx add:sum square:square0 >square0_output>hx_output");
  tn__graph_release(out);
  loop_computes(NULL, 0, 4, THREE(2, 2, 3));
  loop_computes(NAMES("rewriter.deep_square"), 4, THREE(2, 2, 3));
}

Test(passes, may_change_the_order_of_what_a_step_reads) {
  loop_net();
  loop_computes(NAMES("rewriter.turn"), 4, THREE(2, 2, 3));
  tn_graph *out = apply(NAMES("rewriter.turn"));
  cr_expect_str_eq(listed(inner_of(out, "loop")),
                   "x h k mul:hx add:sum mul:next >next_output>hx_output");
  tn__graph_release(out);
}

/* (2 1)^2 = 4 -> (4 2)^2 = 64 -> (64 3)^2 = 36864 */
Test(passes, may_leave_what_a_step_is_given_unread) {
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
  tn_graph *out = apply(NAMES("rewriter.deep_square"));
  cr_expect_not_null(
      strstr(listed(inner_of(inner_of(out, "n"), "loop")), "square0"));
  cr_expect_not_null(strstr(listed(out), "square0"));
  tn__graph_release(out);
  tn__graph_release(net);
}

Test(passes, tell_in_which_node_they_fail) {
  loop_net();
  refused(NAMES("rewriter.deep_regrets"), TN_UNSUPPORTED,
          PARTS("node `loop`: the pass rewriter.deep_regrets of the plugin "
                "\"rewriter\"",
                "node `next`: 7 is too many"));
}

/* h' = noise(h) x; the factors are collected. */
static void noise_net(void) {
  tn_graph *step = net_new();
  const tn_entry h = var(step, "h");
  const tn_entry noise = OP(step, "noise", NULL, "noise", h);
  HEADS(step, OP(step, "mul", NULL, "next", noise, var(step, "x")),
        output(noise, 1));
  tn_entry out;
  const tn_loop what = {
      .struct_size = sizeof what,
      .n_in = 2,
      .step = step,
      .name = "loop",
      .sequences = (const char *const[]){"x"},
      .states = (const char *const[]){"h"},
      .n_sequences = 1,
      .n_states = 1,
      .in = (const tn_entry[]){typed(g, "x", F64(2, 1)), typed(g, "h", F64(1))},
      .keys = (const char *const[]){"x", "h"}};
  OK(tn__graph_loop(g, &what, &out));
  HEADS(g, out);
  tn__graph_release(step);
}

/* The gradient of what passes have made still finds what the loop keeps. */
Test(passes, leave_loops_what_they_keep) {
  noise_net();
  tn_graph *out = apply(NAMES("rewriter.calm"));
  const tn__node *loop = tn__map_get(&out->names, "loop");
  cr_assert_eq(loop->loop->n_kept, 2);
  for (uint32_t k = 0; k < 2; ++k) {
    const tn_entry kept = loop->loop->kept[k];
    cr_expect_eq(kept.node, 2);
    cr_expect_str_eq(tn__node_at(loop->inner, kept.node)->name, "noise");
    cr_expect_eq(kept.index, k);
  }
  tn__graph_release(out);
  refused(NAMES("rewriter.quiet"), TN_INVALID,
          PARTS("node `loop`: node `noise` would be removed"));
}

Test(passes, cannot_change_what_a_node_only_reads) {
  loop_net();
  refused(NAMES("rewriter.tracks"), TN_INVALID,
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
  computes(&plain, THREE(11, 24, 39), THREE(2, 4, 6));
  computes(&squared, THREE(11, 24, 39), THREE(2, 4, 6));
  run_close(&plain);
  run_close(&squared);
}

Test(passes, run_behind_the_gradient_if_the_list_says_so) {
  run r;
  simple_net();
  OK(run_open(&r, NAMES("rewriter.square", "gradient", "rewriter.twice")));
  cr_expect(has_step(r.p, "square0"));
  computes(&r, THREE(11, 24, 39), THREE(4, 8, 12));
  run_close(&r);
}

/* The gradient of a head is its weight, copied into an array of its own: there
 * is a copy again where a pass took it away. */
Test(passes, do_not_take_gradients_their_arrays) {
  run r;
  tn_array *dx = NULL;
  HEADS(g, var(g, "x"), OP(g, "same", NULL, "s", var(g, "v")));
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

/* x's gradient is that of the sum, of which v's is made too: it cannot lie
 * where it is added to, also where a pass took away the copy that does. */
Test(passes, do_not_add_to_what_others_read) {
  run r;
  tn_array *dx = NULL, *dv = NULL;
  const tn_entry x = var(g, "x"), v = var(g, "v");
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

/* The same of a head that is an argument, in an array of the user's. */
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
  HEADS(g, var(g, "x"));
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

Test(passes, need_what_others_provide) {
  simple_net();
  refused(NAMES("rewriter.tidy"), TN_INVALID,
          PARTS("the pass rewriter.tidy needs `rewriter.squared`, which is not "
                "there; the pass rewriter.square provides it"));
  refused(NAMES("rewriter.tidy", "rewriter.square"), TN_INVALID,
          PARTS("the pass rewriter.tidy needs", "rewriter.square provides it"));
  refused(NAMES("rewriter.mark"), TN_INVALID,
          PARTS("needs `shapes`, which is not there; the pass infer provides "
                "it"));
  refused(NAMES("rewriter.careless"), TN_INVALID,
          PARTS("needs `other.magic`, which is not there, and no pass that is "
                "loaded provides it"));
}

/* The first would change the graph, but the second is known not to run. */
Test(passes, are_checked_before_the_first_is_run) {
  simple_net();
  refused(NAMES("rewriter.silent", "rewriter.tidy"), TN_INVALID,
          PARTS("rewriter.tidy needs"));
}

Test(passes, that_do_not_exist_are_named_with_those_that_do) {
  simple_net();
  refused(NAMES("rewriter.sqare"), TN_NOT_FOUND,
          PARTS("there is no pass `rewriter.sqare` (known: infer, flatten, "
                "gradient, rewriter.square,",
                "did you mean `rewriter.square`?"));
}

Test(passes, know_that_the_gradient_is_a_programs) {
  run r;
  simple_net();
  refused(NAMES("gradient"), TN_UNSUPPORTED, PARTS("tn_bind.passes"));
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

#define BAD(name, code, ...)                                                \
  refused(NAMES("rewriter." name), (code),                                  \
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

Test(passes, that_call_what_does_not_exist_are_refused) {
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

Test(passes, that_fail_without_a_word_are_said_to) {
  simple_net();
  BAD("silent", TN_PLUGIN, "it gave no reason");
}

Test(passes, that_would_change_what_is_no_variable_are_refused) {
  HEADS(g, OP(g, "track", NULL, "t", var(g, "x")));
  BAD("state", TN_INVALID, "node `t` changes `t_sum`",
      "only a variable can be changed", "`same0` is none");
}

/* A pass may try, and go on. */
Test(passes, may_fail_on_the_way) {
  simple_net();
  tn_graph *out = apply(NAMES("rewriter.bold"));
  tn__graph_release(out);
}

/* ------------------------------------------------------------------- loading
 */

static const tn_pass *guest_pass;
static tn_code guest_code;

static int32_t guest_init(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  const tn_passes *passes = host->extension(host, TN_PASS_EXTENSION);
  (void)instance;
  /* What it was told it does not care about. */
  for (int i = 0; guest_pass && i < 2; ++i)
    guest_code = passes->add(registrar, guest_pass);
  return TN_OK;
}

static int32_t leave(void *ctx, tn_rewrite *net) {
  (void)ctx, (void)net;
  guest_code = tn__plugin_unload(w.registry, "guests");
  return guest_code == TN_BUSY ? TN_OK : TN_INTERNAL;
}

static const tn_plugin guests = {PLUGIN_BY_HAND("guests", 1, "A pass"),
                                 .init = guest_init};

#define MISTAKE(part, ...)                                                \
  do {                                                                    \
    guest_pass = &(tn_pass){.struct_size = sizeof(tn_pass), __VA_ARGS__}; \
    FAILS(tn__plugin_add(w.registry, &guests), guest_code,                \
          "init of the plugin \"guests\" failed", (part));                \
    cr_assert_lt(guest_code, 0);                                          \
  } while (0)

Test(passes, that_are_wrong_refuse_their_plugin) {
  static const char *const nothing[] = {""}, *const strange[] = {"guest.x"};
  MISTAKE("a pass without a name", .run = leave, .name = NULL);
  MISTAKE("\"Square\" cannot name a pass", .run = leave, .name = "Square");
  MISTAKE("\"a.b\" cannot name a pass", .run = leave, .name = "a.b");
  MISTAKE("\"p\" is a pass without `run`", .name = "p");
  MISTAKE("\"p\" is a pass that needs something without a name", .run = leave,
          .name = "p", .n_needs = 1, .needs = nothing);
  MISTAKE("\"p\" is a pass that needs something without a name", .run = leave,
          .name = "p", .n_needs = 1);
  MISTAKE("that provides something without a name", .run = leave, .name = "p",
          .n_provides = 1, .provides = nothing);
  MISTAKE("does not begin with its plugin's name", .run = leave, .name = "p",
          .n_provides = 1, .provides = strange);
  MISTAKE("\"p\" is a pass with flags", .run = leave, .name = "p", .flags = 2);
  MISTAKE("\"p\" is the name of two passes", .run = leave, .name = "p");
}

static int32_t guest_once(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  static const tn_pass pass = {
      .struct_size = sizeof pass, .name = "leave", .run = leave};
  const tn_passes *passes = host->extension(host, TN_PASS_EXTENSION);
  (void)instance;
  return passes->add(registrar, &pass);
}

Test(passes, hold_their_plugin_while_they_run) {
  static tn_plugin plugin; /* outlives the test */
  plugin = guests;
  plugin.init = guest_once;
  OK(tn__plugin_add(w.registry, &plugin));
  simple_net();
  guest_code = TN_OK;
  tn_graph *out = apply(NAMES("guests.leave"));
  cr_expect_eq(guest_code, TN_BUSY);
  tn__graph_release(out);
  OK(tn__plugin_unload(w.registry, "guests"));
  refused(NAMES("guests.leave"), TN_NOT_FOUND,
          PARTS("there is no pass `guests.leave`"));
}

Test(passes, are_gone_with_their_plugin) {
  simple_net();
  OK(tn__plugin_unload(w.registry, "rewriter"));
  refused(NAMES("rewriter.square"), TN_NOT_FOUND,
          PARTS("(known: infer, flatten, gradient)"));
  OK(tn__plugin_load(w.registry, PASSES_FILE));
  tn_graph *out = apply(NAMES("rewriter.square"));
  tn__graph_release(out);
}

static int32_t provide_it(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  (void)host, (void)instance;
  guest_code = registrar->provide(registrar, TN_PASS_EXTENSION, registrar);
  return TN_OK;
}

Test(passes, are_taken_by_the_host_alone) {
  static tn_plugin plugin; /* outlives the test */
  plugin = guests;
  plugin.init = provide_it;
  OK(tn__plugin_add(w.registry, &plugin));
  cr_expect_eq(guest_code, TN_EXISTS);
}

Test(passes, are_not_taken_by_a_host_without_graphs) {
  OK(tn__plugin_unload(w.registry, "rewriter"));
  w.registry->passes = NULL;
  FAILS(tn__plugin_load(w.registry, PASSES_FILE), TN_UNSUPPORTED,
        "this host takes no passes");
}

/* -------------------------------------------------------------------- chaos
 */

static uint64_t state;

static uint32_t below(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return n ? (uint32_t)(state >> 33) % n : 0;
}

/* A few things at random, some of which are refused at once. */
static int32_t meddle(void *ctx, tn_rewrite *net) {
  const tn_passes *t = &tn__passes_table;
  static const char *const ops[] = {"lab.tanh", "lab.mul", "lab.same",
                                    "lab.cast"};
  (void)ctx;
  for (uint32_t k = 1 + below(4); k > 0; --k) {
    const uint32_t n = t->n_nodes(net) + below(2);
    const tn_entry a = {below(n), below(8) == 0}, b = {below(n), below(8) == 0};
    const tn_rewrite_call call = {.struct_size = sizeof call,
                                  .n_in = 1 + below(2),
                                  .op = ops[below(4)],
                                  .in = (const tn_entry[]){a, b}};
    tn_entry out = b;
    int32_t rc = TN_OK;
    if (below(3) > 0) rc = t->call(net, &call, &out);
    if (rc == TN_OK) rc = t->redirect(net, a, out);
    if (below(3) == 0) rc = t->rewire(net, below(n), below(3), b);
    (void)rc;
  }
  return TN_OK;
}

/* Calls, one that changes a state, gradients; heads here and there. */
static void random_net(void) {
  static const char *const ops[] = {"mul", "add", "pair"};
  tn_entry all[40], slope;
  uint32_t n = 0;
  all[n++] = typed(g, "x", F64(3));
  all[n++] = typed(g, "y", F64(3));
  for (; n < 10; ++n)
    all[n] = OP(g, ops[below(3)], NULL, NULL, all[below(n)], all[below(n)]);
  all[n] = OP(g, "track", NULL, NULL, all[below(n)]);
  ++n;
  const tn__gradient_spec spec = {
      .query = {.heads = &all[n - 1], .of = all, .n_heads = 1, .n_of = 1},
      .optional = 1};
  OK(tn__graph_gradient(g, &spec, &slope));
  if (tn__entry_is_none(slope)) slope = all[2];
  HEADS(g, all[n - 1], slope, all[below(n)]);
}

static int32_t chaos_init(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  static const tn_pass pass = {
      .struct_size = sizeof pass, .name = "meddle", .run = meddle};
  const tn_passes *passes = host->extension(host, TN_PASS_EXTENSION);
  (void)instance;
  return passes->add(registrar, &pass);
}

/* Whatever a pass does, there is a message, or a graph in which all is as it
 * must be: the reader of files, which trusts nobody, takes it. */
Test(passes, cannot_make_a_graph_that_is_none) {
  static tn_plugin plugin; /* outlives the test */
  const char *const names[] = {"infer", "guests.meddle", "guests.meddle"};
  int made = 0, refused_ = 0;
  plugin = guests;
  plugin.init = chaos_init;
  OK(tn__plugin_add(w.registry, &plugin));
  for (int round = 0; round < 3000; ++round) {
    tn_graph *out = NULL, *read = NULL;
    state = (uint64_t)round;
    random_net();
    if (tn__graph_apply(g, names, 3, &out) != TN_OK) {
      ++refused_;
    } else {
      char *text = json_of(out);
      OK(tn__graph_parse(&w.caller, text, strlen(text), &read));
      const tn_code rc = tn__graph_infer(read, NULL, 0);
      /* A shape may have followed from a node that is not there any more. */
      cr_assert(rc == TN_OK || rc == TN_INCOMPLETE, "round %d: %s", round,
                tn_error_text());
      tn__graph_release(read);
      free(text);
      ++made;
    }
    tn__graph_release(out);
    net_renew();
  }
  cr_expect_gt(made, 300);
  cr_expect_gt(refused_, 300);
}

/* -------------------------------------------------------------------- faults
 */

/* Loading the plugin, a list of passes, and a program, with each allocation
 * failing in turn. */
static tn_graph *loops;

static tn_code live(void) {
  tn_graph *out = NULL;
  tn_program *p = NULL;
  const tn_argument given = {.name = "x", .known = F32(3)};
  const char *const names[] = {"rewriter.square", "gradient", "rewriter.twice",
                               "rewriter.bare"};
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = &given,
                       .n_arguments = 1,
                       .request = TN_REQ_WRITE,
                       .passes = names,
                       .n_passes = 4};
  TN__TRY(tn__plugin_load(w.registry, PASSES_FILE));
  tn_code rc = tn__graph_apply(loops, NAMES("rewriter.drop"), &out);
  tn__graph_release(out);
  if (rc == TN_OK)
    rc = tn__graph_apply(
        g, NAMES("rewriter.square", "rewriter.tidy", "rewriter.again"), &out);
  tn__graph_release(out);
  if (rc == TN_OK) rc = tn__program_bind(g, &how, &p);
  tn__program_release(p);
  return rc;
}

Test(passes, survive_each_failing_allocation) {
  int64_t struck = 0;
  loop_net();
  loops = g;
  g = net_new();
  known_net();
  OK(tn__plugin_unload(w.registry, "rewriter"));
  for (int64_t i = 1;; ++i) {
    char *before = json_of(g);
    w.memory.asked = 0;
    w.memory.fail_at = i;
    const tn_code rc = live();
    w.memory.fail_at = 0;
    char *after = json_of(g);
    cr_assert_str_eq(after, before);
    free(before), free(after);
    const tn_code left = tn__plugin_unload(w.registry, "rewriter");
    cr_assert(left == TN_OK || left == TN_NOT_FOUND);
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "allocation %lld: %s", (long long)i,
                 tn_error_text());
    ++struck;
  }
  tn__graph_release(loops);
  cr_assert_gt(struck, 100);
}
