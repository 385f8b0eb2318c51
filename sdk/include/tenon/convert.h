/* SPDX-License-Identifier: Apache-2.0
 * convert.h: elements of any type as the types that kernels compute in, and
 * back. Part of kernel.h, which includes it.
 *
 * A kernel computes in f32, f64, i32 or i64. Values that it reads are exact in
 * that type, except i64 in f64, which is rounded. Values that it writes are
 *
 *   f16, bf16, f32   rounded once, to nearest, ties to even
 *   an integer       from an integer: its lowest bits, so that it wraps; from a
 *                    float: without its fraction, the nearest that the type has
 *                    if it is too large, 0 for NaN
 *   bool             0 for zeros, otherwise 1
 *
 * No kernel computes with u64: neither i64 nor f64 can hold it.
 */
/* Before the guard: kernel.h needs all of this file after its own lines. */
#include "tenon/kernel.h"

#ifndef TENON_CONVERT_H_
#define TENON_CONVERT_H_

#include "tenon/level.h"

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

/* The type in which a single operand would compute: TN_F32, TN_F64, TN_I32 or
 * TN_I64; TN_DTYPE_UNKNOWN for u64 and invalid types. [any] */
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
    default:
      return TN_DTYPE_UNKNOWN;
  }
}

/* The type in which operands of two such types compute together. [any] */
static inline tn_dtype tn_kernel_compute_join(tn_dtype a, tn_dtype b) {
  if (a == b) return a;
  if (a == TN_F64 || b == TN_F64) return TN_F64;
  if (a == TN_F32 || b == TN_F32)
    return a == TN_I64 || b == TN_I64 ? TN_F64 : TN_F32;
  return TN_I64;
}

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

/* Rounds a double to the adjacent float with a lowest bit of 1, unless it is
 * exact. A half made of that is rounded as if directly from the double. */
static inline float tn_kernel_f64_to_f32_odd(double x) {
  const float nearest = (float)x;
  const uint32_t bits = tn_kernel_f32_bits(nearest);
  const double back = (double)nearest;
  const int past = (x > 0 && back > x) || (x < 0 && back < x);
  const uint32_t toward_0 = bits - (uint32_t)past;
  const uint32_t inexact = (uint32_t)(back < x || back > x);
  return tn_kernel_f32_from_bits(toward_0 | inexact);
}
TN_KERNEL_STEP(f64_to_line, float, double, tn_kernel_f64_to_f32_odd(x))

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

/* Bounds of an integer type other than bool, for values of TN_F32 or TN_F64. */
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

/* ------------------------------------------------------------------ loading */

/* The step from a type to the one it would compute in alone. */
static inline tn_kernel_step *tn_kernel_widen(tn_dtype dtype, uint32_t level) {
  switch (dtype) {
    case TN_F16:
      return TN_KERNEL_HALF_AT(f16_to_line, level);
    case TN_BF16:
      return TN_KERNEL_HALF_AT(bf16_to_line, level);
    case TN_BOOL:
      return TN_KERNEL_STEP_AT(bool_to_i32, level);
    case TN_I8:
      return TN_KERNEL_STEP_AT(i8_to_i32, level);
    case TN_U8:
      return TN_KERNEL_STEP_AT(u8_to_i32, level);
    case TN_I16:
      return TN_KERNEL_STEP_AT(i16_to_i32, level);
    case TN_U16:
      return TN_KERNEL_STEP_AT(u16_to_i32, level);
    default: /* TN_U32 */
      return TN_KERNEL_STEP_AT(u32_to_i64, level);
  }
}

/* A type to compute in, and the level of instructions to use for it. */
typedef struct tn_kernel_mode {
  tn_dtype compute;
  uint32_t level;
} tn_kernel_mode;

/* The step from a type to compute in to a larger one. */
static inline tn_kernel_step *tn_kernel_raise(const tn_kernel_mode *mode,
                                              tn_dtype from) {
  if (mode->compute == TN_F32)
    return TN_KERNEL_STEP_AT(i32_to_f32, mode->level);
  if (mode->compute == TN_I64)
    return TN_KERNEL_STEP_AT(i32_to_i64, mode->level);
  if (from == TN_I32) return TN_KERNEL_STEP_AT(i32_to_f64, mode->level);
  if (from == TN_F32) return TN_KERNEL_STEP_AT(f32_to_f64, mode->level);
  return TN_KERNEL_STEP_AT(i64_to_f64, mode->level);
}

/* Reads n dense elements into the type to compute in. */
TN_KERNEL_COMMON void tn_kernel_load_dense(void *to, const tn_kernel_mode *mode,
                                           const void *from, tn_dtype dtype,
                                           int64_t n);

