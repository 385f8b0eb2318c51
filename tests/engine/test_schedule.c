/* SPDX-License-Identifier: Apache-2.0
 * Schedules: a schedule has the effect of pushing its jobs one by one, errors
 * included. Among other pushes it is one operation.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "graph.h"

/* ------------------------------------------------------------ random graphs */

enum { TASKS = 600, PLACES = 40, ROUNDS = 3 };

static tn__schedule *create_schedule(tn__engine *engine, const tn__job *jobs,
                                     size_t n) {
  tn__schedule *schedule = NULL;
  cr_assert_eq(tn__schedule_create(engine, jobs, n, &schedule), TN_OK, "%s",
               tn_error_text());
  return schedule;
}

static tn__schedule *create_tasks(tn__engine *engine, task *tasks, size_t n,
                                  place *places) {
  static tn__access access[TASKS][GRAPH_ACCESSES];
  static tn__job jobs[TASKS];
  for (size_t i = 0; i < n; ++i)
    jobs[i] = graph_job(&tasks[i], places, access[i]);
  return create_schedule(engine, jobs, n);
}

/* `one` is a task that is pushed by itself between the rounds. */
static void expect_serial(const kind *how, const graph_kind *graph) {
  static task tasks[TASKS], one;
  static place expected[PLACES], found[PLACES];
  tn__access access[GRAPH_ACCESSES];
  tn__engine *engine = engine_open(how);
  graph_make(tasks, TASKS, graph);
  one = tasks[TASKS / 2];
  graph_reset(expected, graph->n_places);
  graph_reset(found, graph->n_places);
  for (int i = 0; i < ROUNDS; ++i) {
    graph_serial(tasks, TASKS, expected);
    graph_serial(&one, 1, expected);
  }
  tn__schedule *schedule = create_tasks(engine, tasks, TASKS, found);
  for (int i = 0; i < ROUNDS; ++i) {
    const tn__job job = graph_job(&one, found, access);
    cr_assert_eq(tn__schedule_push(schedule), TN_OK, "%s", tn_error_text());
    (void)tn__push(engine,
                   &job); /* a job that ran at once returns its result */
  }
  cr_assert_eq(graph_difference(engine, expected, found, graph->n_places), -1,
               "%s, small %u, seed %llu", how->name, graph->small,
               (unsigned long long)graph->seed);
  (void)tn__wait_all(engine);
  graph_deinit(found, graph->n_places);
  tn__schedule_delete(schedule);
  engine_close(engine);
}

static void expect_serial_for(graph_kind graph, uint64_t seed, int n) {
  for (int k = 0; k < N_KINDS; ++k)
    for (uint32_t small = 0; small < GRAPH_SMALLS; ++small)
      for (int i = 0; i < n; ++i) {
        graph.seed = seed + (uint64_t)i;
        graph.small = small;
        expect_serial(&kinds[k], &graph);
      }
}

Test(schedule, has_the_effect_of_its_jobs_one_by_one, .timeout = 100) {
  const uint64_t seed = seed_or(17);
  expect_serial_for((graph_kind){.n_places = 40, .most_reads = 3}, seed, 3);
  expect_serial_for((graph_kind){.n_places = 12}, seed, 2);
  expect_serial_for((graph_kind){.n_places = 1, .most_reads = 3}, seed, 1);
}

/* The failed jobs and their dependents, and no other job. */
Test(schedule, errors_reach_exactly_their_dependents, .timeout = 100) {
  const uint64_t seed = seed_or(23);
  graph_kind graph = {.n_places = 40, .most_reads = 3, .failing = 100};
  expect_serial_for(graph, seed, 2);
  graph.failing = 10;
  expect_serial_for(graph, seed, 1);
}

/* ------------------------------------------------------------------- shapes */

Test(schedule, of_nothing_is_pushed_like_others) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__schedule *schedule = create_schedule(engine, NULL, 0);
    for (int i = 0; i < 3; ++i)
      cr_assert_eq(tn__schedule_push(schedule), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    tn__schedule_delete(schedule);
    tn__schedule_delete(NULL);
    engine_close(engine);
  }
}

