/* SPDX-License-Identifier: Apache-2.0
 * Beginning and end of variables, prepared operations and engines; pushes from
 * inside of functions; duplicates; priorities.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

/* --------------------------------------------------------------- variables */

typedef struct box {
  tn__var var;
  order *log;
} box;

static void end_box(void *arg) {
  box *self = (box *)arg;
  run_note(&(note){self->log, 99}, NULL);
  free(self);
}

Test(life, a_variable_ends_after_everything_that_uses_it) {
  static note notes[20];
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    order log = {0};
    box *self = (box *)calloc(1, sizeof *self);
    self->log = &log;
    for (int i = 0; i < 20; ++i) {
      notes[i] = (note){&log, i};
      if (i % 5 == 0)
        push(engine, run_note, &notes[i], ON(U(self->var)));
      else
        push(engine, run_note, &notes[i], ON(R(self->var)));
    }
    cr_assert_eq(tn__var_delete(engine, &self->var, end_box, self), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(log.n, 21, "%s", kinds[k].name);
    cr_assert_eq(log.v[20], 99);
    engine_close(engine);
  }
}

Test(life, a_variable_with_an_error_ends_as_well) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    order log = {0};
    box *self = (box *)calloc(1, sizeof *self);
    self->log = &log;
    (void)push(engine, run_boom, (void *)(uintptr_t) "x", ON(W(self->var)));
    cr_assert_eq(tn__var_delete(engine, &self->var, end_box, self), TN_OK);
    (void)tn__wait_all(engine);
    cr_assert_eq(log.n, 1, "%s", kinds[k].name);
    engine_close(engine);
  }
}

Test(life, memory_with_a_pending_reader_is_not_freed, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  order log = {0};
  box *self = (box *)calloc(1, sizeof *self);
  held reader;
  self->log = &log;
  held_begin(engine, &reader, ON(R(self->var)));
  cr_assert_eq(tn__var_delete(engine, &self->var, end_box, self), TN_OK);
  cr_assert_eq(log.n, 0);
  held_end(&reader, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(log.n, 1);
  engine_close(engine);
}

/* -------------------------------------------------------------- operations */

static void count_drop(void *arg) {
  atomic_fetch_add((_Atomic int *)arg, 1);
}

Test(life, an_operation_deleted_at_once_still_runs_and_is_dropped_once) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__operation *op = NULL;
    tn__var x = {0};
    _Atomic int n = 0;
    const tn__job job = {.name = "op",
                         .run = run_count,
                         .arg = &n,
                         .drop = count_drop,
                         .access = (tn__access[]){U(x)},
                         .n_access = 1};
    cr_assert_eq(tn__operation_create(engine, &job, &op), TN_OK);
    for (int i = 0; i < 10; ++i) cr_assert_eq(tn__operation_push(op), TN_OK);
    tn__operation_delete(op);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(n, 11, "%s: ten runs and one drop, not %d", kinds[k].name, n);
    engine_close(engine);
  }
}

Test(life, an_operation_that_was_never_pushed_is_dropped) {
  tn__engine *engine = engine_pooled(1);
  tn__operation *op = NULL;
  _Atomic int n = 0;
  const tn__job job = {
      .name = "op", .run = run_count, .arg = &n, .drop = count_drop};
  cr_assert_eq(tn__operation_create(engine, &job, &op), TN_OK);
  tn__operation_delete(op);
  cr_assert_eq(n, 1);
  engine_close(engine);
}

