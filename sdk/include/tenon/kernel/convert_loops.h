/* SPDX-License-Identifier: Apache-2.0
 * convert_loops.h: the types that kernels compute in, and loops that convert
 * dense elements from one type to another. Part of kernel.h, by convert.h.
 */
#include "tenon/kernel/kernel.h" /* includes this file: before the guard */

#ifndef TENON_KERNEL_CONVERT_LOOPS_H_
#define TENON_KERNEL_CONVERT_LOOPS_H_

#include "tenon/kernel/cpu_levels.h"
#include "tenon/kernel/storage.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The level of a call, 0 to TN_KERNEL_N_LEVELS - 1. [any] */
static inline uint32_t tn_kernel_level(const tn_frame *call) {
  const uint64_t avx2 = TN_CPU_AVX2 | TN_CPU_FMA | TN_CPU_F16C;
#if defined(TN_KERNEL_EMULATED)
  const uint64_t features = call->host->cpu_features | TN_CPU_AVX512;
#else
  const uint64_t features = call->host->cpu_features;
#endif
  if ((features & avx2) != avx2) return 0;
  return (features & TN_CPU_AVX512) ? 2 : 1;
}

/* -------------------------------------------------------- types to compute in
 */

/* The type in which a single operand would compute: TN_F32, TN_F64, TN_I32,
 * TN_I64 or TN_U64; TN_DTYPE_UNKNOWN for invalid types. [any] */
static inline tn_dtype tn_kernel_compute(tn_dtype dtype) {
  switch (dtype) {
    case TN_F16:
    case TN_BF16:
    case TN_F32:
      return TN_F32;
    case TN_F64:
      return TN_F64;
    case TN_BOOL:
    case TN_I8:
    case TN_U8:
    case TN_I16:
    case TN_U16:
    case TN_I32:
      return TN_I32;
    case TN_U32:
    case TN_I64:
      return TN_I64;
    case TN_U64:
      return TN_U64;
    default:
      return TN_DTYPE_UNKNOWN;
  }
}

/* The type in which operands of two such types compute together. [any] */
static inline tn_dtype tn_kernel_compute_join(tn_dtype a, tn_dtype b) {
  if (a == b) return a;
  if (a == TN_F64 || b == TN_F64) return TN_F64;
  if (a == TN_F32 || b == TN_F32)
    return a == TN_I32 || b == TN_I32 ? TN_F32 : TN_F64;
  return a == TN_U64 || b == TN_U64 ? TN_U64 : TN_I64;
}

/* The type with a sign whose arithmetic has the same bits as u64; other types
 * are their own. [any] */
static inline tn_dtype tn_kernel_signed(tn_dtype dtype) {
  return dtype == TN_U64 ? TN_I64 : dtype;
}

/* The type of an operand of u64 in calls that compute in f64 and write a
 * narrower float: the operand is rounded to odd, so that results which are
 * rounded again are as near as if they were rounded once. */
#define TN_KERNEL_ODD_U64 TN_DTYPE_MAKE(0xff, 64)

/* As tn_kernel_compute(), joined with such a type if it is not
 * TN_DTYPE_UNKNOWN. [any] */
static inline tn_dtype tn_kernel_compute_at_least(tn_dtype dtype,
                                                  tn_dtype least) {
  const tn_dtype own = tn_kernel_compute(dtype);
  if (own == TN_DTYPE_UNKNOWN || least == TN_DTYPE_UNKNOWN) return own;
  return tn_kernel_compute_join(own, least);
}

/* "f32": for messages. [any] */
static inline const char *tn_kernel_compute_name(tn_dtype compute) {
  if (compute == TN_F32) return "f32";
  if (compute == TN_F64) return "f64";
  if (compute == TN_U64) return "u64";
  return compute == TN_I32 ? "i32" : "i64";
}

/* -------------------------------------------------------------- dense loops */

/* Elements that are converted together if it takes several steps. */
#define TN_KERNEL_STAGE 256

