/* SPDX-License-Identifier: Apache-2.0
 * avx512_math.h: what functions of sixteen floats at once
 * (tenon/kernel/math/wide.h) are made of, in C: the end of avx512.h, which
 * includes it.
 */
#ifndef TENON_TESTS_EMULATE_AVX512_MATH_H_
#define TENON_TESTS_EMULATE_AVX512_MATH_H_

/* Those that gcc has as macros where it does not optimise. */
#undef _mm512_getmant_ps
#undef _mm512_getexp_ps
#undef _mm512_range_ps
#undef _mm512_fixupimm_ps
#undef _mm512_ternarylogic_epi32

/* A function of one, two and three registers, lane by lane. */
#define EMULATE_FLOATS(name, lane)          \
  EMULATE __m512 emulate_##name(__m512 x) { \
    const emulated v = {.ps = x};           \
    emulated c;                             \
    for (int i = 0; i < 16; ++i) {          \
      const float a = v.f32[i];             \
      c.f32[i] = (lane);                    \
    }                                       \
    return c.ps;                            \
  }
#define EMULATE_FUSED(name, lane)                               \
  EMULATE __m512 emulate_##name(__m512 x, __m512 y, __m512 z) { \
    const emulated a = {.ps = x}, b = {.ps = y}, d = {.ps = z}; \
    emulated c;                                                 \
    for (int i = 0; i < 16; ++i) c.f32[i] = (lane);             \
    return c.ps;                                                \
  }
EMULATE_FUSED(fmadd_ps, fmaf(a.f32[i], b.f32[i], d.f32[i]))
EMULATE_FUSED(fmsub_ps, fmaf(a.f32[i], b.f32[i], -d.f32[i]))
EMULATE_FUSED(fnmadd_ps, fmaf(-a.f32[i], b.f32[i], d.f32[i]))
EMULATE_FUSED(fnmsub_ps, fmaf(-a.f32[i], b.f32[i], -d.f32[i]))
#define _mm512_fmadd_ps emulate_fmadd_ps
#define _mm512_fmsub_ps emulate_fmsub_ps
#define _mm512_fnmadd_ps emulate_fnmadd_ps
#define _mm512_fnmsub_ps emulate_fnmsub_ps

/* To 14 bits, as the processor's. */
EMULATE float emulate_rsqrt14(float a) {
  const emulated root = {.f32 = {1 / sqrtf(a)}};
  return ((emulated){.u32 = {root.u32[0] & 0xfffffe00u}}).f32[0];
}
EMULATE_FLOATS(rsqrt14_ps, emulate_rsqrt14(a))
EMULATE_FLOATS(sqrt_ps, sqrtf(a))
#define _mm512_sqrt_ps emulate_sqrt_ps
#define _mm512_rsqrt14_ps emulate_rsqrt14_ps

/* ---------------------------------------------------- exponents, fractions */

EMULATE float emulate_exponent(float a) {
  if (a == 0) return -INFINITY;
  return isfinite(a) ? (float)ilogbf(a) : fabsf(a);
}
EMULATE_FLOATS(getexp_ps, emulate_exponent(a))
#define _mm512_getexp_ps emulate_getexp_ps

/* From 3/4 to 3/2 and from 1 to 2, of what is negative NaN. */
EMULATE float emulate_fraction(float a, float least) {
  int exponent;
  if (a < 0 || a != a) return NAN;
  if (a == 0 || isinf(a)) return copysignf(1, a);
  const float half = frexpf(a, &exponent);
  return half < least ? 2 * half : half;
}
EMULATE_FLOATS(getmant_ps, emulate_fraction(a, 0.75f))
EMULATE_FLOATS(getmant_whole_ps, emulate_fraction(a, 1.0f))
#define _mm512_getmant_ps(v, from, sign)                                    \
  ({                                                                        \
    _Static_assert(                                                         \
        ((from) == _MM_MANT_NORM_p75_1p5 || (from) == _MM_MANT_NORM_1_2) && \
            (sign) == _MM_MANT_SIGN_nan,                                    \
        "the only ones that are used");                                     \
    (from) == _MM_MANT_NORM_1_2 ? emulate_getmant_whole_ps(v)               \
                                : emulate_getmant_ps(v);                    \
  })

/* a*2^b, rounded once. */
EMULATE float emulate_scaled(float a, float b) {
  if (b != b) return b;
  const float near = b < -1000 ? -1000.0f : b > 1000 ? 1000.0f : b;
  return (float)ldexp((double)a, (int)floorf(near));
}
EMULATE_LANES(scalef_ps, __m512, ps, f32, 16,
              emulate_scaled(a.f32[i], b.f32[i]))
#define _mm512_scalef_ps emulate_scalef_ps
#define _mm512_maskz_scalef_ps(k, a, b) \
  emulate_mask_mov_ps(emulate_set1_ps(0), k, emulate_scalef_ps(a, b))

/* The smaller absolute value, with the sign of a or without one. */
EMULATE_LANES(range_ps, __m512, ps, f32, 16,
              fminf(fabsf(a.f32[i]), fabsf(b.f32[i])))
