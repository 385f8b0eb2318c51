/* SPDX-License-Identifier: Apache-2.0
 * Copies between arrays: any strides, overlapping parts, other dtypes. Also all
 * operations on arrays without elements or without dimensions.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "fixture.h"

TestSuite(transfer, .init = world_open, .fini = world_close);

static tn_array *slice_array(tn_array *x, int32_t axis, int64_t begin,
                             int64_t end, int64_t step) {
  tn_array *view = NULL;
  const tn_range range = {axis, 0, begin, end, step};
  cr_assert_eq(tn__array_slice(x, &range, &view), TN_OK, "%s", tn_error_text());
  return view;
}

static void copy_array(tn_array *to, tn_array *from) {
  cr_assert_eq(tn__array_copy(to, from), TN_OK, "%s", tn_error_text());
}

static void release_all(tn_array *a, tn_array *b, tn_array *c) {
  tn__array_release(a);
  tn__array_release(b);
  tn__array_release(c);
}

Test(transfer, copies_between_any_strides) {
  tn_array *x = floats(SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5)), *t = NULL;
  tn_array *y = floats(SHAPE(3, 4), VALUES(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  tn_array *columns = slice_array(y, 1, 3, INT64_MIN, -2);
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  copy_array(columns, t);
  expect(y, VALUES(0, 3, 0, 0, 0, 4, 0, 1, 0, 5, 0, 2));
  release_all(x, t, columns);
  tn__array_release(y);
}

Test(transfer, repeats_the_elements_of_a_broadcast_view) {
  tn_array *x = floats(SHAPE(2, 1), VALUES(1, 2)), *b = NULL;
  tn_array *y = empty(TN_F32, SHAPE(2, 3));
  cr_assert_eq(tn__array_broadcast(x, SHAPE(2, 3), &b), TN_OK);
  copy_array(y, b);
  expect(y, VALUES(1, 1, 1, 2, 2, 2));
  cr_assert_eq(tn__array_copy(b, y), TN_INVALID);
  EXPECT_TEXT("repeats elements");
  release_all(x, b, y);
}

static void copy_shifted(int64_t to, int64_t from, int64_t step, size_t n,
                         const float *values) {
  tn_array *x = floats(SHAPE(5), VALUES(0, 1, 2, 3, 4));
  tn_array *y = slice_array(x, 0, to, to + 4, 1);
  tn_array *z = step > 0 ? slice_array(x, 0, from, from + 4, 1)
                         : slice_array(x, 0, from + 3, from - 6, -1);
  copy_array(y, z);
  expect(x, n, values);
  release_all(x, y, z);
}

Test(transfer, parts_of_an_array_may_overlap) {
  copy_shifted(1, 0, 1, VALUES(0, 0, 1, 2, 3));
  copy_shifted(0, 1, 1, VALUES(1, 2, 3, 4, 4));
  copy_shifted(1, 0, -1, VALUES(0, 3, 2, 1, 0));
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)), *t = NULL;
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  copy_array(x, t);
  expect(x, VALUES(1, 3, 2, 4));
  release_all(x, t, NULL);
}

Test(transfer, parts_of_an_array_that_do_not_overlap) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4));
  tn_array *upper = slice_array(x, 0, 0, 1, 1),
           *lower = slice_array(x, 0, 1, 2, 1);
  copy_array(upper, lower);
  expect(x, VALUES(3, 4, 3, 4));
  release_all(x, upper, lower);
}

Test(transfer, a_copy_onto_itself_does_nothing) {
  tn_array *x = floats(SHAPE(2), VALUES(1, 2)),
           *view = slice_array(x, 0, 0, 2, 1);
  uint64_t before = tn__array_watch(x);
  copy_array(view, x);
  copy_array(x, x);
  cr_assert_eq(tn__array_watch(x), before);
  expect(x, VALUES(1, 2));
  release_all(x, view, NULL);
}

Test(transfer, refuses_other_shapes_and_other_runtimes) {
  tn_array *x = floats(SHAPE(2), VALUES(1, 2)), *y = empty(TN_I8, SHAPE(2, 1));
  cr_assert_eq(tn__array_copy(y, x), TN_SHAPE);
  EXPECT_TEXT("f32 (2)", "i8 (2,1)", "must be equal");
  tn__env other = w.env;
  tn_array *z = NULL;
  cr_assert_eq(
      tn__array_create(&w.env, &(tn_spec){TN_F32, 1, (int64_t[]){2}}, &z),
      TN_OK);
  z->env = &other;
  cr_assert_eq(tn__array_copy(z, x), TN_INVALID);
  EXPECT_TEXT("different runtimes");
  z->env = &w.env;
  release_all(x, y, z);
}

Test(transfer, casts_into_a_new_dense_array) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1.5f, -2.5f, 300, 0)), *t = NULL;
  tn_array *y = NULL, *bad = x;
  int8_t got[4];
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  cr_assert_eq(tn__array_cast(t, TN_I8, &y), TN_OK);
  cr_assert(tn_tensor_is_contiguous(tn__array_tensor(y)));
  cr_assert_eq(tn__array_get(y, got, sizeof got), TN_OK);
  cr_assert(got[0] == 1 && got[1] == 127 && got[2] == -2 && got[3] == 0);
  cr_assert_eq(tn__array_cast(x, TN_DTYPE_MAKE(2, 24), &bad), TN_DTYPE);
  cr_assert_null(bad);
  release_all(x, t, y);
}

Test(transfer, an_array_that_was_never_written_is_zeros) {
  tn_array *x = empty(TN_I32, SHAPE(2)), *y = floats(SHAPE(2), VALUES(1, 2));
  copy_array(y, x);
  expect(y, VALUES(0, 0));
  cr_assert_null(tn__array_data(x));
  release_all(x, y, NULL);
}

Test(transfer, moves_to_a_device) {
  tn_array *x = floats(SHAPE(2), VALUES(1, 2)), *y = NULL;
  cr_assert_eq(tn__array_to(x, w.env.cpu, &y), TN_OK);
  cr_assert_neq(y->block, x->block);
  cr_assert_eq(tn__array_tensor(y)->device_type, TN_DEVICE_CPU);
  expect(y, VALUES(1, 2));
  release_all(x, y, NULL);
}

/* --------------------------------------------------------- nothing, and one */