/* Steps are compiled for the baseline and for AVX2. Those that do little would
 * gain nothing by AVX-512, because the elements are in the nearest cache. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
#define TN_KERNEL_STEP_LEVELS(name)                                          \
  TN_KERNEL_ONCE void name##_base(void *to, const void *from, int64_t n) {   \
    name(to, from, n);                                                       \
  }                                                                          \
  TN_KERNEL_ONCE TN_KERNEL_AVX2 void name##_avx2(void *to, const void *from, \
                                                 int64_t n) {                \
    name(to, from, n);                                                       \
  }
#define TN_KERNEL_STEP_AT(name, level) \
  ((level) == 0 ? tn_kernel_##name##_base : tn_kernel_##name##_avx2)
#else
#define TN_KERNEL_STEP_LEVELS(name)                                        \
  TN_KERNEL_ONCE void name##_base(void *to, const void *from, int64_t n) { \
    name(to, from, n);                                                     \
  }
#define TN_KERNEL_STEP_AT(name, level) ((void)(level), tn_kernel_##name##_base)
#endif

/* The loop of one step; `x` is the element. */
#define TN_KERNEL_STEP(name, to_type, from_type, value)            \
  TN_KERNEL_BODY void tn_kernel_##name(void *to, const void *from, \
                                       int64_t n) {                \
    to_type *__restrict t = (to_type *)to;                         \
    const from_type *__restrict f = (const from_type *)from;       \
    for (int64_t i = 0; i < n; ++i) {                              \
      const from_type x = f[i];                                    \
      t[i] = (to_type)(value);                                     \
    }                                                              \
  }                                                                \
  TN_KERNEL_STEP_LEVELS(tn_kernel_##name)

typedef void tn_kernel_step(void *to, const void *from, int64_t n);

TN_KERNEL_STEP(bool_to_i32, int32_t, uint8_t, x != 0)
TN_KERNEL_STEP(i8_to_i32, int32_t, int8_t, x)
TN_KERNEL_STEP(u8_to_i32, int32_t, uint8_t, x)
TN_KERNEL_STEP(i16_to_i32, int32_t, int16_t, x)
TN_KERNEL_STEP(u16_to_i32, int32_t, uint16_t, x)
TN_KERNEL_STEP(i32_to_i64, int64_t, int32_t, x)
TN_KERNEL_STEP(u32_to_i64, int64_t, uint32_t, x)
TN_KERNEL_STEP(i32_to_f32, float, int32_t, x)
TN_KERNEL_STEP(i32_to_f64, double, int32_t, x)
TN_KERNEL_STEP(i64_to_f64, double, int64_t, x)
TN_KERNEL_STEP(f32_to_f64, double, float, x)

/* The nearest double: both halves are exact, and their sum is rounded once.
 * Processors before AVX-512 convert only numbers with a sign. */
static inline double tn_kernel_u64_to_f64_near(uint64_t x) {
  const double high =
      tn_kernel_f64_from_bits(x >> 32 | 0x4530000000000000u); /* 2^84 + */
  const double low = tn_kernel_f64_from_bits((x & 0xffffffffu) |
                                             0x4330000000000000u); /* 2^52 + */
  return (high - (0x1p84 + 0x1p52)) + low;
}

TN_KERNEL_STEP(u64_to_f64, double, uint64_t, tn_kernel_u64_to_f64_near(x))
TN_KERNEL_STEP(u64_to_odd, double, uint64_t,
               tn_kernel_u64_to_f64_near(tn_math_odd_u64(x)))

TN_KERNEL_STEP(i32_to_8, uint8_t, int32_t, x)
TN_KERNEL_STEP(i32_to_16, uint16_t, int32_t, x)
TN_KERNEL_STEP(i64_to_32, uint32_t, int64_t, x)
TN_KERNEL_STEP(i32_to_bool, uint8_t, int32_t, x != 0)
TN_KERNEL_STEP(i64_to_bool, uint8_t, int64_t, x != 0)
TN_KERNEL_STEP(f32_to_bool, uint8_t, float, x != 0)
TN_KERNEL_STEP(f64_to_bool, uint8_t, double, x != 0)
TN_KERNEL_STEP(f64_to_f32, float, double, x)

/* t[i] += x */
TN_KERNEL_STEP(add_f32, float, float, t[i] + x)
TN_KERNEL_STEP(add_f64, double, double, t[i] + x)
TN_KERNEL_STEP(add_i32, uint32_t, uint32_t, t[i] + x)
TN_KERNEL_STEP(add_i64, uint64_t, uint64_t, t[i] + x)

/* Halves that are made of these floats are rounded as if directly from the
 * doubles. */
TN_KERNEL_STEP(f64_to_line, float, double, tn_storage_narrow(x))

/* The processor has conversions of f16 from AVX2 on; for bf16 gcc uses the
 * instructions that widen and pack only as intrinsics. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
TN_KERNEL_ONCE TN_KERNEL_AVX2 void tn_kernel_f16_to_line_avx2(void *to,
                                                              const void *from,
                                                              int64_t n) {
  const uint16_t *f = (const uint16_t *)from;
  float *t = (float *)to;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(
        t + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(f + i))));
  for (; i < n; ++i) t[i] = tn_kernel_f16_to_f32(f[i]);
}

TN_KERNEL_ONCE TN_KERNEL_AVX2 void tn_kernel_line_to_f16_avx2(void *to,
                                                              const void *from,
                                                              int64_t n) {
  const float *f = (const float *)from;
  uint16_t *t = (uint16_t *)to;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(
        (__m128i *)(t + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(f + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) t[i] = tn_kernel_f32_to_f16(f[i]);
}
TN_KERNEL_ONCE TN_KERNEL_AVX2 void tn_kernel_bf16_to_line_avx2(void *to,
                                                               const void *from,
                                                               int64_t n) {
  const uint16_t *f = (const uint16_t *)from;
  float *t = (float *)to;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128((const __m128i *)(f + i));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    _mm256_storeu_si256((__m256i *)(t + i), bits);
  }
  for (; i < n; ++i) t[i] = tn_kernel_bf16_to_f32(f[i]);
}

/* Eight floats as bf16 in words of 32 bits: tn_kernel_f32_to_bf16. */
TN_KERNEL_AVX2 static inline __m256i tn_kernel_bf16_words(const float *from) {
  const __m256 value = _mm256_loadu_ps(from);
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i more = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, more), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i nan =
      _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, nan);
}

