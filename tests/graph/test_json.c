/* SPDX-License-Identifier: Apache-2.0
 * Graphs as JSON: a written graph is read as the same graph, and writing it
 * again gives the same bytes. A file that cannot be read gives a message with
 * the place, and leaves no memory allocated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../growth.h"
#include "evaluate.h"

TestSuite(graph_json, .init = net_open, .fini = net_close);

/* ------------------------------------------------------------------ helpers */

/* The caller frees it. */
static char *json_of(const tn_graph *graph) {
  tn_text *text = NULL;
  OK(tn__graph_json(graph, false, &text));
  char *copy = strdup(tn_text_get(text));
  tn_text_release(text);
  return copy;
}

static tn_code parse_graph(const char *json, tn_graph **out) {
  return tn__graph_parse(&w.caller, json, strlen(json), out);
}

/* Reads the text of `g`, and expects that writing gives the same text. */
static tn_graph *read_back(void) {
  tn_graph *other = NULL;
  char *first = json_of(g);
  OK(parse_graph(first, &other));
  char *second = json_of(other);
  cr_assert_str_eq(first, second);
  free(first);
  free(second);
  return other;
}

static void round_trip(void) {
  tn__graph_release(read_back());
}

/* `PLUGINS` is the list of the loaded `lab`. */
#define HEAD "{\"tenon\": 1, \"nodes\": ["
#define VARIABLE(name) "{\"name\": \"" name "\", \"kind\": \"variable\"}"
#define TANH(name, in)                              \
  "{\"name\": \"" name                              \
  "\", \"kind\": \"call\", \"op\": \"lab.tanh@1\"," \
  " \"inputs\": " in "}"
#define TAIL(heads) "], \"heads\": " heads "}"

/* Refuses `json` with TN_INVALID and these parts. */
#define REFUSES(json, ...)                                  \
  do {                                                      \
    tn_graph *no = NULL;                                    \
    FAILS(parse_graph(json, &no), TN_INVALID, __VA_ARGS__); \
    cr_assert_null(no);                                     \
  } while (0)

/* -------------------------------------------------------------------- format
 */

static uint64_t lab_hash(void) {
  uint64_t hash = 0;
  tn_plugin_info info;
  for (size_t i = 0; !tn__plugin_at(w.registry, i, &info); ++i)
    if (strcmp(info.plugin->name, "lab") == 0)
      hash = info.plugin->manifest_hash;
  return hash;
}

Test(graph_json, the_text_is_the_documented_one) {
  char want[2000];
  const tn_entry x = typed_var(g, "data", F32(32, -1));
  const tn_entry y = OP(g, "affine", "scale=2", "a", x);
  const tn_entry z = OP(g, "track", NULL, "t", y);
  OK(tn__attribute_set(g, y.node, "group", "left \"one\""));
  HEADS(g, z);
  (void)snprintf(
      want, sizeof want,
      "{\n"
      "  \"tenon\": 1,\n"
      "  \"plugins\": [\n"
      "    {\"name\": \"lab\", \"release\": 1, \"hash\": \"%016llx\"}\n"
      "  ],\n"
      "  \"nodes\": [\n"
      "    {\"name\": \"data\", \"kind\": \"variable\", \"dtype\": \"f32\", "
      "\"shape\": [32, null]},\n"
      "    {\"name\": \"a\", \"kind\": \"call\", \"op\": \"lab.affine@1\", "
      "\"params\": \"scale=2 shift=0\", \"inputs\": [[0, 0]], "
      "\"attributes\": {\"group\": \"left \\\"one\\\"\"}},\n"
      "    {\"name\": \"t_sum\", \"kind\": \"variable\"},\n"
      "    {\"name\": \"t\", \"kind\": \"call\", \"op\": \"lab.track@1\", "
      "\"inputs\": [[1, 0]], \"states\": [[2, 0]]}\n"
      "  ],\n"
      "  \"heads\": [[3, 0]]\n"
      "}\n",
      (unsigned long long)lab_hash());
  char *have = json_of(g);
  cr_assert_str_eq(have, want);
  free(have);
}

Test(graph_json, an_empty_graph_is_read_back) {
  round_trip();
}

/* ---------------------------------------------------------------- round trip
 */

