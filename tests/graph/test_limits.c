/* SPDX-License-Identifier: Apache-2.0
 * test_limits.c: graphs of files that are not trusted take time and memory in
 * proportion to their size, or are refused with the limit that they exceed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../growth.h"
#include "net.h"

TestSuite(graph_limits, .init = net_open, .fini = net_close);

/* ------------------------------------------------------------------- texts */

/* A text that grows; the caller frees it. */
typedef struct writer {
  FILE *file;
  char *text;
  size_t n;
} writer;

static void begin_text(writer *t) {
  t->file = open_memstream(&t->text, &t->n);
  cr_assert_not_null(t->file);
}

static tn_code parse_text(writer *t, tn_graph **out) {
  cr_assert_eq(fclose(t->file), 0);
  const tn_code rc = tn__graph_parse(&w.caller, t->text, t->n, out);
  free(t->text);
  return rc;
}

static void write_attributes(FILE *file, int n) {
  for (int i = 0; i < n; ++i)
    (void)fprintf(file, "%s\"key%07d\": \"%d\"", i ? ", " : "", i, i);
}

/* -------------------------------------------------------------- attributes */

static double copy_attributes(int n) {
  tn_graph *read = NULL, *copy = NULL;
  writer t;
  begin_text(&t);
  (void)fprintf(t.file,
                "{\"tenon\": 1, \"nodes\": [{\"name\": \"x\", \"kind\": "
                "\"variable\", \"attributes\": {");
  write_attributes(t.file, n);
  (void)fprintf(t.file, "}}], \"heads\": [[0, 0]]}");
  OK(parse_text(&t, &read));
  const double begin = growth_clock();
  OK(tn__graph_copy(read, &copy));
  const double seconds = growth_clock() - begin;
  cr_expect_eq(tn__node_at(copy, 0)->n_attrs, (uint32_t)n);
  cr_expect_str_eq(tn__attribute_get(tn__node_at(copy, 0), "key0000345"),
                   "345");
  tn__graph_release(read);
  tn__graph_release(copy);
  return seconds;
}

Test(graph_limits, many_attributes_of_a_node_are_copied_soon) {
  expect_proportional(copy_attributes, 40000);
}

static double set_attributes_of_scope(int n) {
  enum { MOST = 40000 };
  static char keys[MOST][16];
  static tn_attribute list[MOST];
  for (int i = 0; i < n; ++i) {
    (void)snprintf(keys[i], sizeof keys[i], "key%d", n - i);
    list[i] = (tn_attribute){keys[i], "of the scope"};
  }
  net_renew();
  OK(tn__scope_push(g, list, (size_t)n));
  const double begin = growth_clock();
  const tn_entry x = var_node(g, "x");
  const double seconds = growth_clock() - begin;
  cr_expect_str_eq(tn__attribute_get(tn__node_at(g, x.node), "key7"),
                   "of the scope");
  OK(tn__scope_pop(g));
  return seconds;
}

Test(graph_limits, many_attributes_of_a_scope_are_set_soon) {
  expect_proportional(set_attributes_of_scope, 40000);
}

/* Of equal keys, the innermost scope's value counts. */
Test(graph_limits, scopes_override_each_other_in_order) {
  const tn_attribute outer[] = {{"b", "1"}, {"a", "1"}, {"c", "1"}};
  const tn_attribute inner[] = {{"c", "2"}, {"a", "2"}, {"c", "3"}};
  OK(tn__scope_push(g, outer, 3));
  OK(tn__scope_push(g, inner, 3));
  const tn__node *node = tn__node_at(g, var_node(g, "x").node);
  cr_assert_eq(node->n_attrs, 3);
  cr_expect_str_eq(tn__attribute_get(node, "a"), "2");
  cr_expect_str_eq(tn__attribute_get(node, "b"), "1");
  cr_expect_str_eq(tn__attribute_get(node, "c"), "3");
  OK(tn__scope_pop(g));
  OK(tn__scope_pop(g));
}

/* A file with a graph in it: 3000 attributes, for each of `n` nodes. */
static tn_code flatten_nested(int n, tn_graph **out) {
  tn_graph *read = NULL;
  writer t;
  begin_text(&t);
  (void)fprintf(
      t.file,
      "{\"tenon\": 1, \"nodes\": [{\"name\": \"x\", \"kind\": "
      "\"variable\"}, {\"name\": \"inside\", \"kind\": \"graph\", "
      "\"inputs\": [[0, 0]], \"attributes\": {\"key0000001\": \"mine\", "
      "\"other\": \"1\", \"more");
  (void)fprintf(t.file, "\": \"2\"");
  for (int i = 10; i < 3000; ++i)
    (void)fprintf(t.file, ", \"key%07d\": \"%d\"", i, i);
  (void)fprintf(t.file,
                "}, \"graph\": {\"nodes\": [{\"name\": \"x\", "
                "\"kind\": \"variable\"}");
  for (int i = 0; i < n; ++i)
    (void)fprintf(t.file,
                  ", {\"name\": \"n%d\", \"kind\": \"call\", \"op\": "
                  "\"lab.tanh@1\", \"inputs\": [[%d, 0]], \"attributes\": "
                  "{\"key0000020\": \"own\"}}",
                  i, i);
  (void)fprintf(t.file, "], \"heads\": [[%d, 0]]}}], \"heads\": [[1, 0]]}", n);
  OK(parse_text(&t, &read));
  const tn_code rc = tn__graph_flatten(read, out);
  tn__graph_release(read);
  return rc;
}

