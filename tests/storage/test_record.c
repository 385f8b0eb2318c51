/* SPDX-License-Identifier: Apache-2.0
 * test_record.c: what stands around a device's recordings: memory that follows
 * the host's, and what a thread must not do while it records.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fake.h"
#include "stage.h"

enum { N = 8 };

static stage s;
static fake *f;
static tn_device table;
static tn__device *device;
static int32_t end_answer;
static int n_ended, n_closed;

/* Records nothing: the tests look at what the host does around it. */
static int32_t capture_begin(void *ctx, void *queue, tn_device_error *error) {
  (void)ctx, (void)queue, (void)error;
  return TN_OK;
}

static int32_t capture_end(void *ctx, void *queue, void **out,
                           tn_device_error *error) {
  (void)ctx, (void)queue, (void)error;
  ++n_ended;
  if (out != NULL && end_answer == TN_OK) *out = &table;
  return end_answer;
}

static int32_t graph_launch(void *ctx, void *graph, void *queue,
                            tn_device_error *error) {
  (void)ctx, (void)graph, (void)queue, (void)error;
  return TN_OK;
}

static void graph_close(void *ctx, void *graph) {
  (void)ctx;
  n_closed += graph == &table;
}

static void open_with(const fake_options *options) {
  f = fake_create(options);
  stage_open(&s);
  table = *fake_table(f);
  table.capture_begin = capture_begin;
  table.capture_end = capture_end;
  table.graph_launch = graph_launch;
  table.graph_close = graph_close;
  end_answer = TN_OK;
  n_ended = n_closed = 0;
  cr_assert_eq(tn__devices_add(s.devices, &table), TN_OK);
  cr_assert_eq(tn__device_find(s.devices, TN_DEVICE_EXT, 0, &device), TN_OK);
}

static void close_all(void) {
  stage_close(&s);
  const fake_counts counts = fake_counts_get(f);
  cr_assert_eq(counts.violations, 0, "%s", fake_violation(f));
  cr_assert_eq(counts.pieces, 0);
  cr_assert_eq(counts.fences, 0);
  fake_destroy(f);
}

static tn__var turn;

/* On the queue of the device; the code of the function. */
static tn_code do_there(tn_code (*run)(void *arg, tn__token *token),
                        void *arg) {
  const tn__access access = {&turn, TN__OVERWRITE, 0};
  const tn__job job = {.name = "a test",
                       .run = run,
                       .arg = arg,
                       .access = &access,
                       .n_access = 1,
                       .queue = device->compute};
  cr_assert_eq(tn__push(s.engine, &job), TN_OK, "%s", tn_error_text());
  const tn_code rc = tn__wait(s.engine, &turn, TN__WAIT_WRITERS, TN__FOREVER);
  tn__var_deinit(&turn);
  return rc;
}

/* --------------------------------------------------------------------- feeds
 */

enum { PUSHES = 200 };

/* A feed, and where on the device each of its contents is kept. */
typedef struct feeding {
  tn__mirror *feed;
  tn__block *kept;
} feeding;

static tn_code feed_often(void *arg, tn__token *token) {
  const feeding *x = arg;
  const int32_t id = device->id;
  for (uint64_t i = 0; i < PUSHES; ++i) {
    uint64_t *now = tn__mirror_host(x->feed);
    for (uint64_t k = 0; k < N; ++k) now[k] = i * N + k;
    TN__TRY(tn__mirror_push(x->feed, token));
    const tn_copy keep = {.to = (uint64_t *)x->kept->data + i * N,
                          .from = tn__mirror_device(x->feed),
                          .bytes = N * sizeof *now,
                          .to_type = TN_DEVICE_EXT,
                          .to_id = id,
                          .from_type = TN_DEVICE_EXT,
                          .from_id = id};
    TN__TRY(tn__device_copy(token, &keep));
  }
  return TN_OK;
}

static void feed_with(uint32_t latency_us) {
  open_with(&(fake_options){.count = 1, .latency_us = latency_us});
  const size_t bytes = PUSHES * N * sizeof(uint64_t);
  tn__block *back = stage_block(s.cpu, bytes);
  feeding x = {.kept = stage_block(device, bytes)};
  cr_assert_eq(tn__mirror_create(device, N * sizeof(uint64_t), &x.feed), TN_OK);
  cr_assert_eq(do_there(feed_often, &x), TN_OK, "%s", tn_error_text());
  cr_assert_eq(stage_copy(&s, back, x.kept), TN_OK);
  cr_assert_eq(tn__wait(s.engine, &back->var, TN__WAIT_WRITERS, TN__FOREVER),
               TN_OK);
  for (uint64_t i = 0; i < PUSHES * N; ++i)
    cr_assert_eq(((const uint64_t *)back->data)[i], i);
  tn__mirror_free(x.feed);
  tn__block_release(x.kept);
  tn__block_release(back);
  close_all();
}

/* More pushes than it has room for, before the first copy is made. */
Test(feed, carries_each_content_however_late_the_device_is) {
  feed_with(0);
  feed_with(20);
}

