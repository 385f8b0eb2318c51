/* SPDX-License-Identifier: Apache-2.0
 * basic.h: part of math.h: bits, and the functions that only compare, round or
 * count. All are exact.
 */
#ifndef TENON_KERNEL_MATH_BASIC_H_
#define TENON_KERNEL_MATH_BASIC_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

/* How the functions are declared. They must be inlined: a loop that calls one
 * is vectorised with the instructions of its own level. */
#if defined(__CUDACC__)
#define TN_MATH_FN static __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define TN_MATH_FN static inline __attribute__((always_inline, unused))
#else
#define TN_MATH_FN static inline
#endif

/* -------------------------------------------------------------------- bits */

TN_MATH_FN uint32_t tn_math_bits_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

TN_MATH_FN float tn_math_from_bits_f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

TN_MATH_FN uint64_t tn_math_bits_f64(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

TN_MATH_FN double tn_math_from_bits_f64(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* x without the lower half of its digits: products of two such are exact. */
TN_MATH_FN float tn_math_upper_f32(float x) {
  return tn_math_from_bits_f32(tn_math_bits_f32(x) & 0xfffff000u);
}

TN_MATH_FN double tn_math_upper_f64(double x) {
  return tn_math_from_bits_f64(tn_math_bits_f64(x) & 0xfffffffff8000000u);
}

/* a + b, and its rounding error. */
TN_MATH_FN double tn_math_sum_f64(double a, double b, double *lost) {
  const double sum = a + b;
  const double more = sum - a;
  *lost = (a - (sum - more)) + (b - more);
  return sum;
}

/* Functions that later test the same number again compare its bits: for two
 * comparisons of a float gcc duplicates the code between them. */
TN_MATH_FN uint32_t tn_math_least_bits(float x, float bound) {
  const int32_t bits = (int32_t)tn_math_bits_f32(x);
  const int32_t most = (int32_t)tn_math_bits_f32(bound);
  return (uint32_t)(bits < most ? bits : most);
}

/* a, which is not negative, or `bound` where that is less or a is NaN. */
TN_MATH_FN float tn_math_up_to(float a, float bound) {
  return tn_math_from_bits_f32(tn_math_least_bits(a, bound));
}

/* The larger of two numbers >= 0. */
TN_MATH_FN float tn_math_most_bits(float a, float b) {
  const int32_t first = (int32_t)tn_math_bits_f32(a);
  const int32_t second = (int32_t)tn_math_bits_f32(b);
  return tn_math_from_bits_f32((uint32_t)(first > second ? first : second));
}

/* x between a negative and a positive number, and NaN one of them. */
TN_MATH_FN float tn_math_between(float x, float low, float high) {
  const uint32_t bits = tn_math_bits_f32(x);
  const uint32_t least = tn_math_bits_f32(low);
  const float above = tn_math_from_bits_f32(bits < least ? bits : least);
  return tn_math_up_to(above, high);
}

/* ------------------------------------------------------------------ select */

/* a if the condition is true, otherwise b. Both are computed, so that a loop
 * can be vectorised. */
TN_MATH_FN float tn_math_select_f32(int condition, float a, float b) {
  const uint32_t mask = 0u - (uint32_t)(condition != 0);
  return tn_math_from_bits_f32((tn_math_bits_f32(a) & mask) |
                               (tn_math_bits_f32(b) & ~mask));
}

/* SSE2 compares no 64-bit integers, so here gcc finds the vector form only with
 * a conditional expression; arms that compute need -fno-trapping-math. */
TN_MATH_FN double tn_math_select_f64(int condition, double a, double b) {
  return tn_math_from_bits_f64(condition ? tn_math_bits_f64(a)
                                         : tn_math_bits_f64(b));
}

TN_MATH_FN int32_t tn_math_select_i32(int condition, int32_t a, int32_t b) {
  return condition ? a : b;
}

TN_MATH_FN int64_t tn_math_select_i64(int condition, int64_t a, int64_t b) {
  return condition ? a : b;
}

TN_MATH_FN uint64_t tn_math_select_u64(int condition, uint64_t a, uint64_t b) {
  return condition ? a : b;
}

/* ---------------------------------------------------------- signs and order */

/* The magnitude; of an integer modulo 2^32 or 2^64, so that the smallest one
 * is its own. */
TN_MATH_FN float tn_math_abs_f32(float x) {
  return tn_math_from_bits_f32(tn_math_bits_f32(x) & 0x7fffffffu);
}

TN_MATH_FN double tn_math_abs_f64(double x) {
  return tn_math_from_bits_f64(tn_math_bits_f64(x) & 0x7fffffffffffffffu);
}

TN_MATH_FN int32_t tn_math_abs_i32(int32_t x) {
  return (int32_t)(x < 0 ? 0u - (uint32_t)x : (uint32_t)x);
}

TN_MATH_FN int64_t tn_math_abs_i64(int64_t x) {
  return (int64_t)(x < 0 ? (uint64_t)0 - (uint64_t)x : (uint64_t)x);
}

TN_MATH_FN uint64_t tn_math_abs_u64(uint64_t x) {
  return x;
}

/* 1, -1, or 0 for zeros and NaN. */
TN_MATH_FN float tn_math_sign_f32(float x) {
  return (float)(x > 0) - (float)(x < 0);
}

TN_MATH_FN double tn_math_sign_f64(double x) {
  return (double)(x > 0) - (double)(x < 0);
}

TN_MATH_FN int32_t tn_math_sign_i32(int32_t x) {
  return (x > 0) - (x < 0);
}

TN_MATH_FN int64_t tn_math_sign_i64(int64_t x) {
  return (x > 0) - (x < 0);
}

TN_MATH_FN uint64_t tn_math_sign_u64(uint64_t x) {
  return x != 0;
}

/* The smaller and the larger, the first of two that are equal; NaN if either
 * is NaN, as in NumPy and torch and unlike C's fmin. */
TN_MATH_FN float tn_math_min_f32(float a, float b) {
  const float least = tn_math_select_f32(b < a, b, a);
  return tn_math_select_f32(b != b, b, least);
}

TN_MATH_FN double tn_math_min_f64(double a, double b) {
  const double least = tn_math_select_f64(b < a, b, a);
  return tn_math_select_f64(b != b, b, least);
}

TN_MATH_FN int32_t tn_math_min_i32(int32_t a, int32_t b) {
  return b < a ? b : a;
}

TN_MATH_FN int64_t tn_math_min_i64(int64_t a, int64_t b) {
  return b < a ? b : a;
}

TN_MATH_FN uint64_t tn_math_min_u64(uint64_t a, uint64_t b) {
  return b < a ? b : a;
}

TN_MATH_FN float tn_math_max_f32(float a, float b) {
  const float most = tn_math_select_f32(b > a, b, a);
  return tn_math_select_f32(b != b, b, most);
}

TN_MATH_FN double tn_math_max_f64(double a, double b) {
  const double most = tn_math_select_f64(b > a, b, a);
  return tn_math_select_f64(b != b, b, most);
}

TN_MATH_FN int32_t tn_math_max_i32(int32_t a, int32_t b) {
  return b > a ? b : a;
}

TN_MATH_FN int64_t tn_math_max_i64(int64_t a, int64_t b) {
  return b > a ? b : a;
}

TN_MATH_FN uint64_t tn_math_max_u64(uint64_t a, uint64_t b) {
  return b > a ? b : a;
}

/* x, but not below `low` and then not above `high`. NaN stays NaN, and a bound
 * that is NaN bounds nothing. */
TN_MATH_FN float tn_math_clip_f32(float x, float low, float high) {
  const float above = x < low ? low : x;
  return above > high ? high : above;
}

TN_MATH_FN double tn_math_clip_f64(double x, double low, double high) {
  const double above = x < low ? low : x;
  return above > high ? high : above;
}

TN_MATH_FN int32_t tn_math_clip_i32(int32_t x, int32_t low, int32_t high) {
  return tn_math_min_i32(tn_math_max_i32(x, low), high);
}

TN_MATH_FN int64_t tn_math_clip_i64(int64_t x, int64_t low, int64_t high) {
  return tn_math_min_i64(tn_math_max_i64(x, low), high);
}

TN_MATH_FN uint64_t tn_math_clip_u64(uint64_t x, uint64_t low, uint64_t high) {
  return tn_math_min_u64(tn_math_max_u64(x, low), high);
}

/* ---------------------------------------------------------------- integers */

/* Like tn_math_select_f64, but without branches: constant parts of a loop, such
 * as parameters, are then moved out of it. */
TN_MATH_FN double tn_math_masked_f64(int condition, double a, double b) {
  const uint64_t mask = (uint64_t)0 - (uint64_t)(condition != 0);
  return tn_math_from_bits_f64((tn_math_bits_f64(a) & mask) |
                               (tn_math_bits_f64(b) & ~mask));
}

/* x without its fraction, the nearest that the type has if it is too large, 0
 * for NaN. For any x the converted value fits the type. */
TN_MATH_FN int32_t tn_math_to_i32(double x) {
  const double above = tn_math_masked_f64(x > -0x1p31, x, -0x1p31);
  const double high = 0x1p31 - 1;
  const double inside = tn_math_masked_f64(above < high, above, high);
  return (int32_t)inside & -(int32_t)(x == x);
}

/* The largest i64 is no double: 2^63 - 1024 is the one below it, and has zeros
 * where the largest has ones. */
TN_MATH_FN int64_t tn_math_to_i64(double x) {
  const double above = tn_math_masked_f64(x > -0x1p63, x, -0x1p63);
  const double high = 0x1p63 - 1024;
  const double inside = tn_math_masked_f64(above < 0x1p63, above, high);
  const int64_t rest = 1023 & -(int64_t)(x >= 0x1p63);
  return ((int64_t)inside | rest) & -(int64_t)(x == x);
}

/* Processors convert to numbers with a sign: 2^63 is subtracted before, from
 * numbers that have it, and its bit is set afterwards. */
TN_MATH_FN uint64_t tn_math_to_u64(double x) {
  const double above = tn_math_masked_f64(x > 0, x, 0);
  const double high = 0x1p64 - 2048;
  const double inside = tn_math_masked_f64(above < 0x1p64, above, high);
  const double upper = tn_math_masked_f64(inside >= 0x1p63, 0x1p63, 0);
  const uint64_t half = (uint64_t)(inside >= 0x1p63) << 63;
  const uint64_t rest = 2047 & ((uint64_t)0 - (uint64_t)(x >= 0x1p64));
  return (uint64_t)(int64_t)(inside - upper) | half | rest;
}

/* x for a conversion to a double that is rounded again, to a narrower float:
 * from 2^53 on, bits below 2^11 become one bit, so that the result is as near
 * as if it were rounded once. */
TN_MATH_FN uint64_t tn_math_odd_u64(uint64_t x) {
  const uint64_t odd = (x | ((x & 0x7ff) + 0x7ff)) & ~(uint64_t)0x7ff;
  return x >> 53 != 0 ? odd : x;
}

/* The nearest number without sign. */
TN_MATH_FN uint64_t tn_math_i64_to_u64(int64_t x) {
  return x > 0 ? (uint64_t)x : 0;
}

/* ---------------------------------------------------------------- rounding */

/* The integer next to |x|, ties to even. Floats from 2^23 (2^52) on are
 * integers. */
TN_MATH_FN float tn_math_whole_f32(float x) {
  const float a = tn_math_abs_f32(x);
  return a < 0x1p23f ? (a + 0x1p23f) - 0x1p23f : a;
}

TN_MATH_FN double tn_math_whole_f64(double x) {
  const double a = tn_math_abs_f64(x);
  return a < 0x1p52 ? (a + 0x1p52) - 0x1p52 : a;
}

/* A magnitude with the sign of x. */
TN_MATH_FN float tn_math_signed_f32(float magnitude, float x) {
  return tn_math_from_bits_f32(tn_math_bits_f32(magnitude) |
                               (tn_math_bits_f32(x) & 0x80000000u));
}

TN_MATH_FN double tn_math_signed_f64(double magnitude, double x) {
  return tn_math_from_bits_f64(tn_math_bits_f64(magnitude) |
                               (tn_math_bits_f64(x) & 0x8000000000000000u));
}

/* The next integer towards zero; zeros keep the sign of x. */
TN_MATH_FN float tn_math_trunc_f32(float x) {
  const float whole = tn_math_whole_f32(x);
  const float less = whole - 1;
  return tn_math_signed_f32(whole > tn_math_abs_f32(x) ? less : whole, x);
}

TN_MATH_FN double tn_math_trunc_f64(double x) {
  const double whole = tn_math_whole_f64(x);
  const double less = whole - 1;
  return tn_math_signed_f64(whole > tn_math_abs_f64(x) ? less : whole, x);
}

/* The next integer that is not above x, and not below it. */
TN_MATH_FN float tn_math_floor_f32(float x) {
  const float near = tn_math_signed_f32(tn_math_whole_f32(x), x);
  const float less = near - 1;
  return near > x ? less : near;
}

TN_MATH_FN double tn_math_floor_f64(double x) {
  const double near = tn_math_signed_f64(tn_math_whole_f64(x), x);
  const double less = near - 1;
  return near > x ? less : near;
}

TN_MATH_FN float tn_math_ceil_f32(float x) {
  return -tn_math_floor_f32(-x);
}

TN_MATH_FN double tn_math_ceil_f64(double x) {
  return -tn_math_floor_f64(-x);
}

/* The nearest integer, ties away from zero as C's round does. */
TN_MATH_FN float tn_math_round_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const float whole = tn_math_whole_f32(x);
  const float more = whole + 1;
  return tn_math_signed_f32(a - whole == 0.5f ? more : whole, x);
}

TN_MATH_FN double tn_math_round_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double whole = tn_math_whole_f64(x);
  const double more = whole + 1;
  return tn_math_signed_f64(a - whole == 0.5 ? more : whole, x);
}

