/* SPDX-License-Identifier: Apache-2.0
 * wide.h: part of kernel.h: functions of math.h for sixteen floats at once, by
 * features of AVX-512: tables of sixteen floats in a register, or of 32 in two,
 * exponents and fractions that are right for denormal and infinite numbers, and
 * scaling by powers of two that rounds once. The result for an element does not
 * depend on the others; math.h has the bounds.
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
 *   TN_KERNEL_LEVELS_WIDE(steep_loop)     (cpu_levels.h)
 *
 * the first two where TN_KERNEL_HAS_WIDE is 1. Tables and coefficients are
 * those of tools/math/pieces.py and minimax.py, except the two of exp, which
 * are nearly those of its series. Functions in pieces are in wide_pieces.h.
 */
#include "tenon/kernel/kernel.h" /* includes this file: before the guard */

#ifndef TENON_KERNEL_MATH_WIDE_H_
#define TENON_KERNEL_MATH_WIDE_H_

#include "tenon/kernel/cpu_levels.h"

#if TN_KERNEL_HAS_WIDE

#include <immintrin.h>

/* Warnings that gcc's own macros cause without optimisation, and its own
 * functions in C++. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

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

/* The first n floats of memory anywhere, sixteen at most. Others are 1, for
 * which every function is fast. It prefetches 1 KiB ahead: with so many
 * operations on each sixteen the processor does not do that itself. [any] */
