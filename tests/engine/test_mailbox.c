/* SPDX-License-Identifier: Apache-2.0
 * Engines that run nothing on the pushing thread: records in the mailbox that
 * are not yet dispatched. A small function that does not return occupies the
 * dispatcher, so all later records stay in the mailbox. A blocking function
 * that is not small occupies a worker, but not the mailbox.
 */
#include <criterion/criterion.h>
#include <sched.h>

#include "fixture.h"

enum {
  SOON = 2000000 /* duration of a wait without success, in nanoseconds */
};

/* ---------------------------------------------------------------- fixtures */

static void block_begin_as(tn__engine *engine, block *self, uint32_t flags) {
  block_init(self);
  cr_assert_eq(tn__push(engine, &(tn__job){.name = "block",
                                           .run = run_block,
                                           .arg = self,
                                           .flags = flags}),
               TN_OK);
  block_await(self);
}

static tn_code push_small(tn__engine *engine, run_fn *run, void *arg,
                          const tn__access *access, uint32_t n) {
  return tn__push(engine, &(tn__job){.name = "small",
                                     .run = run,
                                     .arg = arg,
                                     .access = access,
                                     .n_access = n,
                                     .flags = TN__JOB_SMALL});
}

static void expect_numbers(const order *log, int n) {
  cr_assert_eq(log->n, n);
  for (int i = 0; i < n; ++i) cr_assert_eq(log->v[i], i, "at %d", i);
}

static void count_drop(void *arg) {
  atomic_fetch_add((_Atomic int *)arg, 1);
}

/* ------------------------------------------------------------------- order */

/* Threads that push in turn: each push has returned before the next begins. */
typedef struct relay {
  tn__engine *engine;
  tn__var *var;
  note *notes;
  sem_t *turns;
  int first;
  pthread_t thread;
} relay;

enum { RUNNERS = 3, TURNS = 200 };

static void *push_in_turn(void *arg) {
  relay *self = (relay *)arg;
  for (int i = self->first; i < RUNNERS * TURNS; i += RUNNERS) {
    while (sem_wait(&self->turns[self->first])) continue;
    const tn__job job = {.name = "turn",
                         .run = run_note,
                         .arg = &self->notes[i],
                         .access = (tn__access[]){U(*self->var)},
                         .n_access = 1,
                         .priority = i % 7 == 0,
                         .flags = i % 5 < 3 ? TN__JOB_SMALL : 0};
    (void)tn__push(self->engine, &job);
    sem_post(&self->turns[(self->first + 1) % RUNNERS]);
  }
  return NULL;
}

Test(mailbox, keeps_the_order_of_several_threads, .timeout = 100) {
  static note notes[RUNNERS * TURNS];
  for (uint32_t workers = 1; workers <= 4; workers *= 2) {
    tn__engine *engine = engine_dispatch(workers);
    tn__var x = {0};
    order log = {0};
    sem_t turns[RUNNERS];
    relay runners[RUNNERS];
    for (int i = 0; i < RUNNERS * TURNS; ++i) notes[i] = (note){&log, i};
    for (int i = 0; i < RUNNERS; ++i) sem_init(&turns[i], 0, i == 0);
    for (int i = 0; i < RUNNERS; ++i) {
      runners[i] = (relay){engine, &x, notes, turns, i, 0};
      pthread_create(&runners[i].thread, NULL, push_in_turn, &runners[i]);
    }
    for (int i = 0; i < RUNNERS; ++i) pthread_join(runners[i].thread, NULL);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    expect_numbers(&log, RUNNERS * TURNS);
    cr_assert(tn__var_is_writable(&x));
    engine_close(engine);
  }
}

static tn_code run_store_self(void *arg, tn__token *token) {
  (void)token;
  *(pthread_t *)arg = pthread_self();
  return TN_OK;
}

typedef struct caller_thread {
  pthread_t thread;
  _Atomic int n;
} caller_thread;

static tn_code run_caller_thread(void *arg, tn__token *token) {
  caller_thread *self = (caller_thread *)arg;
  (void)run_store_self(&self->thread, token);
  atomic_fetch_add(&self->n, 1);
  return TN_OK;
}

Test(mailbox, runs_nothing_on_a_thread_that_only_pushes, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  for (int i = 0; i < 100; ++i) {
    caller_thread self = {.n = 0};
    cr_assert_eq(push_small(engine, run_caller_thread, &self, ON(U(x))), TN_OK);
    await_count(&self.n, 1);
    cr_assert_not(pthread_equal(self.thread, pthread_self()));
  }
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  engine_close(engine);
}

