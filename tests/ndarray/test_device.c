/* SPDX-License-Identifier: Apache-2.0
 * Arrays on devices, with devices that compute late and in an order of their
 * own, and that notice who did not wait (tests/storage/fake.h).
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "../must.h"
#include "fake.h"
#include "fixture.h"

static fake *f;
static tn__device *cpu, *first, *second;

static void open_with(const fake_options *options) {
  world_open();
  f = fake_create(options);
  cr_assert_eq(tn__devices_add(w.devices, fake_table(f)), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__device_parse(w.devices, "fake(0)", &first), TN_OK);
  cr_assert_eq(tn__device_parse(w.devices, "fake(1)", &second), TN_OK);
  cpu = w.env.cpu;
}

static void setup(void) {
  open_with(&(fake_options){.count = 2, .latency_us = 50, .seed = 7});
}

static void teardown(void) {
  world_close();
  must_hold(fake_counts_get(f).violations == 0, fake_violation(f));
  fake_destroy(f);
}

TestSuite(device, .init = setup, .fini = teardown);

static tn_array *make(tn__device *device, size_t ndim, const int64_t *shape) {
  tn_array *x = NULL;
  cr_assert_eq(
      tn__array_create_on(device, &(tn_spec){TN_F32, (int32_t)ndim, shape}, &x),
      TN_OK, "%s", tn_error_text());
  return x;
}

static tn_array *make_six(tn__device *device) {
  const float values[] = {0, 1, 2, 3, 4, 5};
  tn_array *x = make(device, SHAPE(2, 3));
  cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK, "%s",
               tn_error_text());
  return x;
}

static tn_array *to(tn_array *x, tn__device *device) {
  tn_array *y = NULL;
  cr_assert_eq(tn__array_to(x, device, &y), TN_OK, "%s", tn_error_text());
  return y;
}

static void copy(tn_array *y, tn_array *x) {
  cr_assert_eq(tn__array_copy(y, x), TN_OK, "%s", tn_error_text());
}

static tn_array *slice(tn_array *x, int32_t axis, int64_t begin, int64_t end,
                       int64_t step) {
  tn_array *view = NULL;
  const tn_range range = {axis, 0, begin, end, step};
  cr_assert_eq(tn__array_slice(x, &range, &view), TN_OK, "%s", tn_error_text());
  return view;
}

static void release(tn_array *a, tn_array *b, tn_array *c) {
  tn__array_release(a);
  tn__array_release(b);
  tn__array_release(c);
}

Test(device, arrays_know_where_they_are) {
  tn_array *x = make(second, SHAPE(2)), *view = slice(x, 0, 0, 1, 1);
  const tn_tensor *t = tn__array_tensor(x);
  cr_assert(t->device_type == TN_DEVICE_EXT && t->device_id == 1);
  tn_tensor metadata = tn__array_metadata(view);
  cr_assert(metadata.device_type == TN_DEVICE_EXT && metadata.device_id == 1);
  cr_assert_eq(x->env, &w.env);
  release(x, view, NULL);
}

Test(device, elements_go_in_and_out) {
  tn_array *x = make_six(first);
  expect(x, VALUES(0, 1, 2, 3, 4, 5));
  tn__array_release(x);
}

Test(device, set_is_done_with_the_callers_memory_when_it_returns) {
  float values[] = {1, 2};
  tn_array *x = make(first, SHAPE(2));
  for (int i = 0; i < 20; ++i) {
    values[0] = (float)i;
    cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK);
    values[0] = -1;
    expect(x, VALUES((float)i, 2));
  }
  tn__array_release(x);
}

Test(device, an_array_that_was_never_written_reads_as_zeros) {
  tn_array *x = make(first, SHAPE(2)), *y = to(x, second), *z = to(y, cpu);
  expect(x, VALUES(0, 0));
  expect(y, VALUES(0, 0));
  expect(z, VALUES(0, 0));
  release(x, y, z);
}

Test(device, copies_go_from_device_to_device) {
  tn_array *x = make_six(cpu), *a = to(x, first), *b = to(a, second);
  tn_array *c = to(b, second), *y = to(c, cpu);
  release(a, b, c);
  expect(y, VALUES(0, 1, 2, 3, 4, 5));
  release(x, y, NULL);
}

Test(device, a_copy_takes_what_was_there_when_it_was_made) {
  const float later[] = {9, 9, 9, 9, 9, 9};
  tn_array *x = make_six(cpu);
  fake_hold(f);
  tn_array *y = to(x, first);
  cr_assert_eq(tn__array_wait(y, TN__WAIT_WRITERS, 1000000), TN_BUSY);
  cr_assert_eq(tn__array_wait(x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(tn__array_wait(x, TN__WAIT_ALL, 1000000), TN_BUSY);
  fake_go(f);
  cr_assert_eq(tn__array_set(x, later, sizeof later), TN_OK);
  expect(y, VALUES(0, 1, 2, 3, 4, 5));
  release(x, y, NULL);
}

/* ------------------------------------------------------------------ strides */

