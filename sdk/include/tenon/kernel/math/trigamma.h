/* SPDX-License-Identifier: Apache-2.0
 * trigamma.h: part of math.h: the second derivative of the logarithm of the
 * gamma function, without branches, here and in CUDA C++.
 */
#ifndef TENON_KERNEL_MATH_TRIGAMMA_H_
#define TENON_KERNEL_MATH_TRIGAMMA_H_

#include "tenon/kernel/math/basic.h"

/* For x not below 0: by its asymptotic series from 10 on; the terms 1/(x + i)^2
 * reduce other x to it, the smallest first. */
TN_MATH_FN double tn_math_trigamma_right(double x) {
  double z = x;
  for (int i = 0; i < 10; ++i) z += x + i < 10 ? 1.0 : 0.0;
  const double w = 1 / (z * z);
  double p = -3617.0 / 510;
  p = p * w + 7.0 / 6;
  p = p * w - 691.0 / 2730;
  p = p * w + 5.0 / 66;
  p = p * w - 1.0 / 30;
  p = p * w + 1.0 / 42;
  p = p * w - 1.0 / 30;
  p = p * w + 1.0 / 6;
  double sum = 1 / z + (0.5 * w + w / z * p);
  for (int i = 9; i >= 0; --i) {
    const double t = x + i;
    sum += t < 10 ? 1 / (t * t) : 0.0;
  }
  return sum;
}

/* (pi / sin(pi * x))^2 by the series of the sine, for a rest of x by 1. */
TN_MATH_FN double tn_math_trigamma_mirror(double rest) {
  const double a = rest * 0x1.921fb54442d18p+1;
  const double z = a * a;
  double p = 1.0 / 51090942171709440000.0;
  p = p * z - 1.0 / 121645100408832000.0;
  p = p * z + 1.0 / 355687428096000.0;
  p = p * z - 1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  const double s = rest * (p * z);
  const double u = rest + s;
  const double lost = s - (u - rest);
  const double y = 1 / (u * u);
  const double fix = 2 * lost * u * y * y;
  return y < (double)INFINITY ? y - fix : y;
}

/* Below 0 it is (pi / sin(pi * x))^2 - trigamma(1 - x). */
TN_MATH_FN double tn_math_trigamma_f64(double x) {
  const int below = x < 0;
  const double right = tn_math_trigamma_right(below ? 1 - x : x);
  /* Of a tiny x nothing may be lost; a large one is whole. */
  const int whole = tn_math_floor_f64(x) == x && x - x == 0;
  const double rest = whole ? 0.0 : x - tn_math_floor_f64(x + 0.5);
  const double left = tn_math_trigamma_mirror(rest) - right;
  return below ? left : right;
}

TN_MATH_FN float tn_math_trigamma_f32(float x) {
  return (float)tn_math_trigamma_f64((double)x);
}

#endif /* TENON_KERNEL_MATH_TRIGAMMA_H_ */
