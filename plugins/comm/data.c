/* SPDX-License-Identifier: Apache-2.0
 * data.c: arithmetic on the elements of several ranks. Integers wrap: they are
 * added and multiplied as unsigned ones. A block of elements stays in the
 * nearest cache while all ranks are combined.
 */
#include "data.h"

#include <string.h>

#include "tenon/kernel/kernel.h"

static void divide_f32(void *wide, int64_t n, int32_t by) {
  float *x = wide;
  for (int64_t i = 0; i < n; ++i) x[i] /= (float)by;
}

static void divide_f64(void *wide, int64_t n, int32_t by) {
  double *x = wide;
  for (int64_t i = 0; i < n; ++i) x[i] /= (double)by;
}

#define READ(x) (x)
#define WRITE(x) (x)

/* ------------------------------------------------------------------ floats */

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
/* NaN if one is NaN. */
#define LARGER(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

#define T float
#define W float
#define NAME(f) f##_f32
#define DIVIDE divide_f32
#include "data_loops.h"
#undef T
#undef W
#undef NAME
#undef DIVIDE

#define T double
#define W double
#define NAME(f) f##_f64
#define DIVIDE divide_f64
#include "data_loops.h"
#undef T
#undef W
#undef NAME
#undef DIVIDE

#undef READ
#undef WRITE
#undef ADD
#undef MULTIPLY
#undef LARGER
#undef SMALLER

/* ------------------------------------------------------------------ halves */

/* Conversions with the instructions of a level, 0 or 1 (AVX2). */
#define HALF(type, level)                                                      \
  static void widen_##type##_##level(void *wide, const void *from,             \
                                     int64_t n) {                              \
    TN_KERNEL_STEP_AT(type##_to_line, level)(wide, from, n);                   \
  }                                                                            \
  static void narrow_##type##_##level(void *to, const void *wide, int64_t n) { \
    TN_KERNEL_STEP_AT(line_to_##type, level)(to, wide, n);                     \
  }                                                                            \
  static void combine_##type##_##level(void *wide, const void *from,           \
                                       int64_t n, comm_op op) {                \
    float stage[COMM_BLOCK];                                                   \
    TN_KERNEL_STEP_AT(type##_to_line, level)(stage, from, n);                  \
    combine_f32(wide, stage, n, op);                                           \
  }                                                                            \
  static const comm_arithmetic arithmetic_##type##_##level = {                 \
      (int32_t)sizeof(float), widen_##type##_##level,                          \
      combine_##type##_##level, divide_f32, narrow_##type##_##level};
HALF(f16, 0)
HALF(f16, 1)
HALF(bf16, 0)
HALF(bf16, 1)
#undef HALF

/* ---------------------------------------------------------------- integers */

#define READ(x) (x)
#define WRITE(x) (x)
#define DIVIDE NULL
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
/* The sum of U wraps at the width of T. */
#define ADD(a, b) ((T)(U)((U)(a) + (U)(b)))
#define MULTIPLY(a, b) ((T)(U)((U)(a) * (U)(b)))

#define T int8_t
#define U uint32_t
#define W T
#define NAME(f) f##_i8
#include "data_loops.h"
#undef T
#undef NAME
#define T uint8_t
#define NAME(f) f##_u8
#include "data_loops.h"
#undef T
#undef NAME
#define T int16_t
#define NAME(f) f##_i16
#include "data_loops.h"
#undef T
#undef NAME
#define T uint16_t
#define NAME(f) f##_u16
#include "data_loops.h"
#undef T
#undef NAME
#define T int32_t
#define NAME(f) f##_i32
#include "data_loops.h"
#undef T
#undef NAME
#define T uint32_t
#define NAME(f) f##_u32
#include "data_loops.h"
#undef T
#undef NAME
#undef U

#define U uint64_t
#define T int64_t
#define NAME(f) f##_i64
#include "data_loops.h"
#undef T
#undef NAME
#define T uint64_t
#define NAME(f) f##_u64
#include "data_loops.h"
#undef T
#undef NAME
#undef U
#undef ADD
#undef MULTIPLY

/* ------------------------------------------------------------------- bools */

#define T uint8_t
#define NAME(f) f##_bool
#define ADD(a, b) ((uint8_t)((a) | (b)))
#define MULTIPLY(a, b) ((uint8_t)((a) & (b)))
#include "data_loops.h"

const comm_arithmetic *comm_arithmetic_of(const tn_frame *call,
                                          tn_dtype dtype) {
  const int fast = tn_kernel_level(call) > 0;
  switch (dtype) {
    case TN_F16:
      return fast ? &arithmetic_f16_1 : &arithmetic_f16_0;
    case TN_BF16:
      return fast ? &arithmetic_bf16_1 : &arithmetic_bf16_0;
    case TN_F32:
      return &arithmetic_f32;
    case TN_F64:
      return &arithmetic_f64;
    case TN_I8:
      return &arithmetic_i8;
    case TN_U8:
      return &arithmetic_u8;
    case TN_I16:
      return &arithmetic_i16;
    case TN_U16:
      return &arithmetic_u16;
    case TN_I32:
      return &arithmetic_i32;
    case TN_U32:
      return &arithmetic_u32;
    case TN_I64:
      return &arithmetic_i64;
    case TN_U64:
      return &arithmetic_u64;
    default:
      return &arithmetic_bool;
  }
}

/* ------------------------------------------------------------ combinations */

static void combine_block(const comm_combination *c, int64_t at, int64_t n) {
  const comm_arithmetic *a = c->arithmetic;
  double wide[COMM_BLOCK];
  a->widen(wide, c->in[0] + at * c->bytes, n);
  for (int32_t r = 1; r < c->n_in; ++r)
    a->combine(wide, c->in[r] + at * c->bytes, n, c->op);
  if (c->op == COMM_MEAN && a->divide) a->divide(wide, n, c->n_in);
  for (int32_t r = 0; r < c->n_out; ++r)
    if (c->out[r]) a->narrow(c->out[r] + at * c->bytes, wide, n);
}

void comm_combine(const comm_combination *c, int64_t begin, int64_t end) {
  for (int64_t at = begin; at < end; at += COMM_BLOCK)
    combine_block(c, at, end - at < COMM_BLOCK ? end - at : COMM_BLOCK);
}

void comm_divide(const tn_frame *call, tn_dtype dtype, void *data, int64_t n,
                 int32_t by) {
  const comm_arithmetic *a = comm_arithmetic_of(call, dtype);
  const int64_t bytes = tn_dtype_bytes(dtype);
  double wide[COMM_BLOCK];
  for (int64_t at = 0; at < n; at += COMM_BLOCK) {
    const int64_t some = n - at < COMM_BLOCK ? n - at : COMM_BLOCK;
    char *block = (char *)data + at * bytes;
    a->widen(wide, block, some);
    a->divide(wide, some, by);
    a->narrow(block, wide, some);
  }
}
