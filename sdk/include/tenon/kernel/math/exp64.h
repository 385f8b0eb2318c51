/* SPDX-License-Identifier: Apache-2.0
 * exp64.h: part of math.h: exponentials and logarithms in f64. The coefficients
 * are those of tools/math/minimax.py.
 */
#ifndef TENON_KERNEL_MATH_EXP64_H_
#define TENON_KERNEL_MATH_EXP64_H_

#include "tenon/kernel/math/basic.h"

/* A power of two as a product of two factors that do not overflow. */
typedef struct tn_math_scale {
  double first;
  double second;
  double inverse; /* of second */
} tn_math_scale;

/* (exp(r) - 1 - r)/r^2 for |r| up to ln(2)/2. */
TN_MATH_FN double tn_math_exp_series(double r) {
  double p = 0x1.1f8705ebc4113p-29;
  p = p * r + 0x1.af614b182b37fp-26;
  p = p * r + 0x1.27e4d6fc12455p-22;
  p = p * r + 0x1.71ddf70922e41p-19;
  p = p * r + 0x1.a01a01a4d8641p-16;
  p = p * r + 0x1.a01a01b052133p-13;
  p = p * r + 0x1.6c16c16c174c2p-10;
  p = p * r + 0x1.111111110f5e1p-7;
  p = p * r + 0x1.5555555555552p-5;
  p = p * r + 0x1.5555555555559p-3;
  return p * r + 0.5;
}

/* 2^n of the n + 2046 in the lowest bits of a number of 2^52 or more. */
TN_MATH_FN void tn_math_scale_init(tn_math_scale *scale, double shifted) {
  const uint64_t bits = tn_math_bits_f64(shifted);
  const uint64_t half = bits >> 1;
  scale->first = tn_math_from_bits_f64(half << 52);
  scale->second = tn_math_from_bits_f64((bits - half) << 52);
  scale->inverse = tn_math_from_bits_f64((2046 - (bits - half)) << 52);
}

/* exp(x) - 1 as first*second*(q + 1) - 1; q is returned. |x| is below 750. */
TN_MATH_FN double tn_math_expm1_parts(double x, tn_math_scale *scale) {
  const double magic = 0x1.8p52 + 2046;
  const double shifted = x * 0x1.71547652b82fep+0 + magic;
  const double n = shifted - magic;
  const double high = x - n * 0x1.62e42fefa4p-1;
  const double r = high - n * -0x1.8432a1b0e2634p-43;
  const double lost = (high - r) - n * -0x1.8432a1b0e2634p-43;
  tn_math_scale_init(scale, shifted);
  return r + (tn_math_exp_series(r) * (r * r) + lost);
}

/* exp(x)*factor, which is a power of two. */
TN_MATH_FN double tn_math_exp_times(double x, double factor) {
  tn_math_scale scale;
  const double above = x < -750 ? -750 : x;
  const double q = tn_math_expm1_parts(above > 720 ? 720 : above, &scale);
  return (scale.first * q + scale.first) * (scale.second * factor);
}

TN_MATH_FN double tn_math_exp_f64(double x) {
  return tn_math_exp_times(x, 1);
}

TN_MATH_FN double tn_math_exp_down_f64(double x) {
  return tn_math_exp_times(x, 1);
}

TN_MATH_FN double tn_math_expm1_f64(double x) {
  tn_math_scale scale;
  const double above = x < -50 ? -50 : x;
  const double q = tn_math_expm1_parts(above > 720 ? 720 : above, &scale);
  const double y =
      (scale.first * q + (scale.first - scale.inverse)) * scale.second;
  return x == 0 ? x : y;
}

/* With e = exp(-|x|) it is 1/(1 + e) or e/(1 + e); the rounding error of the
 * sum is subtracted from the quotient. */
TN_MATH_FN double tn_math_sigmoid_f64(double x) {
  const double e = tn_math_exp_times(-tn_math_abs_f64(x), 1);
  const double top = x < 0 ? e : 1.0;
  const double whole = 1 + e;
  const double lost = e - (whole - 1);
  const double y = top / whole;
  return y - y * lost;
}

/* With y = exp(-2|x|) - 1 the magnitude is -y/(2 + y). */
TN_MATH_FN double tn_math_tanh_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double y = tn_math_expm1_f64(-2 * (a > 25 ? 25 : a));
  const double whole = 2 + y;
  const double lost = y - (whole - 2);
  const double coarse = y / whole;
  return tn_math_signed_f64(tn_math_abs_f64(coarse - coarse * (0.75 * lost)),
                            x);
}

TN_MATH_FN double tn_math_cosh_f64(double x) {
  const double half = tn_math_exp_times(tn_math_abs_f64(x), 0.5);
  return half + 0.25 / half;
}

TN_MATH_FN double tn_math_sinh_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double half = tn_math_exp_times(a, 0.5);
  const double large = half - 0.25 / half;
  const double e = tn_math_expm1_f64(a > 2 ? 2 : a);
  const double small = 0.5 * (e + e / (e + 1));
  return tn_math_signed_f64(a > 1 ? large : small, x);
}

/* -------------------------------------------------------------- logarithms */

/* A positive normal u as m*2^k with m from sqrt(1/2) to sqrt(2); m is
 * returned. */
