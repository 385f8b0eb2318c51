/* SPDX-License-Identifier: Apache-2.0
 * Device queues, with a device that works only when the test demands it. The
 * tests distinguish work that follows issued work from work that follows done
 * work.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

/* ----------------------------------------------------------- issued or done */

Test(device_queue, jobs_of_the_same_queue_follow_when_issued, .timeout = 100) {
  for (uint32_t workers = 1; workers <= 8; workers *= 2) {
    static stage s;
    tn__var x = {0};
    stage_open(&s, engine_dispatch(workers));
    for (int i = 0; i < 10; ++i) cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    await_issue(&s);
    cr_assert_eq(s.n, 10);
    cr_assert_eq(s.device.n_waits + s.device.blocks, 0, "nobody waited");
    cr_assert_eq(s.lines[0].done, 0);
    tn__var_deinit(&x);
    stage_close(&s);
  }
}

Test(device_queue, another_queue_waits_on_the_device, .timeout = 100) {
  for (uint32_t workers = 1; workers <= 8; workers *= 2) {
    static stage s;
    tn__var x = {0}, y = {0};
    stage_open(&s, engine_dispatch(workers));
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    cr_assert_eq(push_on(&s, 1, ON(R(x), U(y))), TN_OK);
    await_issue(&s);
    cr_assert_eq(s.n, 3, "all are issued");
    cr_assert_eq(s.device.n_waits, 1);
    cr_assert_eq(s.device.waits[0].line, &s.lines[1]);
    cr_assert_eq(s.device.waits[0].point.line, &s.lines[0]);
    cr_assert_eq(s.device.waits[0].point.number, 2);
    cr_assert_eq(s.device.blocks, 0);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    stage_close(&s);
  }
}

/* Two queues read and do not wait for each other. A third one writes and waits
 * for both readers, but not for the earlier writer. */
Test(device_queue, a_writer_waits_for_the_readers_of_other_queues,
     .timeout = 100) {
  static stage s;
  tn__var x = {0};
  stage_open(&s, engine_dispatch(1));
  cr_assert_eq(push_on(&s, 0, ON(R(x))), TN_OK);
  cr_assert_eq(push_on(&s, 1, ON(R(x))), TN_OK);
  await_issue(&s);
  cr_assert_eq(s.device.n_waits, 0);
  cr_assert_eq(push_on(&s, 2, ON(U(x))), TN_OK);
  await_issue(&s);
  cr_assert_eq(s.n, 3);
  cr_assert_eq(s.device.n_waits, 2);
  for (int i = 0; i < 2; ++i) cr_assert_eq(s.device.waits[i].line, &s.lines[2]);
  cr_assert_neq(s.device.waits[0].point.line, s.device.waits[1].point.line);
  tn__var_deinit(&x);
  stage_close(&s);
}

Test(device_queue, done_work_is_not_waited_for, .timeout = 100) {
  static stage s;
  tn__var x = {0};
  stage_open(&s, engine_dispatch(1));
  cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
  await_issue(&s);
  work_off(&s.lines[0]);
  cr_assert_eq(push_on(&s, 1, ON(U(x))), TN_OK);
  await_issue(&s);
  cr_assert_eq(s.n, 2);
  cr_assert_eq(s.device.n_waits, 0);
  cr_assert_eq(s.device.fences, 1, "of the last writer only");
  tn__var_deinit(&x);
  stage_close(&s);
}

static tn_code run_once(void *arg, tn__token *token) {
  (void)token;
  atomic_fetch_add((_Atomic int *)arg, 1);
  return TN_OK;
}