Test(device, views_are_read_through_the_host) {
  tn_array *x = make_six(first), *t = NULL;
  tn_array *back = slice(x, 1, -1, INT64_MIN, -2);
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  expect(t, VALUES(0, 3, 1, 4, 2, 5));
  expect(back, VALUES(2, 0, 5, 3));
  tn_array *y = to(back, second);
  expect(y, VALUES(2, 0, 5, 3));
  release(x, t, back);
  tn__array_release(y);
}

Test(device, views_are_written_and_leave_what_lies_between) {
  const float column[] = {10, 40};
  tn_array *x = make_six(first), *middle = slice(x, 1, 1, 2, 1), *t = NULL;
  cr_assert_eq(tn__array_set(middle, column, sizeof column), TN_OK);
  expect(x, VALUES(0, 10, 2, 3, 40, 5));
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  tn_array *y = floats(SHAPE(3, 2), VALUES(1, 2, 3, 4, 5, 6));
  copy(t, y);
  expect(x, VALUES(1, 3, 5, 2, 4, 6));
  release(x, middle, t);
  tn__array_release(y);
}

/* Nothing of it comes to the host. */
Test(device, views_are_copied_where_they_lie) {
  tn_array *x = make_six(first), *t = NULL, *y = make(first, SHAPE(3, 2));
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  cr_assert_eq(tn__wait_all(w.env.engine), TN_OK);
  const fake_counts before = fake_counts_get(f);
  copy(y, t);
  cr_assert_eq(tn__wait_all(w.env.engine), TN_OK);
  const fake_counts after = fake_counts_get(f);
  cr_assert_eq(after.copies, before.copies);
  cr_assert_eq(after.launches, before.launches + 1);
  expect(y, VALUES(0, 3, 1, 4, 2, 5));
  release(x, t, y);
}

Test(device, parts_of_an_array_may_overlap) {
  tn_array *x = make_six(first), *line = NULL;
  cr_assert_eq(tn__array_reshape(x, SHAPE(6), &line), TN_OK);
  tn_array *head = slice(line, 0, 0, 5, 1), *tail = slice(line, 0, 1, 6, 1);
  copy(tail, head);
  expect(x, VALUES(0, 0, 1, 2, 3, 4));
  release(head, tail, line);
  tn__array_release(x);
}

Test(device, parts_of_an_array_that_do_not_overlap) {
  tn_array *x = make_six(first);
  tn_array *upper = slice(x, 0, 0, 1, 1), *lower = slice(x, 0, 1, 2, 1);
  copy(upper, lower);
  expect(x, VALUES(3, 4, 5, 3, 4, 5));
  release(x, upper, lower);
}

Test(device, casts_on_the_way) {
  tn_array *x = make_six(first), *y = NULL;
  int8_t got[6];
  cr_assert_eq(tn__array_cast(x, TN_I8, &y), TN_OK);
  cr_assert_eq(tn__array_tensor(y)->device_type, TN_DEVICE_EXT);
  cr_assert_eq(tn__array_get(y, got, sizeof got), TN_OK);
  cr_assert(got[0] == 0 && got[5] == 5);
  release(x, y, NULL);
}

Test(device, nothing_and_one_go_everywhere) {
  tn_array *none = make(first, SHAPE(0, 2)), *there = to(none, second);
  tn_array *one = make(first, 0, NULL), *back = NULL;
  const float value = 4;
  char nothing = 0;
  cr_assert_eq(tn__array_set(none, &nothing, 0), TN_OK);
  cr_assert_eq(tn__array_get(there, &nothing, 0), TN_OK);
  cr_assert_eq(tn__array_set(one, &value, sizeof value), TN_OK);
  back = to(one, cpu);
  expect(back, VALUES(4));
  release(none, there, one);
  tn__array_release(back);
}

