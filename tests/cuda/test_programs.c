/* SPDX-License-Identifier: Apache-2.0
 * Graphs of random operators on random devices, two GPUs and the cpu, against
 * the same graph on the cpu alone: outputs and gradients of all variables. The
 * fake executes late and in an order that the seed decides; it reports missing
 * waits. Also the same graphs on one GPU, recorded and launched as one.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "tenon/graph.h"

enum { N_VARIABLES = 4, N_CALLS = 12, ROWS = 3, COLUMNS = 37 };
enum { N = ROWS * COLUMNS };

TestSuite(programs, .init = fixture_init, .fini = fixture_close);

static uint64_t state;

static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

static const char *const group_names[] = {"", "first", "second", "host"};

/* --------------------------------------------------------------------- graphs
 */

/* Entries so far: variables, then a result of each call. */
typedef struct net {
  tn_graph *g;
  tn_entry entries[N_VARIABLES + N_CALLS];
  uint32_t n;
} net;

static void add_variable(net *x) {
  const tn_sig sig = {TN_F32, 2, {ROWS, COLUMNS}};
  char name[16];
  (void)snprintf(name, sizeof name, "v%u", x->n);
  OK(tn_graph_variable(x->g, name, &sig, &x->entries[x->n++]));
}

/* Results stay small, so that differences do. */
static void add_call(net *x) {
  static const char *const ops[] = {"elemwise.add", "elemwise.sub",
                                    "elemwise.mul", "elemwise.tanh",
                                    "elemwise.sigmoid"};
  const uint32_t op = draw(5);
  const tn_entry in[] = {x->entries[draw(x->n)],
                         x->entries[x->n - 1 - draw(x->n < 4 ? x->n : 4)]};
  char name[16];
  (void)snprintf(name, sizeof name, "c%u", x->n);
  const tn_graph_node node = {.struct_size = sizeof node,
                              .op = ops[op],
                              .name = name,
                              .n_in = op < 3 ? 2 : 1,
                              .in = in};
  tn_entry out;
  OK(tn_graph_call(x->g, &node, &out));
  OK(tn_graph_attribute_set(x->g, out.node, "group", group_names[draw(4)]));
  x->entries[x->n++] = out;
}

static tn_graph *graph_draw(uint64_t seed) {
  net x = {0};
  state = seed;
  OK(tn_graph_create(fixture, &x.g));
  for (int i = 0; i < N_VARIABLES; ++i) add_variable(&x);
  for (int i = 0; i < N_CALLS; ++i) add_call(&x);
  const tn_entry heads[] = {x.entries[x.n - 1], x.entries[x.n - 2]};
  OK(tn_graph_heads_set(x.g, heads, 2));
  return x.g;
}

/* ---------------------------------------------------------------------- runs
 */

/* Numbers between -1 and 1 that depend on their position. */
static void values(float *to, uint32_t what, uint32_t run) {
  for (uint32_t i = 0; i < N; ++i)
    to[i] = (float)((what * 31 + run * 17 + i * 7) % 41) / 20.5f - 1;
}

static void put_all(tn_program *p, tn_graph *g, uint32_t run) {
  const char *name = NULL;
  float v[N];
  for (uint32_t i = 0; !tn_graph_name(g, TN_GRAPH_ARGUMENTS, i, &name, NULL);
       ++i) {
    tn_array *array = NULL;
    values(v, (uint32_t)name[1], run);
    OK(tn_program_array(p, TN_PROGRAM_ARGUMENT, name, &array));
    OK(tn_array_set(array, v, sizeof v));
  }
}

/* Everything that a run finds out: heads, then gradients. */
typedef struct found {
  float v[2 + N_VARIABLES][N];
  uint32_t n;
} found;

static void get_all(tn_program *p, tn_graph *g, found *f) {
  const char *name = NULL;
  tn_array *array = NULL;
  f->n = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    OK(tn_graph_name(g, TN_GRAPH_HEADS, i, &name, NULL));
    OK(tn_program_array(p, TN_PROGRAM_OUTPUT, name, &array));
    OK(tn_array_get(array, f->v[f->n++], sizeof f->v[0]));
  }
  for (uint32_t i = 0; !tn_graph_name(g, TN_GRAPH_ARGUMENTS, i, &name, NULL);
       ++i) {
    OK(tn_program_array(p, TN_PROGRAM_GRADIENT, name, &array));
    OK(tn_array_get(array, f->v[f->n++], sizeof f->v[0]));
  }
}