/* The fence stays on the variable until a thread has waited for the queue. */
Test(device_queue, a_host_function_may_begin_when_work_is_issued,
     .timeout = 100) {
  for (uint32_t workers = 1; workers <= 8; workers *= 2) {
    static stage s;
    tn__var x = {0};
    _Atomic int ran = 0;
    stage_open(&s, engine_dispatch(workers));
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    const tn__job job = {.name = "set",
                         .run = run_once,
                         .arg = &ran,
                         .access = ON(W(x)),
                         .flags = TN__JOB_SMALL | TN__JOB_ISSUED};
    cr_assert_eq(tn__run_here(s.engine, &job), TN_OK);
    cr_assert_eq(ran, 1);
    cr_assert_eq(s.n, 1, "it has been issued");
    cr_assert_eq(s.lines[0].done, 0);
    cr_assert_eq(await(&s, &x, TN__WAIT_ALL, NOT_YET), TN_BUSY);
    cr_assert_eq(s.device.fences, 1);
    s.device.eager = true;
    tn__queue_await(s.queues[1]); /* where there is nothing */
    tn__queue_await(s.queues[0]);
    cr_assert_eq(s.lines[0].done, 1);
    cr_assert_leq(s.device.fences, 1, "it enqueued nothing for that");
    cr_assert_eq(await(&s, &x, TN__WAIT_ALL, 0), TN_OK);
    tn__var_deinit(&x);
    stage_close(&s);
  }
}

static void push_named(stage *self, const char *name, tn__var *var) {
  cr_assert_eq(tn__push(self->engine, &(tn__job){.name = name,
                                                 .run = run_enqueue,
                                                 .arg = self,
                                                 .access = ON(U(*var)),
                                                 .queue = self->queues[0]}),
               TN_OK);
}

/* All fences after a failure report it. The oldest of them names the operation,
 * whichever fence is tested first. */
