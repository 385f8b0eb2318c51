/* SPDX-License-Identifier: Apache-2.0
 * Tests of number.c and element.c: the shortest text of an element, and the way
 * back. Expected texts were computed by hand from the formats' definitions.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tenon_tool.h"

static void expect_text(tn_dtype dtype, const void *element,
                        const char *expected) {
  text t = {0};
  number_add(&t, dtype, element);
  cr_expect_str_eq(text_get(&t), expected);
  text_deinit(&t);
}

static void expect_f32(float value, const char *expected) {
  expect_text(TN_F32, &value, expected);
}

static void expect_f64(double value, const char *expected) {
  expect_text(TN_F64, &value, expected);
}

static void expect_16(tn_dtype dtype, uint16_t bits, const char *expected) {
  expect_text(dtype, &bits, expected);
}

Test(number, whole_floats_have_no_point) {
  expect_f32(6, "6");
  expect_f32(-18, "-18");
  expect_f32(100, "100");
  expect_f32(16777216, "16777216");
  expect_f64(9007199254740991.0, "9007199254740991");
}

Test(number, fractions_have_the_fewest_digits_that_read_back) {
  expect_f32(0.1f, "0.1");
  expect_f32(1.0f / 3, "0.33333334");
  expect_f32(2.5f, "2.5");
  expect_f32(-0.0625f, "-0.0625");
  expect_f64(0.1 + 0.2, "0.30000000000000004");
  expect_f64(1.0 / 3, "0.3333333333333333");
}

Test(number, only_very_large_and_very_small_ones_have_an_exponent) {
  expect_f64(1e15, "1000000000000000");
  expect_f64(1e16, "1e16");
  expect_f64(1.25e-4, "0.000125");
  expect_f64(1.25e-5, "1.25e-5");
  expect_f32(3.4028234664e38f, "3.4028235e38");
  expect_f32(1e-45f, "1e-45");
}

Test(number, zero_keeps_its_sign_and_specials_have_names) {
  expect_f32(0.0f, "0");
  expect_f32(-0.0f, "-0");
  expect_f64((double)INFINITY, "inf");
  expect_f64(-(double)INFINITY, "-inf");
  expect_f32(NAN, "nan");
}

Test(number, short_floats_print_no_more_than_their_precision) {
  expect_16(TN_F16, 0x2e66, "0.1");    /* 0.0999755859375 */
  expect_16(TN_F16, 0x3555, "0.3333"); /* 0.333251953125 */
  expect_16(TN_F16, 0x7bff, "65500");  /* 65504, the largest */
  expect_16(TN_F16, 0x0001, "6e-8");
  expect_16(TN_BF16, 0x3dcd, "0.1"); /* 0.10009765625 */
  expect_16(TN_BF16, 0x4049, "3.14");
  expect_16(TN_BF16, 0x7f80, "inf");
}

Test(number, integers_and_booleans_are_plain) {
  expect_text(TN_I8, &(int8_t){-128}, "-128");
  expect_text(TN_U8, &(uint8_t){255}, "255");
  expect_text(TN_I16, &(int16_t){-2}, "-2");
  expect_text(TN_U32, &(uint32_t){4294967295u}, "4294967295");
  expect_text(TN_I64, &(int64_t){INT64_MIN}, "-9223372036854775808");
  expect_text(TN_U64, &(uint64_t){UINT64_MAX}, "18446744073709551615");
  expect_text(TN_BOOL, &(uint8_t){1}, "true");
  expect_text(TN_BOOL, &(uint8_t){0}, "false");
}

static void expect_8(tn_dtype dtype, uint8_t code, const char *expected) {
  expect_text(dtype, &code, expected);
}

Test(number, storage_types_print_their_numbers) {
  expect_8(TN_F8E4M3FN, 0x38, "1");
  expect_8(TN_F8E4M3FN, 0x01, "0.002"); /* 0.001953125 */
  expect_8(TN_F8E4M3FN, 0xfe, "-450");  /* -448, the least */
  expect_8(TN_F8E4M3FN, 0x7f, "nan");
  expect_8(TN_F8E4M3FNUZ, 0x40, "1");
  expect_8(TN_F8E5M2, 0x7c, "inf");
  expect_8(TN_F8E5M2FNUZ, 0x80, "nan");
  expect_8(TN_F8E8M0, 127 + 10, "1000"); /* 1024 */
  expect_8(TN_F4E2M1, 0x7, "6");
  expect_8(TN_F4E2M1, 0x9, "-0.5");
  expect_8(TN_I4, 0x8, "-8");
  expect_8(TN_U4, 0xf, "15");
  expect_8(TN_I2, 0x3, "-1");
  expect_8(TN_U2, 0x3, "3");
}

Test(number, half_conversion_rounds_ties_to_even) {
  cr_expect_eq(f16_from_double(1), 0x3c00);
  cr_expect_eq(f16_from_double(-2), 0xc000);
  cr_expect_eq(f16_from_double(2049), 0x6800); /* between 2048 and 2050 */
  cr_expect_eq(f16_from_double(2051), 0x6802); /* between 2050 and 2052 */
  cr_expect_eq(f16_from_double(65519), 0x7bff);
  cr_expect_eq(f16_from_double(65520), 0x7c00);
  cr_expect_eq(f16_from_double(ldexp(1, -14)), 0x0400);
  cr_expect_eq(f16_from_double(ldexp(1, -24)), 0x0001);
  cr_expect_eq(f16_from_double(ldexp(1, -25)), 0x0000);
  cr_expect_eq(f16_from_double(ldexp(1.0001, -25)), 0x0001);
}

