/* SPDX-License-Identifier: Apache-2.0
 * formula_loops.c: the loops of all instructions, for every class. Each is one
 * call of tenon/kernel/math.h, or one operator of C.
 */
#include "formula.h"
#include "tenon/kernel/kernel.h"

/* A loop with the result `value` of x, y and z. */
#define LOOP(name, type, value)                                    \
  static void name(void *to, const void *const *from, int64_t n) { \
    type *out = to;                                                \
    const type *a = from[0], *b = from[1], *c = from[2];           \
    (void)b, (void)c;                                              \
    TN_KERNEL_INDEPENDENT                                          \
    for (int64_t i = 0; i < n; ++i) out[i] = (type)(value);        \
  }

/* ------------------------------------------------------------------ floats */

#define FLOATS_OF_ONE(X)    \
  X(EXP, exp)               \
  X(EXPM1, expm1)           \
  X(LOG, log)               \
  X(LOG1P, log1p)           \
  X(LOG2, log2)             \
  X(LOG10, log10)           \
  X(SQRT, sqrt)             \
  X(RSQRT, rsqrt)           \
  X(CBRT, cbrt)             \
  X(SIN, sin)               \
  X(COS, cos)               \
  X(TAN, tan)               \
  X(ASIN, asin)             \
  X(ACOS, acos)             \
  X(ATAN, atan)             \
  X(SINH, sinh)             \
  X(COSH, cosh)             \
  X(TANH, tanh)             \
  X(ASINH, asinh)           \
  X(ACOSH, acosh)           \
  X(ATANH, atanh)           \
  X(ERF, erf)               \
  X(ERFC, erfc)             \
  X(GAMMA, gamma)           \
  X(LGAMMA, lgamma)         \
  X(DIGAMMA, digamma)       \
  X(TRIGAMMA, trigamma)     \
  X(ABS, abs)               \
  X(SIGN, sign)             \
  X(FLOOR, floor)           \
  X(CEIL, ceil)             \
  X(ROUND, round)           \
  X(RINT, rint)             \
  X(ROUND_EVEN, round_even) \
  X(TRUNC, trunc)           \
  X(SIGMOID, sigmoid)       \
  X(SOFTPLUS, softplus)     \
  X(GELU, gelu)

#define FLOATS_OF_TWO(X)  \
  X(MIN, min)             \
  X(MAX, max)             \
  X(POW, pow)             \
  X(MOD, mod)             \
  X(FLOOR_DIV, floor_div) \
  X(TRUNC_DIV, trunc_div) \
  X(TRUNC_MOD, trunc_mod) \
  X(HYPOT, hypot)

