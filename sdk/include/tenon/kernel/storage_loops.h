/* SPDX-License-Identifier: Apache-2.0
 * storage_loops.h: dense elements of the storage types as the types that
 * kernels on the CPU compute in, and back: storage.h for many elements.
 *
 *   float x[256];
 *   const tn_kernel_mode mode = {TN_F32, tn_kernel_level(call)};
 *   tn_storage_load_dense(x, &mode, data, TN_I4, 256);
 *
 * Elements begin with a whole byte. Threads that write parts of one tensor
 * begin them with whole bytes as well: tn_storage_per_byte().
 */
#ifndef TENON_KERNEL_STORAGE_LOOPS_H_
#define TENON_KERNEL_STORAGE_LOOPS_H_

#include "tenon/kernel/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The loops are compiled for the baseline and for AVX2, as those of
 * convert_loops.h. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
#define TN_STORAGE_LEVELS(name, params, args)             \
  TN_KERNEL_ONCE void name##_base params {                \
    name args;                                            \
  }                                                       \
  TN_KERNEL_ONCE TN_KERNEL_AVX2 void name##_avx2 params { \
    name args;                                            \
  }
#define TN_STORAGE_AT(name, level) ((level) == 0 ? name##_base : name##_avx2)
#else
#define TN_STORAGE_LEVELS(name, params, args) \
  TN_KERNEL_ONCE void name##_base params {    \
    name args;                                \
  }
#define TN_STORAGE_AT(name, level) ((void)(level), name##_base)
#endif

/* ------------------------------------------------------------------- bytes */

/* The codes of elements of 4 or 2 bits, one in each byte: all elements of
 * `bytes` bytes. */
TN_KERNEL_BODY void tn_storage_split(uint8_t *__restrict codes,
                                     const uint8_t *__restrict from,
                                     int64_t bytes, tn_dtype dtype) {
  if (tn_storage_per_byte(dtype) == 2)
    for (int64_t k = 0; k < bytes; ++k) {
      codes[2 * k] = from[k] & 15;
      codes[2 * k + 1] = from[k] >> 4;
    }
  else
    for (int64_t k = 0; k < bytes; ++k) {
      codes[4 * k] = from[k] & 3;
      codes[4 * k + 1] = from[k] >> 2 & 3;
      codes[4 * k + 2] = from[k] >> 4 & 3;
      codes[4 * k + 3] = from[k] >> 6;
    }
}
TN_STORAGE_LEVELS(tn_storage_split,
                  (uint8_t * codes, const uint8_t *from, int64_t bytes,
                   tn_dtype dtype),
                  (codes, from, bytes, dtype))

/* The reverse. */
TN_KERNEL_BODY void tn_storage_join(uint8_t *__restrict to,
                                    const uint8_t *__restrict codes,
                                    int64_t bytes, tn_dtype dtype) {
  if (tn_storage_per_byte(dtype) == 2)
    for (int64_t k = 0; k < bytes; ++k)
      to[k] = (uint8_t)(codes[2 * k] | codes[2 * k + 1] << 4);
  else
    for (int64_t k = 0; k < bytes; ++k)
      to[k] = (uint8_t)(codes[4 * k] | codes[4 * k + 1] << 2 |
                        codes[4 * k + 2] << 4 | codes[4 * k + 3] << 6);
}
TN_STORAGE_LEVELS(tn_storage_join,
                  (uint8_t * to, const uint8_t *codes, int64_t bytes,
                   tn_dtype dtype),
                  (to, codes, bytes, dtype))

/* The codes of n dense elements, one in each byte. [any] */
static inline void tn_storage_unpack(uint8_t *codes, const void *from,
                                     tn_dtype dtype, int64_t n,
                                     uint32_t level) {
  const int64_t whole = n / tn_storage_per_byte(dtype);
  int64_t i = whole * tn_storage_per_byte(dtype);
  if (tn_dtype_is_packed(dtype)) {
    TN_STORAGE_AT(tn_storage_split, level)
    (codes, (const uint8_t *)from, whole, dtype);
  } else if (n > 0) {
    memcpy(codes, from, (size_t)n);
  }
  for (; i < n; ++i) codes[i] = (uint8_t)tn_storage_get_code(from, dtype, i);
}

