/* SPDX-License-Identifier: Apache-2.0
 * Blocks: memory that comes late, once, and goes with the last owner.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "storage.h"

/* The C library's allocator with a count, which any thread may change. */
typedef struct meter {
  _Atomic int64_t living;
  _Atomic int64_t asked;
  int64_t fail_at;
} meter;

static void *meter_alloc(void *ctx, size_t bytes, size_t align) {
  meter *m = ctx;
  void *memory = NULL;
  if (atomic_fetch_add(&m->asked, 1) + 1 == m->fail_at) return NULL;
  if (align < sizeof(void *)) align = sizeof(void *);
  if (posix_memalign(&memory, align, bytes)) return NULL;
  atomic_fetch_add(&m->living, 1);
  return memory;
}

static void meter_free(void *ctx, void *memory) {
  meter *m = ctx;
  atomic_fetch_sub(&m->living, 1);
  free(memory);
}

static meter memory;
static tn__env env;

static void setup(void) {
  env = *tn__env_default();
  env.allocator = (tn_allocator){&memory, meter_alloc, meter_free};
}

static void nothing_is_left(void) {
  cr_assert_eq(memory.living, 0);
}

TestSuite(block, .init = setup, .fini = nothing_is_left);

static tn__block *block_of(size_t bytes) {
  tn__block *block = NULL;
  cr_assert_eq(tn__block_create(&env, bytes, &block), TN_OK);
  return block;
}

Test(block, takes_memory_only_when_it_is_materialised) {
  tn__block *block = block_of(100);
  cr_assert_null(block->data);
  cr_assert_eq(memory.living, 1);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  void *data = block->data;
  cr_assert_not_null(data);
  cr_assert_eq((uintptr_t)data % 64, 0);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  cr_assert_eq(block->data, data);
  cr_assert_eq(memory.living, 2);
  tn__block_release(block);
}

Test(block, of_no_bytes_never_has_memory) {
  tn__block *block = block_of(0);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  cr_assert_null(block->data);
  tn__block_release(block);
  tn__block_release(NULL);
}

Test(block, lives_as_long_as_its_last_owner) {
  tn__block *block = block_of(8);
  cr_assert_eq(tn__block_retain(block), block);
  tn__block_release(block);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  cr_assert_eq(memory.living, 2);
  tn__block_release(block);
  cr_assert_eq(memory.living, 0);
}

Test(block, survives_an_allocator_that_refuses) {
  tn__block *block = (tn__block *)&env;
  memory.fail_at = memory.asked + 1;
  cr_assert_eq(tn__block_create(&env, 8, &block), TN_OUT_OF_MEMORY);
  cr_assert_null(block);
  block = block_of(8);
  memory.fail_at = memory.asked + 1;
  cr_assert_eq(tn__block_materialise(block), TN_OUT_OF_MEMORY);
  cr_assert_null(block->data);
  cr_assert_eq(tn__block_materialise(block), TN_OK);
  tn__block_release(block);
}

enum { THREADS = 4, ROUNDS = 200 };
static tn__block *shared;
static pthread_barrier_t barrier;

/* What the thread found after materialising. */
static void *materialise(void *arg) {
  (void)arg;
  pthread_barrier_wait(&barrier);
  return tn__block_materialise(shared) ? NULL : atomic_load(&shared->data);
}

Test(block, gets_one_memory_from_many_threads) {
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (int round = 0; round < ROUNDS; ++round) {
    pthread_t threads[THREADS];
    shared = block_of(256);
    for (int i = 0; i < THREADS; ++i)
      cr_assert_eq(pthread_create(&threads[i], NULL, materialise, NULL), 0);
    for (int i = 0; i < THREADS; ++i) {
      void *seen = NULL;
      pthread_join(threads[i], &seen);
      cr_assert_not_null(seen);
      cr_assert_eq(seen, shared->data);
    }
    cr_assert_eq(memory.living, 2);
    tn__block_release(shared);
  }
  pthread_barrier_destroy(&barrier);
}
