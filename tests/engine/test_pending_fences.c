/* SPDX-License-Identifier: Apache-2.0
 * Small functions on a device queue share a fence. The queue records it when a
 * thread needs it, or when no small function follows. Functions that block the
 * queue's thread fix the order of the work.
 */
#include <criterion/criterion.h>
#include <sched.h>

#include "device_queue.h"
#include "stage.h"

/* ---------------------------------------------------------------- functions */

enum { SMALL = TN__JOB_SMALL, LARGE = 0 };

static void push_to(stage *s, int queue, tn__job job) {
  job.queue = s->queues[queue];
  cr_assert_eq(tn__push(s->engine, &job), TN_OK);
}

static void push_as(stage *s, int queue, const char *name, uint32_t flags,
                    const tn__access *access, uint32_t n) {
  push_to(s, queue,
          (tn__job){.name = name,
                    .run = run_enqueue,
                    .arg = s,
                    .access = access,
                    .n_access = n,
                    .flags = flags});
}

/* Blocks the thread that drains the queue until block_end. */
static void keep_busy(stage *s, int queue, block *b, uint32_t flags) {
  block_init(b);
  push_to(
      s, queue,
      (tn__job){.name = "keep", .run = run_block, .arg = b, .flags = flags});
}

static void keep_busy_now(stage *s, int queue, block *b, uint32_t flags) {
  keep_busy(s, queue, b, flags);
  block_await(b);
}

static void await_request(tn__queue *queue) {
  for (bool requests = false; !requests;) {
    sched_yield();
    pthread_mutex_lock(&queue->lock);
    requests = queue->requested != 0;
    pthread_mutex_unlock(&queue->lock);
  }
}

/* Returns when so many are ready after the running one: another worker than the
 * blocked one has dispatched them. */
static void await_ready(const stage *s, int queue, int wanted) {
  tn__queue *q = s->queues[queue];
  for (int n = -1; n != wanted;) {
    sched_yield();
    n = 0;
    pthread_mutex_lock(&q->lock);
    for (const tn__token *each = q->first; each != NULL; each = each->next) ++n;
    pthread_mutex_unlock(&q->lock);
  }
}

/* Returns when all functions are complete and the fence that was pending is
 * recorded. */
static void await_end(const stage *s, int queue) {
  tn__queue *q = s->queues[queue];
  await_issue(s);
  for (bool ends = false; !ends;) {
    sched_yield();
    pthread_mutex_lock(&q->lock);
    ends = q->draining == 0;
    pthread_mutex_unlock(&q->lock);
  }
}

/* The place of the fence that a queue made another queue wait for. */
static uint64_t number_waited_for(const stage *s, int i) {
  cr_assert_lt(i, s->device.n_waits);
  return s->device.waits[i].point.number;
}

/* ---------------------------------------------------------------- recording */

