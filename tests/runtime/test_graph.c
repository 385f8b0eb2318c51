/* SPDX-License-Identifier: Apache-2.0
 * test_graph.c: each public function of graph.h about graphs once with valid
 * arguments, and once with NULL. tests/graph covers the functions themselves.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../by_hand.h"
#include "probe.h"
#include "tenon/graph.h"

static tn_runtime *rt;
static tn_graph *g;

static void setup(void) {
  cr_assert_eq(tn_runtime_create(NULL, &rt), TN_OK);
  cr_assert_eq(tn_plugin_add(rt, &probe_plugin), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_graph_create(rt, &g), TN_OK);
}

static void teardown(void) {
  tn_graph_release(g);
  tn_runtime_release(rt);
}

TestSuite(graph_api, .init = setup, .fini = teardown);

#define OK(call) cr_assert_eq((call), TN_OK, "%s", tn_error_text())
#define SAYS(call, code, part)                                                \
  do {                                                                        \
    cr_assert_eq((call), (code));                                             \
    cr_assert(strstr(tn_error_text(), (part)), "\"%s\" is not in %s", (part), \
              tn_error_text());                                               \
  } while (0)

/* y = x*w */
static tn_entry make_product(void) {
  tn_entry in[2], y;
  const tn_sig known = {.dtype = TN_F32, .ndim = 1, .shape = {3}};
  OK(tn_graph_variable(g, "x", &known, &in[0]));
  OK(tn_graph_variable(g, "w", NULL, &in[1]));
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = "probe.mul",
                                    .name = "y",
                                    .n_in = 2,
                                    .in = in},
                   &y));
  OK(tn_graph_heads_set(g, &y, 1));
  return y;
}

Test(graph_api, nodes_name_the_operators_that_they_call) {
  const tn_entry y = make_product();
  cr_expect_str_eq(tn_graph_operator(g, y.node), "probe.mul@1");
  cr_expect_null(tn_graph_operator(g, 0)); /* a variable */
  cr_expect_null(tn_graph_operator(g, 9));
  cr_expect_null(tn_graph_operator(NULL, 0));
}

Test(graph_api, children_are_the_entries_that_a_node_reads) {
  const tn_entry y = make_product();
  tn_entry child;
  OK(tn_graph_child(g, y.node, 1, &child));
  cr_expect(child.node == 1 && child.index == 0);
  SAYS(tn_graph_child(g, y.node, 2, &child), TN_NOT_FOUND,
       "node `y` reads 2 entries");
  SAYS(tn_graph_child(g, 9, 0, &child), TN_INVALID, "the graph has 3 nodes");
  cr_expect_eq(child.node, TN_NONE);
}

Test(graph_api, attributes_are_listed) {
  const tn_entry y = make_product();
  tn_attribute a;
  OK(tn_graph_attribute_set(g, y.node, "group", "left"));
  cr_expect_str_eq(tn_graph_attribute(g, y.node, "group"), "left");
  cr_expect_null(tn_graph_attribute(g, y.node, "other"));
  cr_expect_null(tn_graph_attribute(g, 9, "group"));
  OK(tn_graph_attribute_at(g, y.node, 0, &a));
  cr_expect_str_eq(a.key, "group");
  SAYS(tn_graph_attribute_at(g, y.node, 1, &a), TN_NOT_FOUND,
       "has 1 attributes");
}

/* An entry that was added after the last inference is not known yet. */
Test(graph_api, entries_added_after_an_inference_are_unknown) {
  const tn_entry y = make_product();
  tn_entry late;
  tn_sig sig;
  OK(tn_graph_infer(g, NULL, 0));
  OK(tn_graph_sig(g, y, &sig));
  cr_expect(sig.ndim == 1 && sig.shape[0] == 3);
  OK(tn_graph_variable(g, "late", NULL, &late));
  OK(tn_graph_sig(g, late, &sig));
  cr_expect_eq(sig.ndim, -1);
}

