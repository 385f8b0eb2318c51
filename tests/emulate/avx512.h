/* SPDX-License-Identifier: Apache-2.0
 * avx512.h: the intrinsics of AVX-512 that kernels use, in C, so that what is
 * written for it runs, slowly, and is tested where there is only AVX2. Included
 * in front of all else by -Demulate_avx512=true, with which kernels are at the
 * level of AVX-512 wherever there is AVX2. An intrinsic that is missing here is
 * a call that does not compile.
 */
#ifndef TENON_TESTS_EMULATE_AVX512_H_
#define TENON_TESTS_EMULATE_AVX512_H_

#pragma GCC system_header /* gcc's own are one as well */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TN_KERNEL_EMULATED 1

/* Those that gcc has as macros. */
#undef _mm512_setr_epi32

#define EMULATE \
  static inline __attribute__((always_inline, unused, target("avx2,fma,f16c")))

/* The elements of a register. */
typedef union emulated {
  __m512 ps;
  __m512d pd;
  __m512i si;
  __m256 half_ps[2];
  __m256d half_pd[2];
  __m256i half_si[2];
  float f32[16];
  double f64[8];
  uint16_t u16[32];
  int32_t i32[16];
  uint32_t u32[16];
  int64_t i64[8];
  uint64_t u64[8];
} emulated;

typedef union emulated_half {
  __m256 ps;
  __m256d pd;
  __m256i si;
  float f32[8];
  double f64[4];
  uint16_t u16[16];
  uint32_t u32[8];
} emulated_half;

/* A function of registers a and b, lane by lane. */
#define EMULATE_LANES(name, type, in, out, n, lane)  \
  EMULATE type emulate_##name(type x, type y) {      \
    emulated a = {.in = x}, b = {.in = y}, c;        \
    for (int i = 0; i < (n); ++i) c.out[i] = (lane); \
    return c.in;                                     \
  }
EMULATE_LANES(add_ps, __m512, ps, f32, 16, a.f32[i] + b.f32[i])
EMULATE_LANES(sub_ps, __m512, ps, f32, 16, a.f32[i] - b.f32[i])
EMULATE_LANES(mul_ps, __m512, ps, f32, 16, a.f32[i] * b.f32[i])
EMULATE_LANES(add_pd, __m512d, pd, f64, 8, a.f64[i] + b.f64[i])
/* The second where they are equal or one is NaN. */
EMULATE_LANES(max_ps, __m512, ps, f32, 16,
              a.f32[i] > b.f32[i] ? a.f32[i] : b.f32[i])
EMULATE_LANES(min_ps, __m512, ps, f32, 16,
              a.f32[i] < b.f32[i] ? a.f32[i] : b.f32[i])
EMULATE_LANES(max_pd, __m512d, pd, f64, 8,
              a.f64[i] > b.f64[i] ? a.f64[i] : b.f64[i])
EMULATE_LANES(min_pd, __m512d, pd, f64, 8,
              a.f64[i] < b.f64[i] ? a.f64[i] : b.f64[i])
EMULATE_LANES(add_epi32, __m512i, si, u32, 16, a.u32[i] + b.u32[i])
EMULATE_LANES(add_epi64, __m512i, si, u64, 8, a.u64[i] + b.u64[i])
EMULATE_LANES(mul_epu32, __m512i, si, u64, 8,
              (a.u64[i] & 0xffffffffu) * (b.u64[i] & 0xffffffffu))