Test(life, an_operation_deleted_after_a_held_push_waits, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__operation *op = NULL;
  tn__var x = {0};
  _Atomic int n = 0;
  held writer;
  held_begin(engine, &writer, ON(U(x)));
  const tn__job job = {.name = "op",
                       .run = run_count,
                       .arg = &n,
                       .drop = count_drop,
                       .access = (tn__access[]){U(x)},
                       .n_access = 1};
  cr_assert_eq(tn__operation_create(engine, &job, &op), TN_OK);
  cr_assert_eq(tn__operation_push(op), TN_OK);
  cr_assert_eq(tn__operation_push(op), TN_OK);
  tn__operation_delete(op);
  cr_assert_eq(n, 0);
  held_end(&writer, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(n, 3);
  engine_close(engine);
}

Test(life, a_job_is_dropped_exactly_once_however_it_ends) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    tn__job job = {.name = "ran",
                   .run = run_count,
                   .arg = &n,
                   .drop = count_drop,
                   .access = (tn__access[]){W(x)},
                   .n_access = 1};
    cr_assert_eq(tn__push(engine, &job), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(n, 2, "%s", kinds[k].name);
    (void)push(engine, run_boom, (void *)(uintptr_t) "x", ON(W(x)));
    job.access = (tn__access[]){R(x)};
    (void)tn__push(engine, &job);
    (void)tn__wait_all(engine);
    cr_assert_eq(n, 3, "%s: not run, but dropped", kinds[k].name);
    tn__var_deinit(&x);
    engine_close(engine);
  }
}

/* -------------------------------------------------------------- duplicates */

Test(life, the_same_variable_may_be_listed_more_than_once, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    _Atomic int n = 0;
    push(engine, run_count, &n, ON(R(x), R(x), R(x)));
    push(engine, run_count, &n, ON(U(x), U(x)));
    push(engine, run_count, &n, ON(R(x), W(x), R(y), R(x), U(y)));
    push(engine, run_count, &n,
         ON(R(x), R(y), R(x), R(y), R(x), R(y), W(x), R(y)));
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(n, 4, "%s", kinds[k].name);
    cr_assert(tn__var_is_writable(&x));
    cr_assert(tn__var_is_writable(&y));
    engine_close(engine);
  }
}

