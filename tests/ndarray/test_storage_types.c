/* SPDX-License-Identifier: Apache-2.0
 * Arrays of storage types: sizes, packed elements, views, and copies on the
 * host and on devices. Expected bytes are written by hand: the first element is
 * in the lowest bits of a byte.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "fake_end.h"
#include "fixture.h"

static fake *f;
static tn__device *device;

static void open_device(void) {
  world_open();
  f = fake_create(&(fake_options){.count = 1, .latency_us = 50, .seed = 7});
  cr_assert_eq(tn__devices_add(w.devices, fake_table(f)), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__device_parse(w.devices, "fake(0)", &device), TN_OK);
}

static void close_device(void) {
  world_close();
  end_fake(f);
}

TestSuite(storage_types, .init = open_device, .fini = close_device);

/* An array of the bytes. */
static tn_array *make_array(tn_dtype dtype, size_t ndim, const int64_t *shape,
                            const void *bytes, size_t n) {
  tn_array *x = empty(dtype, ndim, shape);
  cr_assert_eq(tn__array_set(x, bytes, n), TN_OK, "%s", tn_error_text());
  return x;
}

static void expect_bytes(tn_array *x, const void *want, size_t n) {
  unsigned char got[64] = {0};
  cr_assert_eq(tn__array_get(x, got, n), TN_OK, "%s", tn_error_text());
  for (size_t i = 0; i < n; ++i)
    cr_assert_eq(got[i], ((const unsigned char *)want)[i], "byte %zu is %#x", i,
                 (unsigned)got[i]);
}
#define BYTES(text) "" text, sizeof(text) - 1

static tn_code slice_array(tn_array *x, int64_t begin, int64_t end,
                           int64_t step, tn_array **out) {
  const tn_range range = {0, 0, begin, end, step};
  return tn__array_slice(x, &range, out);
}

/* -------------------------------------------------------------------- bytes */

Test(storage_types, packed_elements_need_the_bytes_that_they_share) {
  tn_array *x = make_array(TN_I4, SHAPE(3), BYTES("\x21\x03"));
  cr_expect_eq(tn__array_set(x, "abc", 3), TN_INVALID);
  EXPECT_TEXT(
      "3 bytes were given to set an array of 3 elements of i4, which "
      "holds 2 bytes");
  expect_bytes(x, BYTES("\x21\x03"));
  tn__array_release(x);
  x = make_array(TN_U2, 0, NULL, BYTES("\x02"));
  expect_bytes(x, BYTES("\x02"));
  tn__array_release(x);
  x = make_array(TN_F4E2M1, SHAPE(2, 0), BYTES(""));
  expect_bytes(x, BYTES(""));
  tn__array_release(x);
}

Test(storage_types, bits_after_the_last_element_become_0) {
  tn_array *x = make_array(TN_I4, SHAPE(3), BYTES("\xff\xff"));
  expect_bytes(x, BYTES("\xff\x0f"));
  tn__array_release(x);
  x = make_array(TN_U2, SHAPE(5), BYTES("\xff\xff"));
  expect_bytes(x, BYTES("\xff\x03"));
  tn__array_release(x);
}

Test(storage_types, an_array_that_was_never_written_reads_as_zeros) {
  tn_array *x = empty(TN_U4, SHAPE(5));
  expect_bytes(x, BYTES("\0\0\0"));
  tn__array_release(x);
}

Test(storage_types, shapes_with_too_many_elements_are_refused) {
  const int64_t shapes[][2] = {{1ll << 60, 1},
                               {1ll << 31, 1ll << 31},
                               {INT64_MAX, INT64_MAX},
                               {0, INT64_MAX}};
  for (size_t i = 0; i < 4; ++i) {
    tn_array *x = NULL;
    const tn_spec spec = {TN_U2, 2, shapes[i]};
    cr_expect_eq(tn__array_create(&w.env, &spec, &x), TN_OUT_OF_RANGE);
    EXPECT_TEXT("has more bytes than an address can count");
  }
}

/* -------------------------------------------------------------------- views */

/* Elements 0 to 7. */
static tn_array *make_eight(size_t ndim, const int64_t *shape) {
  return make_array(TN_U4, ndim, shape, BYTES("\x10\x32\x54\x76"));
}

Test(storage_types, views_of_whole_bytes_share_the_elements) {
  tn_array *x = make_eight(SHAPE(4, 2)), *part = NULL, *flat = NULL;
  cr_assert_eq(slice_array(x, 1, 3, 1, &part), TN_OK, "%s", tn_error_text());
  expect_bytes(part, BYTES("\x32\x54"));
  cr_assert_eq(tn__array_set(part, "\xba\xdc", 2), TN_OK);
  expect_bytes(x, BYTES("\x10\xba\xdc\x76"));
  cr_assert_eq(tn__array_reshape(part, SHAPE(1, 4), &flat), TN_OK);
  expect_bytes(flat, BYTES("\xba\xdc"));
  tn__array_release(flat);
  cr_assert_eq(tn__array_index(x, 0, -1, &flat), TN_OK);
  expect_bytes(flat, BYTES("\x76"));
  tn__array_release(flat), tn__array_release(part), tn__array_release(x);
}

