/* SPDX-License-Identifier: Apache-2.0
 * divide.h: part of math.h: whole quotients and remainders, rounded down or
 * towards zero, and operations on the bits of integers.
 */
#ifndef TENON_KERNEL_MATH_DIVIDE_H_
#define TENON_KERNEL_MATH_DIVIDE_H_

#include "tenon/kernel/math/basic.h"

/* the remainder of floats */
#if defined(__CUDACC__)
#include "tenon/kernel/math/cuda.h"
#else
#include "tenon/kernel/math/erf.h"
#endif

/* -------------------------------------------------------- towards zero */

/* The remainder of a / b with the sign of a; NaN for a divisor of 0. */
TN_MATH_FN float tn_math_trunc_mod_f32(float a, float b) {
  const float rest = tn_math_mod_f32(tn_math_abs_f32(a), tn_math_abs_f32(b));
  return tn_math_select_f32(b == 0, NAN, tn_math_signed_f32(rest, a));
}

TN_MATH_FN double tn_math_trunc_mod_f64(double a, double b) {
  return fmod(a, b);
}

/* 0 for a divisor of 0. */
TN_MATH_FN int32_t tn_math_trunc_mod_i32(int32_t a, int32_t b) {
  const int64_t by = b == 0 ? 1 : b;
  return (int32_t)((int64_t)a % by);
}

TN_MATH_FN int64_t tn_math_trunc_mod_i64(int64_t a, int64_t b) {
  return a % ((b == 0 || b == -1) ? 1 : b);
}

TN_MATH_FN uint64_t tn_math_trunc_mod_u64(uint64_t a, uint64_t b) {
  return tn_math_mod_u64(a, b);
}

/* a / b without its fraction. */
TN_MATH_FN float tn_math_trunc_div_f32(float a, float b) {
  return tn_math_trunc_f32(a / b);
}

TN_MATH_FN double tn_math_trunc_div_f64(double a, double b) {
  return tn_math_trunc_f64(a / b);
}

/* 0 for a divisor of 0; the smallest number divided by -1 is itself. */
TN_MATH_FN int32_t tn_math_trunc_div_i32(int32_t a, int32_t b) {
  const int64_t by = b == 0 ? 1 : b;
  const int64_t quotient = (int64_t)a / by;
  return b == 0 ? 0 : (int32_t)(uint32_t)quotient;
}

TN_MATH_FN int64_t tn_math_trunc_div_i64(int64_t a, int64_t b) {
  const int64_t by = (b == 0 || b == -1) ? 1 : b;
  const int64_t quotient = a / by;
  if (b == -1) return (int64_t)((uint64_t)0 - (uint64_t)a);
  return b == 0 ? 0 : quotient;
}

TN_MATH_FN uint64_t tn_math_trunc_div_u64(uint64_t a, uint64_t b) {
  return tn_math_div_u64(a, b);
}

/* ------------------------------------------------------------------ down */

/* The whole quotient that belongs to the remainder with the sign of b. The
 * division a / b itself may round up to the next whole number. A divisor of 0
 * gives a / b. */
TN_MATH_FN float tn_math_floor_div_f32(float a, float b) {
  const float rest = tn_math_trunc_mod_f32(a, b);
  const float down = (float)((rest != 0) & ((rest < 0) != (b < 0)));
  const float exact = (a - rest) / b - down;
  const float whole = tn_math_floor_f32(exact);
  const float near = whole + (float)(exact - whole > 0.5f);
  const float zero = tn_math_signed_f32(0, a / b);
  const float some = tn_math_select_f32(exact == 0, zero, near);
  return tn_math_select_f32(b == 0, a / b, some);
}