/* A list of variables that is too long for a segment of the mailbox. */
Test(mailbox, takes_lists_of_any_length_in_their_turn, .timeout = 100) {
  enum { N = 6000 };
  static tn__var x[N];
  static tn__access access[N];
  for (uint32_t flags = 0; flags <= TN__JOB_SMALL; flags += TN__JOB_SMALL) {
    tn__engine *engine = engine_dispatch(1);
    order log = {0};
    note notes[9];
    for (int i = 0; i < N; ++i) access[i] = (tn__access)U(x[i]);
    for (int i = 0; i < 9; ++i) {
      notes[i] = (note){&log, i};
      const tn__job job = {.name = "list",
                           .run = run_note,
                           .arg = &notes[i],
                           .access = access + (i % 3 == 1 ? 0 : N / 2),
                           .n_access = i % 3 == 1 ? N : 1,
                           .flags = flags};
      cr_assert_eq(tn__push(engine, &job), TN_OK);
    }
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    expect_numbers(&log, 9);
    for (int i = 0; i < N; ++i) cr_assert(tn__var_is_writable(&x[i]));
    engine_close(engine);
  }
}

/* --------------------------------------------------- pushes from the inside */

typedef struct nest {
  tn__engine *engine;
  tn__var *var;
  order *log;
  note notes[1500];
} nest;

/* More than a segment of the mailbox. */
static tn_code run_nest(void *arg, tn__token *token) {
  nest *self = (nest *)arg;
  for (int i = 1; i < 1500; ++i) {
    self->notes[i] = (note){self->log, i};
    TN__TRY(
        push_small(self->engine, run_note, &self->notes[i], ON(U(*self->var))));
  }
  return run_note(&(note){self->log, 0}, token);
}

Test(mailbox, takes_pushes_of_a_small_function_after_it, .timeout = 100) {
  static nest self;
  for (uint32_t workers = 1; workers <= 4; workers *= 2) {
    tn__engine *engine = engine_dispatch(workers);
    tn__var x = {0};
    static order log;
    log.n = 0;
    self.engine = engine;
    self.var = &x;
    self.log = &log;
    cr_assert_eq(push_small(engine, run_nest, &self, ON(U(x))), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    expect_numbers(&log, 1500);
    engine_close(engine);
  }
}

typedef struct dropper {
  tn__engine *engine;
  tn__var *var;
  _Atomic int *n;
  _Atomic int *dropped; /* rightly */
} dropper;

static tn_code run_dropper(void *arg, tn__token *token) {
  return run_count(((dropper *)arg)->n, token);
}

static void push_in_drop(void *arg) {
  const dropper *self = (const dropper *)arg;
  tn__var *var = self->var;
  const tn_code code =
      push_small(self->engine, run_count, self->n, ON(U(*var)));
  if (code == TN_OK &&
      tn__wait(self->engine, var, TN__WAIT_ALL, TN__FOREVER) == TN_INVALID)
    atomic_fetch_add(self->dropped, 1);
}

Test(mailbox, lets_a_drop_push_and_not_wait, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  _Atomic int n = 0, dropped = 0;
  dropper self = {engine, &x, &n, &dropped};
  const tn__job job = {.name = "drops",
                       .run = run_dropper,
                       .arg = &self,
                       .drop = push_in_drop,
                       .access = (tn__access[]){U(x)},
                       .n_access = 1,
                       .flags = TN__JOB_SMALL};
  for (int i = 0; i < 10; ++i) cr_assert_eq(tn__push(engine, &job), TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK); /* for them */
  cr_assert_eq(tn__wait_all(engine), TN_OK); /* for the jobs that they pushed */
  cr_assert_eq(dropped, 10);
  cr_assert_eq(n, 20);
  engine_close(engine);
}

/* --------------------------------------------------------------- deletions */

static void end_at(void *arg) {
  (void)run_note((note *)arg, NULL);
}

/* Nothing on the variable shows its use. */
Test(mailbox, keeps_a_deletion_after_recorded_uses, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  order log = {0};
  note notes[3];
  block busy;
  block_begin_as(engine, &busy, TN__JOB_SMALL);
  for (int i = 0; i < 3; ++i) notes[i] = (note){&log, i};
  cr_assert_eq(push_small(engine, run_note, &notes[0], ON(R(x))), TN_OK);
  cr_assert_eq(push(engine, run_note, &notes[1], ON(U(x))), TN_OK);
  cr_assert(tn__var_is_writable(&x));
  cr_assert_eq(tn__var_delete(engine, &x, end_at, &notes[2]), TN_OK);
  cr_assert_eq(log.n, 0);
  block_end(&busy);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  expect_numbers(&log, 3);
  engine_close(engine);
}

Test(mailbox, ends_a_variable_with_an_error_too, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  _Atomic int ended = 0;
  block busy;
  block_begin_as(engine, &busy, TN__JOB_SMALL);
  cr_assert_eq(push_small(engine, run_boom, (void *)(uintptr_t) "x", ON(W(x))),
               TN_OK);
  cr_assert_eq(tn__var_delete(engine, &x, count_drop, &ended), TN_OK);
  block_end(&busy);
  cr_assert_eq(tn__wait_all(engine), TN_INVALID);
  cr_assert_eq(ended, 1);
  engine_close(engine);
}

/* ------------------------------------------------------------------ errors */

Test(mailbox, passes_the_error_of_a_small_function_on, .timeout = 100) {
  for (uint32_t workers = 1; workers <= 4; workers *= 2) {
    tn__engine *engine = engine_dispatch(workers);
    tn__var x = {0}, y = {0}, z = {0};
    _Atomic int n = 0;
    block busy;
    block_begin_as(engine, &busy, TN__JOB_SMALL);
    push_small(engine, run_boom, (void *)(uintptr_t) "x", ON(R(z), W(x)));
    push_small(engine, run_count, &n, ON(R(x), W(y)));
    push_small(engine, run_count, &n, ON(R(z)));
    push_small(engine, run_count, &n, ON(W(x)));
    block_end(&busy);
    cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_INVALID);
    EXPECT_TEXT("small was not run", "boom x");
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_INVALID);
    cr_assert_eq(n, 2);
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

/* ------------------------------------------------------------------- waits */

/* The dispatcher is inside of a function, so no thread can know whether the
 * variable is in use. The wait leaves no claim. */
Test(mailbox, lets_a_wait_give_up_that_could_not_ask, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  _Atomic int n = 0;
  block busy;
  block_begin_as(engine, &busy, TN__JOB_SMALL);
  push_small(engine, run_count, &n, ON(U(x)));
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, 0), TN_BUSY);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, SOON), TN_BUSY);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, SOON), TN_BUSY);
  cr_assert_eq(n, 0);
  block_end(&busy);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(n, 1);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert(tn__var_is_writable(&x));
  engine_close(engine);
}

