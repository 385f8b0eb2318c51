/* SPDX-License-Identifier: Apache-2.0
 * gpu.c: measures a CUDA device through the public functions. Copies,
 * elementwise operators (call by call and launched as one) and products, as
 * bytes and operations per second. Prints `name value unit`. The copy on the
 * device shows the limit of the hardware.
 *
 *   gpu PLUGIN.so ...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "tenon/graph.h"
#include "tenon/tenon.h"

enum { ROUNDS = 20, LARGE = 64 << 20, SMALL = 1 << 10, EDGE = 4096 };
enum {
  LINKS = 100,
  RUNS = 20
}; /* calls of a program, and runs between waits */

static tn_runtime *rt;
static tn_place place;

static void must_succeed(tn_code code, const char *what) {
  if (code == TN_OK) return;
  fprintf(stderr, "gpu: %s: %s\n", what, tn_error_text());
  exit(1);
}

static tn_array *create_array(tn_place where, int32_t ndim, int64_t rows,
                              int64_t columns) {
  const int64_t shape[] = {rows, columns};
  tn_array *made = NULL;
  must_succeed(
      tn_array_create_on(rt, &(tn_spec){TN_F32, ndim, shape}, where, &made),
      "an array");
  const size_t bytes = (size_t)tn_array_size(made) * sizeof(float);
  void *zeros = calloc(1, bytes);
  must_succeed(zeros ? TN_OK : TN_OUT_OF_MEMORY, "memory");
  must_succeed(tn_array_set(made, zeros, bytes), "zeros");
  free(zeros);
  return made;
}

/* ------------------------------------------------------------------- measuring
 */

/* One thing to measure: `n` times `run`, then a wait for `last`. */
typedef struct trial {
  void (*run)(const struct trial *t);
  tn_operator *op;
  const tn_params *params;
  tn_array *in[3];
  size_t n_in;
  tn_array *out;
} trial;

static void copy_array(const trial *t) {
  must_succeed(tn_array_copy(t->out, t->in[0]), "a copy");
}

static void call_once(const trial *t) {
  tn_array *out = t->out;
  must_succeed(tn_call(rt, t->op, &(tn_inputs){t->n_in, t->in}, t->params,
                       &(tn_outputs){1, &out, NULL}),
               "a call");
}

/* Seconds of one run: the best of some rounds of `n` consecutive runs. */
static double measure_seconds(const trial *t, int n) {
  double best = 1e30;
  for (int round = 0; round < ROUNDS; ++round) {
    const double begin = measure_now();
    for (int i = 0; i < n; ++i) t->run(t);
    must_succeed(tn_array_wait(t->out), "waiting");
    const double took = (measure_now() - begin) / n;
    if (took < best) best = took;
  }
  return best;
}

static void print_value(const char *name, double value, const char *unit) {
  printf("%-28s %10.2f %s\n", name, value, unit);
}

/* ---------------------------------------------------------------------- trials
 */

static void measure_copies(void) {
  const tn_place host = {TN_DEVICE_CPU, 0};
  tn_array *here = create_array(host, 1, LARGE, 0);
  tn_array *one = create_array(place, 1, LARGE, 0),
           *two = create_array(place, 1, LARGE, 0);
  const double bytes = (double)LARGE * sizeof(float);
  const trial in = {.run = copy_array, .in = {here}, .out = one};
  const trial out = {.run = copy_array, .in = {one}, .out = here};
  const trial within = {.run = copy_array, .in = {one}, .out = two};
  print_value("copy.host_to_device", bytes / measure_seconds(&in, 1) / 1e9,
              "GB/s");
  print_value("copy.device_to_host", bytes / measure_seconds(&out, 1) / 1e9,
              "GB/s");
  print_value("copy.on_device", 2 * bytes / measure_seconds(&within, 10) / 1e9,
              "GB/s");
  tn_array_release(here);
  tn_array_release(one);
  tn_array_release(two);
}

static void element_wise(const char *name, size_t n_in) {
  char line[64];
  trial t = {.run = call_once, .n_in = n_in};
  must_succeed(tn_operator_get(rt, name, &t.op), name);
  for (size_t i = 0; i < n_in; ++i) t.in[i] = create_array(place, 1, LARGE, 0);
  t.out = create_array(place, 1, LARGE, 0);
  const double bytes = (double)(n_in + 1) * LARGE * sizeof(float);
  (void)snprintf(line, sizeof line, "%s.large", name);
  print_value(line, bytes / measure_seconds(&t, 10) / 1e9, "GB/s");
  for (size_t i = 0; i < n_in; ++i) tn_array_release(t.in[i]);
  tn_array_release(t.out);
  for (size_t i = 0; i < n_in; ++i) t.in[i] = create_array(place, 1, SMALL, 0);
  t.out = create_array(place, 1, SMALL, 0);
  (void)snprintf(line, sizeof line, "%s.small", name);
  print_value(line, measure_seconds(&t, 1000) * 1e6, "us");
  for (size_t i = 0; i < n_in; ++i) tn_array_release(t.in[i]);
  tn_array_release(t.out);
}