Test(graph_limits, inherited_attributes_are_counted) {
  tn_graph *flat = NULL;
  OK(flatten_nested(3, &flat));
  const tn__node *last = tn__node_at(flat, tn__n_nodes(flat) - 1);
  cr_expect_eq(last->n_attrs, 2993);
  cr_expect_str_eq(tn__attribute_get(last, "key0000020"), "own");
  cr_expect_str_eq(tn__attribute_get(last, "key0000021"), "21");
  cr_expect_str_eq(tn__attribute_get(last, "other"), "1");
  tn__graph_release(flat);
  FAILS(flatten_nested(1500, &flat), TN_OUT_OF_RANGE,
        "node `inside`: its nodes would inherit more than 4194304 attributes");
  cr_expect_null(flat);
}

/* -------------------------------------------------------- missing operators */

static double name_missing_operators(int n) {
  tn_graph *read = NULL;
  writer t;
  begin_text(&t);
  (void)fprintf(t.file,
                "{\"tenon\": 1, \"nodes\": [{\"name\": \"x\", \"kind\": "
                "\"variable\"}");
  for (int i = 0; i < n; ++i)
    (void)fprintf(t.file,
                  ",{\"name\": \"n%d\", \"kind\": \"call\", \"op\": "
                  "\"lab.missing%d@1\", \"inputs\": [[0, 0]]}",
                  i, i);
  (void)fprintf(t.file, "], \"heads\": [[0, 0]]}");
  const double begin = growth_clock();
  FAILS(parse_text(&t, &read), TN_NOT_FOUND,
        "node `n0`: no operator `missing0` in plugin `lab`", " more");
  return growth_clock() - begin;
}

Test(graph_limits, many_missing_operators_are_named_soon) {
  expect_proportional(name_missing_operators, 100000);
}

/* -------------------------------------------------------------------- loops */

/* A loop over elements without bytes, and `depth` others in its step. */
static void write_loop(FILE *file, uint32_t from, int depth) {
  (void)fprintf(
      file,
      "{\"name\": \"l\", \"kind\": \"loop\", \"inputs\": [[%u, 0]%s], "
      "\"sequences\": [0], \"graph\": {\"nodes\": [{\"name\": \"e\", "
      "\"kind\": \"variable\"}, {\"name\": \"c\", \"kind\": "
      "\"variable\"}, ",
      from,
      depth == 0 ? ""
      : from     ? ", [1, 0]"
                 : ", [0, 0]");
  if (depth)
    write_loop(file, 1, depth - 1);
  else
    (void)fprintf(file,
                  "{\"name\": \"t\", \"kind\": \"call\", \"op\": "
                  "\"lab.tanh@1\", \"inputs\": [[0, 0]]}");
  (void)fprintf(file, "], \"heads\": [%s[2, 0]]}}", depth ? "[0, 0], " : "");
}

static tn_code bind_loops(const char *steps, int depth) {
  tn_graph *read = NULL;
  tn_program *p = NULL;
  writer t;
  begin_text(&t);
  (void)fprintf(t.file,
                "{\"tenon\": 1, \"nodes\": [{\"name\": \"x\", \"kind\": "
                "\"variable\", \"dtype\": \"f32\", \"shape\": [%s, 0]}, ",
                steps);
  write_loop(t.file, 0, depth);
  (void)fprintf(t.file, "], \"heads\": [[1, 0]]}");
  OK(parse_text(&t, &read));
  const tn_bind how = {.struct_size = sizeof how};
  const tn_code rc = tn__program_bind(read, &how, &p);
  tn__program_release(p);
  tn__graph_release(read);
  return rc;
}

Test(graph_limits, loops_of_too_many_steps_are_refused) {
  FAILS(bind_loops("1000000000000", 0), TN_OUT_OF_RANGE, "node `l`",
        "it makes 1000000000000 steps",
        "all loops of a program make at most 1000000000 in one run");
  OK(bind_loops("1000000000", 0));
  OK(bind_loops("30000", 1));
  FAILS(bind_loops("40000", 1), TN_OUT_OF_RANGE,
        "it makes 40000 steps with 40000 steps of loops in each");
  FAILS(bind_loops("1024", 2), TN_OUT_OF_RANGE, "it makes 1024 steps with");
}
