/* SPDX-License-Identifier: Apache-2.0
 * Arrays on devices. The devices compute late and in a random order, and notice
 * a read without a wait (tests/storage/fake.h).
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "fake_end.h"
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

static void open_devices(void) {
  open_with(&(fake_options){.count = 2, .latency_us = 50, .seed = 7});
}

static void close_devices(void) {
  world_close();
  end_fake(f);
}

TestSuite(device, .init = open_devices, .fini = close_devices);

static tn_array *create_array(tn__device *device, size_t ndim,
                              const int64_t *shape) {
  tn_array *x = NULL;
  cr_assert_eq(
      tn__array_create_on(device, &(tn_spec){TN_F32, (int32_t)ndim, shape}, &x),
      TN_OK, "%s", tn_error_text());
  return x;
}

static tn_array *make_six(tn__device *device) {
  const float values[] = {0, 1, 2, 3, 4, 5};
  tn_array *x = create_array(device, SHAPE(2, 3));
  cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK, "%s",
               tn_error_text());
  return x;
}

static tn_array *copy_to(tn_array *x, tn__device *device) {
  tn_array *y = NULL;
  cr_assert_eq(tn__array_to(x, device, &y), TN_OK, "%s", tn_error_text());
  return y;
}

static void copy_array(tn_array *y, tn_array *x) {
  cr_assert_eq(tn__array_copy(y, x), TN_OK, "%s", tn_error_text());
}

static tn_array *slice_array(tn_array *x, int32_t axis, int64_t begin,
                             int64_t end, int64_t step) {
  tn_array *view = NULL;
  const tn_range range = {axis, 0, begin, end, step};
  cr_assert_eq(tn__array_slice(x, &range, &view), TN_OK, "%s", tn_error_text());
  return view;
}

static void release_all(tn_array *a, tn_array *b, tn_array *c) {
  tn__array_release(a);
  tn__array_release(b);
  tn__array_release(c);
}

Test(device, arrays_know_where_they_are) {
  tn_array *x = create_array(second, SHAPE(2)),
           *view = slice_array(x, 0, 0, 1, 1);
  const tn_tensor *t = tn__array_tensor(x);
  cr_assert(t->device_type == TN_DEVICE_EXT && t->device_id == 1);
  tn_tensor metadata = tn__array_metadata(view);
  cr_assert(metadata.device_type == TN_DEVICE_EXT && metadata.device_id == 1);
  cr_assert_eq(x->env, &w.env);
  release_all(x, view, NULL);
}

Test(device, elements_go_in_and_out) {
  tn_array *x = make_six(first);
  expect(x, VALUES(0, 1, 2, 3, 4, 5));
  tn__array_release(x);
}

Test(device, set_no_longer_uses_the_callers_memory_when_it_returns) {
  float values[] = {1, 2};
  tn_array *x = create_array(first, SHAPE(2));
  for (int i = 0; i < 20; ++i) {
    values[0] = (float)i;
    cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK);
    values[0] = -1;
    expect(x, VALUES((float)i, 2));
  }
  tn__array_release(x);
}

Test(device, an_array_that_was_never_written_reads_as_zeros) {
  tn_array *x = create_array(first, SHAPE(2)), *y = copy_to(x, second),
           *z = copy_to(y, cpu);
  expect(x, VALUES(0, 0));
  expect(y, VALUES(0, 0));
  expect(z, VALUES(0, 0));
  release_all(x, y, z);
}

Test(device, copies_go_from_device_to_device) {
  tn_array *x = make_six(cpu), *a = copy_to(x, first), *b = copy_to(a, second);
  tn_array *c = copy_to(b, second), *y = copy_to(c, cpu);
  release_all(a, b, c);
  expect(y, VALUES(0, 1, 2, 3, 4, 5));
  release_all(x, y, NULL);
}

Test(device, a_copy_has_the_elements_of_its_push) {
  const float later[] = {9, 9, 9, 9, 9, 9};
  tn_array *x = make_six(cpu);
  fake_hold(f);
  tn_array *y = copy_to(x, first);
  cr_assert_eq(tn__array_wait(y, TN__WAIT_WRITERS, 1000000), TN_BUSY);
  cr_assert_eq(tn__array_wait(x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
  cr_assert_eq(tn__array_wait(x, TN__WAIT_ALL, 1000000), TN_BUSY);
  fake_go(f);
  cr_assert_eq(tn__array_set(x, later, sizeof later), TN_OK);
  expect(y, VALUES(0, 1, 2, 3, 4, 5));
  release_all(x, y, NULL);
}

/* ------------------------------------------------------------------ strides */