TN_MATH_FN double tn_math_floor_div_f64(double a, double b) {
  const double rest = tn_math_trunc_mod_f64(a, b);
  const double down = (double)((rest != 0) & ((rest < 0) != (b < 0)));
  const double exact = (a - rest) / b - down;
  const double whole = tn_math_floor_f64(exact);
  const double near = whole + (double)(exact - whole > 0.5);
  const double zero = tn_math_signed_f64(0, a / b);
  const double some = tn_math_select_f64(exact == 0, zero, near);
  return tn_math_select_f64(b == 0, a / b, some);
}

TN_MATH_FN int32_t tn_math_floor_div_i32(int32_t a, int32_t b) {
  return tn_math_div_i32(a, b);
}

TN_MATH_FN int64_t tn_math_floor_div_i64(int64_t a, int64_t b) {
  return tn_math_div_i64(a, b);
}

TN_MATH_FN uint64_t tn_math_floor_div_u64(uint64_t a, uint64_t b) {
  return tn_math_div_u64(a, b);
}

/* ------------------------------------------------------------------ bits */

TN_MATH_FN int32_t tn_math_bit_and_i32(int32_t a, int32_t b) {
  return a & b;
}

TN_MATH_FN int64_t tn_math_bit_and_i64(int64_t a, int64_t b) {
  return a & b;
}

TN_MATH_FN uint64_t tn_math_bit_and_u64(uint64_t a, uint64_t b) {
  return a & b;
}

TN_MATH_FN int32_t tn_math_bit_or_i32(int32_t a, int32_t b) {
  return a | b;
}

TN_MATH_FN int64_t tn_math_bit_or_i64(int64_t a, int64_t b) {
  return a | b;
}

TN_MATH_FN uint64_t tn_math_bit_or_u64(uint64_t a, uint64_t b) {
  return a | b;
}

TN_MATH_FN int32_t tn_math_bit_xor_i32(int32_t a, int32_t b) {
  return a ^ b;
}

TN_MATH_FN int64_t tn_math_bit_xor_i64(int64_t a, int64_t b) {
  return a ^ b;
}

TN_MATH_FN uint64_t tn_math_bit_xor_u64(uint64_t a, uint64_t b) {
  return a ^ b;
}

TN_MATH_FN int32_t tn_math_bit_not_i32(int32_t a) {
  return ~a;
}

TN_MATH_FN int64_t tn_math_bit_not_i64(int64_t a) {
  return ~a;
}

TN_MATH_FN uint64_t tn_math_bit_not_u64(uint64_t a) {
  return ~a;
}

/* a * 2^n modulo 2^32 or 2^64. A distance that is negative, or not less than
 * the number of bits, shifts all bits out: it gives 0. */
TN_MATH_FN int32_t tn_math_shift_left_i32(int32_t a, int32_t n) {
  const uint32_t far = (uint32_t)n;
  return (int32_t)(far < 32 ? (uint32_t)a << (far & 31) : 0);
}

TN_MATH_FN int64_t tn_math_shift_left_i64(int64_t a, int64_t n) {
  const uint64_t far = (uint64_t)n;
  return (int64_t)(far < 64 ? (uint64_t)a << (far & 63) : 0);
}

TN_MATH_FN uint64_t tn_math_shift_left_u64(uint64_t a, uint64_t n) {
  return n < 64 ? a << (n & 63) : 0;
}

/* a / 2^n, rounded down. A distance as above gives -1 for negative numbers,
 * otherwise 0. */
TN_MATH_FN int32_t tn_math_shift_right_i32(int32_t a, int32_t n) {
  const uint32_t far = (uint32_t)n;
  return a >> (far < 31 ? far : 31);
}

TN_MATH_FN int64_t tn_math_shift_right_i64(int64_t a, int64_t n) {
  const uint64_t far = (uint64_t)n;
  return a >> (far < 63 ? far : 63);
}

TN_MATH_FN uint64_t tn_math_shift_right_u64(uint64_t a, uint64_t n) {
  return n < 64 ? a >> (n & 63) : 0;
}

#endif /* TENON_KERNEL_MATH_DIVIDE_H_ */
