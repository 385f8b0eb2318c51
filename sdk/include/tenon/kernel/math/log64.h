/* SPDX-License-Identifier: Apache-2.0
 * log64.h: part of math.h: the decimal logarithm, the inverses of hyperbolic
 * functions and the hypotenuse in f64.
 */
#ifndef TENON_KERNEL_MATH_LOG64_H_
#define TENON_KERNEL_MATH_LOG64_H_

#include "tenon/kernel/math/exp64.h"

/* The logarithm is split where its upper part is short, so that the product
 * with 1/ln(10) is exact. */
TN_MATH_FN double tn_math_log10_f64(double x) {
  double k;
  const double scaled = x * 0x1p54;
  const double f = tn_math_log_split_f64(x < 0x1p-1022 ? scaled : x, &k) - 1;
  const double all = x < 0x1p-1022 ? k - 54 : k;
  /* log(1 + f) is f - half + s*(half + z*p). */
  const double s = f / (2 + f);
  const double z = s * s;
  const double half = 0.5 * f * f;
  const double high = tn_math_upper_f64(f - half);
  const double low =
      ((f - high) - half) + s * (half + z * tn_math_log_series(z));
  const double tens = all * 0x1.34413509f78p-2;
  const double h = high * 0x1.bcb7b1p-2;
  const double l = all * 0x1.fef311f12b358p-46 +
                   (low * 0x1.bcb7b1526e50ep-2 + high * 0x1.49b9438ca9aaep-28);
  const double near = tens + h;
  const double y = near + (((tens - near) + h) + l);
  return tn_math_log_ends_f64(x, y);
}

/* -------------------------------------------- inverses of the hyperbolic ones
 */

/* log((1 + w + more)*2^twice), where w is not negative and `more` is its
 * error. */
TN_MATH_FN double tn_math_log1p_twice(double w, double more, double twice) {
  double k;
  const double u = 1 + w;
  const double below = w - (u - 1);
  const double above = 1 - (u - w);
  const double lost = ((w < 1 ? below : above) + more) / u;
  const double rest = tn_math_log_parts(u, lost, &k);
  const double all = k + twice;
  return all * 0x1.62e42fefa4p-1 + (rest + all * -0x1.8432a1b0e2634p-43);
}

/* log(1 + a + a^2/(1 + sqrt(1 + a^2))), or log(2a) where that is the same. */
TN_MATH_FN double tn_math_asinh_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double square = a * a;
  const double b = square / (1 + sqrt(1 + square));
  const double w = a + b;
  const double lost = (a - w) + b;
  const double y = tn_math_log1p_twice(
      a > 0x1p60 ? a : w, a > 0x1p60 ? 0.0 : lost, a > 0x1p60 ? 1.0 : 0.0);
  const double small = a < 0x1p-28 ? a : y;
  return tn_math_signed_f64(a < (double)INFINITY ? small : a, x);
}

/* With t = x - 1 it is log(1 + t + sqrt(t*(t + 2))), or log(2x). */
TN_MATH_FN double tn_math_acosh_f64(double x) {
  const double t = x - 1;
  const double root = sqrt(t * (t + 2));
  const double w = t + root;
  const double lost = (root - w) + t;
  const double y = tn_math_log1p_twice(
      x > 0x1p60 ? x : w, x > 0x1p60 ? 0.0 : lost, x > 0x1p60 ? 1.0 : 0.0);
  const double finite = x < (double)INFINITY ? y : x;
  return x >= 1 ? finite : (double)NAN;
}

/* With (1 + a)/(1 - a) = 2^k*(1 + s)/(1 - s) it is atanh(s) + k*log(2)/2. */
TN_MATH_FN double tn_math_atanh_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double u = 1 + a;
  const double v = 1 - a;
  const double u_lost = a - (u - 1);
  const double v_lost = (1 - v) - a;
  double k;
  (void)tn_math_log_split_f64(u / v, &k);
  const double power =
      tn_math_from_bits_f64(tn_math_bits_f64(k + (0x1p52 + 1023)) << 52);
  /* s in two parts; without a power of two it is a. */
  double lost;
  const double below = tn_math_sum_f64(u, power * v, &lost);
  const double above = u - power * v;
  const double above_lost = u_lost - power * v_lost;
  const double top = above + above_lost;
  const double quotient = top / below;
  const double left = (above_lost - (top - above)) -
                      quotient * (lost + (u_lost + power * v_lost));
  const double s = k == 0 ? a : quotient;
  const double more = k == 0 ? 0.0 : left / below;
  const double z = s * s;
  const double tail = s * z * (0.5 * tn_math_log_series(z));
  const double base = k * 0x1.62e42fefa4p-2;
  const double near = base + s;
  const double far = (base - near) + s;
  const double y = near + (far + (tail + (more + k * -0x1.8432a1b0e2634p-44)));
  const double outside = a == 1 ? (double)INFINITY : (double)NAN;
  /* A product, since gcc selects no constants by their bits. */
  return tn_math_signed_f64(1, x) * (a < 1 ? y : outside);
}

/* -------------------------------------------------------------- hypotenuse */

/* The root of the sum of squares in two parts. Scaling keeps the squares
 * normal. */
TN_MATH_FN double tn_math_hypot_f64(double x, double y) {
  const double ax = tn_math_abs_f64(x);
  const double ay = tn_math_abs_f64(y);
  const double most = ax > ay ? ax : ay;
  const double least = ax > ay ? ay : ax;
  const double up = most < 0x1p-500 ? 0x1p600 : 1.0;
  const double scale = most > 0x1p500 ? 0x1p-600 : up;
  const double a = most * scale;
  const double b = least * scale;
  const double ah = tn_math_upper_f64(a);
  const double bh = tn_math_upper_f64(b);
  const double square = ah * ah;
  const double other = (a - ah) * (a + ah) + (b - bh) * (b + bh);
  const double sum = square + bh * bh;
  const double lost = (square - sum) + bh * bh;
  const double root = sqrt(sum + (lost + other));
  const double down = most < 0x1p-500 ? 0x1p-600 : 1.0;
  const double result = root * (most > 0x1p500 ? 0x1p600 : down);
  const double known = most == (double)INFINITY ? most : result;
  return least == (double)INFINITY ? least : known;
}

#endif /* TENON_KERNEL_MATH_LOG64_H_ */