/* ------------------------------------------------------------------ failures
 */

Test(device, failures_of_the_device_reach_the_host) {
  tn_array *x = make_six(cpu), *y = make(first, SHAPE(2, 3)), *z = NULL;
  float got[6];
  fake_break(f, "the fan fell off");
  copy(y, x);
  cr_assert_eq(tn__array_wait(y, TN__WAIT_WRITERS, TN__FOREVER), TN_DEVICE);
  EXPECT_TEXT("the fan fell off");
  cr_assert_eq(tn__array_get(y, got, sizeof got), TN_DEVICE);
  EXPECT_TEXT("the fan fell off");
  tn_code rc = tn__array_to(y, cpu, &z);
  if (!rc) rc = tn__array_get(z, got, sizeof got);
  cr_assert_eq(rc, TN_DEVICE);
  EXPECT_TEXT("the fan fell off");
  expect(x, VALUES(0, 1, 2, 3, 4, 5));
  release(x, y, z);
}

Test(device, what_a_device_refuses_travels) {
  tn_array *x = make_six(cpu), *y = make_six(first);
  fake_refuse(f, 1);
  tn_code rc = tn__array_copy(y, x);
  cr_assert(rc == TN_OK || rc == TN_DEVICE);
  cr_assert_eq(tn__array_wait(y, TN__WAIT_WRITERS, TN__FOREVER), TN_DEVICE);
  copy(y, x);
  expect(y, VALUES(0, 1, 2, 3, 4, 5));
  release(x, y, NULL);
}

Test(device_small, says_that_it_has_no_memory, .fini = teardown) {
  static float values[5000];
  open_with(&(fake_options){.count = 2, .bytes = 30000});
  tn_array *x = make(first, SHAPE(5000)), *y = make(first, SHAPE(5000));
  cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__array_set(y, values, sizeof values), TN_OUT_OF_MEMORY);
  EXPECT_TEXT("20000 bytes", "fake(0)");
  tn__array_release(x);
  cr_assert_eq(tn__array_set(y, values, sizeof values), TN_OK, "%s",
               tn_error_text());
  tn__array_release(y);
}

/* -------------------------------------------------------------------- chains
 */

enum { ARRAYS = 6, SIDE = 4, CHAIN = 400 };

typedef struct board {
  tn_array *arrays[ARRAYS];
  float model[ARRAYS][SIDE][SIDE];
  uint64_t state;
} board;

/* xorshift64*: any reproducible sequence does. */
static int draw(board *b, uint32_t n) {
  b->state ^= b->state >> 12;
  b->state ^= b->state << 25;
  b->state ^= b->state >> 27;
  return (int)((b->state * 2685821657736338717ull >> 33) % n);
}

static void step_set(board *b, int y) {
  for (int i = 0; i < SIDE; ++i)
    for (int k = 0; k < SIDE; ++k) b->model[y][i][k] = (float)draw(b, 1000);
  cr_assert_eq(tn__array_set(b->arrays[y], b->model[y], sizeof b->model[y]),
               TN_OK, "%s", tn_error_text());
}

static void step_copy(board *b, int y, int x) {
  memmove(b->model[y], b->model[x], sizeof b->model[y]);
  copy(b->arrays[y], b->arrays[x]);
}

/* Column k of one becomes row i of the other. */
static void step_part(board *b, int y, int x) {
  int i = draw(b, SIDE), k = draw(b, SIDE);
  float column[SIDE];
  tn_array *row = NULL, *part = NULL;
  for (int n = 0; n < SIDE; ++n) column[n] = b->model[x][n][k];
  memcpy(b->model[y][i], column, sizeof column);
  cr_assert_eq(tn__array_index(b->arrays[y], 0, i, &row), TN_OK);
  cr_assert_eq(tn__array_index(b->arrays[x], 1, k, &part), TN_OK);
  copy(row, part);
  release(row, part, NULL);
}

