/* SPDX-License-Identifier: Apache-2.0
 * Views. The expected elements are those of the same subscripts in NumPy, for x
 * = arange(6).reshape(2, 3).
 */
#include <criterion/criterion.h>

#include "fixture.h"

TestSuite(view, .init = world_open, .fini = world_close);

static tn_array *create_six(void) {
  return floats(SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5));
}

static tn_array *slice_array(tn_array *x, int32_t axis, int64_t begin,
                             int64_t end, int64_t step) {
  tn_array *view = NULL;
  const tn_range range = {axis, 0, begin, end, step};
  cr_assert_eq(tn__array_slice(x, &range, &view), TN_OK, "%s", tn_error_text());
  return view;
}

static void slice_is(int64_t begin, int64_t end, int64_t step, size_t n,
                     const float *values) {
  tn_array *x = floats(SHAPE(5), VALUES(0, 1, 2, 3, 4));
  tn_array *view = slice_array(x, 0, begin, end, step);
  cr_assert_eq(tn__array_tensor(view)->shape[0], (int64_t)n);
  expect(view, n, values);
  tn__array_release(view);
  tn__array_release(x);
}

Test(view, slice_takes_every_step_between_begin_and_end) {
  slice_is(1, 4, 1, VALUES(1, 2, 3));
  slice_is(1, 4, 0, VALUES(1, 2, 3));
  slice_is(0, 5, 2, VALUES(0, 2, 4));
  slice_is(-2, 5, 1, VALUES(3, 4));
  slice_is(0, -1, 3, VALUES(0, 3));
  slice_is(2, 2, 1, 0, NULL);
  slice_is(4, 1, 1, 0, NULL);
}

Test(view, slice_is_clipped_to_the_array) {
  slice_is(-100, 100, 1, VALUES(0, 1, 2, 3, 4));
  slice_is(INT64_MIN, INT64_MAX, 1, VALUES(0, 1, 2, 3, 4));
  slice_is(3, INT64_MAX, INT64_MAX, VALUES(3));
  slice_is(7, 9, 1, 0, NULL);
}

Test(view, slice_goes_backwards_with_a_negative_step) {
  slice_is(4, INT64_MIN, -1, VALUES(4, 3, 2, 1, 0));
  slice_is(-1, -6, -2, VALUES(4, 2, 0));
  slice_is(3, 1, -1, VALUES(3, 2));
  slice_is(100, INT64_MIN, INT64_MIN, VALUES(4));
}

Test(view, writes_reach_the_array_that_it_comes_from) {
  const float values[] = {20, 10};
  tn_array *x = create_six();
  tn_array *column = slice_array(x, 1, 1, 2, 1);
  tn_array *reversed = slice_array(column, 0, -1, INT64_MIN, -1);
  cr_assert_eq(tn__array_set(reversed, values, sizeof values), TN_OK);
  expect(x, VALUES(0, 10, 2, 3, 20, 5));
  tn__array_release(x);
  tn__array_release(column);
  expect(reversed, VALUES(20, 10));
  tn__array_release(reversed);
}

Test(view, created_before_there_is_memory_sees_it_later) {
  const float values[] = {1, 2, 3, 4};
  tn_array *x = empty(TN_F32, SHAPE(4)), *tail = slice_array(x, 0, 2, 4, 1);
  cr_assert_null(tn__array_tensor(tail)->data);
  cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK);
  cr_assert_eq((char *)tn__array_tensor(tail)->data,
               (char *)tn__array_tensor(x)->data + 8);
  expect(tail, VALUES(3, 4));
  tn__array_release(tail);
  tn__array_release(x);
}

Test(view, index_drops_the_axis) {
  tn_array *x = create_six(), *row = NULL, *column = NULL, *one = NULL;
  cr_assert_eq(tn__array_index(x, 0, -1, &row), TN_OK);
  expect(row, VALUES(3, 4, 5));
  cr_assert_eq(tn__array_index(x, -1, 1, &column), TN_OK);
  expect(column, VALUES(1, 4));
  cr_assert_eq(tn__array_index(column, 0, 1, &one), TN_OK);
  cr_assert_eq(tn__array_tensor(one)->ndim, 0);
  expect(one, VALUES(4));
  tn__array_release(one);
  cr_assert_eq(tn__array_index(x, 1, 3, &one), TN_OUT_OF_RANGE);
  EXPECT_TEXT("index 3", "axis 1", "3 elements");
  cr_assert_null(one);
  cr_assert_eq(tn__array_index(x, 2, 0, &one), TN_OUT_OF_RANGE);
  EXPECT_TEXT("no axis 2", "2 dimensions");
  tn__array_release(column);
  tn__array_release(row);
  tn__array_release(x);
}

