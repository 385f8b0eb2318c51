/* SPDX-License-Identifier: Apache-2.0
 * log.h: part of math.h: logarithms, functions that use them, and roots, in
 * f32. The coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_KERNEL_MATH_LOG_H_
#define TENON_KERNEL_MATH_LOG_H_

#include "tenon/kernel/math/exp.h"

/* log(x) of a positive normal double, to about 2^-34: x is (1 + f)*2^k with 1 +
 * f from sqrt(1/2) to sqrt(2). Other numbers give garbage. */
TN_MATH_FN double tn_math_log_short(double x) {
  const uint64_t bits = tn_math_bits_f64(x);
  const uint64_t biased =
      (bits + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)) >> 52;
  const double k =
      tn_math_from_bits_f64(biased | 0x4330000000000000u) - (0x1p52 + 1023);
  const double f =
      tn_math_from_bits_f64(bits - (biased << 52) + 0x3ff0000000000000u) - 1;
  double p = 0x1.e5e6b87e6456ap-6;
  p = p * f - 0x1.511b408a102edp-4;
  p = p * f + 0x1.a9d4f0e9f3a05p-4;
  p = p * f - 0x1.a775281aebf02p-4;
  p = p * f + 0x1.c297c8b6652f2p-4;
  p = p * f - 0x1.fe535c663dd7fp-4;
  p = p * f + 0x1.24a6026a72dafp-3;
  p = p * f - 0x1.555f1f483172fp-3;
  p = p * f + 0x1.99995a30973ecp-3;
  p = p * f - 0x1.ffffd2dfe2f49p-3;
  p = p * f + 0x1.5555556c758abp-2;
  p = p * f - 0x1.0000000e75780p-1;
  p = p * f + 1;
  return p * f + k * 0x1.62e42fefa39efp-1;
}

/* y, computed as if x were positive and finite, corrected for all other x. */
TN_MATH_FN float tn_math_log_ends(float x, float y) {
  const float finite = x == INFINITY ? x : y;
  const float low = x == 0 ? -INFINITY : NAN;
  return x > 0 ? finite : low;
}

/* x, which is positive, finite and normal, as (1 + f)*2^k with 1 + f from 3/4
 * to 3/2. Returns f*unit, `unit` being 1 or 1/2; `power` is k*2^23. */
TN_MATH_FN float tn_math_log_split_near(float x, float unit, float *power) {
  const uint32_t bits = tn_math_bits_f32(x);
  const uint32_t k = (bits - 0x3f400000u) & 0xff800000u;
  const uint32_t less = 0x3f800000u - tn_math_bits_f32(unit);
  *power = (float)(int32_t)k;
  return tn_math_from_bits_f32((bits - less) - k) - unit;
}

/* The same of denormal numbers too. */
TN_MATH_FN float tn_math_log_split_f32(float x, float unit, float *power) {
  /* They are multiplied by 2^25, without a branch: gcc would duplicate the code
   * after it. */
  const int tiny = (int32_t)tn_math_bits_f32(x) < 0x00800000;
  const uint32_t shift = (0u - (uint32_t)tiny) & (25u << 23);
  const float factor = tn_math_from_bits_f32(0x3f800000u + shift);
  const uint32_t bits = tn_math_bits_f32(x * factor);
  const uint32_t k = (bits - 0x3f400000u) & 0xff800000u;
  const uint32_t less = 0x3f800000u - tn_math_bits_f32(unit);
  *power = (float)(int32_t)(k - shift);
  return tn_math_from_bits_f32((bits - less) - k) - unit;
}

/* log(1 + f) for f from -1/4 to 1/2, less f. Even and odd powers are summed
 * apart: half as many steps that wait for each other. */
TN_MATH_FN float tn_math_log1p_series(float f) {
  const float f2 = f * f;
  float odd = -0x1.6c9e16p-5f;
  float even = 0x1.aa6232p-4f;
  odd = odd * f2 - 0x1.0d6792p-3f;
  even = even * f2 + 0x1.28a1d0p-3f;
  odd = odd * f2 - 0x1.54f5b8p-3f;
  even = even * f2 + 0x1.9968c6p-3f;
  odd = odd * f2 - 0x1.00002cp-2f;
  even = even * f2 + 0x1.5555a4p-2f;
  return ((odd * f + even) * f - 0.5f) * f2;
}

