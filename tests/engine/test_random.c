/* SPDX-License-Identifier: Apache-2.0
 * Random tasks (graph.h) give the results of a serial run on every engine.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "graph.h"

enum { TASKS = 10000, VARS = 100 };

static void push_tasks(tn__engine *engine, task *tasks, place *places) {
  tn__access access[GRAPH_ACCESSES];
  for (int i = 0; i < TASKS; ++i) {
    const tn__job job = graph_job(&tasks[i], places, access);
    cr_assert_eq(tn__push(engine, &job), TN_OK, "%s", tn_error_text());
  }
}

static void expect_serial(const kind *how, uint64_t seed) {
  static task tasks[TASKS];
  place expected[VARS], places[VARS];
  graph_make(tasks, TASKS, &(graph_kind){.seed = seed, .n_places = VARS});
  graph_reset(expected, VARS);
  graph_serial(tasks, TASKS, expected);
  tn__engine *engine = engine_open(how);
  graph_reset(places, VARS);
  push_tasks(engine, tasks, places);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(graph_difference(engine, expected, places, VARS), -1,
               "%s: seed %llu", how->name, (unsigned long long)seed);
  for (int v = 0; v < VARS; ++v) cr_assert(tn__var_is_writable(&places[v].var));
  engine_close(engine);
}

/* One in fifty fails, and its dependents do not run. */
static void expect_serial_errors(const kind *how, uint64_t seed) {
  enum { N = 2000, FEW = 30 };
  static task tasks[N];
  place expected[FEW], places[FEW];
  tn__access access[GRAPH_ACCESSES];
  graph_make(
      tasks, N,
      &(graph_kind){
          .seed = seed, .n_places = FEW, .most_reads = 3, .failing = 50});
  graph_reset(expected, FEW);
  graph_serial(tasks, N, expected);
  tn__engine *engine = engine_open(how);
  graph_reset(places, FEW);
  for (int i = 0; i < N; ++i) {
    const tn__job job = graph_job(&tasks[i], places, access);
    (void)tn__push(engine,
                   &job); /* a job that ran at once returns its result */
  }
  cr_assert_eq(graph_difference(engine, expected, places, FEW), -1,
               "%s: seed %llu", how->name, (unsigned long long)seed);
  cr_assert_eq(tn__wait_all(engine), TN_INVALID);
  graph_deinit(places, FEW);
  engine_close(engine);
}

Test(random, tasks_give_the_serial_result_on_every_engine, .timeout = 100) {
  uint64_t seed = seed_or(20251121);
  for (int k = 0; k < N_KINDS; ++k) expect_serial(&kinds[k], seed);
}

Test(random, other_graphs_too, .timeout = 100) {
  uint64_t seed = seed_or(7);
  for (uint64_t i = 1; i <= 3; ++i) {
    expect_serial(&kinds[2], seed + i); /* 2 workers, inline allowed */
    expect_serial(&kinds[6], seed + i); /* 8 workers, dispatch forced */
  }
}

Test(random, errors_reach_the_same_places_as_in_a_serial_run, .timeout = 100) {
  uint64_t seed = seed_or(5);
  for (int k = 0; k < N_KINDS; ++k) expect_serial_errors(&kinds[k], seed);
}

/* Several threads push. Each uses its own variables and one shared one that
 * only counts. */
typedef struct pusher {
  tn__engine *engine;
  pthread_t thread;
  uint64_t seed;
  tn__var *shared;
  int *count; /* under the shared variable */
  tn_code rc;
} pusher;

static tn_code run_add(void *arg, tn__token *token) {
  (void)token;
  ++*(int *)arg;
  return TN_OK;
}

static void *push_many(void *arg) {
  pusher *self = (pusher *)arg;
  tn__var own[4] = {0};
  int counts[4] = {0}, expected[4] = {0};
  uint64_t state = self->seed;
  for (int i = 0; i < 2000; ++i) {
    uint64_t which = next_random(&state) >> 62;
    tn_code rc = push(self->engine, run_add, &counts[which], ON(U(own[which])));
    ++expected[which];
    if (rc == TN_OK)
      rc = push(self->engine, run_add, self->count,
                ON(R(own[which]), U(*self->shared)));
    if (rc != TN_OK) self->rc = rc;
  }
  for (int v = 0; v < 4; ++v) {
    tn_code rc = tn__wait(self->engine, &own[v], TN__WAIT_ALL, TN__FOREVER);
    if (rc != TN_OK) self->rc = rc;
    if (counts[v] != expected[v]) self->rc = TN_INTERNAL;
  }
  return NULL;
}

Test(random, threads_push_at_the_same_time, .timeout = 100) {
  enum { THREADS = 4 };
  uint64_t seed = seed_or(11);
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    pusher pushers[THREADS];
    tn__var shared = {0};
    int count = 0;
    for (uint64_t i = 0; i < THREADS; ++i) {
      pushers[i] = (pusher){engine, 0, seed + i, &shared, &count, TN_OK};
      pthread_create(&pushers[i].thread, NULL, push_many, &pushers[i]);
    }
    for (int i = 0; i < THREADS; ++i) {
      pthread_join(pushers[i].thread, NULL);
      cr_assert_eq(pushers[i].rc, TN_OK, "%s", kinds[k].name);
    }
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(count, THREADS * 2000, "%s", kinds[k].name);
    engine_close(engine);
  }
}
