/* SPDX-License-Identifier: Apache-2.0
 * Building graphs: calls by position and by name, created variables, names,
 * attributes and their scopes, lists, copies, nested graphs; and messages for
 * mistakes. The lists are those that MXNet's tests of symbols expect for the
 * same networks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

TestSuite(graph_symbol, .init = net_open, .fini = net_close);

/* ------------------------------------------------------------------ helpers */

/* A call that may fail. */
static tn_code call_op(const char *op, const char *params, const char *name,
                       const char *const *keys, const tn_entry *in, size_t n,
                       tn_entry *out);
#define CALL(op, params, name, keys, out, ...)                             \
  call_op((op), (params), (name), (keys), (const tn_entry[]){__VA_ARGS__}, \
          sizeof((tn_entry[]){__VA_ARGS__}) / sizeof(tn_entry), (out))
#define KEYS(...) ((const char *const[]){__VA_ARGS__})

static tn_code call_op(const char *op, const char *params, const char *name,
                       const char *const *keys, const tn_entry *in, size_t n,
                       tn_entry *out) {
  const tn_graph_node node = {.struct_size = sizeof node,
                              .n_in = (uint32_t)n,
                              .op = op,
                              .params = params,
                              .name = name,
                              .in = in,
                              .keys = keys};
  return tn__graph_call(g, &node, out);
}

/* A list of names, with blanks between them. */
static const char *list_names(tn_graph *graph, uint32_t list) {
  static char text[2000];
  const char *name = NULL;
  tn_entry entry;
  text[0] = '\0';
  for (size_t i = 0; !tn__graph_name(graph, list, i, &name, &entry); ++i) {
    if (i > 0) strcat(text, " ");
    strcat(text, name);
  }
  return text;
}

static const char *name_of(tn_entry entry) {
  return tn__node_at(g, entry.node)->name;
}

static char *json_of(const tn_graph *graph) {
  tn_text *text = NULL;
  OK(tn__graph_json(graph, false, &text));
  char *copy = strdup(tn_text_get(text));
  tn_text_release(text);
  return copy;
}

/* No failure changes a graph. */
#define FAILS_ALIKE(call, code, ...)    \
  do {                                  \
    char *before = json_of(g);          \
    FAILS((call), (code), __VA_ARGS__); \
    char *after = json_of(g);           \
    cr_assert_str_eq(after, before);    \
    free(before), free(after);          \
  } while (0)

static tn_entry mlp_graph(void) {
  const tn_entry data = var_node(g, "data");
  const tn_entry fc1 = OP(g, "dense", "num_hidden=1000", "fc1", data);
  const tn_entry act = OP(g, "tanh", NULL, "act", fc1);
  const tn_entry fc2 = OP(g, "dense", "num_hidden=10", "fc2", act);
  HEADS(g, fc2);
  return fc2;
}

/* ---------------------------------------------------------- inputs and lists
 */

Test(graph_symbol, arguments_are_listed_depth_first) {
  mlp_graph();
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS),
                   "data fc1_weight fc1_bias fc2_weight fc2_bias");
  cr_expect_str_eq(list_names(g, TN_GRAPH_HEADS), "fc2_output");
  cr_expect_str_eq(list_names(g, TN_GRAPH_AUXILIARIES), "");
  cr_expect_str_eq(list_names(g, TN_GRAPH_INTERNALS),
                   "data fc1_weight fc1_bias fc1_output act_output fc2_weight "
                   "fc2_bias fc2_output");
  cr_expect_str_eq(list_names(g, TN_GRAPH_NODES),
                   "data fc1_weight fc1_bias fc1 act fc2_weight fc2_bias fc2");
}

Test(graph_symbol, arguments_are_those_that_the_heads_need) {
  mlp_graph();
  tn_entry fc1;
  OK(tn__graph_find(g, "fc1_output", &fc1));
  HEADS(g, fc1);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS),
                   "data fc1_weight fc1_bias");
}

Test(graph_symbol, a_variable_that_no_head_needs_is_no_argument) {
  var_node(g, "alone");
  HEADS(g, var_node(g, "x"));
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS), "x");
}