Test(device, views_are_read_through_the_host) {
  tn_array *x = make_six(first), *t = NULL;
  tn_array *back = slice_array(x, 1, -1, INT64_MIN, -2);
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  expect(t, VALUES(0, 3, 1, 4, 2, 5));
  expect(back, VALUES(2, 0, 5, 3));
  tn_array *y = copy_to(back, second);
  expect(y, VALUES(2, 0, 5, 3));
  release_all(x, t, back);
  tn__array_release(y);
}

Test(device, views_are_written_and_leave_elements_between_them) {
  const float column[] = {10, 40};
  tn_array *x = make_six(first), *middle = slice_array(x, 1, 1, 2, 1),
           *t = NULL;
  cr_assert_eq(tn__array_set(middle, column, sizeof column), TN_OK);
  expect(x, VALUES(0, 10, 2, 3, 40, 5));
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  tn_array *y = floats(SHAPE(3, 2), VALUES(1, 2, 3, 4, 5, 6));
  copy_array(t, y);
  expect(x, VALUES(1, 3, 5, 2, 4, 6));
  release_all(x, middle, t);
  tn__array_release(y);
}

/* No element goes through the host. */
Test(device, views_are_copied_on_their_device) {
  tn_array *x = make_six(first), *t = NULL,
           *y = create_array(first, SHAPE(3, 2));
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  cr_assert_eq(tn__wait_all(w.env.engine), TN_OK);
  const fake_counts before = fake_counts_get(f);
  copy_array(y, t);
  cr_assert_eq(tn__wait_all(w.env.engine), TN_OK);
  const fake_counts after = fake_counts_get(f);
  cr_assert_eq(after.copies, before.copies);
  cr_assert_eq(after.launches, before.launches + 1);
  expect(y, VALUES(0, 3, 1, 4, 2, 5));
  release_all(x, t, y);
}

Test(device, parts_of_an_array_may_overlap) {
  tn_array *x = make_six(first), *line = NULL;
  cr_assert_eq(tn__array_reshape(x, SHAPE(6), &line), TN_OK);
  tn_array *head = slice_array(line, 0, 0, 5, 1),
           *tail = slice_array(line, 0, 1, 6, 1);
  copy_array(tail, head);
  expect(x, VALUES(0, 0, 1, 2, 3, 4));
  release_all(head, tail, line);
  tn__array_release(x);
}

Test(device, parts_of_an_array_that_do_not_overlap) {
  tn_array *x = make_six(first);
  tn_array *upper = slice_array(x, 0, 0, 1, 1),
           *lower = slice_array(x, 0, 1, 2, 1);
  copy_array(upper, lower);
  expect(x, VALUES(3, 4, 5, 3, 4, 5));
  release_all(x, upper, lower);
}

Test(device, casts_during_a_copy) {
  tn_array *x = make_six(first), *y = NULL;
  int8_t got[6];
  cr_assert_eq(tn__array_cast(x, TN_I8, &y), TN_OK);
  cr_assert_eq(tn__array_tensor(y)->device_type, TN_DEVICE_EXT);
  cr_assert_eq(tn__array_get(y, got, sizeof got), TN_OK);
  cr_assert(got[0] == 0 && got[5] == 5);
  release_all(x, y, NULL);
}

