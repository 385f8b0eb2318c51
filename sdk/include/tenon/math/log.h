/* SPDX-License-Identifier: Apache-2.0
 * log.h: part of math.h: logarithms, what is computed with them, and roots, in
 * f32. The coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_MATH_LOG_H_
#define TENON_MATH_LOG_H_

#include "tenon/math/exp.h"

/* log(x) of a positive normal double, to about 2^-34: x is (1 + f)*2^k with
 * 1 + f from sqrt(1/2) to sqrt(2). What is not finite or not positive gives
 * nonsense. */
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

/* y, which was computed as if x were positive and finite, with what logarithms
 * are elsewhere. */
TN_MATH_FN float tn_math_log_ends(float x, float y) {
  const float finite = x == INFINITY ? x : y;
  const float low = x == 0 ? -INFINITY : NAN;
  return x > 0 ? finite : low;
}

TN_MATH_FN float tn_math_log_f32(float x) {
  const int tiny = x < 0x1p-126f;
  const float normal = tiny ? x * 0x1p25f : x;
  const uint32_t bits = tn_math_bits_f32(normal);
  const uint32_t biased = (bits + (0x3f800000u - 0x3f3504f3u)) >> 23;
  const float bias = tiny ? 127.0f + 25.0f : 127.0f;
  const float k = (float)(int32_t)biased - bias;
  const float f =
      tn_math_from_bits_f32(bits - (biased << 23) + 0x3f800000u) - 1.0f;
  const float square = f * f;
  float p = -0x1.39240cp-4f;
  p = p * f + 0x1.057fbep-3f;
  p = p * f - 0x1.0d82e6p-3f;
  p = p * f + 0x1.22d5a2p-3f;
  p = p * f - 0x1.547220p-3f;
  p = p * f + 0x1.99a036p-3f;
  p = p * f - 0x1.000228p-2f;
  p = p * f + 0x1.555554p-2f;
  const float low = k * 0x1.7f7d1cp-20f + (p * f - 0.5f) * square;
  return tn_math_log_ends(x, k * 0x1.62e4p-1f + (f + low));
}

TN_MATH_FN float tn_math_log2_f32(float x) {
  const double y = tn_math_log_short((double)x) * 0x1.71547652b82fep+0;
  return tn_math_log_ends(x, (float)y);
}

TN_MATH_FN float tn_math_log10_f32(float x) {
  const double y = tn_math_log_short((double)x) * 0x1.bcb7b1526e50ep-2;
  return tn_math_log_ends(x, (float)y);
}

TN_MATH_FN float tn_math_log1p_f32(float x) {
  const double w = (double)x;
  const double series = w - w * w * (0.5 - w * (1.0 / 3));
  const double y = tn_math_log_short(1 + w);
  const float ends = tn_math_log_ends(x + 1.0f, (float)y);
  return tn_math_abs_f32(x) < 0x1p-11f ? (float)series : ends;
}

TN_MATH_FN float tn_math_asinh_f32(float x) {
  const double a = (double)tn_math_abs_f32(x);
  const double series = a - a * a * a * (1.0 / 6 - a * a * (3.0 / 40));
  const double y = tn_math_log_short(a + sqrt(a * a + 1));
  const float large = a < INFINITY ? (float)y : (float)a;
  return tn_math_signed_f32(a < 0x1p-6 ? (float)series : large, x);
}

TN_MATH_FN float tn_math_acosh_f32(float x) {
  const double a = (double)x;
  const double y = tn_math_log_short(a + sqrt((a - 1) * (a + 1)));
  const float finite = x == INFINITY ? x : (float)y;
  return x >= 1.0f ? finite : NAN;
}

TN_MATH_FN float tn_math_atanh_f32(float x) {
  const double a = (double)tn_math_abs_f32(x);
  const double series = a + a * a * a * (1.0 / 3 + a * a * (1.0 / 5));
  const double y = 0.5 * tn_math_log_short(tn_math_divide_short(1 + a, 1 - a));
  const float inside = a < 0x1p-6 ? (float)series : (float)y;
  const float outside = a == 1 ? INFINITY : NAN;
  return tn_math_signed_f32(a < 1 ? inside : outside, x);
}

TN_MATH_FN float tn_math_pow_f32(float base, float exponent) {
  const double x = (double)base;
  const double y = (double)exponent;
  /* From 2^25 on every y is even, infinite ones too. */
  const double low = y < -0x1p25 ? -0x1p25 : y;
  const double whole = low > 0x1p25 ? 0x1p25 : low;
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

/* One over the cube root of |x| is found from the bits and by two steps of the
 * third and second order; x times its square is the root. */
TN_MATH_FN float tn_math_cbrt_f32(float x) {
  const double a = (double)tn_math_abs_f32(x);
  const double high =
      tn_math_from_bits_f64((tn_math_bits_f64(a) >> 32) | 0x4330000000000000u) -
      0x1p52;
  const double seed = 1430152017.0 - high * (1.0 / 3);
  double w = tn_math_from_bits_f64(tn_math_bits_f64(seed + 0x1p52) << 32);
  double h = 1 - a * w * (w * w);
  w = w + w * h * (1.0 / 3 + h * (2.0 / 9 + h * (14.0 / 81)));
  h = 1 - a * w * (w * w);
  w = w + w * h * (1.0 / 3 + h * (2.0 / 9));
  const float root = (float)(a * w * w);
  const float y = (a > 0 && a < INFINITY) ? root : (float)a;
  return tn_math_signed_f32(y, x);
}

#endif /* TENON_MATH_LOG_H_ */