Test(graph_symbol, inputs_are_passed_by_name) {
  tn_entry out;
  const tn_entry x = var_node(g, "x"), v = var_node(g, "v");
  OK(CALL("lab.dense", "num_hidden=4", "fc", KEYS("weight", "data"), &out, v,
          x));
  const tn__node *node = tn__node_at(g, out.node);
  cr_expect(tn__entry_is_same(node->in[0], x));
  cr_expect(tn__entry_is_same(node->in[1], v));
  HEADS(g, out);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS), "x v fc_bias");
}

Test(graph_symbol, states_are_variables_of_another_list) {
  const tn_entry y = OP(g, "track", NULL, "t", var_node(g, "x"));
  HEADS(g, y);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS), "x");
  cr_expect_str_eq(list_names(g, TN_GRAPH_AUXILIARIES), "t_sum");
}

Test(graph_symbol, a_variable_is_no_state_of_a_call_that_failed) {
  tn_entry out;
  const tn_entry x = var_node(g, "x"), s = var_node(g, "s"),
                 t = var_node(g, "t");
  const tn_attribute bad = {"who", "caf\xe9"};
  const tn_graph_node call = {.struct_size = sizeof call,
                              .op = "lab.track",
                              .n_in = 2,
                              .in = (const tn_entry[]){x, s},
                              .attributes = &bad,
                              .n_attributes = 1};
  OK(CALL("lab.track", NULL, "a", NULL, &out, x, t));
  FAILS(tn__graph_call(g, &call, &out), TN_INVALID, "is not UTF-8");
  HEADS(g, OP(g, "add", NULL, NULL, s, x), (tn_entry){out.node, 0});
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS), "s x");
  cr_expect_str_eq(list_names(g, TN_GRAPH_AUXILIARIES), "t");
}

/* Two calls change one state, in the order of the graph's nodes. */
Test(graph_symbol, two_calls_may_have_one_state) {
  tn_entry a, b;
  const tn_entry x = var_node(g, "x"), s = var_node(g, "s");
  OK(CALL("lab.track", NULL, "a", NULL, &a, x, s));
  OK(CALL("lab.track", NULL, "b", KEYS("sum", "data"), &b, s, x));
  HEADS(g, a, b);
  cr_expect_str_eq(list_names(g, TN_GRAPH_AUXILIARIES), "s");
  cr_expect(tn__entry_is_same(tn__node_at(g, b.node)->in[1], s));
}

Test(graph_symbol, any_number_of_inputs_is_passed_by_position) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y"),
                 z = var_node(g, "z");
  const tn_entry sum = OP(g, "total", NULL, NULL, x, y, z, x);
  cr_expect_eq(tn__node_at(g, sum.node)->n_in, 4);
}

Test(graph_symbol, an_entry_may_be_read_twice) {
  const tn_entry x = var_node(g, "x");
  const tn_entry y = OP(g, "mul", NULL, "y", x, x);
  HEADS(g, y);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS), "x");
}

Test(graph_symbol, a_weight_that_is_absent_is_not_made) {
  const tn_entry none = TN_ENTRY_NONE;
  tn_entry out;
  OK(CALL("lab.dense", "num_hidden=4", "fc", KEYS("data", "bias"), &out,
          var_node(g, "x"), none));
  HEADS(g, out);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS), "x fc_weight");
}

Test(graph_symbol, a_weight_that_a_parameter_rules_out_is_not_made) {
  const tn_entry with =
      OP(g, "conv", "kernel=3 num_filter=2", "a", var_node(g, "x"));
  const tn_entry without =
      OP(g, "conv", "kernel=3 num_filter=2 no_bias=true", "b", with);
  HEADS(g, without);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS),
                   "x a_weight a_bias b_weight");
}

Test(graph_symbol, a_call_without_inputs_makes_all_of_them) {
  tn_entry out;
  const tn_graph_node node = {
      .struct_size = sizeof node, .op = "lab.add", .name = "sum"};
  OK(tn__graph_call(g, &node, &out));
  HEADS(g, out);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS), "sum_lhs sum_rhs");
}

/* ------------------------------------------------------------------ mistakes
 */

Test(graph_symbol, too_many_inputs_are_refused) {
  tn_entry out;
  const tn_entry x = var_node(g, "x");
  FAILS_ALIKE(CALL("lab.tanh", NULL, NULL, NULL, &out, x, x), TN_INVALID,
              "lab.tanh@1 takes 1 inputs and 0 states, but 2 were given");
}