static tn_entry mlp_graph(void) {
  const tn_entry data = typed_var(g, "data", F64(4, 3));
  const tn_entry fc1 = OP(g, "dense", "num_hidden=5", "fc1", data);
  const tn_entry act = OP(g, "tanh", NULL, "act", fc1);
  const tn_entry fc2 = OP(g, "dense", "num_hidden=2", "fc2", act);
  HEADS(g, fc2);
  return fc2;
}

Test(graph_json, a_network_is_read_back_with_attributes_and_shapes) {
  mlp_graph();
  OK(tn__attribute_set(g, 0, "lr_mult", "0.1"));
  OK(tn__attribute_set(g, 0, "__note", "tab\t, line\n, \xc3\xa9"));
  tn_graph *other = read_back();
  cr_expect_str_eq(tn__attribute_get(tn__node_at(other, 0), "__note"),
                   "tab\t, line\n, \xc3\xa9");
  OK(tn__graph_infer(other, NULL, 0));
  is_sig(other, other->heads[0], F64(4, 2));
  tn__graph_release(other);
}

Test(graph_json, a_graph_with_gradients_is_read_back) {
  const tn_entry y = mlp_graph();
  tn_entry of[2], grads[2];
  OK(tn__graph_find(g, "fc1_weight", &of[0]));
  OK(tn__graph_find(g, "data", &of[1]));
  const tn__gradient_spec spec = {
      .query = {.heads = &y, .of = of, .n_heads = 1, .n_of = 2}};
  OK(tn__graph_gradient(g, &spec, grads));
  HEADS(g, y, grads[0], grads[1]);
  tn_graph *other = read_back();
  for (uint32_t i = 0; i < tn__n_nodes(g); ++i) {
    cr_expect_eq(tn__node_at(other, i)->kind, tn__node_at(g, i)->kind);
    cr_expect_eq(tn__node_at(other, i)->of, tn__node_at(g, i)->of);
    cr_expect_eq(tn__node_at(other, i)->flags, tn__node_at(g, i)->flags);
  }
  tn__graph_release(other);
}

/* Both graphs are computed; no number comes from the reader. */
Test(graph_json, a_read_graph_computes_the_same) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  const tn_entry p = OP(g, "pair", NULL, "p", x, y);
  const tn_entry k = OP(g, "keep", NULL, "k", output_of(p, 1), x);
  const tn_entry q = OP(g, "total", NULL, "q", k, p, x);
  tn_entry of[] = {x, y}, grads[2];
  const tn__gradient_spec spec = {
      .query = {.heads = &q, .of = of, .n_heads = 1, .n_of = 2}};
  OK(tn__graph_gradient(g, &spec, grads));
  HEADS(g, q, grads[0], grads[1]);
  tn_graph *other = read_back();
  tn_array *x3 =
      create_doubles(1, (const int64_t[]){3}, (const double[]){1, -2, 3});
  tn_array *y3 =
      create_doubles(1, (const int64_t[]){3}, (const double[]){.5, 4, -1});
  const feed feeds[] = {{"x", x3}, {"y", y3}};
  tn_array *mine[3], *theirs[3];
  evaluate_heads(g, feeds, 2, g->heads, 3, mine);
  evaluate_heads(other, feeds, 2, other->heads, 3, theirs);
  for (int i = 0; i < 3; ++i) {
    double *a = elements_of(mine[i]), *b = elements_of(theirs[i]);
    cr_expect_arr_eq(a, b, 3 * sizeof *a, "head %d", i);
    free(a), free(b);
    tn__array_release(mine[i]);
    tn__array_release(theirs[i]);
  }
  tn__array_release(x3);
  tn__array_release(y3);
  tn__graph_release(other);
}

/* state' = tanh(x + state), collected too. */
static tn_graph *step_graph(void) {
  tn_graph *s = net_new();
  const tn_entry x = var_node(s, "x"), h = var_node(s, "h");
  const tn_entry sum = OP(s, "add", NULL, "sum", x, h);
  const tn_entry next = OP(s, "tanh", NULL, "next", sum);
  HEADS(s, next, next);
  return s;
}

static tn_entry add_loop(const tn_graph *step) {
  tn_entry out;
  OK(tn__graph_loop(g,
                    &(tn_loop){.struct_size = sizeof(tn_loop),
                               .step = step,
                               .name = "loop",
                               .sequences = (const char *const[]){"x"},
                               .states = (const char *const[]){"h"},
                               .n_sequences = 1,
                               .n_states = 1,
                               .reverse = 1},
                    &out));
  return out;
}

