/* SPDX-License-Identifier: Apache-2.0
 * Asynchronous functions, which only begin their work. Any thread may complete
 * them later, and they occupy no worker until then.
 */
#include <criterion/criterion.h>

#include "fixture.h"

/* Ends a held job on a thread that the engine does not know. */
typedef struct foreign {
  held *job;
  tn_code code;
  const char *text;
} foreign;

static void *end_it(void *arg) {
  foreign *self = (foreign *)arg;
  if (self->code != TN_OK) (void)tn__fail(self->code, "%s", self->text);
  held_end(self->job, self->code);
  return NULL;
}

static void end_elsewhere(held *job, tn_code code, const char *text) {
  pthread_t thread;
  foreign self = {job, code, text};
  pthread_create(&thread, NULL, end_it, &self);
  pthread_join(thread, NULL);
}

Test(async, dependents_wait_until_a_foreign_thread_is_done, .timeout = 100) {
  tn__engine *engine = engine_dispatch(2);
  tn__var x = {0};
  _Atomic int n = 0;
  held job;
  held_begin(engine, &job, ON(U(x)));
  push(engine, run_count, &n, ON(R(x)));
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, 2000000), TN_BUSY);
  cr_assert_eq(n, 0);
  end_elsewhere(&job, TN_OK, NULL);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(n, 1);
  engine_close(engine);
}

Test(async, a_pending_function_holds_no_worker, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x[8] = {0}, y = {0};
  _Atomic int n = 0;
  held jobs[8];
  for (int i = 0; i < 8; ++i) held_begin(engine, &jobs[i], ON(U(x[i])));
  push(engine, run_count, &n, ON(U(y)));
  cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(n, 1);
  for (int i = 7; i >= 0; --i) held_end(&jobs[i], TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  engine_close(engine);
}

static tn_code run_done_at_once(void *arg, tn__token *token) {
  ++*(int *)arg;
  tn__token_done(token, TN_OK);
  return TN_OK;
}

Test(async, a_function_may_be_done_before_it_returns) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    int n = 0;
    for (int i = 0; i < 100; ++i) {
      const tn__job job = {.name = "at once",
                           .run = run_done_at_once,
                           .arg = &n,
                           .access = (tn__access[]){U(x)},
                           .n_access = 1,
                           .flags = TN__JOB_ASYNC};
      cr_assert_eq(tn__push(engine, &job), TN_OK);
    }
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(n, 100, "%s", kinds[k].name);
    engine_close(engine);
  }
}

Test(async, the_error_of_a_foreign_thread_arrives, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  held job;
  held_begin(engine, &job, ON(U(x)));
  end_elsewhere(&job, TN_IO, "the line is dead");
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_IO);
  EXPECT_TEXT("held", "the line is dead");
  cr_assert_eq(tn__wait_all(engine), TN_IO);
  tn__var_deinit(&x);
  engine_close(engine);
}

/* It returns a failure, so the token is never done. */
Test(async, a_function_that_fails_to_begin_is_complete, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    const tn__job job = {.name = "start",
                         .run = run_boom,
                         .arg = (void *)(uintptr_t) "at start",
                         .access = (tn__access[]){U(x)},
                         .n_access = 1,
                         .flags = TN__JOB_ASYNC};
    (void)tn__push(engine, &job);
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_INVALID);
    EXPECT_TEXT("start", "boom at start");
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    engine_close(engine);
  }
}

typedef struct relay {
  sem_t begun;
  tn__token *token;
  pthread_t thread;
} relay;

static void *done_later(void *arg) {
  relay *self = (relay *)arg;
  while (sem_wait(&self->begun)) continue;
  tn__token_done(self->token, TN_OK);
  return NULL;
}

static tn_code run_relay(void *arg, tn__token *token) {
  relay *self = (relay *)arg;
  self->token = token;
  sem_post(&self->begun);
  return TN_OK;
}

static tn_code push_relay(tn__engine *engine, relay *self, tn__var *x,
                          tn__var *y) {
  sem_init(&self->begun, 0, 0);
  pthread_create(&self->thread, NULL, done_later, self);
  return tn__push(engine, &(tn__job){.name = "relay",
                                     .run = run_relay,
                                     .arg = self,
                                     .access = (tn__access[]){R(*x), U(*y)},
                                     .n_access = 2,
                                     .flags = TN__JOB_ASYNC});
}

/* A separate thread ends each one, in any order. */
Test(async, many_are_ended_by_many_threads, .timeout = 100) {
  enum { N = 32 };
  for (int k = 1; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    static relay relays[N];
    tn__var x = {0}, y[N] = {0};
    _Atomic int n = 0;
    for (int i = 0; i < N; ++i) {
      cr_assert_eq(push_relay(engine, &relays[i], &x, &y[i]), TN_OK);
      cr_assert_eq(push(engine, run_count, &n, ON(R(y[i]))), TN_OK);
    }
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(n, N, "%s", kinds[k].name);
    for (int i = 0; i < N; ++i) pthread_join(relays[i].thread, NULL);
    engine_close(engine);
  }
}

/* The naive engine runs functions to their end. A function that has only begun
 * has failed; ending it later has no effect. */
Test(async, the_naive_engine_refuses_functions_that_are_not_done_in_time,
     .timeout = 100) {
  tn__engine *engine = engine_open(&kinds[0]);
  tn__var x = {0}, y = {0};
  _Atomic int n = 0;
  held job;
  sem_init(&job.began, 0, 0);
  const tn__job push_it = {.name = "begin",
                           .run = run_held,
                           .arg = &job,
                           .access = (tn__access[]){R(x), U(y)},
                           .n_access = 2,
                           .flags = TN__JOB_ASYNC};
  cr_assert_eq(tn__push(engine, &push_it), TN_UNSUPPORTED);
  EXPECT_TEXT("begin", "naive engine", "tn__token_done");
  cr_assert_eq(push(engine, run_count, &n, ON(R(y))), TN_UNSUPPORTED);
  cr_assert_eq(push(engine, run_count, &n, ON(U(x))), TN_OK);
  cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_UNSUPPORTED);
  cr_assert_eq(n, 1);
  end_elsewhere(&job, TN_OK, NULL);
  cr_assert_eq(tn__wait_all(engine), TN_UNSUPPORTED);
  tn__var_deinit(&y);
  engine_close(engine);
}
