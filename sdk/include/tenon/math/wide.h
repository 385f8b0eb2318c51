/* SPDX-License-Identifier: Apache-2.0
 * wide.h: part of kernel.h: functions of math.h for sixteen floats at once, by
 * what AVX-512 alone has: tables of sixteen floats in a register, exponents and
 * fractions that are right for denormal and infinite numbers, and scaling by
 * powers of two that rounds once. What comes out for an element does not depend
 * on the others; math.h has the bounds.
 *
 *   TN_WIDE_FN tn_wide steep(tn_wide x) {
 *     return tn_math_gelu_wide(x) * tn_wide_of(1.5f);
 *   }
 *
 *   TN_WIDE_FN void steep_loop_wide(const tn_kernel_block *block,
 *                                   const void *params) {
 *     ...
 *     for (int64_t i = 0, n = block->n; n > 0; i += 16, n -= 16)
 *       tn_wide_store(y + i, n, steep(tn_wide_load(x + i, n)));
 *   }
 *
 *   TN_KERNEL_BODY void steep_loop(...) for the other levels
 *   TN_KERNEL_LEVELS_WIDE(steep_loop)     (level.h)
 *
 * the first two where TN_KERNEL_HAS_WIDE is 1. Tables and coefficients are
 * those of tools/math/pieces.py and minimax.py.
 */
#include "tenon/kernel.h" /* which includes this file: so before the guard */

#ifndef TENON_MATH_WIDE_H_
#define TENON_MATH_WIDE_H_

#include "tenon/level.h"

#if TN_KERNEL_HAS_WIDE

#include <immintrin.h>

/* What gcc's own macros convert, where it does not optimise. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"

#ifdef __cplusplus
extern "C" {
#endif

/* Sixteen floats, to which + - * / apply, element by element. */
typedef __m512 tn_wide;

#define TN_WIDE_FN TN_KERNEL_BODY TN_KERNEL_AVX512

/* ------------------------------------------------------------------ memory */

/* The same number sixteen times. [any] */
TN_WIDE_FN tn_wide tn_wide_of(float x) {
  return _mm512_set1_ps(x);
}

/* The first n floats of memory anywhere, sixteen at most. Others are 1, where
 * no function has anything that takes longer. [any] */
TN_WIDE_FN tn_wide tn_wide_load(const float *from, int64_t n) {
  if (n >= 16) return _mm512_loadu_ps(from);
  return _mm512_mask_loadu_ps(tn_wide_of(1.0f), (__mmask16)((1u << n) - 1),
                              from);
}

/* Sets the first n floats, sixteen at most. [any] */
TN_WIDE_FN void tn_wide_store(float *to, int64_t n, tn_wide x) {
  if (n >= 16)
    _mm512_storeu_ps(to, x);
  else
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), x);
}

/* ------------------------------------------------------------------- parts */

/* a*b + c and c - a*b, rounded once. */
TN_WIDE_FN tn_wide tn_wide_fma(tn_wide a, tn_wide b, tn_wide c) {
  return _mm512_fmadd_ps(a, b, c);
}

TN_WIDE_FN tn_wide tn_wide_less(tn_wide c, tn_wide a, tn_wide b) {
  return _mm512_fnmadd_ps(a, b, c);
}

/* a*x + c for a constant c: a step of a polynomial. */
TN_WIDE_FN tn_wide tn_wide_step(tn_wide a, tn_wide x, float c) {
  return _mm512_fmadd_ps(a, x, tn_wide_of(c));
}

TN_WIDE_FN __m512i tn_wide_bits(tn_wide x) {
  return _mm512_castps_si512(x);
}

TN_WIDE_FN tn_wide tn_wide_from_bits(__m512i bits) {
  return _mm512_castsi512_ps(bits);
}

TN_WIDE_FN __m512i tn_wide_sign(void) {
  return _mm512_set1_epi32(INT32_MIN);
}

TN_WIDE_FN tn_wide tn_wide_abs(tn_wide x) {
  return tn_wide_from_bits(
      _mm512_andnot_si512(tn_wide_sign(), tn_wide_bits(x)));
}

