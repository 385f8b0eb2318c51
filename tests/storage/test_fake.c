/* SPDX-License-Identifier: Apache-2.0
 * test_fake.c: the fake device notices the mistakes that it exists for.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

enum { BYTES = 64 };

static fake *f;
static const tn_device *t;
static void *queues[2];
static void *fence;
static void *piece;
static char host[BYTES];
static tn_device_error error = {.struct_size = sizeof error};

static void open_fake(void) {
  f = fake_create(&(fake_options){.count = 1, .bytes = 1000});
  t = fake_table(f);
  for (int i = 0; i < 2; ++i)
    cr_assert_eq(t->queue_open(f, 0, TN_QUEUE_COMPUTE, 0, &queues[i], &error),
                 TN_OK);
  cr_assert_eq(t->fence_open(f, 0, &fence, &error), TN_OK);
  cr_assert_eq(t->alloc(f, 0, TN_MEMORY_DEVICE, BYTES, &piece, &error), TN_OK);
}

static void close_fake(void) {
  for (int i = 0; i < 2; ++i) t->queue_close(f, queues[i]);
  t->fence_close(f, fence);
  fake_destroy(f);
}

static void fill_piece(int queue) {
  cr_assert_eq(t->fill(f, queues[queue], piece, 1, BYTES, &error), TN_OK);
}

static void copy_out(int queue) {
  const tn_copy copy = {.to = host,
                        .from = piece,
                        .bytes = BYTES,
                        .to_type = TN_DEVICE_CPU,
                        .from_type = TN_DEVICE_EXT};
  cr_assert_eq(t->copy(f, queues[queue], &copy, &error), TN_OK);
}

static void record_fence(int queue) {
  cr_assert_eq(t->fence_record(f, fence, queues[queue], &error), TN_OK);
}

static void wait_in(int queue) {
  cr_assert_eq(t->queue_wait(f, queues[queue], fence, &error), TN_OK);
}

static void wait_here(void) {
  cr_assert_eq(t->fence_wait(f, fence, &error), TN_OK);
}

static void expect_violation(const char *text) {
  cr_assert_eq(fake_counts_get(f).violations, 1, "%s", fake_violation(f));
  cr_assert(strstr(fake_violation(f), text), "%s", fake_violation(f));
}

Test(fake, executes_one_queue_in_order) {
  open_fake();
  for (int i = 0; i < 20; ++i) fill_piece(0);
  copy_out(0);
  record_fence(0);
  wait_here();
  cr_assert_eq(host[0], 1);
  cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
  close_fake();
}

Test(fake, notices_a_reader_that_waits_for_no_fence) {
  open_fake();
  fill_piece(0);
  copy_out(1);
  expect_violation("reads memory that another queue writes");
  close_fake();
}

Test(fake, notices_a_writer_that_waits_for_no_reader) {
  open_fake();
  fill_piece(0);
  record_fence(0);
  wait_in(1);
  copy_out(1);
  cr_assert_eq(fake_counts_get(f).violations, 0);
  fill_piece(0);
  expect_violation("writes memory that another queue reads");
  close_fake();
}

Test(fake, notices_a_fence_that_is_too_early) {
  open_fake();
  fill_piece(0);
  record_fence(0);
  fill_piece(0);
  wait_in(1);
  copy_out(1);
  expect_violation("reads memory that another queue writes");
  close_fake();
}

Test(fake, accepts_order_by_a_queue_wait) {
  open_fake();
  fill_piece(0);
  record_fence(0);
  wait_in(1);
  copy_out(1);
  record_fence(1);
  wait_here();
  cr_assert_eq(host[BYTES - 1], 1);
  cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
  close_fake();
}

Test(fake, accepts_order_by_the_host) {
  open_fake();
  int32_t done = 1;
  fake_hold(f);
  fill_piece(0);
  record_fence(0);
  cr_assert_eq(t->fence_query(f, fence, &done, &error), TN_OK);
  cr_assert_eq(done, 0);
  fake_go(f);
  wait_here();
  copy_out(1);
  cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
  close_fake();
}

Test(fake, notices_memory_that_is_freed_while_in_use) {
  open_fake();
  fill_piece(0);
  t->free(f, 0, TN_MEMORY_DEVICE, piece);
  expect_violation("frees memory that the device may still use");
  close_fake();
}

Test(fake, notices_memory_that_is_not_allocated) {
  open_fake();
  t->free(f, 0, TN_MEMORY_DEVICE, piece);
  fill_piece(0);
  expect_violation("uses memory that is not allocated");
  close_fake();
}

static void enqueue_sum(const tn_device_sum *sum) {
  cr_assert_eq(t->sum(f, queues[0], sum, &error), TN_OK);
}

/* Six numbers, followed by the sums of three each. */
Test(fake, computes_sums_and_fills) {
  open_fake();
  const double numbers[] = {1, 2, 3, 4, 5, 6};
  const tn_sum_axis axes[] = {{2, 1, 3}, {3, 0, 1}}, two = {2, -1, 0};
  double *sums = (double *)piece + 6, have[2];
  const tn_copy copy = {.to = piece,
                        .from = numbers,
                        .bytes = sizeof numbers,
                        .to_type = TN_DEVICE_EXT,
                        .from_type = TN_DEVICE_CPU};
  cr_assert_eq(t->copy(f, queues[0], &copy, &error), TN_OK);
  enqueue_sum(&(tn_device_sum){.dtype = TN_F64,
                               .n_kept = 1,
                               .n_summed = 1,
                               .axes = axes,
                               .to = sums,
                               .from = piece});
  enqueue_sum(&(tn_device_sum){.flags = TN_SUM_ADD,
                               .dtype = TN_F64,
                               .n_kept = 1,
                               .axes = &two,
                               .to = sums + 1,
                               .value = 0.5});
  copy_out(0);
  record_fence(0);
  wait_here();
  memcpy(have, host + sizeof numbers, sizeof have);
  cr_assert_eq(have[0], 6.5);
  cr_assert_eq(have[1], 15.5);
  cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
  close_fake();
}

