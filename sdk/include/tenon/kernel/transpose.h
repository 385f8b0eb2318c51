/* SPDX-License-Identifier: Apache-2.0
 * transpose.h: transposes parts of a matrix in registers.
 *
 *   const tn_transpose part = {to,          from, to_stride,
 *                              from_stride, rows, columns};
 *   tn_transpose_of(sizeof(float), tn_kernel_level(call))(&part);
 *
 * Header only; unused functions are not in the object. gcc and clang, C11 or
 * C++17; not for CUDA.
 *
 * A row of a square is one vector; interleaving the first half of the rows with
 * the second moves one bit of the column's number into the row's, so the rows
 * become columns after as many rounds as a row number has bits. Each loop here
 * is compiled at three levels of instructions.
 */
#ifndef TENON_KERNEL_TRANSPOSE_H_
#define TENON_KERNEL_TRANSPOSE_H_

#include "tenon/kernel/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rows of `to` become the columns of `from`: n_rows * n_columns elements,
 * contiguous in a row of `to` and in a row of `from`. Strides are between rows,
 * in elements. */
typedef struct tn_transpose {
  char *to;
  const char *from;
  int64_t to_stride;
  int64_t from_stride;
  int64_t n_rows;    /* of `to` */
  int64_t n_columns; /* of `to` */
} tn_transpose;

typedef void tn_transpose_fn(const tn_transpose *turn);

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TN_TRANSPOSE_SHUFFLES 1
#endif
#endif

#define TN_TRANSPOSE_LOW_2 0, 2
#define TN_TRANSPOSE_HIGH_2 1, 3
#define TN_TRANSPOSE_LOW_4 0, 4, 1, 5
#define TN_TRANSPOSE_HIGH_4 2, 6, 3, 7
#define TN_TRANSPOSE_LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define TN_TRANSPOSE_HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define TN_TRANSPOSE_LOW_16 \
  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define TN_TRANSPOSE_HIGH_16 \
  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