TN_KERNEL_ONCE TN_KERNEL_AVX2 void tn_kernel_line_to_bf16_avx2(void *to,
                                                               const void *from,
                                                               int64_t n) {
  const float *f = (const float *)from;
  uint16_t *t = (uint16_t *)to;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i mixed = _mm256_packus_epi32(tn_kernel_bf16_words(f + i),
                                              tn_kernel_bf16_words(f + i + 8));
    _mm256_storeu_si256((__m256i *)(t + i),
                        _mm256_permute4x64_epi64(mixed, 0xd8));
  }
  for (; i < n; ++i) t[i] = tn_kernel_f32_to_bf16(f[i]);
}

/* The same with AVX-512: calls in half precision mostly convert. */
TN_KERNEL_ONCE TN_KERNEL_AVX512 void tn_kernel_f16_to_line_avx512(
    void *to, const void *from, int64_t n) {
  const uint16_t *f = (const uint16_t *)from;
  float *t = (float *)to;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(t + i, _mm512_cvtph_ps(_mm256_loadu_si256(
                                (const __m256i *)(const void *)(f + i))));
  for (; i < n; ++i) t[i] = tn_kernel_f16_to_f32(f[i]);
}

TN_KERNEL_ONCE TN_KERNEL_AVX512 void tn_kernel_line_to_f16_avx512(
    void *to, const void *from, int64_t n) {
  const float *f = (const float *)from;
  uint16_t *t = (uint16_t *)to;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((__m256i *)(void *)(t + i),
                        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(f + i),
                                              _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) t[i] = tn_kernel_f32_to_f16(f[i]);
}

TN_KERNEL_ONCE TN_KERNEL_AVX512 void tn_kernel_bf16_to_line_avx512(
    void *to, const void *from, int64_t n) {
  const uint16_t *f = (const uint16_t *)from;
  float *t = (float *)to;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512i words = _mm512_cvtepu16_epi32(
        _mm256_loadu_si256((const __m256i *)(const void *)(f + i)));
    _mm512_storeu_si512(t + i, _mm512_slli_epi32(words, 16));
  }
  for (; i < n; ++i) t[i] = tn_kernel_bf16_to_f32(f[i]);
}

/* Sixteen floats, none of them NaN, as bf16 in words of 32 bits. */
TN_KERNEL_AVX512 static inline __m512i tn_kernel_bf16_words_avx512(
    __m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  return _mm512_srli_epi32(_mm512_add_epi32(half, odd), 16);
}

