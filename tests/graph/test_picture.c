/* SPDX-License-Identifier: Apache-2.0
 * Pictures of graphs and of memory: tables and Graphviz text as documented; in
 * drawings, boxes that do not overlap; a refusal for graphs that are too large.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

TestSuite(graph_picture, .init = net_open, .fini = net_close);

/* The caller frees it. */
static char *picture_of(uint32_t format) {
  tn_text *text = NULL;
  OK(tn__graph_picture(g, format, &text));
  char *copy = strdup(tn_text_get(text));
  tn_text_release(text);
  return copy;
}

static void expect_picture(uint32_t format, const char *want) {
  char *have = picture_of(format);
  cr_assert_str_eq(have, want);
  free(have);
}

/* -------------------------------------------------------------------- tables
 */

static void small_graph(void) {
  const tn_entry x = typed_var(g, "x", F64(2, 3));
  const tn_entry y = OP(g, "dense", "num_hidden=4", "fc", x);
  HEADS(g, OP(g, "track", NULL, "t", y));
}

Test(graph_picture, a_table_shows_known_shapes) {
  small_graph();
  expect_picture(TN_PICTURE_TEXT,
                 "NODE       OPERATOR     MAKES      READS\n"
                 "x          variable     f64 (2,3)\n"
                 "fc_weight  variable     ?\n"
                 "fc_bias    variable     ?\n"
                 "fc         lab.dense@1  ?          x fc_weight fc_bias\n"
                 "t_sum *    variable     ?\n"
                 "t          lab.track@1  ?          fc_output t_sum\n"
                 "heads: t_output\n");
  OK(tn__graph_infer(g, NULL, 0));
  expect_picture(TN_PICTURE_TEXT,
                 "NODE       OPERATOR     MAKES      READS\n"
                 "x          variable     f64 (2,3)\n"
                 "fc_weight  variable     f64 (4,3)\n"
                 "fc_bias    variable     f64 (4)\n"
                 "fc         lab.dense@1  f64 (2,4)  x fc_weight fc_bias\n"
                 "t_sum *    variable     f64 (2,4)\n"
                 "t          lab.track@1  f64 (2,4)  fc_output t_sum\n"
                 "heads: t_output\n");
}