/* A program of small calls, each of which reads the result of the call before.
 */
static tn_program *bind_chain(const char *name, size_t n_in, tn_array *x) {
  const tn_sig sig = {.dtype = TN_F32, .ndim = 1, .shape = {SMALL}};
  const tn_argument given = {.name = "x", .array = x};
  tn_graph *g = NULL;
  tn_entry first, last;
  tn_program *made = NULL;
  must_succeed(tn_graph_create(rt, &g), "a graph");
  must_succeed(tn_graph_variable(g, "x", &sig, &first), "a variable");
  last = first;
  for (int i = 0; i < LINKS; ++i) {
    const tn_entry in[] = {last, first};
    must_succeed(
        tn_graph_call(g,
                      &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                       .op = name,
                                       .n_in = (uint32_t)n_in,
                                       .in = in},
                      &last),
        name);
  }
  must_succeed(tn_graph_heads_set(g, &last, 1), "a head");
  must_succeed(
      tn_program_bind(g,
                      &(tn_bind){.struct_size = sizeof(tn_bind),
                                 .flags = TN_BIND_CAPTURE | TN_BIND_NO_FUSE,
                                 .arguments = &given,
                                 .n_arguments = 1,
                                 .place = place},
                      &made),
      "a program");
  tn_graph_release(g);
  return made;
}

/* The same as small calls, launched as one. */
static void measure_captured(const char *name, size_t n_in) {
  char line[64];
  tn_array *x = create_array(place, 1, SMALL, 0), *out = NULL;
  tn_program *program = bind_chain(name, n_in, x);
  tn_text *why = NULL;
  double best = 1e30;
  for (int round = 0; round < ROUNDS; ++round) {
    const double begin = measure_now();
    for (int i = 0; i < RUNS; ++i)
      must_succeed(tn_program_forward(program, 0), "a program");
    must_succeed(tn_program_output(program, 0, &out), "an output");
    must_succeed(tn_array_wait(out), "waiting");
    const double took = (measure_now() - begin) / (RUNS * LINKS);
    if (took < best) best = took;
  }
  must_succeed(tn_program_captured(program, TN_PART_FORWARD, &why), "asking");
  (void)snprintf(line, sizeof line, "%s.captured", name);
  if (why)
    fprintf(stderr, "gpu: %s: %s\n", line, tn_text_get(why));
  else
    print_value(line, best * 1e6, "us");
  tn_text_release(why);
  tn_program_release(program);
  tn_array_release(x);
}

static void measure_product(void) {
  char text[64];
  tn_params *params = NULL;
  trial t = {.run = call_once, .n_in = 3};
  must_succeed(tn_operator_get(rt, "nn.fully_connected", &t.op),
               "fully_connected");
  (void)snprintf(text, sizeof text, "num_hidden=%d", EDGE);
  must_succeed(tn_params_parse(t.op, text, &params), "parameters");
  t.params = params;
  t.in[0] = create_array(place, 2, EDGE, EDGE);
  t.in[1] = create_array(place, 2, EDGE, EDGE);
  t.in[2] = create_array(place, 1, EDGE, 0);
  t.out = create_array(place, 2, EDGE, EDGE);
  const double operations = 2.0 * EDGE * EDGE * EDGE;
  print_value("nn.fully_connected.4096",
              operations / measure_seconds(&t, 10) / 1e12, "TFLOP/s");
  for (int i = 0; i < 3; ++i) tn_array_release(t.in[i]);
  tn_array_release(t.out);
  tn_params_release(params);
}

int main(int argc, char **argv) {
  must_succeed(tn_runtime_create(NULL, &rt), "a runtime");
  for (int i = 1; i < argc; ++i)
    must_succeed(tn_plugin_load(rt, argv[i]), argv[i]);
  if (tn_place_parse(rt, "cuda(0)", &place) != TN_OK) {
    printf("SKIPPED: %s\n", tn_error_text());
  } else {
    measure_copies();
    element_wise("elemwise.add", 2);
    element_wise("elemwise.exp", 1);
    element_wise("elemwise.sigmoid", 1);
    measure_captured("elemwise.add", 2);
    measure_captured("elemwise.exp", 1);
    measure_captured("elemwise.sigmoid", 1);
    measure_product();
  }
  tn_runtime_release(rt);
  return 0;
}
