/* SPDX-License-Identifier: Apache-2.0
 * Waits: for writers or for all, with a limit, and where they are forbidden.
 */
#include <criterion/criterion.h>
#include <sched.h>

#include "fixture.h"

enum {
  SOON = 2000000 /* duration of a wait without success, in nanoseconds */
};

Test(wait, a_fresh_variable_is_ready_at_once) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    cr_assert(tn__var_is_readable(&x));
    cr_assert(tn__var_is_writable(&x));
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, 0), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    engine_close(engine);
  }
}

Test(wait, a_pending_reader_is_not_waited_for_by_readers, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  held reader;
  held_begin(engine, &reader, ON(R(x)));
  cr_assert(tn__var_is_readable(&x));
  cr_assert_not(tn__var_is_writable(&x));
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, SOON), TN_BUSY);
  held_end(&reader, TN_OK);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert(tn__var_is_writable(&x));
  engine_close(engine);
}

Test(wait, a_pending_writer_is_waited_for, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  held writer;
  held_begin(engine, &writer, ON(U(x)));
  cr_assert_not(tn__var_is_readable(&x));
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, 0), TN_BUSY);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, SOON), TN_BUSY);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, SOON), TN_BUSY);
  held_end(&writer, TN_OK);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  engine_close(engine);
}

/* Readers wait after a queued writer, so a wait for writers does too. */
Test(wait, a_writer_that_is_queued_counts_as_pending, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  _Atomic int n = 0;
  held reader;
  held_begin(engine, &reader, ON(R(x)));
  push(engine, run_count, &n, ON(U(x)));
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, SOON), TN_BUSY);
  cr_assert_eq(n, 0);
  held_end(&reader, TN_OK);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(n, 1);
  engine_close(engine);
}

/* A wait that gave up has no effect: jobs pushed before and after it run in
 * order, and readers on both sides of it run together. */
Test(wait, giving_up_disturbs_nothing, .timeout = 100) {
  tn__engine *engine = engine_dispatch(2);
  tn__var x = {0};
  order log = {0};
  note notes[4];
  held reader;
  for (int i = 0; i < 4; ++i) notes[i] = (note){&log, i};
  held_begin(engine, &reader, ON(R(x)));
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, SOON), TN_BUSY);
  held second; /* the writer's claim of the wait is no obstacle any more */
  held_begin(engine, &second, ON(R(x)));
  for (int i = 0; i < 4; ++i) {
    push(engine, run_note, &notes[i], ON(U(x)));
    cr_assert_eq(tn__wait(engine, &x,
                          i % 2 == 0 ? TN__WAIT_WRITERS : TN__WAIT_ALL, SOON),
                 TN_BUSY);
  }
  held_end(&reader, TN_OK);
  held_end(&second, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(log.n, 4);
  for (int i = 0; i < 4; ++i) cr_assert_eq(log.v[i], i);
  cr_assert(tn__var_is_writable(&x));
  engine_close(engine);
}

/* The wait ends with the function that it waits for, not later. */
typedef struct waiter {
  tn__engine *engine;
  tn__var *var;
  uint32_t what;
  uint64_t ns;
  tn_code rc;
  sem_t over;
  pthread_t thread;
} waiter;

static void *wait_there(void *arg) {
  waiter *self = (waiter *)arg;
  self->rc = tn__wait(self->engine, self->var, self->what, self->ns);
  sem_post(&self->over);
  return NULL;
}

static void waiter_start(waiter *self) {
  sem_init(&self->over, 0, 0);
  pthread_create(&self->thread, NULL, wait_there, self);
}

static tn_code waiter_join(waiter *self) {
  pthread_join(self->thread, NULL);
  return self->rc;
}

