/* SPDX-License-Identifier: Apache-2.0
 * storage.h: elements of the storage types (plugin/tensor.h) as numbers, and
 * numbers as elements: for kernels on the CPU and on CUDA devices, and for
 * hosts. storage_loops.h has loops over dense elements. Does not need kernel.h;
 * nothing here is part of the ABI.
 *
 *   tn_storage_rule rule = {TN_F8E4M3FN, 1, TN_STORAGE_UP};
 *   tn_storage_write(data, &rule, i, 3.14);
 *   const float nearest = tn_storage_read(data, TN_F8E4M3FN, i);  // 3.25
 *
 * An element is its *code*: its bits as an unsigned number. Every code is a
 * number that f32 has. A number becomes an element as ONNX's Cast does it:
 *
 *   f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz
 *       Rounded once, to nearest, ties to even. A number beyond the range after
 *       that becomes the largest one of its sign if the rule saturates.
 *       Otherwise it becomes infinite in f8e5m2, and NaN in the other three.
 *       NaN and -0 stay if the type has them; without -0 it is 0.
 *   f4e2m1
 *       The same, but it always saturates, and NaN is 6.
 *   f8e8m0
 *       Rounded to a power of two as the rule says. A number beyond the range
 *       becomes the nearest power of the type if the rule saturates, otherwise
 *       NaN; 0 is below the range. Negative numbers are NaN.
 *   i4, u4, i2, u2
 *       Without its fraction, the nearest number of the type if it is too
 *       large, 0 for NaN. tn_storage_wrap() takes the lowest bits of an integer
 *       instead.
 */
#ifndef TENON_KERNEL_STORAGE_H_
#define TENON_KERNEL_STORAGE_H_

#include "tenon/kernel/math/basic.h"
#include "tenon/plugin/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__CUDACC__)
#define TN_STORAGE_ONE static __host__ __device__ __forceinline__
#else
#define TN_STORAGE_ONE static inline
#endif

/* Rounding of numbers to powers of two, for f8e8m0: up or down, or to the
 * nearest, ties up. */
enum { TN_STORAGE_UP = 0, TN_STORAGE_DOWN = 1, TN_STORAGE_NEAREST = 2 };

/* How numbers become elements. */
typedef struct tn_storage_rule {
  tn_dtype dtype;     /* a storage type */
  int32_t saturate;   /* 1: a number beyond the range is the nearest of it */
  int32_t round_mode; /* of f8e8m0: TN_STORAGE_* */
} tn_storage_rule;

/* -------------------------------------------------------------------- bits */

/* a if the condition is 1, b if it is 0, without a branch. */
TN_STORAGE_ONE uint32_t tn_storage_select(int condition, uint32_t a,
                                          uint32_t b) {
  const uint32_t mask = 0u - (uint32_t)condition;
  return (a & mask) | (b & ~mask);
}

/* Rounds a double to the adjacent float with a lowest bit of 1, unless it is
 * exact. A number of fewer bits that is rounded from that is rounded as if
 * directly from the double. [any] */
TN_STORAGE_ONE float tn_storage_narrow(double x) {
  const float nearest = (float)x;
  const uint32_t bits = tn_math_bits_f32(nearest);
  const double back = (double)nearest;
  const int past = (x > 0 && back > x) || (x < 0 && back < x);
  const uint32_t toward_0 = bits - (uint32_t)past;
  const uint32_t inexact = (uint32_t)(back < x || back > x);
  return tn_math_from_bits_f32(toward_0 | inexact);
}

/* ------------------------------------------------------------------- types */

/* 1 for a storage type, else 0. [any] */
TN_STORAGE_ONE int tn_storage_has(tn_dtype dtype) {
  const uint32_t code = dtype & 0xffu, bits = (dtype >> 8) & 0xffu;
  return (bits == 8 && code >= 10 && code <= 14) ||
         (bits == 4 && (code <= 1 || code == 17)) || (bits == 2 && code <= 1);
}