#if TN_KERNEL_HAS_COMMON
TN_KERNEL_COMMON void tn_kernel_load_dense(void *to, const tn_kernel_mode *mode,
                                           const void *from, tn_dtype dtype,
                                           int64_t n) {
  int64_t stage[TN_KERNEL_STAGE];
  const tn_dtype own = tn_kernel_compute(dtype);
  if (dtype == mode->compute) {
    memcpy(to, from, (size_t)(n * tn_dtype_bytes(dtype)));
  } else if (own == mode->compute) {
    tn_kernel_widen(dtype, mode->level)(to, from, n);
  } else if (own == dtype) {
    tn_kernel_raise(mode, own)(to, from, n);
  } else {
    for (int64_t i = 0; i < n; i += TN_KERNEL_STAGE) {
      const int64_t some = n - i < TN_KERNEL_STAGE ? n - i : TN_KERNEL_STAGE;
      const char *at = (const char *)from + i * tn_dtype_bytes(dtype);
      char *end = (char *)to + i * tn_dtype_bytes(mode->compute);
      tn_kernel_widen(dtype, mode->level)(stage, at, some);
      tn_kernel_raise(mode, own)(end, stage, some);
    }
  }
}
#endif

/* ------------------------------------------------------------------ storing */

/* These take at most TN_KERNEL_STAGE elements. */
static inline void tn_kernel_narrow_i32(void *to, tn_dtype dtype,
                                        const void *from, uint32_t level,
                                        int64_t n) {
  if (dtype == TN_BOOL)
    TN_KERNEL_STEP_AT(i32_to_bool, level)(to, from, n);
  else if (tn_dtype_bytes(dtype) == 1)
    TN_KERNEL_STEP_AT(i32_to_8, level)(to, from, n);
  else if (tn_dtype_bytes(dtype) == 2)
    TN_KERNEL_STEP_AT(i32_to_16, level)(to, from, n);
  else
    memcpy(to, from, (size_t)n * sizeof(int32_t));
}

static inline void tn_kernel_narrow_i64(void *to, tn_dtype dtype,
                                        const void *from, uint32_t level,
                                        int64_t n) {
  int32_t stage[TN_KERNEL_STAGE];
  if (dtype == TN_BOOL) {
    TN_KERNEL_STEP_AT(i64_to_bool, level)(to, from, n);
  } else if (tn_dtype_bytes(dtype) == 4) {
    TN_KERNEL_STEP_AT(i64_to_32, level)(to, from, n);
  } else if (tn_dtype_bytes(dtype) == 8) {
    memcpy(to, from, (size_t)n * sizeof(int64_t));
  } else {
    TN_KERNEL_STEP_AT(i64_to_32, level)(stage, from, n);
    tn_kernel_narrow_i32(to, dtype, stage, level, n);
  }
}

static inline void tn_kernel_narrow_f32(void *to, tn_dtype dtype,
                                        const void *from, uint32_t level,
                                        int64_t n) {
  int32_t stage[TN_KERNEL_STAGE];
  if (dtype == TN_F16) {
    TN_KERNEL_HALF_AT(line_to_f16, level)(to, from, n);
  } else if (dtype == TN_BF16) {
    TN_KERNEL_HALF_AT(line_to_bf16, level)(to, from, n);
  } else if (dtype == TN_BOOL) {
    TN_KERNEL_STEP_AT(f32_to_bool, level)(to, from, n);
  } else {
    const tn_kernel_bounds bounds = tn_kernel_bounds_of(dtype, TN_F32);
    tn_kernel_f32_to_i32(stage, (const float *)from, n, &bounds);
    tn_kernel_narrow_i32(to, dtype, stage, level, n);
  }
}

static inline void tn_kernel_narrow_f64(void *to, tn_dtype dtype,
                                        const void *from, uint32_t level,
                                        int64_t n) {
  union {
    float f32[TN_KERNEL_STAGE];
    int64_t i64[TN_KERNEL_STAGE];
  } stage;
  if (dtype == TN_F32) {
    TN_KERNEL_STEP_AT(f64_to_f32, level)(to, from, n);
  } else if (dtype == TN_BOOL) {
    TN_KERNEL_STEP_AT(f64_to_bool, level)(to, from, n);
  } else if (dtype == TN_F16 || dtype == TN_BF16) {
    TN_KERNEL_STEP_AT(f64_to_line, level)(stage.f32, from, n);
    tn_kernel_narrow_f32(to, dtype, stage.f32, level, n);
  } else {
    const tn_kernel_bounds bounds = tn_kernel_bounds_of(dtype, TN_F64);
    tn_kernel_f64_to_i64(stage.i64, (const double *)from, n, &bounds);
    tn_kernel_narrow_i64(to, dtype, stage.i64, level, n);
  }
}

