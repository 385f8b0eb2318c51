/* SPDX-License-Identifier: Apache-2.0
 * erf64.h: part of math.h: error functions in f64. The coefficients are those
 * of tools/math/minimax.py.
 */
#ifndef TENON_KERNEL_MATH_ERF64_H_
#define TENON_KERNEL_MATH_ERF64_H_

#include "tenon/kernel/math/exp64.h"

/* (u + 1/2)*exp(u*u)*erfc(u) for u from 0.7 to 27.4; *rest is its error. */
TN_MATH_FN double tn_math_erfc_series(double u, double *rest) {
  const double t = (u - 4.375) / (u + 4.375);
  double p = 0x1.1004da32711c5p-27;
  p = p * t - 0x1.43d672e05fbe2p-28;
  p = p * t - 0x1.4dee4ed136908p-24;
  p = p * t + 0x1.13529fa6fb7ddp-23;
  p = p * t + 0x1.d3373ea4f779ap-22;
  p = p * t - 0x1.e011a57e728ddp-20;
  p = p * t + 0x1.43669e0f190f2p-23;
  p = p * t + 0x1.f6d39b9bac9bap-17;
  p = p * t - 0x1.727ae038a1e63p-15;
  p = p * t + 0x1.637b479f6716fp-18;
  p = p * t + 0x1.b92ce2e385147p-12;
  p = p * t - 0x1.02a5c29a4fd6bp-9;
  p = p * t + 0x1.7e357cc866c98p-8;
  p = p * t - 0x1.b0397fc41fadbp-7;
  p = p * t + 0x1.8d1fc0ecd7ba8p-6;
  p = p * t - 0x1.2df33a6b36f99p-5;
  p = p * t + 0x1.77fccd3f51b32p-5;
  p = p * t - 0x1.689d7b6215ce6p-5;
  p = p * t + 0x1.922af01f42f1fp-6;
  p = p * t + 0x1.e2a808910c767p-7;
  p = p * t - 0x1.19c9fea00b6bfp-4;
  p = p * t + 0x1.4c9d2293671b0p-55;
  const double y = 0x1.3a0e40ca89a98p-1 + p;
  *rest = p - (y - 0x1.3a0e40ca89a98p-1);
  return y;
}

/* (a + 3/4)*exp(a*a/2)*erfc(a/sqrt(2))/2 for a from 0.98 to 38.8, likewise. */
TN_MATH_FN double tn_math_gelu_series(double a, double *rest) {
  const double t = (a - 6.125) / (a + 6.125);
  double p = 0x1.5b9587dc0534dp-28;
  p = p * t - 0x1.df80225a742d9p-28;
  p = p * t - 0x1.8239045b5b4e4p-25;
  p = p * t + 0x1.e88e68f074922p-24;
  p = p * t + 0x1.a83b6ab12cde7p-23;
  p = p * t - 0x1.4be7c7bf8a627p-20;
  p = p * t + 0x1.cabe22faeb3a4p-21;
  p = p * t + 0x1.1c88713d8740ap-17;
  p = p * t - 0x1.0273d3b036e38p-15;
  p = p * t + 0x1.48b505d450bbep-16;
  p = p * t + 0x1.e227fcc55a607p-13;
  p = p * t - 0x1.3f0eedd265570p-10;
  p = p * t + 0x1.eda4295f91320p-9;
  p = p * t - 0x1.1e5573e70365dp-7;
  p = p * t + 0x1.0b1b172e68eccp-6;
  p = p * t - 0x1.9934c94b4d119p-6;
  p = p * t + 0x1.fcc6c83ea7a82p-6;
  p = p * t - 0x1.dea039c3bd894p-6;
  p = p * t + 0x1.de0c344ba8f52p-7;
  p = p * t + 0x1.d764239035ccap-7;
  p = p * t - 0x1.b9e09cd11e565p-5;
  p = p * t - 0x1.1bc2baa93120ep-56;
  const double y = 0x1.bf2f032a965dbp-2 + p;
  *rest = p - (y - 0x1.bf2f032a965dbp-2);
  return y;
}

/* (y + more)*exp(-a*a*factor), where the factor is a power of two and the
 * exponent is above -750. */
TN_MATH_FN double tn_math_gauss_times(double a, double factor, double y,
                                      double more) {
  tn_math_scale scale;
  const double high = tn_math_upper_f64(a);
  /* Without its last bit it is no product that a compiler may contract. */
  const double square =
      tn_math_from_bits_f64(tn_math_bits_f64(a * a) & 0xfffffffffffffffeu);
  const double lost = (high * high - square) + (a - high) * (a + high);
  const double r = tn_math_expm1_parts(-square * factor, &scale);
  const double e = lost * factor;
  const double q = r - (e + e * r);
  const double all = y + (more + (y * q + more * q));
  return all * scale.first * scale.second;
}