/* 1 for i4, u4, i2 and u2, 0 for other storage types. [any] */
TN_STORAGE_ONE int tn_storage_is_integer(tn_dtype dtype) {
  return (dtype & 0xffu) <= 1;
}

/* Elements of a byte: 1, 2 or 4. [any] */
TN_STORAGE_ONE int64_t tn_storage_per_byte(tn_dtype dtype) {
  return 8 / (int64_t)((dtype >> 8) & 0xffu);
}

/* The bits of a code: 0xff, 15 or 3. [any] */
TN_STORAGE_ONE uint32_t tn_storage_mask(tn_dtype dtype) {
  return (1u << ((dtype >> 8) & 0xffu)) - 1;
}

/* The least and the largest number of i4, u4, i2 or u2. [any] */
TN_STORAGE_ONE int32_t tn_storage_least(tn_dtype dtype) {
  const int32_t half = (int32_t)(tn_storage_mask(dtype) / 2 + 1);
  return (dtype & 0xffu) == 0 ? -half : 0;
}

TN_STORAGE_ONE int32_t tn_storage_most(tn_dtype dtype) {
  const int32_t all = (int32_t)tn_storage_mask(dtype);
  return (dtype & 0xffu) == 0 ? all / 2 : all;
}

/* A type with sign, exponent and fraction. Codes here have no sign. */
typedef struct tn_storage_float {
  uint32_t fraction;  /* bits of the fraction */
  uint32_t bias;      /* of the exponent */
  uint32_t most;      /* the largest number */
  uint32_t beyond;    /* a larger one that is not saturated: infinity or NaN */
  uint32_t nan;       /* the code of NaN */
  uint32_t sign;      /* bit of the sign */
  uint32_t zero_sign; /* the same if there is a -0, else 0: `sign` is NaN */
  uint32_t nan_sign;  /* the same if NaN keeps its sign, else 0 */
} tn_storage_float;

/* The four types f8 with a fraction, and f4e2m1. [any] */
TN_STORAGE_ONE tn_storage_float tn_storage_float_of(tn_dtype dtype) {
  const tn_storage_float e4m3fn = {3, 7, 0x7e, 0x7f, 0x7f, 0x80, 0x80, 0x80};
  const tn_storage_float e4m3fnuz = {3, 8, 0x7f, 0x80, 0x80, 0x80, 0, 0};
  const tn_storage_float e5m2 = {2, 15, 0x7b, 0x7c, 0x7e, 0x80, 0x80, 0x80};
  const tn_storage_float e5m2fnuz = {2, 16, 0x7f, 0x80, 0x80, 0x80, 0, 0};
  const tn_storage_float e2m1 = {1, 1, 7, 7, 7, 8, 8, 0};
  switch (dtype) {
    case TN_F8E4M3FN:
      return e4m3fn;
    case TN_F8E4M3FNUZ:
      return e4m3fnuz;
    case TN_F8E5M2:
      return e5m2;
    case TN_F8E5M2FNUZ:
      return e5m2fnuz;
    default:
      return e2m1;
  }
}

/* -------------------------------------------------------- codes to numbers */

/* The number of a code of such a type. Without branches, so that loops are
 * vectorised. [any] */
TN_STORAGE_ONE float tn_storage_float_decode(uint32_t code,
                                             const tn_storage_float *f) {
  const uint32_t least = 1u << 23; /* the smallest normal number */
  const uint32_t magnitude = code & (f->sign - 1);
  const uint32_t rest = magnitude << (23 - f->fraction);
  const uint32_t base = (127 - f->bias) << 23;
  const uint32_t sign = tn_storage_select((code & f->sign) != 0, 1u << 31, 0);
  /* A subnormal number m*u is the difference of 2^e + m*u and 2^e. */
  const float subnormal = tn_math_from_bits_f32(rest + base + least) -
                          tn_math_from_bits_f32(base + least);
  uint32_t bits =
      tn_storage_select(rest < least, tn_math_bits_f32(subnormal), rest + base);
  const int infinite = magnitude == f->beyond && f->beyond != f->nan;
  const uint32_t special =
      tn_storage_select(infinite, 0x7f800000u, 0x7fc00000u);
  bits = tn_storage_select(magnitude > f->most, special, bits);
  bits = tn_storage_select(f->zero_sign == 0 && code == f->sign, 0x7fc00000u,
                           bits);
  return tn_math_from_bits_f32(bits | sign);
}