TN_WIDE_FN tn_wide tn_wide_load(const float *from, int64_t n) {
  _mm_prefetch((const char *)((uintptr_t)from + 1024), _MM_HINT_T0);
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

/* y with the sign bit of x. */
TN_WIDE_FN tn_wide tn_wide_signed(tn_wide y, tn_wide x) {
  return tn_wide_from_bits(_mm512_ternarylogic_epi32(
      tn_wide_sign(), tn_wide_bits(x), tn_wide_bits(y), 0xca));
}

/* y, with its sign changed where that of x is set. */
TN_WIDE_FN tn_wide tn_wide_turned(tn_wide y, tn_wide x) {
  return tn_wide_from_bits(_mm512_ternarylogic_epi32(
      tn_wide_sign(), tn_wide_bits(x), tn_wide_bits(y), 0x6a));
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

/* A table, and its entry at the lowest four bits of each index. */
#define TN_WIDE_TABLE(name, ...) \
  static const float name[16] __attribute__((aligned(64))) = {__VA_ARGS__}

TN_WIDE_FN tn_wide tn_wide_look_up(const float *table, __m512i index) {
  return _mm512_permutexvar_ps(index, _mm512_load_ps(table));
}

/* ------------------------------------------------------------ exponentials */

/* x is n*log(2) + r, with n in sixteenths; `index` has the lowest four bits of
 * n. Not for an x beyond 2^19: then n is as large, and r any number or NaN. */
typedef struct tn_wide_power {
  tn_wide n, r;
  __m512i index;
} tn_wide_power;

TN_WIDE_FN tn_wide_power tn_wide_power_of(tn_wide x) {
  const tn_wide magic = tn_wide_of(0x1.8p19f);
  const tn_wide shifted = tn_wide_fma(x, tn_wide_of(0x1.715476p+0f), magic);
  tn_wide_power power;
  power.n = shifted - magic;
  power.r = tn_wide_less(x, power.n, tn_wide_of(0x1.62e4p-1f));
  power.r = tn_wide_less(power.r, power.n, tn_wide_of(0x1.7f7d1cp-20f));
  power.index = tn_wide_bits(shifted);
  return power;
}

/* 2^(i/16)*unit for i from 0 to 15. */
#define TN_WIDE_ROOTS(name, unit)                                          \
  TN_WIDE_TABLE(                                                           \
      name, 0x1.000000p+0f * unit, 0x1.0b5586p+0f * unit,                  \
      0x1.172b84p+0f * unit, 0x1.2387a6p+0f * unit, 0x1.306fe0p+0f * unit, \
      0x1.3dea64p+0f * unit, 0x1.4bfdaep+0f * unit, 0x1.5ab07ep+0f * unit, \
      0x1.6a09e6p+0f * unit, 0x1.7a1148p+0f * unit, 0x1.8ace54p+0f * unit, \
      0x1.9c4918p+0f * unit, 0x1.ae89fap+0f * unit, 0x1.c199bep+0f * unit, \
      0x1.d5818ep+0f * unit, 0x1.ea4afap+0f * unit)

/* exp(x)*unit: the root for the fraction of n, times exp(r), times 2 to the
 * power of n without its fraction; 0 where the mask has no bit. It should have
 * none if the result is too small for a float: underflow costs a hundred
 * cycles. */
TN_WIDE_FN tn_wide tn_wide_power_exp(tn_wide_power power, const float *roots,
                                     __mmask16 within) {
  const tn_wide root = tn_wide_look_up(roots, power.index);
  tn_wide p = tn_wide_of(0x1.556p-3f);
  p = tn_wide_step(p, power.r, 0x1.00002p-1f);
  p = tn_wide_step(p, power.r, 1.0f);
  return _mm512_maskz_scalef_ps(within, tn_wide_fma(root * power.r, p, root),
                                power.n);
}

/* Any small r will do if n is too large. */
TN_WIDE_FN tn_wide tn_math_exp_wide(tn_wide x) {
  TN_WIDE_ROOTS(roots, 1.0f);
  tn_wide_power power = tn_wide_power_of(x);
  power.r = _mm512_range_ps(power.r, tn_wide_of(1.0f), 0x02);
  return tn_wide_power_exp(
      power, roots, _mm512_cmp_ps_mask(x, tn_wide_of(-104.0f), _CMP_NLT_UQ));
}

/* With e a quarter of exp(|x|), it is twice the sum of e and 1/(16*e). */
TN_WIDE_FN tn_wide tn_math_cosh_wide(tn_wide x) {
  TN_WIDE_ROOTS(quarters, 0.25f);
  const tn_wide a = tn_wide_up_to(tn_wide_abs(x), 89.5f);
  const tn_wide e =
      tn_wide_power_exp(tn_wide_power_of(a), quarters, (__mmask16)-1);
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
 * nearly 1. The logarithms of 1/factor are in another table: multiples of
 * 2^-17, so that a sum with multiples of the high part of log(2) is exact. */
TN_WIDE_FN tn_wide tn_wide_split_rest(tn_wide_split split, tn_wide factor) {
  return _mm512_fmsub_ps(split.m, factor, tn_wide_of(1.0f));
}

TN_WIDE_FN tn_wide tn_wide_log_factor(__m512i piece) {
  TN_WIDE_TABLE(factors, 0x1.000000p+0f, 0x1.dc87d8p-1f, 0x1.b9b7f4p-1f,
                0x1.a49908p-1f, 0x1.8f8434p-1f, 0x1.7deac0p-1f, 0x1.6bf76cp-1f,
                0x1.5bc826p-1f, 0x1.4ee3bap+0f, 0x1.41f962p+0f, 0x1.35c0c0p+0f,
                0x1.292e36p+0f, 0x1.1f36dep+0f, 0x1.1578e6p+0f, 0x1.093672p+0f,
                0x1.000000p+0f);
  return tn_wide_look_up(factors, piece);
}

/* y, but if x is a zero, infinite or negative, the entry of `answers` for that
 * kind of number, in the coding of vfixupimmps: 3 is NaN, 4 -infinity and 5
 * infinity, 8 a zero; 0 leaves y. Logarithms get these values by k alone,
 * except if x is the half of a sum. */
enum { TN_WIDE_SUM_ENDS = 0x03530400, TN_WIDE_ACOSH_ENDS = 0x03530800 };

TN_WIDE_FN tn_wide tn_wide_ends(tn_wide y, tn_wide x, int answers) {
  return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(answers), 0);
}

/* log((1 + f)/factor*2^k). */
TN_WIDE_FN tn_wide tn_wide_log_of(tn_wide f, __m512i piece, tn_wide k) {
  TN_WIDE_TABLE(values, 0x0.0p+0f, 0x1.261000p-4f, 0x1.2e6400p-3f,
                0x1.92bc00p-3f, 0x1.fc0c00p-3f, 0x1.2c2800p-2f, 0x1.5d7400p-2f,
                0x1.8c0800p-2f, -0x1.131200p-2f, -0x1.d59800p-3f,
                -0x1.865800p-3f, -0x1.317c00p-3f, -0x1.d74000p-4f,
                -0x1.49e800p-4f, -0x1.21a000p-5f, 0x0.0p+0f);
  const tn_wide value = tn_wide_look_up(values, piece);
  tn_wide p = tn_wide_of(0x1.80d32ep-3f);
  p = tn_wide_step(p, f, -0x1.0010aap-2f);
  p = tn_wide_step(p, f, 0x1.55590ap-2f);
  p = tn_wide_step(p, f, -0.5f);
  const tn_wide two = tn_wide_of(0x1.62ep-1f);
  const tn_wide high = tn_wide_fma(k, two, value);
  const tn_wide low = tn_wide_fma(k, tn_wide_of(0x1.0bfbe8p-15f), f);
  return high + tn_wide_fma(p, f * f, low);
}

TN_WIDE_FN tn_wide tn_math_log_wide(tn_wide x) {
  const tn_wide_split split = tn_wide_split_of(x);
  const tn_wide factor = tn_wide_log_factor(split.piece);
  const tn_wide f = tn_wide_split_rest(split, factor);
  return tn_wide_log_of(f, split.piece, split.k);
}

/* Here m is from 1 to 2, and the factors of the pieces go down to a half. */
TN_WIDE_FN tn_wide tn_math_log2_wide(tn_wide x) {
  TN_WIDE_TABLE(factors, 0x1.000000p+0f, 0x1.d4a7d6p-1f, 0x1.bb124ap-1f,
                0x1.a443a8p-1f, 0x1.8fe774p-1f, 0x1.7d3916p-1f, 0x1.6c765ap-1f,
                0x1.5bf996p-1f, 0x1.4e5cc8p-1f, 0x1.4191c2p-1f, 0x1.34e20cp-1f,
                0x1.29f878p-1f, 0x1.1f34f2p-1f, 0x1.15731ep-1f, 0x1.0c950ep-1f,
                0x1.000000p-1f);
  TN_WIDE_TABLE(values, 0x0.0p+0f, 0x1.055b5cp-3f, 0x1.ab38d2p-3f,
                0x1.23aeecp-2f, 0x1.6d0ba2p-2f, 0x1.b3b88cp-2f, 0x1.f624a6p-2f,
                0x1.1d4420p-1f, 0x1.3abe08p-1f, 0x1.578f20p-1f, 0x1.754a6ap-1f,
                0x1.8fdbd0p-1f, 0x1.ab091ap-1f, 0x1.c490dcp-1f, 0x1.dc8f2ep-1f,
                0x1.000000p+0f);
  const tn_wide m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan);
  const __m512i piece = _mm512_srli_epi32(tn_wide_bits(m), 19);
  const tn_wide f =
      _mm512_fmsub_ps(m, tn_wide_look_up(factors, piece), tn_wide_of(1.0f));
  tn_wide p = tn_wide_of(0x1.1597aep-2f);
  p = tn_wide_step(p, f, -0x1.716c80p-2f);
  p = tn_wide_step(p, f, 0x1.ec75f6p-2f);
  p = tn_wide_step(p, f, -0x1.715478p-1f);
  p = tn_wide_step(p, f, 0x1.715476p+0f);
  const tn_wide whole = _mm512_getexp_ps(x) + tn_wide_look_up(values, piece);
  return tn_wide_fma(p, f, whole);
}

TN_WIDE_FN tn_wide tn_math_log10_wide(tn_wide x) {
  TN_WIDE_TABLE(factors, 0x1.000000p+0f, 0x1.da34e8p-1f, 0x1.babc4ap-1f,
                0x1.a3851cp-1f, 0x1.903d96p-1f, 0x1.7c88e0p-1f, 0x1.6b6e04p-1f,
                0x1.5b9cc4p-1f, 0x1.4dd974p+0f, 0x1.4072f0p+0f, 0x1.34bd50p+0f,
                0x1.28fcecp+0f, 0x1.1f614cp+0f, 0x1.162080p+0f, 0x1.09bf20p+0f,
                0x1.000000p+0f);
  TN_WIDE_TABLE(values, 0x0.0p+0f, 0x1.10d000p-5f, 0x1.029000p-4f,
                0x1.626000p-4f, 0x1.b61000p-4f, 0x1.07f000p-3f, 0x1.30d800p-3f,
                0x1.586c00p-3f, -0x1.d85000p-4f, -0x1.8f7000p-4f,
                -0x1.4d3800p-4f, -0x1.083000p-4f, -0x1.9b6000p-5f,
                -0x1.26f000p-5f, -0x1.09e000p-6f, 0x0.0p+0f);
  const tn_wide_split split = tn_wide_split_of(x);
  const tn_wide factor = tn_wide_look_up(factors, split.piece);
  const tn_wide value = tn_wide_look_up(values, split.piece);
  const tn_wide f = tn_wide_split_rest(split, factor);
  tn_wide p = tn_wide_of(0x1.4e4132p-4f);
  p = tn_wide_step(p, f, -0x1.bcd4a4p-4f);
  p = tn_wide_step(p, f, 0x1.287daep-3f);
  p = tn_wide_step(p, f, -0x1.bcb7b2p-3f);
  p = tn_wide_step(p, f, 0x1.bcb7b2p-2f);
  const tn_wide high = tn_wide_fma(split.k, tn_wide_of(0x1.344p-2f), value);
  return tn_wide_fma(split.k, tn_wide_of(0x1.3509f8p-18f),
                     tn_wide_fma(p, f, high));
}

/* The factor that turns a sum into 1 + f; `half` is nearly half of the sum, so
 * that it does not overflow. Multiply the parts one by one: then nothing is
 * lost of parts that are small compared to 1. */
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
  return tn_wide_signed(tn_wide_ends(y, half, TN_WIDE_SUM_ENDS), x);
}