Test(graph_picture, a_table_shows_graphs_in_graphs) {
  tn_graph *inner = net_new();
  tn_entry out;
  HEADS(inner, OP(inner, "tanh", NULL, "t", var_node(inner, "a")));
  OK(tn__graph_embed(
      g,
      &(tn_embedding){
          .struct_size = sizeof(tn_embedding), .inner = inner, .name = "b"},
      &out));
  tn__graph_release(inner);
  expect_picture(TN_PICTURE_TEXT,
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

Test(graph_picture, an_empty_graph_has_pictures) {
  expect_picture(TN_PICTURE_TEXT,
                 "NODE  OPERATOR  MAKES  READS\nheads: none\n");
  expect_picture(TN_PICTURE_DOT, "digraph tenon {\n}\n");
  char *svg = picture_of(TN_PICTURE_SVG);
  cr_expect(strstr(svg, "</svg>"));
  free(svg);
}

Test(graph_picture, graphviz_gets_nodes_and_edges) {
  const tn_entry x = typed_var(g, "x", F64(2));
  const tn_entry y = OP(g, "tanh", NULL, "y", x);
  HEADS(g, OP(g, "mul", NULL, "z", y, x));
  expect_picture(TN_PICTURE_DOT,
                 "digraph tenon {\n"
                 "n0 [shape=ellipse, label=\"x\\nf64 (2)\"];\n"
                 "n1 [shape=box, label=\"y\\nlab.tanh@1\\n?\"];\n"
                 "n0 -> n1;\n"
                 "n2 [shape=box, label=\"z\\nlab.mul@1\\n?\"];\n"
                 "n1 -> n2;\n"
                 "n0 -> n2;\n"
                 "h0 [shape=plaintext, label=\"head 0\"];\n"
                 "n2 -> h0;\n"
                 "}\n");
}

Test(graph_picture, there_is_no_other_picture) {
  tn_text *text = NULL;
  FAILS(tn__graph_picture(g, 3, &text), TN_INVALID, "there is no picture 3");
  cr_expect_null(text);
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
static void random_graph(uint32_t n) {
  uint32_t state = 7;
  tn_entry all[2000];
  all[0] = var_node(g, "x");
  for (uint32_t i = 1; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    const tn_entry a = all[state / 65536 % i], b = all[state % i];
    all[i] = OP(g, "add", NULL, NULL, a, b);
  }
  HEADS(g, all[n - 1]);
}

Test(graph_picture, boxes_of_a_drawing_do_not_cover_one_another) {
  box boxes[200];
  random_graph(100);
  char *svg = picture_of(TN_PICTURE_SVG);
  const size_t n = boxes_of(svg, boxes, 200);
  cr_assert_eq(n, 100);
  nothing_covered(boxes, n);
  for (size_t i = 0; i < n; ++i) cr_expect_geq(boxes[i].x, 0);
  cr_expect(strstr(svg, ">add97<"));
  cr_expect(strstr(svg, ">lab.add@1<"));
  cr_expect(strstr(svg, ">head 0<"));
  free(svg);
}

/* The inputs of a node are above it. */
Test(graph_picture, a_drawing_goes_downwards) {
  box boxes[8];
  small_graph();
  char *svg = picture_of(TN_PICTURE_SVG);
  cr_assert_eq(boxes_of(svg, boxes, 8), tn__n_nodes(g));
  for (uint32_t i = 0; i < tn__n_nodes(g); ++i) {
    const tn__node *node = tn__node_at(g, i);
    for (uint32_t k = 0; k < node->n_in + node->n_aux; ++k)
      cr_expect_lt(boxes[node->in[k].node].y + boxes[0].height, boxes[i].y);
  }
  free(svg);
}

Test(graph_picture, a_drawing_of_many_nodes_is_made_in_time, .timeout = 100) {
  random_graph(2000);
  char *svg = picture_of(TN_PICTURE_SVG);
  cr_expect_gt(strlen(svg), 100000);
  free(svg);
}

Test(graph_picture, too_many_nodes_are_not_drawn) {
  tn_text *text = NULL;
  random_graph(2000);
  var_node(g, "more");
  FAILS(tn__graph_picture(g, TN_PICTURE_SVG, &text), TN_UNSUPPORTED,
        "has 2001 nodes", "at most 2000", "print the table");
  cr_expect_null(text);
}

Test(graph_picture, every_failed_allocation_is_survived) {
  small_graph();
  for (uint32_t format = TN_PICTURE_TEXT; format <= TN_PICTURE_SVG; ++format) {
    tn_code rc = TN_OUT_OF_MEMORY;
    for (int64_t n = 1; rc != TN_OK && n < 1000; ++n) {
      tn_text *text = NULL;
      const int64_t before = w.memory.living;
      w.memory.fail_at = w.memory.asked + n;
      rc = tn__graph_picture(g, format, &text);
      w.memory.fail_at = 0;
      if (text) tn_text_release(text);
      cr_assert_eq(w.memory.living, before, "allocation %d leaks", (int)n);
      if (rc != TN_OK) cr_assert_eq(rc, TN_OUT_OF_MEMORY);
    }
    cr_expect_eq(rc, TN_OK);
  }
}

/* -------------------------------------------------------------------- memory
 */

/* A chain of three products, of 2^10 doubles each, forward and backward. */
static tn_program *bind_chain(uint32_t plan) {
  tn_program *p = NULL;
  tn_entry x = typed_var(g, "x", F64(1024));
  for (int i = 0; i < 3; ++i) x = OP(g, "square", NULL, NULL, x);
  HEADS(g, x);
  const tn_bind how = {.struct_size = sizeof how,
                       .plan = plan,
                       .flags = TN_BIND_NO_FUSE,
                       .request = TN_REQ_WRITE};
  OK(tn__program_bind(g, &how, &p));
  return p;
}

/* Memory in use at the same time is drawn at different places; nothing is drawn
 * above the pool. */
static void drawn_apart(uint32_t plan) {
  tn_text *text = NULL;
  box boxes[50];
  tn_program *p = bind_chain(plan);
  OK(tn__program_picture(p, &text));
  const size_t n = boxes_of(tn_text_get(text), boxes, 50);
  cr_expect_geq(n, 2);
  nothing_covered(boxes, n);
  for (size_t i = 0; i < n; ++i) {
    cr_expect_geq(boxes[i].y, 30 - 0.1);
    cr_expect_leq(boxes[i].y + boxes[i].height, 450 + 0.2);
    cr_expect_leq(boxes[i].x + boxes[i].width, 1090 + 0.2);
  }
  cr_expect(strstr(tn_text_get(text), ">backward<"));
  cr_expect(strstr(tn_text_get(text), "8 KiB at 0"));
  tn_text_release(text);
  tn__program_release(p);
}

Test(graph_picture, memory_is_drawn_where_the_plan_puts_it) {
  drawn_apart(TN_PLAN_DEFAULT);
}

Test(graph_picture, memory_of_the_compatible_plan_is_drawn) {
  drawn_apart(TN_PLAN_COMPAT);
}

Test(graph_picture, memory_of_no_plan_is_drawn) {
  drawn_apart(TN_PLAN_NONE);
}