/* erfc(u) for u from 0.7 to 27.4. */
TN_MATH_FN double tn_math_erfc_tail(double u) {
  double rest;
  const double y = tn_math_erfc_series(u, &rest);
  const double below = u + 0.5;
  const double lost = u - (below - 0.5);
  return tn_math_gauss_times(u, 1, y, rest - y * (lost / below)) / below;
}

/* erf(x)/x - 1 for |x| up to 1; z is x*x. */
TN_MATH_FN double tn_math_erf_series(double z) {
  double p = -0x1.9ff991252b362p-31;
  p = p * z + 0x1.d323c068316dap-27;
  p = p * z - 0x1.5b72f33ea4d81p-23;
  p = p * z + 0x1.b96771193c45cp-20;
  p = p * z - 0x1.f4c7d1811b3b4p-17;
  p = p * z + 0x1.f9a2913036de4p-14;
  p = p * z - 0x1.c02dae82f141ap-11;
  p = p * z + 0x1.565bccedb3dccp-8;
  p = p * z - 0x1.b82ce311a2622p-6;
  p = p * z + 0x1.ce2f21a03f77ap-4;
  p = p * z - 0x1.812746b03799cp-2;
  return p * z + 0x1.06eba8214db68p-3;
}

TN_MATH_FN double tn_math_erf_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double large = 1 - tn_math_erfc_tail(a > 6 ? 6 : a);
  const double small = a + a * tn_math_erf_series(a * a);
  return tn_math_signed_f64(a < 0.85 ? small : large, x);
}

TN_MATH_FN double tn_math_erfc_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double tail = tn_math_erfc_tail(a > 27.375 ? 27.375 : a);
  const double mirrored = 2 - tail;
  const double large = x < 0 ? mirrored : tail;
  const double whole = 1 - x;
  const double lost = (1 - whole) - x;
  const double small = whole + (lost - x * tn_math_erf_series(a * a));
  return a < 0.75 ? small : large;
}

/* a*erfc(a/sqrt(2))/2 for a from 1 to 38.8: the series without its factor
 * a + 3/4, times a, which is without its part k. */
TN_MATH_FN double tn_math_gelu_tail(double a) {
  double rest;
  const double y = tn_math_gelu_series(a, &rest);
  const double below = a + 0.75;
  const double lost = a - (below - 0.75);
  const double about = 0.75 / below;
  const double k = about - about * about * (lost * (4.0 / 3));
  const double part = y * k;
  const double near = y - part;
  const double more = (rest - rest * k) + ((y - near) - part);
  return tn_math_gauss_times(a, 0.5, near, more);
}

/* 1 + erf(x/sqrt(2)) for |x| up to 1, where erf is x*(3/4 + p). */
TN_MATH_FN double tn_math_gelu_factor(double x) {
  const double z = x * x;
  double p = -0x1.16f1588c20580p-38;
  p = p * z - 0x1.633d10f7ea1c5p-33;
  p = p * z + 0x1.2f7880f1bf938p-28;
  p = p * z - 0x1.617f14056c011p-24;
  p = p * z + 0x1.658326ca35e67p-20;
  p = p * z - 0x1.3ce8cbf9e05f5p-16;
  p = p * z + 0x1.e42b0bdc104c8p-13;
  p = p * z - 0x1.37403f686a0afp-9;
  p = p * z + 0x1.46d0429762ac2p-6;
  p = p * z - 0x1.1058377e2ceb0p-3;
  p = p * z + 0x1.884533d43650cp-5;
  const double high = tn_math_upper_f64(x);
  const double part = 0.75 * high;
  const double near = 1 + part;
  const double far = part - (near - 1);
  return near + (far + (0.75 * (x - high) + x * p));
}

/* x*(1 + erf(x/sqrt(2)))/2. From 1 up it is x less |x|*erfc(|x|/sqrt(2))/2, and
 * below -1 that alone. */
TN_MATH_FN double tn_math_gelu_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double tail = tn_math_gelu_tail(a > 38.7 ? 38.7 : a);
  const double positive = x - tail;
  const double large = x < 0 ? -tail : positive;
  const double small = x * tn_math_gelu_factor(x) * 0.5;
  return a < 1 ? small : large;
}

#endif /* TENON_KERNEL_MATH_ERF64_H_ */