Test(wait, many_threads_wait_for_one_variable, .timeout = 100) {
  enum { N = 8 };
  tn__engine *engine = engine_dispatch(2);
  tn__var x = {0};
  waiter waiters[N];
  held writer, reader;
  held_begin(engine, &writer, ON(U(x)));
  held_push(engine, &reader, ON(R(x)));
  for (int i = 0; i < N; ++i) {
    waiters[i] = (waiter){engine,
                          &x,
                          i % 2 == 0 ? TN__WAIT_WRITERS : TN__WAIT_ALL,
                          TN__FOREVER,
                          TN_INTERNAL,
                          {{0}},
                          0};
    waiter_start(&waiters[i]);
  }
  held_end(&writer, TN_OK);
  held_await(&reader);
  /* Without a wait for all before them they do not wait for the reader. */
  for (int i = 0; i < N; i += 2) (void)sem_trywait(&waiters[i].over);
  held_end(&reader, TN_OK);
  for (int i = 0; i < N; ++i) cr_assert_eq(waiter_join(&waiters[i]), TN_OK);
  cr_assert(tn__var_is_writable(&x));
  engine_close(engine);
}

Test(wait, a_reader_is_let_go_before_other_readers_end, .timeout = 100) {
  tn__engine *engine = engine_dispatch(2);
  tn__var x = {0};
  held writer, reader;
  waiter self = {engine, &x, TN__WAIT_WRITERS, TN__FOREVER, TN_INTERNAL,
                 {{0}},  0};
  held_begin(engine, &writer, ON(U(x)));
  held_push(engine, &reader, ON(R(x)));
  waiter_start(&self);
  held_end(&writer, TN_OK);
  cr_assert_eq(waiter_join(&self), TN_OK); /* while `reader` is pending */
  held_await(&reader);
  held_end(&reader, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  engine_close(engine);
}

/* A reader pushed after a wait for all begins when that wait gives up, while
 * the function that it waited for goes on. */
Test(wait, giving_up_lets_in_later_claims, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  held first, second;
  waiter self = {engine, &x, TN__WAIT_ALL, 50 * SOON, TN_INTERNAL, {{0}}, 0};
  held_begin(engine, &first, ON(R(x)));
  waiter_start(&self);
  while (tn__var_is_readable(&x) && sem_trywait(&self.over) != 0)
    (void)sched_yield();
  held_begin(engine, &second, ON(R(x)));
  cr_assert_eq(waiter_join(&self), TN_BUSY);
  held_end(&first, TN_OK);
  held_end(&second, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert(tn__var_is_writable(&x));
  engine_close(engine);
}

/* ----------------------------------------------------- inside of a function */

typedef struct inside {
  tn__engine *engine;
  tn__var *var;
  tn_code codes[3];
} inside;

static tn_code run_inside(void *arg, tn__token *token) {
  inside *self = (inside *)arg;
  const tn__job job = {.name = "here", .run = run_boom};
  (void)token;
  self->codes[0] = tn__wait(self->engine, self->var, TN__WAIT_ALL, TN__FOREVER);
  self->codes[1] = tn__wait_all(self->engine);
  self->codes[2] = tn__run_here(self->engine, &job);
  return TN_OK;
}

Test(wait, inside_of_a_function_it_is_an_error) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    inside self = {engine, &y, {TN_OK, TN_OK, TN_OK}};
    cr_assert_eq(push(engine, run_inside, &self, ON(U(x))), TN_OK);
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    for (int i = 0; i < 3; ++i)
      cr_assert_eq(self.codes[i], TN_INVALID, "%s: %d", kinds[k].name, i);
    engine_close(engine);
  }
}

typedef struct leaver {
  tn__engine *engine;
  tn__var *var;
  tn_code code;
  _Atomic int n;
} leaver;

static tn_code run_nothing(void *arg, tn__token *token) {
  (void)arg;
  (void)token;
  return TN_OK;
}

static void wait_and_push(void *arg) {
  leaver *self = (leaver *)arg;
  self->code = tn__wait(self->engine, self->var, TN__WAIT_ALL, TN__FOREVER);
  cr_assert_eq(push(self->engine, run_count, &self->n, ON(U(*self->var))),
               TN_OK);
}

