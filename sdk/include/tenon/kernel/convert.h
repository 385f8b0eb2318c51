/* SPDX-License-Identifier: Apache-2.0
 * convert.h: elements of any type as the types that kernels compute in, and
 * back. Part of kernel.h, which includes it.
 *
 * A kernel computes in f32, f64, i32, i64 or u64. Values that it reads are
 * exact in that type, except i64 and u64 in f64, which are rounded, and
 * negative numbers in u64, which wrap. Values that it writes are
 *
 *   f16, bf16, f32   rounded once, to nearest, ties to even
 *   an integer       from an integer: its lowest bits, so that it wraps; from a
 *                    float: without its fraction, the nearest that the type has
 *                    if it is too large, 0 for NaN
 *   bool             0 for zeros, otherwise 1
 *
 * An element-wise kernel that reads u64 and writes a float narrower than f64
 * rounds once (TN_KERNEL_ODD_U64).
 */
/* Before the guard: kernel.h needs all of this file after its own lines. */
#include "tenon/kernel/kernel.h"

#ifndef TENON_KERNEL_CONVERT_H_
#define TENON_KERNEL_CONVERT_H_

#include "tenon/kernel/convert_loops.h"

#ifdef __cplusplus
extern "C" {
#endif

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
  if (from == TN_U64) return TN_KERNEL_STEP_AT(u64_to_f64, mode->level);
  if (from == TN_KERNEL_ODD_U64)
    return TN_KERNEL_STEP_AT(u64_to_odd, mode->level);
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
  const tn_kernel_mode as = {tn_kernel_signed(mode->compute), mode->level};
  if (as.compute == TN_I64) dtype = tn_kernel_signed(dtype);
  const tn_dtype own = tn_kernel_compute(dtype);
  if (dtype == as.compute) {
    memcpy(to, from, (size_t)(n * tn_dtype_bytes(dtype)));
  } else if (own == as.compute) {
    tn_kernel_widen(dtype, as.level)(to, from, n);
  } else if (own == dtype || dtype == TN_KERNEL_ODD_U64) {
    tn_kernel_raise(&as, dtype)(to, from, n);
  } else {
    for (int64_t i = 0; i < n; i += TN_KERNEL_STAGE) {
      const int64_t some = n - i < TN_KERNEL_STAGE ? n - i : TN_KERNEL_STAGE;
      const char *at = (const char *)from + i * tn_dtype_bytes(dtype);
      char *end = (char *)to + i * tn_dtype_bytes(as.compute);
      tn_kernel_widen(dtype, as.level)(stage, at, some);
      tn_kernel_raise(&as, own)(end, stage, some);
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

/* Values of u64 have the same bits. */
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
  } else if (dtype == TN_U64) {
    tn_kernel_f64_to_u64((uint64_t *)to, (const double *)from, n);
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
#endif /* TENON_KERNEL_CONVERT_H_ */