/* Writes n dense elements of the type to compute in. */
TN_KERNEL_COMMON void tn_kernel_store_dense(void *to, tn_dtype dtype,
                                            const void *from,
                                            const tn_kernel_mode *mode,
                                            int64_t n);

#if TN_KERNEL_HAS_COMMON
TN_KERNEL_COMMON void tn_kernel_store_dense(void *to, tn_dtype dtype,
                                            const void *from,
                                            const tn_kernel_mode *mode,
                                            int64_t n) {
  if (dtype == mode->compute && n > 0)
    memcpy(to, from, (size_t)(n * tn_dtype_bytes(dtype)));
  for (int64_t i = 0; i < n && dtype != mode->compute; i += TN_KERNEL_STAGE) {
    const int64_t some = n - i < TN_KERNEL_STAGE ? n - i : TN_KERNEL_STAGE;
    char *end = (char *)to + i * tn_dtype_bytes(dtype);
    const char *at = (const char *)from + i * tn_dtype_bytes(mode->compute);
    if (mode->compute == TN_F32)
      tn_kernel_narrow_f32(end, dtype, at, mode->level, some);
    else if (mode->compute == TN_F64)
      tn_kernel_narrow_f64(end, dtype, at, mode->level, some);
    else if (mode->compute == TN_I32)
      tn_kernel_narrow_i32(end, dtype, at, mode->level, some);
    else
      tn_kernel_narrow_i64(end, dtype, at, mode->level, some);
  }
}
#endif

/* to[i] += from[i] for dense elements of the type to compute in. [worker] */
static inline void tn_kernel_add_dense(void *to, const void *from,
                                       const tn_kernel_mode *mode, int64_t n) {
  if (mode->compute == TN_F32)
    TN_KERNEL_STEP_AT(add_f32, mode->level)(to, from, n);
  else if (mode->compute == TN_F64)
    TN_KERNEL_STEP_AT(add_f64, mode->level)(to, from, n);
  else if (mode->compute == TN_I32)
    TN_KERNEL_STEP_AT(add_i32, mode->level)(to, from, n);
  else
    TN_KERNEL_STEP_AT(add_i64, mode->level)(to, from, n);
}

/* -------------------------------------------------------------------- lines */

/* Elements of any type that are only moved. */
#if defined(__GNUC__)
typedef uint8_t __attribute__((may_alias)) tn_kernel_bytes_1;
typedef uint16_t __attribute__((may_alias)) tn_kernel_bytes_2;
typedef uint32_t __attribute__((may_alias)) tn_kernel_bytes_4;
typedef uint64_t __attribute__((may_alias)) tn_kernel_bytes_8;
#else
typedef uint8_t tn_kernel_bytes_1;
typedef uint16_t tn_kernel_bytes_2;
typedef uint32_t tn_kernel_bytes_4;
typedef uint64_t tn_kernel_bytes_8;
#endif

/* n elements, `stride` elements apart. */
typedef struct tn_kernel_line {
  char *at;
  int64_t stride;
  int64_t n;
  tn_dtype dtype;
} tn_kernel_line;

/* Compilers vectorise loops for a repeated element and for every second one. */
#define TN_KERNEL_PACK(type)                                \
  do {                                                      \
    type *__restrict t = (type *)to;                        \
    const type *__restrict f = (const type *)at;            \
    const type same = f[0];                                 \
    if (stride == 0)                                        \
      for (int64_t i = 0; i < n; ++i) t[i] = same;          \
    else if (stride == 2)                                   \
      for (int64_t i = 0; i < n; ++i) t[i] = f[2 * i];      \
    else                                                    \
      for (int64_t i = 0; i < n; ++i) t[i] = f[i * stride]; \
  } while (0)

/* Packs n elements, `stride` apart, into contiguous ones. */
TN_KERNEL_BODY void tn_kernel_pack(void *to, const void *at, int64_t stride,
                                   int64_t bytes, int64_t n) {
  if (n == 0) return;
  if (bytes == 1)
    TN_KERNEL_PACK(tn_kernel_bytes_1);
  else if (bytes == 2)
    TN_KERNEL_PACK(tn_kernel_bytes_2);
  else if (bytes == 4)
    TN_KERNEL_PACK(tn_kernel_bytes_4);
  else
    TN_KERNEL_PACK(tn_kernel_bytes_8);
}