/* Logarithms of (1 + f)*2^k, from f and power. */
TN_MATH_FN float tn_math_log_of(float f, float power) {
  const float low = power * 0x1.7f7d1cp-43f + tn_math_log1p_series(f);
  return power * 0x1.62e4p-24f + (f + low);
}

TN_MATH_FN float tn_math_log2_of(float f, float power) {
  float p = -0x1.59ed36p-5f;
  p = p * f + 0x1.0b0df8p-3f;
  p = p * f - 0x1.84e3fcp-3f;
  p = p * f + 0x1.b3bf3ap-3f;
  p = p * f - 0x1.ecdc66p-3f;
  p = p * f + 0x1.271808p-2f;
  p = p * f - 0x1.714d3ap-2f;
  p = p * f + 0x1.ec724ap-2f;
  p = p * f - 0x1.715482p-1f;
  p = p * f + 0x1.c551d8p-2f;
  return (power * 0x1p-23f + f) + f * p;
}

/* From h = f/2, with the coefficients of f times powers of 2. It is added to
 * the part of k first: if they cancel, without an error. */
TN_MATH_FN float tn_math_log10_of(float h, float power) {
  const float h2 = h * h;
  float odd = -0x1.b4799ep+3f;
  float even = 0x1.443eaap+4f;
  odd = odd * h2 - 0x1.d25b3cp+3f;
  even = even * h2 + 0x1.05b7c4p+3f;
  odd = odd * h2 - 0x1.28c102p+2f;
  even = even * h2 + 0x1.63611ap+1f;
  odd = odd * h2 - 0x1.bcaf86p+0f;
  even = even * h2 + 0x1.287b52p+0f;
  float p = odd * h + even;
  p = p * h - 0x1.bcb7bep-1f;
  p = p * h - 0x1.0d213cp-3f;
  const float low = power * 0x1.3509f8p-41f + h * p;
  return (power * 0x1.344p-25f + h) + low;
}

/* log, log2 and log10; and the same for loops that compute a part again with
 * those if the highest bit of `far` is set then: if a number was denormal, not
 * finite or not positive, and the result is garbage. */
#define TN_MATH_LOG(name, unit)                                        \
  TN_MATH_FN float tn_math_##name##_f32(float x) {                     \
    float power;                                                       \
    const float f = tn_math_log_split_f32(x, unit, &power);            \
    return tn_math_log_ends(x, tn_math_##name##_of(f, power));         \
  }                                                                    \
  TN_MATH_FN float tn_math_##name##_near_f32(float x, uint32_t *far) { \
    const uint32_t bits = tn_math_bits_f32(x);                         \
    float power;                                                       \
    const float f = tn_math_log_split_near(x, unit, &power);           \
    *far |= (bits - 0x00800000u) | (0x7f7fffffu - bits);               \
    return tn_math_##name##_of(f, power);                              \
  }

TN_MATH_LOG(log, 1.0f)
TN_MATH_LOG(log2, 1.0f)
TN_MATH_LOG(log10, 0.5f)
#undef TN_MATH_LOG

/* 1 + x is (1 + f)*2^k, and f is computed from x. */
TN_MATH_FN float tn_math_log1p_f32(float x) {
  const uint32_t bits = tn_math_bits_f32(1.0f + x);
  const uint32_t k = (bits - 0x3f400000u) & 0xff800000u;
  const float scale = 0.25f * tn_math_from_bits_f32(0x40800000u - k);
  const float power = (float)(int32_t)k;
  const float f = x * scale + (scale - 1.0f);
  const float low = power * 0x1.7f7d1cp-43f + tn_math_log1p_series(f);
  const float y = power * 0x1.62e4p-24f + (f + low);
  const float finite = x == INFINITY ? x : y;
  const float end = x == -1.0f ? -INFINITY : NAN;
  return tn_math_signed_f32(x > -1.0f ? finite : end, x);
}

