/* SPDX-License-Identifier: Apache-2.0
 * tile.h: squares of a matrix, transposed in registers. A row is one vector;
 * interleaving the first half of the rows with the second moves one bit of the
 * column's number into the row's, so after as many rounds as a number has bits
 * rows are columns. Each loop here is compiled at three levels of instructions.
 */
#ifndef TENSOR_TILE_H_
#define TENSOR_TILE_H_

#include "tenon/kernel.h"

/* n rows of `to` become n columns of `from`: n_rows * n_columns elements, those
 * of a row of `to` side by side and those of a column of `from` too. Strides
 * are between rows, in elements. */
typedef struct tensor_turn {
  char *to;
  const char *from;
  int64_t to_stride;
  int64_t from_stride;
  int64_t n_rows;    /* of `to` */
  int64_t n_columns; /* of `to` */
} tensor_turn;

typedef void tensor_turn_fn(const tensor_turn *turn);

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TENSOR_HAS_SHUFFLE 1
#endif
#endif

#define TENSOR_LOW_2 0, 2
#define TENSOR_HIGH_2 1, 3
#define TENSOR_LOW_4 0, 4, 1, 5
#define TENSOR_HIGH_4 2, 6, 3, 7
#define TENSOR_LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define TENSOR_HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define TENSOR_LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define TENSOR_HIGH_16 \
  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

/* A square of `wide` rows, all of whose vectors are in registers at once. */
#ifdef TENSOR_HAS_SHUFFLE
#define TENSOR_SQUARE(name, type, wide)                                        \
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
                                              TENSOR_LOW_##wide);              \
        next[2 * i + 1] = __builtin_shufflevector(row[i], row[i + (wide) / 2], \
                                                  TENSOR_HIGH_##wide);         \
      }                                                                        \
      for (int i = 0; i < (wide); ++i) row[i] = next[i];                       \
    }                                                                          \
    for (int i = 0; i < (wide); ++i) *(vector *)(to + i * to_stride) = row[i]; \
  }
#else
#define TENSOR_SQUARE(name, type, wide)                                   \
  TN_KERNEL_BODY void name(type *to, int64_t to_stride, const type *from, \
                           int64_t from_stride) {                         \
    for (int i = 0; i < (wide); ++i)                                      \
      for (int j = 0; j < (wide); ++j)                                    \
        to[i * to_stride + j] = from[j * from_stride + i];                \
  }
#endif

/* A part of any size: whole squares, and what is left at its two ends. */
#define TENSOR_TURN(name, type, wide, level)                          \
  TENSOR_SQUARE(name##_square, type, wide)                            \
  static level void name(const tensor_turn *t) {                      \
    type *to = (type *)(void *)t->to;                                 \
    const type *from = (const type *)(const void *)t->from;           \
    const int64_t rows = t->n_rows / (wide) * (wide);                 \
    const int64_t columns = t->n_columns / (wide) * (wide);           \
    for (int64_t j = 0; j < columns; j += (wide))                     \
      for (int64_t i = 0; i < rows; i += (wide))                      \
        name##_square(to + i * t->to_stride + j, t->to_stride,        \
                      from + j * t->from_stride + i, t->from_stride); \
    for (int64_t i = 0; i < t->n_rows; ++i)                           \
      for (int64_t j = i < rows ? columns : 0; j < t->n_columns; ++j) \
        to[i * t->to_stride + j] = from[j * t->from_stride + i];      \
  }

#if defined(__GNUC__) && defined(__x86_64__)
#define TENSOR_TURNS(name, type, base, avx2, avx512)               \
  TENSOR_TURN(name##_base, type, base, )                           \
  TENSOR_TURN(name##_avx2, type, avx2, TN_KERNEL_AVX2)             \
  TENSOR_TURN(name##_avx512, type, avx512, TN_KERNEL_AVX512)       \
  static tensor_turn_fn *const name[] = {name##_base, name##_avx2, \
                                         name##_avx512};
#else
#define TENSOR_TURNS(name, type, base, avx2, avx512) \
  TENSOR_TURN(name##_base, type, base, )             \
  static tensor_turn_fn *const name[] = {name##_base, name##_base, name##_base};
#endif

TENSOR_TURNS(tensor_turn_8, uint8_t, 16, 16, 16)
TENSOR_TURNS(tensor_turn_16, uint16_t, 8, 16, 16)
TENSOR_TURNS(tensor_turn_32, uint32_t, 4, 8, 16)
TENSOR_TURNS(tensor_turn_64, uint64_t, 2, 4, 8)

/* The loop for elements of 1, 2, 4 or 8 bytes at a level. [any] */
static inline tensor_turn_fn *tensor_turn_of(int64_t bytes, uint32_t level) {
  return (bytes == 1   ? tensor_turn_8
          : bytes == 2 ? tensor_turn_16
          : bytes == 4 ? tensor_turn_32
                       : tensor_turn_64)[level];
}

#endif /* TENSOR_TILE_H_ */