/* The only worker is inside of a function that may be long. A wait with a limit
 * dispatches by itself to find out which variables are in use, and runs
 * nothing. */
Test(mailbox, lets_a_wait_with_a_limit_look_for_itself, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0}, y = {0};
  _Atomic int n = 0;
  block busy;
  block_begin_as(engine, &busy, 0);
  for (int i = 0; i < 500; ++i) push_small(engine, run_count, &n, ON(U(y)));
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, 1000000 * (uint64_t)SOON),
               TN_OK);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, 0), TN_OK);
  cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, 0), TN_BUSY);
  cr_assert_eq(tn__wait(engine, &y, TN__WAIT_WRITERS, SOON), TN_BUSY);
  cr_assert_eq(n, 0);
  block_end(&busy);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(n, 500);
  cr_assert(tn__var_is_writable(&y));
  engine_close(engine);
}

/* The same without a limit: the thread becomes the dispatcher and runs jobs. */
Test(mailbox, is_dispatched_by_a_waiting_thread_when_workers_are_busy,
     .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0}, y = {0};
  order log = {0};
  note notes[3];
  block busy;
  block_begin_as(engine, &busy, 0);
  for (int i = 0; i < 3; ++i) notes[i] = (note){&log, i};
  push_small(engine, run_note, &notes[0], ON(U(x)));
  push(engine, run_note, &notes[1], ON(R(x), U(y)));
  cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(log.n, 2);
  cr_assert_eq(
      tn__run_here(engine, &(tn__job){.name = "here",
                                      .run = run_note,
                                      .arg = &notes[2],
                                      .access = (tn__access[]){U(x), U(y)},
                                      .n_access = 2}),
      TN_OK);
  expect_numbers(&log, 3);
  block_end(&busy);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  engine_close(engine);
}

/* ---------------------------------------------------------- want of memory */

enum { WIDE = 200 };