Test(graph_api, a_file_goes_from_runtime_to_runtime) {
  char path[] = "/tmp/tenon-graph-api-XXXXXX";
  const int fd = mkstemp(path);
  tn_runtime *other = NULL;
  tn_graph *read_back = NULL;
  tn_text *mine = NULL, *theirs = NULL;
  cr_assert_geq(fd, 0);
  (void)close(fd);
  make_product();
  OK(tn_graph_save(g, path));
  OK(tn_runtime_create(NULL, &other));
  SAYS(tn_graph_load(other, path, &read_back), TN_NOT_FOUND, "`probe.mul@1`");
  OK(tn_plugin_add(other, &probe_plugin));
  OK(tn_graph_load(other, path, &read_back));
  tn_runtime_release(other); /* the graph keeps it */
  OK(tn_graph_json(g, &mine));
  OK(tn_graph_json(read_back, &theirs));
  cr_expect_str_eq(tn_text_get(mine), tn_text_get(theirs));
  tn_graph_release(read_back);
  tn_text_release(mine);
  tn_text_release(theirs);
  cr_expect_eq(unlink(path), 0);
}

Test(graph_api, a_program_and_an_inferred_graph_are_json) {
  tn_program *p = NULL;
  tn_text *text = NULL;
  make_product();
  const tn_bind how = {.struct_size = sizeof how, .plan = TN_PLAN_NONE};
  OK(tn_program_bind(g, &how, &p));
  OK(tn_program_json(p, &text));
  cr_expect_eq(strncmp(tn_text_get(text), "{\"n_forward\": 1,", 16), 0);
  tn_text_release(text);
  OK(tn_graph_inferred_json(g, &text));
  cr_expect(strstr(tn_text_get(text), "\"outputs\": ["));
  tn_text_release(text);
  tn_program_release(p);
}

Test(graph_api, unknown_flags_and_types_are_refused) {
  tn_program *p = NULL;
  tn_entry x;
  make_product();
  SAYS(
      tn_program_bind(
          g, &(tn_bind){.struct_size = sizeof(tn_bind), .flags = 1u << 20}, &p),
      TN_INVALID, "tn_bind.flags: 0x100000");
  OK(tn_program_bind(g, &(tn_bind){.struct_size = sizeof(tn_bind)}, &p));
  SAYS(tn_program_forward(p, 0xf0), TN_INVALID, "0xf0");
  SAYS(tn_program_forward_part(p, TN_CALL_BACKWARD, 1, NULL), TN_INVALID,
       "0x2");
  tn_program_release(p);
  SAYS(tn_graph_variable(g, "z", &(tn_sig){.dtype = 3, .ndim = -1}, &x),
       TN_DTYPE, "`z`: 0x3");
}

Test(graph_api, null_is_refused) {
  tn_graph *graph = NULL;
  tn_text *text = NULL;
  tn_entry entry;
  const char *name = NULL;
  SAYS(tn_graph_create(NULL, &graph), TN_INVALID, "rt");
  SAYS(tn_graph_create(rt, NULL), TN_INVALID, "out");
  SAYS(tn_graph_copy(NULL, &graph), TN_INVALID, "graph");
  SAYS(tn_graph_variable(g, NULL, NULL, &entry), TN_INVALID, "name");
  SAYS(tn_graph_call(g, NULL, &entry), TN_INVALID, "node");
  SAYS(tn_graph_call(g, &(tn_graph_node){.op = "probe.mul"}, &entry),
       TN_INVALID, "set it to sizeof(tn_graph_node)");
  SAYS(tn_graph_find(g, NULL, &entry), TN_INVALID, "name");
  SAYS(tn_graph_name(g, TN_GRAPH_NODES, 0, NULL, &entry), TN_INVALID, "name");
  SAYS(tn_graph_name(NULL, TN_GRAPH_NODES, 0, &name, &entry), TN_INVALID,
       "graph");
  SAYS(tn_graph_json(NULL, &text), TN_INVALID, "graph");
  SAYS(tn_graph_json(g, NULL), TN_INVALID, "out");
  SAYS(tn_graph_parse(rt, NULL, 1, &graph), TN_INVALID, "json");
  SAYS(tn_graph_parse(rt, NULL, 0, &graph), TN_INVALID, "line 1");
  SAYS(tn_graph_parse(NULL, "", 0, &graph), TN_INVALID, "rt");
  SAYS(tn_graph_save(g, NULL), TN_INVALID, "path");
  SAYS(tn_graph_load(rt, NULL, &graph), TN_INVALID, "path");
  SAYS(tn_graph_inferred_json(NULL, &text), TN_INVALID, "graph");
  SAYS(tn_graph_inferred_json(g, NULL), TN_INVALID, "out");
  SAYS(tn_program_json(NULL, &text), TN_INVALID, "program");
  SAYS(tn_graph_prefix(NULL, "a"), TN_INVALID, "graph");
  tn_graph_release(NULL);
  cr_expect(graph == NULL && text == NULL);
}