#define F32_OF_ONE(id, name) LOOP(name##_f32, float, tn_math_##name##_f32(a[i]))
#define F64_OF_ONE(id, name) \
  LOOP(name##_f64, double, tn_math_##name##_f64(a[i]))
#define F32_OF_TWO(id, name) \
  LOOP(name##_f32, float, tn_math_##name##_f32(a[i], b[i]))
#define F64_OF_TWO(id, name) \
  LOOP(name##_f64, double, tn_math_##name##_f64(a[i], b[i]))

FLOATS_OF_ONE(F32_OF_ONE)
FLOATS_OF_ONE(F64_OF_ONE)
FLOATS_OF_TWO(F32_OF_TWO)
FLOATS_OF_TWO(F64_OF_TWO)

/* Operators that C has for a class. */
#define COMPARISONS(X)       \
  X(LESS, less, <)           \
  X(GREATER, greater, >)     \
  X(LESS_EQUAL, least, <=)   \
  X(GREATER_EQUAL, most, >=) \
  X(EQUAL, equal, ==)        \
  X(NOT_EQUAL, other, !=)

#define F32_COMPARE(id, name, op) LOOP(name##_f32, float, a[i] op b[i])
#define F64_COMPARE(id, name, op) LOOP(name##_f64, double, a[i] op b[i])
#define I32_COMPARE(id, name, op) LOOP(name##_i32, int32_t, a[i] op b[i])
#define I64_COMPARE(id, name, op) LOOP(name##_i64, int64_t, a[i] op b[i])
#define U64_COMPARE(id, name, op) LOOP(name##_u64, uint64_t, a[i] op b[i])

COMPARISONS(F32_COMPARE)
COMPARISONS(F64_COMPARE)
COMPARISONS(I32_COMPARE)
COMPARISONS(I64_COMPARE)
COMPARISONS(U64_COMPARE)

#define FLOAT_LOOPS(end, type)                                 \
  LOOP(add_##end, type, a[i] + b[i])                           \
  LOOP(subtract_##end, type, a[i] - b[i])                      \
  LOOP(multiply_##end, type, a[i] * b[i])                      \
  LOOP(divide_##end, type, a[i] / b[i])                        \
  LOOP(negate_##end, type, -a[i])                              \
  LOOP(clip_##end, type, tn_math_clip_##end(a[i], b[i], c[i])) \
  LOOP(select_##end, type, tn_math_select_##end(a[i] != 0, b[i], c[i]))

FLOAT_LOOPS(f32, float)
FLOAT_LOOPS(f64, double)

/* ---------------------------------------------------------------- integers */

#define INTEGERS_OF_ONE(X) \
  X(ABS, abs)              \
  X(SIGN, sign)            \
  X(BIT_NOT, bit_not)

#define INTEGERS_OF_TWO(X)  \
  X(MIN, min)               \
  X(MAX, max)               \
  X(POW, pow)               \
  X(MOD, mod)               \
  X(FLOOR_DIV, floor_div)   \
  X(TRUNC_DIV, trunc_div)   \
  X(TRUNC_MOD, trunc_mod)   \
  X(BIT_AND, bit_and)       \
  X(BIT_OR, bit_or)         \
  X(BIT_XOR, bit_xor)       \
  X(SHIFT_LEFT, shift_left) \
  X(SHIFT_RIGHT, shift_right)

#define I32_OF_ONE(id, name) \
  LOOP(name##_i32, int32_t, tn_math_##name##_i32(a[i]))
#define I64_OF_ONE(id, name) \
  LOOP(name##_i64, int64_t, tn_math_##name##_i64(a[i]))
#define U64_OF_ONE(id, name) \
  LOOP(name##_u64, uint64_t, tn_math_##name##_u64(a[i]))
#define I32_OF_TWO(id, name) \
  LOOP(name##_i32, int32_t, tn_math_##name##_i32(a[i], b[i]))
#define I64_OF_TWO(id, name) \
  LOOP(name##_i64, int64_t, tn_math_##name##_i64(a[i], b[i]))
#define U64_OF_TWO(id, name) \
  LOOP(name##_u64, uint64_t, tn_math_##name##_u64(a[i], b[i]))

INTEGERS_OF_ONE(I32_OF_ONE)
INTEGERS_OF_ONE(I64_OF_ONE)
INTEGERS_OF_ONE(U64_OF_ONE)
INTEGERS_OF_TWO(I32_OF_TWO)
INTEGERS_OF_TWO(I64_OF_TWO)
INTEGERS_OF_TWO(U64_OF_TWO)

/* Arithmetic wraps, so it is that of the unsigned type. */
#define INTEGER_LOOPS(end, type, wrap)                         \
  LOOP(add_##end, type, (wrap)a[i] + (wrap)b[i])               \
  LOOP(subtract_##end, type, (wrap)a[i] - (wrap)b[i])          \
  LOOP(multiply_##end, type, (wrap)a[i] * (wrap)b[i])          \
  LOOP(divide_##end, type, tn_math_div_##end(a[i], b[i]))      \
  LOOP(negate_##end, type, (wrap)0 - (wrap)a[i])               \
  LOOP(clip_##end, type, tn_math_clip_##end(a[i], b[i], c[i])) \
  LOOP(select_##end, type, a[i] != 0 ? b[i] : c[i])

INTEGER_LOOPS(i32, int32_t, uint32_t)
INTEGER_LOOPS(i64, int64_t, uint64_t)
INTEGER_LOOPS(u64, uint64_t, uint64_t)

static void copy_4(void *to, const void *const *from, int64_t n) {
  memmove(to, from[0], (size_t)n * 4);
}

static void copy_8(void *to, const void *const *from, int64_t n) {
  memmove(to, from[0], (size_t)n * 8);
}

/* ------------------------------------------------------------------ tables */

#define IN_F32(id, name) [TNM_F_##id] = name##_f32,
#define IN_F64(id, name) [TNM_F_##id] = name##_f64,
#define IN_I32(id, name) [TNM_F_##id] = name##_i32,
#define IN_I64(id, name) [TNM_F_##id] = name##_i64,
#define IN_U64(id, name) [TNM_F_##id] = name##_u64,
#define OP_F32(id, name, op) [TN__##id] = name##_f32,
#define OP_F64(id, name, op) [TN__##id] = name##_f64,
#define OP_I32(id, name, op) [TN__##id] = name##_i32,
#define OP_I64(id, name, op) [TN__##id] = name##_i64,
#define OP_U64(id, name, op) [TN__##id] = name##_u64,

#define COMMON_OF(end, copy)                                                 \
  [TN__ADD] = add_##end, [TN__SUBTRACT] = subtract_##end,                    \
  [TN__MULTIPLY] = multiply_##end, [TN__DIVIDE] = divide_##end,              \
  [TN__NEGATE] = negate_##end, [TN__COPY] = copy, [TNM_F_CLIP] = clip_##end, \
  [TNM_F_SELECT] = select_##end

static tn__formula_loop *const loops[TN__N_CLASSES][TN__N_INSTRUCTIONS] = {
    {FLOATS_OF_ONE(IN_F32) FLOATS_OF_TWO(IN_F32) COMPARISONS(OP_F32)
         COMMON_OF(f32, copy_4)},
    {FLOATS_OF_ONE(IN_F64) FLOATS_OF_TWO(IN_F64) COMPARISONS(OP_F64)
         COMMON_OF(f64, copy_8)},
    {INTEGERS_OF_ONE(IN_I32) INTEGERS_OF_TWO(IN_I32) COMPARISONS(OP_I32)
         COMMON_OF(i32, copy_4)},
    {INTEGERS_OF_ONE(IN_I64) INTEGERS_OF_TWO(IN_I64) COMPARISONS(OP_I64)
         COMMON_OF(i64, copy_8)},
    {INTEGERS_OF_ONE(IN_U64) INTEGERS_OF_TWO(IN_U64) COMPARISONS(OP_U64)
         COMMON_OF(u64, copy_8)}};

tn__formula_loop *tn__formula_find_loop(int class_bit, uint32_t instruction) {
  size_t k = 0;
  while (tn__class_at(k) != class_bit) ++k;
  return loops[k][instruction];
}