/* log(1 + a + b) for finite a >= b >= 0. 1 + a + b is (1 + f)*2^k. */
TN_MATH_FN float tn_math_log1p_sum(float a, float b) {
  const uint32_t half = tn_math_bits_f32(0.5f * a + (0.5f * b + 0.5f));
  const uint32_t k = (half - 0x3ec00000u) & 0xff800000u;
  const float scale = 0.125f * tn_math_from_bits_f32(0x41000000u - k);
  const float power = (float)(int32_t)k;
  const float rest = b * scale + (scale - 1.0f);
  const float f = a * scale + rest;
  const float lost = (a * scale - f) + rest;
  const float low = power * 0x1.7f7d1cp-43f + tn_math_log1p_series(f);
  return power * 0x1.62e4p-24f + (f + (low + lost));
}

/* With y = asinh(|x|) and exp(y) from 2^k to 2^(k+1) it is k*ln 2 + 2
 * atanh(s/2) with s/2 = tanh((y - k*ln 2)/2), which is the difference of the
 * hyperbolic sines of both by the sum of their cosines. `large` and `small` are
 * half of 2^k and of 2^-k, or 0. Where k is 0, it is summed from |x|, which is
 * exact. */
TN_MATH_FN float tn_math_asinh_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const float within = tn_math_up_to(a, 0x1p62f);
  const float root = sqrtf(within * within + 1.0f);
  const float half = 0.5f * tn_math_most_bits(root, a);
  const uint32_t up = tn_math_bits_f32(0.5f * a + half) & 0x7f800000u;
  const int32_t down = (int32_t)(0x7e000000u - up);
  const float large = tn_math_from_bits_f32(up);
  const float small = tn_math_from_bits_f32((uint32_t)(down < 0 ? 0 : down));
  const float s = (a - (large - small)) / (half + 0.5f * (large + small));
  const float z = s * s;
  float p = 0x1.1f05b8p-11f;
  p = p * z + 0x1.1eb39cp-9f;
  p = p * z + 0x1.99d29ep-7f;
  p = p * z + 0x1.555500p-4f;
  const uint32_t k = up - 0x3f000000u;
  const float power = (float)(int32_t)k;
  const float low = power * 0x1.7f7d1cp-43f + (s * z) * p;
  const float less = low - (0.25f * a) * z;
  const float sum = (k == 0 ? a : s) + (k == 0 ? less : low);
  const float y = power * 0x1.62e4p-24f + sum;
  return a < INFINITY ? tn_math_signed_f32(y, x) : x;
}

/* log(1 + w + sqrt(w*(w + 2))) of w = x - 1. */
TN_MATH_FN float tn_math_acosh_f32(float x) {
  const float w = x - 1.0f;
  const float root = sqrtf(w * w + 2.0f * w);
  const float y = tn_math_log1p_sum(w > 0x1p30f ? w : root, w);
  const float finite = x == INFINITY ? x : y;
  return x >= 1.0f ? finite : NAN;
}

/* With P = 2^k near (1 + a)/(1 - a) it is k*ln(2)/2 + atanh(s), where s is
 * (1 + a - P (1 - a))/(1 + a + P (1 - a)), from -0.06 to 1/3. */
TN_MATH_FN float tn_math_atanh_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const uint32_t ratio =
      tn_math_bits_f32(1.0f + a) - tn_math_bits_f32(1.0f - a);
  const uint32_t k = (ratio + 0x000ccccdu) & 0xff800000u;
  const float scale = tn_math_from_bits_f32(k + 0x3f800000u);
  const float power = (float)(int32_t)k;
  const float more = (scale - 1.0f) * (1.0f - a);
  const float s = (2.0f * a - more) / (2.0f + more);
  const float z = s * s;
  float p = 0x1.1f05b8p-3f;
  p = p * z + 0x1.1eb39cp-3f;
  p = p * z + 0x1.99d29ep-3f;
  p = p * z + 0x1.555500p-2f;
  const float low = power * 0x1.7f7d1cp-44f + (s * z) * p;
  const float y = power * 0x1.62e4p-25f + (s + low);
  const float end = a == 1.0f ? INFINITY : NAN;
  return tn_math_signed_f32(a < 1.0f ? y : end, x);
}

