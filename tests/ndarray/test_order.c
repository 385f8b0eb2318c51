/* SPDX-License-Identifier: Apache-2.0
 * Copies of elements in and out, in push order: they follow pending operations,
 * report the errors that arrays carry, and wait.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#include "fixture.h"

TestSuite(order, .init = world_open, .fini = world_close);

enum { MS = 1000000 };

/* A write of one element that has started and ends when `finish_write` is
 * called. */
typedef struct pending {
  sem_t began;
  tn__token *token;
  float *at;
  float value;
  tn_code code;
} pending;

static tn_code begin_write(void *arg, tn__token *token) {
  pending *p = arg;
  p->token = token;
  sem_post(&p->began);
  return TN_OK;
}

static void pending_begin(pending *p, tn_array *array, uint32_t mode) {
  const tn__access access = {&array->block->var, mode, 0};
  cr_assert_eq(tn__array_materialise(array), TN_OK);
  p->at = tn__array_data(array);
  sem_init(&p->began, 0, 0);
  cr_assert_eq(tn__push(w.env.engine, &(tn__job){.name = "pending",
                                                 .run = begin_write,
                                                 .arg = p,
                                                 .access = &access,
                                                 .n_access = 1,
                                                 .flags = TN__JOB_ASYNC}),
               TN_OK);
  sem_wait(&p->began);
}

static void *finish_write(void *arg) {
  pending *p = arg;
  *p->at = p->value;
  tn__token_done(p->token, p->code ? tn__fail(p->code, "boom") : TN_OK);
  return NULL;
}

/* A slow device: an operation that does not wait for it is too early. */
static void *finish_late(void *arg) {
  const struct timespec latency = {0, 20 * MS};
  nanosleep(&latency, NULL);
  return finish_write(arg);
}

static tn_array *create_pair(void) {
  return floats(SHAPE(2), VALUES(1, 2));
}

Test(order, get_waits_for_pending_writes) {
  tn_array *x = create_pair();
  pending p = {.value = 5};
  pthread_t device;
  pending_begin(&p, x, TN__UPDATE);
  pthread_create(&device, NULL, finish_late, &p);
  expect(x, VALUES(5, 2));
  pthread_join(device, NULL);
  tn__array_release(x);
}

Test(order, set_waits_for_pending_writes_and_reads) {
  tn_array *x = create_pair();
  const uint32_t modes[] = {TN__UPDATE, TN__READ};
  for (int i = 0; i < 2; ++i) {
    pending p = {.value = 5};
    const float values[] = {7, 8};
    pthread_t device;
    pending_begin(&p, x, modes[i]);
    pthread_create(&device, NULL, finish_late, &p);
    cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK);
    pthread_join(device, NULL);
    expect(x, VALUES(7, 8));
  }
  tn__array_release(x);
}

