/* SPDX-License-Identifier: Apache-2.0
 * gamma.h: part of math.h: the gamma function and related functions in f32. The
 * coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_KERNEL_MATH_GAMMA_H_
#define TENON_KERNEL_MATH_GAMMA_H_

#include "tenon/kernel/math/f64.h"
#include "tenon/kernel/math/log.h"

TN_MATH_FN float tn_math_digamma_f32(float x) {
  return (float)tn_math_digamma_f64((double)x);
}

/* lgamma(x) for x from 1 to 3. */
TN_MATH_FN double tn_math_lgamma_unit(double x) {
  const double u = x - 2;
  const double u2 = u * u;
  const double u4 = u2 * u2;
  const double p0 = (-0x1.95cd7cb21e564p-7 * u + 0x1.0e0ca064ac225p-5) * u2 +
                    (-0x1.9ae6512f6f298p-4 * u + 0x1.b0ee607169b69p-2);
  const double p4 = (-0x1.a58254b9c061cp-12 * u + 0x1.e04d59d2e7705p-11) * u2 +
                    (-0x1.146c571563a4cp-9 * u + 0x1.4795b6b64d5f3p-8);
  const double p8 = (-0x1.e8b2d403169b9p-18 * u + 0x1.6ea27a7fc5c47p-15) * u2 +
                    (-0x1.80c31a04acea7p-14 * u + 0x1.7914ea1ea63b8p-13);
  const double p12 = 0x1.471cdc6a45a3cp-18 * u2 +
                     (-0x1.44b9986078ecdp-17 * u + 0x1.2dd4cf4ef1776p-19);
  const double p = ((p12 * u4 + p8) * u4 + p4) * u4 + p0;
  return (u * (u + 1)) * p;
}

/* lgamma(x) for x > 0, to 2^-31; `log_x` is log(x). Above 3 it is Stirling's
 * series, below 1 it is derived from lgamma(x + 1). */
TN_MATH_FN double tn_math_lgamma_positive(double x, double log_x) {
  const double above = x < 1 ? x + 1 : x;
  const double unit = tn_math_lgamma_unit(above > 3 ? 3.0 : above);
  const double low = unit + (x < 1 ? -log_x : 0.0);
  const double inverse = tn_math_divide_short(1, x);
  const double z = inverse * inverse;
  double p = 0x1.09fbba73c9e1cp-11;
  p = p * z - 0x1.29b1867d9e6c3p-11;
  p = p * z + 0x1.9f9458e3306bdp-11;
  p = p * z - 0x1.6c1651981cc7ep-9;
  p = p * z + 0x1.555555537299ep-4;
  const double high =
      ((x - 0.5) * log_x - x) + (0x1.d67f1c864beb5p-1 + p * inverse);
  return x > 3 ? high : low;
}

/* log|gamma(x)|. `sine` is sin(pi*|x|), by which gamma(x) is divided where x is
 * negative; 0 at all integers. */
TN_MATH_FN double tn_math_lgamma_short(float x, double *sine) {
  const double y = (double)tn_math_abs_f32(x);
  const double shifted = y + 0x1p52;
  const double f = y - (shifted - 0x1p52);
  const double z = f * f;
  double p = -0x1.cc32052b3f37dp-8;
  p = p * z + 0x1.500fe26c5bce9p-4;
  p = p * z - 0x1.32d111779793dp-1;
  p = p * z + 0x1.466bbfbf8153bp+1;
  p = p * z - 0x1.4abbce4f100b4p+2;
  p = p * z + 0x1.921fb5441e32cp+1;
  *sine = tn_math_from_bits_f64(tn_math_bits_f64(f * p) ^
                                (tn_math_bits_f64(shifted) << 63));
  const double positive = tn_math_lgamma_positive(y, tn_math_log_short(y));
  const double other = tn_math_log_short(y * tn_math_abs_f64(*sine));
  const double negative = (0x1.250d048e7a1bdp+0 - other) - positive;
  const double side = x < 0 ? negative : positive;
  const double pole = ((x < 0) & (*sine == 0)) ? (double)INFINITY : side;
  const double ends = y == 0 ? (double)INFINITY : pole;
  return y < INFINITY ? ends : y;
}

TN_MATH_FN float tn_math_lgamma_f32(float x) {
  double sine;
  return (float)tn_math_lgamma_short(x, &sine);
}

TN_MATH_FN float tn_math_gamma_f32(float x) {
  double sine;
  const double log_y = tn_math_lgamma_short(x, &sine);
  const double above = log_y < -200 ? -200 : log_y;
  const double y = tn_math_exp_short(above > 200 ? 200 : above);
  /* Below 0 it has the opposite sign of the sine, and no value where that is 0,
   * nor at -infinity. */
  const double sign = tn_math_signed_f64(1.0, x < 0 ? -sine : (double)x);
  const double known = tn_math_abs_f64(sine) > 0 ? y : (double)NAN;
  return (float)(sign * (x < 0 ? known : y));
}

#endif /* TENON_KERNEL_MATH_GAMMA_H_ */