/* Reading it twice is reading it: readers still run together. */
Test(life, a_variable_read_twice_lets_other_readers_in, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  _Atomic int n = 0;
  held reader;
  held_begin(engine, &reader, ON(R(x), R(x)));
  push(engine, run_count, &n, ON(R(x), R(x)));
  while (n == 0)
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  held_end(&reader, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  engine_close(engine);
}

Test(life, a_function_may_use_many_variables) {
  enum { N = 300 };
  static tn__var x[N];
  static tn__access access[2 * N];
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    _Atomic int n = 0;
    for (int i = 0; i < 2 * N; ++i)
      access[i] =
          (tn__access){&x[i * 7 % N], i % 3 == 0 ? TN__UPDATE : TN__READ, 0};
    for (int i = 0; i < 5; ++i)
      cr_assert_eq(push(engine, run_count, &n, access, 2 * N), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(n, 5);
    for (int i = 0; i < N; ++i) cr_assert(tn__var_is_writable(&x[i]));
    engine_close(engine);
  }
}

/* ------------------------------------------------------------ nested pushes */

typedef struct nest {
  tn__engine *engine;
  tn__var *var;
  order *log;
  note notes[3];
} nest;

static tn_code run_nest(void *arg, tn__token *token) {
  nest *self = (nest *)arg;
  (void)token;
  for (int i = 0; i < 3; ++i) {
    self->notes[i] = (note){self->log, i};
    tn_code rc =
        push(self->engine, run_note, &self->notes[i], ON(U(*self->var)));
    if (rc != TN_OK) return rc;
  }
  return run_note(&(note){self->log, -1}, token);
}

/* Jobs on the variable that the function itself writes: they come after it, and
 * before jobs that are pushed after its end. */
Test(life, a_push_from_inside_of_a_function_keeps_order, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, ended = {0};
    order log = {0};
    nest self = {engine, &x, &log, {{0}}};
    note last = {&log, 3};
    cr_assert_eq(push(engine, run_nest, &self, ON(U(x), U(ended))), TN_OK);
    cr_assert_eq(tn__wait(engine, &ended, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    push(engine, run_note, &last, ON(U(x)));
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(log.n, 5, "%s", kinds[k].name);
    for (int i = 0; i < 5; ++i)
      cr_assert_eq(log.v[i], i - 1, "%s: at %d", kinds[k].name, i);
    engine_close(engine);
  }
}

typedef struct tree {
  tn__engine *engine;
  _Atomic int *n;
  tn__var *sum; /* all write it */
  _Atomic int *plain;
  int depth;
} tree;

static tn_code run_tree(void *arg, tn__token *token) {
  tree *self = (tree *)arg;
  tn_code rc = TN_OK;
  (void)token;
  atomic_fetch_add(self->n, 1);
  for (int i = 0; self->depth > 0 && i < 3 && rc == TN_OK; ++i) {
    tree *child = (tree *)malloc(sizeof *child);
    *child = *self;
    --child->depth;
    rc = tn__push(self->engine, &(tn__job){.name = "tree",
                                           .run = run_tree,
                                           .arg = child,
                                           .drop = free,
                                           .flags = TN__JOB_SMALL});
    if (rc == TN_OK)
      rc = push(self->engine, run_count, self->plain, ON(U(*self->sum)));
  }
  return rc;
}

/* 1 + 3 + 9 ... + 3^6 = 1093 functions, each pushed by its parent. */
Test(life, functions_push_functions_push_functions, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var sum = {0};
    _Atomic int n = 0, plain = 0;
    tree root = {engine, &n, &sum, &plain, 6};
    cr_assert_eq(push(engine, run_tree, &root, NULL, 0), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(n, 1093, "%s", kinds[k].name);
    cr_assert_eq(plain, 1092, "%s", kinds[k].name);
    engine_close(engine);
  }
}

/* An operation that a function has created for itself. */
typedef struct passing {
  tn__engine *engine;
  tn__var x;
  _Atomic int n;       /* runs */
  _Atomic int n_drops; /* after all of them */
} passing;

static tn_code run_once(void *arg, tn__token *token) {
  return run_count(&((passing *)arg)->n, token);
}

static void drop_passing(void *arg) {
  passing *self = (passing *)arg;
  cr_assert_eq(self->n, 3, "dropped before it was run");
  atomic_fetch_add(&self->n_drops, 1);
}

static tn_code run_passing(void *arg, tn__token *token) {
  passing *self = (passing *)arg;
  tn__operation *op = NULL;
  tn_code rc = TN_OK;
  (void)token;
  const tn__job job = {.name = "op",
                       .run = run_once,
                       .arg = self,
                       .drop = drop_passing,
                       .access = (tn__access[]){U(self->x)},
                       .n_access = 1};
  TN__TRY(tn__operation_create(self->engine, &job, &op));
  for (int i = 0; i < 3 && rc == TN_OK; ++i) rc = tn__operation_push(op);
  tn__operation_delete(op);
  return rc;
}

/* Also where its pushes wait until the function has returned. */
Test(life, an_operation_deleted_by_the_function_that_pushed_it_still_runs) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    passing self = {.engine = engine};
    cr_assert_eq(push(engine, run_passing, &self, ON(U(self.x))), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(self.n, 3, "%s", kinds[k].name);
    cr_assert_eq(self.n_drops, 1, "%s", kinds[k].name);
    engine_close(engine);
  }
}

/* -------------------------------------------------------------- priorities */

/* All of them are ready when the worker checks, and no thread helps it. */
Test(life, one_worker_takes_higher_priorities_first, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  static const int32_t priorities[] = {0, 5, -3, 9, 1, -7};
  static const int expected[] = {9, 5, 1, 0, -3, -7};
  order log = {0};
  note notes[6];
  block busy;
  block_begin(engine, &busy, NULL, 0);
  for (int i = 0; i < 6; ++i) {
    notes[i] = (note){&log, priorities[i]};
    const tn__job job = {.name = "one",
                         .run = run_note,
                         .arg = &notes[i],
                         .priority = priorities[i]};
    cr_assert_eq(tn__push(engine, &job), TN_OK);
  }
  block_end(&busy);
  await_count(&log.n, 6);
  for (int i = 0; i < 6; ++i) cr_assert_eq(log.v[i], expected[i]);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  engine_close(engine);
}

/* ----------------------------------------------------------- stop and start */

Test(life, an_engine_works_again_after_stop, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    tn__engine_stop(engine);
    for (int round = 1; round <= 5; ++round) {
      for (int i = 0; i < 100; ++i) push(engine, run_count, &n, ON(U(x)));
      tn__engine_stop(engine);
      cr_assert_eq(n, 100 * round, "%s", kinds[k].name);
    }
    tn__engine_stop(engine);
    engine_close(engine);
  }
}