/* y, of which the sign bit is taken from x. */
TN_WIDE_FN tn_wide tn_wide_signed(tn_wide y, tn_wide x) {
  return tn_wide_from_bits(_mm512_ternarylogic_epi32(
      tn_wide_sign(), tn_wide_bits(x), tn_wide_bits(y), 0xca));
}

/* The smaller one of two, and the larger one; x where it is NaN. */
TN_WIDE_FN tn_wide tn_wide_up_to(tn_wide x, float bound) {
  return _mm512_min_ps(tn_wide_of(bound), x);
}

TN_WIDE_FN tn_wide tn_wide_from(tn_wide x, float bound) {
  return _mm512_max_ps(tn_wide_of(bound), x);
}

/* b where the mask has a bit, otherwise a. */
TN_WIDE_FN tn_wide tn_wide_select(__mmask16 mask, tn_wide a, tn_wide b) {
  return _mm512_mask_mov_ps(a, mask, b);
}

/* A table, and what it has at the lowest four bits of each index. */
#define TN_WIDE_TABLE(name, ...) \
  static const float name[16] __attribute__((aligned(64))) = {__VA_ARGS__}

TN_WIDE_FN tn_wide tn_wide_look_up(const float *table, __m512i index) {
  return _mm512_permutexvar_ps(index, _mm512_load_ps(table));
}

/* ------------------------------------------------------------ exponentials */

/* exp(x)*unit, x from -104.5 to 89.5, the unit a power of 2. */
TN_WIDE_FN tn_wide tn_wide_exp_times(tn_wide x, float unit) {
  const tn_wide magic = tn_wide_of(0x1.8p23f);
  const tn_wide n = tn_wide_fma(x, tn_wide_of(0x1.715476p+0f), magic) - magic;
  const tn_wide high = tn_wide_less(x, n, tn_wide_of(0x1.62e4p-1f));
  const tn_wide r = tn_wide_less(high, n, tn_wide_of(0x1.7f7d1cp-20f));
  tn_wide p = tn_wide_of(0x1.6ac6dcp-10f * unit);
  p = tn_wide_step(p, r, 0x1.123ddcp-7f * unit);
  p = tn_wide_step(p, r, 0x1.555858p-5f * unit);
  p = tn_wide_step(p, r, 0x1.55548cp-3f * unit);
  p = tn_wide_step(p, r, 0x1.fffffcp-2f * unit);
  p = tn_wide_step(p, r, unit);
  p = tn_wide_step(p, r, unit);
  return _mm512_scalef_ps(p, n);
}

TN_WIDE_FN tn_wide tn_math_exp_wide(tn_wide x) {
  const tn_wide within = tn_wide_up_to(tn_wide_from(x, -104.5f), 89.5f);
  return tn_wide_exp_times(within, 1.0f);
}

/* With e a quarter of exp(|x|), it is twice e + 1/(16*e). */
TN_WIDE_FN tn_wide tn_math_cosh_wide(tn_wide x) {
  const tn_wide a = tn_wide_up_to(tn_wide_abs(x), 89.5f);
  const tn_wide e = tn_wide_exp_times(a, 0.25f);
  const tn_wide half = e + tn_wide_of(0.0625f) / e;
  return half + half;
}

/* With |x| = n*ln 2 + r: `sum` and `difference` are a quarter of 2^n + 2^-n and
 * of 2^n - 2^-n, `even` and `odd` cosh(r) - 1 and sinh(r). Bits of 2^-n that
 * would be less than 0 are 0. */
