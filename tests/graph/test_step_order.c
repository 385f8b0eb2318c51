/* SPDX-License-Identifier: Apache-2.0
 * The order of steps beyond data: control dependencies of nodes, and the uses
 * of one state, which keep the order of the graph for any order of heads.
 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "probe.h"

TestSuite(step_order, .init = net_open, .fini = net_close);

/* ------------------------------------------------------------------ helpers */

static tn_program *bind_program(const tn_graph *graph, const tn_argument *given,
                                size_t n, uint32_t plan) {
  tn_program *p = NULL;
  const tn_bind how = {.struct_size = sizeof how,
                       .plan = plan,
                       .arguments = given,
                       .n_arguments = n};
  OK(tn__program_bind(graph, &how, &p));
  return p;
}

/* The names of the steps, in their order. */
static const char *steps_of(const tn_graph *graph) {
  static char names[400];
  tn_text *text = NULL;
  tn_program *p = bind_program(
      graph, &(tn_argument){.name = "x", .known = F64(3)}, 1, TN_PLAN_DEFAULT);
  OK(tn__program_text(p, 0, &text));
  names[0] = '\0';
  const char *line = strchr(tn_text_get(text), '\n') + 1;
  for (; line[0] == ' '; line = strchr(line, '\n') + 1) {
    if (names[0]) strcat(names, " ");
    strncat(names, line + 2, strcspn(line + 2, " "));
  }
  tn_text_release(text);
  tn__program_release(p);
  return names;
}

static void expect_values(const tn_program *p, size_t head,
                          const double *want) {
  tn_array *array = NULL;
  OK(tn__program_output(p, head, &array));
  double *have = elements_of(array);
  for (int i = 0; i < 2; ++i)
    cr_expect_eq(have[i], want[i], "head %zu: element %d is %g, not %g", head,
                 i, have[i], want[i]);
  free(have);
}
#define TWO(...) ((const double[2]){__VA_ARGS__})

/* ----------------------------------------------------- control dependencies */

Test(step_order, is_the_order_of_steps) {
  const tn_entry x = var_node(g, "x");
  const tn_entry a = OP(g, "tanh", NULL, "a", x);
  const tn_entry b = OP(g, "exp", NULL, "b", x);
  HEADS(g, b, a);
  cr_expect_str_eq(steps_of(g), "b a");
  OK(tn__graph_depends(g, b.node, a.node));
  cr_expect_str_eq(steps_of(g), "a b");
}

Test(step_order, needs_the_nodes_that_others_wait_for) {
  const tn_entry x = var_node(g, "x");
  const tn_entry a = OP(g, "tanh", NULL, "a", OP(g, "same", NULL, "s", x));
  const tn_entry b = OP(g, "exp", NULL, "b", x);
  HEADS(g, b);
  cr_expect_str_eq(steps_of(g), "b");
  OK(tn__graph_depends(g, b.node, a.node));
  OK(tn__graph_depends(g, b.node, a.node));
  cr_expect_eq(tn__node_at(g, b.node)->n_after, 1);
  cr_expect_str_eq(steps_of(g), "s a b");
}

/* The first step fails, so a step that waits for it is not run, although it
 * does not read its result: the engine knows the dependency. */
Test(step_order, is_known_to_the_engine) {
  for (int told = 0; told < 2; ++told) {
    tn_array *out = NULL;
    tn_entry first;
    tn_graph *net = net_new();
    const tn_entry x = var_node(net, "x"), y = var_node(net, "y");
    const tn_graph_node node = {.struct_size = sizeof node,
                                .n_in = 1,
                                .op = "probe.fail",
                                .name = "first",
                                .in = &x};
    OK(tn__graph_call(net, &node, &first));
    const tn_entry second = OP(net, "exp", NULL, "second", y);
    if (told) OK(tn__graph_depends(net, second.node, first.node));
    HEADS(net, first, second);
    const tn_argument given[] = {{.name = "x", .known = F32(3)},
                                 {.name = "y", .known = F64(3)}};
    tn_program *p = bind_program(net, given, 2, TN_PLAN_DEFAULT);
    probe_code = TN_UNSUPPORTED, probe_silent = 0;
    tn_code rc = tn__program_forward(p, 0);
    (void)rc; /* a small one fails here, or the error is on its array */
    OK(tn__program_output(p, 1, &out));
    rc = tn__array_wait(out, TN__WAIT_WRITERS, TN__FOREVER);
    if (told)
      FAILS(rc, TN_UNSUPPORTED, "second was not run", "first");
    else
      OK(rc);
    probe_code = TN_OK, probe_silent = 1;
    rc = tn__program_forward(p, 0);
    OK(rc);
    OK(tn__array_wait(out, TN__WAIT_WRITERS, TN__FOREVER));
    tn__program_release(p);
    tn__graph_release(net);
  }
}

