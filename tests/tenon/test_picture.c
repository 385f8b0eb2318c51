/* SPDX-License-Identifier: Apache-2.0
 * Pictures of graphs and of memory, drawn from JSON: tables and Graphviz text
 * as documented; in drawings, boxes that do not overlap; a refusal for graphs
 * that are too large, and for JSON that is none.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "picture.h"

/* The graph of the current test. */
static json_tree tree;
static drawn_graph graph;
static text why;

static void forget(void) {
  json_tree_deinit(&tree);
  text_deinit(&why);
}

TestSuite(picture, .fini = forget);

static void read_graph(const char *source) {
  json_tree_deinit(&tree);
  cr_assert(json_tree_parse(source, &tree, &why), "%s", text_get(&why));
  cr_assert(picture_read_graph(&tree, &graph, &why), "%s", text_get(&why));
}

typedef void draw_fn(const drawn_graph *graph, text *out);

static void expect_picture(draw_fn *draw, const char *want) {
  text have = {0};
  draw(&graph, &have);
  cr_assert_str_eq(text_get(&have), want);
  text_deinit(&have);
}

static text draw_svg(void) {
  text svg = {0};
  cr_assert(picture_draw_svg(&graph, &svg, &why), "%s", text_get(&why));
  cr_assert_not(svg.failed);
  return svg;
}

static void expect_failure(const char *part) {
  cr_expect(strstr(text_get(&why), part), "no \"%s\" in: %s", part,
            text_get(&why));
}

/* --------------------------------------------------------------------- JSON
 */

static void refuses_json(const char *source, const char *part) {
  json_tree no;
  cr_assert_not(json_tree_parse(source, &no, &why), "%s", source);
  expect_failure(part);
}

Test(picture, json_has_values_of_all_kinds) {
  json_tree t;
  cr_assert(
      json_tree_parse(" {\"a\\u00e9\\ud83d\\ude00\\n\": [12, null, true, "
                      "\"\\\"\"], \"b\": {}}\n",
                      &t, &why));
  const json *list = t.root->first;
  cr_expect_str_eq(list->key, "a\xc3\xa9\xf0\x9f\x98\x80\n");
  cr_assert_eq(list->n, 4);
  cr_expect_eq(json_number(list->first), 12);
  cr_expect_eq(list->first->next->kind, JSON_NULL);
  cr_expect(json_is_true(list->first->next->next));
  cr_expect_str_eq(json_text(list->first->next->next->next), "\"");
  cr_expect_eq(json_get(t.root, "b")->n, 0);
  cr_expect_null(json_get(t.root, "c"));
  cr_expect_eq(json_number(json_get(NULL, "c")), 0);
  json_tree_deinit(&t);
}

Test(picture, malformed_json_is_refused_with_its_byte) {
  char deep[1000];
  memset(deep, '[', sizeof deep - 1);
  deep[sizeof deep - 1] = '\0';
  refuses_json("", "byte 0");
  refuses_json("[1 2]", "byte 3");
  refuses_json("[1,]", "byte 3");
  refuses_json("[1]x", "byte 3 of the library's JSON: expected the end");
  refuses_json("{1: 2}", "expected a string");
  refuses_json("{\"a\" 2}", "expected `:`");
  refuses_json("\"a", "a closing quote");
  refuses_json("\"\\", "an escape");
  refuses_json("\"\\q\"", "an escape");
  refuses_json("\"\\u12g4\"", "four hexadecimal digits");
  refuses_json("99999999999999999999", "below 2^64");
  refuses_json(deep, "fewer lists in lists");
}

Test(picture, an_entry_of_no_node_is_refused) {
  cr_assert(
      json_tree_parse("{\"nodes\": [{\"name\": \"a\", \"inputs\": "
                      "[[0, 0]]}], \"heads\": []}",
                      &tree, &why));
  cr_assert_not(picture_read_graph(&tree, &graph, &why));
  expect_failure("an entry is of none of 0 nodes");
}

/* -------------------------------------------------------------------- tables
 */

#define VARIABLE(name, more)                  \
  "{\"name\": \"" name                        \
  "\", \"kind\": \"variable\", \"outputs\": " \
  "[{\"name\": \"" name "\"" more "}]}"
#define CALL(name, op, in, more)                                   \
  "{\"name\": \"" name "\", \"kind\": \"call\", \"op\": \"lab." op \
  "@1\", \"inputs\": " in ", \"outputs\": [{\"name\": \"" name     \
  "_output\"" more "}]}"
#define F64(shape) ", \"dtype\": \"f64\", \"shape\": " shape