Test(number, bfloat_conversion_keeps_the_upper_half_of_a_float) {
  cr_expect_eq(bf16_from_double(1), 0x3f80);
  cr_expect_eq(bf16_from_double(257), 0x4380); /* between 256 and 258 */
  cr_expect_eq(bf16_from_double(259), 0x4382); /* between 258 and 260 */
  cr_expect_eq(bf16_from_double(1e39), 0x7f80);
  cr_expect_eq(bf16_from_double(ldexp(1, -133)), 0x0001);
  cr_expect_eq(double_from_bf16(0xc049), -3.140625);
}

/* Prints every pattern of a 16-bit type and reads the text again. */
static void expect_all_read_back(tn_dtype dtype, unsigned infinity) {
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    uint16_t before = (uint16_t)bits, after = 0;
    text t = {0}, why = {0};
    if ((bits & 0x7fff) > infinity) continue; /* NaNs lose their payload */
    number_add(&t, dtype, &before);
    cr_assert(element_parse(dtype, text_get(&t), &after, &why), "%s",
              text_get(&why));
    cr_assert_eq(before, after, "%#x printed as %s", bits, text_get(&t));
    text_deinit(&t);
  }
}

Test(number, every_half_reads_back) {
  expect_all_read_back(TN_F16, 0x7c00);
}

Test(number, every_bfloat_reads_back) {
  expect_all_read_back(TN_BF16, 0x7f80);
}

Test(number, every_element_of_storage_types_reads_back) {
  static const tn_dtype dtypes[] = {
      TN_F8E4M3FN, TN_F8E4M3FNUZ, TN_F8E5M2, TN_F8E5M2FNUZ, TN_F8E8M0,
      TN_F4E2M1,   TN_I4,         TN_U4,     TN_I2,         TN_U2};
  for (size_t i = 0; i < 10; ++i) {
    for (unsigned code = 0; code < 1u << tn_dtype_bits(dtypes[i]); ++code) {
      const unsigned char before = (unsigned char)code;
      unsigned char after[8] = {0};
      text t = {0}, why = {0};
      number_add(&t, dtypes[i], &before);
      if (!strstr(text_get(&t), "nan")) {
        cr_assert(element_parse(dtypes[i], text_get(&t), after, &why), "%s",
                  text_get(&why));
        cr_assert_eq(before, after[0], "%s %#x printed as %s",
                     dtype_name(dtypes[i]), code, text_get(&t));
      }
      text_deinit(&t);
    }
  }
}

static void expect_refused(tn_dtype dtype, const char *token,
                           const char *expected) {
  unsigned char element[8];
  text why = {0};
  cr_expect_not(element_parse(dtype, token, element, &why));
  cr_expect_str_eq(text_get(&why), expected);
  text_deinit(&why);
}

Test(element, refuses_values_out_of_the_types_range) {
  expect_refused(TN_U8, "256", "`256` does not fit u8 (0 to 255)");
  expect_refused(TN_U8, "-1", "`-1` does not fit u8 (0 to 255)");
  expect_refused(TN_I8, "-129", "`-129` does not fit i8 (-128 to 127)");
  expect_refused(TN_I64, "9223372036854775808",
                 "`9223372036854775808` does not fit i64 "
                 "(-9223372036854775808 to 9223372036854775807)");
  expect_refused(TN_F32, "1e39",
                 "`1e39` is too large for f32; write inf for infinity");
  expect_refused(TN_F16, "65520",
                 "`65520` is too large for f16; write inf for infinity");
}

Test(element, refuses_numbers_that_storage_types_lack) {
  expect_refused(TN_I4, "8", "`8` does not fit i4 (-8 to 7)");
  expect_refused(TN_U2, "4", "`4` does not fit u2 (0 to 3)");
  expect_refused(TN_F8E4M3FN, "1000", "`1000` does not fit f8e4m3fn");
  expect_refused(TN_F8E4M3FN, "inf", "`inf` does not fit f8e4m3fn");
  expect_refused(TN_F8E5M2, "1e6", "`1e6` does not fit f8e5m2");
  expect_refused(TN_F8E8M0, "-1", "`-1` does not fit f8e8m0");
  expect_refused(TN_F4E2M1, "8", "`8` does not fit f4e2m1");
  expect_refused(TN_F4E2M1, "nan", "`nan` does not fit f4e2m1");
  expect_refused(TN_U4, "0.5",
                 "`0.5` is not an integer, and the elements are u4");
}

Test(element, refuses_invalid_numbers) {
  expect_refused(TN_F32, "abc", "`abc` is not a number");
  expect_refused(TN_F32, "1.2.3", "`1.2.3` is not a number");
  expect_refused(TN_F32, "0x10", "`0x10` is not a number");
  expect_refused(TN_F32, "e5", "`e5` is not a number");
  expect_refused(TN_I32, "1.5",
                 "`1.5` is not an integer, and the elements are i32");
  expect_refused(TN_BOOL, "2", "`2` is not true, false, 1 or 0");
  expect_refused(TN_F32, "true",
                 "`true` is not a number; for booleans add --dtype bool");
}