EMULATE_LANES(and_si512, __m512i, si, u64, 8, a.u64[i] & b.u64[i])
EMULATE_LANES(or_si512, __m512i, si, u64, 8, a.u64[i] | b.u64[i])
EMULATE_LANES(xor_si512, __m512i, si, u64, 8, a.u64[i] ^ b.u64[i])
#define _mm512_add_ps emulate_add_ps
#define _mm512_sub_ps emulate_sub_ps
#define _mm512_mul_ps emulate_mul_ps
#define _mm512_add_pd emulate_add_pd
#define _mm512_max_ps emulate_max_ps
#define _mm512_min_ps emulate_min_ps
#define _mm512_max_pd emulate_max_pd
#define _mm512_min_pd emulate_min_pd
#define _mm512_add_epi32 emulate_add_epi32
#define _mm512_add_epi64 emulate_add_epi64
#define _mm512_mul_epu32 emulate_mul_epu32
#define _mm512_and_si512 emulate_and_si512
#define _mm512_or_si512 emulate_or_si512
#define _mm512_xor_si512 emulate_xor_si512

/* A register shifted by a number of bits. */
#define EMULATE_SHIFT(name, out, n, lane)                    \
  EMULATE __m512i emulate_##name(__m512i x, unsigned bits) { \
    emulated a = {.si = x};                                  \
    for (int i = 0; i < (n); ++i) a.out[i] = (lane);         \
    return a.si;                                             \
  }
EMULATE_SHIFT(slli_epi32, u32, 16, a.u32[i] << bits)
EMULATE_SHIFT(srli_epi32, u32, 16, a.u32[i] >> bits)
EMULATE_SHIFT(slli_epi64, u64, 8, a.u64[i] << bits)
EMULATE_SHIFT(srli_epi64, u64, 8, a.u64[i] >> bits)
#define _mm512_slli_epi32 emulate_slli_epi32
#define _mm512_srli_epi32 emulate_srli_epi32
#define _mm512_slli_epi64 emulate_slli_epi64
#define _mm512_srli_epi64 emulate_srli_epi64

/* ------------------------------------------------------------------- values */

#define EMULATE_SET(name, type, in, out, n, element) \
  EMULATE type emulate_##name(element value) {       \
    emulated a;                                      \
    for (int i = 0; i < (n); ++i) a.out[i] = value;  \
    return a.in;                                     \
  }
EMULATE_SET(set1_ps, __m512, ps, f32, 16, float)
EMULATE_SET(set1_pd, __m512d, pd, f64, 8, double)
EMULATE_SET(set1_epi32, __m512i, si, i32, 16, int32_t)
EMULATE_SET(set1_epi64, __m512i, si, i64, 8, int64_t)
#define _mm512_set1_ps emulate_set1_ps
#define _mm512_set1_pd emulate_set1_pd
#define _mm512_set1_epi32 emulate_set1_epi32
#define _mm512_set1_epi64 emulate_set1_epi64
#define _mm512_setzero_ps() emulate_set1_ps(0)
#define _mm512_setzero_pd() emulate_set1_pd(0)
#define _mm512_setzero_si512() emulate_set1_epi64(0)
#define _mm512_set_epi64(h, g, f, e, d, c, b, a) \
  ((emulated){.i64 = {a, b, c, d, e, f, g, h}}).si
#define _mm512_setr_epi32(...) ((emulated){.i32 = {__VA_ARGS__}}).si

#define _mm512_castps_si512(v) ((emulated){.ps = (v)}).si
#define _mm512_castsi512_ps(v) ((emulated){.si = (v)}).ps
#define _mm512_castps_pd(v) ((emulated){.ps = (v)}).pd
#define _mm512_castpd_ps(v) ((emulated){.pd = (v)}).ps
#define _mm512_castps512_ps256(v) ((emulated){.ps = (v)}).half_ps[0]
#define _mm512_castpd512_pd256(v) ((emulated){.pd = (v)}).half_pd[0]
#define _mm512_castsi512_si256(v) ((emulated){.si = (v)}).half_si[0]
#define _mm512_extractf32x8_ps(v, k) ((emulated){.ps = (v)}).half_ps[k]
#define _mm512_extractf64x4_pd(v, k) ((emulated){.pd = (v)}).half_pd[k]
#define _mm512_extracti64x4_epi64(v, k) ((emulated){.si = (v)}).half_si[k]