static void small_graph(void) {
  read_graph("{\"nodes\": [" VARIABLE("x", F64("[2, 3]")) "," VARIABLE(
      "fc_weight", F64("[4, null]")) "," VARIABLE("fc_bias", "") ","
             CALL("fc", "dense", "[[0, 0], [1, 0], [2, 0]]",
                  F64("[2, 4]")) ","
      "{\"name\": \"t_sum\", \"kind\": \"variable\", \"state\": true, "
      "\"outputs\": [{\"name\": \"t_sum\", \"dtype\": \"f32\"}]},"
      "{\"name\": \"t\", \"kind\": \"call\", \"op\": \"lab.track@1\", "
      "\"inputs\": [[3, 0]], \"states\": [[4, 0]], \"outputs\": "
      "[{\"name\": \"t_output\", \"shape\": []}, "
      "{\"name\": \"t_cache\", \"hidden\": true}]},"
      "{\"name\": \"back\", \"kind\": \"backward\", \"of\": 5, "
      "\"inputs\": [null, [5, 1]], \"gradient\": true, \"outputs\": "
      "[{\"name\": \"back_output0\"}, {\"name\": \"back_output1\"}]}"
      "], \"heads\": [[5, 0], [6, 1]]}");
}

Test(picture, a_table_shows_known_shapes) {
  small_graph();
  expect_picture(
      picture_draw_table,
      "NODE       OPERATOR                 MAKES      READS\n"
      "x          variable                 f64 (2,3)\n"
      "fc_weight  variable                 f64 (4,?)\n"
      "fc_bias    variable                 ?\n"
      "fc         lab.dense@1              f64 (2,4)  x fc_weight fc_bias\n"
      "t_sum *    variable                 f32\n"
      "t          lab.track@1              ()         fc_output t_sum\n"
      "back       gradient of lab.track@1  ?, ?       - t_cache\n"
      "heads: t_output back_output1\n");
}

#define NESTED \
  "{\"nodes\": [" VARIABLE("b_a", "") ","                                   \
  "{\"name\": \"b\", \"kind\": \"graph\", \"inputs\": [[0, 0]], \"graph\": " \
  "{\"nodes\": [" VARIABLE("a", "") "," CALL("t", "tanh", "[[0, 0]]", "")   \
  "], \"heads\": [[1, 0]]}, \"outputs\": [{\"name\": \"b_output\"}]}], "      \
  "\"heads\": []}"

Test(picture, a_table_shows_graphs_in_graphs) {
  read_graph(NESTED);
  expect_picture(picture_draw_table,
                 "NODE  OPERATOR          MAKES  READS\n"
                 "b_a   variable          ?\n"
                 "b     graph of 2 nodes  ?      b_a\n"
                 "heads: none\n"
                 "\n"
                 "inside of b\n"
                 "  NODE  OPERATOR    MAKES  READS\n"
                 "  a     variable    ?\n"
                 "  t     lab.tanh@1  ?      a\n"
                 "  heads: t_output\n");
}

Test(picture, an_empty_graph_has_pictures) {
  read_graph("{\"nodes\": [], \"heads\": []}");
  expect_picture(picture_draw_table,
                 "NODE  OPERATOR  MAKES  READS\nheads: none\n");
  expect_picture(picture_draw_dot, "digraph tenon {\n}\n");
  text svg = draw_svg();
  cr_expect(strstr(text_get(&svg), "</svg>"));
  text_deinit(&svg);
}

Test(picture, graphviz_gets_nodes_and_edges) {
  read_graph("{\"nodes\": [" VARIABLE("x", F64("[2]")) "," CALL(
      "y", "tanh", "[[0, 0]]",
      "") ","
          "{\"name\": \"z\", \"kind\": \"call\", \"op\": \"lab.mul@1\", "
          "\"inputs\": [[1, 0], [0, 0]], \"after\": [1], "
          "\"outputs\": [{\"name\": \"z_output\"}]}"
          "], \"heads\": [[2, 0]]}");
  expect_picture(picture_draw_dot,
                 "digraph tenon {\n"
                 "n0 [shape=ellipse, label=\"x\\nf64 (2)\"];\n"
                 "n1 [shape=box, label=\"y\\nlab.tanh@1\\n?\"];\n"
                 "n0 -> n1;\n"
                 "n2 [shape=box, label=\"z\\nlab.mul@1\\n?\"];\n"
                 "n1 -> n2;\n"
                 "n0 -> n2;\n"
                 "n1 -> n2 [style=dotted];\n"
                 "h0 [shape=plaintext, label=\"head 0\"];\n"
                 "n2 -> h0;\n"
                 "}\n");
}

