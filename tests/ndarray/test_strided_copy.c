/* SPDX-License-Identifier: Apache-2.0
 * Strided copies, zeros and sums of every element type.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "fixture.h"

static int64_t shape_of[TN_MAX_NDIM];
static int64_t strides_of[2][TN_MAX_NDIM];

static tn_tensor side_tensor(void *data, tn_dtype dtype, int side, int64_t n,
                             int64_t stride) {
  shape_of[0] = n;
  strides_of[side][0] = stride;
  return (tn_tensor){.data = data,
                     .device_type = TN_DEVICE_CPU,
                     .ndim = 1,
                     .dtype = dtype,
                     .shape = shape_of,
                     .strides = strides_of[side]};
}

#define SUM_TEST(type, dtype, a, b, sum)                                \
  do {                                                                  \
    type to[4] = {(type)(a), 0, (type)(a), 0};                          \
    const type from[2] = {(type)(b), (type)(b)};                        \
    tn_tensor y = side_tensor(to, dtype, 0, 2, 2);                      \
    tn_tensor x = side_tensor((void *)(uintptr_t)from, dtype, 1, 2, 1); \
    tn__tensor_add(&y, &x);                                             \
    cr_expect_eq(to[0], (type)(sum), #dtype);                           \
    cr_expect_eq(to[2], (type)(sum), #dtype);                           \
    cr_expect(to[1] == 0 && to[3] == 0, #dtype);                        \
    y = side_tensor(to, dtype, 0, 1, 1);                                \
    to[0] = (type)(a);                                                  \
    tn__tensor_add(&y, &x);                                             \
    cr_expect_eq(to[0], (type)(sum), #dtype " dense");                  \
  } while (0)

Test(copy, add_sums_every_type) {
  SUM_TEST(float, TN_F32, 1.5, 2.25, 3.75);
  SUM_TEST(double, TN_F64, 1e300, 2e300, 3e300);
  SUM_TEST(int8_t, TN_I8, 127, 1, -128);
  SUM_TEST(int16_t, TN_I16, -3, 5, 2);
  SUM_TEST(int32_t, TN_I32, INT32_MAX, 1, INT32_MIN);
  SUM_TEST(int64_t, TN_I64, INT64_MAX, 2, INT64_MIN + 1);
  SUM_TEST(uint8_t, TN_U8, 255, 2, 1);
  SUM_TEST(uint16_t, TN_U16, 65535, 1, 0);
  SUM_TEST(uint32_t, TN_U32, 7, 8, 15);
  SUM_TEST(uint64_t, TN_U64, 1ull << 63, 1, (1ull << 63) + 1);
  SUM_TEST(uint8_t, TN_BOOL, 1, 1, 1);
  SUM_TEST(uint8_t, TN_BOOL, 0, 1, 1);
}

/* Bit patterns from the tables of IEEE 754: f16 1.0 is 0x3c00, 2.5 is 0x4100,
 * 3.5 is 0x4300; bf16 1.0 is 0x3f80, 2.0 is 0x4000, 3.0 is 0x4040. */
Test(copy, add_sums_half_types_in_f32) {
  SUM_TEST(uint16_t, TN_F16, 0x3c00, 0x4100, 0x4300);
  SUM_TEST(uint16_t, TN_BF16, 0x3f80, 0x4000, 0x4040);
}

Test(copy, add_of_half_types_rounds_to_even_once) {
  SUM_TEST(uint16_t, TN_F16, 0x6800, 0x3c00, 0x6800);  /* 2048 + 1 */
  SUM_TEST(uint16_t, TN_F16, 0x6801, 0x3c00, 0x6802);  /* 2050 + 1 */
  SUM_TEST(uint16_t, TN_BF16, 0x4380, 0x3f80, 0x4380); /* 256 + 1 */
}