/* The head's gradient, where the head is. */
static tn_array *weight_at(tn_program *p, tn_graph *g, uint32_t head,
                           uint32_t run) {
  const char *name = NULL;
  tn_array *out = NULL, *weight = NULL;
  const int64_t shape[] = {ROWS, COLUMNS};
  float v[N];
  OK(tn_graph_name(g, TN_GRAPH_HEADS, head, &name, NULL));
  OK(tn_program_array(p, TN_PROGRAM_OUTPUT, name, &out));
  const tn_tensor *t = tn_array_tensor(out);
  OK(tn_array_create_on(fixture, &(tn_spec){TN_F32, 2, shape},
                        (tn_place){t->device_type, t->device_id}, &weight));
  values(v, 7 + head, run);
  OK(tn_array_set(weight, v, sizeof v));
  return weight;
}

static void run_once(tn_program *p, tn_graph *g, uint32_t run) {
  tn_array *weights[] = {weight_at(p, g, 0, run), weight_at(p, g, 1, run)};
  put_all(p, g, run);
  OK(tn_program_forward(p, TN_CALL_TRAIN));
  OK(tn_program_backward(p, weights, 2));
  tn_array_release(weights[0]);
  tn_array_release(weights[1]);
}

static void compare(const found *here, const found *there, uint64_t seed) {
  cr_assert_eq(here->n, there->n);
  for (uint32_t k = 0; k < here->n; ++k)
    for (uint32_t i = 0; i < N; ++i) {
      const float want = here->v[k][i], have = there->v[k][i];
      cr_assert(fabsf(have - want) <= 1e-5f * (1 + fabsf(want)),
                "seed %llu: result %u, element %u is %g, not %g",
                (unsigned long long)seed, k, i, (double)have, (double)want);
    }
}

/* Three consecutive runs; the test reads the last. */
static void run_program(tn_graph *g, const tn_bind *how, found *f) {
  tn_program *p = NULL;
  OK(tn_program_bind(g, how, &p));
  for (uint32_t run = 0; run < 3; ++run) run_once(p, g, run);
  get_all(p, g, f);
  tn_program_release(p);
}

static void try_seed(uint64_t seed) {
  static found here, there;
  fixture_open_all(&(fake_cuda_options){
      .devices = 2, .seed = seed, .latency_us = seed % 3 == 0 ? 20 : 0});
  const tn_group groups[] = {{"first", fixture_place("cuda(0)")},
                             {"second", fixture_place("cuda(1)")},
                             {"host", fixture_place("cpu")}};
  const tn_bind alone = {.struct_size = sizeof alone, .request = TN_REQ_WRITE};
  const tn_bind apart = {.struct_size = sizeof apart,
                         .request = TN_REQ_WRITE,
                         .plan = seed % 2 ? TN_PLAN_DEFAULT : TN_PLAN_NONE,
                         .memory = seed % 4 == 1 ? TN_MEMORY_MINIMAL : 0,
                         .place = fixture_place(seed % 3 ? "cuda(0)" : "cpu"),
                         .groups = groups,
                         .n_groups = 3};
  tn_graph *g = graph_draw(seed);
  run_program(g, &alone, &here);
  run_program(g, &apart, &there);
  compare(&here, &there, seed);
  tn_graph_release(g);
  fixture_close();
}

/* All on one GPU, which is given recordings of both parts from the second run
 * on. */
static void try_captured(uint64_t seed) {
  static found here, there;
  fixture_open_all(&(fake_cuda_options){
      .devices = 1, .seed = seed, .latency_us = seed % 3 == 0 ? 20 : 0});
  const tn_bind alone = {.struct_size = sizeof alone, .request = TN_REQ_WRITE};
  const tn_bind one = {.struct_size = sizeof one,
                       .flags = TN_BIND_CAPTURE,
                       .request = TN_REQ_WRITE,
                       .plan = seed % 2 ? TN_PLAN_DEFAULT : TN_PLAN_NONE,
                       .memory = seed % 4 == 1 ? TN_MEMORY_MINIMAL : 0,
                       .place = fixture_place("cuda(0)")};
  tn_graph *g = graph_draw(seed);
  run_program(g, &alone, &here);
  run_program(g, &one, &there);
  cr_assert_eq(fake_graph_counts_get().launched, 4, "two runs of two parts");
  compare(&here, &there, seed);
  tn_graph_release(g);
  fixture_close();
}

Test(programs, launched_as_one_have_the_results_of_the_cpu) {
  const char *given = getenv("SEED");
  const uint64_t first = given ? strtoull(given, NULL, 0) : 1;
  for (uint64_t seed = first; seed < first + (given ? 1 : 24); ++seed)
    try_captured(seed);
}

Test(programs, have_the_results_of_the_cpu_on_any_devices) {
  const char *given = getenv("SEED");
  const uint64_t first = given ? strtoull(given, NULL, 0) : 1;
  for (uint64_t seed = first; seed < first + (given ? 1 : 24); ++seed)
    try_seed(seed);
}