TN_WIDE_FN tn_wide tn_math_sinh_wide(tn_wide x) {
  const tn_wide a = tn_wide_up_to(tn_wide_abs(x), 89.5f);
  const tn_wide magic = tn_wide_of(0x1.8p23f + 125);
  const tn_wide shifted = tn_wide_fma(a, tn_wide_of(0x1.715476p+0f), magic);
  const tn_wide n = shifted - magic;
  const tn_wide high = tn_wide_less(a, n, tn_wide_of(0x1.62e4p-1f));
  const tn_wide r = tn_wide_less(high, n, tn_wide_of(0x1.7f7d1cp-20f));
  const __m512i up = _mm512_slli_epi32(tn_wide_bits(shifted), 23);
  const __m512i down = _mm512_subs_epu16(_mm512_set1_epi32(0x7d000000), up);
  const tn_wide sum = tn_wide_from_bits(up) + tn_wide_from_bits(down);
  const tn_wide difference = tn_wide_from_bits(up) - tn_wide_from_bits(down);
  const tn_wide z = r * r;
  tn_wide even = tn_wide_of(0x1.6f2154p-10f);
  even = tn_wide_step(even, z, 0x1.5551fap-5f);
  even = tn_wide_step(even, z, 0x1.000002p-1f) * z;
  tn_wide odd = tn_wide_of(0x1.a2b294p-13f);
  odd = tn_wide_step(odd, z, 0x1.110fbcp-7f);
  odd = tn_wide_step(odd, z, 0x1.555556p-3f);
  odd = tn_wide_fma(odd, r * z, r);
  const tn_wide half = difference + tn_wide_fma(difference, even, sum * odd);
  return tn_wide_signed(half + half, x);
}

/* -------------------------------------------------------------- logarithms */

/* x is m*2^k with m from 3/4 to 3/2, and m in one of sixteen pieces; NaN where
 * it is negative. */
typedef struct tn_wide_split {
  tn_wide m, k;
  __m512i piece;
} tn_wide_split;

TN_WIDE_FN tn_wide_split tn_wide_split_of(tn_wide x) {
  tn_wide_split split;
  split.m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  split.k = _mm512_getexp_ps(x) - _mm512_getexp_ps(split.m);
  split.piece = _mm512_srli_epi32(tn_wide_bits(split.m), 19);
  return split;
}

/* f of m = (1 + f)/factor, the factor being that of the piece, and 1 where m is
 * nearly 1. The logarithms of 1/factor stand in another table. */
TN_WIDE_FN tn_wide tn_wide_split_rest(tn_wide_split split, tn_wide factor) {
  return _mm512_fmsub_ps(split.m, factor, tn_wide_of(1.0f));
}

TN_WIDE_FN tn_wide tn_wide_log_factor(__m512i piece) {
  TN_WIDE_TABLE(factors, 0x1.000000p+0f, 0x1.d47674p-1f, 0x1.badefep-1f,
                0x1.a3bd82p-1f, 0x1.8ff0f8p-1f, 0x1.7ca162p-1f, 0x1.6c3068p-1f,
                0x1.5c5efap-1f, 0x1.4ddc6ep+0f, 0x1.40ee68p+0f, 0x1.359d3ep+0f,
                0x1.29e8c6p+0f, 0x1.1ed194p+0f, 0x1.164eccp+0f, 0x1.0c9fc6p+0f,
                0x1.000000p+0f);
  return tn_wide_look_up(factors, piece);
}

/* y, but where x is a zero, infinite or negative what `answers` has for that
 * kind of number, as vfixupimmps counts them: 3 is NaN, 4 -infinity and 5
 * infinity, 0 leaves y. Those of a logarithm are in one place. */
enum { TN_WIDE_LOG_ENDS = 0x03530400 };

TN_WIDE_FN tn_wide tn_wide_ends(tn_wide y, tn_wide x, int answers) {
  return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(answers), 0);
}

/* log((1 + f)/factor*2^k). */
TN_WIDE_FN tn_wide tn_wide_log_of(tn_wide f, __m512i piece, tn_wide k) {
  TN_WIDE_TABLE(values, 0x0.0p+0f, 0x1.6c00fcp-4f, 0x1.290ddap-3f,
                0x1.96ea02p-3f, 0x1.f9debep-3f, 0x1.2f9c98p-2f, 0x1.5cd3bap-2f,
                0x1.8a4c48p-2f, -0x1.0febacp-2f, -0x1.cef312p-3f,
                -0x1.856d2ep-3f, -0x1.36801cp-3f, -0x1.d19a82p-4f,
                -0x1.5638cap-4f, -0x1.8a53b4p-5f, 0x0.0p+0f);
  const tn_wide value = tn_wide_look_up(values, piece);
  tn_wide p = tn_wide_of(0x1.80d32ep-3f);
  p = tn_wide_step(p, f, -0x1.0010aap-2f);
  p = tn_wide_step(p, f, 0x1.55590ap-2f);
  p = tn_wide_step(p, f, -0.5f);
  const tn_wide two = tn_wide_of(0x1.62ep-1f);
  const tn_wide high = tn_wide_fma(k, two, value);
  const tn_wide lost = _mm512_fmsub_ps(k, two, high) + value;
  const tn_wide low = tn_wide_fma(k, tn_wide_of(0x1.0bfbe8p-15f), lost);
  return high + tn_wide_fma(p, f * f, f + low);
}

