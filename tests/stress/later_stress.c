/* SPDX-License-Identifier: Apache-2.0
 * later_stress.c: calls that complete later, from several threads at once and
 * completed by another one; programs of them; a shutdown with calls in flight.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "later_plugin.h"
#include "tenon/engine.h"
#include "tenon/graph.h"
#include "tenon/program.h"

enum { CALLERS = 3, ROUNDS = 60, CHAIN = 6, N = 8 };

static void must(tn_code code, const char *what) {
  if (code == TN_OK) return;
  fprintf(stderr, "%s: %s\n", what, tn_error_text());
  exit(1);
}
#define MUST(call) must((call), #call)

static void expect(tn_array *array, float first) {
  float got[N];
  MUST(tn_array_get(array, got, sizeof got));
  for (int i = 0; i < N; ++i)
    if (got[i] != first) {
      fprintf(stderr, "element %d is %g and not %g\n", i, (double)got[i],
              (double)first);
      exit(1);
    }
}

static tn_runtime *open_runtime(uint32_t engine) {
  tn_runtime *rt = NULL;
  const tn_options options = {
      .struct_size = sizeof options, .engine = engine, .workers = 2};
  MUST(tn_runtime_create(&options, &rt));
  MUST(tn_plugin_add(rt, &later_plugin));
  return rt;
}

static tn_operator *find(tn_runtime *rt, const char *name) {
  tn_operator *op = NULL;
  MUST(tn_operator_get(rt, name, &op));
  return op;
}

static tn_array *make_ones(tn_runtime *rt) {
  const int64_t shape[] = {N};
  float ones[N];
  tn_array *array = NULL;
  for (int i = 0; i < N; ++i) ones[i] = 1;
  MUST(tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &array));
  MUST(tn_array_set(array, ones, sizeof ones));
  return array;
}

/* x = 2*x + 1, in the memory of x, and pairs that complete each other. */
static void *call_many(void *arg) {
  tn_runtime *rt = arg;
  tn_operator *twice = find(rt, "later.twice"), *next = find(rt, "later.next"),
              *meet = find(rt, "later.meet");
  for (int round = 0; round < ROUNDS; ++round) {
    tn_array *x = make_ones(rt), *a = NULL, *b = NULL;
    for (int i = 0; i < CHAIN; ++i) {
      MUST(tn_call(rt, twice, TN_IN(x), NULL, TN_OUT(&x)));
      MUST(tn_call(rt, next, TN_IN(x), NULL, TN_OUT(&x)));
    }
    MUST(tn_call(rt, meet, TN_IN(x), NULL, TN_OUT(&a)));
    MUST(tn_call(rt, meet, TN_IN(x), NULL, TN_OUT(&b)));
    expect(x, (2 << CHAIN) - 1);
    expect(a, 2 * ((2 << CHAIN) - 1));
    expect(b, 2 * ((2 << CHAIN) - 1));
    tn_array_release(x), tn_array_release(a), tn_array_release(b);
  }
  return NULL;
}

/* The newest ways of completion change while calls are made. */
static void *change_modes(void *arg) {
  static const later_mode modes[] = {LATER_KEEP, LATER_AT_ONCE, LATER_OTHER,
                                     LATER_NEVER};
  const _Atomic int *over = arg;
  for (unsigned i = 0; !*over; ++i) later_set_mode(modes[i % 4]);
  later_set_mode(LATER_KEEP);
  return NULL;
}

static void stress_calls(uint32_t engine) {
  pthread_t callers[CALLERS], changer;
  static _Atomic int over;
  tn_runtime *rt = open_runtime(engine);
  over = 0;
  later_start_helper();
  if (pthread_create(&changer, NULL, change_modes, &over)) exit(1);
  for (int i = 0; i < CALLERS; ++i)
    if (pthread_create(&callers[i], NULL, call_many, rt)) exit(1);
  for (int i = 0; i < CALLERS; ++i) (void)pthread_join(callers[i], NULL);
  over = 1;
  (void)pthread_join(changer, NULL);
  MUST(tn_wait_all(rt));
  later_stop_helper();
  tn_runtime_release(rt);
}

/* ----------------------------------------------------------------- programs */

static tn_entry add_node(tn_graph *graph, const char *op, const char *name,
                         tn_entry in) {
  tn_entry out;
  MUST(tn_graph_call(graph,
                     &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                      .op = op,
                                      .name = name,
                                      .n_in = 1,
                                      .in = &in},
                     &out));
  return out;
}

/* Two branches of calls that complete later. */
static void stress_program(uint32_t engine) {
  const tn_sig known = {.dtype = TN_F32, .ndim = 1, .shape = {N}};
  const tn_bind how = {.struct_size = sizeof how};
  tn_runtime *rt = open_runtime(engine);
  tn_array *x = NULL, *left = NULL, *right = NULL, *ones = make_ones(rt);
  tn_program *program = NULL;
  tn_graph *graph = NULL;
  tn_entry in;
  MUST(tn_graph_create(rt, &graph));
  MUST(tn_graph_variable(graph, "x", &known, &in));
  const tn_entry a = add_node(graph, "later.twice", "a", in),
                 b = add_node(graph, "later.next", "b", a),
                 c = add_node(graph, "later.twice", "c", in),
                 d = add_node(graph, "later.next", "d", c);
  const tn_entry heads[] = {add_node(graph, "later.twice", "left", b),
                            add_node(graph, "later.twice", "right", d)};
  MUST(tn_graph_heads_set(graph, heads, 2));
  MUST(tn_program_bind(graph, &how, &program));
  MUST(tn_program_array(program, TN_PROGRAM_ARGUMENT, "x", &x));
  MUST(tn_program_output(program, 0, &left));
  MUST(tn_program_output(program, 1, &right));
  MUST(tn_array_copy(x, ones));
  later_start_helper();
  for (int round = 0; round < 5 * ROUNDS; ++round) {
    MUST(tn_program_forward(program, 0));
    if (round % 3) continue;
    expect(left, 6);
    expect(right, 6);
  }
  tn_program_release(program);
  later_stop_helper();
  tn_graph_release(graph);
  tn_array_release(ones);
  tn_runtime_release(rt);
}

/* ---------------------------------------------------------------- shutdowns */

static void *shut_down(void *arg) {
  MUST(tn_runtime_shutdown(arg));
  return NULL;
}

static void stress_shutdown(void) {
  for (int round = 0; round < ROUNDS; ++round) {
    pthread_t other;
    tn_runtime *rt = open_runtime(TN_ENGINE_POOLED);
    tn_array *x = make_ones(rt), *y[4] = {NULL};
    for (int i = 0; i < 4; ++i)
      MUST(tn_call(rt, find(rt, "later.twice"), TN_IN(x), NULL, TN_OUT(&y[i])));
    later_await(4);
    if (pthread_create(&other, NULL, shut_down, rt)) exit(1);
    later_start_helper();
    later_stop_helper();
    (void)pthread_join(other, NULL);
    for (int i = 0; i < 4; ++i) {
      MUST(tn_array_wait(y[i]));
      tn_array_release(y[i]);
    }
    tn_array_release(x);
    tn_runtime_release(rt);
  }
}

int main(void) {
  stress_calls(TN_ENGINE_POOLED);
  stress_calls(TN_ENGINE_THREADED);
  stress_program(TN_ENGINE_POOLED);
  stress_program(TN_ENGINE_THREADED);
  stress_shutdown();
  puts("ok");
  return 0;
}
