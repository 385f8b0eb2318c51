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
