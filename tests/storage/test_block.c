/* SPDX-License-Identifier: Apache-2.0
 * test_block.c: blocks get memory late and once, and free it after their last
 * owner, when devices have finished with it.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "fake.h"
#include "stage.h"

static stage s;

static tn__block *block_of(size_t bytes) {
  tn__block *block = NULL;
  cr_assert_eq(tn__block_create(s.cpu, bytes, &block), TN_OK);
  return block;
}

static uint64_t live_bytes(tn__device *device) {
  tn__heap_stats stats;
  tn__heap_stats_get(device, &stats);
  return stats.live;
}

/* --------------------------------------------------------------------- life */

Test(block, takes_memory_only_when_it_is_materialised) {
  stage_open(&s);
  tn__block *block = block_of(1000);
  cr_assert_null(block->data);
  cr_assert_eq(live_bytes(s.cpu), 0);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  void *data = block->data;
  cr_assert_not_null(data);
  cr_assert_eq((uintptr_t)data % 64, 0);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  cr_assert_eq(block->data, data);
  cr_assert_eq(live_bytes(s.cpu), 1000);
  tn__block_release(block);
  cr_assert_eq(live_bytes(s.cpu), 0);
  stage_close(&s);
}

Test(block, that_is_small_has_its_bytes_after_its_description) {
  stage_open(&s);
  for (size_t bytes = 1; bytes <= TN__BLOCK_ROOM; ++bytes) {
    tn__block *block = block_of(bytes);
    cr_assert_null(block->data);
    cr_assert_eq(tn__block_materialise(block), TN_OK);
    cr_assert_eq((uintptr_t)block->data % 64, 0);
    memset(block->data, 0xff, bytes);
    cr_assert_eq(block->bytes, bytes);
    cr_assert_eq(live_bytes(s.cpu), 0);
    tn__block_release(block);
  }
  stage_close(&s);
}

Test(block, of_no_bytes_never_has_memory) {
  stage_open(&s);
  tn__block *block = block_of(0);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  cr_assert_null(block->data);
  tn__block_release(block);
  tn__block_release(NULL);
  stage_close(&s);
}

Test(block, lives_as_long_as_its_last_owner) {
  stage_open(&s);
  tn__block *block = stage_block(s.cpu, 8000);
  cr_assert_eq(tn__block_retain(block), block);
  tn__block_release(block);
  cr_assert_eq(live_bytes(s.cpu), 8000);
  tn__block_release(block);
  cr_assert_eq(live_bytes(s.cpu), 0);
  stage_close(&s);
}

static int dropped;

static void count_drop(void *ctx) {
  ++*(int *)ctx;
}

Test(block, drops_foreign_memory_once) {
  stage_open(&s);
  char bytes[8];
  const tn__foreign memory = {bytes + 1, 7, count_drop, &dropped};
  tn__block *block = NULL;
  s.memory.fail_at = s.memory.n_calls + 1;
  cr_assert_eq(tn__block_wrap(s.cpu, &memory, &block), TN_OUT_OF_MEMORY);
  cr_assert_null(block);
  cr_assert_eq(dropped, 0);
  cr_assert_eq(tn__block_wrap(s.cpu, &memory, &block), TN_OK);
  cr_assert_eq(block->data, bytes + 1);
  cr_assert_eq(block->bytes, 7);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  cr_assert_eq(block->data, bytes + 1);
  tn__block_retain(block);
  tn__block_release(block);
  cr_assert_eq(dropped, 0);
  tn__block_release(block);
  cr_assert_eq(dropped, 1);
  stage_close(&s);
}

Test(block, survives_an_allocator_that_refuses) {
  stage_open(&s);
  tn__block *block = (tn__block *)&s;
  s.memory.fail_at = s.memory.n_calls + 1;
  cr_assert_eq(tn__block_create(s.cpu, 800, &block), TN_OUT_OF_MEMORY);
  cr_assert_null(block);
  expect_text("for a block's description");
  block = block_of(800);
  s.memory.fail_at = s.memory.n_calls + 1;
  cr_assert_eq(tn__block_materialise(block), TN_OUT_OF_MEMORY);
  expect_text("800 bytes for the elements of an array");
  cr_assert_null(block->data);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  tn__block_release(block);
  stage_close(&s);
}

/* ------------------------------------------------------------------ threads */

enum { THREADS = 4, ROUNDS = 100 };
static tn__block *shared;
static pthread_barrier_t barrier;

/* The memory that the thread found after materialising. */
static void *materialise_block(void *arg) {
  (void)arg;
  pthread_barrier_wait(&barrier);
  return tn__block_materialise(shared) ? NULL : atomic_load(&shared->data);
}

static void many_materialise(size_t bytes) {
  pthread_t threads[THREADS];
  shared = block_of(bytes);
  for (int i = 0; i < THREADS; ++i)
    cr_assert_eq(pthread_create(&threads[i], NULL, materialise_block, NULL), 0);
  for (int i = 0; i < THREADS; ++i) {
    void *seen = NULL;
    pthread_join(threads[i], &seen);
    cr_assert_not_null(seen);
    cr_assert_eq(seen, shared->data);
  }
  tn__block_release(shared);
  cr_assert_eq(live_bytes(s.cpu), 0);
}

