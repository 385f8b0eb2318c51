/* SPDX-License-Identifier: Apache-2.0
 * Arrays: allowed specs, memory that is allocated late, copies in and out, and
 * owners.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "fixture.h"

TestSuite(array, .init = world_open, .fini = world_close);

Test(array, allocates_memory_at_its_first_write) {
  const float values[] = {1, 2, 3, 4};
  tn_array *x = empty(TN_F32, SHAPE(2, 2));
  cr_assert_null(tn__array_tensor(x)->data);
  cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK);
  cr_assert_not_null(tn__array_tensor(x)->data);
  cr_assert_eq((uintptr_t)tn__array_tensor(x)->data % 64, 0);
  expect(x, VALUES(1, 2, 3, 4));
  tn__array_release(x);
}

Test(array, reads_as_zeros_before_its_first_write) {
  tn_array *x = empty(TN_F32, SHAPE(2));
  expect(x, VALUES(0, 0));
  tn__array_release(x);
}

Test(array, is_dense_and_row_major) {
  tn_array *x = empty(TN_F64, SHAPE(2, 3, 4));
  const tn_tensor *t = tn__array_tensor(x);
  cr_assert_eq(t->ndim, 3);
  cr_assert_eq(t->strides[0], 12);
  cr_assert_eq(t->strides[1], 4);
  cr_assert_eq(t->strides[2], 1);
  cr_assert_eq(t->device_type, TN_DEVICE_CPU);
  tn__array_release(x);
}

Test(array, may_have_no_dimensions_or_no_elements) {
  tn_array *x = scalar(5), *y = empty(TN_F32, SHAPE(3, 0, 2));
  char nothing = 0;
  expect(x, VALUES(5));
  cr_assert_eq(tn__array_set(y, &nothing, 0), TN_OK);
  cr_assert_eq(tn__array_get(y, &nothing, 0), TN_OK);
  cr_assert_null(tn__array_tensor(y)->data);
  cr_assert_eq(tn_tensor_size(tn__array_tensor(y)), 0);
  tn__array_release(x);
  tn__array_release(y);
}

Test(array, refuses_a_wrong_number_of_bytes) {
  float values[3] = {0};
  tn_array *x = empty(TN_F32, SHAPE(2));
  cr_assert_eq(tn__array_set(x, values, 12), TN_INVALID);
  EXPECT_TEXT("12 bytes", "2 elements of f32", "8 bytes");
  cr_assert_eq(tn__array_get(x, values, 4), TN_INVALID);
  EXPECT_TEXT("4 bytes", "8 bytes");
  tn__array_release(x);
}

static void expect_refusal(tn_dtype dtype, int32_t ndim, const int64_t *shape,
                           tn_code code, const char *part) {
  tn_array *x = (tn_array *)&w;
  const tn_spec spec = {dtype, ndim, shape};
  cr_assert_eq(tn__array_create(&w.env, &spec, &x), code);
  cr_assert_null(x);
  EXPECT_TEXT(part);
}

Test(array, refuses_impossible_specs) {
  const int64_t large[] = {INT64_MAX, INT64_MAX}, negative[] = {2, -3};
  const int64_t hidden[] = {0, INT64_MAX, INT64_MAX}, ok[] = {2};
  expect_refusal(TN_F32, 2, large, TN_OUT_OF_RANGE, "9223372036854775807");
  expect_refusal(TN_F32, 3, hidden, TN_OUT_OF_RANGE, "9223372036854775807");
  expect_refusal(TN_F32, 2, negative, TN_INVALID,
                 "dimension 1 of an array is -3");
  expect_refusal(TN_F32, -1, ok, TN_INVALID, "-1 dimensions");
  expect_refusal(TN_F32, 17, ok, TN_INVALID, "17 dimensions");
  expect_refusal(TN_F32, 1, NULL, TN_INVALID, "NULL");
  expect_refusal(TN_DTYPE_MAKE(2, 24), 1, ok, TN_DTYPE, "0x11802");
  expect_refusal(TN_DTYPE_UNKNOWN, 1, ok, TN_DTYPE, "0x0");
}

static int owners;

static void count_retain(void *owner) {
  ++*(int *)owner;
}

static void count_release(void *owner) {
  --*(int *)owner;
}

Test(array, keeps_its_owner_alive_until_the_last_view_is_gone) {
  tn_array *x = NULL, *row = NULL;
  const int64_t shape[] = {2, 2};
  const float values[] = {1, 2, 3, 4};
  w.env.owner = &owners;
  w.env.retain = count_retain;
  w.env.release = count_release;
  cr_assert_eq(tn__array_create(&w.env, &(tn_spec){TN_F32, 2, shape}, &x),
               TN_OK);
  cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK);
  cr_assert_eq(tn__array_index(x, 0, 1, &row), TN_OK);
  cr_assert_eq(owners, 2);
  tn__array_release(x);
  cr_assert_eq(owners, 1);
  expect(row, VALUES(3, 4));
  tn__array_release(row);
  cr_assert_eq(owners, 0);
}

Test(array, survives_every_failing_allocation) {
  const float values[] = {1, 2};
  const int64_t shape[] = {2};
  for (int64_t n = 1;; ++n) {
    tn_array *x = NULL;
    w.memory.fail_at = w.memory.asked + n;
    tn_code rc = tn__array_create(&w.env, &(tn_spec){TN_F32, 1, shape}, &x);
    if (!rc) rc = tn__array_set(x, values, sizeof values);
    w.memory.fail_at = 0;
    if (!rc) expect(x, VALUES(1, 2));
    tn__array_release(x);
    if (!rc) {
      cr_assert_gt(n, 1);
      break;
    }
    cr_assert_eq(rc, TN_OUT_OF_MEMORY);
  }
}