/* ------------------------------------------------------------------- memory */

#define EMULATE_LOAD(name, type, in)              \
  EMULATE type emulate_##name(const void *from) { \
    emulated a;                                   \
    memcpy(&a, from, sizeof a);                   \
    return a.in;                                  \
  }
EMULATE_LOAD(loadu_ps, __m512, ps)
EMULATE_LOAD(loadu_pd, __m512d, pd)
EMULATE_LOAD(loadu_si512, __m512i, si)
#define _mm512_loadu_ps emulate_loadu_ps
#define _mm512_loadu_pd emulate_loadu_pd
#define _mm512_loadu_si512 emulate_loadu_si512
#define _mm512_load_si512 emulate_loadu_si512

#define EMULATE_STORE(name, type)                 \
  EMULATE void emulate_##name(void *to, type v) { \
    memcpy(to, &v, sizeof v);                     \
  }
EMULATE_STORE(storeu_ps, __m512)
EMULATE_STORE(storeu_pd, __m512d)
EMULATE_STORE(storeu_si512, __m512i)
#define _mm512_storeu_ps emulate_storeu_ps
#define _mm512_storeu_pd emulate_storeu_pd
#define _mm512_storeu_si512 emulate_storeu_si512

/* A line of the cache, which it must be. */
EMULATE void emulate_stream(void *to, const emulated *v) {
  if (((uintptr_t)to & 63) != 0) __builtin_trap();
  memcpy(to, v, sizeof *v);
}
#define _mm512_stream_ps(to, v) emulate_stream(to, &(emulated){.ps = (v)})
#define _mm512_stream_pd(to, v) emulate_stream(to, &(emulated){.pd = (v)})
#define _mm512_stream_si512(to, v) emulate_stream(to, &(emulated){.si = (v)})

/* Lanes whose bit is not set are not touched. */
EMULATE __m512 emulate_mask_loadu_ps(__m512 other, __mmask16 k,
                                     const void *from) {
  emulated a = {.ps = other};
  for (int i = 0; i < 16; ++i)
    if ((k >> i & 1) != 0)
      memcpy(&a.f32[i], (const char *)from + 4 * i, sizeof(float));
  return a.ps;
}
#define _mm512_mask_loadu_ps emulate_mask_loadu_ps
#define _mm512_maskz_loadu_ps(k, from) \
  emulate_mask_loadu_ps(emulate_set1_ps(0), k, from)

EMULATE __m256 emulate_half_maskz_loadu_ps(__mmask8 k, const void *from) {
  emulated_half a = {.f32 = {0}};
  for (int i = 0; i < 8; ++i)
    if ((k >> i & 1) != 0)
      memcpy(&a.f32[i], (const char *)from + 4 * i, sizeof(float));
  return a.ps;
}
#define _mm256_maskz_loadu_ps emulate_half_maskz_loadu_ps

EMULATE void emulate_mask_storeu_ps(void *to, __mmask16 k, __m512 v) {
  const emulated a = {.ps = v};
  for (int i = 0; i < 16; ++i)
    if ((k >> i & 1) != 0) memcpy((char *)to + 4 * i, &a.f32[i], sizeof(float));
}
#define _mm512_mask_storeu_ps emulate_mask_storeu_ps

/* -------------------------------------------------------------- conversions */

EMULATE __m512d emulate_cvtps_pd(__m256 x) {
  const emulated_half a = {.ps = x};
  emulated c;
  for (int i = 0; i < 8; ++i) c.f64[i] = (double)a.f32[i];
  return c.pd;
}
#define _mm512_cvtps_pd emulate_cvtps_pd

EMULATE __m512 emulate_cvtph_ps(__m256i x) {
  emulated c;
  c.half_ps[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(x));
  c.half_ps[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1));
  return c.ps;
}
#define _mm512_cvtph_ps emulate_cvtph_ps