/* One writer, then many readers, then a writer again: all readers wait for the
 * first, and the last for all of them. */
Test(schedule, a_fan_closes_again, .timeout = 100) {
  enum { N = 700 };
  static note notes[N];
  static tn__job jobs[N];
  static tn__var y[N];
  static tn__access access[N][2];
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    static order log;
    log.n = 0;
    for (int i = 0; i < N; ++i) {
      const bool writes = i == 0 || i == N - 1;
      notes[i] = (note){&log, i};
      access[i][0] = (tn__access){&x, writes ? TN__UPDATE : TN__READ, 0};
      access[i][1] = (tn__access)W(y[i]);
      jobs[i] = (tn__job){.name = "fan",
                          .run = run_note,
                          .arg = &notes[i],
                          .access = access[i],
                          .n_access = 2,
                          .flags = i % 2 == 0 ? TN__JOB_SMALL : 0};
    }
    tn__schedule *schedule = create_schedule(engine, jobs, N);
    for (int round = 0; round < 2; ++round) {
      cr_assert_eq(tn__schedule_push(schedule), TN_OK);
      cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
      cr_assert_eq(log.n, N * (round + 1), "%s", kinds[k].name);
      cr_assert_eq(log.v[N * round], 0);
      cr_assert_eq(log.v[N * round + N - 1], N - 1);
    }
    tn__schedule_delete(schedule);
    engine_close(engine);
  }
}

static tn_code run_alone(void *arg, tn__token *token) {
  _Atomic int *inside = (_Atomic int *)arg;
  (void)token;
  if (atomic_fetch_add(&inside[0], 1) != 0) atomic_fetch_add(&inside[1], 1);
  let_others_run();
  atomic_fetch_sub(&inside[0], 1);
  atomic_fetch_add(&inside[2], 1);
  return TN_OK;
}

/* Its job has no variable: nothing but the schedule keeps its runs apart. */
Test(schedule, the_next_push_waits_for_the_last, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    _Atomic int inside[3] = {0, 0, 0};
    const tn__job job = {.name = "alone", .run = run_alone, .arg = inside};
    tn__schedule *schedule = create_schedule(engine, &job, 1);
    for (int i = 0; i < 50; ++i)
      cr_assert_eq(tn__schedule_push(schedule), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(inside[1], 0, "%s", kinds[k].name);
    cr_assert_eq(inside[2], 50, "%s", kinds[k].name);
    tn__schedule_delete(schedule);
    engine_close(engine);
  }
}

/* ------------------------------------------------------------- other pushes */

/* The schedule writes x and reads y, in two jobs that have nothing in common:
 * from outside it is one operation. */
Test(schedule, has_one_place_in_the_order_of_pushes, .timeout = 100) {
  for (uint32_t workers = 1; workers <= 8; workers *= 2) {
    tn__engine *engine = engine_dispatch(workers);
    tn__var x = {0}, y = {0};
    order log = {0};
    note first = {&log, 1}, second = {&log, 1}, after = {&log, 2};
    held writer;
    const tn__job jobs[] = {{.name = "first",
                             .run = run_note,
                             .arg = &first,
                             .access = (tn__access[]){U(x)},
                             .n_access = 1},
                            {.name = "second",
                             .run = run_note,
                             .arg = &second,
                             .access = (tn__access[]){R(y)},
                             .n_access = 1}};
    tn__schedule *schedule = create_schedule(engine, jobs, 2);
    held_begin(engine, &writer, ON(U(y)));
    cr_assert_eq(tn__schedule_push(schedule), TN_OK);
    push(engine, run_note, &after, ON(R(x)));
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, 2000000), TN_BUSY);
    cr_assert_eq(log.n, 0, "nothing of it may begin before the writer ends");
    held_end(&writer, TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(log.n, 3);
    cr_assert_eq(log.v[2], 2);
    tn__schedule_delete(schedule);
    engine_close(engine);
  }
}

static void count_drop(void *arg) {
  atomic_fetch_add((_Atomic int *)arg, 100);
}