Test(device_queue, a_late_failure_names_the_oldest_operation_that_fails,
     .timeout = 100) {
  static stage s;
  tn__var x = {0}, y = {0}, z = {0};
  stage_open(&s, engine_dispatch(1));
  s.lines[0].broken = 2;
  push_named(&s, "sound", &x);
  push_named(&s, "guilty", &y);
  push_named(&s, "after", &z);
  await_issue(&s);
  work_off(&s.lines[0]);
  cr_assert_eq(await(&s, &z, TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
  EXPECT_TEXT("guilty .. after: a unit overheated");
  cr_assert_eq(await(&s, &y, TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
  EXPECT_TEXT("guilty .. after: a unit overheated");
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(tn__wait_all(s.engine), TN_DEVICE, "reported once");
  cr_assert_eq(tn__wait_all(s.engine), TN_OK);
  tn__var_deinit(&x);
  tn__var_deinit(&y);
  tn__var_deinit(&z);
  stage_close(&s);
}

Test(device_queue, a_host_function_begins_when_the_device_is_done,
     .timeout = 100) {
  for (uint32_t workers = 1; workers <= 8; workers *= 2) {
    static stage s;
    tn__var x = {0}, y = {0}, other = {0};
    _Atomic int beside = 0;
    stage_open(&s, engine_dispatch(workers));
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    push_host(&s, ON(R(x), U(y)));
    /* It holds no worker meanwhile. */
    push(s.engine, run_count, &beside, ON(U(other)));
    cr_assert_eq(await(&s, &other, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(beside, 1);
    await_runs(&s, 1);
    cr_assert_eq(await(&s, &y, TN__WAIT_WRITERS, NOT_YET), TN_BUSY);
    cr_assert_eq(s.n, 1, "only the enqueued work");
    work_off(&s.lines[0]);
    cr_assert_eq(await(&s, &y, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
    cr_assert_eq(s.n, 2);
    cr_assert_eq(tn__wait_all(s.engine), TN_OK);
    tn__var_deinit(&x);
    stage_close(&s);
  }
}

static void push_small(stage *self, const tn__access *access, uint32_t n) {
  const tn__job job = {.name = "small",
                       .run = run_count,
                       .arg = &self->n,
                       .access = access,
                       .n_access = n,
                       .flags = TN__JOB_SMALL};
  cr_assert_eq(tn__push(self->engine, &job), TN_OK);
}

Test(device_queue, a_small_host_function_begins_then_too, .timeout = 100) {
  for (int k = 1; k < N_KINDS; ++k) {
    static stage s;
    tn__var x = {0}, y = {0}, other = {0};
    stage_open(&s, engine_open(&kinds[k]));
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    await_issue(&s);
    push_small(&s, ON(R(x), U(y)));
    push_small(&s, ON(U(other))); /* so that its turn has come */
    cr_assert_eq(await(&s, &other, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(await(&s, &y, TN__WAIT_WRITERS, NOT_YET), TN_BUSY);
    cr_assert_eq(s.n, 2, "%s: the enqueued work and the other", kinds[k].name);
    work_off(&s.lines[0]);
    cr_assert_eq(await(&s, &y, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
    cr_assert_eq(s.n, 3);
    tn__var_deinit(&x);
    stage_close(&s);
  }
}

/* The job is a record without memory for its token: the worker waits. */
Test(device_queue, a_host_function_waits_for_it_without_memory,
     .timeout = 100) {
  enum { MANY = 30 };
  static stage s;
  static tn__var x[MANY];
  tn__access all[MANY];
  for (int i = 0; i < MANY; ++i) all[i] = (tn__access)R(x[i]);
  all[MANY - 1].mode = TN__OVERWRITE;
  stage_open(&s, engine_dispatch(1));
  cr_assert_eq(push_on(&s, 0, ON(U(x[0]))), TN_OK);
  await_issue(&s);
  memory_fail_at(1, true);
  push_host(&s, all, MANY);
  cr_assert_eq(await(&s, &x[MANY - 1], TN__WAIT_WRITERS, NOT_YET), TN_BUSY);
  cr_assert_eq(s.n, 1, "only the enqueued work");
  work_off(&s.lines[0]);
  cr_assert_eq(await(&s, &x[MANY - 1], TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  memory_fail_at(0, false);
  cr_assert_eq(s.n, 2);
  tn__var_deinit(&x[0]);
  stage_close(&s);
}

Test(device_queue, the_host_reads_while_a_device_reads, .timeout = 100) {
  static stage s;
  tn__var x = {0};
  stage_open(&s, engine_dispatch(1));
  cr_assert_eq(push_on(&s, 0, ON(R(x))), TN_OK);
  push_host(&s, ON(R(x)));
  await_issue(&s);
  cr_assert_eq(s.n, 2);
  push_host(&s, ON(U(x)));
  cr_assert_eq(await(&s, &x, TN__WAIT_WRITERS, NOT_YET), TN_BUSY);
  cr_assert_eq(s.n, 2);
  work_off(&s.lines[0]);
  cr_assert_eq(await(&s, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(s.n, 3);
  stage_close(&s);
}

static tn_code run_expect_done(void *arg, tn__token *token) {
  stage *self = (stage *)arg;
  (void)token;
  return self->lines[0].done == 1 ? TN_OK : TN_INTERNAL;
}

static void *work_off_later(void *arg) {
  sched_yield();
  work_off((line *)arg);
  return NULL;
}

Test(device_queue, a_function_run_here_waits_for_the_device, .timeout = 100) {
  for (int k = 1; k < N_KINDS; ++k) {
    static stage s;
    tn__var x = {0};
    pthread_t thread;
    stage_open(&s, engine_open(&kinds[k]));
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    await_runs(&s, 1);
    pthread_create(&thread, NULL, work_off_later, &s.lines[0]);
    const tn__job job = {.name = "here",
                         .run = run_expect_done,
                         .arg = &s,
                         .access = (tn__access[]){U(x)},
                         .n_access = 1};
    cr_assert_eq(tn__run_here(s.engine, &job), TN_OK, "%s", kinds[k].name);
    pthread_join(thread, NULL);
    tn__var_deinit(&x);
    stage_close(&s);
  }
}

/* -------------------------------------------------------------------- waits */

Test(device_queue, waits_know_readers_and_writers_of_devices, .timeout = 100) {
  static stage s;
  tn__var x = {0}, y = {0};
  stage_open(&s, engine_dispatch(1));
  cr_assert_eq(push_on(&s, 0, ON(R(x), U(y))), TN_OK);
  await_issue(&s);
  cr_assert_eq(s.n, 1);
  cr_assert_not(tn__var_is_writable(&x));
  cr_assert_eq(await(&s, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, 0), TN_BUSY);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, NOT_YET), TN_BUSY);
  cr_assert_eq(await(&s, &y, TN__WAIT_WRITERS, NOT_YET), TN_BUSY);
  work_off(&s.lines[0]);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(await(&s, &y, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert(tn__var_is_writable(&x));
  cr_assert(tn__var_is_writable(&y));
  cr_assert_eq(s.device.fences, 0, "a fence that is done is dropped");
  stage_close(&s);
}

Test(device_queue, a_wait_blocks_until_the_device_is_done, .timeout = 100) {
  static stage s;
  tn__var x = {0};
  pthread_t thread;
  stage_open(&s, engine_dispatch(1));
  cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
  await_issue(&s);
  pthread_create(&thread, NULL, work_off_later, &s.lines[0]);
  cr_assert_eq(await(&s, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(s.lines[0].done, 1);
  pthread_join(thread, NULL);
  stage_close(&s);
}

/* Once at the beginning and once at the end, seven times until a pause lasts a
 * millisecond, and then once in each. */
Test(device_queue, a_wait_with_a_deadline_asks_the_device_now_and_then,
     .timeout = 100) {
  static stage s;
  tn__var x = {0};
  stage_open(&s, engine_dispatch(1));
  cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
  await_issue(&s);
  s.device.queries = 0;
  cr_assert_eq(await(&s, &x, TN__WAIT_WRITERS, 10 * NOT_YET), TN_BUSY);
  cr_assert_leq(s.device.queries, 2 + 7 + 20);
  work_off(&s.lines[0]);
  cr_assert_eq(await(&s, &x, TN__WAIT_WRITERS, 1000000 * (uint64_t)NOT_YET),
               TN_OK);
  stage_close(&s);
}

/* Of a variable, of one that is gone, and of none. */
static void push_broken(stage *self, tn__var *x, int shape) {
  self->lines[0].broken = 1;
  if (shape == 2)
    cr_assert_eq(push_on(self, 0, NULL, 0), TN_OK);
  else
    cr_assert_eq(push_on(self, 0, ON(W(*x))), TN_OK);
  await_issue(self);
  if (shape == 1) tn__var_deinit(x);
}

Test(device_queue, the_wait_for_everything_is_for_devices_too, .timeout = 100) {
  for (int shape = 0; shape < 3; ++shape) {
    static stage s;
    tn__var x = {0}, y = {0};
    stage_open(&s, engine_dispatch(2));
    push_broken(&s, &x, shape);
    cr_assert_eq(push_on(&s, 1, ON(W(y))), TN_OK);
    await_issue(&s);
    work_off(&s.lines[1]);
    s.device.eager = true;
    cr_assert_eq(tn__wait_all(s.engine), TN_DEVICE, "shape %d", shape);
    EXPECT_TEXT("a unit overheated");
    cr_assert_eq(s.lines[0].done, 1);
    cr_assert_eq(tn__wait_all(s.engine), TN_OK, "it is reported once");
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    stage_close(&s);
  }
}

Test(device_queue, an_engine_stops_when_its_devices_are_done, .timeout = 100) {
  static stage s;
  tn__var x = {0};
  stage_open(&s, engine_dispatch(1));
  cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
  await_issue(&s);
  s.device.eager = true;
  tn__engine_stop(s.engine);
  cr_assert_eq(s.lines[0].done, 1);
  tn__var_deinit(&x);
  stage_close(&s);
}

/* ----------------------------------------------------------------- failures */

/* Waits, functions of the host that would read the broken data, and functions
 * that depend on those notice the failure of the device. */
Test(device_queue, a_failing_fence_leaves_its_error_on_written_variables,
     .timeout = 100) {
  for (uint32_t workers = 1; workers <= 8; workers *= 2) {
    static stage s;
    tn__var in = {0}, x = {0}, y = {0};
    stage_open(&s, engine_dispatch(workers));
    s.lines[0].broken = 1;
    cr_assert_eq(push_on(&s, 0, ON(R(in), U(x))), TN_OK);
    push_host(&s, ON(R(x), W(y)));
    await_runs(&s, 1);
    work_off(&s.lines[0]);
    cr_assert_eq(await(&s, &y, TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
    EXPECT_TEXT("job", "a unit overheated");
    cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
    EXPECT_TEXT("a unit overheated");
    cr_assert_eq(await(&s, &in, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(s.n, 1, "the host's function was not run");
    cr_assert_eq(tn__wait_all(s.engine), TN_DEVICE);
    EXPECT_TEXT("a unit overheated");
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    stage_close(&s);
  }
}

Test(device_queue, a_wait_reports_a_failure_of_the_device, .timeout = 100) {
  static stage s;
  tn__var x = {0};
  stage_open(&s, engine_dispatch(1));
  s.lines[0].broken = 1;
  cr_assert_eq(push_on(&s, 0, ON(W(x))), TN_OK);
  await_issue(&s);
  work_off(&s.lines[0]);
  for (int i = 0; i < 2; ++i) {
    cr_assert_eq(await(&s, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_DEVICE);
    EXPECT_TEXT("a unit overheated");
  }
  push_host(&s, ON(W(x))); /* the whole of it: the error ends */
  cr_assert_eq(await(&s, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(s.n, 2);
  (void)tn__wait_all(s.engine);
  stage_close(&s);
}

Test(device_queue, a_device_that_refuses_fails_the_function, .timeout = 100) {
  static stage s;
  tn__var x = {0}, y = {0};
  stage_open(&s, engine_dispatch(1));
  s.device.refuses = true; /* to record */
  cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
  EXPECT_TEXT("launch", "the device hung up");
  cr_assert_eq(push_on(&s, 0, ON(W(x))), TN_OK);
  await_issue(&s);
  s.device.refuses = true; /* to wait */
  cr_assert_eq(push_on(&s, 1, ON(R(x), W(y))), TN_OK);
  cr_assert_eq(await(&s, &y, TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
  EXPECT_TEXT("the device hung up");
  cr_assert_eq(s.n, 2, "the third was not run");
  work_off(&s.lines[0]);
  cr_assert_eq(tn__wait_all(s.engine), TN_DEVICE);
  EXPECT_TEXT("the first of 2 failures", "the device hung up");
  tn__var_deinit(&x);
  tn__var_deinit(&y);
  stage_close(&s);
}

/* Only that wait shows when the overwritten data is no longer in use. */
Test(device_queue, a_queue_that_cannot_wait_overwrites_nothing,
     .timeout = 100) {
  static stage s;
  tn__var x = {0}, y = {0};
  stage_open(&s, engine_dispatch(1));
  cr_assert_eq(push_on(&s, 0, ON(R(x), W(y))), TN_OK);
  await_issue(&s);
  s.device.refuses = true; /* to wait */
  cr_assert_eq(push_on(&s, 1, ON(W(x))), TN_OK);
  await_issue(&s);
  cr_assert_eq(s.n, 1, "the second was not run");
  work_off(&s.lines[0]);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_DEVICE);
  EXPECT_TEXT("the device hung up");
  cr_assert_eq(tn__wait_all(s.engine), TN_DEVICE);
  tn__var_deinit(&x);
  tn__var_deinit(&y);
  stage_close(&s);
}

static tn_code run_halfway(void *arg, tn__token *token) {
  TN__TRY(run_enqueue(arg, token));
  return tn__fail(TN_INVALID, "the second half is missing");
}

/* The enqueued work still uses x and y. */
static void expect_failure_with_a_fence(uint32_t flags) {
  static stage s;
  tn__var x = {0}, y = {0};
  stage_open(&s, engine_dispatch(1));
  const tn__job job = {.name = "halfway",
                       .run = run_halfway,
                       .arg = &s,
                       .access = (tn__access[]){R(x), U(y)},
                       .n_access = 2,
                       .flags = flags,
                       .queue = s.queues[0]};
  cr_assert_eq(tn__push(s.engine, &job), TN_OK);
  await_issue(&s);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, NOT_YET), TN_BUSY);
  cr_assert_eq(await(&s, &y, TN__WAIT_ALL, NOT_YET), TN_BUSY);
  work_off(&s.lines[0]);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(await(&s, &y, TN__WAIT_ALL, TN__FOREVER), TN_INVALID);
  EXPECT_TEXT("halfway", "the second half is missing");
  cr_assert_eq(tn__wait_all(s.engine), TN_INVALID);
  tn__var_deinit(&y);
  stage_close(&s);
}

Test(device_queue, a_job_that_fails_halfway_leaves_a_fence, .timeout = 100) {
  expect_failure_with_a_fence(0);
}

Test(device_queue, an_asynchronous_job_that_fails_halfway_leaves_one,
     .timeout = 100) {
  expect_failure_with_a_fence(TN__JOB_ASYNC);
}

/* Nor is its own failure forgotten for that of the fence. */
Test(device_queue, a_second_failure_keeps_the_first_reason, .timeout = 100) {
  static stage s;
  tn__var x = {0};
  stage_open(&s, engine_dispatch(1));
  const tn__job job = {.name = "halfway",
                       .run = run_halfway,
                       .arg = &s,
                       .access = (tn__access[]){U(x)},
                       .n_access = 1,
                       .queue = s.queues[0]};
  s.device.refuses = true; /* to record */
  cr_assert_eq(tn__push(s.engine, &job), TN_OK);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_INVALID);
  EXPECT_TEXT("halfway", "the second half is missing");
  tn__var_deinit(&x);
  (void)tn__wait_all(s.engine);
  stage_close(&s);
}

/* ------------------------------------------------------ the host in between */

static void expect_host_between(stage *s) {
  tn__var x = {0}, y = {0};
  cr_assert_eq(push_on(s, 0, ON(U(x))), TN_OK);
  cr_assert_eq(push_on(s, 1, ON(R(x), U(y))), TN_OK);
  await_runs(s, 1);
  cr_assert_eq(await(s, &y, TN__WAIT_ALL, NOT_YET), TN_BUSY);
  cr_assert_eq(s->n, 1);
  cr_assert_eq(s->lines[1].enqueued, 0);
  work_off(&s->lines[0]);
  await_runs(s, 2);
  await_issue(s);
  work_off(&s->lines[1]);
  cr_assert_eq(await(s, &y, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(s->device.n_waits, 0);
  tn__var_deinit(&x);
}

Test(device_queue, without_a_wait_of_the_device_the_host_waits,
     .timeout = 100) {
  static stage s;
  stage_open(&s, engine_dispatch(2));
  s.device.cannot_wait = true;
  expect_host_between(&s);
  stage_close(&s);
}

Test(device_queue, between_devices_of_two_kinds_the_host_waits,
     .timeout = 100) {
  static stage s;
  stage_open(&s, engine_dispatch(2));
  tn__queue_destroy(s.queues[1]);
  open_queue(&s, 1, &other_line_ops);
  expect_host_between(&s);
  stage_close(&s);
}

/* ------------------------------------------------------------ one at a time */

typedef struct alone {
  _Atomic int inside;
  _Atomic int wrong;
  _Atomic int n;
} alone;

static tn_code run_alone(void *arg, tn__token *token) {
  alone *self = (alone *)arg;
  (void)token;
  if (atomic_fetch_add(&self->inside, 1) != 0) ++self->wrong;
  let_others_run();
  atomic_fetch_sub(&self->inside, 1);
  ++self->n;
  return TN_OK;
}

Test(device_queue, jobs_of_a_queue_run_one_at_a_time, .timeout = 100) {
  enum { N = 200 };
  static stage s;
  static tn__var x[N];
  alone self = {0};
  stage_open(&s, engine_dispatch(8));
  for (int i = 0; i < N; ++i) {
    const tn__job job = {.name = "alone",
                         .run = run_alone,
                         .arg = &self,
                         .access = (tn__access[]){U(x[i])},
                         .n_access = 1,
                         .queue = s.queues[0]};
    cr_assert_eq(tn__push(s.engine, &job), TN_OK);
  }
  cr_assert_eq(tn__wait_all(s.engine), TN_OK);
  cr_assert_eq(self.n, N);
  cr_assert_eq(self.wrong, 0);
  for (int i = 0; i < N; ++i) tn__var_deinit(&x[i]);
  stage_close(&s);
}

/* ------------------------------------------------------------------- naive */

Test(device_queue, the_naive_engine_waits_for_the_device_inside_of_push) {
  static stage s;
  tn__var x = {0}, y = {0};
  stage_open(&s, engine_open(&kinds[0]));
  s.device.eager = true;
  for (int i = 1; i <= 3; ++i) {
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    cr_assert_eq(s.lines[0].done, (uint64_t)i);
  }
  cr_assert_eq(push_on(&s, 1, ON(R(x), W(y))), TN_OK);
  push_host(&s, ON(R(y)));
  cr_assert_eq(s.n, 5);
  cr_assert_eq(s.device.fences, 0);
  s.lines[1].broken = 2;
  cr_assert_eq(push_on(&s, 1, ON(W(y))), TN_DEVICE);
  EXPECT_TEXT("a unit overheated");
  (void)tn__wait_all(s.engine);
  tn__var_deinit(&y);
  stage_close(&s);
}

/* --------------------------------------------------------------------- ends */

static void count_end(void *arg) {
  ++*(int *)arg;
}

/* The owner of the memory must ask the device; the engine only drops its fence.
 */
Test(device_queue, a_variable_with_a_fence_may_be_deleted, .timeout = 100) {
  for (int deinit = 0; deinit < 2; ++deinit) {
    static stage s;
    tn__var x = {0};
    int ended = 0;
    stage_open(&s, engine_dispatch(1));
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    await_issue(&s);
    cr_assert_eq(s.device.fences, 1);
    if (deinit != 0)
      tn__var_deinit(&x);
    else
      cr_assert_eq(tn__var_delete(s.engine, &x, count_end, &ended), TN_OK);
    work_off(&s.lines[0]);
    cr_assert_eq(tn__wait_all(s.engine), TN_OK);
    cr_assert_eq(ended, 1 - deinit);
    cr_assert_eq(s.device.fences, 0);
    stage_close(&s);
  }
}

Test(device_queue, its_end_waits_for_the_device_and_variables_outlive_it,
     .timeout = 100) {
  static stage s;
  tn__var x = {0}, y = {0};
  pthread_t thread;
  stage_open(&s, engine_dispatch(2));
  cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
  push_host(&s, ON(R(x), U(y)));
  await_runs(&s, 1);
  cr_assert_eq(await(&s, &y, TN__WAIT_ALL, NOT_YET), TN_BUSY);
  pthread_create(&thread, NULL, work_off_later, &s.lines[0]);
  tn__queue_destroy(s.queues[0]);
  s.queues[0] = NULL;
  cr_assert_eq(s.lines[0].done, 1);
  cr_assert_eq(s.n, 2);
  pthread_join(thread, NULL);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  push_host(&s, ON(U(x)));
  cr_assert_eq(tn__wait_all(s.engine), TN_OK);
  stage_close(&s);
}

typedef struct rival {
  tn__var *var;
  pthread_barrier_t *both;
} rival;

static void *let_go(void *arg) {
  const rival *self = (const rival *)arg;
  pthread_barrier_wait(self->both);
  tn__var_deinit(self->var);
  return NULL;
}

/* Either the variable or the end of the queue is the last to hold the fence. */
Test(device_queue, its_end_meets_the_end_of_a_variable, .timeout = 100) {
  enum { ROUNDS = 200 };
  static stage s;
  pthread_barrier_t both;
  pthread_barrier_init(&both, NULL, 2);
  stage_open(&s, engine_dispatch(1));
  s.device.eager = true;
  for (int i = 0; i < ROUNDS; ++i) {
    tn__var x = {0};
    pthread_t thread;
    rival other = {&x, &both};
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    await_issue(&s);
    pthread_create(&thread, NULL, let_go, &other);
    pthread_barrier_wait(&both);
    tn__queue_destroy(s.queues[0]);
    pthread_join(thread, NULL);
    cr_assert_eq(s.device.fences, 0);
    open_queue(&s, 0, &line_ops);
  }
  pthread_barrier_destroy(&both);
  stage_close(&s);
}

static tn_code run_begin(void *arg, tn__token *token) {
  TN__TRY(run_enqueue(arg, token));
  tn__token_done(token, TN_OK);
  return TN_OK;
}

Test(device_queue, an_asynchronous_job_leaves_its_fence_when_it_is_done,
     .timeout = 100) {
  static stage s;
  tn__var x = {0};
  stage_open(&s, engine_dispatch(1));
  const tn__job job = {.name = "begin",
                       .run = run_begin,
                       .arg = &s,
                       .access = (tn__access[]){U(x)},
                       .n_access = 1,
                       .flags = TN__JOB_ASYNC,
                       .queue = s.queues[0]};
  cr_assert_eq(tn__push(s.engine, &job), TN_OK);
  await_issue(&s);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, NOT_YET), TN_BUSY);
  work_off(&s.lines[0]);
  cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  stage_close(&s);
}

/* Without memory for a fence the host waits for the device at once. */
Test(device_queue, without_memory_for_a_fence_the_host_waits, .timeout = 100) {
  for (int64_t at = 1; at <= 4; ++at) {
    static stage s;
    tn__var x = {0};
    stage_open(&s, engine_dispatch(1));
    s.device.eager = true;
    cr_assert_eq(push_on(&s, 0, ON(U(x))), TN_OK);
    await_issue(&s);
    memory_fail_at(at, true);
    const tn_code code = push_on(&s, 0, ON(U(x)));
    cr_assert(code == TN_OK || code == TN_OUT_OF_MEMORY);
    await_issue(&s);
    memory_fail_at(0, false);
    cr_assert_eq(s.n, code == TN_OK ? 2 : 1);
    cr_assert_eq(await(&s, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(s.lines[0].done, s.lines[0].enqueued);
    stage_close(&s);
  }
}

Test(device_queue, without_memory_there_is_no_queue) {
  tn__engine *engine = engine_pooled(1);
  line one = {0};
  tn__queue *queue = NULL;
  const int64_t before = memory.living;
  for (int64_t at = 1; at <= 2; ++at) {
    memory_fail_at(at, false);
    cr_assert_eq(tn__queue_create(engine, &line_ops, &one, "line", &queue),
                 TN_OUT_OF_MEMORY);
    memory_fail_at(0, false);
    cr_assert_null(queue);
    cr_assert_eq(memory.living, before);
  }
  tn__queue_destroy(NULL);
  engine_close(engine);
}
