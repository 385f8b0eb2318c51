/* SPDX-License-Identifier: Apache-2.0
 * pass_fixture.c: see pass_fixture.h.
 */
#include "pass_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void open_all(void) {
  net_open();
  w.registry->passes = &tn__passes_table;
  OK(tn__plugin_load(w.registry, PASSES_FILE));
}

/* ------------------------------------------------------------------ helpers */

const char *list_nodes(const tn_graph *graph) {
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

char *json_of(const tn_graph *graph) {
  tn_text *text = NULL;
  OK(tn__graph_json(graph, false, &text));
  char *copy = strdup(tn_text_get(text));
  tn_text_release(text);
  return copy;
}

tn_graph *apply_passes(const char *const *names, size_t n) {
  char *before = json_of(g);
  tn_graph *out = NULL;
  OK(tn__graph_apply(g, names, n, &out));
  char *after = json_of(g);
  cr_assert_str_eq(before, after);
  free(before), free(after);
  return out;
}

void expect_refused(const char *const *names, size_t n, tn_code code,
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

void simple_net(void) {
  const tn_entry x = var_node(g, "x"), v = var_node(g, "v");
  const tn_entry y = OP(g, "mul", NULL, "y", x, x);
  const tn_entry z = OP(g, "same", NULL, "z", y);
  HEADS(g, OP(g, "add", NULL, "s", z, v));
}

void known_net(void) {
  simple_net();
  OK(tn__graph_infer(g, (tn_known[]){{.name = "x", .sig = F32(3)}}, 1));
}

void loop_net(void) {
  tn_graph *step = net_new();
  const tn_entry x = var_node(step, "x"), h = var_node(step, "h"),
                 k = var_node(step, "k");
  const tn_entry hx = OP(step, "mul", NULL, "hx", h, x),
                 sum = OP(step, "add", NULL, "sum", hx, k);
  HEADS(step, OP(step, "mul", NULL, "next", sum, sum), hx);
  tn_entry out;
  const tn_loop what = {.struct_size = sizeof what,
                        .n_in = 3,
                        .step = step,
                        .name = "loop",
                        .sequences = (const char *const[]){"x"},
                        .states = (const char *const[]){"h"},
                        .n_sequences = 1,
                        .n_states = 1,
                        .in = (const tn_entry[]){typed_var(g, "x", F32(3, 1)),
                                                 typed_var(g, "h", F32(1)),
                                                 typed_var(g, "k", F32(1))},
                        .keys = (const char *const[]){"x", "h", "k"}};
  OK(tn__graph_loop(g, &what, &out));
  HEADS(g, out, output_of(out, 1));
  tn__graph_release(step);
}

/* ------------------------------------------------------------------ a program
 */

tn_code run_open_as(run *r, tn_req request, const char *const *names,
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

tn_code run_open(run *r, const char *const *names, size_t n) {
  return run_open_as(r, TN_REQ_WRITE, names, n);
}

void run_close(run *r) {
  tn__program_release(r->p);
  tn__array_release(r->x), tn__array_release(r->v);
}

void run_train(tn_program *p) {
  tn_array *ones = floats(SHAPE(3), VALUES(1, 1, 1));
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_backward(p, &ones, 1));
  tn__array_release(ones);
}

void expect_values(const run *r, const float *head, const float *slope) {
  tn_array *out = NULL, *dx = NULL;
  run_train(r->p);
  OK(tn__program_output(r->p, 0, &out));
  OK(tn__program_array(r->p, TN_PROGRAM_GRADIENT, "x", &dx));
  expect(out, 3, head);
  expect(dx, 3, slope);
}

bool has_step(const tn_program *p, const char *part) {
  tn_text *text = NULL;
  OK(tn__program_text(p, 0, &text));
  const bool found = strstr(tn_text_get(text), part) != NULL;
  tn_text_release(text);
  return found;
}