/* The power of two of a code of f8e8m0; 2^-127 is subnormal in f32. [any] */
TN_STORAGE_ONE float tn_storage_power_decode(uint32_t code) {
  const uint32_t bits = tn_storage_select(code == 0, 1u << 22, code << 23);
  return tn_math_from_bits_f32(
      tn_storage_select(code == 0xff, 0x7fc00000u, bits));
}

/* The integer of a code of i4, u4, i2 or u2. [any] */
TN_STORAGE_ONE int32_t tn_storage_integer_decode(uint32_t code,
                                                 tn_dtype dtype) {
  const int32_t half = -tn_storage_least(dtype);
  return ((int32_t)code ^ half) - half;
}

/* The number of a code. Exact. [any] */
TN_STORAGE_ONE float tn_storage_decode(uint32_t code, tn_dtype dtype) {
  if (tn_storage_is_integer(dtype))
    return (float)tn_storage_integer_decode(code, dtype);
  if (dtype == TN_F8E8M0) return tn_storage_power_decode(code);
  const tn_storage_float f = tn_storage_float_of(dtype);
  return tn_storage_float_decode(code, &f);
}

/* -------------------------------------------------------- numbers to codes */

/* The code of a number in such a type. Without branches, as above. [any] */
TN_STORAGE_ONE uint32_t tn_storage_float_encode(float x,
                                                const tn_storage_float *f,
                                                int32_t saturate) {
  const uint32_t all = tn_math_bits_f32(x);
  const uint32_t rest = all & 0x7fffffffu;
  const uint32_t least = (128 - f->bias) << 23; /* the smallest normal number */
  const uint32_t drop = 23 - f->fraction;
  const uint32_t half = (1u << (drop - 1)) - 1 + ((rest >> drop) & 1u);
  const uint32_t normal =
      ((rest + half) >> drop) - ((127 - f->bias) << f->fraction);
  /* A sum with a number whose last bit is the unit of subnormal ones. */
  const uint32_t magic = (151 - f->bias - f->fraction) << 23;
  const uint32_t subnormal = tn_math_bits_f32(tn_math_from_bits_f32(rest) +
                                              tn_math_from_bits_f32(magic)) -
                             magic;
  const uint32_t large = tn_storage_select(saturate != 0, f->most, f->beyond);
  uint32_t code = tn_storage_select(rest < least, subnormal, normal);
  code = tn_storage_select(code > f->most, large, code);
  uint32_t sign = tn_storage_select(code == 0, f->zero_sign, f->sign);
  code = tn_storage_select(rest > 0x7f800000u, f->nan, code);
  sign = tn_storage_select(rest > 0x7f800000u, f->nan_sign, sign);
  return code | (sign & (0u - (all >> 31)));
}

/* The code of a number in f8e8m0. A double has every float as a normal number,
 * with the exponent in its bits. [any] */
