/* SPDX-License-Identifier: Apache-2.0
 * test_record.c: the host's part of a device's recordings: mirrors, and the
 * actions that are forbidden to a recording thread.
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

/* Records nothing: the tests examine only the host's part. */
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

/* Runs a function on the queue of the device. Returns its code. */
static tn_code run_on_device(tn_code (*run)(void *arg, tn__token *token),
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

/* ------------------------------------------------------------------ mirrors */

enum { PUSHES = 200 };

/* A mirror, and the block on the device that keeps each of its contents. */
typedef struct pushing {
  tn__mirror *mirror;
  tn__block *kept;
} pushing;

static tn_code push_often(void *arg, tn__token *token) {
  const pushing *x = arg;
  const int32_t id = device->id;
  for (uint64_t i = 0; i < PUSHES; ++i) {
    uint64_t *now = tn__mirror_host(x->mirror);
    for (uint64_t k = 0; k < N; ++k) now[k] = i * N + k;
    TN__TRY(tn__mirror_push(x->mirror, token));
    const tn_copy keep = {.to = (uint64_t *)x->kept->data + i * N,
                          .from = tn__mirror_device(x->mirror),
                          .bytes = N * sizeof *now,
                          .to_type = TN_DEVICE_EXT,
                          .to_id = id,
                          .from_type = TN_DEVICE_EXT,
                          .from_id = id};
    TN__TRY(tn__device_copy(token, &keep));
  }
  return TN_OK;
}

static void check_pushes(uint32_t latency_us) {
  open_with(&(fake_options){.count = 1, .latency_us = latency_us});
  const size_t bytes = PUSHES * N * sizeof(uint64_t);
  tn__block *back = stage_block(s.cpu, bytes);
  pushing x = {.kept = stage_block(device, bytes)};
  cr_assert_eq(tn__mirror_create(device, N * sizeof(uint64_t), &x.mirror),
               TN_OK);
  cr_assert_eq(run_on_device(push_often, &x), TN_OK, "%s", tn_error_text());
  cr_assert_eq(stage_copy(&s, back, x.kept), TN_OK);
  cr_assert_eq(tn__wait(s.engine, &back->var, TN__WAIT_WRITERS, TN__FOREVER),
               TN_OK);
  for (uint64_t i = 0; i < PUSHES * N; ++i)
    cr_assert_eq(((const uint64_t *)back->data)[i], i);
  tn__mirror_free(x.mirror);
  tn__block_release(x.kept);
  tn__block_release(back);
  close_all();
}

/* More pushes than there are slots, before the first copy is made. */
Test(mirror, copies_each_content_even_if_the_device_is_late) {
  check_pushes(0);
  check_pushes(20);
}

static tn_code push_twice(void *arg, tn__token *token) {
  tn__mirror *mirror = arg;
  TN__TRY(tn__mirror_push(mirror, token));
  return tn__mirror_push(mirror, token);
}

Test(mirror, that_has_not_changed_is_not_copied) {
  tn__mirror *mirror = NULL;
  open_with(&(fake_options){.count = 1});
  cr_assert_eq(tn__mirror_create(device, 100, &mirror), TN_OK);
  cr_assert_eq(run_on_device(push_twice, mirror), TN_OK);
  cr_assert_eq(fake_counts_get(f).copies, 1);
  tn__mirror_free(mirror);
  close_all();
}

static void *go_when_waited_for(void *arg) {
  (void)arg;
  while (fake_counts_get(f).host_waits == 0) sched_yield();
  fake_go(f);
  return NULL;
}

/* Two contents, and memory for one copy. */
static tn_code push_in_turn(void *arg, tn__token *token) {
  tn__mirror *mirror = arg;
  int *now = tn__mirror_host(mirror);
  pthread_t thread;
  now[0] = 1;
  TN__TRY(tn__mirror_push(mirror, token));
  now[0] = 2;
  fake_refuse(f, 1);
  cr_assert_eq(pthread_create(&thread, NULL, go_when_waited_for, NULL), 0);
  const tn_code rc = tn__mirror_push(mirror, token);
  pthread_join(thread, NULL);
  return rc;
}

Test(mirror, waits_for_a_copy_if_there_is_no_memory_for_another) {
  tn__mirror *mirror = NULL;
  open_with(&(fake_options){.count = 1});
  cr_assert_eq(tn__mirror_create(device, sizeof(int), &mirror), TN_OK);
  fake_hold(f);
  cr_assert_eq(run_on_device(push_in_turn, mirror), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__device_drain(device, TN_QUEUE_COMPUTE), TN_OK);
  cr_assert_eq(fake_counts_get(f).copies, 2);
  int value = 0;
  memcpy(&value, fake_reach(f, tn__mirror_device(mirror)), sizeof value);
  cr_assert_eq(value, 2);
  tn__mirror_free(mirror);
  close_all();
}

Test(mirror, survives_each_allocation_that_fails) {
  tn__mirror *mirror = NULL;
  open_with(&(fake_options){.count = 1});
  tn_code rc = TN_OUT_OF_MEMORY;
  for (int64_t n = 1; rc != TN_OK; ++n) {
    s.memory.fail_at = atomic_load(&s.memory.n_calls) + n;
    rc = tn__mirror_create(device, 100, &mirror);
    cr_assert(rc == TN_OK || mirror == NULL);
    cr_assert(n < 20);
  }
  s.memory.fail_at = 0;
  tn__mirror_free(mirror);
  close_all();
}

/* --------------------------------------------------------------- recordings */

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
  cr_assert_eq(run_on_device(record_nothing, NULL), TN_OK);
  cr_assert_eq(n_ended, 1);
  cr_assert_eq(n_closed, 1);
  close_all();
}

Test(recording, that_fails_at_its_end_reports_it) {
  open_with(&(fake_options){.count = 1});
  end_answer = TN_DEVICE;
  cr_assert_eq(run_on_device(record_nothing, NULL), TN_DEVICE);
  expect_text("fake(0): recording failed: no reason given");
  cr_assert_eq(n_closed, 0);
  close_all();
}

/* The first failure is returned. */
static tn_code allocate_memory(void *arg, tn__token *token) {
  void *memory = NULL, *recording = NULL;
  (void)arg;
  TN__TRY(tn__recording_begin(token));
  const tn_code rc = tn__heap_alloc(device, 1 << 20, "a test", &memory);
  return tn__recording_end(token, rc, &recording);
}

Test(recording, allocates_no_memory_of_the_device) {
  open_with(&(fake_options){.count = 1});
  cr_assert_eq(run_on_device(allocate_memory, NULL), TN_UNSUPPORTED);
  expect_text("1048576 bytes of memory are allocated during the run");
  cr_assert_eq(n_ended, 1);
  close_all();
}

Test(recording, cannot_be_made_by_a_table_of_an_older_release) {
  open_with(&(fake_options){.count = 1});
  table.struct_size = offsetof(tn_device, capture_begin);
  cr_assert(!tn__device_can_record(device));
  close_all();
}