/* The nearest integer, ties to the lower one, unlike C's rint: rint(0.5) is 0,
 * rint(1.5) is 1, rint(-0.5) is -1. */
TN_MATH_FN float tn_math_rint_f32(float x) {
  const float near = tn_math_signed_f32(tn_math_whole_f32(x), x);
  const float less = near - 1;
  return near - x == 0.5f ? less : near;
}

TN_MATH_FN double tn_math_rint_f64(double x) {
  const double near = tn_math_signed_f64(tn_math_whole_f64(x), x);
  const double less = near - 1;
  return near - x == 0.5 ? less : near;
}

/* The nearest integer, ties to the even one, as C's rint in the default mode.
 */
TN_MATH_FN float tn_math_round_even_f32(float x) {
  return tn_math_signed_f32(tn_math_whole_f32(x), x);
}

TN_MATH_FN double tn_math_round_even_f64(double x) {
  return tn_math_signed_f64(tn_math_whole_f64(x), x);
}

/* The same by instructions that processors have, but x86 only from SSE4.1 on:
 * without them each is a call. */
TN_MATH_FN float tn_math_floor_direct_f32(float x) {
  return floorf(x);
}

TN_MATH_FN double tn_math_floor_direct_f64(double x) {
  return floor(x);
}

TN_MATH_FN float tn_math_ceil_direct_f32(float x) {
  return ceilf(x);
}