Test(view, transpose_permutes_axes) {
  tn_array *x = create_six(), *t = NULL;
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  cr_assert_eq(tn__array_tensor(t)->shape[0], 3);
  expect(t, VALUES(0, 3, 1, 4, 2, 5));
  tn__array_release(t);
  cr_assert_eq(tn__array_transpose(x, (int32_t[]){0, -1}, &t), TN_OK);
  expect(t, VALUES(0, 1, 2, 3, 4, 5));
  tn__array_release(t);
  cr_assert_eq(tn__array_transpose(x, (int32_t[]){1, 1}, &t), TN_INVALID);
  EXPECT_TEXT("axis 1 occurs twice");
  tn__array_release(x);
}

Test(view, broadcast_repeats_dimensions_of_one) {
  tn_array *x = floats(SHAPE(2, 1), VALUES(1, 2)), *b = NULL;
  cr_assert_eq(tn__array_broadcast(x, SHAPE(2, 2, 3), &b), TN_OK);
  expect(b, VALUES(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2));
  cr_assert_eq(tn__array_set(b, &w, 48), TN_INVALID);
  EXPECT_TEXT("repeats elements");
  tn__array_release(b);
  cr_assert_eq(tn__array_broadcast(x, SHAPE(3, 3), &b), TN_SHAPE);
  EXPECT_TEXT("2 elements", "broadcast to 3");
  cr_assert_eq(tn__array_broadcast(x, SHAPE(2), &b), TN_SHAPE);
  cr_assert_eq(tn__array_broadcast(x, SHAPE(-1, 2, 3), &b), TN_OUT_OF_RANGE);
  cr_assert_eq(tn__array_broadcast(x, SHAPE(INT64_MAX, 2, INT64_MAX), &b),
               TN_OUT_OF_RANGE);
  tn__array_release(x);
}

Test(view, broadcast_may_repeat_zero_times) {
  tn_array *x = scalar(3), *b = NULL;
  cr_assert_eq(tn__array_broadcast(x, SHAPE(0, 2), &b), TN_OK);
  cr_assert_eq(tn_tensor_size(tn__array_tensor(b)), 0);
  tn__array_release(b);
  tn__array_release(x);
}

static void reshape_is(tn_array *x, size_t ndim, const int64_t *shape, size_t n,
                       const float *values) {
  tn_array *view = NULL;
  cr_assert_eq(tn__array_reshape(x, (int32_t)ndim, shape, &view), TN_OK, "%s",
               tn_error_text());
  expect(view, n, values);
  cr_assert_eq(view->block, x->block);
  tn__array_release(view);
}

Test(view, reshape_keeps_the_order_of_elements) {
  tn_array *x = create_six();
  reshape_is(x, SHAPE(3, 2), VALUES(0, 1, 2, 3, 4, 5));
  reshape_is(x, SHAPE(-1), VALUES(0, 1, 2, 3, 4, 5));
  reshape_is(x, SHAPE(1, 2, 1, -1, 1), VALUES(0, 1, 2, 3, 4, 5));
  tn__array_release(x);
}

