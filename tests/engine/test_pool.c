/* SPDX-License-Identifier: Apache-2.0
 * The pool from inside: pushes during a stop, work that no thread may keep to
 * itself, work that a waiting thread may not start, and the number of workers.
 */
#include <criterion/criterion.h>
#include <fenv.h>
#include <sched.h>

#include "engine_state.h"
#include "fixture.h"
#include "workers.h"

enum {
  SOON = 2000000 /* duration of a wait without success, in nanoseconds */
};

/* -------------------------------------------------------------------- stop */

static void *stop_once(void *arg) {
  tn__pool_stop((tn__pool *)arg);
  return NULL;
}

/* The pool looks started to the pushing thread, and its only worker will not
 * search again. */
Test(pool, a_push_during_a_stop_runs, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  pthread_t stopper;
  block busy;
  _Atomic int n = 0;
  block_begin(engine, &busy, NULL, 0);
  pthread_create(&stopper, NULL, stop_once, engine->pool);
  while (engine->pool->stopping == 0) sched_yield();
  cr_assert_eq(push(engine, run_count, &n, NULL, 0), TN_OK);
  cr_assert_eq(n, 0);
  block_end(&busy);
  pthread_join(stopper, NULL);
  await_count(&n, 1);
  engine_close(engine);
}

static void *stop_often(void *arg) {
  for (int i = 0; i < 100; ++i) tn__engine_stop((tn__engine *)arg);
  return NULL;
}

/* No sleeper and no wake-up may be left over from a stop. */
Test(pool, no_worker_is_miscounted_when_pushes_meet_stops, .timeout = 100) {
  tn__engine *engine = engine_dispatch(3);
  pthread_t stopper;
  _Atomic int n = 0;
  pthread_create(&stopper, NULL, stop_often, engine);
  for (int i = 1; i <= 300; ++i) {
    cr_assert_eq(push(engine, run_count, &n, NULL, 0), TN_OK);
    await_count(&n, i);
  }
  pthread_join(stopper, NULL);
  tn__engine_stop(engine);
  cr_assert_eq(engine->pool->idle, 0);
  cr_assert_eq(engine->pool->wakeups, 0);
  engine_close(engine);
}

/* ---------------------------------------------------------- floating point */

static tn_code run_rounding(void *arg, tn__token *token) {
  (void)token;
  atomic_store((_Atomic int *)arg, fegetround());
  return TN_OK;
}

/* Workers and waiting threads run them in the default environment of C. */
Test(pool, functions_round_as_c_does_in_any_host, .timeout = 100) {
  enum { MANY = 64 };
  static _Atomic int seen[MANY];
  (void)fesetround(FE_UPWARD);
  tn__engine *engine = engine_dispatch(1);
  for (int i = 0; i < MANY; ++i) {
    seen[i] = -1;
    cr_assert_eq(push(engine, run_rounding, &seen[i], NULL, 0), TN_OK);
  }
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  for (int i = 0; i < MANY; ++i) cr_assert_eq(seen[i], FE_TONEAREST);
  cr_assert_eq(fegetround(), FE_UPWARD, "the host's own stays");
  (void)fesetround(FE_TONEAREST);
  engine_close(engine);
}

/* ------------------------------------------------------------------- others */

Test(pool, a_function_of_the_least_priority_is_run, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  _Atomic int n = 0;
  cr_assert_eq(tn__push(engine, &(tn__job){.name = "least",
                                           .run = run_count,
                                           .arg = &n,
                                           .priority = INT32_MIN}),
               TN_OK);
  await_count(&n, 1);
  engine_close(engine);
}

/* A job that it helps with may last longer than the wait. */
Test(pool, a_wait_with_a_deadline_starts_no_job, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  _Atomic int n = 0;
  block busy;
  block_begin(engine, &busy, ON(U(x)));
  cr_assert_eq(push(engine, run_count, &n, NULL, 0), TN_OK);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, SOON), TN_BUSY);
  cr_assert_eq(n, 0, "the only worker is busy");
  block_end(&busy);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(n, 1);
  engine_close(engine);
}

static tn_code record(void *queue, void **fence) {
  *fence = queue;
  return TN_OK;
}

static tn_code wait_for(void *queue, void *fence) {
  (void)queue;
  (void)fence;
  return TN_OK;
}

static tn_code query(void *fence, bool *done) {
  (void)fence;
  *done = true;
  return TN_OK;
}

static tn_code block_for(void *fence) {
  (void)fence;
  return TN_OK;
}

static void drop(void *fence) {
  (void)fence;
}

/* Functions of a device that executes everything at once. */
static const tn__queue_ops ops = {record, wait_for, query, block_for, drop};

static void push_block_on(tn__engine *engine, tn__queue *queue, block *job,
                          const tn__access *access, uint32_t n) {
  block_init(job);
  cr_assert_eq(tn__push(engine, &(tn__job){.name = "block",
                                           .run = run_block,
                                           .arg = job,
                                           .access = access,
                                           .n_access = n,
                                           .queue = queue}),
               TN_OK);
}

/* The worker that drains the queue continues with it. The other one sleeps, and
 * must be woken for the tokens that the first job has made ready. */
Test(pool, a_long_queue_keeps_no_host_function_from_others, .timeout = 100) {
  tn__engine *engine = engine_dispatch(2);
  tn__queue *queue = NULL;
  tn__var x = {0};
  _Atomic int n = 0;
  block first, second;
  int ctx = 0;
  cr_assert_eq(tn__queue_create(engine, &ops, &ctx, "line", &queue), TN_OK);
  push_block_on(engine, queue, &first, ON(U(x)));
  while (sem_wait(&first.began)) continue;
  push_block_on(engine, queue, &second, NULL, 0);
  for (int i = 0; i < 2; ++i)
    cr_assert_eq(push(engine, run_count, &n, ON(R(x))), TN_OK);
  while (engine->pool->idle != TN__ASLEEP) sched_yield();
  block_end(&first);
  while (sem_wait(&second.began)) continue;
  await_count(&n, 2);
  block_end(&second);
  tn__queue_destroy(queue);
  tn__var_deinit(&x);
  engine_close(engine);
}

Test(pool, it_says_how_many_workers_there_really_are) {
  tn__engine *engine = engine_dispatch(5000);
  cr_assert_eq(tn__engine_workers(engine), 4096);
  engine_close(engine);
}