Test(graph_json, graphs_and_loops_are_read_back_with_their_gradients) {
  tn_graph *s = step_graph(), *block = net_new();
  tn_entry b = OP(block, "track", NULL, "t", var_node(block, "x")), out, in;
  HEADS(block, b);
  const tn_entry l = add_loop(s);
  OK(tn__graph_embed(
      g,
      &(tn_embedding){
          .struct_size = sizeof(tn_embedding), .inner = block, .name = "block"},
      &out));
  OK(tn__graph_find(g, "loop_x", &in));
  tn_entry grad;
  const tn_entry last = output_of(l, 1);
  const tn__gradient_spec spec = {
      .query = {.heads = &last, .of = &in, .n_heads = 1, .n_of = 1}};
  OK(tn__graph_gradient(g, &spec, &grad));
  HEADS(g, l, out, grad);
  tn_graph *other = read_back();
  const tn__node *copy = tn__node_at(other, l.node);
  cr_expect_eq(copy->kind, TN__NODE_LOOP);
  cr_expect_eq(copy->loop->reverse, 1);
  cr_expect_eq(copy->n_out, 3); /* state, collected, states before */
  cr_expect(tn__node_at(other, out.node)->n_aux == 1);
  OK(tn__graph_infer(other, &(tn_known){.name = "loop_x", .sig = F64(7, 2)},
                     1) == TN_INCOMPLETE
         ? TN_OK
         : TN_INTERNAL);
  is_sig(other, output_of(l, 1), F64(7, 2));
  tn__graph_release(other);
  tn__graph_release(s);
  tn__graph_release(block);
}

Test(graph_json, control_dependencies_are_read_back) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  tn__node *node = NULL;
  OK(tn__node_add(g,
                  &(tn__node_spec){.kind = TN__NODE_COPY,
                                   .n_in = 1,
                                   .n_out = 1,
                                   .of = TN_NONE,
                                   .name = "copy",
                                   .in = &x,
                                   .after = &y.node,
                                   .n_after = 1},
                  &node));
  HEADS(g, (tn_entry){node->id, 0});
  tn_graph *other = read_back();
  cr_expect_eq(tn__node_at(other, 2)->n_after, 1);
  cr_expect_eq(tn__node_at(other, 2)->after[0], y.node);
  tn__graph_release(other);
}

Test(graph_json, an_absent_optional_input_stays_absent) {
  const tn_entry x = var_node(g, "x"), v = var_node(g, "v"),
                 none = TN_ENTRY_NONE;
  const tn_entry fc = OP(g, "dense", "num_hidden=2", "fc", x, v, none);
  HEADS(g, fc);
  tn_graph *other = read_back();
  cr_expect_eq(tn__node_at(other, fc.node)->n_in, 2);
  tn__graph_release(other);
}

/* Keys of a file may have any order. */
Test(graph_json, keys_may_have_another_order) {
  tn_graph *other = NULL;
  OK(parse_graph(
      "{\"tenon\":1,\"nodes\":[{\"kind\":\"variable\",\"name\":\"x\"},"
      "{\"inputs\":[[0,0]],\"op\":\"lab.tanh\",\"kind\":\"call\","
      "\"attributes\":{\"b\":\"2\",\"a\":\"1\"},\"name\":\"y\"}],"
      "\"heads\":[[1,0]]}",
      &other));
  cr_expect_str_eq(tn__node_at(other, 1)->attrs[0].key, "a");
  tn__graph_release(other);
}

/* ---------------------------------------------------------------------- files
 */

static char folder[] = "/tmp/tenon-graph-XXXXXX";