/* A square of `wide` rows, with all vectors in registers at once. */
#ifdef TN_TRANSPOSE_SHUFFLES
#define TN_TRANSPOSE_SQUARE(name, type, wide)                                  \
  TN_KERNEL_BODY void name(type *to, int64_t to_stride, const type *from,      \
                           int64_t from_stride) {                              \
    typedef type vector __attribute__((vector_size((wide) * sizeof(type)),     \
                                       aligned(sizeof(type)), may_alias));     \
    vector row[wide], next[wide];                                              \
    for (int i = 0; i < (wide); ++i)                                           \
      row[i] = *(const vector *)(from + i * from_stride);                      \
    for (int bit = 1; bit < (wide); bit *= 2) {                                \
      for (int i = 0; i < (wide) / 2; ++i) {                                   \
        next[2 * i] = __builtin_shufflevector(row[i], row[i + (wide) / 2],     \
                                              TN_TRANSPOSE_LOW_##wide);        \
        next[2 * i + 1] = __builtin_shufflevector(row[i], row[i + (wide) / 2], \
                                                  TN_TRANSPOSE_HIGH_##wide);   \
      }                                                                        \
      for (int i = 0; i < (wide); ++i) row[i] = next[i];                       \
    }                                                                          \
    for (int i = 0; i < (wide); ++i) *(vector *)(to + i * to_stride) = row[i]; \
  }
#else
#define TN_TRANSPOSE_SQUARE(name, type, wide)                             \
  TN_KERNEL_BODY void name(type *to, int64_t to_stride, const type *from, \
                           int64_t from_stride) {                         \
    for (int i = 0; i < (wide); ++i)                                      \
      for (int j = 0; j < (wide); ++j)                                    \
        to[i * to_stride + j] = from[j * from_stride + i];                \
  }
#endif

/* The squares of `to` with row < bottom and column < right, both multiples of
 * `wide`, but not those with row < top and column < left. */
#define TN_TRANSPOSE_SQUARES(name, type, wide)                               \
  TN_TRANSPOSE_SQUARE(name##_square, type, wide)                             \
  TN_KERNEL_BODY void name(const tn_transpose *t, int64_t top, int64_t left, \
                           int64_t bottom, int64_t right) {                  \
    type *to = (type *)(void *)t->to;                                        \
    const type *from = (const type *)(const void *)t->from;                  \
    for (int64_t j = 0; j < right; j += (wide))                              \
      for (int64_t i = j < left ? top : 0; i < bottom; i += (wide))          \
        name##_square(to + i * t->to_stride + j, t->to_stride,               \
                      from + j * t->from_stride + i, t->from_stride);        \
  }

/* A part of any size: whole squares, which name##_wide turns, narrower ones,
 * and the rest at its two ends. */
#define TN_TRANSPOSE_WHOLE(name, type, wide, narrow, level)           \
  TN_TRANSPOSE_SQUARES(name##_narrow, type, narrow)                   \
  static inline level void name(const tn_transpose *t) {              \
    type *to = (type *)(void *)t->to;                                 \
    const type *from = (const type *)(const void *)t->from;           \
    const int64_t rows = t->n_rows / (narrow) * (narrow);             \
    const int64_t columns = t->n_columns / (narrow) * (narrow);       \
    const int64_t wide_rows = t->n_rows / (wide) * (wide);            \
    const int64_t wide_columns = t->n_columns / (wide) * (wide);      \
    name##_wide(t, 0, 0, wide_rows, wide_columns);                    \
    if (wide_rows < rows || wide_columns < columns)                   \
      name##_narrow(t, wide_rows, wide_columns, rows, columns);       \
    for (int64_t i = 0; i < t->n_rows; ++i)                           \
      for (int64_t j = i < rows ? columns : 0; j < t->n_columns; ++j) \
        to[i * t->to_stride + j] = from[j * t->from_stride + i];      \
  }

#define TN_TRANSPOSE_PART(name, type, wide, narrow, level) \
  TN_TRANSPOSE_SQUARES(name##_wide, type, wide)            \
  TN_TRANSPOSE_WHOLE(name, type, wide, narrow, level)

#if defined(TN_KERNEL_AVX2)
#define TN_TRANSPOSE_LEVELS(name, type, base, avx2, avx512)              \
  TN_TRANSPOSE_PART(name##_base, type, base, base, )                     \
  TN_TRANSPOSE_PART(name##_avx2, type, avx2, base, TN_KERNEL_AVX2)       \
  TN_TRANSPOSE_PART(name##_avx512, type, avx512, base, TN_KERNEL_AVX512) \
  static tn_transpose_fn *const name[] = {name##_base, name##_avx2,      \
                                          name##_avx512};
#else
#define TN_TRANSPOSE_LEVELS(name, type, base, avx2, avx512)         \
  TN_TRANSPOSE_PART(name##_base, type, base, base, )                \
  static tn_transpose_fn *const name[] = {name##_base, name##_base, \
                                          name##_base};
#endif

/* Elements of any type with so many bits. */
typedef uint8_t tn_transpose_bits_8 __attribute__((may_alias));
typedef uint16_t tn_transpose_bits_16 __attribute__((may_alias));
typedef uint32_t tn_transpose_bits_32 __attribute__((may_alias));
typedef uint64_t tn_transpose_bits_64 __attribute__((may_alias));

TN_TRANSPOSE_LEVELS(tn_transpose_8, tn_transpose_bits_8, 16, 16, 16)
TN_TRANSPOSE_LEVELS(tn_transpose_16, tn_transpose_bits_16, 8, 16, 16)
#if defined(TN_KERNEL_AVX2)
/* Half of a square, four rows of `to`. A vector has four elements of each of
 * two columns, combined by the loads, so interleaving stays within its half.
 * Across halves, as compilers do it, it needs more than twice as many
 * instructions. */
TN_KERNEL_BODY TN_KERNEL_AVX2 void tn_transpose_32_half(
    tn_transpose_bits_32 *to, int64_t to_stride,
    const tn_transpose_bits_32 *from, int64_t from_stride) {
  __m256i row[4];
  for (int k = 0; k < 4; ++k) {
    const void *first = from + k * from_stride;
    const void *second = from + (k + 4) * from_stride;
    row[k] = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)first)),
        _mm_loadu_si128((const __m128i *)second), 1);
  }
  const __m256i a = _mm256_unpacklo_epi32(row[0], row[1]);
  const __m256i b = _mm256_unpackhi_epi32(row[0], row[1]);
  const __m256i c = _mm256_unpacklo_epi32(row[2], row[3]);
  const __m256i d = _mm256_unpackhi_epi32(row[2], row[3]);
  row[0] = _mm256_unpacklo_epi64(a, c);
  row[1] = _mm256_unpackhi_epi64(a, c);
  row[2] = _mm256_unpacklo_epi64(b, d);
  row[3] = _mm256_unpackhi_epi64(b, d);
  for (int k = 0; k < 4; ++k)
    _mm256_storeu_si256((__m256i *)(void *)(to + k * to_stride), row[k]);
}

/* Row by row of squares: sequential writes help more than sequential reads. */
TN_KERNEL_BODY TN_KERNEL_AVX2 void tn_transpose_32_avx2_wide(
    const tn_transpose *t, int64_t row, int64_t column, int64_t n_rows,
    int64_t n_columns) {
  for (int64_t i = 0; i < n_rows; i += 8)
    for (int64_t j = i < row ? column : 0; j < n_columns; j += 8) {
      tn_transpose_bits_32 *to =
          (tn_transpose_bits_32 *)(void *)t->to + i * t->to_stride + j;
      const tn_transpose_bits_32 *from =
          (const tn_transpose_bits_32 *)(const void *)t->from +
          j * t->from_stride + i;
      tn_transpose_32_half(to, t->to_stride, from, t->from_stride);
      tn_transpose_32_half(to + 4 * t->to_stride, t->to_stride, from + 4,
                           t->from_stride);
    }
}
TN_TRANSPOSE_PART(tn_transpose_32_base, tn_transpose_bits_32, 4, 4, )
TN_TRANSPOSE_WHOLE(tn_transpose_32_avx2, tn_transpose_bits_32, 8, 4,
                   TN_KERNEL_AVX2)
TN_TRANSPOSE_PART(tn_transpose_32_avx512, tn_transpose_bits_32, 16, 4,
                  TN_KERNEL_AVX512)
static tn_transpose_fn *const tn_transpose_32[] = {
    tn_transpose_32_base, tn_transpose_32_avx2, tn_transpose_32_avx512};
#else
TN_TRANSPOSE_LEVELS(tn_transpose_32, tn_transpose_bits_32, 4, 8, 16)
#endif
TN_TRANSPOSE_LEVELS(tn_transpose_64, tn_transpose_bits_64, 2, 4, 8)

/* The loop for elements of 1, 2, 4 or 8 bytes at a level. [any] */
static inline tn_transpose_fn *tn_transpose_of(int64_t bytes, uint32_t level) {
  return (bytes == 1   ? tn_transpose_8
          : bytes == 2 ? tn_transpose_16
          : bytes == 4 ? tn_transpose_32
                       : tn_transpose_64)[level];
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_TRANSPOSE_H_ */
