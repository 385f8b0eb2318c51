/* SPDX-License-Identifier: Apache-2.0
 * wide_roots.h: part of wide.h: roots of sixteen floats, and their inverses.
 */
#include "tenon/kernel/math/wide.h" /* includes this file: before the guard */

#ifndef TENON_KERNEL_MATH_WIDE_ROOTS_H_
#define TENON_KERNEL_MATH_WIDE_ROOTS_H_

#if TN_KERNEL_HAS_WIDE

/* ------------------------------------------------------------------- roots */

/* Zeros and infinity, as in tn_wide_ends: 1 is x itself, 6 infinity with the
 * sign of x, 8 a zero. Roots of negative numbers are NaN already. */
enum { TN_WIDE_SQRT_ENDS = 0x00500100, TN_WIDE_RSQRT_ENDS = 0x00800600 };

/* From the processor's 14 bits of 1/sqrt(x), by two steps. The last one rounds
 * like sqrt; for that it needs 28 bits of half the inverse. It is right for any
 * 14 bits: for the 70 floats from 1 to 4 with roots nearest to the middle
 * between two floats, all possible inverses were tried. For small x bits are
 * lost, and the processor's own instruction replaces it, before any slow
 * computation. */
TN_WIDE_FN tn_wide tn_math_sqrt_wide(tn_wide x) {
  const __m512i bits = _mm512_add_epi32(tn_wide_bits(x), _mm512_set1_epi32(-1));
  const __mmask16 small =
      _mm512_cmplt_epu32_mask(bits, _mm512_set1_epi32(0x0e000000));
  if (__builtin_expect(small != 0, 0)) return _mm512_sqrt_ps(x);
  const tn_wide inverse = _mm512_rsqrt14_ps(x);
  const tn_wide one_half = tn_wide_of(0.5f);
  const tn_wide near = x * inverse, near_half = inverse * one_half;
  const tn_wide lack = tn_wide_less(one_half, near, near_half);
  const tn_wide root = tn_wide_fma(near, lack, near);
  const tn_wide half = tn_wide_fma(near_half, lack, near_half);
  const tn_wide y = tn_wide_fma(tn_wide_less(x, root, root), half, root);
  return tn_wide_ends(y, x, TN_WIDE_SQRT_ENDS);
}

/* Last digits depend on those 14 bits, in which processors differ. */
TN_WIDE_FN tn_wide tn_math_rsqrt_wide(tn_wide x) {
  const tn_wide near = _mm512_rsqrt14_ps(x);
  const tn_wide lack = tn_wide_less(tn_wide_of(1.0f), x * near, near);
  const tn_wide p = tn_wide_step(lack, tn_wide_of(0.375f), 0.5f);
  return tn_wide_ends(tn_wide_fma(near * lack, p, near), x, TN_WIDE_RSQRT_ENDS);
}

#endif
#endif /* TENON_KERNEL_MATH_WIDE_ROOTS_H_ */