TN_STORAGE_ONE uint32_t tn_storage_power_encode(double x,
                                                const tn_storage_rule *rule) {
  const uint64_t fraction_bits = ((uint64_t)1 << 52) - 1;
  const uint64_t bits = tn_math_bits_f64(x);
  const uint64_t fraction = bits & fraction_bits;
  const uint64_t enough =
      rule->round_mode == TN_STORAGE_UP ? 1 : (uint64_t)1 << 51;
  const int up = rule->round_mode != TN_STORAGE_DOWN && fraction >= enough;
  const int32_t power = (int32_t)(bits >> 52 & 0x7ff) - 1023 + 127 + up;
  const int32_t raised = power > 0 ? power : 0;
  const int32_t inside = raised < 0xfe ? raised : 0xfe;
  const int beyond = power != inside && rule->saturate == 0;
  return tn_storage_select(beyond || !(x >= 0), 0xff, (uint32_t)inside);
}

/* The code of a number in i4, u4, i2 or u2, without its fraction. [any] */
TN_STORAGE_ONE uint32_t tn_storage_integer_encode(float x, tn_dtype dtype) {
  const float least = (float)tn_storage_least(dtype);
  const float most = (float)tn_storage_most(dtype);
  const float number = x == x ? x : 0;
  const float raised = number > least ? number : least;
  const float inside = raised < most ? raised : most;
  return (uint32_t)(int32_t)inside & tn_storage_mask(dtype);
}

/* The code of an integer in i4, u4, i2 or u2: its lowest bits. [any] */
TN_STORAGE_ONE uint32_t tn_storage_wrap(int64_t x, tn_dtype dtype) {
  return (uint32_t)x & tn_storage_mask(dtype);
}

/* The code of a number. [any] */
TN_STORAGE_ONE uint32_t tn_storage_encode_f32(float x,
                                              const tn_storage_rule *rule) {
  if (rule->dtype == TN_F8E8M0) return tn_storage_power_encode((double)x, rule);
  if (tn_storage_is_integer(rule->dtype))
    return tn_storage_integer_encode(x, rule->dtype);
  const tn_storage_float f = tn_storage_float_of(rule->dtype);
  return tn_storage_float_encode(x, &f, rule->saturate);
}

/* The same for a double, which is rounded once. [any] */
TN_STORAGE_ONE uint32_t tn_storage_encode(double x,
                                          const tn_storage_rule *rule) {
  if (rule->dtype == TN_F8E8M0) return tn_storage_power_encode(x, rule);
  return tn_storage_encode_f32(tn_storage_narrow(x), rule);
}

/* ---------------------------------------------------------------- elements */

/* The code of element i; the elements are dense. [any] */
TN_STORAGE_ONE uint32_t tn_storage_get_code(const void *data, tn_dtype dtype,
                                            int64_t i) {
  const int64_t per_byte = tn_storage_per_byte(dtype);
  const uint32_t byte = ((const uint8_t *)data)[i / per_byte];
  const uint32_t shift = (uint32_t)(i % per_byte * (8 / per_byte));
  return byte >> shift & tn_storage_mask(dtype);
}

/* Sets element i. Writes a whole byte: two threads must not set elements of
 * one byte at once. [any] */
TN_STORAGE_ONE void tn_storage_set_code(void *data, tn_dtype dtype, int64_t i,
                                        uint32_t code) {
  const int64_t per_byte = tn_storage_per_byte(dtype);
  uint8_t *byte = (uint8_t *)data + i / per_byte;
  const uint32_t shift = (uint32_t)(i % per_byte * (8 / per_byte));
  const uint32_t others = *byte & ~(tn_storage_mask(dtype) << shift);
  *byte = (uint8_t)(others | code << shift);
}

/* Element i as a number. Exact. [any] */
TN_STORAGE_ONE float tn_storage_read(const void *data, tn_dtype dtype,
                                     int64_t i) {
  return tn_storage_decode(tn_storage_get_code(data, dtype, i), dtype);
}

/* Sets element i to a number, by a rule. Writes a whole byte, as
 * tn_storage_set_code() does. [any] */
TN_STORAGE_ONE void tn_storage_write(void *data, const tn_storage_rule *rule,
                                     int64_t i, double x) {
  tn_storage_set_code(data, rule->dtype, i, tn_storage_encode(x, rule));
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_STORAGE_H_ */