Test(graph_symbol, an_unknown_name_of_an_input_is_refused) {
  tn_entry out;
  const tn_entry x = var_node(g, "x");
  FAILS_ALIKE(CALL("lab.dense", "num_hidden=1", NULL, KEYS("wieght"), &out, x),
              TN_NOT_FOUND, "lab.dense@1 has no input `wieght`", "`weight`?");
}

Test(graph_symbol, an_input_passed_twice_is_refused) {
  tn_entry out;
  const tn_entry x = var_node(g, "x");
  FAILS_ALIKE(CALL("lab.add", NULL, NULL, KEYS("lhs", "lhs"), &out, x, x),
              TN_INVALID, "lab.add@1: input `lhs` is given twice");
}

Test(graph_symbol, any_number_of_inputs_is_not_passed_by_name) {
  tn_entry out;
  const tn_entry x = var_node(g, "x");
  FAILS_ALIKE(CALL("lab.total", NULL, NULL, KEYS("first", "more"), &out, x, x),
              TN_INVALID, "lab.total@1: input `more` is any number of entries",
              "by position");
}

Test(graph_symbol, a_required_input_cannot_be_absent) {
  tn_entry out;
  const tn_entry x = var_node(g, "x"), none = TN_ENTRY_NONE;
  FAILS_ALIKE(CALL("lab.add", NULL, NULL, NULL, &out, x, none), TN_INVALID,
              "lab.add@1: input `rhs` is not optional");
}

Test(graph_symbol, only_variables_are_changed) {
  tn_entry out;
  const tn_entry x = var_node(g, "x");
  const tn_entry y = OP(g, "tanh", NULL, "y", x);
  FAILS_ALIKE(CALL("lab.track", NULL, NULL, NULL, &out, x, y), TN_INVALID,
              "lab.track@1 changes its state `sum`, so it must be a variable; "
              "node `y` is none");
}

Test(graph_symbol, entries_of_no_graph_are_refused) {
  tn_entry out;
  const tn_entry x = var_node(g, "x");
  FAILS_ALIKE(CALL("lab.tanh", NULL, NULL, NULL, &out, ((tn_entry){9, 0})),
              TN_INVALID, "output 0 of node 9, but the graph has 1 nodes");
  FAILS_ALIKE(CALL("lab.tanh", NULL, NULL, NULL, &out, output_of(x, 3)),
              TN_INVALID, "output 3 of node `x`, which has 1");
  FAILS_ALIKE(tn__graph_heads_set(g, &(tn_entry){9, 0}, 1), TN_INVALID,
              "head 0 is output 0 of node 9");
}

Test(graph_symbol, operators_and_parameters_are_checked) {
  tn_entry out;
  const tn_entry x = var_node(g, "x");
  FAILS_ALIKE(CALL("lab.tahn", NULL, NULL, NULL, &out, x), TN_NOT_FOUND,
              "lab.tahn", "lab.tanh");
  FAILS_ALIKE(CALL("lab.affine", "scael=1", NULL, NULL, &out, x), TN_NOT_FOUND,
              "scael", "scale");
  FAILS_ALIKE(CALL("lab.dense", NULL, NULL, NULL, &out, x), TN_INVALID,
              "num_hidden");
}

/* A variable `fc_bias` exists, and the call has already created another one. */
Test(graph_symbol, an_existing_name_undoes_the_call) {
  tn_entry out;
  const tn_entry x = var_node(g, "x");
  var_node(g, "fc_bias");
  FAILS_ALIKE(CALL("lab.dense", "num_hidden=1", "fc", NULL, &out, x), TN_EXISTS,
              "has a node named `fc_bias` already");
  FAILS_ALIKE(CALL("lab.tanh", NULL, "x", NULL, &out, x), TN_EXISTS,
              "has a node named `x` already");
  FAILS_ALIKE(CALL("lab.tanh", NULL, "a b", NULL, &out, x), TN_INVALID,
              "\"a b\" cannot name a node");
}

/* ---------------------------------------------------------------------- names
 */

Test(graph_symbol, names_are_made_of_operators_and_numbers) {
  const tn_entry x = var_node(g, "x");
  cr_expect_str_eq(name_of(OP(g, "tanh", NULL, NULL, x)), "tanh0");
  cr_expect_str_eq(name_of(OP(g, "tanh", NULL, "tanh1", x)), "tanh1");
  cr_expect_str_eq(name_of(OP(g, "tanh", NULL, NULL, x)), "tanh2");
  cr_expect_str_eq(name_of(OP(g, "exp", NULL, NULL, x)), "exp0");
}