/* Pushed jobs run although there is no memory for a token. */
Test(mailbox, loses_nothing_for_want_of_memory, .timeout = 100) {
  static tn__var x[WIDE];
  static tn__access all[WIDE];
  static note notes[40];
  for (uint32_t workers = 1; workers <= 4; workers *= 2) {
    tn__engine *engine = engine_dispatch(workers);
    tn__operation *op = NULL;
    order log = {0};
    _Atomic int dropped = 0, n = 0;
    block busy;
    for (int i = 0; i < WIDE; ++i) all[i] = (tn__access)U(x[i]);
    const tn__job prepared = {.name = "op",
                              .run = run_count,
                              .arg = &n,
                              .drop = count_drop,
                              .access = all,
                              .n_access = 2};
    cr_assert_eq(tn__operation_create(engine, &prepared, &op), TN_OK);
    block_begin_as(engine, &busy, TN__JOB_SMALL);
    for (int i = 0; i < 40; ++i) {
      notes[i] = (note){&log, i};
      const tn__job job = {.name = "large",
                           .run = run_note,
                           .arg = &notes[i],
                           .access = all,
                           .n_access = i % 3 == 0 ? WIDE : 1 + (uint32_t)i % 30,
                           .priority = i % 2};
      cr_assert_eq(tn__push(engine, &job), TN_OK);
      cr_assert_eq(tn__operation_push(op), TN_OK);
      const tn__job drop = {.name = "drop",
                            .run = run_count,
                            .arg = &dropped,
                            .drop = count_drop};
      cr_assert_eq(tn__push(engine, &drop), TN_OK);
    }
    tn__operation_delete(op);
    memory_fail_at(1, true);
    block_end(&busy);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    memory_fail_at(0, false);
    expect_numbers(&log, 40);
    cr_assert_eq(dropped, 80);
    cr_assert_eq(n, 41, "forty runs and one drop");
    for (int i = 0; i < WIDE; ++i) cr_assert(tn__var_is_writable(&x[i]));
    engine_close(engine);
  }
}

/* An asynchronous function gets its token in its push. Jobs on the same
 * variable stay in the mailbox until it is done. */
Test(mailbox, waits_for_used_variables_without_memory, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  static tn__var x[WIDE];
  static tn__access all[WIDE];
  _Atomic int n = 0;
  held writer;
  block busy;
  for (int i = 0; i < WIDE; ++i) all[i] = (tn__access)U(x[i]);
  held_begin(engine, &writer, ON(U(x[0])));
  block_begin_as(engine, &busy, TN__JOB_SMALL);
  cr_assert_eq(push(engine, run_count, &n, all, 30), TN_OK);
  cr_assert_eq(push(engine, run_count, &n, all, WIDE), TN_OK);
  cr_assert_eq(push_small(engine, run_count, &n, ON(U(x[1]))), TN_OK);
  memory_fail_at(1, true);
  block_end(&busy);
  cr_assert_eq(tn__wait(engine, &x[1], TN__WAIT_ALL, SOON), TN_BUSY);
  cr_assert_eq(n, 0);
  held_end(&writer, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  memory_fail_at(0, false);
  cr_assert_eq(n, 3);
  engine_close(engine);
}

static tn_code run_boom_wide(void *arg, tn__token *token) {
  return run_boom(arg, token);
}

Test(mailbox, passes_errors_on_without_memory, .timeout = 100) {
  enum { FEW = 30 };
  static tn__var x[FEW];
  static tn__access all[FEW];
  tn__engine *engine = engine_dispatch(1);
  _Atomic int n = 0;
  block busy;
  for (int i = 0; i < FEW; ++i) all[i] = (tn__access)R(x[i]);
  all[FEW - 1].mode = TN__OVERWRITE;
  block_begin_as(engine, &busy, TN__JOB_SMALL);
  push_small(engine, run_boom_wide, (void *)(uintptr_t) "x", ON(W(x[0])));
  cr_assert_eq(push(engine, run_count, &n, all, FEW), TN_OK);
  memory_fail_at(1, true);
  block_end(&busy);
  cr_assert_neq(tn__wait(engine, &x[FEW - 1], TN__WAIT_ALL, TN__FOREVER),
                TN_OK);
  cr_assert_neq(tn__wait_all(engine), TN_OK);
  memory_fail_at(0, false);
  cr_assert_eq(n, 0);
  tn__var_deinit(&x[0]);
  tn__var_deinit(&x[FEW - 1]);
  engine_close(engine);
}

/* The mailbox itself is full: pushes fail, waits and functions run here do not.
 */
Test(mailbox, lets_waits_in_when_it_is_full, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0}, y = {0};
  _Atomic int n = 0, dropped = 0;
  int pushed = 0;
  block busy;
  tn_code code = TN_OK;
  block_begin_as(engine, &busy, 0);
  const tn__job job = {.name = "small",
                       .run = run_count,
                       .arg = &n,
                       .access = (tn__access[]){U(x)},
                       .n_access = 1,
                       .flags = TN__JOB_SMALL};
  tn__job last = job;
  last.drop = count_drop;
  last.arg = &dropped;
  memory_fail_at(1, true);
  while ((code = tn__push(engine, &job)) == TN_OK) ++pushed;
  cr_assert_eq(code, TN_OUT_OF_MEMORY);
  EXPECT_TEXT("memory");
  cr_assert_gt(pushed, 100);
  cr_assert_eq(tn__push(engine, &last), TN_OUT_OF_MEMORY);
  cr_assert_eq(dropped, 1, "a push that fails drops");
  cr_assert_eq(n, 0);
  cr_assert_eq(tn__run_here(engine, &job), TN_OK);
  cr_assert_eq(n, pushed + 1);
  while (tn__push(engine, &job) == TN_OK) ++pushed;
  cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  while (tn__push(engine, &job) == TN_OK) ++pushed;
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(n, pushed + 1);
  block_end(&busy);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  memory_fail_at(0, false);
  engine_close(engine);
}