TN_MATH_FN double tn_math_log_split_f64(double u, double *k) {
  const uint64_t bits = tn_math_bits_f64(u);
  const uint64_t biased =
      (bits + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)) >> 52;
  *k = tn_math_from_bits_f64(biased | 0x4330000000000000u) - (0x1p52 + 1023);
  return tn_math_from_bits_f64(bits - (biased << 52) + 0x3ff0000000000000u);
}

/* p of log((1 + s)/(1 - s)) = 2s + s*z*p, where z is s*s; s is up to
 * 0.1716. */
TN_MATH_FN double tn_math_log_series(double z) {
  double p = 0x1.2f04f8468b357p-3;
  p = p * z + 0x1.39a1cc3b02e6bp-3;
  p = p * z + 0x1.74663de7106f3p-3;
  p = p * z + 0x1.c71c52104efcfp-3;
  p = p * z + 0x1.24924941e5256p-2;
  p = p * z + 0x1.999999997feefp-2;
  return p * z + 0x1.5555555555592p-1;
}

/* log(u) of a positive normal u as *k*log(2) and the rest, which is returned;
 * `more` is added to the rest. */
TN_MATH_FN double tn_math_log_parts(double u, double more, double *k) {
  const double f = tn_math_log_split_f64(u, k) - 1;
  /* 2s is f - s*f. */
  const double s = f / (2 + f);
  const double z = s * s;
  return f - (s * (f - z * tn_math_log_series(z)) - more);
}

/* y, computed as if x were positive and finite, corrected for all other x. */
TN_MATH_FN double tn_math_log_ends_f64(double x, double y) {
  const double finite = x == (double)INFINITY ? x : y;
  const double low = x == 0 ? -(double)INFINITY : (double)NAN;
  return x > 0 ? finite : low;
}

TN_MATH_FN double tn_math_log_f64(double x) {
  double k;
  const double normal = x < 0x1p-1022 ? x * 0x1p54 : x;
  const double rest = tn_math_log_parts(normal, 0, &k);
  const double all = x < 0x1p-1022 ? k - 54 : k;
  const double y =
      all * 0x1.62e42fefa4p-1 + (rest + all * -0x1.8432a1b0e2634p-43);
  return tn_math_log_ends_f64(x, y);
}

TN_MATH_FN double tn_math_log2_f64(double x) {
  double k;
  const double normal = x < 0x1p-1022 ? x * 0x1p54 : x;
  const double rest = tn_math_log_parts(normal, 0, &k);
  const double all = x < 0x1p-1022 ? k - 54 : k;
  const double y =
      rest * 0x1.71547652b82fep+0 + (rest * 0x1.777d0ffda0d24p-56 + all);
  return tn_math_log_ends_f64(x, y);
}

TN_MATH_FN double tn_math_log1p_f64(double x) {
  double k;
  const double u = 1 + x;
  const double below = x - (u - 1);
  const double above = 1 - (u - x);
  const double lost = (x < 1 ? below : above) / u;
  const double rest = tn_math_log_parts(u, lost, &k);
  const double y = k * 0x1.62e42fefa4p-1 + (rest + k * -0x1.8432a1b0e2634p-43);
  const double ends = tn_math_log_ends_f64(u, y);
  return x == 0 ? x : ends;
}

TN_MATH_FN double tn_math_softplus_f64(double x) {
  const double most = x > 0 ? x : 0.0;
  const double w = tn_math_exp_times(-tn_math_abs_f64(x), 1);
  return most + tn_math_log1p_f64(w);
}

/* ------------------------------------------------------------------- roots */

/* One over the cube root of |x| is found from the bits and by steps of the
 * fourth order; a step for the root itself corrects its last digits. Factors of
 * 2^54 and 2^-18 are for subnormal numbers. */
TN_MATH_FN double tn_math_cbrt_f64(double x) {
  const double magnitude = tn_math_abs_f64(x);
  const double scaled = magnitude * 0x1p54;
  const double a = magnitude < 0x1p-1022 ? scaled : magnitude;
  const double high =
      tn_math_from_bits_f64((tn_math_bits_f64(a) >> 32) | 0x4330000000000000u) -
      0x1p52;
  const double seed = 1430152017.0 - high * (1.0 / 3);
  double w = tn_math_from_bits_f64(tn_math_bits_f64(seed + 0x1p52) << 32);
  double h = 1 - a * w * (w * w);
  w = w + w * h * (1.0 / 3 + h * (2.0 / 9 + h * (14.0 / 81)));
  h = 1 - a * w * (w * w);
  w = w + w * h * (1.0 / 3 + h * (2.0 / 9 + h * (14.0 / 81)));
  /* The upper 17 bits of the root, with an exact cube, and the rest. */
  const double y =
      tn_math_from_bits_f64(tn_math_bits_f64(a * w * w) & 0xfffffff000000000u);
  const double rest = (a - y * y * y) * (w * w);
  const double t = rest * w * (1.0 / 3);
  const double root = y + rest * (1.0 / 3) * (1 + t * (1 + t * (5.0 / 3)));
  const double unscaled = magnitude < 0x1p-1022 ? root * 0x1p-18 : root;
  const double finite = magnitude < (double)INFINITY ? unscaled : magnitude;
  return tn_math_signed_f64(magnitude > 0 ? finite : magnitude, x);
}

#endif /* TENON_KERNEL_MATH_EXP64_H_ */