/* Sets n dense elements. Bits of the last byte after them become 0. [any] */
static inline void tn_storage_pack(void *to, tn_dtype dtype,
                                   const uint8_t *codes, int64_t n,
                                   uint32_t level) {
  const int64_t whole = n / tn_storage_per_byte(dtype);
  int64_t i = whole * tn_storage_per_byte(dtype);
  if (tn_dtype_is_packed(dtype)) {
    TN_STORAGE_AT(tn_storage_join, level)
    ((uint8_t *)to, codes, whole, dtype);
  } else if (n > 0) {
    memcpy(to, codes, (size_t)n);
  }
  if (i < n) ((uint8_t *)to)[whole] = 0;
  for (; i < n; ++i) tn_storage_set_code(to, dtype, i, codes[i]);
}

/* -------------------------------------------------------- codes to numbers */

TN_KERNEL_BODY void tn_storage_decode_floats(float *__restrict to,
                                             const uint8_t *__restrict codes,
                                             int64_t n,
                                             const tn_storage_float *type) {
  const tn_storage_float f = *type;
  for (int64_t i = 0; i < n; ++i) to[i] = tn_storage_float_decode(codes[i], &f);
}
TN_STORAGE_LEVELS(tn_storage_decode_floats,
                  (float *to, const uint8_t *codes, int64_t n,
                   const tn_storage_float *type),
                  (to, codes, n, type))

TN_KERNEL_BODY void tn_storage_decode_integers(float *__restrict to,
                                               const uint8_t *__restrict codes,
                                               int64_t n, tn_dtype dtype) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = (float)tn_storage_integer_decode(codes[i], dtype);
}
TN_STORAGE_LEVELS(tn_storage_decode_integers,
                  (float *to, const uint8_t *codes, int64_t n, tn_dtype dtype),
                  (to, codes, n, dtype))

/* The numbers of n codes. [any] */
static inline void tn_storage_decode_dense(float *to, const uint8_t *codes,
                                           tn_dtype dtype, int64_t n,
                                           uint32_t level) {
  if (tn_storage_is_integer(dtype)) {
    TN_STORAGE_AT(tn_storage_decode_integers, level)(to, codes, n, dtype);
  } else if (dtype == TN_F8E8M0) {
    for (int64_t i = 0; i < n; ++i) to[i] = tn_storage_power_decode(codes[i]);
  } else {
    const tn_storage_float f = tn_storage_float_of(dtype);
    TN_STORAGE_AT(tn_storage_decode_floats, level)(to, codes, n, &f);
  }
}

/* Reads n dense elements into the type to compute in, TN_F32 or TN_F64, or
 * TN_I64 for i4, u4, i2 and u2. Exact. [any] */
TN_KERNEL_ONCE void tn_storage_load_dense(void *to, const tn_kernel_mode *mode,
                                          const void *from, tn_dtype dtype,
                                          int64_t n) {
  uint8_t codes[TN_KERNEL_STAGE];
  float stage[TN_KERNEL_STAGE];
  for (int64_t i = 0; i < n; i += TN_KERNEL_STAGE) {
    const int64_t some = n - i < TN_KERNEL_STAGE ? n - i : TN_KERNEL_STAGE;
    const char *at = (const char *)from + i / tn_storage_per_byte(dtype);
    tn_storage_unpack(codes, at, dtype, some, mode->level);
    if (mode->compute == TN_I64) {
      int64_t *end = (int64_t *)to + i;
      for (int64_t k = 0; k < some; ++k)
        end[k] = tn_storage_integer_decode(codes[k], dtype);
      continue;
    }
    float *numbers = mode->compute == TN_F32 ? (float *)to + i : stage;
    tn_storage_decode_dense(numbers, codes, dtype, some, mode->level);
    if (mode->compute == TN_F64) {
      TN_KERNEL_STEP_AT(f32_to_f64, mode->level)
      ((double *)to + i, stage, some);
    }
  }
}

