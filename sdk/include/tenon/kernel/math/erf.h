/* SPDX-License-Identifier: Apache-2.0
 * erf.h: part of math.h: error functions and the remainder in f32. The
 * coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_KERNEL_MATH_ERF_H_
#define TENON_KERNEL_MATH_ERF_H_

#include "tenon/kernel/math/exp.h"

/* x*(1 + a polynomial) up to 0.9, beyond that 1 less the exponential of a
 * polynomial; from 4 on it is 1 in float. NaN is not above 0.9. */
TN_MATH_FN float tn_math_erf_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const float z = x * x;
  float w = -0x1.3ba9e8p-11f;
  w = w * z + 0x1.479ca0p-8f;
  w = w * z - 0x1.b69b96p-6f;
  w = w * z + 0x1.ce1b86p-4f;
  w = w * z - 0x1.8126ecp-2f;
  w = w * z + 0x1.06eba6p-3f;
  const float near = x * w + x;
  const float b = tn_math_up_to(a, 4.0f);
  float p = -0x1.9d8e38p-13f;
  p = p * b + 0x1.9084d4p-9f;
  p = p * b - 0x1.6cfdf8p-6f;
  p = p * b + 0x1.aa2360p-4f;
  p = p * b + 0x1.462caep-1f;
  p = p * b + 0x1.20b432p+0f;
  p = p * b + 0x1.744156p-13f;
  const float magic = 0x1.8p23f + 127;
  const float shifted = p * -0x1.715476p+0f + magic;
  const float n = shifted - magic;
  const float q = tn_math_expm1_series(n * -0x1.62e430p-1f - p);
  const float scale = tn_math_exp_scale(shifted);
  const float far = (1.0f - scale) - scale * q;
  return tn_math_select_f32(a > 0.9f, tn_math_signed_f32(far, x), near);
}

/* exp(a*a/2) as (1 + q)*2^n; returns q, `scale` is 2^(64 - n). `high` is a
 * without its last digits, so that its square is exact. */
TN_MATH_FN float tn_math_bell(float a, float high, float *scale) {
  const float square = high * high;
  const float magic = 0x1.8p23f + 127;
  const float shifted = square * 0x1.715476p-1f + magic;
  const float n = shifted - magic;
  const float most = square - n * 0x1.62e4p+0f;
  const float rest = (a - high) * (a + high) - n * 0x1.7f7d1cp-19f;
  const float twice = most + rest;
  const float r2 = twice * twice;
  const float p4 =
      0x1.6ac6dcp-16f * r2 + (0x1.123ddcp-12f * twice + 0x1.555858p-9f);
  const float p = p4 * r2 + (0x1.55548cp-6f * twice + 0x1.fffffcp-4f);
  *scale =
      tn_math_from_bits_f32(0x9f000000u - (tn_math_bits_f32(shifted) << 23));
  return p * r2 + 0.5f * twice;
}

/* x less a*erfc(a/sqrt(2))/2 with a = |x|, or that alone where x is negative.
 * It is a/2 by exp(a*a/2)*(1 + a*g), where g is 1 and a rational function. The
 * rounding error of the divisor's sum corrects the quotient: it is small, so
 * its factor 1/divisor needs a relative error of an eighth only, as a
 * difference of bits gives it. `scale` is applied before the quotient. The last
 * coefficient above is a unit more than the tool's: the best one without fused
 * operations. */
TN_MATH_FN float tn_math_gelu_f32(float x) {
  const float a = tn_math_up_to(tn_math_abs_f32(x), 14.5f);
  const float high = tn_math_upper_f32(a);
  float scale;
  const float q = tn_math_bell(a, high, &scale);
  float upper = 0x1.103ca0p-9f;
  upper = upper * a + 0x1.9480e6p-7f;
  upper = upper * a + 0x1.645f84p-6f;
  upper = upper * a - 0x1.4b3308p-5f;
  upper = upper * a - 0x1.9dee8ep-3f;
  float lower = 0x1.0cb0c6p-7f;
  lower = lower * a + 0x1.4c16cep-4f;
  lower = lower * a + 0x1.76bc42p-2f;
  lower = lower * a + 0x1.c07e32p-1f;
  lower = lower * a + 1.0f;
  const float whole = 1.0f + high;
  const float more = a * (upper / lower) + (a - high);
  const float part = whole * q + (more * q + more);
  const float sum = whole + part;
  const float lost = part - ((sum - 1.0f) - high);
  const float inverse =
      tn_math_from_bits_f32(0x7ef311c3u - tn_math_bits_f32(sum));
  const float coarse = (a * scale) / sum;
  const float tail = coarse - coarse * (lost * inverse);
  /* Not as a choice of floats, which clang takes for a maximum of them: that
   * makes no difference between zeros. */
  const float none = tn_math_select_f32(x < 0, -0.0f, x);
  return none - tail * 0x1p-65f;
}