Test(storage_types, a_view_may_end_where_its_array_ends) {
  tn_array *x = make_array(TN_I4, SHAPE(5), BYTES("\x21\x43\x05"));
  tn_array *part = NULL, *last = NULL;
  cr_assert_eq(slice_array(x, 2, 5, 1, &part), TN_OK, "%s", tn_error_text());
  expect_bytes(part, BYTES("\x43\x05"));
  cr_assert_eq(tn__array_index(x, 0, 4, &last), TN_OK, "%s", tn_error_text());
  expect_bytes(last, BYTES("\x05"));
  tn__array_release(last), tn__array_release(part);
  cr_assert_eq(slice_array(x, 3, 3, 1, &part), TN_OK, "%s", tn_error_text());
  cr_expect_eq(tn__array_tensor(part)->shape[0], 0);
  tn__array_release(part), tn__array_release(x);
}

Test(storage_types, other_views_of_packed_elements_are_refused) {
  const int64_t ranges[][3] = {{1, 3, 1}, {0, 3, 1}, {0, 8, 2}, {7, 5, -1}};
  tn_array *x = make_eight(SHAPE(8)), *y = make_eight(SHAPE(4, 2));
  tn_array *one = make_array(TN_U2, 0, NULL, BYTES("\1")), *view = NULL;
  for (size_t i = 0; i < 4; ++i)
    cr_expect_eq(
        slice_array(x, ranges[i][0], ranges[i][1], ranges[i][2], &view),
        TN_UNSUPPORTED, "range %zu", i);
  cr_expect_eq(tn__array_index(x, 0, 1, &view), TN_UNSUPPORTED);
  EXPECT_TEXT(
      "a view of 1 elements of u4 from element 1 of 8: 2 of them share "
      "a byte",
      "multiples of 2", "elemwise.cast");
  cr_expect_eq(tn__array_transpose(y, NULL, &view), TN_UNSUPPORTED);
  cr_expect_eq(tn__array_index(y, 1, 0, &view), TN_UNSUPPORTED);
  cr_expect_eq(tn__array_broadcast(one, SHAPE(2), &view), TN_UNSUPPORTED);
  cr_expect_null(view);
  tn__array_release(one), tn__array_release(y), tn__array_release(x);
}

Test(storage_types, bits_are_seen_as_another_type_of_the_same_width) {
  tn_array *x = make_array(TN_U4, SHAPE(3), BYTES("\x21\x03")), *view = NULL;
  cr_assert_eq(tn__array_bits(x, TN_F4E2M1, &view), TN_OK);
  cr_expect_eq(tn__array_tensor(view)->dtype, TN_F4E2M1);
  expect_bytes(view, BYTES("\x21\x03"));
  tn__array_release(view);
  cr_expect_eq(tn__array_bits(x, TN_U8, &view), TN_DTYPE);
  EXPECT_TEXT("an element of u4 has 4 bits and one of u8 has 8");
  tn__array_release(x);
  x = make_array(TN_U8, SHAPE(2), BYTES("\x38\x40"));
  cr_assert_eq(tn__array_bits(x, TN_F8E4M3FN, &view), TN_OK);
  expect_bytes(view, BYTES("\x38\x40"));
  tn__array_release(view), tn__array_release(x);
}

Test(storage_types, types_of_8_bits_have_any_views) {
  tn_array *x = make_array(TN_F8E5M2, SHAPE(2, 3), BYTES("abcdef"));
  tn_array *turned = NULL, *back = NULL;
  cr_assert_eq(tn__array_transpose(x, NULL, &turned), TN_OK);
  expect_bytes(turned, BYTES("adbecf"));
  cr_assert_eq(slice_array(turned, -1, INT64_MIN, -2, &back), TN_OK);
  expect_bytes(back, BYTES("cfad"));
  tn__array_release(back), tn__array_release(turned), tn__array_release(x);
}

/* ------------------------------------------------------------------- copies */

Test(storage_types, copies_within_a_type_keep_every_bit) {
  tn_array *x = make_array(TN_I2, SHAPE(5), BYTES("\xe4\x02"));
  tn_array *y = empty(TN_I2, SHAPE(5)), *z = NULL;
  cr_assert_eq(tn__array_copy(y, x), TN_OK, "%s", tn_error_text());
  expect_bytes(y, BYTES("\xe4\x02"));
  cr_assert_eq(tn__array_cast(x, TN_I2, &z), TN_OK, "%s", tn_error_text());
  expect_bytes(z, BYTES("\xe4\x02"));
  tn__array_release(z), tn__array_release(y), tn__array_release(x);
}