Test(picture, graphviz_gets_clusters_of_graphs_in_graphs) {
  read_graph(NESTED);
  expect_picture(picture_draw_dot,
                 "digraph tenon {\n"
                 "n0 [shape=ellipse, label=\"b_a\\n?\"];\n"
                 "n1 [shape=box, label=\"b\\ngraph of 2 nodes\\n?\"];\n"
                 "n0 -> n1;\n"
                 "subgraph cluster_n1 {\n"
                 "label=\"b\";\n"
                 "n1_0 [shape=ellipse, label=\"a\\n?\"];\n"
                 "n1_1 [shape=box, label=\"t\\nlab.tanh@1\\n?\"];\n"
                 "n1_0 -> n1_1;\n"
                 "}\n"
                 "}\n");
}

/* ------------------------------------------------------------------ drawings
 */

typedef struct box {
  double x, y, width, height;
} box;

/* The rectangles of a drawing that have a position. */
static size_t boxes_of(const char *svg, box *to, size_t most) {
  size_t n = 0;
  for (const char *at = strstr(svg, "<rect x="); at && n < most;
       at = strstr(at + 1, "<rect x=")) {
    box *b = &to[n++];
    cr_assert_eq(sscanf(at,
                        "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" "
                        "height=\"%lf\"",
                        &b->x, &b->y, &b->width, &b->height),
                 4, "%.80s", at);
  }
  return n;
}

/* Numbers have one decimal. */
static bool is_covering(const box *a, const box *b) {
  const double slack = 0.25;
  return a->x + a->width > b->x + slack && b->x + b->width > a->x + slack &&
         a->y + a->height > b->y + slack && b->y + b->height > a->y + slack;
}

static void nothing_covered(const box *boxes, size_t n) {
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < i; ++k)
      cr_assert_not(is_covering(&boxes[i], &boxes[k]), "boxes %zu and %zu", k,
                    i);
}

/* Nodes that read any two earlier ones. */
static void random_graph(uint32_t n, uint32_t n_variables) {
  uint32_t state = 7;
  text source = {0};
  text_add(&source, "{\"nodes\": [");
  for (uint32_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    const char *name = i < n_variables ? "x" : "add";
    text_add(&source,
             "%s{\"name\": \"%s%" PRIu32 "\", \"kind\": ", i ? "," : "", name,
             i);
    if (i < n_variables)
      text_add(&source, "\"variable\"");
    else
      text_add(&source,
               "\"call\", \"op\": \"lab.add@1\", \"inputs\": [[%" PRIu32
               ", 0], [%" PRIu32 ", 0]]",
               state / 65536 % i, state % i);
    text_add(&source, ", \"outputs\": [{\"name\": \"%s%" PRIu32 "\"}]}", name,
             i);
  }
  text_add(&source, "], \"heads\": [[%" PRIu32 ", 0]]}", n - 1);
  read_graph(text_get(&source));
  text_deinit(&source);
}

Test(picture, boxes_of_a_drawing_do_not_cover_one_another) {
  box boxes[200];
  random_graph(100, 1);
  text svg = draw_svg();
  const size_t n = boxes_of(text_get(&svg), boxes, 200);
  cr_assert_eq(n, 100);
  nothing_covered(boxes, n);
  for (size_t i = 0; i < n; ++i) cr_expect_geq(boxes[i].x, 0);
  cr_expect(strstr(text_get(&svg), ">add97<"));
  cr_expect(strstr(text_get(&svg), ">lab.add@1<"));
  cr_expect(strstr(text_get(&svg), ">head 0<"));
  text_deinit(&svg);
}

/* The inputs of a node are above it. */
Test(picture, a_drawing_goes_downwards) {
  box boxes[8];
  small_graph();
  text svg = draw_svg();
  cr_assert_eq(boxes_of(text_get(&svg), boxes, 8), 7);
  for (uint32_t i = 0; i < graph.n_nodes; ++i) {
    const drawn_node *node = &graph.nodes[i];
    for (uint32_t k = 0; k < node->n_in; ++k)
      if (node->in[k].node != NO_NODE)
        cr_expect_lt(boxes[node->in[k].node].y + boxes[0].height, boxes[i].y);
  }
  text_deinit(&svg);
}

Test(picture, a_drawing_of_many_nodes_is_made_in_time, .timeout = 100) {
  random_graph(2000, 1);
  text svg = draw_svg();
  cr_expect_gt(svg.n, 100000);
  text_deinit(&svg);
}

