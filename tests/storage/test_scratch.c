/* SPDX-License-Identifier: Apache-2.0
 * test_scratch.c: scratch space, which operations use one after the other.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "fake.h"
#include "stage.h"

static stage s;

Test(scratch, is_handed_out_in_turn) {
  tn__scratch_space *seen[TN__SCRATCH_CPU];
  stage_open(&s);
  for (int i = 0; i < TN__SCRATCH_CPU; ++i) {
    seen[i] = tn__scratch_next(s.cpu);
    for (int j = 0; j < i; ++j) cr_assert_neq(seen[i], seen[j]);
  }
  for (int i = 0; i < TN__SCRATCH_CPU; ++i)
    cr_assert_eq(tn__scratch_next(s.cpu), seen[i]);
  stage_close(&s);
}

Test(scratch, only_grows) {
  void *memory = NULL, *again = NULL;
  stage_open(&s);
  tn__scratch_space *space = tn__scratch_next(s.cpu);
  cr_assert_eq(tn__scratch_reserve(space, 0, &memory), TN_OK);
  cr_assert_eq(tn__scratch_reserve(space, 1000, &memory), TN_OK);
  cr_assert_eq((uintptr_t)memory % 64, 0);
  cr_assert_eq(tn__scratch_reserve(space, 10, &again), TN_OK);
  cr_assert_eq(memory, again);
  cr_assert_eq(tn__scratch_reserve(space, 1000000, &memory), TN_OK);
  memset(memory, 1, 1000000);
  cr_assert_eq(tn__scratch_reserve(space, 1000, &again), TN_OK);
  cr_assert_eq(memory, again);
  stage_close(&s);
}

Test(scratch, reports_that_there_is_no_memory) {
  void *memory = NULL;
  stage_open(&s);
  tn__scratch_space *space = tn__scratch_next(s.cpu);
  s.memory.fail_at = s.memory.n_calls + 1;
  cr_assert_eq(tn__scratch_reserve(space, 500, &memory), TN_OUT_OF_MEMORY);
  cr_assert_null(memory);
  expect_text("500 bytes for scratch space");
  cr_assert_eq(tn__scratch_reserve(space, 500, &memory), TN_OK);
  stage_close(&s);
}

/* --------------------------------------------------------------- operations */

enum { JOBS = 2000 };

typedef struct user {
  tn__scratch_space *space;
  uint8_t number;
  size_t bytes;
} user;

static _Atomic int wrong;
static _Atomic int n_users[TN__SCRATCH_CPU];
static tn__scratch_space *spaces[TN__SCRATCH_CPU];

/* Fills the space and checks that no other operation changes it. */
static tn_code fill_space(void *arg, tn__token *token) {
  const user *u = arg;
  void *memory = NULL;
  int at = 0;
  (void)token;
  while (spaces[at] != u->space) ++at;
  if (atomic_fetch_add(&n_users[at], 1) != 0) ++wrong;
  TN__TRY(tn__scratch_reserve(u->space, u->bytes, &memory));
  memset(memory, u->number, u->bytes);
  for (size_t i = 0; i < u->bytes; ++i)
    wrong += ((const uint8_t *)memory)[i] != u->number;
  atomic_fetch_sub(&n_users[at], 1);
  return TN_OK;
}

Test(scratch, is_never_used_by_two_operations_at_once) {
  static user users[JOBS];
  stage_open(&s);
  for (int i = 0; i < TN__SCRATCH_CPU; ++i) spaces[i] = tn__scratch_next(s.cpu);
  for (int i = 0; i < JOBS; ++i) {
    users[i] = (user){tn__scratch_next(s.cpu), (uint8_t)i,
                      (size_t)(i * 37 % 5000) + 1};
    const tn__access access = {&users[i].space->var, TN__UPDATE, 0};
    const tn__job job = {.name = "use",
                         .run = fill_space,
                         .arg = &users[i],
                         .access = &access,
                         .n_access = 1};
    cr_assert_eq(tn__push(s.engine, &job), TN_OK);
  }
  cr_assert_eq(tn__wait_all(s.engine), TN_OK, "%s", tn_error_text());
  cr_assert_eq(wrong, 0);
  stage_close(&s);
}

/* ------------------------------------------------------------------ devices */

static tn__device *device;

static void do_nothing(fake *f, const void *arg) {
  (void)f, (void)arg;
}

static tn_code launch_kernel(void *arg, tn__token *token) {
  const user *u = arg;
  void *memory = NULL;
  TN__TRY(tn__scratch_reserve(u->space, u->bytes, &memory));
  const void *used[] = {memory};
  const fake_work work = {
      .run = do_nothing, .writes = used, .n_writes = 1, .reads = used};
  return fake_launch(tn__token_stream(token), &work);
}

Test(scratch, of_a_device_grows_after_the_operations_that_use_it) {
  fake *f = fake_create(&(fake_options){.latency_us = 20});
  static user users[50];
  stage_open(&s);
  cr_assert_eq(tn__devices_add(s.devices, fake_table(f)), TN_OK);
  cr_assert_eq(tn__device_find(s.devices, TN_DEVICE_EXT, 0, &device), TN_OK);
  for (size_t i = 0; i < 50; ++i) {
    users[i] = (user){tn__scratch_next(device), 0, 100 + 700 * (i / 10)};
    cr_assert_eq(users[i].space, users[0].space);
    const tn__access access = {&users[i].space->var, TN__UPDATE, 0};
    const tn__job job = {.name = "launch",
                         .run = launch_kernel,
                         .arg = &users[i],
                         .access = &access,
                         .n_access = 1,
                         .queue = device->compute};
    cr_assert_eq(tn__push(s.engine, &job), TN_OK);
  }
  cr_assert_eq(tn__wait_all(s.engine), TN_OK, "%s", tn_error_text());
  tn__heap_trim(device);
  stage_close(&s);
  const fake_counts counts = fake_counts_get(f);
  cr_assert_eq(counts.launches, 50);
  cr_assert_eq(counts.violations, 0, "%s", fake_violation(f));
  cr_assert_eq(counts.pieces + counts.fences + counts.queues, 0);
  fake_destroy(f);
}