static tn__job counting_job(_Atomic int *n, const tn__access *access) {
  return (tn__job){.name = "count",
                   .run = run_count,
                   .arg = n,
                   .drop = count_drop,
                   .access = access,
                   .n_access = 1};
}

Test(schedule, deleted_while_pending_it_still_runs_and_is_dropped_once,
     .timeout = 100) {
  for (uint32_t workers = 1; workers <= 8; workers *= 2) {
    tn__engine *engine = engine_dispatch(workers);
    tn__var x = {0}, y = {0};
    _Atomic int n = 0;
    held writer;
    const tn__job jobs[] = {counting_job(&n, (tn__access[]){U(x)}),
                            counting_job(&n, (tn__access[]){R(y)}),
                            counting_job(&n, (tn__access[]){U(y)})};
    tn__schedule *schedule = create_schedule(engine, jobs, 3);
    held_begin(engine, &writer, ON(U(x)));
    for (int i = 0; i < 4; ++i)
      cr_assert_eq(tn__schedule_push(schedule), TN_OK);
    tn__schedule_delete(schedule);
    cr_assert_eq(n, 0);
    held_end(&writer, TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(n, 312, "4 runs of 3 jobs, then 3 drops, not %d", n);
    engine_close(engine);
  }
}

Test(schedule, never_pushed_it_is_dropped) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    const tn__job job = counting_job(&n, (tn__access[]){U(x)});
    tn__schedule_delete(create_schedule(engine, &job, 1));
    cr_assert_eq(n, 100, "%s", kinds[k].name);
    engine_close(engine);
  }
}

Test(schedule, an_abandoned_engine_does_not_run_it, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    const tn__job job = counting_job(&n, (tn__access[]){U(x)});
    tn__schedule *schedule = create_schedule(engine, &job, 1);
    tn__engine_abandon(engine);
    (void)tn__schedule_push(schedule);
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_BUSY, "%s",
                 kinds[k].name);
    EXPECT_TEXT("the engine is shutting down");
    tn__schedule_delete(schedule);
    (void)tn__wait_all(engine);
    cr_assert_eq(n, 100, "%s", kinds[k].name);
    tn__var_deinit(&x);
    engine_close(engine);
  }
}

/* ------------------------------------------------------- errors, one by one */

static tn_code await_var(tn__engine *engine, tn__var *var) {
  return tn__wait(engine, var, TN__WAIT_ALL, TN__FOREVER);
}

/* As for a function that is pushed by itself. */
Test(schedule, a_job_that_is_not_run_leaves_an_older_error, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__schedule *schedule = NULL;
    tn__var x = {0}, y = {0};
    _Atomic int n = 0;
    const tn__job job = {.name = "mix",
                         .run = run_count,
                         .arg = &n,
                         .access = (tn__access[]){R(x), U(y)},
                         .n_access = 2};
    cr_assert_eq(tn__schedule_create(engine, &job, 1, &schedule), TN_OK);
    (void)push(engine, run_boom, (void *)(uintptr_t) "left", ON(W(x)));
    (void)push(engine, run_boom, (void *)(uintptr_t) "right", ON(W(y)));
    cr_assert_eq(tn__schedule_push(schedule), TN_OK);
    cr_assert_eq(await_var(engine, &y), TN_INVALID, "%s", kinds[k].name);
    cr_assert_str_eq(tn_error_text(), "job: boom right");
    cr_assert_eq(n, 0);
    (void)tn__wait_all(engine);
    tn__schedule_delete(schedule);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

/* load -> scale -> (sum, always), beside: other. */
Test(schedule, an_error_reports_its_chain, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0}, z = {0}, other = {0};
    _Atomic int n = 0, always = 0;
    const tn__job jobs[] = {{.name = "load",
                             .run = run_boom,
                             .arg = (void *)(uintptr_t) "here",
                             .access = (tn__access[]){W(x)},
                             .n_access = 1},
                            {.name = "scale",
                             .run = run_count,
                             .arg = &n,
                             .access = (tn__access[]){R(x), W(y)},
                             .n_access = 2},
                            {.name = "sum",
                             .run = run_count,
                             .arg = &n,
                             .access = (tn__access[]){R(y), U(z)},
                             .n_access = 2},
                            {.name = "always",
                             .run = run_count,
                             .arg = &always,
                             .access = (tn__access[]){R(y)},
                             .n_access = 1,
                             .flags = TN__JOB_ALWAYS},
                            {.name = "other",
                             .run = run_count,
                             .arg = &n,
                             .access = (tn__access[]){U(other)},
                             .n_access = 1}};
    tn__schedule *schedule = create_schedule(engine, jobs, 5);
    cr_assert_eq(tn__schedule_push(schedule), TN_OK);
    cr_assert_eq(await_var(engine, &z), TN_INVALID, "%s", kinds[k].name);
    EXPECT_TEXT("sum", "scale", "load", "boom here");
    cr_assert_eq(await_var(engine, &x), TN_INVALID);
    EXPECT_TEXT("load", "boom here");
    cr_assert_eq(await_var(engine, &other), TN_OK);
    cr_assert_eq(n, 1, "%s: only the other one ran", kinds[k].name);
    cr_assert_eq(always, 1, "%s", kinds[k].name);
    cr_assert_eq(tn__wait_all(engine), TN_INVALID);
    EXPECT_TEXT("boom here");
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    tn__var_deinit(&z);
    tn__schedule_delete(schedule);
    engine_close(engine);
  }
}

