/* SPDX-License-Identifier: Apache-2.0
 * exp.h: part of math.h: exponentials and hyperbolic functions in f32. The
 * coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_KERNEL_MATH_EXP_H_
#define TENON_KERNEL_MATH_EXP_H_

#include "tenon/kernel/math/basic.h"

/* exp(x) - 1 as (*scale)*q + (*scale - 1), in double but to about 2^-37, for
 * |x| below 700: x is n*ln 2 + r, `scale` is 2^n and q, which is returned,
 * exp(r) - 1. */
TN_MATH_FN double tn_math_expm1_short(double x, double *scale) {
  const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52;
  const double n = shifted - 0x1.8p52;
  const double r = x - n * 0x1.62e42fefa39efp-1;
  double p = 0x1.4431af345e94dp-16;
  p = p * r + 0x1.a151470ab583cp-13;
  p = p * r + 0x1.6c648d6ff974ap-10;
  p = p * r + 0x1.1110c65125167p-7;
  p = p * r + 0x1.55552feb8ab17p-5;
  p = p * r + 0x1.5555556744836p-3;
  p = p * r + 0x1.00000008f943dp-1;
  p = p * r + 1;
  *scale = tn_math_from_bits_f64((tn_math_bits_f64(shifted) + 1023) << 52);
  return p * r;
}

/* exp(x), likewise. */
TN_MATH_FN double tn_math_exp_short(double x) {
  double scale;
  const double q = tn_math_expm1_short(x, &scale);
  return scale * q + scale;
}

TN_MATH_FN float tn_math_exp_f32(float x) {
  /* 2^m twice is the scale, so that neither overflows. Too large an x leaves a
   * large r. */
  const float above = x < -105.0f ? -105.0f : x;
  const float magic = 0x1.8p23f + 127;
  const float shifted = tn_math_from_bits_f32(
      tn_math_least_bits(above * 0x1.715476p-1f + magic, magic + 64));
  const float m = shifted - magic;
  const float high = above - m * 0x1.62e4p+0f;
  const float r = high - m * 0x1.7f7d1cp-19f;
  const float scale = tn_math_from_bits_f32(tn_math_bits_f32(shifted) << 23);
  const float r2 = r * r;
  const float p6 = 0x1.9bf64ep-13f * r + 0x1.71c8d8p-10f;
  const float p4 = p6 * r2 + (0x1.1126acp-7f * r + 0x1.5549cep-5f);
  const float p2 = p4 * r2 + (0x1.555512p-3f * r + 0x1.00000cp-1f);
  const float p = (p2 * r2 + r) + 1.0f;
  return p * scale * scale;
}

/* 2^n for the n that was added to 1.5*2^23 and 127. */
TN_MATH_FN float tn_math_exp_scale(float shifted) {
  return tn_math_from_bits_f32(tn_math_bits_f32(shifted) << 23);
}

/* Twice the result for half of 2^n, which does not overflow; too large an x
 * leaves a large r. */
TN_MATH_FN float tn_math_expm1_f32(float x) {
  const float above = x < -30.0f ? -30.0f : x;
  const float magic = 0x1.8p23f + 126;
  const float shifted = tn_math_from_bits_f32(tn_math_least_bits(
      (above - 0.0588915f) * 0x1.71546p+0f + magic, magic + 128));
  const float n = shifted - magic;
  const float high = above - n * 0x1.62e4p-1f;
  const float r = high - n * 0x1.7f7d1cp-20f;
  const float half = tn_math_exp_scale(shifted);
  const float r2 = r * r;
  const float p2 = 0x1.90c8dcp-10f * r2 + (0x1.117776p-7f * r + 0x1.553288p-5f);
  const float p = p2 * r2 + (0x1.55555ap-3f * r + 0x1.00000ep-1f);
  const float q = p * r2 + r;
  const float y = 2.0f * (half * q + (half - 0.5f));
  return tn_math_signed_f32(y, x);
}

/* exp(r) - 1 for |r| up to ln(2)/2. */
TN_MATH_FN float tn_math_expm1_series(float r) {
  const float r2 = r * r;
  const float p4 = 0x1.6ac6dcp-10f * r2 + (0x1.123ddcp-7f * r + 0x1.555858p-5f);
  const float p = p4 * r2 + (0x1.55548cp-3f * r + 0x1.fffffcp-2f);
  return p * r2 + r;
}

/* exp(x) for x <= 0, for sums in which denormal numbers do not matter: it is 0
 * below 2^-126. Takes three quarters of the time. */
TN_MATH_FN float tn_math_exp_down_f32(float x) {
  const float magic = 0x1.8p23f + 127;
  const float shifted = x * 0x1.715476p+0f + magic;
  const float n = shifted - magic;
  const float high = x - n * 0x1.62e4p-1f;
  const float q = tn_math_expm1_series(high - n * 0x1.7f7d1cp-20f);
  const float scale = tn_math_exp_scale(shifted);
  return tn_math_select_f32(x < -87.33654f, 0.0f, q * scale + scale);
}

/* 1/(1 + exp(-x)), with exp(-x) as (1 + q)*2^n. Both sides of the fraction are
 * multiplied by 2^-24, so that the lower one does not overflow. */