TN_KERNEL_ONCE TN_KERNEL_AVX512 void tn_kernel_line_to_bf16_avx512(
    void *to, const void *from, int64_t n) {
  const float *f = (const float *)from;
  uint16_t *t = (uint16_t *)to;
  const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512 a = _mm512_loadu_ps(f + i), b = _mm512_loadu_ps(f + i + 16);
    const __m512i mixed = _mm512_packus_epi32(tn_kernel_bf16_words_avx512(a),
                                              tn_kernel_bf16_words_avx512(b));
    _mm512_storeu_si512(t + i, _mm512_permutexvar_epi64(order, mixed));
    if (_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) == 0) continue;
    for (int64_t k = i; k < i + 32; ++k) t[k] = tn_kernel_f32_to_bf16(f[k]);
  }
  for (; i < n; ++i) t[i] = tn_kernel_f32_to_bf16(f[i]);
}
/* A step that has a form for AVX-512 as well. */
#define TN_KERNEL_HALF_AT(name, level) \
  ((level) == 2 ? tn_kernel_##name##_avx512 : TN_KERNEL_STEP_AT(name, level))
#else
#define TN_KERNEL_HALF_AT(name, level) TN_KERNEL_STEP_AT(name, level)
#endif

TN_KERNEL_ONCE void tn_kernel_f16_to_line_base(void *to, const void *from,
                                               int64_t n) {
  const uint16_t *f = (const uint16_t *)from;
  float *t = (float *)to;
  for (int64_t i = 0; i < n; ++i) t[i] = tn_kernel_f16_to_f32(f[i]);
}

TN_KERNEL_ONCE void tn_kernel_line_to_f16_base(void *to, const void *from,
                                               int64_t n) {
  const float *f = (const float *)from;
  uint16_t *t = (uint16_t *)to;
  for (int64_t i = 0; i < n; ++i) t[i] = tn_kernel_f32_to_f16(f[i]);
}

TN_KERNEL_ONCE void tn_kernel_bf16_to_line_base(void *to, const void *from,
                                                int64_t n) {
  const uint16_t *f = (const uint16_t *)from;
  float *t = (float *)to;
  for (int64_t i = 0; i < n; ++i) t[i] = tn_kernel_bf16_to_f32(f[i]);
}

TN_KERNEL_ONCE void tn_kernel_line_to_bf16_base(void *to, const void *from,
                                                int64_t n) {
  const float *f = (const float *)from;
  uint16_t *t = (uint16_t *)to;
  for (int64_t i = 0; i < n; ++i) t[i] = tn_kernel_f32_to_bf16(f[i]);
}

/* The range of an integer type, for values that come from floats: from `low` to
 * `most`; `high` is the first float that is too large, `below` the one before
 * it. */
typedef struct tn_kernel_bounds {
  double low;
  double below;
  double high;
  int64_t most;
} tn_kernel_bounds;

/* Bounds of an integer type other than bool and u64, for values of TN_F32 or
 * TN_F64. */
static inline tn_kernel_bounds tn_kernel_bounds_of(tn_dtype dtype,
                                                   tn_dtype compute) {
  const int is_signed = (dtype & 0xffu) == 0;
  const int bits = (int)((dtype >> 8) & 0xffu) - is_signed;
  const double high = ldexp(1.0, bits);
  const int kept = compute == TN_F32 ? 24 : 53;
  tn_kernel_bounds bounds;
  bounds.low = is_signed ? -high : 0;
  bounds.high = high;
  bounds.below = high - ldexp(1.0, bits > kept ? bits - kept : 0);
  bounds.most = (int64_t)(((uint64_t)1 << bits) - 1);
  return bounds;
}

TN_KERNEL_ONCE void tn_kernel_f32_to_i32(int32_t *__restrict to,
                                         const float *__restrict from,
                                         int64_t n,
                                         const tn_kernel_bounds *bounds) {
  const float low = (float)bounds->low, below = (float)bounds->below;
  const float high = (float)bounds->high;
  const int32_t most = (int32_t)bounds->most;
  for (int64_t i = 0; i < n; ++i) {
    const float x = from[i];
    const float number = tn_math_select_f32(x == x, x, 0);
    const float raised = tn_math_select_f32(number > low, number, low);
    const float inside = tn_math_select_f32(raised < below, raised, below);
    to[i] = x >= high ? most : (int32_t)inside;
  }
}

TN_KERNEL_ONCE void tn_kernel_f64_to_i64(int64_t *__restrict to,
                                         const double *__restrict from,
                                         int64_t n,
                                         const tn_kernel_bounds *bounds) {
  const double low = bounds->low, below = bounds->below, high = bounds->high;
  const int64_t most = bounds->most;
  for (int64_t i = 0; i < n; ++i) {
    const double x = from[i];
    const double number = tn_math_select_f64(x == x, x, 0);
    const double raised = tn_math_select_f64(number > low, number, low);
    const double inside = tn_math_select_f64(raised < below, raised, below);
    to[i] = x >= high ? most : (int64_t)inside;
  }
}

TN_KERNEL_ONCE void tn_kernel_f64_to_u64(uint64_t *__restrict to,
                                         const double *__restrict from,
                                         int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = tn_math_to_u64(from[i]);
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_CONVERT_LOOPS_H_ */
