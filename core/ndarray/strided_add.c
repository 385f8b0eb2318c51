/* SPDX-License-Identifier: Apache-2.0
 * strided_add.c: accumulation, to += from, for every element type and any
 * strides. Integers wrap and bools saturate; f16 and bf16 are added in f32 and
 * rounded once.
 */
#include "strided_walk.h"

/* The loop is written twice so that the compiler vectorises the dense one. */
#define ADD_ROW(name, type, sum)                                           \
  static void add_##name(char *to, const char *from, const tn__row *row) { \
    const int64_t size = (int64_t)sizeof(type);                            \
    if (row->to == size && row->from == size) {                            \
      type *y = (type *)(void *)to;                                        \
      const type *x = (const type *)(const void *)from;                    \
      for (int64_t i = 0; i < row->n; ++i) y[i] = sum(y[i], x[i]);         \
      return;                                                              \
    }                                                                      \
    for (int64_t i = 0; i < row->n; ++i) {                                 \
      type *y = (type *)(void *)(to + i * row->to);                        \
      *y = sum(*y, *(const type *)(const void *)(from + i * row->from));   \
    }                                                                      \
  }

/* Unsigned sums wrap. Their bits are those of signed sums, so they serve signed
 * types too. */
#define SUM_U8(a, b) ((uint8_t)((a) + (b)))
#define SUM_U16(a, b) ((uint16_t)((a) + (b)))
#define SUM(a, b) ((a) + (b))
#define SUM_BOOL(a, b) ((uint8_t)(((a) | (b)) != 0))
#define SUM_F16(a, b) tn__f32_to_f16(tn__f16_to_f32(a) + tn__f16_to_f32(b))
#define SUM_BF16(a, b) tn__f32_to_bf16(tn__bf16_to_f32(a) + tn__bf16_to_f32(b))

ADD_ROW(int8, uint8_t, SUM_U8)
ADD_ROW(int16, uint16_t, SUM_U16)
ADD_ROW(int32, uint32_t, SUM)
ADD_ROW(int64, uint64_t, SUM)
ADD_ROW(f16, uint16_t, SUM_F16)
ADD_ROW(bf16, uint16_t, SUM_BF16)
ADD_ROW(f32, float, SUM)
ADD_ROW(f64, double, SUM)
ADD_ROW(bool, uint8_t, SUM_BOOL)

static tn__row_fn *integer_row(tn_dtype dtype) {
  switch (tn_dtype_bytes(dtype)) {
    case 1:
      return add_int8;
    case 2:
      return add_int16;
    case 4:
      return add_int32;
    default:
      return add_int64;
  }
}

static tn__row_fn *add_row(tn_dtype dtype) {
  switch (dtype) {
    case TN_F16:
      return add_f16;
    case TN_BF16:
      return add_bf16;
    case TN_F32:
      return add_f32;
    case TN_F64:
      return add_f64;
    case TN_BOOL:
      return add_bool;
    default:
      return integer_row(dtype);
  }
}

void tn__tensor_add(const tn_tensor *to, const tn_tensor *from) {
  tn__walk_rows(to, from, add_row(to->dtype), NULL);
}