/* ------------------------------------------------------------------- groups */

static tn__job note_job(const char *name, note *arg, const tn__access *access,
                        uint32_t n, uint32_t flags) {
  return (tn__job){.name = name,
                   .run = run_note,
                   .arg = arg,
                   .access = access,
                   .n_access = n,
                   .flags = flags};
}

/* Those of the mask `which`, each once, in any order. */
static void expect_notes(const order *log, unsigned which) {
  unsigned found = 0;
  for (int i = 0; i < log->n; ++i) {
    cr_assert_eq(found >> log->v[i] & 1, 0, "%d ran twice", log->v[i]);
    found |= 1u << log->v[i];
  }
  cr_assert_eq(found, which, "%#x", found);
}

/* Small jobs in a row after a large one. Jobs after the failing one in its
 * group run or not as anywhere else. */
Test(schedule, a_failure_in_the_middle_of_small_jobs_reaches_its_dependents,
     .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0}, z = {0}, own = {0};
    order log = {0};
    note notes[6];
    for (int i = 0; i < 6; ++i) notes[i] = (note){&log, i};
    const tn__access first[] = {U(x)}, reads[] = {R(x), U(own)},
                     fails[] = {R(x), W(y)}, follows[] = {R(y), U(z)},
                     always[] = {R(z)}, beside[] = {U(own)}, again[] = {W(z)};
    const tn__job jobs[] = {
        note_job("first", &notes[0], first, 1, 0),
        note_job("reads", &notes[1], reads, 2, TN__JOB_SMALL),
        {"fails", run_boom, (void *)(uintptr_t) "here", NULL, fails, 2,
         TN__JOB_SMALL, 0, 0, NULL},
        note_job("follows", &notes[2], follows, 2, TN__JOB_SMALL),
        note_job("always", &notes[3], always, 1,
                 TN__JOB_SMALL | TN__JOB_ALWAYS),
        note_job("beside", &notes[4], beside, 1, TN__JOB_SMALL),
        note_job("again", &notes[5], again, 1, TN__JOB_SMALL)};
    /* Without the last one first: the error stays on z. */
    for (size_t n = 6; n <= 7; ++n) {
      tn__schedule *schedule = create_schedule(engine, jobs, n);
      log.n = 0;
      cr_assert_eq(tn__schedule_push(schedule), TN_OK);
      cr_assert_eq(await_var(engine, &y), TN_INVALID, "%s", kinds[k].name);
      EXPECT_TEXT("fails", "boom here");
      cr_assert_eq(await_var(engine, &z), n == 7 ? TN_OK : TN_INVALID);
      cr_assert_eq(await_var(engine, &x), TN_OK);
      cr_assert_eq(await_var(engine, &own), TN_OK);
      expect_notes(&log, n == 7 ? 0x3b : 0x1b);
      cr_assert_eq(tn__wait_all(engine), TN_INVALID);
      cr_assert_eq(tn__wait_all(engine), TN_OK, "reported once");
      tn__schedule_delete(schedule);
    }
    (void)tn__wait_all(engine);
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