Test(wait, inside_of_a_drop_it_is_an_error_and_a_push_is_none) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    leaver self = {.engine = engine, .var = &y, .code = TN_OK};
    const tn__job job = {.name = "job",
                         .run = run_nothing,
                         .arg = &self,
                         .drop = wait_and_push,
                         .access = (tn__access[]){U(x)},
                         .n_access = 1};
    cr_assert_eq(tn__push(engine, &job), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(self.code, TN_INVALID, "%s", kinds[k].name);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(self.n, 1);
    engine_close(engine);
  }
}

/* ---------------------------------------------------------------- wait_all */

Test(wait, for_all_comes_after_every_function) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x[7] = {0};
    _Atomic int n = 0;
    for (int i = 0; i < 500; ++i)
      push(engine, run_count, &n, ON(R(x[i % 7]), U(x[(i * 3 + 1) % 7])));
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(n, 500, "%s", kinds[k].name);
    engine_close(engine);
  }
}

/* ------------------------------------------------- a function run by a wait */

typedef struct here {
  order *log;
  pthread_t thread;
  tn_code rc;
} here;

static tn_code run_here(void *arg, tn__token *token) {
  here *self = (here *)arg;
  self->thread = pthread_self();
  return run_note(&(note){self->log, 2}, token);
}

Test(wait, a_function_runs_here_in_its_turn, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    order log = {0};
    note before = {&log, 1}, after = {&log, 3};
    here self = {.log = &log};
    const tn__job job = {.name = "here",
                         .run = run_here,
                         .arg = &self,
                         .access = (tn__access[]){U(x)},
                         .n_access = 1};
    push(engine, run_note, &before, ON(U(x)));
    cr_assert_eq(tn__run_here(engine, &job), TN_OK);
    cr_assert(pthread_equal(self.thread, pthread_self()), "%s", kinds[k].name);
    push(engine, run_note, &after, ON(R(x)));
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    for (int i = 0; i < 3; ++i) cr_assert_eq(log.v[i], i + 1);
    engine_close(engine);
  }
}

static void count_drop(void *arg) {
  ++*(int *)arg;
}

Test(wait, a_function_run_here_returns_the_error_that_prevents_it) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    int dropped = 0;
    (void)push(engine, run_boom, (void *)(uintptr_t) "before", ON(W(x)));
    const tn__job job = {.name = "here",
                         .run = run_boom,
                         .arg = &dropped,
                         .drop = count_drop,
                         .access = (tn__access[]){R(x), W(y)},
                         .n_access = 2};
    cr_assert_eq(tn__run_here(engine, &job), TN_INVALID);
    EXPECT_TEXT("boom before");
    cr_assert_eq(dropped, 1, "%s", kinds[k].name);
    cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_INVALID);
    EXPECT_TEXT("here", "boom before");
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

Test(wait, functions_run_here_by_several_threads_take_turns, .timeout = 100) {
  enum { N = 4 };
  tn__engine *engine = engine_dispatch(2);
  tn__var x = {0};
  held writer;
  waiter waiters[N];
  _Atomic int n = 0;
  held_begin(engine, &writer, ON(U(x)));
  for (int i = 0; i < N; ++i) {
    waiters[i] =
        (waiter){engine, &x, TN__WAIT_ALL, TN__FOREVER, TN_INTERNAL, {{0}}, 0};
    waiter_start(&waiters[i]);
    push(engine, run_count, &n, ON(U(x)));
  }
  held_end(&writer, TN_OK);
  for (int i = 0; i < N; ++i) cr_assert_eq(waiter_join(&waiters[i]), TN_OK);
  cr_assert_eq(tn__run_here(engine, &(tn__job){.name = "count",
                                               .run = run_count,
                                               .arg = &n,
                                               .access = (tn__access[]){U(x)},
                                               .n_access = 1}),
               TN_OK);
  cr_assert_eq(n, N + 1);
  engine_close(engine);
}
