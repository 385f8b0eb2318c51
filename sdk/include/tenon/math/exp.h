/* SPDX-License-Identifier: Apache-2.0
 * exp.h: part of math.h: exponentials and hyperbolic functions in f32. The
 * coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_MATH_EXP_H_
#define TENON_MATH_EXP_H_

#include "tenon/math/basic.h"

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
  /* 2^m twice is the scale, so that neither overflows. */
  const float above = x < -105.0f ? -105.0f : x;
  const float within = above > 89.0f ? 89.0f : above;
  const float magic = 0x1.8p23f + 127;
  const float shifted = within * 0x1.715476p-1f + magic;
  const float m = shifted - magic;
  const float high = within - m * 0x1.62e4p+0f;
  const float r = high - m * 0x1.7f7d1cp-19f;
  const float scale = tn_math_from_bits_f32(tn_math_bits_f32(shifted) << 23);
  float p = 0x1.9bf64ep-13f;
  p = p * r + 0x1.71c8d8p-10f;
  p = p * r + 0x1.1126acp-7f;
  p = p * r + 0x1.5549cep-5f;
  p = p * r + 0x1.555512p-3f;
  p = p * r + 0x1.00000cp-1f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * scale * scale;
}

TN_MATH_FN float tn_math_expm1_f32(float x) {
  double scale;
  const double above = x < -200.0f ? -200.0 : (double)x;
  const double within = above > 200 ? 200 : above;
  const double q = tn_math_expm1_short(within, &scale);
  const float y = (float)(scale * q + (scale - 1));
  return x == 0 ? x : y;
}

/* exp(r) - 1 for |r| up to ln(2)/2, and what r lacks. */
TN_MATH_FN float tn_math_expm1_series(float r, float low) {
  float p = 0x1.6ac6dcp-10f;
  p = p * r + 0x1.123ddcp-7f;
  p = p * r + 0x1.555858p-5f;
  p = p * r + 0x1.55548cp-3f;
  p = p * r + 0x1.fffffcp-2f;
  return r + (p * (r * r) + low);
}

/* With e = exp(-|x|) it is 1/(1 + e) or e/(1 + e). */
TN_MATH_FN float tn_math_sigmoid_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const float within = a > 105.0f ? 105.0f : a;
  const float magic = 0x1.8p23f + 127 + 64;
  const float shifted = within * -0x1.715476p+0f + magic;
  const float n = shifted - magic;
  const float high = n * -0x1.62e4p-1f - within;
  const float r = high - n * 0x1.7f7d1cp-20f;
  const float scale = tn_math_from_bits_f32(tn_math_bits_f32(shifted) << 23);
  const float e = (1.0f + tn_math_expm1_series(r, 0)) * scale * 0x1p-64f;
  const float top = x < 0 ? e : 1.0f;
  const float whole = 1.0f + e;
  const float lost = e - (whole - 1.0f);
  const float y = top / whole;
  return y - y * lost;
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

TN_MATH_FN float tn_math_sinh_f32(float x) {
  double up, down;
  const double a = (double)tn_math_abs_f32(x);
  const double within = a > 200 ? 200 : a;
  const double q = tn_math_expm1_short(within, &up);
  const double p = tn_math_expm1_short(-within, &down);
  const double y = (up * q - down * p) + (up - down);
  return tn_math_signed_f32((float)(0.5 * y), x);
}

TN_MATH_FN float tn_math_cosh_f32(float x) {
  const float magnitude = tn_math_abs_f32(x);
  const double a = (double)(magnitude > 200.0f ? 200.0f : magnitude);
  return (float)(0.5 * (tn_math_exp_short(a) + tn_math_exp_short(-a)));
}

/* With y = exp(-2|x|) - 1 the magnitude is -y/(2 + y). */
TN_MATH_FN float tn_math_tanh_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const float within = 2.0f * (a > 10.0f ? 10.0f : a);
  const float magic = 0x1.8p23f + 127;
  const float shifted = within * -0x1.715476p+0f + magic;
  const float n = shifted - magic;
  const float high = n * -0x1.62e4p-1f - within;
  const float r = high - n * 0x1.7f7d1cp-20f;
  const float low = (high - r) - n * 0x1.7f7d1cp-20f;
  const float scale = tn_math_from_bits_f32(tn_math_bits_f32(shifted) << 23);
  const float y = scale * tn_math_expm1_series(r, low) + (scale - 1.0f);
  const float whole = 2.0f + y;
  const float lost = y - (whole - 2.0f);
  const float coarse = y / whole;
  const float fix = coarse * (0.75f * lost);
  return tn_math_signed_f32(tn_math_abs_f32(coarse - fix), x);
}

#endif /* TENON_MATH_EXP_H_ */