Test(graph_symbol, a_prefix_begins_created_names) {
  OK(tn__graph_prefix(g, "left_"));
  const tn_entry y = OP(g, "dense", "num_hidden=1", NULL, var_node(g, "x"));
  HEADS(g, y);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS),
                   "x left_dense0_weight left_dense0_bias");
  cr_expect_str_eq(name_of(OP(g, "tanh", NULL, "mine", y)), "mine");
}

Test(graph_symbol, a_prefix_is_the_begin_of_a_name) {
  FAILS(tn__graph_prefix(g, "a b"), TN_INVALID, "\"a b\" cannot begin a name");
  OK(tn__graph_prefix(g, "a"));
  OK(tn__graph_prefix(g, ""));
  cr_expect_str_eq(name_of(OP(g, "tanh", NULL, NULL, var_node(g, "x"))),
                   "tanh0");
  OK(tn__graph_prefix(g, NULL));
}

/* The number is free again after a failed call. */
Test(graph_symbol, a_failed_call_takes_no_name) {
  tn_entry out;
  const tn_entry x = var_node(g, "x");
  FAILS(CALL("lab.tanh", NULL, NULL, NULL, &out, x, x), TN_INVALID, "takes 1");
  cr_expect_str_eq(name_of(OP(g, "tanh", NULL, NULL, x)), "tanh0");
}

Test(graph_symbol, entries_are_found_by_name) {
  tn_entry found;
  const tn_entry out = mlp_graph();
  const tn_entry p = OP(g, "pair", NULL, "two_halves", out, out);
  const tn_entry s = OP(g, "slices", "parts=2", "cut_up", p);
  OK(tn__graph_find(g, "fc1_weight", &found));
  cr_expect_eq(tn__node_at(g, found.node)->kind, TN__NODE_VARIABLE);
  OK(tn__graph_find(g, "fc2_output", &found));
  cr_expect(tn__entry_is_same(found, out));
  OK(tn__graph_find(g, "two_halves_sum", &found));
  cr_expect(tn__entry_is_same(found, output_of(p, 1)));
  OK(tn__graph_find(g, "cut_up_output1", &found));
  FAILS(tn__graph_find(g, "fc2_outputt", &found), TN_NOT_FOUND,
        "no node with such an output; did you mean `fc2_output`?");
  OK(tn__graph_find(g, "cut_up_output1", &found));
  cr_expect(tn__entry_is_same(found, output_of(s, 1)));
  FAILS(tn__graph_find(g, "fc1_wieght", &found), TN_NOT_FOUND,
        "no variable `fc1_wieght`", "`fc1_weight`");
  FAILS(tn__graph_find(g, "fc1", &found), TN_NOT_FOUND, "fc1");
  cr_expect(tn__entry_is_none(found));
}

/* MXNet's test_symbol_internal: a part of the network by name. */
Test(graph_symbol, internals_become_heads) {
  tn_entry fc1;
  mlp_graph();
  OK(tn__graph_find(g, "fc1_output", &fc1));
  HEADS(g, fc1);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS),
                   "data fc1_weight fc1_bias");
  cr_expect_str_eq(list_names(g, TN_GRAPH_HEADS), "fc1_output");
}

Test(graph_symbol, hidden_outputs_are_no_internals) {
  const tn_entry x = var_node(g, "x");
  HEADS(g, OP(g, "keep", NULL, "k", x, x));
  cr_expect_str_eq(list_names(g, TN_GRAPH_INTERNALS), "x k_out");
}

Test(graph_symbol, lists_end) {
  const char *name = NULL;
  tn_entry entry;
  mlp_graph();
  FAILS(tn__graph_name(g, TN_GRAPH_HEADS, 1, &name, &entry), TN_NOT_FOUND,
        "the list ends before 1");
  cr_expect_null(name);
  FAILS(tn__graph_name(g, 17, 0, &name, &entry), TN_INVALID,
        "there is no list 17");
}

/* ----------------------------------------------------------------- attributes
 */

static const char *attribute_of(const char *node, const char *key) {
  const tn__node *found = tn__map_get(&g->names, node);
  cr_assert_not_null(found);
  return tn__attribute_get(found, key);
}

