/* SPDX-License-Identifier: Apache-2.0
 * Flattening: graphs that are nodes become their nodes, with names, attributes
 * and states, and the same results.
 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

TestSuite(flatten, .init = net_open, .fini = net_close);

static tn_graph *flat_copy(void) {
  tn_graph *out = NULL;
  OK(tn__graph_flatten(g, &out));
  for (uint32_t i = 0; i < tn__n_nodes(out); ++i)
    cr_assert_neq(tn__node_at(out, i)->kind, TN__NODE_GRAPH);
  return out;
}

static const tn__node *find_named(const tn_graph *graph, const char *name) {
  const tn__node *node = tn__map_get(&graph->names, name);
  cr_assert_not_null(node, "there is no node %s", name);
  return node;
}

/* out = tanh(x * w), more = w + v. */
static tn_graph *block_graph(void) {
  tn_graph *b = net_new();
  const tn_entry x = var_node(b, "x"), weight = var_node(b, "w");
  HEADS(b, OP(b, "tanh", NULL, "t", OP(b, "mul", NULL, "m", x, weight)),
        OP(b, "add", NULL, "a", weight, var_node(b, "v")));
  return b;
}

static tn_entry embed_graph(tn_graph *to, const tn_graph *inner,
                            const char *name, tn_entry x) {
  tn_entry out;
  const tn_embedding what = {.struct_size = sizeof what,
                             .n_in = 1,
                             .inner = inner,
                             .name = name,
                             .in = &x,
                             .keys = (const char *const[]){"x"}};
  OK(tn__graph_embed(to, &what, &out));
  return out;
}

/* A block of two blocks, after a block. */
static void nested_graph(void) {
  tn_graph *b = block_graph(), *two = net_new();
  const tn_entry one = embed_graph(two, b, "one", var_node(two, "x"));
  const tn_entry both = embed_graph(two, b, "two", one);
  HEADS(two, both, output_of(one, 1));
  const tn_entry first = embed_graph(g, b, "first", var_node(g, "x"));
  const tn_entry last = embed_graph(g, two, "last", first);
  HEADS(g, OP(g, "add", NULL, "sum", last, output_of(last, 1)), first);
  tn__graph_release(two);
  tn__graph_release(b);
}

Test(flatten, names_nodes_after_the_nodes_around_them) {
  nested_graph();
  tn_graph *f = flat_copy();
  cr_assert_eq(find_named(f, "first/t")->kind, TN__NODE_CALL);
  cr_assert_eq(find_named(f, "last/one/m")->kind, TN__NODE_CALL);
  cr_assert_eq(find_named(f, "last/two/t")->kind, TN__NODE_CALL);
  cr_assert_eq(find_named(f, "last_two_w")->kind, TN__NODE_VARIABLE);
  const tn__node *sum = find_named(f, "sum");
  cr_assert_eq(sum->in[0].node, find_named(f, "last/two/t")->id);
  cr_assert_eq(sum->in[1].node, find_named(f, "last/one/a")->id);
  cr_assert_eq(find_named(f, "last/one/m")->in[0].node,
               find_named(f, "first/t")->id);
  cr_assert_eq(f->n_heads, 2);
  cr_assert_eq(f->heads[1].node, find_named(f, "first/t")->id);
  tn__graph_release(f);
}

/* Every variable contains i + 1, i + 2, ... for some i. */
static size_t feed_all(const tn_graph *graph, feed *feeds) {
  size_t n = 0;
  for (uint32_t i = 0; i < tn__n_nodes(graph); ++i) {
    const tn__node *node = tn__node_at(graph, i);
    const double v[] = {0.1 * (double)n, 0.3, -0.2};
    const int64_t three = 3;
    if (node->kind != TN__NODE_VARIABLE) continue;
    feeds[n++] = (feed){node->name, create_doubles(1, &three, v)};
  }
  return n;
}

static void expect_same(tn_array *a, tn_array *b) {
  double *x = elements_of(a), *y = elements_of(b);
  cr_assert_eq(n_elements(a), n_elements(b));
  for (size_t i = 0; i < n_elements(a); ++i) cr_assert_eq(x[i], y[i]);
  free(x), free(y);
}

Test(flatten, computes_the_same) {
  feed feeds[16];
  tn_array *deep[2] = {NULL}, *wide[2] = {NULL};
  nested_graph();
  tn_graph *f = flat_copy();
  const size_t n = feed_all(g, feeds);
  evaluate_heads(g, feeds, n, g->heads, 2, deep);
  evaluate_heads(f, feeds, n, f->heads, 2, wide);
  for (int i = 0; i < 2; ++i) {
    expect_same(deep[i], wide[i]);
    tn__array_release(deep[i]), tn__array_release(wide[i]);
  }
  for (size_t i = 0; i < n; ++i) tn__array_release(feeds[i].array);
  tn__graph_release(f);
}