TN_MATH_FN double tn_math_ceil_direct_f64(double x) {
  return ceil(x);
}

TN_MATH_FN float tn_math_trunc_direct_f32(float x) {
  return truncf(x);
}

TN_MATH_FN double tn_math_trunc_direct_f64(double x) {
  return trunc(x);
}

TN_MATH_FN float tn_math_round_direct_f32(float x) {
  return roundf(x);
}

TN_MATH_FN double tn_math_round_direct_f64(double x) {
  return round(x);
}

TN_MATH_FN float tn_math_rint_direct_f32(float x) {
  const float near = nearbyintf(x);
  const float less = near - 1;
  return near - x == 0.5f ? less : near;
}

TN_MATH_FN double tn_math_rint_direct_f64(double x) {
  const double near = nearbyint(x);
  const double less = near - 1;
  return near - x == 0.5 ? less : near;
}

TN_MATH_FN float tn_math_round_even_direct_f32(float x) {
  return nearbyintf(x);
}

TN_MATH_FN double tn_math_round_even_direct_f64(double x) {
  return nearbyint(x);
}

/* a / b to about 2^-45, where |b| and its inverse are within the range of
 * float: cheaper than the division of doubles. */
TN_MATH_FN double tn_math_divide_short(double a, double b) {
  const double coarse = (double)(1.0f / (float)b);
  return a * (coarse * (2 - b * coarse));
}