/* Terms of f32, 1 + 2^-10 and 2^-11 in f16's steps of 2^-10: their sum rounds
 * to the even neighbour, 1 + 2^-9. Without the second it is 1 + 2^-10. */
Test(fake, sums_f32_into_halves) {
  open_fake();
  const float terms[] = {1 + 0x1p-10f, 0x1p-11f, 1 + 0x1p-10f, 0};
  const tn_sum_axis axes[] = {{2, 1, 2}, {2, 0, 1}};
  uint16_t have[2];
  const tn_copy copy = {.to = piece,
                        .from = terms,
                        .bytes = sizeof terms,
                        .to_type = TN_DEVICE_EXT,
                        .from_type = TN_DEVICE_CPU};
  cr_assert_eq(t->copy(f, queues[0], &copy, &error), TN_OK);
  enqueue_sum(&(tn_device_sum){.flags = TN_SUM_WIDE,
                               .dtype = TN_F16,
                               .n_kept = 1,
                               .n_summed = 1,
                               .axes = axes,
                               .to = (float *)piece + 4,
                               .from = piece});
  copy_out(0);
  record_fence(0);
  wait_here();
  memcpy(have, host + sizeof terms, sizeof have);
  cr_assert_eq(have[0], 0x3c02);
  cr_assert_eq(have[1], 0x3c01);
  cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
  close_fake();
}

Test(fake, notices_a_sum_that_waits_for_no_fence) {
  open_fake();
  const tn_sum_axis all = {8, 1, 0};
  fill_piece(1);
  enqueue_sum(&(tn_device_sum){
      .dtype = TN_F64, .n_kept = 1, .axes = &all, .to = piece});
  expect_violation("writes memory that another queue writes");
  close_fake();
}

static void *fill_first(void *arg) {
  (void)arg;
  fill_piece(0);
  return NULL;
}

/* The second thread may do anything. Another queue is no violation. */
Test(fake, notices_two_threads_on_one_queue) {
  pthread_t thread;
  for (int action = 0; action < 3; ++action) {
    open_fake();
    fake_seize(f);
    cr_assert_eq(pthread_create(&thread, NULL, fill_first, NULL), 0);
    fake_seize_await(f);
    record_fence(1);
    cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
    if (action == 0) record_fence(0);
    if (action == 1) wait_in(0);
    if (action == 2) fill_piece(0);
    fake_let_go(f);
    pthread_join(thread, NULL);
    expect_violation("two threads enqueue at the same time");
    close_fake();
  }
}

Test(fake, has_no_more_memory_than_its_option) {
  open_fake();
  void *more = NULL;
  cr_assert_eq(t->alloc(f, 0, TN_MEMORY_DEVICE, 1000, &more, &error),
               TN_OUT_OF_MEMORY);
  cr_assert_eq(fake_counts_get(f).refusals, 1);
  cr_assert_eq(t->alloc(f, 0, TN_MEMORY_DEVICE, 936, &more, &error), TN_OK);
  close_fake();
}

/* The system reports the access that would be a fault here. */
Test(fake, hides_its_memory_from_the_host) {
  open_fake();
  int ends[2];
  cr_assert_eq(pipe(ends), 0);
  cr_assert_eq(write(ends[1], piece, 1), -1);
  cr_assert_eq(errno, EFAULT);
  cr_assert_eq(write(ends[1], host, 1), 1);
  cr_assert_eq(read(ends[0], piece, 1), -1);
  cr_assert_eq(errno, EFAULT);
  close(ends[0]), close(ends[1]);
  close_fake();
}

Test(fake, reports_a_failure_at_every_later_fence) {
  open_fake();
  fake_break(f, "burnt");
  for (int i = 0; i < 2; ++i) {
    fill_piece(0);
    record_fence(0);
    cr_assert_eq(t->fence_wait(f, fence, &error), TN_DEVICE);
    cr_assert_str_eq(error.text, "burnt");
  }
  copy_out(1);
  record_fence(1);
  wait_here();
  close_fake();
}