TN_MATH_FN float tn_math_sigmoid_f32(float x) {
  const float within = tn_math_between(x, -105.0f, 30.0f);
  const float magic = 0x1.8p23f + 127 - 24;
  const float shifted = within * -0x1.715476p+0f + magic;
  const float n = shifted - magic;
  const float high = n * -0x1.62e4p-1f - within;
  const float r = high - n * 0x1.7f7d1cp-20f;
  const float scale = tn_math_exp_scale(shifted);
  const float q = tn_math_expm1_series(r);
  const float y = 0x1p-24f / ((q * scale + 0x1p-24f) + scale);
  return x == x ? y : x;
}

/* log(1 + w)/w for w in [0, 1], in double but to 2^-38. */
TN_MATH_FN double tn_math_log1p_unit(double w) {
  double p = -0x1.103466f6eb9a3p-11;
  p = p * w + 0x1.12a30117b7a54p-8;
  p = p * w - 0x1.043986e8de045p-6;
  p = p * w + 0x1.38e954c8e7d3ap-5;
  p = p * w - 0x1.1303c83677789p-4;
  p = p * w + 0x1.86b920b3af895p-4;
  p = p * w - 0x1.e9106454c0afep-4;
  p = p * w + 0x1.219f11dff568cp-3;
  p = p * w - 0x1.54ce47f42906ap-3;
  p = p * w + 0x1.9989b10d02d9dp-3;
  p = p * w - 0x1.fffedd2a3fa60p-3;
  p = p * w + 0x1.55554fdd935d1p-2;
  p = p * w - 0x1.ffffffeb2031ep-2;
  return p * w + 0x1.fffffffff95bcp-1;
}

TN_MATH_FN float tn_math_softplus_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const double w = tn_math_exp_short(-(double)(a > 200.0f ? 200.0f : a));
  const double most = x > 0 ? (double)x : 0.0;
  return (float)(w * tn_math_log1p_unit(w) + most);
}

/* |x| is n*ln 2 + r: `large` and `small` are a quarter of 2^n and of 2^-n, or
 * 0, `even` and `odd` cosh(r) - 1 and sinh(r). The result is twice a sum that
 * does not overflow. The rounding error of r is added to sinh(r) separately. */
TN_MATH_FN float tn_math_sinh_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const float within = a > 89.5f ? 89.5f : a;
  const float magic = 0x1.8p23f + 125;
  const float shifted = (within - 0.15f) * 0x1.71546p+0f + magic;
  const float n = shifted - magic;
  const float high = within - n * 0x1.62e4p-1f;
  const float r = high - n * 0x1.7f7d1cp-20f;
  const uint32_t up = tn_math_bits_f32(shifted) << 23;
  const int32_t down = (int32_t)(0x7d000000u - up);
  const float large = tn_math_from_bits_f32(up);
  const float small = tn_math_from_bits_f32((uint32_t)(down < 0 ? 0 : down));
  const float z = r * r;
  float even = 0x1.6f2154p-10f;
  even = even * z + 0x1.5551fap-5f;
  even = even * z + 0x1.000002p-1f;
  float odd = 0x1.a2b294p-13f;
  odd = odd * z + 0x1.110fbcp-7f;
  odd = odd * z + 0x1.555556p-3f;
  odd = high + (odd * (r * z) - n * 0x1.7f7d1cp-20f);
  const float sum = large + small;
  const float difference = large - small;
  const float y = difference + (difference * (even * z) + sum * odd);
  return tn_math_signed_f32(2.0f * y, x);
}

/* With e a quarter of exp(|x|), it is twice e + 1/(16*e); with exp(|x|) as
 * (1 + q)*2^n, the sum begins with its smaller parts. */
TN_MATH_FN float tn_math_cosh_f32(float x) {
  const float a = tn_math_up_to(tn_math_abs_f32(x), 89.5f);
  const float magic = 0x1.8p23f + 125;
  const float shifted = a * 0x1.715476p+0f + magic;
  const float n = shifted - magic;
  const float high = a - n * 0x1.62e4p-1f;
  const float r = high - n * 0x1.7f7d1cp-20f;
  const float scale = tn_math_exp_scale(shifted);
  const float q = tn_math_expm1_series(r);
  const float e = q * scale + scale;
  const float half = (q * scale + 0.0625f / e) + scale;
  const float y = half + half;
  return x == x ? y : x;
}

/* |x| is n*ln(2)/2 + r. By the theorem of addition it is (2^n - 1 + (2^n + 1)
 * t)/(2^n + 1 + (2^n - 1) t) with t = tanh(r), and t where n is 0. The
 * denominator is computed from the numerator, so that both have the same
 * rounding error. The clamp does not change NaN. */
TN_MATH_FN float tn_math_tanh_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const float within = 10.0f < a ? 10.0f : a;
  const float magic = 0x1.8p23f + 127;
  const float shifted = (within - 0.12f) * 0x1.71546p+1f + magic;
  const float r = within - (shifted - magic) * 0x1.62e430p-2f;
  const float z = r * r;
  float p = -0x1.9ddaacp-5f;
  p = p * z + 0x1.10b85cp-3f;
  p = p * z - 0x1.5554b6p-2f;
  const float t = r + (r * z) * p;
  const float power = tn_math_exp_scale(shifted);
  const float top = (power + 1.0f) * t + (power - 1.0f);
  return tn_math_signed_f32(top / (2.0f * (1.0f - t) + top), x);
}

#endif /* TENON_KERNEL_MATH_EXP_H_ */