/* log(1 + w + root) of w = x - 1 and the root of w*(w + 2), which is w where w
 * is large. `near` is good to 14 digits, `more` is its error. Those digits
 * differ between processors, and with them the last digits of the result. */
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
  return tn_wide_ends(y, w, TN_WIDE_ACOSH_ENDS);
}

/* --------------------------------------------------------- angles and arcs */

/* y, but far elements are computed with the function of one float, sixteen at a
 * time as well. */
#define TN_WIDE_FAR(name)                                                   \
  TN_KERNEL_ONCE TN_KERNEL_AVX512 tn_wide tn_wide_##name##_far(             \
      tn_wide y, tn_wide x, __mmask16 far) {                                \
    float lanes[16];                                                        \
    tn_wide_store(lanes, 16, x);                                            \
    for (int i = 0; i < 16; ++i) lanes[i] = tn_math_##name##_f32(lanes[i]); \
    return tn_wide_select(far, y, tn_wide_load(lanes, 16));                 \
  }
TN_WIDE_FAR(sin)
TN_WIDE_FAR(cos)
TN_WIDE_FAR(tan)
#undef TN_WIDE_FAR

/* x as n*pi/2 and a rest, less the error of the first part of pi/2: no digit of
 * the rest is lost, because one instruction multiplies and subtracts. n counts
 * in units of 2^-22, the last digit of numbers between 2 and 4: so `quarters`
 * is 2 and n + 1024 such units, with n's lowest bits, and has a bit of
 * 0xbffff800 wherever x is `far`: where n is not between -1024 and 1023. */
