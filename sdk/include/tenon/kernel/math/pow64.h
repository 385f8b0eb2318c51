/* SPDX-License-Identifier: Apache-2.0
 * pow64.h: part of math.h: the power in f64. The coefficients are those of
 * tools/math/minimax.py.
 */
#ifndef TENON_KERNEL_MATH_POW64_H_
#define TENON_KERNEL_MATH_POW64_H_

#include "tenon/kernel/math/exp64.h"

/* log2(x) to about 2^-65, relatively, for x from 0 up: the result has 26
 * digits, *low is the rest. Instead of infinity it is 2^1000. */
TN_MATH_FN double tn_math_log2_parts(double x, double *low) {
  double k;
  const double scaled = x * 0x1p54;
  const double m = tn_math_log_split_f64(x < 0x1p-1022 ? scaled : x, &k);
  /* Of 0 and of infinity m is 1. */
  const double few = x < 0x1p-1022 ? k - 54 : k;
  const double some = x == 0 ? -0x1p1000 : few;
  const double whole = x == (double)INFINITY ? 0x1p1000 : some;
  /* s = f/u in two parts; 3/2*log(m) is s*(3 + s^2 + s^4*p). */
  const double f = m - 1;
  const double u = m + 1;
  const double inverse = 1 / u;
  const double s = f * inverse;
  const double sh = tn_math_upper_f64(s);
  const double uh = tn_math_upper_f64(u);
  const double sl = ((f - sh * uh) - sh * (m - (uh - 1))) * inverse;
  const double z = s * s;
  double p = 0x1.7b7369076add6p-3;
  p = p * z + 0x1.65a4fc7b24dd3p-3;
  p = p * z + 0x1.99b95e5409210p-3;
  p = p * z + 0x1.d89cfa52c1906p-3;
  p = p * z + 0x1.1745d220da1cep-2;
  p = p * z + 0x1.555555548c45ep-2;
  p = p * z + 0x1.b6db6db6dbc66p-2;
  p = p * z + 0x1.3333333333333p-1;
  const double zh = sh * sh;
  const double rest = z * z * p + sl * (sh + s);
  const double th = tn_math_upper_f64(3 + zh + rest);
  const double tl = rest - ((th - 3) - zh);
  /* The product of both, times 2/(3 ln 2). */
  const double a = sh * th;
  const double b = sl * th + tl * s;
  const double h = tn_math_upper_f64(a + b);
  const double l = b - (h - a);
  const double yh = h * 0x1.ec709d8p-1;
  const double yl = h * 0x1.0e80ff5d27f05p-27 + l * 0x1.ec709dc3a03fdp-1;
  const double high = tn_math_upper_f64(whole + (yh + yl));
  *low = yl - ((high - whole) - yh);
  return high;
}

/* 2^(high + low), where |low| is below 1 if |high| is below 1100. */
TN_MATH_FN double tn_math_exp2_parts(double high, double low) {
  const double above = high < -1100 ? -1100 : high;
  const double within = above > 1100 ? 1100 : above;
  const double more = within == high ? low : 0.0;
  const double shifted = (within + more) + (0x1.8p52 + 2046);
  const double part = within - (shifted - (0x1.8p52 + 2046));
  /* r = part + more, times ln 2, as y and its error. */
  const double r = tn_math_upper_f64(part + more);
  const double rest = more - (r - part);
  const double a = r * 0x1.62e42f8p-1;
  const double b = rest * 0x1.62e42fefa39efp-1 + r * 0x1.be8e7bcd5e4f2p-27;
  const double y = a + b;
  const double lost = b - (y - a);
  const double one = 1 + y;
  const double end = y - (one - 1);
  const double small = tn_math_exp_series(y) * (y * y) + lost * one;
  tn_math_scale scale;
  tn_math_scale_init(&scale, shifted);
  return (one + (end + small)) * scale.first * scale.second;
}

/* As C's pow: 1 if x is 1 or y is 0, even with NaN; a sign if x has one and y
 * is an odd integer. */
TN_MATH_FN double tn_math_pow_f64(double x, double y) {
  const double a = tn_math_abs_f64(x);
  const double size = tn_math_abs_f64(y);
  double low;
  const double high = tn_math_log2_parts(a, &low);
  /* With more than 2^64 nothing but 1 stays finite and above 0, with less than
   * 2^-64 all but 0 and infinity become 1. */
  const double above = size < 0x1p-100 ? 0x1p-100 : size;
  const double by =
      (above > 0x1p70 ? 0x1p70 : above) * tn_math_signed_f64(1, y);
  const double by_high = tn_math_upper_f64(by);
  const double power =
      tn_math_exp2_parts(high * by_high, (by - by_high) * high + by * low);
  /* From 2^53 up all numbers are even. */
  const double half = 0.5 * (above > 0x1p53 ? 0x1p53 : above);
  const double part = tn_math_abs_f64(half - ((half + 0x1p52) - 0x1p52));
  /* The factor of the power, for odd exponents and for fractions. */
  const double sign = tn_math_signed_f64(1, x);
  const double unreal = x < 0 ? (double)NAN : 1.0;
  const double fraction = a < (double)INFINITY ? unreal : 1.0;
  const double even = part > 0 ? fraction : 1.0;
  const double all = power * (part == 0.5 ? sign : even);
  const double known = x == x ? all : (double)NAN;
  const double unit = x == 1 ? 1.0 : known;
  return y == 0 ? 1.0 : unit;
}

#endif /* TENON_KERNEL_MATH_POW64_H_ */