Test(graph_symbol, attributes_that_are_not_utf_8_are_refused) {
  const tn_attribute bad = {"who", "caf\xe9"};
  const tn_entry data = var_node(g, "data");
  FAILS(tn__attribute_set(g, data.node, "who", "caf\xe9"), TN_INVALID,
        "the value of the attribute `who` is not UTF-8");
  FAILS(tn__attribute_set(g, data.node, "caf\xe9", "me"), TN_INVALID,
        "an attribute's key is not UTF-8");
  FAILS(tn__scope_push(g, &bad, 1), TN_INVALID, "is not UTF-8");
  cr_expect_null(attribute_of("data", "who"));
  OK(tn__attribute_set(g, data.node, "who", "caf\xc3\xa9"));
}

Test(graph_symbol, keys_of_attributes_are_not_empty) {
  const tn_attribute bad = {"", "value"};
  const tn_entry data = var_node(g, "data");
  FAILS(tn__scope_push(g, &bad, 1), TN_INVALID, "must not be empty");
  FAILS(tn__attribute_set(g, data.node, "", "value"), TN_INVALID,
        "must not be empty");
}

/* MXNet's test_attr_basic and test_operator. */
Test(graph_symbol, scopes_hand_out_attributes) {
  const tn_attribute outer[] = {{"group", "4"}, {"data", "great"}};
  const tn_attribute inner[] = {{"group", "5"}};
  OK(tn__scope_push(g, outer, 2));
  const tn_entry data = var_node(g, "data");
  OK(tn__scope_push(g, inner, 1));
  const tn_entry fc = OP(g, "dense", "num_hidden=1", "fc", data);
  OK(tn__scope_pop(g));
  OP(g, "tanh", NULL, "act", fc);
  OK(tn__scope_pop(g));
  OP(g, "tanh", NULL, "last", fc);
  cr_expect_str_eq(attribute_of("data", "group"), "4");
  cr_expect_str_eq(attribute_of("fc", "group"), "5");
  cr_expect_str_eq(attribute_of("fc", "data"), "great");
  cr_expect_str_eq(attribute_of("fc_weight", "group"), "5");
  cr_expect_str_eq(attribute_of("act", "group"), "4");
  cr_expect_null(attribute_of("last", "group"));
  FAILS(tn__scope_pop(g), TN_INVALID, "no scope is open");
}

Test(graph_symbol, own_attributes_override_scopes) {
  const tn_attribute scope = {"group", "scope"}, own = {"group", "own"};
  tn_entry out;
  OK(tn__scope_push(g, &scope, 1));
  OK(tn__graph_call(g,
                    &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                     .op = "lab.tanh",
                                     .name = "t",
                                     .attributes = &own,
                                     .n_attributes = 1},
                    &out));
  OK(tn__scope_pop(g));
  cr_expect_str_eq(attribute_of("t", "group"), "own");
  cr_expect_str_eq(attribute_of("t_data", "group"), "own");
}

static void attributes_are(const char *want) {
  tn_text *text = NULL;
  OK(tn__attributes_json(g, &text));
  cr_expect_str_eq(tn_text_get(text), want);
  tn_text_release(text);
}

Test(graph_symbol, all_attributes_are_listed_with_their_nodes) {
  tn_entry out;
  attributes_are("{}");
  tn_graph *inner = net_new();
  const tn_entry w_ = var_node(inner, "w");
  OK(tn__attribute_set(inner, w_.node, "lr", "2"));
  HEADS(inner, OP(inner, "tanh", NULL, "t", w_));
  const tn_entry x = var_node(g, "x");
  OK(tn__attribute_set(g, x.node, "b", "1"));
  OK(tn__attribute_set(g, x.node, "a", "say \"2\""));
  const tn_embedding what = {.struct_size = sizeof what,
                             .n_in = 1,
                             .inner = inner,
                             .name = "n",
                             .in = &x};
  OK(tn__graph_embed(g, &what, &out));
  OK(tn__attribute_set(g, out.node, "group", "4"));
  const tn_entry y = OP(g, "same", NULL, "y", out);
  OK(tn__attribute_set(g, y.node, "c", "3"));
  attributes_are(
      "{\"x$a\": \"say \\\"2\\\"\", \"x$b\": \"1\", "
      "\"n$group\": \"4\", \"n/w$lr\": \"2\", "
      "\"y$c\": \"3\"}");
  tn__graph_release(inner);
}