typedef struct tn_wide_turn {
  tn_wide n, rest;
  __m512i quarters;
  __mmask16 far;
} tn_wide_turn;

TN_WIDE_FN tn_wide_turn tn_wide_turn_of(tn_wide x) {
  const tn_wide magic = tn_wide_of(0x1.0008p+1f);
  const tn_wide shifted = tn_wide_fma(x, tn_wide_of(0x1.45f306p-23f), magic);
  tn_wide_turn turn;
  turn.quarters = tn_wide_bits(shifted);
  turn.far =
      _mm512_test_epi32_mask(turn.quarters, _mm512_set1_epi32((int)0xbffff800));
  turn.n = shifted - magic;
  turn.rest = tn_wide_less(x, turn.n, tn_wide_of(0x1.921fb4p+22f));
  return turn;
}

/* Parameters of sin and cos for each quarter of a turn: `base` is r times the
 * first row, plus the second one: r or 1, or one of them negative. The other
 * rows are the coefficients, by the square of r, of the factor of base, the
 * highest first. A row has four entries, four times. The product with z is no
 * -0, by which a base of -0 would become 0. */
#define TN_WIDE_QUARTERS(a, b, c, d) \
  { a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d }

#define TN_WIDE_HALVES(a, b) TN_WIDE_QUARTERS(a, b, a, b)

