/* SPDX-License-Identifier: Apache-2.0
 * f64.h: part of math.h: functions in f64 that call libm. Those of the gamma
 * function have no short series for the whole range. An exact remainder of
 * doubles needs some eighty steps for a small divisor; libm needs fewer for
 * others.
 */
#ifndef TENON_KERNEL_MATH_F64_H_
#define TENON_KERNEL_MATH_F64_H_

#include "tenon/kernel/math/exp64.h"

#if !defined(__CUDACC__)
#include "tenon/kernel/math/erf64.h"
#include "tenon/kernel/math/inverse64.h"
#include "tenon/kernel/math/log64.h"
#include "tenon/kernel/math/pow64.h"
#include "tenon/kernel/math/trig64.h"
#endif

TN_MATH_FN double tn_math_sqrt_f64(double x) {
  return sqrt(x);
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
  const int pole = x <= 0 && whole == x;
  const double part = x - tn_math_floor_f64(x + 0.5);
  const double angle = part * 0x1.921fb54442d18p+1;
  const double mirrored = y - 0x1.921fb54442d18p+1 / tan(angle);
  const double inside = below ? mirrored : y;
  const double there = x < 0 ? NAN : -(1 / x);
  return pole ? there : inside;
}

TN_MATH_FN double tn_math_rsqrt_f64(double x) {
  return 1 / sqrt(x);
}

/* The remainder of a / b with the sign of b, also of 0; 0 where b is 0. */
TN_MATH_FN double tn_math_mod_f64(double a, double b) {
  const double rest = fmod(a, b);
  const double moved = rest + b;
  const double right = (rest < 0) != (b < 0) ? moved : rest;
  const double result = rest == 0 ? tn_math_signed_f64(0, b) : right;
  return b == 0 ? 0 : result;
}

#endif /* TENON_KERNEL_MATH_F64_H_ */