TN_MATH_FN float tn_math_pow_f32(float base, float exponent) {
  const double x = (double)base;
  const double y = (double)exponent;
  /* From 2^25 on every y is even, infinite ones too. By bits: of a comparison
   * gcc makes branches where all elements have one exponent, and no vectors. */
  const int32_t bits = (int32_t)tn_math_bits_f32(exponent);
  const int32_t size = bits & INT32_MAX;
  const int32_t near = size < 0x4c000000 ? size : 0x4c000000;
  const double whole =
      (double)tn_math_from_bits_f32((uint32_t)(near | (bits & INT32_MIN)));
  const double shifted = whole + 0x1.8p52;
  const double part = whole - (shifted - 0x1.8p52);
  const double a = tn_math_abs_f64(x);
  const double log_a = tn_math_log_short(a);
  const double zero = a == 0 ? -1e60 : log_a;
  const double all = a == INFINITY ? 1e60 : zero;
  const double above = all * y < -200 ? -200 : all * y;
  const double power = tn_math_exp_short(above > 200 ? 200 : above);
  const double one = a == 1 ? 1.0 : power;
  const uint64_t odd = tn_math_bits_f64(shifted) << 63;
  const double sign =
      tn_math_from_bits_f64((odd & tn_math_bits_f64(x)) | 0x3ff0000000000000u);
  const double flipped = (part == 0 ? sign : 1.0) * one;
  const double fraction = part == 0 ? flipped : NAN;
  const double negative = a == INFINITY ? flipped : fraction;
  const double signs = x < 0 ? negative : flipped;
  const double x_known = x == x ? signs : NAN;
  const double known = y == y ? x_known : NAN;
  const double unit = x == 1 ? 1.0 : known;
  return (float)(y == 0 ? 1.0 : unit);
}

/* ------------------------------------------------------------------- roots */

TN_MATH_FN float tn_math_sqrt_f32(float x) {
  return sqrtf(x);
}

TN_MATH_FN float tn_math_rsqrt_f32(float x) {
  return 1.0f / sqrtf(x);
}

TN_MATH_FN float tn_math_hypot_f32(float x, float y) {
  const float a = tn_math_abs_f32(x);
  const float b = tn_math_abs_f32(y);
  const double sum = (double)a * (double)a + (double)b * (double)b;
  const float root = (float)sqrt(sum);
  return (a == INFINITY || b == INFINITY) ? INFINITY : root;
}

/* The bits give a root with eight digits, good to one thirtieth, with an exact
 * cube c. With g = (a - c)/(a + c) the root is that times the cube root of (1 +
 * g)/(1 - g). */
TN_MATH_FN float tn_math_cbrt_f32(float x) {
  const uint32_t bits = tn_math_bits_f32(x) & 0x7fffffffu;
  /* An eighth of |x|, so that a + c does not overflow, or 2^24 times |x| if
   * that is too small. */
  const int tiny = bits < 0x03800000u;
  const float up = tn_math_from_bits_f32(bits) * 0x1p24f;
  const float down = tn_math_from_bits_f32(bits) * 0.125f;
  const float a = tiny ? up : down;
  /* The upper half of the bits by three and more, in the lower half of those of
   * a number between 2^23 and 2^24. */
  const float upper =
      tn_math_from_bits_f32((tn_math_bits_f32(a) >> 8) | 0x4b000000u);
  const float third = upper * (1.0f / 768) + (0x1.8p23f - 89);
  const float coarse = tn_math_from_bits_f32(tn_math_bits_f32(third) << 16);
  const float c = (coarse * coarse) * coarse;
  const float g = (a - c) / (a + c);
  float p = 0x1.4196b4p-3f;
  p = p * g + 0x1.16db60p-2f;
  p = p * g + 0x1.c71c06p-3f;
  p = p * g + 0x1.555542p-1f;
  const float root = coarse + (coarse * g) * p;
  const uint32_t back = tiny ? 0u - (8u << 23) : 1u << 23;
  const uint32_t y = tn_math_bits_f32(root) + back;
  const float all = tn_math_signed_f32(tn_math_from_bits_f32(y), x);
  return bits - 1 < 0x7f7fffffu ? all : x;
}

#endif /* TENON_KERNEL_MATH_LOG_H_ */