EMULATE_LANES(signed_range_ps, __m512, ps, f32, 16,
              copysignf(fminf(fabsf(a.f32[i]), fabsf(b.f32[i])), a.f32[i]))
#define _mm512_range_ps(a, b, how)                                          \
  ({                                                                        \
    _Static_assert((how) == 0x0a || (how) == 0x02, "the only ones");        \
    (how) == 0x0a ? emulate_range_ps(a, b) : emulate_signed_range_ps(a, b); \
  })

/* What the table has for the kind of number that b is, a for 0. */
EMULATE float emulate_fixed(float a, float b, uint32_t table) {
  int kind = b < 0 ? 6 : 7;
  if (b != b) kind = 0;
  if (b == 0) kind = 2;
  if (b == 1) kind = 3;
  if (isinf(b)) kind = b < 0 ? 4 : 5;
  switch (table >> 4 * kind & 15) {
    case 0:
      return a;
    case 1:
      return b;
    case 3:
      return NAN;
    case 4:
      return -INFINITY;
    case 5:
      return INFINITY;
    case 6:
      return copysignf(INFINITY, b);
    case 8:
      return 0;
    default:
      __builtin_trap();
  }
}
EMULATE __m512 emulate_fixupimm_ps(__m512 x, __m512 y, __m512i table) {
  const emulated a = {.ps = x}, b = {.ps = y}, d = {.si = table};
  emulated c;
  for (int i = 0; i < 16; ++i)
    c.f32[i] = emulate_fixed(a.f32[i], b.f32[i], d.u32[i]);
  return c.ps;
}
#define _mm512_fixupimm_ps(a, b, table, signals) \
  emulate_fixupimm_ps(a, b, table)

/* -------------------------------------------------------------------- bits */

EMULATE_LANES(andnot_si512, __m512i, si, u64, 8, ~a.u64[i] & b.u64[i])
#define _mm512_andnot_si512 emulate_andnot_si512
#define _mm512_ternarylogic_epi32 emulate_ternarylogic_epi64

EMULATE_LANES(subs_epu16, __m512i, si, u16, 32,
              (uint16_t)(a.u16[i] > b.u16[i] ? a.u16[i] - b.u16[i] : 0))
#define _mm512_subs_epu16 emulate_subs_epu16

EMULATE __m512 emulate_permutexvar_ps(__m512i at, __m512 v) {
  const emulated a = {.si = at}, b = {.ps = v};
  emulated c;
  for (int i = 0; i < 16; ++i) c.f32[i] = b.f32[a.u32[i] & 15];
  return c.ps;
}
#define _mm512_permutexvar_ps emulate_permutexvar_ps
#define _mm512_load_ps emulate_loadu_ps

/* ------------------------------------------------------------------- masks */

EMULATE __mmask16 emulate_test_epi32_mask(__m512i x, __m512i y) {
  const emulated a = {.si = x}, b = {.si = y};
  unsigned k = 0;
  for (int i = 0; i < 16; ++i) k |= (unsigned)((a.u32[i] & b.u32[i]) != 0) << i;
  return (__mmask16)k;
}
#define _mm512_test_epi32_mask emulate_test_epi32_mask

EMULATE __mmask16 emulate_cmplt_epu32_mask(__m512i x, __m512i y) {
  const emulated a = {.si = x}, b = {.si = y};
  unsigned k = 0;
  for (int i = 0; i < 16; ++i) k |= (unsigned)(a.u32[i] < b.u32[i]) << i;
  return (__mmask16)k;
}
#define _mm512_cmplt_epu32_mask emulate_cmplt_epu32_mask

EMULATE __mmask16 emulate_movepi32_mask(__m512i x) {
  const emulated a = {.si = x};
  unsigned k = 0;
  for (int i = 0; i < 16; ++i) k |= (a.u32[i] >> 31) << i;
  return (__mmask16)k;
}
#define _mm512_movepi32_mask emulate_movepi32_mask

/* y where the bit is set, otherwise x. */
EMULATE __m512 emulate_mask_mov_ps(__m512 x, __mmask16 k, __m512 y) {
  const emulated b = {.ps = y};
  emulated a = {.ps = x};
  for (int i = 0; i < 16; ++i)
    if ((k >> i & 1) != 0) a.f32[i] = b.f32[i];
  return a.ps;
}
#define _mm512_mask_mov_ps emulate_mask_mov_ps
#define _mm512_mask_sub_ps(other, k, a, b) \
  emulate_mask_mov_ps(other, k, emulate_sub_ps(a, b))
#define _mm512_mask_mul_ps(other, k, a, b) \
  emulate_mask_mov_ps(other, k, emulate_mul_ps(a, b))
#define _mm512_maskz_mul_ps(k, a, b) \
  emulate_mask_mov_ps(emulate_set1_ps(0), k, emulate_mul_ps(a, b))
#define _mm512_mask_div_ps(other, k, a, b) \
  emulate_mask_mov_ps(other, k, (a) / (b))

#endif /* TENON_TESTS_EMULATE_AVX512_MATH_H_ */