static char *path_in(const char *name) {
  static char path[200];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

Test(graph_json, a_file_is_replaced_and_read_back) {
  tn_graph *other = NULL;
  cr_assert_not_null(mkdtemp(folder));
  char *path = path_in("net.json");
  FILE *old = fopen(path, "w");
  fputs("something else", old);
  fclose(old);
  mlp_graph();
  OK(tn__graph_save(g, path));
  OK(tn__graph_load(&w.caller, path, &other));
  char *mine = json_of(g), *theirs = json_of(other);
  cr_expect_str_eq(mine, theirs);
  free(mine), free(theirs);
  tn__graph_release(other);
  cr_expect_eq(unlink(path), 0);
  cr_expect_eq(rmdir(folder), 0); /* no other file is left */
}

Test(graph_json, messages_about_files_begin_with_their_names) {
  tn_graph *no = NULL;
  cr_assert_not_null(mkdtemp(folder));
  char *path = path_in("net.json");
  FAILS(tn__graph_load(&w.caller, path, &no), TN_NOT_FOUND, path);
  FILE *file = fopen(path, "w");
  fputs("{\"tenon\": 1,\n \"nodes\": 7}", file);
  fclose(file);
  FAILS(tn__graph_load(&w.caller, path, &no), TN_INVALID, path,
        ": line 2 (byte 23): expected `[`");
  cr_expect_eq(unlink(path), 0);
  FAILS(tn__graph_save(g, path_in("nowhere/net.json")), TN_IO,
        "cannot be created");
  FAILS(tn__graph_load(&w.caller, folder, &no), TN_INVALID,
        "not a regular file");
  cr_expect_eq(rmdir(folder), 0);
}

/* ---------------------------------------------------------- missing plugins */

Test(graph_json, all_that_is_missing_is_named) {
  tn_graph *no = NULL;
  FAILS(parse_graph("{\"tenon\": 1, \"plugins\": ["
                    "{\"name\": \"cnn\", \"release\": 7, \"hash\": \"00\"},"
                    "{\"name\": \"rnn\", \"release\": 2, \"hash\": \"00\"}],"
                    "\"nodes\": [" VARIABLE(
                        "x") ", "
                             "{\"name\": \"a\", \"kind\": "
                             "\"call\", \"op\": \"cnn.conv@3\","
                             " \"inputs\": [[0, 0]]},"
                             "{\"name\": \"b\", \"kind\": "
                             "\"call\", \"op\": \"lab.gone@1\","
                             " \"inputs\": [[1, 4]]},"
                             "{\"name\": \"c\", \"kind\": "
                             "\"call\", \"op\": \"cnn.conv@3\","
                             " \"inputs\": [[1, 0]]}" TAIL("[[3, 0]]"),
                    &no),
        TN_NOT_FOUND, "plugin `cnn` (release 7), plugin `rnn` (release 2)",
        "operator `cnn.conv@3` (node `a`);", "load the plugins",
        "node `b`: no operator `gone` in plugin `lab`");
}

#define CALL_OF(op)                                          \
  HEAD "{\"name\": \"n\", \"kind\": \"call\", \"op\": \"" op \
       "\", "                                                \
       "\"inputs\": []}" TAIL("[[0, 0]]")

Test(graph_json, a_misspelt_operator_of_a_loaded_plugin_is_no_missing_plugin) {
  tn_graph *no = NULL;
  FAILS(parse_graph(CALL_OF("lab.ad@1"), &no), TN_NOT_FOUND,
        "node `n`: no operator `ad` in plugin `lab`, did you mean `add`");
  cr_expect_not(strstr(tn_error_text(), "load the plugins"));
  FAILS(parse_graph(CALL_OF("lab.add@77"), &no), TN_NOT_FOUND,
        "node `n`: operator `add` in plugin `lab` has interface 1, not 77");
}

Test(graph_json, a_long_name_that_is_missing_is_cut) {
  tn_graph *no = NULL;
  char text[5000];
  (void)snprintf(text, sizeof text, CALL_OF("far.%04000d"), 7);
  FAILS(parse_graph(text, &no), TN_NOT_FOUND, "not loaded: operator `far.0000",
        "(node `n`); load the plugins");
}

Test(graph_json, names_that_do_not_fit_the_message_are_counted) {
  tn_graph *no = NULL;
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  tn__buf_add(&text, HEAD);
  for (int i = 0; i < 1000; ++i)
    tn__buf_add(&text,
                "%s{\"name\": \"n%d\", \"kind\": \"call\", \"op\": "
                "\"far.op%d@1\", \"inputs\": []}",
                i ? "," : "", i, i);
  tn__buf_add(&text, TAIL("[]"));
  FAILS(parse_graph(text.s, &no), TN_NOT_FOUND, "`far.op0@1` (node `n0`)",
        " more");
  tn__buf_deinit(&text);
}

static char warnings[1000];
static void keep_line(void *ctx, int32_t level, const char *line) {
  (void)ctx;
  if (level == TN_LOG_WARNING)
    (void)snprintf(warnings, sizeof warnings, "%s", line);
}

Test(graph_json, another_release_is_a_warning) {
  tn_graph *other = NULL;
  w.env.log = keep_line;
  OK(parse_graph(
      "{\"tenon\": 1, \"plugins\": [{\"name\": \"lab\", \"release\": 9, "
      "\"hash\": \"0123456789abcdef\"}], \"nodes\": [], \"heads\": []}",
      &other));
  cr_expect(strstr(warnings,
                   "saved with plugin `lab` release 9 "
                   "(0123456789abcdef), but release 1"));
  tn__graph_release(other);
}

Test(graph_json, the_same_release_is_no_warning) {
  mlp_graph();
  w.env.log = keep_line;
  round_trip();
  cr_expect_str_empty(warnings);
}

/* ------------------------------------------------------------------ mistakes
 */

Test(graph_json, syntax_is_refused_with_its_place) {
  REFUSES("", "line 1 (byte 0): expected `{`");
  REFUSES("[]", "line 1 (byte 0): expected `{`");
  REFUSES("{\"tenon\": 1}", "the keys `nodes` and `heads`");
  REFUSES("{\"tenon\": 1, \"nodes\": []}", "the keys `nodes` and `heads`");
  REFUSES(HEAD TAIL("[]") "x", "byte 38): expected the end");
  REFUSES("{\"tenon\": 1,\n\n\"nodes\" []", "line 3 (byte 22): expected `:`");
  REFUSES(HEAD "]", "expected `}`");
  REFUSES(HEAD VARIABLE("x") VARIABLE("y"), "expected `]`");
  REFUSES(HEAD "{\"name\": \"\xff\"}", "a character of UTF-8");
  REFUSES(HEAD "{\"name\": \"a\\u0000\"}", "a string without NUL");
  REFUSES(HEAD "{\"name\": \"a", "a closing quote");
  REFUSES(HEAD "{}", "expected a string");
}

Test(graph_json, versions_are_distinguished) {
  REFUSES("{\"nodes\": [], \"arg_nodes\": []}",
          "the first key of a graph is `tenon`",
          "files of other libraries are not read");
  REFUSES("{\"tenon\": 0, \"symbol\": 1}",
          "this is version 0 of the format, but 1 is read",
          "no release has written 0");
  REFUSES("{\"tenon\": 2, \"symbol\": 1}", "this is version 2",
          "read it with a newer release");
  REFUSES("{\"tenon\": \"1\"}", "expected a whole number");
}

Test(graph_json, keys_are_checked) {
  REFUSES("{\"tenon\": 1, \"node\": []}",
          "there is no key `node`; did you mean `nodes`?");
  REFUSES(HEAD "], \"nodes\": []}", "there are two keys `nodes`");
  REFUSES(HEAD "{\"name\": \"x\", \"name\": \"y\"}",
          "there are two keys `name`");
  REFUSES(HEAD "{\"name\": \"x\", \"colour\": \"red\"}",
          "there is no key `colour`");
  REFUSES(HEAD "{\"kind\": \"variable\"}", "it has no `name`");
  REFUSES(HEAD "{\"name\": \"x\"}", "node `x`: it has no `kind`");
  REFUSES(HEAD "{\"name\": \"x\", \"kind\": \"vairable\"}",
          "expected variable, call,");
  REFUSES(HEAD "{\"name\": \"x\", \"kind\": \"variable\", \"op\": \"a.b\"}",
          "a node of kind `variable` has no `op`");
  REFUSES(HEAD "{\"name\": \"x\", \"kind\": \"call\", \"inputs\": []}",
          "a node of kind `call` needs `op`");
  REFUSES(HEAD "{\"name\": \"x\", \"kind\": \"loop\", \"inputs\": []}",
          "a node of kind `loop` needs `sequences`");
  REFUSES(HEAD
          "{\"name\": \"x\", \"kind\": \"variable\", \"attributes\": "
          "{\"a\": \"1\", \"b\": \"2\", \"a\": \"3\"}}",
          "it has the attribute `a` twice");
  REFUSES(HEAD
          "{\"name\": \"x\", \"kind\": \"variable\", \"attributes\": "
          "{\"\": \"1\"}}",
          "the key of an attribute is empty");
}

Test(graph_json, values_of_other_types_are_refused) {
  REFUSES(HEAD "{\"name\": 7}", "expected a string");
  REFUSES(HEAD "{\"inputs\": 7}", "expected `[`");
  REFUSES(HEAD "{\"inputs\": [7]}", "expected `[`");
  REFUSES(HEAD "{\"attributes\": []}", "expected `{`");
  REFUSES(HEAD "{\"attributes\": {\"a\": 1}}", "expected a string");
  REFUSES(HEAD "{\"gradient\": 1}", "expected true or false");
  REFUSES(HEAD "{\"shape\": [-1]}", "expected a whole number");
  REFUSES(HEAD "{\"shape\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
          "at most 16 dimensions");
  REFUSES(HEAD "{\"dtype\": \"f31\"}", "an element type");
  REFUSES(HEAD "{\"of\": 1.5}", "below 0");
  REFUSES(HEAD "{\"graph\": []}", "expected `{`");
}

Test(graph_json, names_are_those_that_graphs_accept) {
  REFUSES(HEAD VARIABLE("x") "," VARIABLE("x") TAIL("[]"),
          "line 1 (byte 57), node `x`: the graph has a node named `x` already");
  REFUSES(HEAD VARIABLE("a b") TAIL("[]"), "\"a b\" cannot name a node");
  REFUSES(HEAD VARIABLE("") TAIL("[]"), "cannot name a node");
}

Test(graph_json, entries_lead_to_nodes_before) {
  REFUSES(HEAD TANH("x", "[[0, 0]]") TAIL("[]"),
          "the number of a node that comes before, below 0");
  REFUSES(HEAD VARIABLE("x") "," TANH("y", "[[1, 0]]") TAIL("[]"), "below 1");
  REFUSES(HEAD VARIABLE("x") "," TANH("y", "[[0, 1]]") TAIL("[]"),
          "an output of node 0, below 1");
  REFUSES(HEAD VARIABLE("x") "," TANH("y", "[[4294967295, 0]]") TAIL("[]"),
          "a number below 2^32 - 1");
  REFUSES(HEAD VARIABLE("x") "," TANH("y", "[[18446744073709551616, 0]]")
              TAIL("[]"),
          "a number below 2^63");
  REFUSES(HEAD VARIABLE("x") TAIL("[[1, 0]]"), "below 1");
  REFUSES(HEAD VARIABLE("x") TAIL("[null]"), "expected `[`");
  REFUSES("{\"tenon\": 1, \"heads\": [[0, 0]], \"nodes\": []}", "below 0");
  REFUSES(HEAD "{\"after\": [0]}", "below 0");
}

Test(graph_json, calls_fit_their_operators) {
  REFUSES(HEAD VARIABLE("x") "," TANH("y", "[]") TAIL("[]"),
          "node `y`: input 0 of lab.tanh@1, `data`, is not given");
  REFUSES(HEAD VARIABLE("x") "," TANH("y", "[null]") TAIL("[]"),
          "input 0 is null, but it is not optional");
  REFUSES(HEAD VARIABLE("x") "," TANH("y", "[[0, 0], [0, 0]]") TAIL("[]"),
          "it has 2 inputs, but lab.tanh@1 takes 1");
  REFUSES(HEAD VARIABLE("x") "," TANH("y", "[[0, 0, \"shape\"]]") TAIL("[]"),
          "only a node of kind `backward` reads");
  REFUSES(HEAD VARIABLE("x") ",{\"name\": \"y\", \"kind\": \"call\", \"op\": "
               "\"lab.affine\", \"params\": \"scael=2\", \"inputs\": "
               "[[0, 0]]}" TAIL("[]"),
          "node `y`: ", "`scael`", "scale");
  REFUSES(HEAD VARIABLE("x") ",{\"name\": \"y\", \"kind\": \"call\", \"op\": "
               "\"lab.dense\", \"inputs\": [[0, 0], [0, 0]]}" TAIL("[]"),
          "num_hidden");
  REFUSES(HEAD VARIABLE("x") ",{\"name\": \"y\", \"kind\": \"call\", \"op\": "
               "\"lab.track\", \"inputs\": [[0, 0]]}" TAIL("[]"),
          "it has 0 states, but must have 1");
  REFUSES(HEAD VARIABLE("x") "," TANH("t", "[[0, 0]]")
               ",{\"name\": \"y\", \"kind\": \"call\", \"op\": \"lab.track\", "
               "\"inputs\": [[0, 0]], \"states\": [[1, 0]]}" TAIL("[]"),
          "state 0 must be a variable");
}

#define MADE(kind, more)                                                   \
  HEAD VARIABLE("x") "," TANH(                                             \
      "t", "[[0, 0]]") ", {\"name\": \"z\", \"kind\": \"" kind "\", " more \
                       "}" TAIL("[[2, 0]]")

Test(graph_json, made_nodes_are_as_passes_make_them) {
  tn_graph *other = NULL;
  REFUSES(MADE("sum", "\"inputs\": [[0, 0]]"), "at least 2 inputs, not 1");
  REFUSES(MADE("copy", "\"inputs\": [[0, 0], [1, 0]]"), "has 1 input, not 2");
  REFUSES(MADE("zero", "\"inputs\": [null]"), "input 0 is null");
  REFUSES(MADE("backward", "\"of\": 0, \"inputs\": []"),
          "`of` is 0, but must be the number of a call");
  REFUSES(MADE("backward", "\"of\": 1, \"inputs\": [[0, 0]]"),
          "the gradient of `t` has 3 inputs", "not 1");
  OK(parse_graph(
      MADE("backward", "\"of\": 1, \"inputs\": [[0, 0], [0, 0], [1, 0]]"),
      &other));
  tn__graph_release(other);
}

/* A kernel would read missing operands, or another shape. */
Test(graph_json, gradients_have_the_operands_of_their_kernels) {
  REFUSES(MADE("backward", "\"of\": 1, \"inputs\": [null, null, null]"),
          "node `z`: its output 0 is used, which needs an input of it that is "
          "null");
  REFUSES(MADE("backward",
               "\"of\": 1, \"inputs\": [[0, 0, \"shape\"], null, [1, 0]]"),
          "node `z`: its output 0 is used");
  REFUSES(MADE("backward", "\"of\": 1, \"inputs\": [[0, 0], null, [0, 0]]"),
          "input 2 is another entry than the one of `t`");
}

#define INNER "{\"nodes\": [" VARIABLE("a") "], \"heads\": [[0, 0]]}"

Test(graph_json, inner_graphs_fit_their_nodes) {
  REFUSES(MADE("graph", "\"inputs\": [], \"graph\": " INNER),
          "it has 0 inputs, but the heads of its graph depend on 1");
  REFUSES(MADE("graph",
               "\"inputs\": [], \"graph\": {\"nodes\": [], "
               "\"heads\": []}"),
          "its graph has no heads");
  REFUSES(MADE("graph", "\"inputs\": [], \"graph\": {\"nodes\": []}"),
          "the keys `nodes` and `heads`");
  REFUSES(MADE("loop",
               "\"inputs\": [[0, 0]], \"sequences\": [], "
               "\"graph\": " INNER),
          "needs at least one sequence");
  REFUSES(MADE("loop",
               "\"inputs\": [[0, 0]], \"sequences\": [1], "
               "\"graph\": " INNER),
          "a loop with 1 inputs has no input 1");
  REFUSES(MADE("loop",
               "\"inputs\": [[0, 0]], \"sequences\": [0], "
               "\"carried\": [0], \"graph\": " INNER),
          "input 0 occurs twice");
}

static void nest_graphs(tn__buf *text, int depth) {
  tn__buf_init(text, tn__env_default());
  tn__buf_add(text, "{\"tenon\": 1, \"nodes\": [");
  for (int i = 1; i < depth; ++i)
    tn__buf_add(text,
                "{\"name\": \"x\", \"kind\": \"graph\", \"inputs\": "
                "[], \"graph\": {\"nodes\": [");
}

Test(graph_json, graphs_in_graphs_are_bounded) {
  tn__buf text;
  nest_graphs(&text, 33);
  REFUSES(text.s, "graphs in graphs at most 32 deep");
  tn__buf_deinit(&text);
  nest_graphs(&text, 100000);
  REFUSES(text.s, "graphs in graphs at most 32 deep");
  tn__buf_deinit(&text);
}

Test(graph_json, graphs_too_deep_for_a_file_are_not_written) {
  tn_text *text = NULL;
  tn_graph *inner = net_new();
  HEADS(inner, var_node(inner, "x"));
  for (int i = 0; i < 31; ++i) {
    tn_entry out;
    tn_graph *outer = net_new();
    OK(tn__graph_embed(
        outer,
        &(tn_embedding){
            .struct_size = sizeof(tn_embedding), .inner = inner, .name = "n"},
        &out));
    HEADS(outer, out);
    tn__graph_release(inner);
    inner = outer;
  }
  tn__graph_release(g);
  g = inner;
  round_trip(); /* 32 deep */
  tn_graph *outer = net_new();
  tn_entry out;
  OK(tn__graph_embed(
      outer,
      &(tn_embedding){
          .struct_size = sizeof(tn_embedding), .inner = g, .name = "n"},
      &out));
  FAILS(tn__graph_json(outer, false, &text), TN_UNSUPPORTED,
        "more than 32 deep");
  tn__graph_release(outer);
}

/* -------------------------------------------------------------- large files */

static double read_chain(int n) {
  tn_graph *other = NULL;
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  tn__buf_add(&text, HEAD VARIABLE("x"));
  for (int i = 0; i < n; ++i)
    tn__buf_add(&text,
                ",{\"name\": \"n%d\", \"kind\": \"copy\", \"inputs\": "
                "[[%d, 0]]}",
                i, i);
  tn__buf_add(&text, TAIL("[[%d, 0]]"), n);
  const double begin = growth_clock();
  OK(tn__graph_parse(&w.caller, text.s, text.n, &other));
  const double seconds = growth_clock() - begin;
  cr_expect_eq(tn__n_nodes(other), (uint32_t)n + 1);
  tn__graph_release(other);
  tn__buf_deinit(&text);
  return seconds;
}

Test(graph_json, a_million_nodes_are_read, .timeout = 170) {
  (void)read_chain(1000000);
}

Test(graph_json, the_time_for_each_node_does_not_grow) {
  expect_proportional(read_chain, 100000);
}

Test(graph_json, an_attribute_of_a_mebibyte_is_read_back) {
  const size_t n = 1 << 20;
  char *large = malloc(n + 1);
  memset(large, 'x', n);
  large[n] = '\0';
  HEADS(g, var_node(g, "x"));
  OK(tn__attribute_set(g, 0, "note", large));
  tn_graph *other = read_back();
  cr_expect_str_eq(tn__attribute_get(tn__node_at(other, 0), "note"), large);
  tn__graph_release(other);
  free(large);
}

static double read_attributes(int n) {
  tn_graph *other = NULL;
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  tn__buf_add(&text, HEAD
              "{\"name\": \"x\", \"kind\": \"variable\", "
              "\"attributes\": {");
  for (int i = 0; i < n; ++i)
    tn__buf_add(&text, "%s\"k%d\": \"\"", i ? "," : "", i * 7919 % n);
  tn__buf_add(&text, "}}" TAIL("[]"));
  const double begin = growth_clock();
  OK(tn__graph_parse(&w.caller, text.s, text.n, &other));
  const double seconds = growth_clock() - begin;
  cr_expect_eq(tn__node_at(other, 0)->n_attrs, (uint32_t)n);
  tn__graph_release(other);
  tn__buf_deinit(&text);
  return seconds;
}

Test(graph_json, a_hundred_thousand_attributes_are_read) {
  expect_proportional(read_attributes, 100000);
}

/* ------------------------------------------------------------- no memory left
 */

Test(graph_json, every_failed_allocation_is_survived) {
  tn_graph *s = step_graph();
  add_loop(s);
  tn__graph_release(s);
  HEADS(g, mlp_graph());
  OK(tn__attribute_set(g, 0, "group", "a"));
  char *json = json_of(g);
  tn_code rc = TN_OUT_OF_MEMORY;
  int64_t n = 0;
  for (n = 1; rc != TN_OK && n < 10000; ++n) {
    tn_graph *other = NULL;
    const int64_t before = w.memory.living;
    w.memory.fail_at = w.memory.asked + n;
    rc = parse_graph(json, &other);
    w.memory.fail_at = 0;
    if (rc != TN_OK) {
      cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
      cr_assert_eq(w.memory.living, before, "allocation %d leaks", (int)n);
    }
    tn__graph_release(other);
  }
  cr_expect_eq(rc, TN_OK);
  cr_expect_gt(n, 20, "only %d allocations", (int)n);
  free(json);
}