Test(pending, up_to_sixteen_share_a_fence, .timeout = 100) {
  static const struct {
    int n, records;
  } cases[] = {{1, 1}, {2, 1}, {16, 1}, {17, 2}, {40, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    static stage s;
    tn__var x = {0};
    block b;
    stage_open(&s, engine_dispatch(2));
    keep_busy_now(&s, 0, &b, LARGE);
    for (int k = 0; k < cases[i].n; ++k)
      push_as(&s, 0, "launch", SMALL, ON(R(x)));
    await_ready(&s, 0, cases[i].n);
    block_end(&b);
    await_end(&s, 0);
    cr_assert_eq(await(&s, &x, TN__WAIT_ALL, NOT_YET), TN_BUSY);
    cr_assert_eq(s.device.records, 1 + cases[i].records, "%d for %d",
                 s.device.records, cases[i].n);
    work_off(&s.lines[0]);
    cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    tn__var_deinit(&x);
    stage_close(&s);
  }
}

/* Their fence is before it, its own fence after it. */
Test(pending, a_large_job_has_its_own_fence, .timeout = 100) {
  static stage s;
  tn__var x = {0}, y = {0}, z = {0}, rest = {0}, out = {0};
  block b;
  stage_open(&s, engine_dispatch(2));
  keep_busy_now(&s, 0, &b, LARGE);
  push_as(&s, 0, "one", SMALL, ON(W(x)));
  push_as(&s, 0, "two", SMALL, ON(W(y)));
  push_as(&s, 0, "large", LARGE, ON(W(z)));
  push_as(&s, 0, "three", SMALL, ON(W(rest)));
  await_ready(&s, 0, 4);
  block_end(&b);
  await_end(&s, 0);
  cr_assert_eq(s.device.records, 4);
  push_as(&s, 1, "reader", SMALL, ON(R(x), U(out)));
  await_issue(&s);
  push_as(&s, 1, "reader", SMALL, ON(R(z), U(out)));
  await_issue(&s);
  cr_assert_eq(s.device.n_waits, 2);
  cr_assert_eq(number_waited_for(&s, 0), 2, "x with y, not with the large job");
  cr_assert_eq(number_waited_for(&s, 1), 3);
  tn__var *const all[] = {&x, &y, &z, &rest, &out};
  for (int i = 0; i < 5; ++i) tn__var_deinit(all[i]);
  stage_close(&s);
}

/* A variable of the stage and the result of a wait for it. */
typedef struct waiting {
  stage *s;
  tn__var *var;
  tn_code code;
} waiting;

static void *wait_there(void *arg) {
  waiting *w = arg;
  w->code = await(w->s, w->var, TN__WAIT_ALL, TN__FOREVER);
  return NULL;
}

Test(pending, it_is_recorded_on_request, .timeout = 100) {
  static stage s;
  tn__var x = {0};
  block first, second;
  waiting w = {&s, &x, TN_INTERNAL};
  pthread_t thread;
  stage_open(&s, engine_dispatch(2));
  s.device.eager = true;
  keep_busy(&s, 0, &first, SMALL);
  push_as(&s, 0, "launch", SMALL, ON(U(x)));
  keep_busy(&s, 0, &second, SMALL);
  block_await(&first);
  await_ready(&s, 0, 2);
  block_end(&first);
  block_await(&second);
  cr_assert_eq(s.device.records, 0);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, NOT_YET), TN_BUSY,
               "polling does not wait for it");
  cr_assert_eq(pthread_create(&thread, NULL, wait_there, &w), 0);
  await_request(s.queues[0]);
  /* A small function follows, but a thread has requested the fence. */
  block third;
  keep_busy(&s, 0, &third, SMALL);
  await_ready(&s, 0, 1);
  block_end(&second);
  block_await(&third);
  pthread_join(thread, NULL);
  cr_assert_eq(w.code, TN_OK);
  cr_assert_eq(s.device.records, 1);
  block_end(&third);
  await_end(&s, 0);
  cr_assert_eq(s.device.records, 2);
  tn__var_deinit(&x);
  stage_close(&s);
}

/* Each queue has a pending fence that the other waits for. */
Test(pending, two_queues_may_wait_for_each_other, .timeout = 100) {
  for (int round = 0; round < 200; ++round) {
    static stage s;
    tn__var v[4] = {0};
    block first[2], b[2];
    stage_open(&s, engine_dispatch(3));
    for (int q = 0; q < 2; ++q) {
      keep_busy_now(&s, q, &first[q], SMALL);
      push_as(&s, q, "launch", SMALL, ON(W(v[q])));
      keep_busy(&s, q, &b[q], SMALL);
      await_ready(&s, q, 2);
      block_end(&first[q]);
      block_await(&b[q]);
    }
    for (int q = 0; q < 2; ++q)
      push_as(&s, q, "across", SMALL, ON(R(v[1 - q]), W(v[2 + q])));
    for (int q = 0; q < 2; ++q) await_ready(&s, q, 1);
    for (int q = 0; q < 2; ++q) block_end(&b[q]);
    await_issue(&s);
    cr_assert_eq(s.device.n_waits, 2);
    for (int q = 0; q < 2; ++q) cr_assert_leq(number_waited_for(&s, q), 2);
    for (int i = 0; i < 4; ++i) tn__var_deinit(&v[i]);
    stage_close(&s);
  }
}