TN_WIDE_FN tn_wide tn_math_log_wide(tn_wide x) {
  const tn_wide_split split = tn_wide_split_of(x);
  const tn_wide factor = tn_wide_log_factor(split.piece);
  const tn_wide f = tn_wide_split_rest(split, factor);
  return tn_wide_ends(tn_wide_log_of(f, split.piece, split.k), x,
                      TN_WIDE_LOG_ENDS);
}

TN_WIDE_FN tn_wide tn_math_log2_wide(tn_wide x) {
  TN_WIDE_TABLE(factors, 0x1.000000p+0f, 0x1.d4a7d6p-1f, 0x1.bb124ap-1f,
                0x1.a443a8p-1f, 0x1.8fe774p-1f, 0x1.7d3916p-1f, 0x1.6c765ap-1f,
                0x1.5bf996p-1f, 0x1.4e5cc8p+0f, 0x1.4191c2p+0f, 0x1.350ebap+0f,
                0x1.2a1c58p+0f, 0x1.1fbd3ap+0f, 0x1.15b742p+0f, 0x1.0d360ep+0f,
                0x1.000000p+0f);
  TN_WIDE_TABLE(values, 0x0.0p+0f, 0x1.055b5cp-3f, 0x1.ab38d2p-3f,
                0x1.23aeecp-2f, 0x1.6d0ba2p-2f, 0x1.b3b88cp-2f, 0x1.f624a6p-2f,
                0x1.1d4420p-1f, -0x1.8a83f0p-2f, -0x1.50e1c0p-2f,
                -0x1.1640cep-2f, -0x1.c1f466p-3f, -0x1.59544ap-3f,
                -0x1.e123bap-4f, -0x1.2958b4p-4f, 0x0.0p+0f);
  const tn_wide_split split = tn_wide_split_of(x);
  const tn_wide factor = tn_wide_look_up(factors, split.piece);
  const tn_wide f = tn_wide_split_rest(split, factor);
  tn_wide p = tn_wide_of(0x1.1597aep-2f);
  p = tn_wide_step(p, f, -0x1.716c80p-2f);
  p = tn_wide_step(p, f, 0x1.ec75f6p-2f);
  p = tn_wide_step(p, f, -0x1.715478p-1f);
  p = tn_wide_step(p, f, 0x1.715476p+0f);
  return tn_wide_fma(p, f, split.k + tn_wide_look_up(values, split.piece));
}