static tn_entry gradient_of(tn_graph *graph, const char *of) {
  const tn_entry x = {find_named(graph, of)->id, 0};
  const tn__gradient_spec spec = {.query = {.heads = graph->heads,
                                            .of = &x,
                                            .n_heads = graph->n_heads,
                                            .n_of = 1}};
  tn_entry out;
  OK(tn__graph_gradient(graph, &spec, &out));
  return out;
}

Test(flatten, has_the_same_gradient) {
  static const char *const all[] = {"x", "first_w", "last_one_v", "last_two_w"};
  feed feeds[16];
  nested_graph();
  tn_graph *f = flat_copy();
  const size_t n = feed_all(g, feeds);
  for (int i = 0; i < 4; ++i) {
    const tn_entry deep = gradient_of(g, all[i]), wide = gradient_of(f, all[i]);
    tn_array *a = NULL, *b = NULL;
    evaluate_heads(g, feeds, n, &deep, 1, &a);
    evaluate_heads(f, feeds, n, &wide, 1, &b);
    expect_same(a, b);
    tn__array_release(a), tn__array_release(b);
  }
  for (size_t i = 0; i < n; ++i) tn__array_release(feeds[i].array);
  tn__graph_release(f);
}

Test(flatten, hands_attributes_on) {
  tn_graph *b = block_graph();
  OK(tn__attribute_set(b, find_named(b, "m")->id, "group", "mine"));
  const tn_entry out = embed_graph(g, b, "block", var_node(g, "x"));
  OK(tn__attribute_set(g, out.node, "group", "theirs"));
  OK(tn__attribute_set(g, out.node, "keep", "1"));
  HEADS(g, out);
  tn_graph *f = flat_copy();
  cr_assert_str_eq(tn__attribute_get(find_named(f, "block/m"), "group"),
                   "mine");
  cr_assert_str_eq(tn__attribute_get(find_named(f, "block/t"), "group"),
                   "theirs");
  cr_assert_str_eq(tn__attribute_get(find_named(f, "block/m"), "keep"), "1");
  cr_assert_null(tn__attribute_get(find_named(f, "x"), "keep"));
  tn__graph_release(f);
  tn__graph_release(b);
}

/* Also if an output is an input: gradients stop at the node's outputs. */
Test(flatten, keeps_gradients_out_where_they_were) {
  tn_graph *b = net_new();
  const tn_entry x = var_node(b, "x");
  HEADS(b, x, OP(b, "tanh", NULL, "t", x));
  const tn_entry mine = var_node(g, "x"),
                 out = embed_graph(g, b, "block", mine);
  OK(tn__attribute_set(g, out.node, "no_gradient", "1"));
  HEADS(g, OP(g, "mul", NULL, "m", OP(g, "mul", NULL, NULL, out, mine),
              output_of(out, 1)));
  tn_graph *f = flat_copy();
  cr_assert_null(tn__map_get(&f->names, "block/t_backward"));
  const tn_entry dx = gradient_of(f, "x");
  cr_assert_eq(tn__node_at(f, dx.node)->kind, TN__NODE_BACKWARD); /* no sum */
  cr_assert_null(tn__map_get(&f->names, "block/t_backward"));
  tn__graph_release(f);
  tn__graph_release(b);
}

Test(flatten, keeps_states_states) {
  tn_graph *b = net_new();
  HEADS(b, OP(b, "track", NULL, "t", var_node(b, "x")));
  const tn_entry out = embed_graph(g, b, "block", var_node(g, "x"));
  HEADS(g, out);
  tn_graph *f = flat_copy();
  const tn__node *t = find_named(f, "block/t");
  cr_assert_eq(t->n_aux, 1);
  cr_assert_eq(t->in[1].node, find_named(f, "block_t_sum")->id);
  cr_assert(find_named(f, "block_t_sum")->flags & TN__NODE_STATE);
  tn__graph_release(f);
  tn__graph_release(b);
}

/* Only one of two outputs is used. The arguments of the other remain arguments
 * of the program, in the graph's order. */
Test(flatten, leaves_a_program_its_arguments) {
  tn_graph *b = block_graph();
  const tn_entry out = embed_graph(g, b, "block", var_node(g, "x"));
  HEADS(g, output_of(out, 1));
  tn_program *p = NULL;
  tn_array *array = NULL;
  const tn_argument x = {.name = "x",
                         .known = {.dtype = TN_F64, .ndim = 1, .shape = {3}}};
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = &x,
                       .n_arguments = 1,
                       .request = TN_REQ_WRITE};
  OK(tn__program_bind(g, &how, &p));
  OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, "x", &array));
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, "x", &array));
  OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, "block_v", &array));
  cr_assert_eq(n_elements(array), 3);
  tn__program_release(p);
  tn__graph_release(b);
}