/* Row i of one becomes column k of the other. */
static void step_back(board *b, int y, int x) {
  int i = draw(b, SIDE), k = draw(b, SIDE);
  float row[SIDE];
  tn_array *column = NULL, *part = NULL;
  memcpy(row, b->model[x][i], sizeof row);
  for (int n = 0; n < SIDE; ++n) b->model[y][n][k] = row[n];
  cr_assert_eq(tn__array_index(b->arrays[y], 1, k, &column), TN_OK);
  cr_assert_eq(tn__array_index(b->arrays[x], 0, i, &part), TN_OK);
  copy(column, part);
  release(column, part, NULL);
}

static void step(board *b) {
  int y = draw(b, ARRAYS), x = draw(b, ARRAYS);
  switch (draw(b, 8)) {
    case 0:
      step_set(b, y);
      break;
    case 1:
      step_part(b, y, x);
      break;
    case 2:
      step_back(b, y, x);
      break;
    default:
      step_copy(b, y, x);
  }
}

static void chain(uint64_t seed) {
  tn__device *const devices[] = {cpu, first, second};
  board b = {.state = seed};
  for (int i = 0; i < ARRAYS; ++i) {
    b.arrays[i] = make(devices[i % 3], SHAPE(SIDE, SIDE));
    step_set(&b, i);
  }
  for (int i = 0; i < CHAIN; ++i) step(&b);
  for (int i = 0; i < ARRAYS; ++i) {
    expect(b.arrays[i], SIDE * SIDE, &b.model[i][0][0]);
    tn__array_release(b.arrays[i]);
  }
}

Test(device, chains_of_copies_end_as_if_made_one_by_one) {
  for (uint64_t seed = 1; seed <= 5; ++seed) chain(seed);
}

static void *chain_of_thread(void *seed) {
  chain(*(const uint64_t *)seed);
  return NULL;
}

Test(device, chains_of_two_threads_do_not_disturb_each_other) {
  const uint64_t seeds[] = {31, 37};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    cr_assert_eq(pthread_create(&threads[i], NULL, chain_of_thread,
                                (void *)(uintptr_t)&seeds[i]),
                 0);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
}

Test(device_quick, chains_without_latency, .fini = teardown) {
  open_with(&(fake_options){.count = 2});
  for (uint64_t seed = 1; seed <= 5; ++seed) chain(seed * 7919);
}

/* --------------------------------------------------------- several of the cpu
 */

static void open_cpus(void) {
  world_cpus = 2;
  world_open();
  cpu = w.env.cpu;
  cr_assert_eq(tn__device_parse(w.devices, "cpu(1)", &second), TN_OK);
}

TestSuite(cpus, .init = open_cpus, .fini = world_close);

/* Also the calls that are like one before. */
Test(cpus, results_lie_where_the_inputs_of_their_calls_do) {
  tn__device *const places[] = {cpu, second, cpu, second};
  for (int k = 0; k < 4; ++k) {
    tn_array *x = make_six(places[k]);
    for (int i = 0; i < 3; ++i) {
      tn_array *y = NULL;
      cr_assert_eq(call("probe.all", IN(x), &y), TN_OK, "%s", tn_error_text());
      cr_assert_eq(y->block->device, places[k], "call %d of place %d", i, k);
      cr_assert_eq(y->tensor.device_id, places[k]->id);
      expect(y, VALUES(0, 2, 4, 6, 8, 10));
      tn__array_release(y);
    }
    tn__array_release(x);
  }
}

/* Also when there were calls like it on each of them. */
Test(cpus, calls_across_places_are_refused_with_both) {
  tn_array *x = make_six(cpu), *y = make_six(second), *z = NULL;
  for (int k = 0; k < 3; ++k) {
    cr_assert_eq(call("probe.fan", IN(x, y), &z), TN_DEVICE);
    EXPECT_TEXT("probe.fan@1", "lies on cpu(1)", "lie on cpu(0)");
    cr_assert_eq(call("probe.all", IN(x), &y), TN_DEVICE);
    EXPECT_TEXT("output `out` lies on cpu(1)", "lie on cpu(0)");
    tn_array *a = NULL, *b = NULL;
    cr_assert_eq(call("probe.fan", IN(x, x), &a), TN_OK, "%s", tn_error_text());
    cr_assert_eq(call("probe.fan", IN(y, y), &b), TN_OK, "%s", tn_error_text());
    release(a, b, NULL);
  }
  release(x, y, z);
}