Test(device, arrays_of_zero_and_one_elements_go_everywhere) {
  tn_array *none = create_array(first, SHAPE(0, 2)),
           *there = copy_to(none, second);
  tn_array *one = create_array(first, 0, NULL), *back = NULL;
  const float value = 4;
  char nothing = 0;
  cr_assert_eq(tn__array_set(none, &nothing, 0), TN_OK);
  cr_assert_eq(tn__array_get(there, &nothing, 0), TN_OK);
  cr_assert_eq(tn__array_set(one, &value, sizeof value), TN_OK);
  back = copy_to(one, cpu);
  expect(back, VALUES(4));
  release_all(none, there, one);
  tn__array_release(back);
}

/* ----------------------------------------------------------------- failures */

Test(device, failures_of_the_device_reach_the_host) {
  tn_array *x = make_six(cpu), *y = create_array(first, SHAPE(2, 3)), *z = NULL;
  float got[6];
  fake_break(f, "the fan fell off");
  copy_array(y, x);
  cr_assert_eq(tn__array_wait(y, TN__WAIT_WRITERS, TN__FOREVER), TN_DEVICE);
  EXPECT_TEXT("the fan fell off");
  cr_assert_eq(tn__array_get(y, got, sizeof got), TN_DEVICE);
  EXPECT_TEXT("the fan fell off");
  tn_code rc = tn__array_to(y, cpu, &z);
  if (!rc) rc = tn__array_get(z, got, sizeof got);
  cr_assert_eq(rc, TN_DEVICE);
  EXPECT_TEXT("the fan fell off");
  expect(x, VALUES(0, 1, 2, 3, 4, 5));
  release_all(x, y, z);
}

Test(device, refusals_of_a_device_travel) {
  tn_array *x = make_six(cpu), *y = make_six(first);
  fake_refuse(f, 1);
  tn_code rc = tn__array_copy(y, x);
  cr_assert(rc == TN_OK || rc == TN_DEVICE);
  cr_assert_eq(tn__array_wait(y, TN__WAIT_WRITERS, TN__FOREVER), TN_DEVICE);
  copy_array(y, x);
  expect(y, VALUES(0, 1, 2, 3, 4, 5));
  release_all(x, y, NULL);
}

Test(device_small, reports_that_it_has_no_memory, .fini = close_devices) {
  static float values[5000];
  open_with(&(fake_options){.count = 2, .bytes = 30000});
  tn_array *x = create_array(first, SHAPE(5000)),
           *y = create_array(first, SHAPE(5000));
  cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__array_set(y, values, sizeof values), TN_OUT_OF_MEMORY);
  EXPECT_TEXT("20000 bytes", "fake(0)");
  tn__array_release(x);
  cr_assert_eq(tn__array_set(y, values, sizeof values), TN_OK, "%s",
               tn_error_text());
  tn__array_release(y);
}

/* ------------------------------------------------------------------- chains */

enum { ARRAYS = 6, SIDE = 4, CHAIN = 400 };

typedef struct board {
  tn_array *arrays[ARRAYS];
  float model[ARRAYS][SIDE][SIDE];
  uint64_t state;
} board;

/* xorshift64*: any reproducible sequence is good enough. */
static int draw_number(board *b, uint32_t n) {
  b->state ^= b->state >> 12;
  b->state ^= b->state << 25;
  b->state ^= b->state >> 27;
  return (int)((b->state * 2685821657736338717ull >> 33) % n);
}

static void step_set(board *b, int y) {
  for (int i = 0; i < SIDE; ++i)
    for (int k = 0; k < SIDE; ++k)
      b->model[y][i][k] = (float)draw_number(b, 1000);
  cr_assert_eq(tn__array_set(b->arrays[y], b->model[y], sizeof b->model[y]),
               TN_OK, "%s", tn_error_text());
}

static void step_copy(board *b, int y, int x) {
  memmove(b->model[y], b->model[x], sizeof b->model[y]);
  copy_array(b->arrays[y], b->arrays[x]);
}