/* Steps with control dependencies are not parts of fused steps. */
Test(step_order, ends_a_fused_run) {
  enum { N = 1 << 16 };
  const tn_entry x = var_node(g, "x");
  const tn_entry a = OP(g, "tanh", NULL, "a", x);
  const tn_entry b = OP(g, "exp", NULL, "b", a);
  const tn_entry c = OP(g, "sigmoid", NULL, "c", b);
  tn_program_stats stats = {.struct_size = sizeof stats};
  HEADS(g, c);
  const tn_argument given = {.name = "x", .known = F32(N)};
  tn_program *p = bind_program(g, &given, 1, TN_PLAN_DEFAULT);
  tn__program_stats(p, &stats);
  cr_expect_eq(stats.n_fused, 3);
  tn__program_release(p);
  OK(tn__graph_depends(g, c.node, a.node));
  p = bind_program(g, &given, 1, TN_PLAN_DEFAULT);
  tn__program_stats(p, &stats);
  cr_expect_eq(stats.n_fused, 0);
  tn__program_release(p);
}

/* y = tanh(exp(x)) as a graph of its own. */
static tn_graph *inner_net(void) {
  tn_graph *net = net_new();
  const tn_entry e = OP(net, "exp", NULL, "e", var_node(net, "x"));
  HEADS(net, OP(net, "tanh", NULL, "t", e));
  return net;
}

static tn_entry embed_graph(tn_graph *net, const char *name, tn_entry x) {
  tn_entry out;
  const tn_embedding what = {.struct_size = sizeof what,
                             .n_in = 1,
                             .inner = net,
                             .name = name,
                             .in = &x};
  OK(tn__graph_embed(g, &what, &out));
  return out;
}

Test(step_order, of_graphs_is_that_of_their_nodes) {
  tn_graph *net = inner_net();
  const tn_entry x = var_node(g, "x");
  const tn_entry one = embed_graph(net, "one", x),
                 two = embed_graph(net, "two", x);
  const tn_entry last = OP(g, "same", NULL, "last", x);
  HEADS(g, last, two, one);
  cr_expect_str_eq(steps_of(g), "last two/e two/t one/e one/t");
  OK(tn__graph_depends(g, two.node, one.node));
  OK(tn__graph_depends(g, last.node, two.node));
  cr_expect_str_eq(steps_of(g), "one/e one/t two/e two/t last");
  tn__graph_release(net);
}

Test(step_order, is_kept_in_copies_and_files) {
  const tn_entry x = var_node(g, "x");
  const tn_entry a = OP(g, "tanh", NULL, "a", x);
  const tn_entry b = OP(g, "exp", NULL, "b", x);
  tn_graph *copy = NULL, *read = NULL;
  tn_text *text = NULL, *again = NULL;
  HEADS(g, b);
  OK(tn__graph_depends(g, b.node, a.node));
  OK(tn__graph_copy(g, &copy));
  cr_expect_str_eq(steps_of(copy), "a b");
  OK(tn__graph_json(g, false, &text));
  cr_assert_not_null(strstr(tn_text_get(text), "\"after\": [1]"));
  OK(tn__graph_parse(&w.caller, tn_text_get(text), strlen(tn_text_get(text)),
                     &read));
  OK(tn__graph_json(read, false, &again));
  cr_expect_str_eq(tn_text_get(again), tn_text_get(text));
  cr_expect_str_eq(steps_of(read), "a b");
  tn_text_release(text), tn_text_release(again);
  tn__graph_release(copy), tn__graph_release(read);
}