Test(graph_symbol, attributes_are_set_replaced_and_removed) {
  const tn_entry x = var_node(g, "x");
  OK(tn__attribute_set(g, x.node, "b", "1"));
  OK(tn__attribute_set(g, x.node, "a", "2"));
  OK(tn__attribute_set(g, x.node, "b", "3"));
  const tn__node *node = tn__node_at(g, x.node);
  cr_assert_eq(node->n_attrs, 2);
  cr_expect_str_eq(node->attrs[0].key, "a");
  cr_expect_str_eq(node->attrs[1].value, "3");
  OK(tn__attribute_set(g, x.node, "a", NULL));
  OK(tn__attribute_set(g, x.node, "a", NULL));
  cr_expect_null(attribute_of("x", "a"));
  FAILS(tn__attribute_set(g, x.node, "", "1"), TN_INVALID, "key");
  FAILS(tn__attribute_set(g, 7, "a", "1"), TN_INVALID, "node 7");
}

/* ------------------------------------------------------------------- copies */

Test(graph_symbol, a_copy_is_equal_and_shares_nothing) {
  tn_graph *copy = NULL;
  const tn_entry out = mlp_graph();
  OK(tn__attribute_set(g, 0, "k", "v"));
  OK(tn__graph_copy(g, &copy));
  char *mine = json_of(g), *theirs = json_of(copy);
  cr_expect_str_eq(mine, theirs);
  free(theirs);
  OK(tn__attribute_set(copy, 0, "k", "other"));
  tn_entry more;
  OK(tn__graph_variable(copy, "more", NULL, &more));
  OK(tn__graph_heads_set(copy, &more, 1));
  char *again = json_of(g);
  cr_expect_str_eq(again, mine);
  free(again), free(mine);
  tn__graph_release(g);
  g = copy; /* lives on without the original */
  cr_expect_eq(tn__node_at(g, out.node)->kind, TN__NODE_CALL);
  cr_expect_str_eq(attribute_of("data", "k"), "other");
}

/* ------------------------------------------------------------------ compose */

/* MXNet's test_symbol_compose: the second net's data is the first's output. */
Test(graph_symbol, composition_replaces_a_variable) {
  tn_graph *other = net_new();
  tn_entry head;
  const tn_entry fc3 =
      OP(other, "dense", "num_hidden=10", "fc3", var_node(other, "data2"));
  const tn_entry act = OP(other, "tanh", NULL, "act2", fc3);
  HEADS(other, OP(other, "dense", "num_hidden=20", "fc4", act));
  const tn_entry out = mlp_graph();
  OK(tn__graph_compose(g, other, KEYS("data2"), &out, 1, &head));
  HEADS(g, head);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS),
                   "data fc1_weight fc1_bias fc2_weight fc2_bias fc3_weight "
                   "fc3_bias fc4_weight fc4_bias");
  cr_expect_str_eq(list_names(g, TN_GRAPH_HEADS), "fc4_output");
  cr_expect_str_eq(list_names(other, TN_GRAPH_ARGUMENTS),
                   "data2 fc3_weight fc3_bias fc4_weight fc4_bias");
  tn__graph_release(other);
}

Test(graph_symbol, variables_of_one_name_become_one) {
  tn_graph *other = net_new();
  tn_entry head;
  const tn_entry x = var_node(g, "x");
  HEADS(other, OP(other, "tanh", NULL, "y", var_node(other, "x")));
  OK(tn__graph_compose(g, other, NULL, NULL, 0, &head));
  cr_expect(tn__entry_is_same(tn__node_at(g, head.node)->in[0], x));
  tn__graph_release(other);
}

Test(graph_symbol, a_failed_composition_changes_nothing) {
  tn_graph *other = net_new();
  tn_entry head;
  HEADS(other, OP(other, "track", NULL, "t", var_node(other, "x")));
  const tn_entry x = var_node(g, "x"), y = OP(g, "tanh", NULL, "t", x);
  FAILS_ALIKE(tn__graph_compose(g, other, KEYS("z"), &x, 1, &head),
              TN_NOT_FOUND, "has no variable `z` to replace");
  FAILS_ALIKE(tn__graph_compose(g, other, KEYS("t_sum"), &y, 1, &head),
              TN_INVALID, "variable `t_sum` is a state");
  FAILS_ALIKE(tn__graph_compose(g, other, NULL, NULL, 0, &head), TN_EXISTS,
              "a node named `t` already");
  tn__graph_release(other);
}