static tn_code run_await_queue(void *arg, tn__token *token) {
  stage *s = arg;
  (void)token;
  tn__queue_await(s->queues[0]);
  atomic_fetch_add(&s->n, 1);
  return TN_OK;
}

/* It may hold the thread that would record the fence. */
Test(pending, the_wait_for_a_queue_is_for_large_jobs, .timeout = 100) {
  static stage s;
  tn__var x = {0}, y = {0};
  block b;
  stage_open(&s, engine_dispatch(2));
  s.device.eager = true;
  keep_busy_now(&s, 0, &b, LARGE);
  push_as(&s, 0, "large", LARGE, ON(W(x)));
  push_as(&s, 0, "small", SMALL, ON(W(y)));
  push_to(
      &s, 0,
      (tn__job){
          .name = "await", .run = run_await_queue, .arg = &s, .flags = SMALL});
  await_ready(&s, 0, 3);
  block_end(&b);
  await_end(&s, 0);
  cr_assert_eq(s.n, 3);
  cr_assert_eq(s.lines[0].done, 1);
  cr_assert_eq(s.device.records, 3);
  tn__var_deinit(&x);
  tn__var_deinit(&y);
  stage_close(&s);
}

/* A wait for earlier results does not wait for another queue. */
Test(pending, it_is_recorded_before_a_wait_for_another_queue, .timeout = 100) {
  static stage s;
  tn__var x = {0}, y = {0}, z = {0}, out = {0};
  block b;
  stage_open(&s, engine_dispatch(2));
  push_as(&s, 1, "slow", LARGE, ON(W(y)));
  await_end(&s, 1);
  keep_busy_now(&s, 0, &b, LARGE);
  push_as(&s, 0, "one", SMALL, ON(W(x)));
  push_as(&s, 0, "two", SMALL, ON(R(y), W(z)));
  await_ready(&s, 0, 2);
  block_end(&b);
  await_end(&s, 0);
  cr_assert_eq(s.device.n_waits, 1);
  push_as(&s, 2, "reader", SMALL, ON(R(x), U(out)));
  await_end(&s, 2);
  cr_assert_eq(s.device.n_waits, 2);
  cr_assert_eq(number_waited_for(&s, 1), 1);
  tn__var *const all[] = {&x, &y, &z, &out};
  for (int i = 0; i < 4; ++i) tn__var_deinit(all[i]);
  stage_close(&s);
}

/* A function of the host may follow on the queue's own thread. */
Test(pending, it_is_recorded_before_the_next_host_function, .timeout = 100) {
  static stage s;
  tn__var x = {0}, e = {0}, y = {0};
  block first, b;
  stage_open(&s, engine_dispatch(2));
  s.device.eager = true;
  cr_assert_eq(push(s.engine, run_boom, (char *)"e", ON(W(e))), TN_OK);
  keep_busy_now(&s, 0, &first, LARGE);
  push_as(&s, 0, "one", SMALL, ON(W(x)));
  push_as(&s, 0, "not run", SMALL, ON(R(e), W(y)));
  block_init(&b);
  cr_assert_eq(push(s.engine, run_block, &b, ON(W(y))), TN_OK);
  await_ready(&s, 0, 2);
  block_end(&first);
  block_await(&b);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  block_end(&b);
  cr_assert_neq(tn__wait_all(s.engine), TN_OK);
  tn__var *const all[] = {&x, &e, &y};
  for (int i = 0; i < 3; ++i) tn__var_deinit(all[i]);
  stage_close(&s);
}