Test(step_order, goes_from_old_to_young) {
  const tn_entry x = var_node(g, "x");
  const tn_entry a = OP(g, "tanh", NULL, "a", x);
  const tn_entry b = OP(g, "exp", NULL, "b", x);
  FAILS(tn__graph_depends(g, a.node, b.node), TN_INVALID,
        "node `a` cannot wait for node `b`, which is younger");
  FAILS(tn__graph_depends(g, a.node, a.node), TN_INVALID, "which is itself");
  FAILS(tn__graph_depends(g, a.node, x.node), TN_INVALID, "`x` is a variable");
  FAILS(tn__graph_depends(g, 9, a.node), TN_INVALID, "node 9");
  cr_expect_eq(tn__node_at(g, a.node)->n_after, 0);
}

/* -------------------------------------------------------------------- states
 */

/* A call that adds `data` to the state `sum`. */
static tn_entry track_sum(const char *name, tn_entry data, tn_entry sum) {
  const tn_entry in[] = {data, sum};
  return op_n(g, "track", NULL, name, 2, in);
}

/* Four uses of one state, in an order of heads from last to first: it is read
 * between the two calls that change it, and after them. */
static tn_program *state_program(uint32_t plan, tn_array **sum) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 s = var_node(g, "s");
  const tn_entry first = track_sum("first", x, s);
  const tn_entry between = OP(g, "affine", "scale=10", "between", s);
  const tn_entry second = track_sum("second", y, s);
  const tn_entry behind = OP(g, "same", NULL, "behind", s);
  tn_array *a = create_doubles(1, (int64_t[]){2}, TWO(1, 2));
  tn_array *b = create_doubles(1, (int64_t[]){2}, TWO(30, 40));
  HEADS(g, behind, second, between, first);
  const tn_argument given[] = {{.name = "x", .array = a},
                               {.name = "y", .array = b}};
  tn_program *p = bind_program(g, given, 2, plan);
  OK(tn__program_array(p, TN_PROGRAM_AUXILIARY, "s", sum));
  tn__array_release(a), tn__array_release(b);
  return p;
}

Test(step_order, for_a_state_is_in_the_order_of_the_graph) {
  static const uint32_t plans[] = {TN_PLAN_DEFAULT, TN_PLAN_NONE};
  for (int i = 0; i < 2; ++i) {
    tn_array *sum = NULL;
    tn_program *p = state_program(plans[i], &sum);
    OK(tn__program_forward(p, 0));
    expect_values(p, 0, TWO(31, 42));
    expect_values(p, 2, TWO(10, 20));
    OK(tn__program_forward(p, 0));
    expect_values(p, 0, TWO(62, 84));
    expect_values(p, 2, TWO(320, 440));
    tn__program_release(p);
    net_renew();
  }
}

/* A reader of a state does not need the calls that change it. */
Test(step_order, for_a_state_needs_nothing_more) {
  const tn_entry x = var_node(g, "x"), s = var_node(g, "s");
  track_sum("first", x, s);
  const tn_entry r = OP(g, "add", NULL, "r", x, s);
  HEADS(g, r);
  cr_expect_str_eq(steps_of(g), "r");
}

Test(step_order, survives_each_failing_allocation) {
  tn_array *sum = NULL;
  tn_program *p = state_program(TN_PLAN_DEFAULT, &sum);
  tn__program_release(p);
  tn_entry first, behind;
  OK(tn__graph_find(g, "first_output", &first));
  OK(tn__graph_find(g, "behind_output", &behind));
  OK(tn__graph_depends(g, behind.node, first.node));
  const tn_argument given = {.name = "x", .known = F64(2)};
  const tn_bind how = {
      .struct_size = sizeof how, .arguments = &given, .n_arguments = 1};
  int64_t struck = 0;
  for (int64_t i = 1;; ++i, ++struck) {
    w.memory.asked = 0;
    w.memory.fail_at = i;
    tn_code rc = tn__program_bind(g, &how, &p);
    if (rc == TN_OK) rc = tn__program_forward(p, 0);
    w.memory.fail_at = 0;
    tn__program_release(p);
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
  }
  cr_assert_gt(struck, 40);
}
