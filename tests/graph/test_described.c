/* SPDX-License-Identifier: Apache-2.0
 * JSON that shows a graph and a program: outputs with their names, types and
 * shapes; steps, and the memory of the plan.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

TestSuite(graph_described, .init = net_open, .fini = net_close);

/* Expects the parts of a text in this order. */
static void has_parts(const tn_text *text, const char *const *parts) {
  const char *at = tn_text_get(text);
  for (; *parts; ++parts) {
    const char *found = strstr(at, *parts);
    cr_assert(found, "no %s in %s", *parts, at);
    at = found + strlen(*parts);
  }
}

static void has_nodes(const tn_graph *graph, const char *const *parts) {
  tn_text *text = NULL;
  OK(tn__graph_json(graph, true, &text));
  has_parts(text, parts);
  tn_text_release(text);
}

static void small_graph(void) {
  const tn_entry x = typed_var(g, "x", F64(2, 3));
  const tn_entry y = OP(g, "dense", "num_hidden=4", "fc", x);
  HEADS(g, OP(g, "track", NULL, "t", y));
}

Test(graph_described, outputs_have_names_and_inferred_shapes) {
  small_graph();
  has_nodes(g, (const char *const[]){
                   "\"x\", \"kind\": \"variable\", \"dtype\": \"f64\", "
                   "\"shape\": [2, 3], \"outputs\": [{\"name\": \"x\", "
                   "\"dtype\": \"f64\", \"shape\": [2, 3]}]}",
                   "\"outputs\": [{\"name\": \"fc_weight\"}]}",
                   "\"outputs\": [{\"name\": \"fc_output\"}]}", NULL});
  OK(tn__graph_infer(g, NULL, 0));
  has_nodes(g, (const char *const[]){
                   "{\"name\": \"fc_weight\", \"dtype\": \"f64\", "
                   "\"shape\": [4, 3]}]}",
                   "{\"name\": \"fc_output\", \"dtype\": \"f64\", "
                   "\"shape\": [2, 4]}]}",
                   "\"t_sum\", \"kind\": \"variable\", \"state\": true, "
                   "\"outputs\": [{\"name\": \"t_sum\"",
                   "\"heads\": [[5, 0]]", NULL});
}

Test(graph_described, graphs_in_graphs_have_outputs) {
  tn_graph *inner = net_new();
  tn_entry out;
  HEADS(inner, OP(inner, "tanh", NULL, "t", var_node(inner, "a")));
  OK(tn__graph_embed(
      g,
      &(tn_embedding){
          .struct_size = sizeof(tn_embedding), .inner = inner, .name = "b"},
      &out));
  tn__graph_release(inner);
  has_nodes(g, (const char *const[]){
                   "\"graph\": {", "\"outputs\": [{\"name\": \"a\"}]",
                   "\"outputs\": [{\"name\": \"t_output\"}]",
                   "\"outputs\": [{\"name\": \"b_output\"}]", NULL});
}

/* The outputs are no part of a file. */
Test(graph_described, the_text_is_not_read_as_a_graph) {
  tn_text *text = NULL;
  tn_graph *other = NULL;
  small_graph();
  OK(tn__graph_json(g, true, &text));
  const char *json = tn_text_get(text);
  FAILS(tn__graph_parse(&w.caller, json, strlen(json), &other), TN_INVALID,
        "outputs");
  tn_text_release(text);
}

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

/* Without sharing, each of the two squares that are no head has memory of its
 * own, from its step to the gradient that reads it. */
Test(graph_described, a_program_shows_its_steps_and_memory) {
  tn_text *text = NULL;
  tn_program *p = bind_chain(TN_PLAN_NONE);
  OK(tn__program_json(p, &text));
  has_parts(text,
            (const char *const[]){
                "{\"n_forward\": 3, \"devices\": [\"cpu(0)\"],\n\"steps\": [",
                "{\"node\": \"square0\", \"does\": \"lab.square.cpu\", "
                "\"device\": 0, \"outputs\": [{\"dtype\": \"f64\", "
                "\"shape\": [1024], \"request\": \"write\", "
                "\"storage\": 0}]}",
                "\"storages\": [",
                "{\"device\": 0, \"offset\": 0, \"bytes\": 8192, "
                "\"first\": 0, \"last\": ",
                "\"pools\": [", "{\"device\": 0, \"bytes\": ", "]}\n", NULL});
  tn_text_release(text);
  tn__program_release(p);
}

static tn_code describe_all(const tn_program *p) {
  tn_text *text = NULL;
  tn_code rc = tn__graph_json(g, true, &text);
  if (text) tn_text_release(text);
  if (rc != TN_OK) return rc;
  rc = tn__program_json(p, &text);
  if (text) tn_text_release(text);
  return rc;
}

Test(graph_described, every_failed_allocation_is_survived) {
  tn_program *p = bind_chain(TN_PLAN_DEFAULT);
  tn_code rc = TN_OUT_OF_MEMORY;
  for (int64_t n = 1; rc != TN_OK && n < 1000; ++n) {
    const int64_t before = w.memory.living;
    w.memory.fail_at = w.memory.asked + n;
    rc = describe_all(p);
    w.memory.fail_at = 0;
    cr_assert_eq(w.memory.living, before, "allocation %d leaks", (int)n);
    if (rc != TN_OK) cr_assert_eq(rc, TN_OUT_OF_MEMORY);
  }
  cr_expect_eq(rc, TN_OK);
  tn__program_release(p);
}