TN_WIDE_FN tn_wide tn_math_log10_wide(tn_wide x) {
  TN_WIDE_TABLE(factors, 0x1.000000p+0f, 0x1.d3d5f2p-1f, 0x1.bad0c6p-1f,
                0x1.a414d8p-1f, 0x1.8f994ep-1f, 0x1.7c69e0p-1f, 0x1.6bb85ep-1f,
                0x1.5d2730p-1f, 0x1.4e3fa2p+0f, 0x1.41d362p+0f, 0x1.35b2aep+0f,
                0x1.29e014p+0f, 0x1.1fd5bap+0f, 0x1.1532c0p+0f, 0x1.0c15e8p+0f,
                0x1.000000p+0f);
  TN_WIDE_TABLE(values, 0x0.0p+0f, 0x1.40ef3ep-5f, 0x1.023db4p-4f,
                0x1.5ffef0p-4f, 0x1.b8eabcp-4f, 0x1.083878p-3f, 0x1.30221cp-3f,
                0x1.547d06p-3f, -0x1.da7020p-4f, -0x1.97104cp-4f,
                -0x1.52bb8cp-4f, -0x1.0d7e92p-4f, -0x1.a10040p-5f,
                -0x1.1b09aap-5f, -0x1.483a7cp-6f, 0x0.0p+0f);
  const tn_wide_split split = tn_wide_split_of(x);
  const tn_wide factor = tn_wide_look_up(factors, split.piece);
  const tn_wide value = tn_wide_look_up(values, split.piece);
  const tn_wide f = tn_wide_split_rest(split, factor);
  tn_wide p = tn_wide_step(tn_wide_of(0x1.4e4132p-4f), f, -0x1.bcd4a4p-4f);
  const tn_wide q =
      tn_wide_step(tn_wide_of(0x1.287daep-3f), f, -0x1.bcb7b2p-3f);
  p = tn_wide_fma(p, f * f, q);
  p = tn_wide_step(p, f, 0x1.bcb7b2p-2f);
  const tn_wide low = split.k * tn_wide_of(0x1.3509f8p-18f);
  return tn_wide_fma(split.k, tn_wide_of(0x1.344p-2f), value) +
         tn_wide_fma(p, f, low);
}

/* Of a sum of which `half` is nearly half, so that it does not overflow: what
 * it is multiplied with to become 1 + f. Its parts are, one by one: where they
 * are small beside 1, nothing of them is lost. */
TN_WIDE_FN tn_wide tn_wide_sum_scale(tn_wide half, tn_wide_split *sum) {
  *sum = tn_wide_split_of(half);
  sum->k = sum->k + tn_wide_of(1.0f);
  return _mm512_scalef_ps(tn_wide_log_factor(sum->piece),
                          tn_wide_of(0.0f) - sum->k);
}

TN_WIDE_FN tn_wide tn_math_log1p_wide(tn_wide x) {
  tn_wide_split sum;
  const tn_wide one_half = tn_wide_of(0.5f);
  const tn_wide half = tn_wide_fma(x, one_half, one_half);
  const tn_wide scale = tn_wide_sum_scale(half, &sum);
  const tn_wide f = tn_wide_fma(x, scale, scale - tn_wide_of(1.0f));
  const tn_wide y = tn_wide_log_of(f, sum.piece, sum.k);
  return tn_wide_signed(tn_wide_ends(y, half, TN_WIDE_LOG_ENDS), x);
}

/* log(1 + w + root) of w = x - 1 and the root of w*(w + 2), which is w where w
 * is large. `near` is good to 14 digits, `more` what it lacks. Those digits
 * differ between processors, and with them the last ones of what comes out. */
TN_WIDE_FN tn_wide tn_math_acosh_wide(tn_wide x) {
  const tn_wide w = x - tn_wide_of(1.0f);
  const tn_wide one_half = tn_wide_of(0.5f);
  const __mmask16 small =
      _mm512_cmp_ps_mask(w, tn_wide_of(0x1p30f), _CMP_LT_OQ);
  const tn_wide square = tn_wide_fma(w, w, w + w);
  const tn_wide inverse = _mm512_rsqrt14_ps(square);
  const tn_wide near = _mm512_mask_mul_ps(w, small, square, inverse);
  const tn_wide rest = tn_wide_less(square, near, near);
  const tn_wide more = _mm512_maskz_mul_ps(small, rest, inverse * one_half);
  tn_wide_split sum;
  const tn_wide half = tn_wide_fma(x, one_half, near * one_half);
  const tn_wide scale = tn_wide_sum_scale(half, &sum);
  const tn_wide less = tn_wide_fma(near, scale, scale - tn_wide_of(1.0f));
  const tn_wide f = tn_wide_fma(w + more, scale, less);
  const tn_wide y = tn_wide_log_of(f, sum.piece, sum.k);
  return tn_wide_ends(y, w, 0x03530800);
}

/* --------------------------------------------------------- angles and arcs */

/* y, but what is far computed with the function of one, for sixteen at a time
 * as well. */