/* To the nearest, as is asked for everywhere. */
EMULATE __m256i emulate_cvtps_ph(__m512 x) {
  const emulated a = {.ps = x};
  const __m128i low = _mm256_cvtps_ph(a.half_ps[0], _MM_FROUND_TO_NEAREST_INT);
  const __m128i high = _mm256_cvtps_ph(a.half_ps[1], _MM_FROUND_TO_NEAREST_INT);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
#define _mm512_maskz_cvtps_ph(k, v, how)                                    \
  ({                                                                        \
    _Static_assert((k) == 0xffff && ((how)&7) == _MM_FROUND_TO_NEAREST_INT, \
                   "all lanes, to the nearest");                            \
    emulate_cvtps_ph(v);                                                    \
  })

EMULATE __m512i emulate_cvtepu16_epi32(__m256i x) {
  const emulated_half a = {.si = x};
  emulated c;
  for (int i = 0; i < 16; ++i) c.u32[i] = a.u16[i];
  return c.si;
}
#define _mm512_cvtepu16_epi32 emulate_cvtepu16_epi32

EMULATE __m512i emulate_cvtepu32_epi64(__m256i x) {
  const emulated_half a = {.si = x};
  emulated c;
  for (int i = 0; i < 8; ++i) c.u64[i] = a.u32[i];
  return c.si;
}
#define _mm512_cvtepu32_epi64 emulate_cvtepu32_epi64

/* Within quarters of a register. */
#define EMULATE_UNPACK(name, first)                      \
  EMULATE __m512i emulate_##name(__m512i x, __m512i y) { \
    const emulated a = {.si = x}, b = {.si = y};         \
    emulated c;                                          \
    for (int i = 0; i < 32; ++i) {                       \
      const int lane = i / 8 * 8 + (first) + i % 8 / 2;  \
      c.u16[i] = i % 2 == 0 ? a.u16[lane] : b.u16[lane]; \
    }                                                    \
    return c.si;                                         \
  }
EMULATE_UNPACK(unpacklo_epi16, 0)
EMULATE_UNPACK(unpackhi_epi16, 4)
#define _mm512_unpacklo_epi16 emulate_unpacklo_epi16
#define _mm512_unpackhi_epi16 emulate_unpackhi_epi16

/* Likewise, and no value is above what fits. */
EMULATE __m512i emulate_packus_epi32(__m512i x, __m512i y) {
  const emulated a = {.si = x}, b = {.si = y};
  emulated c;
  for (int i = 0; i < 32; ++i) {
    const int quarter = i / 8, lane = 4 * quarter + i % 4;
    const int32_t v = i % 8 < 4 ? a.i32[lane] : b.i32[lane];
    c.u16[i] = (uint16_t)(v < 0 ? 0 : v > 0xffff ? 0xffff : v);
  }
  return c.si;
}
#define _mm512_packus_epi32 emulate_packus_epi32

/* ------------------------------------------------------------- lanes chosen */

EMULATE __m512 emulate_permutex2var_ps(__m512 x, __m512i at, __m512 y) {
  const emulated a = {.ps = x}, b = {.ps = y}, k = {.si = at};
  emulated c;
  for (int i = 0; i < 16; ++i)
    c.f32[i] = ((k.u32[i] & 16) != 0 ? b : a).f32[k.u32[i] & 15];
  return c.ps;
}
#define _mm512_permutex2var_ps emulate_permutex2var_ps

EMULATE __m512i emulate_permutex2var_epi64(__m512i x, __m512i at, __m512i y) {
  const emulated a = {.si = x}, b = {.si = y}, k = {.si = at};
  emulated c;
  for (int i = 0; i < 8; ++i)
    c.u64[i] = ((k.u64[i] & 8) != 0 ? b : a).u64[k.u64[i] & 7];
  return c.si;
}
#define _mm512_permutex2var_epi64 emulate_permutex2var_epi64
#define _mm512_permutexvar_epi64(at, v) emulate_permutex2var_epi64(v, at, v)

