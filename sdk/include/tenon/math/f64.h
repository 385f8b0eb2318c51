/* SPDX-License-Identifier: Apache-2.0
 * f64.h: part of math.h: functions in f64 that call libm.
 */
#ifndef TENON_MATH_F64_H_
#define TENON_MATH_F64_H_

#include "tenon/math/exp64.h"

TN_MATH_FN double tn_math_log10_f64(double x) {
  return log10(x);
}

TN_MATH_FN double tn_math_sqrt_f64(double x) {
  return sqrt(x);
}

TN_MATH_FN double tn_math_sin_f64(double x) {
  return sin(x);
}

TN_MATH_FN double tn_math_cos_f64(double x) {
  return cos(x);
}

TN_MATH_FN double tn_math_tan_f64(double x) {
  return tan(x);
}

TN_MATH_FN double tn_math_asin_f64(double x) {
  return asin(x);
}

TN_MATH_FN double tn_math_acos_f64(double x) {
  return acos(x);
}

TN_MATH_FN double tn_math_atan_f64(double x) {
  return atan(x);
}

TN_MATH_FN double tn_math_asinh_f64(double x) {
  return asinh(x);
}

TN_MATH_FN double tn_math_acosh_f64(double x) {
  return acosh(x);
}

TN_MATH_FN double tn_math_atanh_f64(double x) {
  return atanh(x);
}

TN_MATH_FN double tn_math_erf_f64(double x) {
  return erf(x);
}

TN_MATH_FN double tn_math_erfc_f64(double x) {
  return erfc(x);
}

TN_MATH_FN double tn_math_gamma_f64(double x) {
  return tgamma(x);
}

TN_MATH_FN double tn_math_lgamma_f64(double x) {
  return lgamma(x);
}

/* The derivative of log(gamma(x)): -infinity at 0 and +infinity at -0, NaN at
 * other integers below and at minus infinity. */
TN_MATH_FN double tn_math_digamma_f64(double x) {
  /* Below 0 it is digamma(1 - x) - pi/tan(pi*x). */
  const int below = x < 0;
  double z = below ? 1 - x : x;
  double sum = 0;
  for (int i = 0; i < 10; ++i) {
    const int small = z < 10;
    sum += small ? 1 / z : 0.0;
    z += small ? 1.0 : 0.0;
  }
  const double w = 1 / (z * z);
  double p = 1.0 / 12;
  p = p * w - 691.0 / 32760;
  p = p * w + 1.0 / 132;
  p = p * w - 1.0 / 240;
  p = p * w + 1.0 / 252;
  p = p * w - 1.0 / 120;
  p = p * w + 1.0 / 12;
  const double y = log(z) - 0.5 / z - w * p - sum;
  const double whole = tn_math_floor_f64(x);
  const double part = x - whole;
  const double angle = (part > 0.5 ? part - 1 : part) * 0x1.921fb54442d18p+1;
  const double mirrored = y - 0x1.921fb54442d18p+1 / tan(angle);
  const double inside = below ? mirrored : y;
  const double pole = x < 0 ? NAN : -(1 / x);
  return (x <= 0 && part == 0) ? pole : inside;
}

TN_MATH_FN double tn_math_rsqrt_f64(double x) {
  return 1 / sqrt(x);
}

TN_MATH_FN double tn_math_pow_f64(double x, double y) {
  return pow(x, y);
}

TN_MATH_FN double tn_math_hypot_f64(double x, double y) {
  return hypot(x, y);
}

/* The remainder of a / b with the sign of b, also of 0; 0 where b is 0. */
TN_MATH_FN double tn_math_mod_f64(double a, double b) {
  const double rest = fmod(a, b);
  const double moved = rest + b;
  const double right = (rest < 0) != (b < 0) ? moved : rest;
  const double result = rest == 0 ? tn_math_signed_f64(0, b) : right;
  return b == 0 ? 0 : result;
}

/* x*erfc(-x/sqrt(2))/2. Where erfc is small it multiplies the error of its
 * argument, so that its slope times that error is added. */
TN_MATH_FN double tn_math_gelu_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double within = a > 40 ? 40 : a;
  const uint64_t upper = 0xfffffffff8000000u;
  const double high = tn_math_from_bits_f64(tn_math_bits_f64(within) & upper);
  const double low = within - high;
  const double t = within * 0x1.6a09e667f3bcdp-1;
  const double error =
      ((high * 0x1.6a09e6p-1 - t) + high * 0x1.9fcef32422cbfp-27) +
      low * 0x1.6a09e667f3bcdp-1;
  const double fix = 1 - error * (t + sqrt(t * t + 2));
  const double tail = 0.5 * within * erfc(t) * fix;
  const double positive = x - tail;
  return x < 0 ? -tail : positive;
}

#endif /* TENON_MATH_F64_H_ */