Test(view, reshape_of_a_view_splits_and_merges_where_strides_allow) {
  tn_array *x =
      floats(SHAPE(2, 2, 3), VALUES(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  tn_array *last = NULL, *t = NULL, *none = NULL;
  cr_assert_eq(tn__array_index(x, 2, 2, &last), TN_OK); /* strides 6, 3 */
  reshape_is(last, SHAPE(4), VALUES(2, 5, 8, 11));
  cr_assert_eq(tn__array_transpose(last, NULL, &t), TN_OK);
  reshape_is(t, SHAPE(2, 1, 2), VALUES(2, 8, 5, 11));
  cr_assert_eq(tn__array_reshape(t, SHAPE(4), &none), TN_INVALID);
  EXPECT_TEXT("without a copy");
  cr_assert_null(none);
  tn_array *back = slice_array(last, 1, -1, INT64_MIN, -1);
  reshape_is(back, SHAPE(2, 2, 1), VALUES(5, 2, 11, 8));
  tn__array_release(back);
  tn__array_release(t);
  tn__array_release(last);
  tn__array_release(x);
}

Test(view, reshape_of_nothing_and_of_one) {
  tn_array *none = empty(TN_F32, SHAPE(2, 0)), *one = scalar(4), *view = NULL;
  reshape_is(none, SHAPE(0, 5), 0, NULL);
  reshape_is(one, SHAPE(1, 1), VALUES(4));
  reshape_is(one, 0, NULL, VALUES(4));
  cr_assert_eq(tn__array_reshape(none, SHAPE(0, -1), &view), TN_SHAPE);
  tn__array_release(one);
  tn__array_release(none);
}

Test(view, reshape_refuses_another_number_of_elements) {
  tn_array *x = create_six(), *view = NULL;
  cr_assert_eq(tn__array_reshape(x, SHAPE(4), &view), TN_SHAPE);
  EXPECT_TEXT("6 elements", "4");
  cr_assert_eq(tn__array_reshape(x, SHAPE(4, -1), &view), TN_SHAPE);
  cr_assert_eq(tn__array_reshape(x, SHAPE(-1, -1), &view), TN_INVALID);
  cr_assert_eq(tn__array_reshape(x, SHAPE(-6), &view), TN_INVALID);
  cr_assert_eq(tn__array_reshape(x, SHAPE(INT64_MAX, 4), &view), TN_SHAPE);
  cr_assert_eq(tn__array_reshape(x, 17, (int64_t[17]){0}, &view), TN_INVALID);
  tn__array_release(x);
}

/* ------------------------------------------------------------------- bits */

static tn_array *bits_of(tn_array *x, tn_dtype dtype) {
  tn_array *view = NULL;
  cr_assert_eq(tn__array_bits(x, dtype, &view), TN_OK, "%s", tn_error_text());
  return view;
}

static void words_are(tn_array *x, size_t n, const uint32_t *words) {
  uint32_t got[8];
  cr_assert_eq(tn__array_get(x, got, n * sizeof *got), TN_OK);
  for (size_t i = 0; i < n; ++i) cr_assert_eq(got[i], words[i], "%zu", i);
}

/* The words are those of IEEE 754. */
Test(view, bits_are_the_same_memory_as_another_type) {
  tn_array *x = floats(SHAPE(3), VALUES(1, -2, 0.5f));
  tn_array *reversed = slice_array(x, 0, -1, INT64_MIN, -1);
  tn_array *words = bits_of(reversed, TN_U32), *same = bits_of(words, TN_F32);
  const uint32_t two[] = {0x40000000, 0x40400000};
  words_are(words, 3, (uint32_t[]){0x3f000000, 0xc0000000, 0x3f800000});
  tn_array *part = slice_array(words, 0, 1, 3, 1);
  cr_assert_eq(tn__array_set(part, two, sizeof two), TN_OK);
  expect(x, VALUES(3, 2, 0.5f));
  expect(same, VALUES(0.5f, 2, 3));
  cr_assert_eq(tn__arrays_overlap(words, reversed), TN__OVERLAP);
  cr_assert_eq(tn__arrays_overlap(same, reversed), TN__ALIAS);
  tn__array_release(part);
  tn__array_release(same);
  tn__array_release(words);
  tn__array_release(reversed);
  tn__array_release(x);
}

/* The conversion reads the words before it writes the floats over them. */
Test(view, bits_of_an_array_can_be_copied_into_it) {
  tn_array *x = floats(SHAPE(2), VALUES(1, 0)), *words = bits_of(x, TN_U32);
  cr_assert_eq(tn__array_copy(x, words), TN_OK);
  expect(x, VALUES(0x3f800000, 0));
  tn__array_release(words);
  tn__array_release(x);
}

Test(view, bits_refuses_another_size_and_bool) {
  tn_array *x = floats(SHAPE(1), VALUES(1)), *view = NULL;
  tn_array *flags = empty(TN_BOOL, SHAPE(2)), *bytes = bits_of(flags, TN_U8);
  cr_assert_eq(tn__array_bits(x, TN_F64, &view), TN_DTYPE);
  EXPECT_TEXT("f32 has 32 bits", "f64 has 64", "same size");
  cr_assert_null(view);
  cr_assert_eq(tn__array_bits(x, TN_U8, &view), TN_DTYPE);
  cr_assert_eq(tn__array_bits(x, (tn_dtype)0x2063, &view), TN_DTYPE);
  EXPECT_TEXT("0x2063 is no element type");
  cr_assert_eq(tn__array_bits(bytes, TN_BOOL, &view), TN_DTYPE);
  EXPECT_TEXT("u8", "0 or 1");
  cr_assert_eq(tn__array_bits(flags, TN_BOOL, &view), TN_OK);
  tn__array_release(view);
  tn__array_release(bytes);
  tn__array_release(flags);
  tn__array_release(x);
}