TN_WIDE_FN tn_wide tn_wide_turn_wave(tn_wide_turn turn,
                                     const float (*rows)[16]) {
  const __m512i at = turn.quarters;
  const tn_wide rest =
      tn_wide_less(turn.rest, turn.n, tn_wide_of(0x1.4442d0p-2f));
  const tn_wide r = tn_wide_less(rest, turn.n, tn_wide_of(0x1.84698ap-26f));
  const tn_wide z = r * r;
  const tn_wide base = tn_wide_fma(r, tn_wide_look_up(rows[0], at),
                                   tn_wide_look_up(rows[1], at));
  tn_wide p = tn_wide_look_up(rows[2], at);
  p = tn_wide_fma(p, z, tn_wide_look_up(rows[3], at));
  p = tn_wide_fma(p, z, tn_wide_look_up(rows[4], at));
  p = tn_wide_fma(p, z, tn_wide_look_up(rows[5], at));
  return tn_wide_fma(tn_wide_step(p, z, 0.0f), base, base);
}

TN_WIDE_FN tn_wide tn_math_sin_wide(tn_wide x) {
  static const float rows[6][16] __attribute__((aligned(64))) = {
      TN_WIDE_QUARTERS(1.0f, 0.0f, -1.0f, 0.0f),
      TN_WIDE_QUARTERS(-0.0f, 1.0f, -0.0f, -1.0f),
      TN_WIDE_HALVES(0.0f, 0x1.99e0eep-16f),
      TN_WIDE_HALVES(-0x1.9954a4p-13f, -0x1.6c0c1ap-10f),
      TN_WIDE_HALVES(0x1.11077ap-7f, 0x1.55554ap-5f),
      TN_WIDE_HALVES(-0x1.555546p-3f, -0.5f)};
  const tn_wide_turn turn = tn_wide_turn_of(x);
  const tn_wide y = tn_wide_turn_wave(turn, rows);
  return __builtin_expect(turn.far != 0, 0) ? tn_wide_sin_far(y, x, turn.far)
                                            : y;
}

TN_WIDE_FN tn_wide tn_math_cos_wide(tn_wide x) {
  static const float rows[6][16] __attribute__((aligned(64))) = {
      TN_WIDE_QUARTERS(0.0f, -1.0f, 0.0f, 1.0f),
      TN_WIDE_QUARTERS(1.0f, -0.0f, -1.0f, -0.0f),
      TN_WIDE_HALVES(0x1.99e0eep-16f, 0.0f),
      TN_WIDE_HALVES(-0x1.6c0c1ap-10f, -0x1.9954a4p-13f),
      TN_WIDE_HALVES(0x1.55554ap-5f, 0x1.11077ap-7f),
      TN_WIDE_HALVES(-0.5f, -0x1.555546p-3f)};
  const tn_wide_turn turn = tn_wide_turn_of(x);
  const tn_wide y = tn_wide_turn_wave(turn, rows);
  return __builtin_expect(turn.far != 0, 0) ? tn_wide_cos_far(y, x, turn.far)
                                            : y;
}

/* Like in trig.h, but of x itself; n has the sign of x. `lost` is -0 if nothing
 * is lost, which does not change -0. */
TN_WIDE_FN tn_wide tn_math_tan_wide(tn_wide x) {
  const tn_wide_turn turn = tn_wide_turn_of(x);
  const tn_wide second = tn_wide_of(0x1.444p-2f);
  const tn_wide r = tn_wide_less(turn.rest, turn.n, second);
  const tn_wide lost = _mm512_fnmsub_ps(turn.n, second, r - turn.rest);
  const tn_wide low = tn_wide_less(lost, turn.n, tn_wide_of(0x1.68c234p-17f));
  const tn_wide z = r * r;
  tn_wide p = tn_wide_of(0x1.3579dep-7f);
  p = tn_wide_step(p, z, 0x1.88d39cp-9f);
  p = tn_wide_step(p, z, 0x1.91e376p-6f);
  p = tn_wide_step(p, z, 0x1.b53c06p-5f);
  p = tn_wide_step(p, z, 0x1.113124p-3f);
  p = tn_wide_step(p, z, 0x1.5554c8p-2f);
  const tn_wide t = r + tn_wide_fma(p, r * z, low);
  const __mmask16 odd =
      _mm512_test_epi32_mask(turn.quarters, _mm512_set1_epi32(1));
  const tn_wide y = _mm512_mask_div_ps(t, odd, tn_wide_of(-1.0f), t);
  return __builtin_expect(turn.far != 0, 0) ? tn_wide_tan_far(y, x, turn.far)
                                            : y;
}