Test(copy, accepts_any_strides_on_both_sides) {
  const uint16_t from[6] = {1, 2, 3, 4, 5, 6};
  uint16_t to[6] = {0};
  int64_t shape[] = {2, 3}, back[] = {-3, -1}, columns[] = {1, 2};
  tn_tensor x = {.data = (void *)(uintptr_t)(from + 5),
                 .ndim = 2,
                 .dtype = TN_U16,
                 .shape = shape,
                 .strides = back};
  tn_tensor y = {.data = to,
                 .ndim = 2,
                 .dtype = TN_U16,
                 .shape = shape,
                 .strides = columns};
  tn__tensor_copy(&y, &x);
  /* x is 6 5 4 / 3 2 1, in columns of two. */
  const uint16_t expected[] = {6, 3, 5, 2, 4, 1};
  cr_assert_arr_eq(to, expected, sizeof to);
}

Test(copy, merges_only_dimensions_that_are_adjacent_on_both_sides) {
  const float from[6] = {1, 2, 3, 4, 5, 6};
  float to[6] = {0};
  int64_t shape[] = {2, 3}, dense[] = {3, 1}, columns[] = {1, 2};
  tn_tensor x = {.data = (void *)(uintptr_t)from,
                 .ndim = 2,
                 .dtype = TN_F32,
                 .shape = shape,
                 .strides = columns};
  tn_tensor y = {
      .data = to, .ndim = 2, .dtype = TN_F32, .shape = shape, .strides = dense};
  tn__tensor_copy(&y, &x);
  const float expected[] = {1, 3, 5, 2, 4, 6};
  cr_assert_arr_eq(to, expected, sizeof to);
}

Test(copy, accepts_every_width_and_unaligned_memory) {
  const tn_dtype dtypes[] = {TN_I8, TN_F16, TN_F32, TN_F64};
  for (size_t i = 0; i < 4; ++i) {
    char from[33], to[70] = {0};
    size_t width = (size_t)tn_dtype_bytes(dtypes[i]);
    for (int k = 0; k < 33; ++k) from[k] = (char)(k + 1);
    tn_tensor x = side_tensor(from + 1, dtypes[i], 0, 4, 1);
    tn_tensor y = side_tensor(to + 1, dtypes[i], 1, 4, 2);
    tn__tensor_copy(&y, &x);
    for (size_t k = 0; k < 4; ++k)
      cr_assert_arr_eq(to + 1 + 2 * k * width, from + 1 + k * width, width);
    cr_assert_eq(to[1 + width], 0);
  }
}

Test(copy, zero_leaves_the_elements_between) {
  float to[5] = {1, 2, 3, 4, 5};
  tn_tensor y = side_tensor(to, TN_F32, 0, 3, 2);
  tn__tensor_zero(&y);
  const float expected[] = {0, 2, 0, 4, 0};
  cr_assert_arr_eq(to, expected, sizeof to);
  y = side_tensor(to, TN_F32, 0, 5, 1);
  tn__tensor_zero(&y);
  cr_assert_eq(to[1], 0);
}

Test(copy, of_nothing_touches_nothing) {
  tn_tensor y = side_tensor(NULL, TN_F32, 0, 0, 1);
  tn_tensor x = side_tensor(NULL, TN_F32, 1, 0, 1);
  tn__tensor_copy(&y, &x);
  tn__tensor_add(&y, &x);
  tn__tensor_zero(&y);
}

Test(copy, of_sixteen_dimensions_visits_each_element_once) {
  static float from[1 << 15], to[1 << 15];
  int64_t shape[16], there[16], back[16];
  for (int i = 0; i < 16; ++i) {
    shape[i] = i == 7 ? 1 : 2;
    there[i] = i < 7 ? 1 << (14 - i) : 1 << (15 - i);
    back[i] = i < 7 ? 1 << i : 1 << (i - 1);
  }
  for (int i = 0; i < 1 << 15; ++i) from[i] = (float)i;
  tn_tensor x = {.data = from,
                 .ndim = 16,
                 .dtype = TN_F32,
                 .shape = shape,
                 .strides = there};
  tn_tensor y = {
      .data = to, .ndim = 16, .dtype = TN_F32, .shape = shape, .strides = back};
  tn__tensor_copy(&y, &x);
  tn__tensor_add(&y, &x);
  for (int i = 0; i < 1 << 15; ++i) {
    int reversed = 0;
    for (int bit = 0; bit < 15; ++bit) reversed |= (i >> bit & 1) << (14 - bit);
    cr_assert_eq(to[reversed], 2 * (float)i);
  }
}