TN_KERNEL_ONCE void tn_kernel_pack_base(void *to, const void *at,
                                        int64_t stride, int64_t bytes,
                                        int64_t n) {
  tn_kernel_pack(to, at, stride, bytes, n);
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
TN_KERNEL_ONCE TN_KERNEL_AVX2 void tn_kernel_pack_avx2(void *to, const void *at,
                                                       int64_t stride,
                                                       int64_t bytes,
                                                       int64_t n) {
  tn_kernel_pack(to, at, stride, bytes, n);
}

TN_KERNEL_ONCE TN_KERNEL_AVX512 void tn_kernel_pack_avx512(
    void *to, const void *at, int64_t stride, int64_t bytes, int64_t n) {
  tn_kernel_pack(to, at, stride, bytes, n);
}
#endif

/* Elements first to first + n of a line. */
static inline void tn_kernel_pack_line(void *to, uint32_t level,
                                       const tn_kernel_line *from,
                                       int64_t first, int64_t n) {
  const int64_t bytes = tn_dtype_bytes(from->dtype);
  const char *at = from->at + first * from->stride * bytes;
  TN_KERNEL_HALF_AT(pack, level)(to, at, from->stride, bytes, n);
}

/* Dense elements as elements first to first + n of a line. */
TN_KERNEL_ONCE void tn_kernel_spread(const tn_kernel_line *to, int64_t first,
                                     const void *from, int64_t n) {
  const int64_t stride = to->stride;
  const int64_t bytes = tn_dtype_bytes(to->dtype);
  void *at = to->at + first * stride * bytes;
  if (bytes == 1)
    for (int64_t i = 0; i < n; ++i)
      ((tn_kernel_bytes_1 *)at)[i * stride] =
          ((const tn_kernel_bytes_1 *)from)[i];
  else if (bytes == 2)
    for (int64_t i = 0; i < n; ++i)
      ((tn_kernel_bytes_2 *)at)[i * stride] =
          ((const tn_kernel_bytes_2 *)from)[i];
  else if (bytes == 4)
    for (int64_t i = 0; i < n; ++i)
      ((tn_kernel_bytes_4 *)at)[i * stride] =
          ((const tn_kernel_bytes_4 *)from)[i];
  else
    for (int64_t i = 0; i < n; ++i)
      ((tn_kernel_bytes_8 *)at)[i * stride] =
          ((const tn_kernel_bytes_8 *)from)[i];
}

/* Reads a line into dense elements of the type to compute in, which must equal
 * its join with the line's own type (tn_kernel_compute_join): f32 cannot be
 * used for an f64. [worker] */
TN_KERNEL_COMMON void tn_kernel_load(void *to, const tn_kernel_mode *mode,
                                     const tn_kernel_line *from);

#if TN_KERNEL_HAS_COMMON
TN_KERNEL_COMMON void tn_kernel_load(void *to, const tn_kernel_mode *mode,
                                     const tn_kernel_line *from) {
  int64_t stage[TN_KERNEL_STAGE];
  const int64_t bytes = tn_dtype_bytes(mode->compute);
  if (from->stride == 1) {
    tn_kernel_load_dense(to, mode, from->at, from->dtype, from->n);
    return;
  }
  if (from->dtype == mode->compute) {
    tn_kernel_pack_line(to, mode->level, from, 0, from->n);
    return;
  }
  for (int64_t i = 0; i < from->n; i += TN_KERNEL_STAGE) {
    const int64_t left = from->n - i;
    const int64_t n = left < TN_KERNEL_STAGE ? left : TN_KERNEL_STAGE;
    tn_kernel_pack_line(stage, mode->level, from, i, n);
    tn_kernel_load_dense((char *)to + i * bytes, mode, stage, from->dtype, n);
  }
}
#endif

/* Writes dense elements of the type to compute in to a line; the types as
 * above. [worker] */
TN_KERNEL_COMMON void tn_kernel_store(const tn_kernel_line *to,
                                      const tn_kernel_mode *mode,
                                      const void *from);

#if TN_KERNEL_HAS_COMMON
TN_KERNEL_COMMON void tn_kernel_store(const tn_kernel_line *to,
                                      const tn_kernel_mode *mode,
                                      const void *from) {
  int64_t stage[TN_KERNEL_STAGE];
  const int64_t bytes = tn_dtype_bytes(mode->compute);
  if (to->stride == 1) {
    tn_kernel_store_dense(to->at, to->dtype, from, mode, to->n);
    return;
  }
  if (to->dtype == mode->compute) {
    tn_kernel_spread(to, 0, from, to->n);
    return;
  }
  for (int64_t i = 0; i < to->n; i += TN_KERNEL_STAGE) {
    const int64_t left = to->n - i;
    const int64_t n = left < TN_KERNEL_STAGE ? left : TN_KERNEL_STAGE;
    tn_kernel_store_dense(stage, to->dtype, (const char *)from + i * bytes,
                          mode, n);
    tn_kernel_spread(to, i, stage, n);
  }
}
#endif

#ifdef __cplusplus
}
#endif
#endif /* TENON_CONVERT_H_ */