/* -------------------------------------------------------- numbers to codes */

TN_KERNEL_BODY void tn_storage_encode_floats(uint8_t *__restrict codes,
                                             const float *__restrict from,
                                             int64_t n,
                                             const tn_storage_float *type,
                                             int32_t saturate) {
  const tn_storage_float f = *type;
  for (int64_t i = 0; i < n; ++i)
    codes[i] = (uint8_t)tn_storage_float_encode(from[i], &f, saturate);
}
TN_STORAGE_LEVELS(tn_storage_encode_floats,
                  (uint8_t * codes, const float *from, int64_t n,
                   const tn_storage_float *type, int32_t saturate),
                  (codes, from, n, type, saturate))

TN_KERNEL_BODY void tn_storage_encode_integers(uint8_t *__restrict codes,
                                               const float *__restrict from,
                                               int64_t n, tn_dtype dtype) {
  for (int64_t i = 0; i < n; ++i)
    codes[i] = (uint8_t)tn_storage_integer_encode(from[i], dtype);
}
TN_STORAGE_LEVELS(tn_storage_encode_integers,
                  (uint8_t * codes, const float *from, int64_t n,
                   tn_dtype dtype),
                  (codes, from, n, dtype))

/* The codes of n numbers. [any] */
static inline void tn_storage_encode_dense(uint8_t *codes,
                                           const tn_storage_rule *rule,
                                           const float *from, int64_t n,
                                           uint32_t level) {
  if (tn_storage_is_integer(rule->dtype)) {
    TN_STORAGE_AT(tn_storage_encode_integers, level)
    (codes, from, n, rule->dtype);
  } else if (rule->dtype == TN_F8E8M0) {
    for (int64_t i = 0; i < n; ++i)
      codes[i] = (uint8_t)tn_storage_power_encode((double)from[i], rule);
  } else {
    const tn_storage_float f = tn_storage_float_of(rule->dtype);
    TN_STORAGE_AT(tn_storage_encode_floats, level)
    (codes, from, n, &f, rule->saturate);
  }
}

/* The same for doubles; at most TN_KERNEL_STAGE. [any] */
static inline void tn_storage_encode_doubles(uint8_t *codes,
                                             const tn_storage_rule *rule,
                                             const double *from, int64_t n,
                                             uint32_t level) {
  float stage[TN_KERNEL_STAGE];
  if (rule->dtype == TN_F8E8M0) {
    for (int64_t i = 0; i < n; ++i)
      codes[i] = (uint8_t)tn_storage_power_encode(from[i], rule);
    return;
  }
  TN_KERNEL_STEP_AT(f64_to_line, level)(stage, from, n);
  tn_storage_encode_dense(codes, rule, stage, n, level);
}

/* Writes n dense elements of the type to compute in: TN_F32, TN_F64, or TN_I64
 * for i4, u4, i2 and u2, which keep the lowest bits. Bits of the last byte
 * after them become 0. [any] */
TN_KERNEL_ONCE void tn_storage_store_dense(void *to,
                                           const tn_storage_rule *rule,
                                           const void *from,
                                           const tn_kernel_mode *mode,
                                           int64_t n) {
  uint8_t codes[TN_KERNEL_STAGE];
  for (int64_t i = 0; i < n; i += TN_KERNEL_STAGE) {
    const int64_t some = n - i < TN_KERNEL_STAGE ? n - i : TN_KERNEL_STAGE;
    char *end = (char *)to + i / tn_storage_per_byte(rule->dtype);
    if (mode->compute == TN_F32)
      tn_storage_encode_dense(codes, rule, (const float *)from + i, some,
                              mode->level);
    else if (mode->compute == TN_F64)
      tn_storage_encode_doubles(codes, rule, (const double *)from + i, some,
                                mode->level);
    else
      for (int64_t k = 0; k < some; ++k)
        codes[k] = (uint8_t)tn_storage_wrap(((const int64_t *)from)[i + k],
                                            rule->dtype);
    tn_storage_pack(end, rule->dtype, codes, some, mode->level);
  }
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_STORAGE_LOOPS_H_ */