/* -------------------------------------------------------- graphs in a graph */

static tn_graph *block_graph(void) {
  tn_graph *b = net_new();
  const tn_entry t = OP(b, "track", NULL, "t", var_node(b, "x"));
  HEADS(b, OP(b, "dense", "num_hidden=4", "fc", t));
  return b;
}

static tn_code embed_graph(const tn_graph *inner, const char *const *keys,
                           const tn_entry *in, size_t n, tn_entry *out) {
  return tn__graph_embed(g,
                         &(tn_embedding){.struct_size = sizeof(tn_embedding),
                                         .n_in = (uint32_t)n,
                                         .inner = inner,
                                         .in = in,
                                         .keys = keys},
                         out);
}

Test(graph_symbol, an_embedded_graph_makes_its_variables) {
  tn_graph *b = block_graph();
  tn_entry out;
  const tn_entry weight = var_node(g, "weight");
  OK(embed_graph(b, KEYS("fc_weight"), &weight, 1, &out));
  HEADS(g, out);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS),
                   "graph0_x weight graph0_fc_bias");
  cr_expect_str_eq(list_names(g, TN_GRAPH_AUXILIARIES), "graph0_t_sum");
  tn__graph_release(b); /* it was copied */
  cr_expect_eq(tn__n_nodes(tn__node_at(g, out.node)->inner), 6);
}

Test(graph_symbol, mistakes_of_embedding_change_nothing) {
  tn_graph *b = block_graph(), *empty_graph = net_new();
  tn_entry out;
  const tn_entry x = var_node(g, "x"), y = OP(g, "tanh", NULL, "y", x);
  const tn_entry six[] = {x, x, x, x, x, x};
  FAILS_ALIKE(embed_graph(b, KEYS("z"), &x, 1, &out), TN_NOT_FOUND,
              "graph0 has no variable `z`");
  FAILS_ALIKE(embed_graph(b, KEYS("x", "x"), six, 2, &out), TN_INVALID,
              "`x` is given twice");
  FAILS_ALIKE(embed_graph(b, NULL, six, 6, &out), TN_INVALID,
              "has 4 variables, but 6 entries were given");
  FAILS_ALIKE(embed_graph(b, KEYS("t_sum"), &y, 1, &out), TN_INVALID,
              "changes its state `t_sum`, so it must be a variable");
  FAILS_ALIKE(embed_graph(empty_graph, NULL, NULL, 0, &out), TN_INVALID,
              "needs heads");
  tn__graph_release(b);
  tn__graph_release(empty_graph);
}

static tn_code loop_of(const tn_graph *step, const char *sequence,
                       const char *state, tn_entry *out) {
  return tn__graph_loop(g,
                        &(tn_loop){.struct_size = sizeof(tn_loop),
                                   .step = step,
                                   .sequences = &sequence,
                                   .states = &state,
                                   .n_sequences = sequence != NULL,
                                   .n_states = state != NULL},
                        out);
}

Test(graph_symbol, mistakes_of_loops_change_nothing) {
  tn_graph *step = net_new();
  tn_entry out;
  HEADS(step,
        OP(step, "add", NULL, "sum", var_node(step, "x"), var_node(step, "h")));
  FAILS_ALIKE(loop_of(step, NULL, "h", &out), TN_INVALID, "needs a sequence");
  FAILS_ALIKE(loop_of(step, "z", "h", &out), TN_NOT_FOUND,
              "the step has no argument `z`");
  FAILS_ALIKE(loop_of(step, "x", "x", &out), TN_INVALID,
              "`x` is named twice among sequences and states");
  OK(loop_of(step, "x", "h", &out));
  cr_expect_str_eq(name_of(out), "loop0");
  HEADS(g, out);
  cr_expect_str_eq(list_names(g, TN_GRAPH_ARGUMENTS), "loop0_x loop0_h");
  tn__graph_release(step);
}

Test(graph_symbol, ranks_of_variables_are_checked) {
  tn_entry out;
  tn_sig sig = F32(1);
  sig.ndim = 17;
  FAILS_ALIKE(tn__graph_variable(g, "x", &sig, &out), TN_INVALID,
              "rank 17 is not in [-1, 16]");
}