Test(order, a_write_through_a_view_is_waited_for_through_its_parent) {
  tn_array *x = create_pair(), *tail = NULL;
  pending p = {.value = 5};
  cr_assert_eq(tn__array_index(x, 0, 1, &tail), TN_OK);
  pending_begin(&p, tail, TN__UPDATE);
  cr_assert_eq(tn__array_wait(x, TN__WAIT_WRITERS, MS), TN_BUSY);
  cr_assert_eq(tn__array_wait(tail, TN__WAIT_WRITERS, 0), TN_BUSY);
  finish_write(&p);
  cr_assert_eq(tn__array_wait(x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  expect(x, VALUES(1, 5));
  tn__array_release(tail);
  tn__array_release(x);
}

Test(order, readers_delay_only_the_wait_for_writing) {
  tn_array *x = create_pair();
  pending p = {.value = 1};
  pending_begin(&p, x, TN__READ);
  cr_assert_eq(tn__array_wait(x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(tn__array_wait(x, TN__WAIT_ALL, MS), TN_BUSY);
  finish_write(&p);
  cr_assert_eq(tn__array_wait(x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  tn__array_release(x);
}

Test(order, a_pending_copy_outlives_its_arrays) {
  tn_array *x = create_pair(), *y = empty(TN_F64, SHAPE(2)), *z = NULL;
  double got[2];
  pending p = {.value = 5};
  pending_begin(&p, x, TN__UPDATE);
  cr_assert_eq(tn__array_copy(y, x), TN_OK);
  cr_assert_eq(tn__array_cast(y, TN_I8, &z), TN_OK);
  cr_assert_eq(tn__array_wait(z, TN__WAIT_WRITERS, MS), TN_BUSY);
  cr_assert_eq(atomic_load(&x->n_owners), 1);
  tn__array_release(x);
  finish_write(&p);
  cr_assert_eq(tn__array_get(y, got, sizeof got), TN_OK);
  cr_assert(got[0] == 5 && got[1] == 2);
  tn__array_release(y);
  tn__array_release(z);
}

Test(order, a_copy_gets_the_elements_of_the_moment_of_its_push) {
  tn_array *x = create_pair(), *y = empty(TN_F32, SHAPE(2));
  const float values[] = {7, 8};
  pending p = {.value = 5};
  pthread_t device;
  pending_begin(&p, x, TN__UPDATE);
  cr_assert_eq(tn__array_copy(y, x), TN_OK);
  pthread_create(&device, NULL, finish_late, &p);
  cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK);
  expect(y, VALUES(5, 2));
  expect(x, VALUES(7, 8));
  pthread_join(device, NULL);
  tn__array_release(x);
  tn__array_release(y);
}

/* ------------------------------------------------------------------- errors */

static tn_array *create_failed(void) {
  tn_array *x = create_pair();
  pending p = {.code = TN_DEVICE};
  pending_begin(&p, x, TN__UPDATE);
  finish_write(&p);
  return x;
}

static void expect_boom(tn_array *array, size_t n) {
  float got[8];
  for (int i = 0; i < 2; ++i) {
    cr_assert_eq(tn__array_get(array, got, n * sizeof *got), TN_DEVICE);
    EXPECT_TEXT("boom");
    cr_assert_eq(tn__array_wait(array, TN__WAIT_WRITERS, TN__FOREVER),
                 TN_DEVICE);
    EXPECT_TEXT("boom");
  }
}

Test(order, every_get_and_wait_reports_the_error) {
  tn_array *x = create_failed(), *view = NULL, *other = create_pair();
  cr_assert_eq(tn__array_index(x, 0, 0, &view), TN_OK);
  expect_boom(x, 2);
  expect_boom(view, 1);
  expect(other, VALUES(1, 2));
  tn__array_release(other);
  tn__array_release(view);
  tn__array_release(x);
}

Test(order, only_a_set_of_the_whole_array_clears_the_error) {
  const float values[] = {7, 8};
  tn_array *x = create_failed(), *view = NULL;
  cr_assert_eq(tn__array_index(x, 0, 0, &view), TN_OK);
  cr_assert_eq(tn__array_set(view, values, sizeof *values), TN_DEVICE);
  EXPECT_TEXT("boom");
  expect_boom(x, 2);
  cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK, "%s",
               tn_error_text());
  expect(x, VALUES(7, 8));
  expect(view, VALUES(7));
  tn__array_release(view);
  tn__array_release(x);
}

/* The call itself may report it, too, if the error was known by then. */
static void copy_and_expect_boom(tn_array *to, tn_array *from) {
  tn_code rc = tn__array_copy(to, from);
  cr_assert(rc == TN_OK || rc == TN_DEVICE);
  expect_boom(to, 2);
}

Test(order, errors_travel_through_copies) {
  tn_array *x = create_failed(), *y = create_pair(), *z = create_pair(),
           *good = create_pair();
  copy_and_expect_boom(y, x);
  copy_and_expect_boom(z, y);
  cr_assert_eq(tn__array_copy(y, good), TN_OK);
  expect(y, VALUES(1, 2));
  expect_boom(z, 2);
  expect_boom(x, 2);
  tn__array_release(x);
  tn__array_release(y);
  tn__array_release(z);
  tn__array_release(good);
}

Test(order, an_empty_array_carries_errors_too) {
  char nothing = 0;
  tn_array *x = empty(TN_F32, SHAPE(0, 3)), *y = empty(TN_I8, SHAPE(0, 3));
  float unused = 0;
  const tn__access access = {&x->block->var, TN__OVERWRITE, 0};
  pending p = {.at = &unused, .code = TN_DEVICE};
  sem_init(&p.began, 0, 0);
  cr_assert_eq(tn__push(w.env.engine, &(tn__job){.name = "pending",
                                                 .run = begin_write,
                                                 .arg = &p,
                                                 .access = &access,
                                                 .n_access = 1,
                                                 .flags = TN__JOB_ASYNC}),
               TN_OK);
  sem_wait(&p.began);
  finish_write(&p);
  cr_assert_eq(tn__array_get(x, &nothing, 0), TN_DEVICE);
  (void)!tn__array_copy(y, x);
  cr_assert_eq(tn__array_get(y, &nothing, 0), TN_DEVICE);
  cr_assert_eq(tn__array_set(x, &nothing, 0), TN_OK);
  cr_assert_eq(tn__array_get(x, &nothing, 0), TN_OK);
  tn__array_release(x);
  tn__array_release(y);
}

/* ----------------------------------------------------------------- versions */

Test(order, writes_of_a_watched_array_are_counted_when_they_are_made) {
  tn_array *x = create_pair(), *y = create_pair(), *view = NULL;
  const float value = 3;
  cr_assert_eq(tn__array_index(x, 0, 0, &view), TN_OK);
  uint64_t before = tn__array_watch(x);
  cr_assert_eq(tn__array_set(view, &value, sizeof value), TN_OK);
  cr_assert_eq(tn__array_copy(x, y), TN_OK);
  cr_assert_eq(tn__array_watch(x), before + 2);
  expect(x, VALUES(1, 2));
  cr_assert_eq(tn__array_watch(view), before + 2);
  tn__array_release(view);
  tn__array_release(x);
  tn__array_release(y);
}