/* ----------------------------------------------------------- beginning, end */

enum { FULL = 3000 };

static void fill_post(tn__engine *engine, tn__var *x, _Atomic int *n) {
  for (int i = 0; i < FULL; ++i) {
    const tn__job job = {.name = "posted",
                         .run = run_count,
                         .arg = n,
                         .drop = count_drop,
                         .access = (tn__access[]){U(*x)},
                         .n_access = 1,
                         .flags = i % 4 == 0 ? 0 : TN__JOB_SMALL};
    cr_assert_eq(tn__push(engine, &job), TN_OK);
  }
}

Test(mailbox, is_dropped_by_an_engine_that_is_abandoned, .timeout = 100) {
  tn__engine *engine = engine_dispatch(2);
  tn__var x = {0};
  _Atomic int n = 0;
  block busy;
  block_begin_as(engine, &busy, TN__JOB_SMALL);
  fill_post(engine, &x, &n);
  tn__engine_abandon(engine);
  block_end(&busy);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_BUSY);
  EXPECT_TEXT("the engine is shutting down");
  (void)tn__wait_all(engine);
  cr_assert_eq(n, FULL, "dropped, not run");
  tn__var_deinit(&x);
  engine_close(engine);
}

static void *stop(void *arg) {
  tn__engine_stop((tn__engine *)arg);
  return NULL;
}

Test(mailbox, is_empty_when_the_engine_has_stopped, .timeout = 100) {
  for (uint32_t workers = 1; workers <= 4; workers *= 2) {
    tn__engine *engine = engine_dispatch(workers);
    tn__var x = {0};
    _Atomic int n = 0;
    pthread_t stopper;
    block busy;
    block_begin_as(engine, &busy, TN__JOB_SMALL);
    fill_post(engine, &x, &n);
    pthread_create(&stopper, NULL, stop, engine);
    block_end(&busy);
    pthread_join(stopper, NULL);
    cr_assert_eq(n, 2 * FULL);
    fill_post(engine, &x, &n);
    engine_close(engine);
    cr_assert_eq(n, 4 * FULL, "run and dropped");
  }
}

static void *stop_often(void *arg) {
  for (int i = 0; i < 100; ++i) tn__engine_stop((tn__engine *)arg);
  return NULL;
}

/* A record without a wake-up would never run: no thread helps. */
Test(mailbox, wakes_a_worker_for_every_record, .timeout = 100) {
  for (uint32_t workers = 1; workers <= 4; workers *= 2) {
    tn__engine *engine = engine_dispatch(workers);
    pthread_t stopper;
    _Atomic int n = 0;
    pthread_create(&stopper, NULL, stop_often, engine);
    for (int i = 1; i <= 300; ++i) {
      cr_assert_eq(push_small(engine, run_count, &n, NULL, 0), TN_OK);
      await_count(&n, i);
    }
    pthread_join(stopper, NULL);
    engine_close(engine);
  }
}

typedef struct meeting {
  pthread_barrier_t *barrier;
} meeting;

static tn_code run_meet(void *arg, tn__token *token) {
  (void)token;
  pthread_barrier_wait(((meeting *)arg)->barrier);
  return TN_OK;
}

/* Each of two can only end when the other has begun, and no thread helps. A
 * worker that takes the first and runs it must leave the second to another
 * worker. */
Test(mailbox, is_not_kept_by_a_worker_that_is_busy, .timeout = 100) {
  tn__engine *engine = engine_dispatch(2);
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 3);
  meeting self = {&barrier};
  for (int i = 0; i < 2000; ++i) {
    cr_assert_eq(push(engine, run_meet, &self, NULL, 0), TN_OK);
    cr_assert_eq(push(engine, run_meet, &self, NULL, 0), TN_OK);
    pthread_barrier_wait(&barrier);
  }
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  engine_close(engine);
}