/* The upper of two registers behind the lower, from lane `by` on. */
EMULATE __m512i emulate_alignr_epi32(__m512i upper, __m512i lower, int by) {
  const emulated a = {.si = lower}, b = {.si = upper};
  emulated c;
  for (int i = 0; i < 16; ++i)
    c.u32[i] = i + by < 16 ? a.u32[i + by] : b.u32[i + by - 16];
  return c.si;
}
#define _mm512_alignr_epi32 emulate_alignr_epi32

EMULATE __m512i emulate_mask_blend_epi32(__mmask16 k, __m512i x, __m512i y) {
  const emulated a = {.si = x}, b = {.si = y};
  emulated c;
  for (int i = 0; i < 16; ++i)
    c.u32[i] = (k >> i & 1) != 0 ? b.u32[i] : a.u32[i];
  return c.si;
}
#define _mm512_mask_blend_epi32 emulate_mask_blend_epi32
#define _mm512_maskz_mov_epi32(k, v) \
  emulate_mask_blend_epi32(k, emulate_set1_epi64(0), v)
#define _mm512_mask_or_epi32(other, k, a, b) \
  emulate_mask_blend_epi32(k, other, emulate_or_si512(a, b))

EMULATE __mmask16 emulate_cmp_ps_mask(__m512 x, __m512 y, int how) {
  const emulated a = {.ps = x}, b = {.ps = y};
  unsigned k = 0;
  for (int i = 0; i < 16; ++i) {
    const float u = a.f32[i], v = b.f32[i];
    int holds = u != u || v != v;
    if (how == _CMP_EQ_OQ)
      holds = u == v;
    else if (how == _CMP_LT_OQ)
      holds = u < v;
    else if (how == _CMP_LE_OQ)
      holds = u <= v;
    else if (how == _CMP_GE_OQ)
      holds = u >= v;
    else if (how == _CMP_NLT_UQ)
      holds = !(u < v);
    else if (how == _CMP_NLE_UQ)
      holds = !(u <= v);
    else if (how != _CMP_UNORD_Q)
      __builtin_trap();
    k |= (unsigned)holds << i;
  }
  return (__mmask16)k;
}
#define _mm512_cmp_ps_mask emulate_cmp_ps_mask

/* Of the same bit of three registers, by a table of eight. */
EMULATE __m512i emulate_ternarylogic_epi64(__m512i x, __m512i y, __m512i z,
                                           unsigned table) {
  const emulated a = {.si = x}, b = {.si = y}, d = {.si = z};
  emulated c = {.u64 = {0}};
  for (unsigned k = 0; k < 8; ++k)
    for (int i = 0; i < 8 && (table >> k & 1) != 0; ++i)
      c.u64[i] |= ((k & 4) != 0 ? a.u64[i] : ~a.u64[i]) &
                  ((k & 2) != 0 ? b.u64[i] : ~b.u64[i]) &
                  ((k & 1) != 0 ? d.u64[i] : ~d.u64[i]);
  return c.si;
}
#define _mm512_ternarylogic_epi64 emulate_ternarylogic_epi64

/* ---------------------------------------------------------------- products */

EMULATE __m512d emulate_mask3_fmadd_pd(__m512d x, __m512d y, __m512d z,
                                       __mmask8 k) {
  const emulated a = {.pd = x}, b = {.pd = y};
  emulated c = {.pd = z};
  for (int i = 0; i < 8; ++i)
    if ((k >> i & 1) != 0) c.f64[i] = fma(a.f64[i], b.f64[i], c.f64[i]);
  return c.pd;
}
#define _mm512_mask3_fmadd_pd emulate_mask3_fmadd_pd
#define _mm512_fmadd_pd(a, b, c) emulate_mask3_fmadd_pd(a, b, c, 0xff)

#include "avx512_math.h"

#endif /* TENON_TESTS_EMULATE_AVX512_H_ */