Test(life, destroy_waits_for_all_pushes) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    for (int i = 0; i < 300; ++i) push(engine, run_count, &n, ON(U(x)));
    engine_close(engine);
    cr_assert_eq(n, 300, "%s", kinds[k].name);
  }
}

Test(life, the_least_of_engines_is_nothing) {
  tn__engine_destroy(NULL);
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    if (kinds[k].kind == TN__ENGINE_POOLED)
      cr_assert_eq(tn__engine_workers(engine), kinds[k].workers);
    engine_close(engine);
  }
  tn__engine *engine = engine_pooled(0); /* as many as there are cores */
  cr_assert_geq(tn__engine_workers(engine), 1);
  engine_close(engine);
}

Test(life, an_abandoned_engine_drops_waiting_jobs, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0}, y = {0};
  _Atomic int n = 0;
  held writer;
  held_begin(engine, &writer, ON(U(x)));
  const tn__job job = {.name = "late",
                       .run = run_count,
                       .arg = &n,
                       .drop = count_drop,
                       .access = (tn__access[]){R(x), W(y)},
                       .n_access = 2};
  cr_assert_eq(tn__push(engine, &job), TN_OK);
  tn__engine_abandon(engine);
  held_end(&writer, TN_OK);
  cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_BUSY);
  EXPECT_TEXT("the engine is shutting down");
  (void)tn__wait_all(
      engine); /* drops come after the release of its variables */
  cr_assert_eq(n, 1, "dropped, not run");
  tn__var_deinit(&y);
  engine_close(engine);
}

/* Its first job runs, a second waits for that one. */
Test(life, an_abandoned_engine_drops_the_rest_of_a_schedule, .timeout = 100) {
  for (int k = 0; k < 2; ++k) {
    tn__engine *engine = k == 0 ? engine_pooled(2) : engine_dispatch(2);
    tn__schedule *schedule = NULL;
    tn__var x = {0}, y = {0};
    _Atomic int n = 0;
    block first;
    block_init(&first);
    const tn__job jobs[] = {{.name = "first",
                             .run = run_block,
                             .arg = &first,
                             .access = (tn__access[]){U(x)},
                             .n_access = 1},
                            {.name = "rest",
                             .run = run_count,
                             .arg = &n,
                             .drop = count_drop,
                             .access = (tn__access[]){R(x), W(y)},
                             .n_access = 2}};
    cr_assert_eq(tn__schedule_create(engine, jobs, 2, &schedule), TN_OK);
    cr_assert_eq(tn__schedule_push(schedule), TN_OK);
    block_await(&first);
    tn__engine_abandon(engine);
    sem_post(&first.go);
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_BUSY);
    EXPECT_TEXT("rest was not run: the engine is shutting down");
    tn__schedule_delete(schedule);
    (void)tn__wait_all(engine);
    cr_assert_eq(n, 1, "dropped, not run");
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

/* -------------------------------------------------------------------- pause */

typedef struct outsider {
  tn__engine *engine;
  tn__var *var;
  _Atomic int *n;
  sem_t about_to;
} outsider;

static void *push_outside(void *arg) {
  outsider *self = (outsider *)arg;
  sem_post(&self->about_to);
  (void)push(self->engine, run_count, self->n, ON(U(*self->var)));
  return NULL;
}

/* A push of another thread waits meanwhile; earlier pushes go on. */
Test(life, nothing_is_pushed_while_the_engine_is_paused, .timeout = 100) {
  tn__engine *engine = engine_pooled(2);
  tn__var x = {0}, y = {0};
  _Atomic int n = 0;
  pthread_t thread;
  outsider self = {.engine = engine, .var = &y, .n = &n};
  sem_init(&self.about_to, 0, 0);
  for (int i = 0; i < 50; ++i) push(engine, run_count, &n, ON(U(x)));
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  tn__engine_pause(engine);
  pthread_create(&thread, NULL, push_outside, &self);
  while (sem_wait(&self.about_to)) continue;
  for (int i = 0; i < 100; ++i) {
    let_others_run();
    cr_assert_eq(n, 50);
    cr_assert(tn__var_is_writable(&y));
  }
  tn__engine_resume(engine);
  pthread_join(thread, NULL);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(n, 51);
  engine_close(engine);
}