Test(pending, outside_of_a_drain_it_is_recorded_at_once, .timeout = 100) {
  static stage s;
  tn__var x = {0};
  const kind naive = {"naive", TN__ENGINE_NAIVE, 0, 0};
  stage_open(&s, engine_open(&naive));
  s.device.eager = true;
  for (int i = 0; i < 3; ++i) push_as(&s, 0, "launch", SMALL, ON(U(x)));
  cr_assert_eq(s.device.records, 3);
  cr_assert_eq(s.lines[0].done, 3, "it blocks inside of push");
  tn__var_deinit(&x);
  stage_close(&s);
}

/* ------------------------------------------------------------------ failure */

/* All that share a fence carry its failure. */
Test(pending, a_late_failure_names_the_first_and_the_last, .timeout = 100) {
  static stage s;
  tn__var x[4] = {0};
  block b;
  stage_open(&s, engine_dispatch(2));
  s.lines[0].broken = 3;
  keep_busy_now(&s, 0, &b, LARGE);
  push_as(&s, 0, "sound", LARGE, ON(U(x[0])));
  push_as(&s, 0, "one", SMALL, ON(U(x[1])));
  push_as(&s, 0, "two", SMALL, ON(U(x[2])));
  push_as(&s, 0, "three", SMALL, ON(U(x[3])));
  await_ready(&s, 0, 4);
  block_end(&b);
  await_end(&s, 0);
  work_off(&s.lines[0]);
  for (int i = 3; i > 0; --i) {
    cr_assert_eq(await(&s, &x[i], TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
    EXPECT_TEXT("one .. three: a unit overheated");
  }
  cr_assert_eq(await(&s, &x[0], TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(tn__wait_all(s.engine), TN_DEVICE, "reported once");
  for (int i = 0; i < 4; ++i) tn__var_deinit(&x[i]);
  stage_close(&s);
}

Test(pending, a_fence_that_cannot_be_recorded_fails, .timeout = 100) {
  static stage s;
  tn__var x = {0}, y = {0};
  block b;
  stage_open(&s, engine_dispatch(2));
  keep_busy_now(&s, 0, &b, SMALL);
  push_as(&s, 0, "one", SMALL, ON(W(x)));
  push_as(&s, 0, "two", SMALL, ON(W(y)));
  await_ready(&s, 0, 2);
  s.device.refuses = true;
  block_end(&b);
  await_end(&s, 0);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
  EXPECT_TEXT("the device hung up");
  cr_assert_eq(await(&s, &y, TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
  cr_assert_eq(tn__wait_all(s.engine), TN_DEVICE);
  push_as(&s, 0, "again", SMALL, ON(W(x)));
  await_issue(&s);
  work_off(&s.lines[0]);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  tn__var_deinit(&x);
  tn__var_deinit(&y);
  stage_close(&s);
}

/* Whichever allocation is refused, every job runs, is waited for and is freed.
 */
Test(pending, without_memory_the_host_waits, .timeout = 100) {
  for (int64_t at = 1; at <= 12; ++at) {
    static stage s;
    tn__var x = {0}, y = {0};
    block b;
    stage_open(&s, engine_dispatch(2));
    s.device.eager = true;
    keep_busy_now(&s, 0, &b, LARGE);
    push_as(&s, 0, "one", SMALL, ON(U(x)));
    push_as(&s, 0, "two", SMALL, ON(R(x), U(y)));
    push_as(&s, 0, "three", SMALL, ON(U(x), R(y)));
    await_ready(&s, 0, 1);
    memory_fail_at(at, true);
    block_end(&b);
    await_issue(&s);
    memory_fail_at(0, false);
    cr_assert_eq(s.n, 3);
    cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(await(&s, &y, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(s.lines[0].done, 3);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    stage_close(&s);
  }
}