/* Column k of one becomes row i of the other. */
static void step_part(board *b, int y, int x) {
  int i = draw_number(b, SIDE), k = draw_number(b, SIDE);
  float column[SIDE];
  tn_array *row = NULL, *part = NULL;
  for (int n = 0; n < SIDE; ++n) column[n] = b->model[x][n][k];
  memcpy(b->model[y][i], column, sizeof column);
  cr_assert_eq(tn__array_index(b->arrays[y], 0, i, &row), TN_OK);
  cr_assert_eq(tn__array_index(b->arrays[x], 1, k, &part), TN_OK);
  copy_array(row, part);
  release_all(row, part, NULL);
}

/* Row i of one becomes column k of the other. */
static void step_back(board *b, int y, int x) {
  int i = draw_number(b, SIDE), k = draw_number(b, SIDE);
  float row[SIDE];
  tn_array *column = NULL, *part = NULL;
  memcpy(row, b->model[x][i], sizeof row);
  for (int n = 0; n < SIDE; ++n) b->model[y][n][k] = row[n];
  cr_assert_eq(tn__array_index(b->arrays[y], 1, k, &column), TN_OK);
  cr_assert_eq(tn__array_index(b->arrays[x], 0, i, &part), TN_OK);
  copy_array(column, part);
  release_all(column, part, NULL);
}

static void run_step(board *b) {
  int y = draw_number(b, ARRAYS), x = draw_number(b, ARRAYS);
  switch (draw_number(b, 8)) {
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

static void run_chain(uint64_t seed) {
  tn__device *const devices[] = {cpu, first, second};
  board b = {.state = seed};
  for (int i = 0; i < ARRAYS; ++i) {
    b.arrays[i] = create_array(devices[i % 3], SHAPE(SIDE, SIDE));
    step_set(&b, i);
  }
  for (int i = 0; i < CHAIN; ++i) run_step(&b);
  for (int i = 0; i < ARRAYS; ++i) {
    expect(b.arrays[i], SIDE * SIDE, &b.model[i][0][0]);
    tn__array_release(b.arrays[i]);
  }
}

Test(device, chains_of_copies_end_as_one_by_one) {
  for (uint64_t seed = 1; seed <= 5; ++seed) run_chain(seed);
}

static void *chain_of_thread(void *seed) {
  run_chain(*(const uint64_t *)seed);
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

Test(device_quick, chains_without_latency, .fini = close_devices) {
  open_with(&(fake_options){.count = 2});
  for (uint64_t seed = 1; seed <= 5; ++seed) run_chain(seed * 7919);
}

/* ------------------------------------------------------- several of the cpu */

static void open_cpus(void) {
  world_cpus = 2;
  world_open();
  cpu = w.env.cpu;
  cr_assert_eq(tn__device_parse(w.devices, "cpu(1)", &second), TN_OK);
}

TestSuite(cpus, .init = open_cpus, .fini = world_close);

/* Includes calls like an earlier one. */
Test(cpus, results_are_on_the_device_of_their_inputs) {
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

/* Includes the case of earlier calls like it on each device. */
Test(cpus, calls_across_devices_are_refused_with_both_names) {
  tn_array *x = make_six(cpu), *y = make_six(second), *z = NULL;
  for (int k = 0; k < 3; ++k) {
    cr_assert_eq(call("probe.fan", IN(x, y), &z), TN_DEVICE);
    EXPECT_TEXT("probe.fan@1", "is on cpu(1)", "are on cpu(0)");
    cr_assert_eq(call("probe.all", IN(x), &y), TN_DEVICE);
    EXPECT_TEXT("output `out` is on cpu(1)", "are on cpu(0)");
    tn_array *a = NULL, *b = NULL;
    cr_assert_eq(call("probe.fan", IN(x, x), &a), TN_OK, "%s", tn_error_text());
    cr_assert_eq(call("probe.fan", IN(y, y), &b), TN_OK, "%s", tn_error_text());
    release_all(a, b, NULL);
  }
  release_all(x, y, z);
}