TN_KERNEL_ONCE TN_KERNEL_AVX512 tn_wide tn_wide_tan_far(tn_wide y, tn_wide x,
                                                        __mmask16 far) {
  float lanes[16];
  tn_wide_store(lanes, 16, x);
  for (int i = 0; i < 16; ++i) lanes[i] = tn_math_tan_f32(lanes[i]);
  return tn_wide_select(far, y, tn_wide_load(lanes, 16));
}

/* As in trig.h, but of x itself, of which n takes the sign, and with pi/2 in
 * three parts: of the first one, less x, no digit is lost, as all of them are
 * multiplied and subtracted in one go. `lost` is -0 where nothing is, which
 * leaves -0 as it is. n counts in units of 2^-22, the last digit of what is
 * between 2 and 4: so `shifted` is 2 and n + 1024 such units, and has a bit of
 * 0xbffff800 wherever n is not between -1024 and 1023. */
TN_WIDE_FN tn_wide tn_math_tan_wide(tn_wide x) {
  const tn_wide magic = tn_wide_of(0x1.0008p1f);
  const tn_wide shifted = tn_wide_fma(x, tn_wide_of(0x1.45f306p-23f), magic);
  const __mmask16 far = _mm512_test_epi32_mask(
      tn_wide_bits(shifted), _mm512_set1_epi32((int)0xbffff800));
  const tn_wide n = shifted - magic;
  const tn_wide rest = tn_wide_less(x, n, tn_wide_of(0x1.921fb4p+22f));
  const tn_wide second = tn_wide_of(0x1.444p-2f);
  const tn_wide r = tn_wide_less(rest, n, second);
  const tn_wide lost = _mm512_fnmsub_ps(n, second, r - rest);
  const tn_wide low = tn_wide_less(lost, n, tn_wide_of(0x1.68c234p-17f));
  const tn_wide z = r * r;
  tn_wide p = tn_wide_of(0x1.3579dep-7f);
  p = tn_wide_step(p, z, 0x1.88d39cp-9f);
  p = tn_wide_step(p, z, 0x1.91e376p-6f);
  p = tn_wide_step(p, z, 0x1.b53c06p-5f);
  p = tn_wide_step(p, z, 0x1.113124p-3f);
  p = tn_wide_step(p, z, 0x1.5554c8p-2f);
  const tn_wide t = r + tn_wide_fma(p, r * z, low);
  const __mmask16 odd =
      _mm512_test_epi32_mask(tn_wide_bits(shifted), _mm512_set1_epi32(1));
  const tn_wide y = _mm512_mask_div_ps(t, odd, tn_wide_of(-1.0f), t);
  return __builtin_expect(far != 0, 0) ? tn_wide_tan_far(y, x, far) : y;
}

/* As in trig.h. `high` has so few digits that what pi/2 is more than it twice
 * is exact; `low` is what it lacks to the root. What the root lacks itself is
 * what its square does, by twice the root, which is 1 where it counts most. */
TN_WIDE_FN tn_wide tn_math_asin_wide(tn_wide x) {
  const tn_wide a = tn_wide_abs(x);
  const tn_wide one = tn_wide_of(1.0f), two = tn_wide_of(2.0f);
  const tn_wide half = tn_wide_less(tn_wide_of(0.5f), tn_wide_of(0.5f), a);
  const tn_wide root = _mm512_sqrt_ps(half);
  const __mmask16 large = _mm512_cmp_ps_mask(a, tn_wide_of(0.5f), _CMP_NLE_UQ);
  const tn_wide s = tn_wide_select(large, a, root);
  const tn_wide z = tn_wide_select(large, a * a, half);
  tn_wide p = tn_wide_of(0x1.48aa18p-5f);
  p = tn_wide_step(p, z, 0x1.a1d878p-6f);
  p = tn_wide_step(p, z, 0x1.7206c2p-5f);
  p = tn_wide_step(p, z, 0x1.331f24p-4f);
  p = tn_wide_step(p, z, 0x1.555556p-3f);
  const tn_wide cube = s * z;
  const tn_wide high = (root + one) - one;
  const tn_wide low = (root - high) + tn_wide_less(half, root, root);
  const tn_wide end = tn_wide_less(tn_wide_of(0x1.921fb6p+0f), two, high);
  const tn_wide lost =
      tn_wide_fma(two, tn_wide_fma(cube, p, low), tn_wide_of(0x1.777a5cp-25f));
  const tn_wide y = tn_wide_select(large, tn_wide_fma(cube, p, s), end - lost);
  return tn_wide_signed(y, x);
}