Test(flatten, says_which_argument_is_unknown) {
  tn_graph *b = net_new();
  const tn_entry x = var_node(b, "x");
  HEADS(b, OP(b, "tanh", NULL, NULL, x),
        OP(b, "tanh", NULL, NULL, var_node(b, "z")));
  const tn_entry out = embed_graph(g, b, "block", var_node(g, "x"));
  HEADS(g, out);
  tn_program *p = NULL;
  const tn_argument known = {
      .name = "x", .known = {.dtype = TN_F64, .ndim = 1, .shape = {3}}};
  const tn_bind how = {
      .struct_size = sizeof how, .arguments = &known, .n_arguments = 1};
  FAILS(tn__program_bind(g, &how, &p), TN_INCOMPLETE, "argument `block_z`");
  tn__graph_release(b);
}

Test(flatten, survives_each_failing_allocation) {
  nested_graph();
  for (int64_t i = 1;; ++i) {
    tn_graph *out = NULL;
    w.memory.asked = 0;
    w.memory.fail_at = i;
    const tn_code rc = tn__graph_flatten(g, &out);
    w.memory.fail_at = 0;
    tn__graph_release(out);
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
  }
}

/* Names of six levels would have 400 letters. */
Test(flatten, names_that_become_too_long_keep_their_end) {
  static const char name[] =
      "a_block_with_attention_normalisation_and_a_long_name_of_its_own";
  tn_graph *inner = net_new();
  HEADS(inner, OP(inner, "tanh", NULL, "first", var_node(inner, "x")));
  for (int level = 0; level < 6; ++level) {
    tn_graph *outer = net_new();
    const tn_entry once = embed_graph(outer, inner, name, var_node(outer, "x"));
    HEADS(outer, embed_graph(outer, inner, "again", once));
    tn__graph_release(inner);
    inner = outer;
  }
  const tn_entry all = embed_graph(g, inner, name, var_node(g, "x"));
  HEADS(g, all);
  tn_graph *f = flat_copy();
  cr_assert_eq(tn__n_nodes(f), 1 + 64);
  for (uint32_t i = 1; i < tn__n_nodes(f); ++i) {
    const char *made = tn__node_at(f, i)->name;
    cr_assert_leq(strlen(made), TN__NAME_MAX);
    cr_assert_eq(tn__map_get(&f->names, made), tn__node_at(f, i));
    cr_assert_not_null(strstr(made, "/first"), "%s", made);
  }
  tn__graph_release(f);
  tn__graph_release(inner);
}

/* The gradient of a product reads only its factors, so no node needs its
 * forward call. */
Test(flatten, brings_along_the_calls_that_gradients_are_of) {
  tn_graph *inner = net_new();
  tn_entry slope[2];
  HEADS(inner, OP(inner, "mul", NULL, "q", var_node(inner, "x"),
                  var_node(inner, "y")));
  const tn_entry by[] = {var_node(g, "x"), var_node(g, "y")};
  const tn_embedding what = {.struct_size = sizeof what,
                             .n_in = 2,
                             .inner = inner,
                             .name = "block",
                             .in = by};
  tn_entry out;
  OK(tn__graph_embed(g, &what, &out));
  const tn__gradient_spec spec = {
      .query = {.heads = &out, .of = by, .n_heads = 1, .n_of = 2}};
  OK(tn__graph_gradient(g, &spec, slope));
  tn__graph_release(inner);
  HEADS(g, slope[0], slope[1]);
  const double values[][2] = {{2, 3}, {5, 7}};
  feed feeds[] = {{"x", create_doubles(1, (const int64_t[]){2}, values[0])},
                  {"y", create_doubles(1, (const int64_t[]){2}, values[1])}};
  tn_array *made[2] = {NULL};
  tn_graph *f = flat_copy();
  evaluate_heads(f, feeds, 2, f->heads, 2, made);
  for (int i = 0; i < 2; ++i) {
    double *have = elements_of(made[i]);
    cr_expect_arr_eq(have, values[1 - i], sizeof values[0]);
    free(have);
    tn__array_release(made[i]), tn__array_release(feeds[i].array);
  }
  tn__graph_release(f);
}

/* The user's nodes keep their names; nodes of inner graphs give way. */
Test(flatten, existing_names_get_a_number) {
  tn_graph *inner = net_new();
  HEADS(inner, OP(inner, "tanh", NULL, "t", var_node(inner, "x")));
  const tn_entry x = OP(g, "square", NULL, "before/t", var_node(g, "x"));
  const tn_entry one = embed_graph(g, inner, "before", x);
  const tn_entry two = embed_graph(g, inner, "after", one);
  HEADS(g, OP(g, "exp", NULL, "after/t", two));
  tn_graph *f = flat_copy();
  const tn__node *last = find_named(f, "after/t"),
                 *first = find_named(f, "before/t");
  cr_expect_str_eq(last->desc->name, "exp");
  cr_expect_str_eq(first->desc->name, "square");
  cr_expect_str_eq(tn__node_at(f, last->in[0].node)->name, "after/t@0");
  cr_expect_eq(find_named(f, "before/t@0")->in[0].node, first->id);
  tn__graph_release(f);
  tn__graph_release(inner);
}