Test(block, gets_memory_once_from_many_threads) {
  stage_open(&s);
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (int round = 0; round < ROUNDS; ++round) {
    many_materialise(100);
    many_materialise(1000);
  }
  pthread_barrier_destroy(&barrier);
  stage_close(&s);
}

static void *retain_and_release(void *arg) {
  tn__block *block = arg;
  for (int i = 0; i < 1000; ++i) {
    tn__block_retain(block);
    tn__block_release(block);
  }
  tn__block_release(block);
  return NULL;
}

Test(block, counts_owners_of_many_threads) {
  stage_open(&s);
  pthread_t threads[THREADS];
  tn__block *block = stage_block(s.cpu, 1000);
  for (int i = 0; i < THREADS; ++i)
    cr_assert_eq(pthread_create(&threads[i], NULL, retain_and_release,
                                tn__block_retain(block)),
                 0);
  tn__block_release(block);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  cr_assert_eq(live_bytes(s.cpu), 0);
  stage_close(&s);
}

/* ------------------------------------------------------------------ devices */

static fake *f;
static tn__device *device;

static void open_device_with(const tn_memory_limit *limits, size_t n) {
  f = fake_create(&(fake_options){.latency_us = 50});
  stage_open_limited(&s, limits, n);
  cr_assert_eq(tn__devices_add(s.devices, fake_table(f)), TN_OK);
  cr_assert_eq(tn__device_find(s.devices, TN_DEVICE_EXT, 0, &device), TN_OK,
               "%s", tn_error_text());
}

static void open_device(void) {
  open_device_with(NULL, 0);
}

static void close_device(void) {
  stage_close(&s);
  const fake_counts counts = fake_counts_get(f);
  cr_assert_eq(counts.violations, 0, "%s", fake_violation(f));
  cr_assert_eq(counts.pieces, 0);
  cr_assert_eq(counts.queues, 0);
  cr_assert_eq(counts.fences, 0);
  fake_destroy(f);
}

/* Enqueues a copy, so that the engine has finished with it. */
static void copy_held(tn__block *to, tn__block *from) {
  fake_hold(f);
  cr_assert_eq(stage_copy(&s, to, from), TN_OK);
  while (atomic_load(&to->n_owners) > 1 || atomic_load(&from->n_owners) > 1)
    (void)sched_yield();
}

Test(device_block, is_freed_when_the_device_has_finished) {
  open_device();
  tn__block *from = stage_block(s.cpu, 4000), *to = stage_block(device, 4000);
  copy_held(to, from);
  tn__block_release(to);
  tn__block_release(from);
  cr_assert_eq(live_bytes(device), 4000);
  cr_assert_eq(live_bytes(s.cpu), 4000);
  fake_go(f);
  tn__engine_stop(s.engine);
  cr_assert_eq(live_bytes(device), 0);
  cr_assert_eq(live_bytes(s.cpu), 0);
  close_device();
}

Test(device_block, of_foreign_memory_is_dropped_when_the_device_has_finished) {
  open_device();
  static char bytes[300];
  const tn__foreign memory = {bytes, sizeof bytes, count_drop, &dropped};
  tn__block *from = NULL, *to = stage_block(device, sizeof bytes);
  cr_assert_eq(tn__block_wrap(s.cpu, &memory, &from), TN_OK);
  copy_held(to, from);
  tn__block_release(from);
  cr_assert_eq(dropped, 0);
  fake_go(f);
  tn__block_release(to);
  tn__engine_stop(s.engine);
  cr_assert_eq(dropped, 1);
  close_device();
}

static tn_code fail_on_purpose(void *arg, tn__token *token) {
  (void)arg, (void)token;
  return tn__fail(TN_SHAPE, "on purpose");
}

Test(block, drops_its_error_at_its_end) {
  stage_open(&s);
  tn__block *block = stage_block(s.cpu, 1000);
  const tn__access access = {&block->var, TN__OVERWRITE, 0};
  const tn__job job = {
      .name = "fail", .run = fail_on_purpose, .access = &access, .n_access = 1};
  (void)!tn__push(s.engine, &job);
  cr_assert_eq(tn__wait(s.engine, &block->var, TN__WAIT_ALL, TN__FOREVER),
               TN_SHAPE);
  tn__block_release(block);
  cr_assert_eq(live_bytes(s.cpu), 0);
  stage_close(&s);
}

/* The end of a block on a device has to be pushed. If that is impossible, as in
 * a function that runs at once, the next trim does it. */
static void release_inside(tn__block *to, tn__block *from) {
  copy_held(to, from);
  cr_assert(tn__gate_enter(s.engine));
  tn__block_release(to);
  tn__block_release(from);
  tn__gate_leave(s.engine);
  fake_go(f);
  tn__engine_stop(s.engine);
  cr_assert_eq(live_bytes(device), 300);
  cr_assert_eq(live_bytes(s.cpu), 300);
}

