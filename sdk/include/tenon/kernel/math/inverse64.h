/* SPDX-License-Identifier: Apache-2.0
 * inverse64.h: part of math.h: inverses of trigonometric functions in f64. The
 * coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_KERNEL_MATH_INVERSE64_H_
#define TENON_KERNEL_MATH_INVERSE64_H_

#include "tenon/kernel/math/basic.h"

/* (asin(s)/s - 1) for s up to 1/2; z is s*s. */
TN_MATH_FN double tn_math_asin_series(double z) {
  double p = 0x1.0be44d9cfbd2bp-5;
  p = p * z - 0x1.59f64382ca441p-6;
  p = p * z + 0x1.6501e010cf2a9p-6;
  p = p * z + 0x1.e15b84eda89ecp-9;
  p = p * z + 0x1.618ab92eb8d3fp-7;
  p = p * z + 0x1.75778cd595e6cp-7;
  p = p * z + 0x1.ca21446560b96p-7;
  p = p * z + 0x1.1c49ddffdb460p-6;
  p = p * z + 0x1.6e8bdfe6b55d0p-6;
  p = p * z + 0x1.f1c71a8b9bab6p-6;
  p = p * z + 0x1.6db6db722b662p-5;
  p = p * z + 0x1.333333332df16p-4;
  p = p * z + 0x1.5555555555578p-3;
  return z * p;
}

/* Above 1/2, asin(a) is pi/2 - 2 asin(sqrt((1 - a)/2)): that root and its
 * error, at 1 too. Below it is a. */
TN_MATH_FN double tn_math_asin_root(double a, double *lost) {
  const double half = 0.5 - 0.5 * a;
  const double root = sqrt(half);
  const double high = tn_math_upper_f64(root);
  const double rest = (half - high * high) / (root + high + 0x1p-1000);
  *lost = rest - (root - high);
  return root;
}

TN_MATH_FN double tn_math_asin_f64(double x) {
  double lost;
  const double a = tn_math_abs_f64(x);
  const double root = tn_math_asin_root(a, &lost);
  const double half = 0.5 - 0.5 * a;
  const double p = tn_math_asin_series(a > 0.5 ? half : a * a);
  const double small = a + a * p;
  /* pi/2 - 2*(root + lost + root*p) */
  const double near = 0x1.921fb54442d18p+0 - 2 * root;
  const double far = (0x1.921fb54442d18p+0 - near) - 2 * root;
  const double large =
      near + (far + (0x1.1a62633145c07p-54 - 2 * (root * p + lost)));
  return tn_math_signed_f64(a > 0.5 ? large : small, x);
}

TN_MATH_FN double tn_math_acos_f64(double x) {
  double lost;
  const double a = tn_math_abs_f64(x);
  const double root = tn_math_asin_root(a, &lost);
  const double half = 0.5 - 0.5 * a;
  const double p = tn_math_asin_series(a > 0.5 ? half : a * a);
  /* From -1/2 to 1/2 it is pi/2 - (x + x*p). */
  const double near = 0x1.921fb54442d18p+0 - x;
  const double far = (0x1.921fb54442d18p+0 - near) - x;
  const double small = near + (far + (0x1.1a62633145c07p-54 - x * p));
  /* Above 2*(root + lost + root*p), below pi less that. */
  const double twice = 2 * (root + (lost + root * p));
  const double left = 0x1.921fb54442d18p+1 - 2 * root;
  const double gone = (0x1.921fb54442d18p+1 - left) - 2 * root;
  const double most =
      left + (gone + (0x1.1a62633145c07p-53 - 2 * (root * p + lost)));
  const double large = x < 0 ? most : twice;
  return a > 0.5 ? large : small;
}

/* atan(a) is atan(t) and 0, pi/4 or pi/2, where t is a up to 2/3, otherwise
 * (a - 1)/(a + 1) up to 7/4, otherwise -1/a. */
TN_MATH_FN double tn_math_atan_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double less = a - 1;
  const double above_low = a > 0x1.5555555555555p-1 ? less : a;
  const double above = a > 1.75 ? -1.0 : above_low;
  const double more = a + 1;
  const double below_low = a > 0x1.5555555555555p-1 ? more : 1.0;
  const double below = a > 1.75 ? a : below_low;
  const double base_low = a > 0x1.5555555555555p-1 ? 0x1.921fb54442d18p-1 : 0.0;
  const double base = a > 1.75 ? 0x1.921fb54442d18p+0 : base_low;
  const double t = above / below;
  const double z = t * t;
  double p = 0x1.68c4cc8334a2dp-10;
  p = p * z - 0x1.b669a17a1da53p-8;
  p = p * z + 0x1.094978cebf446p-6;
  p = p * z - 0x1.b79d1ec9f482fp-6;
  p = p * z + 0x1.23c562b9b9237p-5;
  p = p * z - 0x1.5858dfcd51db7p-5;
  p = p * z + 0x1.831e0b3da79bap-5;
  p = p * z - 0x1.ae967efb1a145p-5;
  p = p * z + 0x1.e1ccdd4606736p-5;
  p = p * z - 0x1.110ff2507f5f9p-4;
  p = p * z + 0x1.3b139b2daebefp-4;
  p = p * z - 0x1.745d16183053cp-4;
  p = p * z + 0x1.c71c71bc89a4ap-4;
  p = p * z - 0x1.2492492475e11p-3;
  p = p * z + 0x1.99999999994bfp-3;
  p = p * z - 0x1.5555555555553p-2;
  const double near = base + t;
  const double far = t - (near - base);
  const double rest = base * 0x1.678afae35cdd1p-55;
  const double y = near + (far + (rest + t * (z * p)));
  return tn_math_signed_f64(a > 0x1.5555555555555p-1 ? y : t + t * (z * p), x);
}

#endif /* TENON_KERNEL_MATH_INVERSE64_H_ */