/* asin(s) = s + s*z*p for s up to 1/2, z being its square. */
TN_WIDE_FN tn_wide tn_wide_asin_part(tn_wide z) {
  tn_wide p = tn_wide_of(0x1.48aa18p-5f);
  p = tn_wide_step(p, z, 0x1.a1d878p-6f);
  p = tn_wide_step(p, z, 0x1.7206c2p-5f);
  p = tn_wide_step(p, z, 0x1.331f24p-4f);
  return tn_wide_step(p, z, 0x1.555556p-3f);
}

/* As in trig.h. `high` has so few digits that pi/2 - 2*high is exact; `low` is
 * root - high. The error of the root is that of its square by twice the root,
 * which is 1 in the critical range. */
TN_WIDE_FN tn_wide tn_math_asin_wide(tn_wide x) {
  const tn_wide a = tn_wide_abs(x);
  const tn_wide one = tn_wide_of(1.0f), two = tn_wide_of(2.0f);
  const tn_wide half = tn_wide_less(tn_wide_of(0.5f), tn_wide_of(0.5f), a);
  const tn_wide root = _mm512_sqrt_ps(half);
  const __mmask16 large = _mm512_cmp_ps_mask(a, tn_wide_of(0.5f), _CMP_NLE_UQ);
  const tn_wide s = tn_wide_select(large, a, root);
  const tn_wide z = tn_wide_select(large, a * a, half);
  const tn_wide p = tn_wide_asin_part(z);
  const tn_wide cube = s * z;
  const tn_wide high = (root + one) - one;
  const tn_wide low = (root - high) + tn_wide_less(half, root, root);
  const tn_wide end = tn_wide_less(tn_wide_of(0x1.921fb6p+0f), two, high);
  const tn_wide lost =
      tn_wide_fma(two, tn_wide_fma(cube, p, low), tn_wide_of(0x1.777a5cp-25f));
  const tn_wide y = tn_wide_select(large, tn_wide_fma(cube, p, s), end - lost);
  return tn_wide_signed(y, x);
}

/* pi/2 less asin(x), and where |x| is above 1/2 twice asin(root), or pi less
 * that. All three are `right`, nothing or twice of it, and m times asin(s); the
 * difference of pi/2 and its float is a part of that. */
TN_WIDE_FN tn_wide tn_math_acos_wide(tn_wide x) {
  const tn_wide a = tn_wide_abs(x);
  const tn_wide right = tn_wide_of(0x1.921fb6p+0f);
  const tn_wide half = tn_wide_less(tn_wide_of(0.5f), tn_wide_of(0.5f), a);
  const __mmask16 small = _mm512_cmp_ps_mask(a, tn_wide_of(0.5f), _CMP_LE_OQ);
  const tn_wide s = tn_wide_select(small, _mm512_sqrt_ps(half), a);
  const tn_wide z = _mm512_mask_mul_ps(half, small, a, a);
  const tn_wide base =
      tn_wide_select(small, right - tn_wide_signed(right, x), right);
  const tn_wide m = tn_wide_turned(
      tn_wide_select(small, tn_wide_of(2.0f), tn_wide_of(-1.0f)), x);
  const tn_wide part = m * s;
  const tn_wide low = tn_wide_fma(base, tn_wide_of(-0x1.de12cap-26f),
                                  (part * z) * tn_wide_asin_part(z));
  return base + (part + low);
}

#include "tenon/kernel/math/wide_pieces.h"
#include "tenon/kernel/math/wide_roots.h"

#ifdef __cplusplus
}
#endif

#pragma GCC diagnostic pop

#endif
#endif /* TENON_KERNEL_MATH_WIDE_H_ */