Test(picture, too_many_nodes_are_not_drawn) {
  text svg = {0};
  random_graph(2001, 2);
  cr_assert_not(picture_draw_svg(&graph, &svg, &why));
  expect_failure("has 2001 nodes");
  expect_failure("at most 2000");
  expect_failure("print the table");
  cr_expect_eq(svg.n, 0);
}

/* -------------------------------------------------------------------- memory
 */

/* Two steps forward and one backward: two storages of 8 KiB each, of which one
 * is used again by the third step, and a workspace in the second. */
#define STEPS(device)                                                   \
  "\"steps\": [{\"node\": \"a\", \"device\": 0}, {\"node\": \"b<1>\", " \
  "\"device\": " device                                                 \
  ", \"workspace\": {\"offset\": 16384, \"bytes\": "                    \
  "1024}}, {\"node\": \"c\", \"device\": " device "}]"
#define STORAGE(device, offset, first, last)     \
  "{\"device\": " device ", \"offset\": " offset \
  ", \"bytes\": 8192, \"first\": " first ", \"last\": " last "}"

static text draw_memory(const char *source) {
  text svg = {0};
  json_tree_deinit(&tree);
  cr_assert(json_tree_parse(source, &tree, &why), "%s", text_get(&why));
  cr_assert(timeline_draw(tree.root, &svg, &why), "%s", text_get(&why));
  return svg;
}

Test(picture, memory_is_drawn_where_the_plan_puts_it) {
  box boxes[50];
  text svg = draw_memory(
      "{\"n_forward\": 2, \"devices\": [\"cpu(0)\"], " STEPS(
          "0") ", \"storages\": [" STORAGE("0", "0", "0", "1") ","
          STORAGE("0", "8192", "1", "3") "," STORAGE("0", "0", "2", "2")
              "], \"pools\": [{\"device\": 0, \"bytes\": 17408, "
              "\"at_least\": 17000}]}");
  const size_t n = boxes_of(text_get(&svg), boxes, 50);
  cr_assert_eq(n, 4);
  nothing_covered(boxes, n);
  for (size_t i = 0; i < n; ++i) {
    cr_expect_geq(boxes[i].y, 30 - 0.1);
    cr_expect_leq(boxes[i].y + boxes[i].height, 450 + 0.2);
    cr_expect_leq(boxes[i].x + boxes[i].width, 1090 + 0.2);
  }
  cr_expect(strstr(text_get(&svg), ">backward<"));
  cr_expect(
      strstr(text_get(&svg), "8 KiB at 8192\nsteps 1 to 2: b&lt;1&gt; to c"));
  cr_expect(strstr(text_get(&svg), "workspace\n1 KiB at 16384"));
  cr_expect(strstr(text_get(&svg), ">pool 17 KiB<"));
  cr_expect(strstr(text_get(&svg), ">at least 16.6 KiB<"));
  cr_expect(strstr(text_get(&svg), ">3 steps<"));
  text_deinit(&svg);
}

Test(picture, each_device_has_its_memory) {
  text svg = draw_memory(
      "{\"n_forward\": 3, \"devices\": [\"cpu(0)\", \"cpu(1)\"], " STEPS(
          "1") ", \"storages\": [" STORAGE("1", "0", "0", "1")
          "], \"pools\": [{\"device\": 0, \"bytes\": 0, \"at_least\": 0}, "
          "{\"device\": 1, \"bytes\": 17408, \"at_least\": 17408}]}");
  cr_expect(strstr(text_get(&svg), ">3 steps, memory of cpu(0)<"));
  cr_expect(strstr(text_get(&svg), ">3 steps, memory of cpu(1)<"));
  cr_expect_null(strstr(text_get(&svg), ">backward<"));
  text_deinit(&svg);
}

Test(picture, a_program_without_steps_is_not_drawn) {
  text svg = {0};
  cr_assert(json_tree_parse("{\"steps\": []}", &tree, &why));
  cr_assert_not(timeline_draw(tree.root, &svg, &why));
  expect_failure("the program has no steps");
}

Test(picture, too_many_steps_are_not_drawn) {
  text svg = {0}, source = {0};
  text_add(&source, "{\"steps\": [{}");
  for (int i = 0; i < 20000; ++i) text_add(&source, ",{}");
  text_add(&source, "]}");
  cr_assert(json_tree_parse(text_get(&source), &tree, &why));
  cr_assert_not(timeline_draw(tree.root, &svg, &why));
  expect_failure("has 20001 steps");
  text_deinit(&source);
}