typedef struct meeting {
  sem_t come;
} meeting;

static tn_code run_await(void *arg, tn__token *token) {
  (void)token;
  while (sem_wait(&((meeting *)arg)->come) != 0) continue;
  return TN_OK;
}

static tn_code run_come(void *arg, tn__token *token) {
  (void)token;
  return sem_post(&((meeting *)arg)->come) == 0 ? TN_OK : TN_INVALID;
}

/* The first waits for the last, which is large too and unrelated. The small
 * ones between them must not delay it. */
Test(schedule, small_jobs_keep_no_large_one_from_running_with_another,
     .timeout = 100) {
  enum { SMALL = 20, N = SMALL + 2 };
  for (uint32_t workers = 2; workers <= 8; workers *= 2) {
    tn__engine *engine = engine_pooled(workers);
    static tn__var x, y[SMALL];
    static tn__access access[N][2];
    static tn__job jobs[N];
    _Atomic int n = 0;
    meeting m;
    cr_assert_eq(sem_init(&m.come, 0, 0), 0);
    access[0][0] = (tn__access)U(x);
    jobs[0] = (tn__job){.name = "awaits", .run = run_await, .arg = &m};
    for (int i = 0; i < SMALL; ++i) {
      access[i + 1][0] = (tn__access)U(y[i]);
      access[i + 1][1] = (tn__access)R(x); /* of every other one */
      jobs[i + 1] = (tn__job){.name = "small",
                              .run = run_count,
                              .arg = &n,
                              .n_access = i % 2 == 0 ? 2 : 1,
                              .flags = TN__JOB_SMALL};
    }
    access[N - 1][0] = (tn__access)R(y[SMALL - 1]);
    access[N - 1][1] = (tn__access)R(y[1]);
    jobs[N - 1] = (tn__job){.name = "comes", .run = run_come, .arg = &m};
    for (int i = 0; i < N; ++i) {
      jobs[i].access = access[i];
      if (jobs[i].n_access == 0) jobs[i].n_access = i == 0 ? 1 : 2;
    }
    tn__schedule *schedule = create_schedule(engine, jobs, N);
    for (int i = 0; i < 5; ++i)
      cr_assert_eq(tn__schedule_push(schedule), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(n, 5 * SMALL);
    tn__schedule_delete(schedule);
    (void)sem_destroy(&m.come);
    engine_close(engine);
  }
}

/* ------------------------------------------------------------------- inside */

typedef struct inside {
  tn__engine *engine;
  tn__var *own;
  tn__var *other;
  _Atomic int *n;
  tn_code wait;
} inside;

static tn_code run_inside(void *arg, tn__token *token) {
  inside *self = (inside *)arg;
  (void)token;
  self->wait = tn__wait(self->engine, self->other, TN__WAIT_ALL, TN__FOREVER);
  TN__TRY(push(self->engine, run_count, self->n, ON(U(*self->own))));
  return push(self->engine, run_count, self->n, ON(U(*self->other)));
}

/* Functions of a schedule may push, and may not wait, like others. */
Test(schedule, its_functions_push_and_do_not_wait, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    for (uint32_t small = 0; small <= TN__JOB_SMALL; ++small) {
      tn__engine *engine = engine_open(&kinds[k]);
      tn__var x = {0}, y = {0};
      _Atomic int n = 0;
      inside self = {engine, &x, &y, &n, TN_OK};
      const tn__job job = {.name = "inside",
                           .run = run_inside,
                           .arg = &self,
                           .access = (tn__access[]){U(x)},
                           .n_access = 1,
                           .flags = small};
      tn__schedule *schedule = create_schedule(engine, &job, 1);
      for (int i = 0; i < 10; ++i)
        cr_assert_eq(tn__schedule_push(schedule), TN_OK);
      cr_assert_eq(tn__wait_all(engine), TN_OK, "%s: %s", kinds[k].name,
                   tn_error_text());
      cr_assert_eq(tn__wait_all(engine), TN_OK);
      cr_assert_eq(n, 20, "%s: %d", kinds[k].name, n);
      cr_assert_eq(self.wait, TN_INVALID, "%s", kinds[k].name);
      tn__schedule_delete(schedule);
      engine_close(engine);
    }
  }
}