/* Like gelu: 1/(exp(a*a)*(1 + a*g)) with a = |x|. g is 13/8 plus a rational
 * function, which is small in the critical range; for negative x it is 2 minus
 * that. `left` is the rounding error of the argument of exp. */
TN_MATH_FN float tn_math_erfc_f32(float x) {
  const float a = tn_math_up_to(tn_math_abs_f32(x), 10.1f);
  const float high = tn_math_upper_f32(a);
  const float square = high * high;
  const float magic = 0x1.8p23f + 127;
  const float shifted = square * 0x1.715476p+0f + magic;
  const float n = shifted - magic;
  const float most = square - n * 0x1.62e4p-1f;
  const float rest = (a - high) * (a + high) - n * 0x1.7f7d1cp-20f;
  const float r = most + rest;
  const float left = rest - (r - most);
  const float q = tn_math_expm1_series(r);
  const float scale =
      tn_math_from_bits_f32(0x9f000000u - (tn_math_bits_f32(shifted) << 23));
  float upper = 0x1.3a75acp-8f;
  upper = upper * a + 0x1.24dfb8p-10f;
  upper = upper * a - 0x1.797b66p-4f;
  upper = upper * a - 0x1.5cf5c6p-2f;
  upper = upper * a - 0x1.fc8a12p-2f;
  float lower = 0x1.0a9d48p-5f;
  lower = lower * a + 0x1.d32c4ep-3f;
  lower = lower * a + 0x1.757084p-1f;
  lower = lower * a + 0x1.3c839cp+0f;
  lower = lower * a + 1.0f;
  const float steep = 1.625f * high;
  const float whole = 1.0f + steep;
  const float more = a * (upper / lower) + 1.625f * (a - high);
  const float part = whole * q + (whole * left + (more * q + more));
  const float sum = whole + part;
  const float lost = part - ((sum - 1.0f) - steep);
  const float inverse =
      tn_math_from_bits_f32(0x7ef311c3u - tn_math_bits_f32(sum));
  const float coarse = scale / sum;
  const float tail = coarse - coarse * (lost * inverse);
  const float unit = tn_math_select_f32(x < 0, -0x1p-64f, 0x1p-64f);
  const float y = tail * unit + tn_math_select_f32(x < 0, 2.0f, 0.0f);
  return tn_math_select_f32(x == x, y, x);
}

/* The remainder of a / b with the sign of b, also of 0; 0 where b is 0. */
TN_MATH_FN float tn_math_mod_f32(float a, float b) {
  const double by = (double)tn_math_abs_f32(b);
  const double inverse = 1 / by;
  double rest = (double)a;
  /* Each step takes the multiple of by*2^(29*step) that is nearest. All of it
   * is exact: the multiplier has at most 29 bits, the remainder at most 24. */
#define TN_MATH_MOD_STEP(up, down)                                    \
  {                                                                   \
    const double n = (rest * (inverse * down) + 0x1.8p52) - 0x1.8p52; \
    rest = rest - n * (by * up);                                      \
  }
  TN_MATH_MOD_STEP(0x1p261, 0x1p-261)
  TN_MATH_MOD_STEP(0x1p232, 0x1p-232)
  TN_MATH_MOD_STEP(0x1p203, 0x1p-203)
  TN_MATH_MOD_STEP(0x1p174, 0x1p-174)
  TN_MATH_MOD_STEP(0x1p145, 0x1p-145)
  TN_MATH_MOD_STEP(0x1p116, 0x1p-116)
  TN_MATH_MOD_STEP(0x1p87, 0x1p-87)
  TN_MATH_MOD_STEP(0x1p58, 0x1p-58)
  TN_MATH_MOD_STEP(0x1p29, 0x1p-29)
  TN_MATH_MOD_STEP(1.0, 1.0)
#undef TN_MATH_MOD_STEP
  /* Now it is nearest to 0; it must be on the side of b. */
  const double turned = b < 0 ? -rest : rest;
  const double moved = turned + by;
  const double inside = turned < 0 ? moved : turned;
  const double a_turned = b < 0 ? -(double)a : (double)a;
  const double outside = a_turned < 0 ? by : a_turned;
  const double finite = by < INFINITY ? inside : outside;
  const double wrong = (a - a != 0 || b != b) ? NAN : finite;
  const float result = tn_math_signed_f32(tn_math_abs_f32((float)wrong), b);
  return b == 0 ? 0.0f : result;
}

#endif /* TENON_KERNEL_MATH_ERF_H_ */