Test(device_block, that_cannot_end_at_once_ends_with_the_next_trim) {
  open_device();
  release_inside(stage_block(device, 300), stage_block(s.cpu, 300));
  (void)tn__heap_trim(device);
  tn__engine_stop(s.engine);
  cr_assert_eq(live_bytes(device), 0);
  cr_assert_eq(live_bytes(s.cpu), 0);
  close_device();
}

Test(device_block, that_cannot_end_at_once_ends_with_the_devices) {
  open_device();
  release_inside(stage_block(device, 300), stage_block(s.cpu, 300));
  close_device();
}

/* ------------------------------------------------------- inside of the gate */

enum { LIMIT = 1 << 20, MOST = 700 << 10 /* only one of these fits */ };

/* A copy that the device still reads uses all memory. */
static void fill_memory(tn__block *to) {
  tn__block *from = stage_block(s.cpu, MOST);
  copy_held(to, from);
  tn__block_release(from);
}

static tn_code take_most(void **memory) {
  return tn__heap_alloc(s.cpu, MOST, "a test", memory);
}

static void open_limited(void) {
  const tn_memory_limit limit = {TN_DEVICE_CPU, 0, LIMIT};
  open_device_with(&limit, 1);
}

Test(device_block, is_not_waited_for_inside_of_the_gate) {
  open_limited();
  tn__block *to = stage_block(device, MOST);
  void *memory = NULL;
  fill_memory(to);
  cr_assert(tn__gate_enter(s.engine));
  const int64_t waits = fake_own_waits();
  cr_assert_eq(take_most(&memory), TN_OUT_OF_MEMORY);
  const int64_t more = fake_own_waits() - waits;
  tn__gate_leave(s.engine);
  cr_assert_eq(more, 0, "other threads wait meanwhile");
  fake_go(f);
  cr_assert_eq(take_most(&memory), TN_OK, "%s", tn_error_text());
  tn__heap_free(s.cpu, memory, MOST);
  tn__block_release(to);
  close_device();
}

static uint32_t choose_memory(void *arg, tn__access *access) {
  (void)access;
  cr_assert(tn__gate_is_entered(s.engine));
  *(tn_code *)arg = take_most(&(void *){NULL});
  return TN__INLINE_REFUSED;
}

static void *run_inline(void *arg) {
  const tn__inline_job job = {"inline job", choose_memory, NULL, arg};
  tn_code code;
  cr_assert_not(tn__run_inline(s.engine, &job, &code));
  return NULL;
}

/* The trim would push the end of deferred blocks, on a thread that must not
 * push. */
Test(device_block, is_not_trimmed_while_an_inline_job_is_chosen) {
  open_limited();
  pthread_t thread;
  tn_code code = TN_OK;
  release_inside(stage_block(device, 300), stage_block(s.cpu, 300));
  s.memory.fail_at = atomic_load(&s.memory.n_calls) + 1;
  cr_assert_eq(pthread_create(&thread, NULL, run_inline, &code), 0);
  (void)pthread_join(thread, NULL);
  cr_assert_eq(code, TN_OUT_OF_MEMORY);
  cr_assert_eq(live_bytes(s.cpu), 300, "nothing was trimmed");
  cr_assert_not(tn__gate_is_entered(s.engine));
  close_device();
}

static _Atomic int go;

static tn_code run_await_go(void *arg, tn__token *token) {
  (void)arg, (void)token;
  while (atomic_load(&go) == 0) (void)sched_yield();
  return TN_OK;
}

static tn_code run_use(void *arg, tn__token *token) {
  (void)arg, (void)token;
  return TN_OK;
}

static void drop_block(void *arg) {
  tn__block_release(arg);
}

static tn_code take_all(void *arg, tn__token *token) {
  void *memory = NULL;
  (void)token;
  *(tn_code *)arg = tn__heap_alloc(device, MOST, "a test", &memory);
  if (memory) tn__heap_free(device, memory, MOST);
  return TN_OK;
}

/* A fence that small functions share would be recorded after them. */
Test(device_block, is_freed_for_the_job_after_its_last_one, .timeout = 100) {
  const tn_memory_limit limit = {TN_DEVICE_EXT, 0, LIMIT};
  tn_code code = TN_INTERNAL;
  open_device_with(&limit, 1);
  tn__block *block = stage_block(device, MOST);
  const tn__access use = {&block->var, TN__UPDATE, 0};
  const tn__job jobs[] = {
      {.run = run_await_go, .flags = TN__JOB_SMALL, .queue = device->compute},
      {.run = run_use,
       .arg = block,
       .drop = drop_block,
       .access = &use,
       .n_access = 1,
       .flags = TN__JOB_SMALL,
       .queue = device->compute},
      {.run = take_all,
       .arg = &code,
       .flags = TN__JOB_SMALL,
       .queue = device->compute}};
  for (int i = 0; i < 3; ++i) cr_assert_eq(tn__push(s.engine, &jobs[i]), TN_OK);
  atomic_store(&go, 1);
  (void)tn__wait_all(s.engine);
  cr_assert_eq(code, TN_OK);
  close_device();
}
