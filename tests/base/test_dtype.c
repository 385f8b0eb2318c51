/* SPDX-License-Identifier: Apache-2.0
 * Element types: names, sets, and f16/bf16 against closed forms.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base.h"

Test(dtype, names_and_bits_go_both_ways) {
  for (size_t i = 0; i < TN__N_DTYPES; ++i) {
    const tn_dtype dtype = tn__dtype_at(i);
    tn_dtype parsed = TN_DTYPE_UNKNOWN;
    cr_assert(tn__dtype_parse(tn__dtype_name(dtype), &parsed));
    cr_assert_eq(parsed, dtype);
    cr_assert_eq(tn__dtype_bit(dtype), 1ull << i);
  }
  cr_assert_eq(tn__dtype_bit(TN_F64), TN_BIT_F64);
  cr_assert_eq(tn__dtype_bit(TN_BOOL), TN_BIT_BOOL);
  cr_assert_str_eq(tn__dtype_name(12345), "?");
  tn_dtype unchanged = TN_F32;
  cr_assert_not(tn__dtype_parse("float", &unchanged));
  cr_assert_eq(unchanged, TN_F32);
}

Test(dtype, storage_types_have_the_codes_and_bits_of_dlpack) {
  static const struct {
    tn_dtype dtype;
    unsigned code, bits;
    const char *name;
    uint64_t bit;
  } types[] = {{TN_F8E4M3FN, 10, 8, "f8e4m3fn", TN_BIT_F8E4M3FN},
               {TN_F8E4M3FNUZ, 11, 8, "f8e4m3fnuz", TN_BIT_F8E4M3FNUZ},
               {TN_F8E5M2, 12, 8, "f8e5m2", TN_BIT_F8E5M2},
               {TN_F8E5M2FNUZ, 13, 8, "f8e5m2fnuz", TN_BIT_F8E5M2FNUZ},
               {TN_F8E8M0, 14, 8, "f8e8m0", TN_BIT_F8E8M0},
               {TN_F4E2M1, 17, 4, "f4e2m1", TN_BIT_F4E2M1},
               {TN_I4, 0, 4, "i4", TN_BIT_I4},
               {TN_U4, 1, 4, "u4", TN_BIT_U4},
               {TN_I2, 0, 2, "i2", TN_BIT_I2},
               {TN_U2, 1, 2, "u2", TN_BIT_U2}};
  uint64_t storage = 0, packed = 0;
  for (size_t i = 0; i < 10; ++i) {
    const tn_dtype t = types[i].dtype;
    cr_expect_eq(t, types[i].code | types[i].bits << 8 | 1u << 16);
    cr_expect_str_eq(tn__dtype_name(t), types[i].name);
    cr_expect_eq(tn__dtype_bit(t), types[i].bit);
    cr_expect_eq(tn_dtype_bits(t), types[i].bits);
    cr_expect_eq(tn_dtype_bytes(t), types[i].bits == 8);
    cr_expect_eq(tn_dtype_is_packed(t), types[i].bits < 8);
    cr_expect(tn__dtype_is_storage(t) && !tn__dtype_is_float(t));
    storage |= types[i].bit;
    packed |= types[i].bits < 8 ? types[i].bit : 0;
  }
  cr_expect_eq(storage, TN_BITS_STORAGE);
  cr_expect_eq(packed, TN_BITS_PACKED);
  cr_expect(!tn__dtype_is_storage(TN_BOOL) && !tn__dtype_is_storage(0));
  cr_expect(!tn_dtype_is_packed(TN_I8) && !tn_dtype_is_packed(0));
}

static size_t bytes_of(tn_dtype dtype, int32_t ndim, const int64_t *shape) {
  size_t bytes = 99;
  return tn__tensor_bytes(dtype, ndim, shape, &bytes) ? bytes : 1234;
}

Test(dtype, packed_elements_share_bytes) {
  const int64_t odd[] = {3, 5}, none[] = {3, 0}, most[] = {INT64_MAX / 8, 1};
  const int64_t many[] = {INT64_MAX / 8 + 1, 1}, negative[] = {2, -1};
  cr_expect_eq(tn_dtype_bytes_of(TN_I4, 7), 4);
  cr_expect_eq(tn_dtype_bytes_of(TN_U2, 9), 3);
  cr_expect_eq(tn_dtype_bytes_of(TN_F8E8M0, 9), 9);
  cr_expect_eq(tn_dtype_bytes_of(TN_F64, 9), 72);
  cr_expect_eq(bytes_of(TN_I4, 2, odd), 8);
  cr_expect_eq(bytes_of(TN_U2, 2, odd), 4);
  cr_expect_eq(bytes_of(TN_U2, 0, NULL), 1);
  cr_expect_eq(bytes_of(TN_F4E2M1, 2, none), 0);
  cr_expect_eq(bytes_of(TN_U2, 2, most), ((size_t)INT64_MAX / 8 * 2 + 7) / 8);
  cr_expect_eq(bytes_of(TN_U2, 2, many), 1234);
  cr_expect_eq(bytes_of(TN_U2, 2, negative), 1234);
}

Test(dtype, sets_list_their_names) {
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  tn__buf_dtypes(&buf, TN_BIT_F16 | TN_BIT_F64 | TN_BIT_BOOL);
  cr_assert_str_eq(buf.s, "f16 f64 bool");
  tn__buf_deinit(&buf);
}

/* Sign, exponent and fraction by the definition of IEEE half precision. */
static double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * ldexp(fraction, -24);
  return sign * ldexp(1024 + fraction, exponent - 25);
}

Test(dtype, every_half_reads_as_its_definition_and_back) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double want = half_value((uint16_t)bits);
    const float got = tn__f16_to_f32((uint16_t)bits);
    if (isnan(want)) {
      cr_assert(isnan(got));
      cr_assert(isnan(tn__f16_to_f32(tn__f32_to_f16(got))));
      continue;
    }
    cr_assert_eq((double)got, want);
    cr_assert_eq(tn__f32_to_f16(got), bits);
  }
}

Test(dtype, values_between_halves_round_to_nearest_even) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = half_value((uint16_t)bits);
    const double high = half_value((uint16_t)(bits + 1));
    const float middle = (float)((low + high) / 2);
    const uint32_t even = (bits & 1) == 0 ? bits : bits + 1;
    cr_assert_eq(tn__f32_to_f16(middle), even);
    cr_assert_eq(tn__f32_to_f16(nextafterf(middle, 0)), bits);
    cr_assert_eq(tn__f32_to_f16(nextafterf(middle, INFINITY)), bits + 1);
  }
  cr_assert_eq(tn__f32_to_f16(65519.996f), 0x7bff);
  cr_assert_eq(tn__f32_to_f16(65520.0f), 0x7c00);
  cr_assert_eq(tn__f32_to_f16(-1e30f), 0xfc00);
}

Test(dtype, bfloat16_is_the_upper_half_rounded_to_even) {
  cr_assert_eq(tn__bf16_to_f32(0x3f80), 1.0f);
  cr_assert_eq(tn__f32_to_bf16(1.0f), 0x3f80);
  cr_assert_eq(tn__f32_to_bf16(0x1.01p0f), 0x3f80); /* tie to even */
  cr_assert_eq(tn__f32_to_bf16(0x1.03p0f), 0x3f82); /* tie to even */
  cr_assert_eq(tn__f32_to_bf16(0x1.010002p0f), 0x3f80 + 1);
  cr_assert_eq(tn__f32_to_bf16(3.4028235e38f), 0x7f80);
  cr_assert(isnan(tn__bf16_to_f32(tn__f32_to_bf16(NAN))));
}