/* ----------------------------------------------------------------- gradients
 */

/* A plugin is refused if a gradient rule has fewer inputs than its operator.
 * The message has the operator's name. */
Test(graph_api, a_gradient_with_too_few_inputs_is_refused_by_name) {
  tn_operator *mul = NULL;
  OK(tn_operator_get(rt, "probe.mul", &mul));
  tn_op op = *tn_operator_desc(mul);
  tn_gradient gradient = *op.gradient;
  const tn_op *const list[] = {&op};
  const tn_plugin scant = {PLUGIN_BY_HAND("scant", 1, "One operator"),
                           .n_operators = 1, .operators = list};
  cr_assert_eq(gradient.n_inputs, 2);
  gradient.n_inputs = 1;
  op.gradient = &gradient;
  SAYS(tn_plugin_add(rt, &scant), TN_PLUGIN, "mul");
  cr_expect(
      strstr(tn_error_text(),
             "the gradient of mul speaks of 1 inputs; the operator has 2"),
      "%s", tn_error_text());
  SAYS(tn_operator_get(rt, "scant.mul", &mul), TN_NOT_FOUND, "scant.mul");
}

/* -------------------------------------------------------------------- passes
 */

Test(graph_api, arguments_of_passes_and_dependencies_are_checked) {
  static const char *const names[] = {"infer", NULL};
  tn_graph *out = g;
  tn_text *text = NULL;
  tn_pass_info info = {.struct_size = sizeof info};
  const tn_entry y = make_product();
  SAYS(tn_graph_apply(NULL, names, 1, &out), TN_INVALID, "graph");
  cr_expect_null(out);
  SAYS(tn_graph_apply(g, NULL, 1, &out), TN_INVALID, "passes");
  SAYS(tn_graph_apply(g, names, 2, &out), TN_INVALID, "passes[i]");
  SAYS(tn_graph_apply(g, names, 1, NULL), TN_INVALID, "out");
  OK(tn_graph_apply(g, names, 1, &out));
  tn_graph_release(out);
  SAYS(tn_pass_at(rt, 3, &info), TN_NOT_FOUND, "ends before 3");
  OK(tn_pass_at(rt, 2, &info));
  cr_expect_str_eq(info.name, "gradient");
  info.struct_size = 4;
  SAYS(tn_pass_at(rt, 0, &info), TN_INVALID, "tn_pass_info.struct_size is 4");
  SAYS(tn_pass_at(rt, 0, NULL), TN_INVALID, "out");
  SAYS(tn_graph_depends(NULL, 1, 0), TN_INVALID, "graph");
  SAYS(tn_graph_depends(g, y.node, y.node), TN_INVALID, "itself");
  OK(tn_graph_attributes(g, &text));
  cr_expect_str_eq(tn_text_get(text), "{}");
  tn_text_release(text);
  SAYS(tn_graph_attributes(g, NULL), TN_INVALID, "out");
  SAYS(tn_graph_backward(g, NULL), TN_INVALID, "what");
  SAYS(tn_graph_backward(g, &(tn_gradient_names){.n_stop = 1}), TN_INVALID,
       "stop");
  tn_entry gradient;
  OK(tn_graph_backward(g, &(tn_gradient_names){.of = NULL}));
  OK(tn_graph_find(g, "w@GRAD", &gradient));
}