Test(transfer, arrays_without_elements_go_everywhere) {
  tn_array *x = empty(TN_F32, SHAPE(2, 0)), *y = empty(TN_I64, SHAPE(2, 0));
  tn_array *z = NULL, *t = NULL, *row = NULL;
  char nothing = 0;
  copy_array(y, x);
  cr_assert_eq(tn__array_cast(x, TN_BOOL, &z), TN_OK);
  cr_assert_eq(tn__array_get(z, &nothing, 0), TN_OK);
  tn__array_release(z);
  cr_assert_eq(tn__array_to(x, w.env.cpu, &z), TN_OK);
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  cr_assert_eq(tn__array_index(x, 0, 1, &row), TN_OK);
  cr_assert_eq(tn__array_set(row, &nothing, 0), TN_OK);
  cr_assert_eq(tn__array_wait(t, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert_eq(tn__array_materialise(x), TN_OK);
  release_all(x, y, z);
  release_all(t, row, NULL);
}

Test(transfer, arrays_without_dimensions_go_everywhere) {
  tn_array *x = scalar(5), *y = empty(TN_I16, 0, NULL), *z = NULL, *t = NULL;
  int16_t got = 0;
  copy_array(y, x);
  cr_assert_eq(tn__array_get(y, &got, sizeof got), TN_OK);
  cr_assert_eq(got, 5);
  cr_assert_eq(tn__array_cast(y, TN_F32, &z), TN_OK);
  expect(z, VALUES(5));
  cr_assert_eq(tn__array_transpose(z, NULL, &t), TN_OK);
  copy_array(t, x);
  expect(z, VALUES(5));
  release_all(x, y, z);
  tn__array_release(t);
}

/* --------------------------------------------------------------- much of it */

enum { ROWS = 700, COLUMNS = 900 };

static float value_at(const float *values, int64_t i, int64_t k) {
  return values[i * COLUMNS + k];
}

/* Enough elements to divide among the workers, in every order. */
static void copies_much(void) {
  float *values = malloc(sizeof(float[ROWS * COLUMNS]));
  double *got = malloc(sizeof(double[ROWS * COLUMNS]));
  for (int64_t i = 0; i < ROWS * COLUMNS; ++i) values[i] = (float)i;
  tn_array *x = empty(TN_F32, SHAPE(ROWS, COLUMNS)), *t = NULL;
  tn_array *same = empty(TN_F32, SHAPE(ROWS, COLUMNS)), *y = NULL, *z = NULL;
  size_t bytes = sizeof(float[ROWS * COLUMNS]);
  cr_assert_eq(tn__array_set(x, values, bytes), TN_OK);
  copy_array(same, x);
  cr_assert_eq(tn__array_transpose(same, NULL, &t), TN_OK);
  cr_assert_eq(tn__array_cast(t, TN_F64, &y), TN_OK);
  cr_assert_eq(tn__array_get(y, got, 2 * bytes), TN_OK);
  for (int64_t i = 0; i < ROWS; ++i)
    for (int64_t k = 0; k < COLUMNS; ++k)
      cr_assert_eq(got[k * ROWS + i], (double)value_at(values, i, k));
  z = slice_array(same, 1, -1, INT64_MIN, -1);
  copy_array(z, same); /* each row is reversed, in place */
  cr_assert_eq(tn__array_get(same, got, bytes), TN_OK);
  for (int64_t i = 0; i < ROWS; ++i)
    for (int64_t k = 0; k < COLUMNS; ++k)
      cr_assert_eq(value_at((float *)(void *)got, i, k),
                   value_at(values, i, COLUMNS - 1 - k));
  release_all(x, same, t);
  release_all(y, z, NULL);
  free(values);
  free(got);
}

Test(transfer, divides_large_copies_among_the_workers) {
  copies_much();
}

Test(transfer_naive, does_the_same_on_one_thread, .fini = world_close) {
  world_open_with(&(tn__engine_options){.kind = TN__ENGINE_NAIVE});
  copies_much();
}

Test(transfer_dispatched, does_the_same_on_workers, .fini = world_close) {
  world_open_with(&(tn__engine_options){.workers = 1, .dispatch = 1});
  copies_much();
}

/* ----------------------------------------------------------- without memory */

Test(transfer, survives_every_failing_allocation) {
  tn_array *x = floats(SHAPE(4), VALUES(1, 2, 3, 4));
  tn_array *head = slice_array(x, 0, 0, 3, 1),
           *tail = slice_array(x, 0, 1, 4, 1);
  tn_code rc = TN_OUT_OF_MEMORY;
  for (int64_t n = 1; rc; ++n) {
    const float values[] = {1, 2, 3, 4};
    tn_array *y = NULL;
    w.memory.fail_at = w.memory.asked + n;
    rc = tn__array_cast(x, TN_F64, &y);
    if (!rc) rc = tn__array_copy(head, tail);
    if (!rc) rc = tn__array_wait(x, TN__WAIT_WRITERS, TN__FOREVER);
    w.memory.fail_at = 0;
    if (!rc) expect(x, VALUES(2, 3, 4, 4));
    cr_assert(rc == TN_OK || rc == TN_OUT_OF_MEMORY);
    cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK);
    tn__array_release(y);
  }
  release_all(x, head, tail);
}