Test(storage_types, parts_that_overlap_are_copied_as_they_were) {
  tn_array *x = make_eight(SHAPE(8)), *low = NULL, *high = NULL;
  cr_assert_eq(slice_array(x, 0, 6, 1, &low), TN_OK);
  cr_assert_eq(slice_array(x, 2, 8, 1, &high), TN_OK);
  cr_assert_eq(tn__arrays_overlap(low, high), TN__OVERLAP);
  cr_assert_eq(tn__array_copy(high, low), TN_OK, "%s", tn_error_text());
  expect_bytes(x, BYTES("\x10\x10\x32\x54"));
  tn__array_release(low);
  cr_assert_eq(slice_array(x, 0, 2, 1, &low), TN_OK);
  cr_expect_eq(tn__arrays_overlap(low, high), TN__DISJOINT);
  tn__array_release(low), tn__array_release(high), tn__array_release(x);
}

Test(storage_types, large_copies_keep_every_bit) {
  enum { N = 1 << 20 };
  unsigned char *bytes = malloc(N), *got = malloc(N);
  for (size_t i = 0; i < N; ++i) bytes[i] = (unsigned char)(i * 7 >> 3);
  tn_array *x = make_array(TN_U4, SHAPE(2, N), bytes, N);
  tn_array *y = empty(TN_U4, SHAPE(2, N));
  cr_assert_eq(tn__array_copy(y, x), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn__array_get(y, got, N), TN_OK);
  cr_expect_eq(memcmp(got, bytes, N), 0);
  tn__array_release(y), tn__array_release(x);
  free(bytes), free(got);
}

Test(storage_types, a_copy_converts_none_of_them) {
  static const tn_dtype pairs[][2] = {{TN_I4, TN_F32},
                                      {TN_F32, TN_U2},
                                      {TN_F8E4M3FN, TN_U8},
                                      {TN_F8E4M3FN, TN_F8E5M2},
                                      {TN_I4, TN_U4}};
  for (size_t i = 0; i < 5; ++i) {
    tn_array *x = empty(pairs[i][0], SHAPE(2)),
             *y = empty(pairs[i][1], SHAPE(2));
    tn_array *z = NULL;
    cr_expect_eq(tn__array_copy(y, x), TN_DTYPE);
    cr_expect_eq(tn__array_cast(x, pairs[i][1], &z), TN_DTYPE);
    EXPECT_TEXT("a copy does not convert storage types", "elemwise.cast");
    cr_expect_null(z);
    tn__array_release(x), tn__array_release(y);
  }
}

/* ------------------------------------------------------------------ devices */

Test(storage_types, devices_have_the_same_bytes) {
  tn_array *x = make_array(TN_F4E2M1, SHAPE(5), BYTES("\x21\x43\x05"));
  tn_array *there = NULL, *part = NULL, *back = NULL;
  cr_assert_eq(tn__array_to(x, device, &there), TN_OK, "%s", tn_error_text());
  expect_bytes(there, BYTES("\x21\x43\x05"));
  cr_assert_eq(slice_array(there, 2, 5, 1, &part), TN_OK);
  cr_assert_eq(tn__array_to(part, w.env.cpu, &back), TN_OK, "%s",
               tn_error_text());
  expect_bytes(back, BYTES("\x43\x05"));
  tn__array_release(back), tn__array_release(part);
  tn__array_release(there), tn__array_release(x);
}

Test(storage_types, a_set_on_a_device_clears_the_bits_after_the_last) {
  tn_array *x = NULL;
  const tn_spec spec = {TN_U4, 1, (const int64_t[]){3}};
  cr_assert_eq(tn__array_create_on(device, &spec, &x), TN_OK);
  cr_assert_eq(tn__array_set(x, "\xff\xff", 2), TN_OK, "%s", tn_error_text());
  expect_bytes(x, BYTES("\xff\x0f"));
  tn__array_release(x);
}

Test(storage_types, devices_copy_any_views_of_8_bits) {
  tn_array *x = make_array(TN_F8E5M2, SHAPE(2, 3), BYTES("abcdef"));
  tn_array *there = NULL, *turned = NULL, *y = NULL;
  const tn_spec spec = {TN_F8E5M2, 2, (const int64_t[]){3, 2}};
  cr_assert_eq(tn__array_to(x, device, &there), TN_OK);
  cr_assert_eq(tn__array_transpose(there, NULL, &turned), TN_OK);
  cr_assert_eq(tn__array_create_on(device, &spec, &y), TN_OK);
  cr_assert_eq(tn__array_copy(y, turned), TN_OK, "%s", tn_error_text());
  expect_bytes(y, BYTES("adbecf"));
  tn__array_release(y), tn__array_release(turned);
  tn__array_release(there), tn__array_release(x);
}