/* -------------------------------------------------------------------- gelu */

/* x less the tail a*erfc(a/sqrt(2))/2, or that alone where x is negative, with
 * a = |x|. The tail is 2^(n + f), for -45/64*a*a, which is nearly exp(-a*a/2),
 * by a function that changes slowly: a polynomial of a less the middle of its
 * piece. Pieces go by the exponent and two bits of a + 1; the first one, up to
 * a quarter, is the tail itself. `lost` is what the square lacks. */
TN_WIDE_FN tn_wide tn_math_gelu_wide(tn_wide x) {
  TN_WIDE_TABLE(middle, 0x1.4008a4p+0f, 0x1.c00becp+0f, 0x1.1ffdd0p+1f,
                0x1.5ffdfap+1f, 0x1.bffe40p+1f, 0x1.1ffaf8p+2f, 0x1.6002d8p+2f,
                0x1.a005a2p+2f, 0x1.000b7cp+3f, 0x1.3ff9c4p+3f, 0x1.800516p+3f,
                0x1.c004c2p+3f, 0x0.0p+0f, 0x1.7feb54p-2f, 0x1.3ffa42p-1f,
                0x1.c00b8ap-1f);
  TN_WIDE_TABLE(c0, 0x1.219cacp-2f, 0x1.3f58f8p-2f, 0x1.4c15aep-2f,
                0x1.4e95bcp-2f, 0x1.46812cp-2f, 0x1.2e9766p-2f, 0x1.0e5af2p-2f,
                0x1.d48328p-3f, 0x1.6683a2p-3f, 0x1.c9add2p-4f, 0x1.073694p-4f,
                0x1.117048p-5f, 0x0.0p+0f, 0x1.22f92ep-3f, 0x1.9bd758p-3f,
                0x1.f08c80p-3f);
  TN_WIDE_TABLE(c1, 0x1.4f6b1ep-4f, 0x1.3b57c4p-5f, 0x1.b5f026p-7f,
                -0x1.4593ecp-9f, -0x1.1a92a0p-6f, -0x1.cfa408p-6f,
                -0x1.160172p-5f, -0x1.277982p-5f, -0x1.1ca8dep-5f,
                -0x1.caf1d6p-6f, -0x1.3e0068p-6f, -0x1.820fa2p-7f,
                0x1.000000p-1f, 0x1.205302p-2f, 0x1.91c67ap-3f, 0x1.1ae150p-3f);
  TN_WIDE_TABLE(
      c2, -0x1.d9e93ep-5f, -0x1.073c1ap-5f, -0x1.402324p-6f, -0x1.a39dacp-7f,
      -0x1.eb7304p-8f, -0x1.022ad8p-8f, -0x1.e23eacp-10f, -0x1.83200ep-12f,
      0x1.26a2f0p-10f, 0x1.0f29aap-9f, 0x1.14a76cp-9f, 0x1.b1e4c2p-10f,
      -0x1.988452p-2f, -0x1.a92542p-3f, -0x1.1d30b8p-3f, -0x1.896204p-4f);
  TN_WIDE_TABLE(
      c3, 0x1.92773ep-6f, 0x1.7b7ef2p-7f, 0x1.865894p-8f, 0x1.b592e4p-9f,
      0x1.b123e2p-10f, 0x1.c5ab34p-11f, 0x1.2c6edcp-11f, 0x1.b68daep-12f,
      0x1.0762cap-12f, 0x1.2ea7d4p-14f, -0x1.84bc1cp-15f, -0x1.8d3f38p-14f,
      -0x1.2ad8c0p-20f, 0x1.d4cac6p-4f, 0x1.24debcp-4f, 0x1.773ea0p-5f);
  TN_WIDE_TABLE(
      c4, -0x1.408702p-7f, -0x1.0cd764p-8f, -0x1.e63dc6p-10f, -0x1.d39280p-11f,
      -0x1.5cd8a2p-12f, -0x1.cac0c2p-14f, -0x1.9ab02ap-15f, -0x1.0b5e30p-15f,
      -0x1.a702e2p-16f, -0x1.406efep-16f, -0x1.5927a8p-17f, -0x1.2c9adcp-19f,
      0x1.106d2ep-4f, -0x1.c52c9ep-5f, -0x1.0c167ep-5f, -0x1.4507f0p-6f);
  TN_WIDE_TABLE(
      c5, 0x1.d8059cp-9f, 0x1.68b990p-10f, 0x1.2a4236p-11f, 0x1.08744ap-12f,
      0x1.60a3b6p-14f, 0x1.6f0460p-16f, 0x1.99442cp-18f, 0x1.d65210p-20f,
      0x1.2044d4p-21f, 0x1.a0d846p-21f, 0x1.e4e13cp-21f, 0x1.5ea26ep-21f,
      -0x1.311fc4p-13f, 0x1.8772aep-6f, 0x1.bbd04ep-7f, 0x1.fa4738p-8f);
  TN_WIDE_TABLE(c6, -0x1.3220d4p-10f, -0x1.b218f0p-12f, -0x1.3221f4p-13f,
                -0x1.555ff8p-14f, -0x1.53fc2ap-16f, -0x1.538b16p-18f,
                -0x1.80fe06p-20f, -0x1.370762p-22f, -0x1.17c08ep-26f,
                0x1.db870cp-26f, -0x1.e0170ep-28f, -0x1.0734f6p-25f,
                -0x1.39a1e6p-7f, -0x1.3d8628p-7f, -0x1.2afdbap-8f,
                -0x1.439d86p-9f);
  const tn_wide a = _mm512_range_ps(x, tn_wide_of(14.5f), 0x0a);
  const tn_wide shifted = a + tn_wide_of(1.0f);
  const __m512i index = _mm512_srli_epi32(tn_wide_bits(shifted), 21);
  const tn_wide r = a - tn_wide_look_up(middle, index);
  tn_wide slow = tn_wide_look_up(c6, index);
  slow = tn_wide_fma(slow, r, tn_wide_look_up(c5, index));
  slow = tn_wide_fma(slow, r, tn_wide_look_up(c4, index));
  slow = tn_wide_fma(slow, r, tn_wide_look_up(c3, index));
  slow = tn_wide_fma(slow, r, tn_wide_look_up(c2, index));
  slow = tn_wide_fma(slow, r, tn_wide_look_up(c1, index));
  slow = tn_wide_fma(slow, r, tn_wide_look_up(c0, index));
  const tn_wide square = a * a;
  const tn_wide factor = tn_wide_of(-0x1.68p-1f);
  const tn_wide magic = tn_wide_of(0x1.8p23f);
  const tn_wide n = tn_wide_fma(square, factor, magic) - magic;
  const tn_wide lost = _mm512_fmsub_ps(a, a, square);
  const tn_wide f =
      tn_wide_fma(lost, factor, _mm512_fmsub_ps(square, factor, n));
  tn_wide p = tn_wide_of(0x1.416aa6p-13f);
  p = tn_wide_step(p, f, 0x1.5f0abep-10f);
  p = tn_wide_step(p, f, 0x1.3b2db8p-7f);
  p = tn_wide_step(p, f, 0x1.c6af72p-5f);
  p = tn_wide_step(p, f, 0x1.ebfbdep-3f);
  p = tn_wide_step(p, f, 0x1.62e430p-1f);
  const __mmask16 powers =
      _mm512_cmp_ps_mask(shifted, tn_wide_of(1.25f), _CMP_GE_OQ);
  const tn_wide more = _mm512_maskz_mul_ps(powers, p, f);
  const tn_wide tail = _mm512_scalef_ps(tn_wide_fma(slow, more, slow), n);
  return _mm512_max_ps(tn_wide_of(-0.0f), x) - tail;
}

#ifdef __cplusplus
}
#endif

#pragma GCC diagnostic pop

#endif
#endif /* TENON_MATH_WIDE_H_ */
