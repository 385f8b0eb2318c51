/* SPDX-License-Identifier: Apache-2.0
 * capture.c: see capture.h.
 */
#include "capture.h"

#include <stdio.h>
#include <string.h>

/* Numbers between -0.5 and 0.5 that depend on their position. */
void fill_values(float *to, int64_t n, uint32_t what) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = (float)((what * 31 + (uint32_t)i * 7) % 41) / 41 - 0.5f;
}

tn_array *create_array(const char *place, int32_t ndim, const int64_t *shape) {
  tn_array *array = NULL;
  OK(tn_array_create_on(fixture, &(tn_spec){TN_F32, ndim, shape},
                        fixture_place(place), &array));
  return array;
}

void put_values(tn_array *array, uint32_t what) {
  float v[64];
  const int64_t n = tn_tensor_size(tn_array_tensor(array));
  fill_values(v, n, what);
  OK(tn_array_set(array, v, (size_t)n * sizeof *v));
}

tn_entry add_variable(tn_graph *g, const char *name, int32_t ndim, int64_t rows,
                      int64_t columns) {
  const tn_sig sig = {TN_F32, ndim, {rows, columns}};
  tn_entry out;
  OK(tn_graph_variable(g, name, &sig, &out));
  return out;
}

const char *read_reason(tn_program *p, uint32_t part) {
  static char text[512];
  tn_text *why = NULL;
  OK(tn_program_captured(p, part, &why));
  if (!why) return NULL;
  (void)snprintf(text, sizeof text, "%s", tn_text_get(why));
  tn_text_release(why);
  return text;
}

void expect_captured(tn_program *p, uint32_t part) {
  const char *why = read_reason(p, part);
  cr_assert_null(why, "%s", why);
}

void expect_uncaptured(tn_program *p, uint32_t part, const char *text) {
  const char *why = read_reason(p, part);
  cr_assert_not_null(why, "it is captured");
  cr_assert_not_null(strstr(why, text), "%s lacks `%s`", why, text);
}

void expect_line(tn_program *p, const char *line) {
  tn_text *text = NULL;
  OK(tn_program_text(p, 0, &text));
  cr_assert_not_null(strstr(tn_text_get(text), line), "%s lacks `%s`",
                     tn_text_get(text), line);
  tn_text_release(text);
}

/* y = tanh(a*b) + a, with gradients that are added up. */
tn_graph *build_curve(void) {
  tn_graph *g = NULL;
  tn_entry in[2], x[2];
  OK(tn_graph_create(fixture, &g));
  in[0] = add_variable(g, "a", 1, 32, 0);
  in[1] = add_variable(g, "b", 1, 32, 0);
  x[0] = fixture_call(g, "elemwise.mul", NULL, "product", 2, in);
  x[0] = fixture_call(g, "elemwise.tanh", NULL, "bent", 1, x);
  x[1] = in[0];
  x[0] = fixture_call(g, "elemwise.add", NULL, "y", 2, x);
  OK(tn_graph_heads_set(g, x, 1));
  return g;
}

tn_array *find_array(tn_program *p, uint32_t what, const char *name) {
  tn_array *array = NULL;
  OK(tn_program_array(p, what, name, &array));
  return array;
}

void run_curve(tn_program *p, uint32_t run, tn_array *weight) {
  put_values(find_array(p, TN_PROGRAM_ARGUMENT, "a"), run);
  put_values(find_array(p, TN_PROGRAM_ARGUMENT, "b"), 3 * run + 1);
  OK(tn_program_forward(p, TN_CALL_TRAIN));
  OK(tn_program_backward(p, &weight, 1));
}

tn_program *bind_graph(tn_graph *g, uint32_t flags) {
  tn_program *p = NULL;
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .place = fixture_place("cuda(0)")};
  OK(tn_program_bind(g, &how, &p));
  tn_graph_release(g);
  return p;
}

tn_program *bind_chain(const char *const *ops, uint32_t n, uint32_t flags) {
  tn_graph *g = NULL;
  OK(tn_graph_create(fixture, &g));
  tn_entry x = add_variable(g, "x", 1, 24, 0);
  for (uint32_t i = 0; i < n; ++i) {
    char name[16];
    (void)snprintf(name, sizeof name, "n%u", i);
    x = fixture_call(g, ops[i], NULL, name, 1, &x);
  }
  OK(tn_graph_heads_set(g, &x, 1));
  tn_program *p = bind_graph(g, flags);
  put_values(find_array(p, TN_PROGRAM_ARGUMENT, "x"), 4);
  return p;
}

void open_trial(uint64_t seed) {
  fixture_open_all(&(fake_cuda_options){.devices = 2, .seed = seed});
  OK(tn_plugin_load(fixture, TRIAL_FILE));
  OK(tn_plugin_load(fixture, TRIAL_CUDA_FILE));
}

/* Three runs, all of which compute tanh(x), or apply `ops` to x. */
tn_program *run_thrice(const char *const *ops, uint32_t n) {
  tn_program *p = bind_chain(ops, n, TN_BIND_CAPTURE);
  tn_array *y = NULL;
  float v[24];
  for (int run = 0; run < 3; ++run) OK(tn_program_forward(p, 0));
  OK(tn_program_output(p, 0, &y));
  OK(tn_array_get(y, v, sizeof v));
  return p;
}