/* ---------------------------------------------------------------- integers */

/* a / b towards minus infinity, and the remainder with the sign of b. Both are
 * 0 where b is 0; the smallest number divided by -1 is itself. */
TN_MATH_FN int32_t tn_math_div_i32(int32_t a, int32_t b) {
  const int64_t by = b == 0 ? 1 : b;
  const int64_t down = ((int64_t)a % by != 0) & ((a < 0) != (by < 0));
  const int64_t quotient = (int64_t)a / by - down;
  return b == 0 ? 0 : (int32_t)(uint32_t)quotient;
}

TN_MATH_FN int64_t tn_math_div_i64(int64_t a, int64_t b) {
  const int64_t by = (b == 0 || b == -1) ? 1 : b;
  const int64_t down = (a % by != 0) & ((a < 0) != (by < 0));
  const int64_t quotient = a / by - down;
  if (b == -1) return (int64_t)((uint64_t)0 - (uint64_t)a);
  return b == 0 ? 0 : quotient;
}

TN_MATH_FN int32_t tn_math_mod_i32(int32_t a, int32_t b) {
  const int64_t by = b == 0 ? 1 : b;
  const int64_t rest = (int64_t)a % by;
  return (int32_t)((rest != 0 && (rest < 0) != (by < 0)) ? rest + by : rest);
}