static tn_code feed_twice(void *arg, tn__token *token) {
  tn__mirror *feed = arg;
  TN__TRY(tn__mirror_push(feed, token));
  return tn__mirror_push(feed, token);
}

Test(feed, that_has_not_changed_is_not_copied) {
  tn__mirror *feed = NULL;
  open_with(&(fake_options){.count = 1});
  cr_assert_eq(tn__mirror_create(device, 100, &feed), TN_OK);
  cr_assert_eq(do_there(feed_twice, feed), TN_OK);
  cr_assert_eq(fake_counts_get(f).copies, 1);
  tn__mirror_free(feed);
  close_all();
}

static void *go_when_waited_for(void *arg) {
  (void)arg;
  while (fake_counts_get(f).host_waits == 0) sched_yield();
  fake_go(f);
  return NULL;
}

/* Two contents, and memory for the copy of one. */
static tn_code feed_in_turn(void *arg, tn__token *token) {
  tn__mirror *feed = arg;
  int *now = tn__mirror_host(feed);
  pthread_t thread;
  now[0] = 1;
  TN__TRY(tn__mirror_push(feed, token));
  now[0] = 2;
  fake_refuse(f, 1);
  cr_assert_eq(pthread_create(&thread, NULL, go_when_waited_for, NULL), 0);
  const tn_code rc = tn__mirror_push(feed, token);
  pthread_join(thread, NULL);
  return rc;
}

Test(feed, waits_for_a_copy_where_there_is_no_memory_for_another) {
  tn__mirror *feed = NULL;
  open_with(&(fake_options){.count = 1});
  cr_assert_eq(tn__mirror_create(device, sizeof(int), &feed), TN_OK);
  fake_hold(f);
  cr_assert_eq(do_there(feed_in_turn, feed), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn__device_drain(device, TN_QUEUE_COMPUTE), TN_OK);
  cr_assert_eq(fake_counts_get(f).copies, 2);
  int there = 0;
  memcpy(&there, fake_reach(f, tn__mirror_device(feed)), sizeof there);
  cr_assert_eq(there, 2);
  tn__mirror_free(feed);
  close_all();
}

Test(feed, survives_each_allocation_that_fails) {
  tn__mirror *feed = NULL;
  open_with(&(fake_options){.count = 1});
  tn_code rc = TN_OUT_OF_MEMORY;
  for (int64_t n = 1; rc != TN_OK; ++n) {
    s.memory.fail_at = atomic_load(&s.memory.asked) + n;
    rc = tn__mirror_create(device, 100, &feed);
    cr_assert(rc == TN_OK || feed == NULL);
    cr_assert(n < 20);
  }
  s.memory.fail_at = 0;
  tn__mirror_free(feed);
  close_all();
}

/* ---------------------------------------------------------------- recordings
 */

static tn_code record_nothing(void *arg, tn__token *token) {
  void *recording = NULL;
  (void)arg;
  TN__TRY(tn__recording_begin(token));
  cr_assert(tn__device_is_recording(device));
  const tn_code rc = tn__recording_end(token, TN_OK, &recording);
  cr_assert(!tn__device_is_recording(device));
  cr_assert_eq(recording != NULL, rc == TN_OK);
  tn__recording_close(device, recording);
  return rc;
}

Test(recording, ends_and_is_closed) {
  open_with(&(fake_options){.count = 1});
  cr_assert(tn__device_can_record(device));
  cr_assert(!tn__device_can_record(s.cpu));
  cr_assert_eq(do_there(record_nothing, NULL), TN_OK);
  cr_assert_eq(n_ended, 1);
  cr_assert_eq(n_closed, 1);
  close_all();
}

Test(recording, that_fails_at_its_end_says_so) {
  open_with(&(fake_options){.count = 1});
  end_answer = TN_DEVICE;
  cr_assert_eq(do_there(record_nothing, NULL), TN_DEVICE);
  expect_text("fake(0): recording failed: no reason given");
  cr_assert_eq(n_closed, 0);
  close_all();
}

/* What went wrong is what comes back. */
static tn_code take_memory(void *arg, tn__token *token) {
  void *memory = NULL, *recording = NULL;
  (void)arg;
  TN__TRY(tn__recording_begin(token));
  const tn_code rc = tn__heap_alloc(device, 1 << 20, "a test", &memory);
  return tn__recording_end(token, rc, &recording);
}

Test(recording, takes_no_memory_of_the_device) {
  open_with(&(fake_options){.count = 1});
  cr_assert_eq(do_there(take_memory, NULL), TN_UNSUPPORTED);
  expect_text("1048576 bytes of memory are taken during the run");
  cr_assert_eq(n_ended, 1);
  close_all();
}

Test(recording, cannot_be_made_by_a_table_of_an_older_release) {
  open_with(&(fake_options){.count = 1});
  table.struct_size = offsetof(tn_device, capture_begin);
  cr_assert(!tn__device_can_record(device));
  close_all();
}