/* ----------------------------------------------------------------- creation */

Test(schedule, a_job_that_is_not_over_when_it_returns_is_refused) {
  tn__engine *engine = engine_pooled(1);
  tn__schedule *schedule = NULL;
  _Atomic int n = 0;
  tn__var x = {0};
  tn__job jobs[] = {counting_job(&n, (tn__access[]){U(x)}),
                    counting_job(&n, (tn__access[]){U(x)})};
  jobs[1].flags = TN__JOB_ASYNC;
  jobs[1].name = "later";
  cr_assert_eq(tn__schedule_create(engine, jobs, 2, &schedule), TN_INVALID);
  EXPECT_TEXT("job 1", "later");
  cr_assert_null(schedule);
  cr_assert_eq(n, 0, "on failure nothing is dropped");
  engine_close(engine);
}

Test(schedule, without_memory_nothing_was_created_or_dropped) {
  enum { N = 50 };
  tn__engine *engine = engine_pooled(2);
  static tn__var x[N];
  static tn__access access[N][2];
  static tn__job jobs[N];
  _Atomic int n = 0;
  tn__schedule *schedule = NULL;
  for (int i = 0; i < N; ++i) {
    access[i][0] = (tn__access)R(x[i / 2]);
    access[i][1] = (tn__access)U(x[i]);
    jobs[i] = counting_job(&n, access[i]);
    jobs[i].n_access = 2;
  }
  const int64_t before = memory.living;
  int64_t at = 1;
  for (;; ++at) {
    memory_fail_at(at, false);
    const tn_code code = tn__schedule_create(engine, jobs, N, &schedule);
    memory_fail_at(0, false);
    if (code == TN_OK) break;
    cr_assert_eq(code, TN_OUT_OF_MEMORY, "allocation %d", (int)at);
    cr_assert_null(schedule);
    cr_assert_eq(memory.living, before, "allocation %d", (int)at);
    cr_assert_eq(n, 0, "allocation %d", (int)at);
  }
  cr_assert_gt(at, 3, "only %d allocations", (int)at);
  cr_assert_eq(tn__schedule_push(schedule), TN_OK);
  tn__schedule_delete(schedule);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(n, N + 100 * N);
  engine_close(engine);
}

/* Whichever allocation a push lacks, it took full effect or none, and nothing
 * is lost. */
Test(schedule, a_push_without_memory_leaves_everything_as_it_was) {
  for (int k = 0; k < N_KINDS; ++k) {
    for (int64_t at = 1; at < 6; ++at) {
      tn__engine *engine = engine_open(&kinds[k]);
      tn__var x = {0};
      _Atomic int n = 0;
      const tn__job jobs[] = {counting_job(&n, (tn__access[]){U(x)}),
                              counting_job(&n, (tn__access[]){U(x)})};
      tn__schedule *schedule = create_schedule(engine, jobs, 2);
      memory_fail_at(at, true);
      const tn_code code = tn__schedule_push(schedule);
      cr_assert(code == TN_OK || code == TN_OUT_OF_MEMORY);
      cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
      cr_assert_eq(n, code == TN_OK ? 2 : 0, "%s", kinds[k].name);
      memory_fail_at(0, false);
      cr_assert_eq(tn__schedule_push(schedule), TN_OK);
      tn__schedule_delete(schedule);
      cr_assert_eq(tn__wait_all(engine), TN_OK);
      cr_assert_eq(n, code == TN_OK ? 204 : 202);
      engine_close(engine);
    }
  }
}