TN_MATH_FN int64_t tn_math_mod_i64(int64_t a, int64_t b) {
  const int64_t by = (b == 0 || b == -1) ? 1 : b;
  const int64_t rest = a % by;
  return (rest != 0 && (rest < 0) != (by < 0)) ? rest + by : rest;
}

TN_MATH_FN uint64_t tn_math_div_u64(uint64_t a, uint64_t b) {
  const uint64_t quotient = a / (b == 0 ? 1 : b);
  return b == 0 ? 0 : quotient;
}

TN_MATH_FN uint64_t tn_math_mod_u64(uint64_t a, uint64_t b) {
  return a % (b == 0 ? 1 : b);
}

/* base^exponent modulo 2^32 and 2^64; 0 for a negative exponent. */
TN_MATH_FN int32_t tn_math_pow_i32(int32_t base, int32_t exponent) {
  uint32_t power = exponent < 0 ? 0 : 1;
  uint32_t square = (uint32_t)base;
  for (int32_t left = exponent; left > 0; left >>= 1) {
    power *= (left & 1) ? square : 1u;
    square *= square;
  }
  return (int32_t)power;
}

TN_MATH_FN int64_t tn_math_pow_i64(int64_t base, int64_t exponent) {
  uint64_t power = exponent < 0 ? 0 : 1;
  uint64_t square = (uint64_t)base;
  for (int64_t left = exponent; left > 0; left >>= 1) {
    power *= (left & 1) ? square : 1u;
    square *= square;
  }
  return (int64_t)power;
}

TN_MATH_FN uint64_t tn_math_pow_u64(uint64_t base, uint64_t exponent) {
  uint64_t power = 1;
  for (uint64_t left = exponent; left > 0; left >>= 1) {
    power *= (left & 1) ? base : 1u;
    base *= base;
  }
  return power;
}

#endif /* TENON_KERNEL_MATH_BASIC_H_ */
