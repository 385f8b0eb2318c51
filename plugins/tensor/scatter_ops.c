/* SPDX-License-Identifier: Apache-2.0
 * scatter_ops.c: scatter_ops.h. A loop goes element by element, because places
 * may repeat.
 */
#include "scatter_ops.h"

#define CHANGE(name, type, value)                                       \
  static void name(void *to, const void *from, const tensor_group *g) { \
    for (int64_t k = 0; g->width == 1 && k < g->n; ++k) {               \
      type *x = (type *)to + g->at[k];                                  \
      const type a = *x, b = ((const type *)from)[k * g->step];         \
      (void)a;                                                          \
      *x = (type)(value);                                               \
    }                                                                   \
    for (int64_t k = 0; g->width > 1 && k < g->n; ++k) {                \
      type *x = (type *)to + g->at[k];                                  \
      const type *y = (const type *)from + k * g->step;                 \
      for (int64_t j = 0; j < g->width; ++j) {                          \
        const type a = x[j], b = y[j];                                  \
        (void)a;                                                        \
        x[j] = (type)(value);                                           \
      }                                                                 \
    }                                                                   \
  }

/* Sums and products of integers wrap; unsigned ones have the same bits. */
CHANGE(set_8, uint8_t, b)
CHANGE(set_16, uint16_t, b)
CHANGE(set_32, uint32_t, b)
CHANGE(set_64, uint64_t, b)
CHANGE(add_8, uint8_t, a + b)
CHANGE(add_16, uint16_t, a + b)
CHANGE(add_32, uint32_t, a + b)
CHANGE(add_64, uint64_t, a + b)
CHANGE(add_f32, float, a + b)
CHANGE(add_f64, double, a + b)
CHANGE(add_bool, uint8_t, a | b)
CHANGE(mul_8, uint8_t, 1u * a * b)
CHANGE(mul_16, uint16_t, 1u * a * b)
CHANGE(mul_32, uint32_t, a *b)
CHANGE(mul_64, uint64_t, a *b)
CHANGE(mul_f32, float, a *b)
CHANGE(mul_f64, double, a *b)

/* NaN is above and below all numbers. */
#define EXTREMES(suffix, type)                        \
  CHANGE(max_##suffix, type, b > a || b != b ? b : a) \
  CHANGE(min_##suffix, type, b < a || b != b ? b : a)
#define WHOLE_EXTREMES(suffix, type)        \
  CHANGE(max_##suffix, type, b > a ? b : a) \
  CHANGE(min_##suffix, type, b < a ? b : a)
EXTREMES(f32, float)
EXTREMES(f64, double)
WHOLE_EXTREMES(i8, int8_t)
WHOLE_EXTREMES(u8, uint8_t)
WHOLE_EXTREMES(i16, int16_t)
WHOLE_EXTREMES(u16, uint16_t)
WHOLE_EXTREMES(i32, int32_t)
WHOLE_EXTREMES(u32, uint32_t)
WHOLE_EXTREMES(i64, int64_t)

static tensor_change_fn *by_width(tn_dtype dtype, tensor_change_fn *const *fn) {
  switch (tn_dtype_bytes(dtype)) {
    case 1:
      return fn[0];
    case 2:
      return fn[1];
    case 4:
      return fn[2];
    default:
      return fn[3];
  }
}

static tensor_change_fn *find_sum(tn_dtype dtype) {
  static tensor_change_fn *const whole[] = {add_8, add_16, add_32, add_64};
  if (dtype == TN_F32) return add_f32;
  if (dtype == TN_F64) return add_f64;
  return dtype == TN_BOOL ? add_bool : by_width(dtype, whole);
}

static tensor_change_fn *find_product(tn_dtype dtype) {
  static tensor_change_fn *const whole[] = {mul_8, mul_16, mul_32, mul_64};
  if (dtype == TN_F32) return mul_f32;
  return dtype == TN_F64 ? mul_f64 : by_width(dtype, whole);
}

#define EITHER(suffix) (op == TENSOR_SCATTER_MAX ? max_##suffix : min_##suffix)

static tensor_change_fn *find_extreme(tensor_scatter_op op, tn_dtype dtype) {
  switch (dtype) {
    case TN_F32:
      return EITHER(f32);
    case TN_F64:
      return EITHER(f64);
    case TN_I8:
      return EITHER(i8);
    case TN_U8:
      return EITHER(u8);
    case TN_I16:
      return EITHER(i16);
    case TN_U16:
      return EITHER(u16);
    case TN_I32:
      return EITHER(i32);
    case TN_U32:
      return EITHER(u32);
    default:
      return EITHER(i64);
  }
}

tensor_change_fn *tensor_find_change(tensor_scatter_op op, tn_dtype dtype) {
  static tensor_change_fn *const set[] = {set_8, set_16, set_32, set_64};
  if (op == TENSOR_SCATTER_SET) return by_width(dtype, set);
  if (op == TENSOR_SCATTER_ADD) return find_sum(dtype);
  if (op == TENSOR_SCATTER_MUL) return find_product(dtype);
  return find_extreme(op, dtype);
}
