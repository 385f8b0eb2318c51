/* SPDX-License-Identifier: Apache-2.0
 * trig64.h: part of math.h: trigonometric functions in f64. The coefficients
 * are those of tools/math/minimax.py, the table that of tools/math/turns.py.
 */
#ifndef TENON_KERNEL_MATH_TRIG64_H_
#define TENON_KERNEL_MATH_TRIG64_H_

#include "tenon/kernel/math/basic.h"

/* The rest of an angle without quarters of a turn, from -pi/4 to pi/4, in two
 * parts, and the number of quarters, modulo 4 in the lowest bits. */
typedef struct tn_math_angle {
  double high;
  double low;
  uint64_t quarters;
} tn_math_angle;

/* Entry i is of 2/pi * 2^(16*i) the 48 bits from 2^68 down to 2^21. */
static const double tn_math_turns[74] = {
    0x0.0p+0,
    0x0.0p+0,
    0x1.45c0000000p+31,
    0x1.45f306c000p+47,
    0x1.45f306dc9c800p+63,
    0x1.9836e4e441520p+68,
    0x1.c9c882a53f840p+67,
    0x1.054a7f09d5f00p+66,
    0x1.3f84eafa3ea40p+67,
    0x1.d5f47d4d37700p+66,
    0x1.1f534ddc0db60p+68,
    0x1.4ddc0db629580p+68,
    0x1.b6c52b3278800p+63,
    0x1.4acc9e21c8200p+65,
    0x1.93c439041fe40p+68,
    0x1.c820ff28b1d00p+65,
    0x1.fe5163abdea00p+64,
    0x1.163abdebbc560p+68,
    0x1.7bd778ac36e40p+67,
    0x1.bc561b7246e20p+68,
    0x1.b7246e3a42400p+64,
    0x1.1b8e909374b80p+66,
    0x1.a424dd2e00640p+68,
    0x1.ba5c00c925dc0p+67,
    0x1.924bba8270p+58,
    0x1.25dd413a32400p+67,
    0x1.413a32439fc00p+67,
    0x1.1921cfe1deb00p+68,
    0x1.cfe1deb1cb120p+68,
    0x1.deb1cb129a720p+68,
    0x1.cb129a73ee880p+68,
    0x1.34e7dd1046bc0p+67,
    0x1.ee88235f52ea0p+68,
    0x1.1afa975da2400p+65,
    0x1.52ebb4484e980p+68,
    0x1.b4484e99c7020p+68,
    0x1.3a671c09ad100p+66,
    0x1.c7026b45f7e40p+68,
    0x1.ad17df904e600p+66,
    0x1.f7e413991d620p+68,
    0x1.3991d63983400p+64,
    0x1.1d639835339e0p+68,
    0x1.9835339f49c80p+68,
    0x1.339f49c845f80p+68,
    0x1.49c845f8bbde0p+68,
    0x1.17e2ef7e4a080p+66,
    0x1.77bf250763fc0p+67,
    0x1.9283b1ff897e0p+68,
    0x1.b1ff897ffde00p+68,
    0x1.897ffde059800p+68,
    0x1.fde05980fef20p+68,
    0x1.6603fbcbc4600p+66,
    0x1.fde5e2316b400p+67,
    0x1.e2316b414da00p+67,
    0x1.6b414da3eda40p+67,
    0x1.4da3eda6cfd80p+67,
    0x1.f6d367ecf27c0p+68,
    0x1.67ecf27cb09a0p+68,
    0x1.e4f96136e9e80p+67,
    0x1.6136e9e8c7ec0p+67,
    0x1.74f463f669e40p+68,
    0x1.8fd9a797fa880p+66,
    0x1.a797fa8b5d480p+66,
    0x1.fea2d7527bac0p+68,
    0x1.aea4f758fd7c0p+67,
    0x1.eeb1faf97c580p+66,
    0x1.faf97c5ecf400p+66,
    0x1.7c5ecf41ce780p+66,
    0x1.b3d0739f78a40p+68,
    0x1.ce7de294a4b80p+66,
    0x1.78a5292ea6be0p+68,
    0x1.292ea6bfb5fa0p+68,
    0x1.4d7f6bf623f00p+67,
    0x1.b5fb11f8d5d00p+68,
};

/* A product of at most 51 digits that is not negative without multiples of 4,
 * which is exact, also if the sum is such a multiple: then the result is 0. */
TN_MATH_FN double tn_math_quarters_of(double product) {
  return product - ((product + 0x1p54) - 0x1p54);
}

/* a*2/pi without multiples of 4, for a from 2^-15 up: the nearest integer is
 * returned in `quarters`, the rest as high + low. The product of the 53 digits
 * of a and of those 192 digits of 2/pi that count is computed in pieces that
 * are exact. The rest is at least 2^-62, its error below 2^-120. */
TN_MATH_FN void tn_math_turn_f64(double a, tn_math_angle *angle) {
  const uint64_t bits = tn_math_bits_f64(a);
  const uint64_t at = (bits >> 56) - 63;
  const double m =
      tn_math_from_bits_f64((bits & 0x00ffffffffffffffu) | 0x3f00000000000000u);
  const uint64_t upper = 0xffffffffe0000000u;
  const double t0 = tn_math_turns[at];
  const double t1 = tn_math_turns[at + 3] * 0x1p-48;
  const double t2 = tn_math_turns[at + 6] * 0x1p-96;
  const double t3 = tn_math_turns[at + 9] * 0x1p-144;
  const double t0h = tn_math_from_bits_f64(tn_math_bits_f64(t0) & upper);
  const double t1h = tn_math_from_bits_f64(tn_math_bits_f64(t1) & upper);
  const double t2h = tn_math_from_bits_f64(tn_math_bits_f64(t2) & upper);
  const double mh = tn_math_upper_f64(m);
  const double ml = m - mh;
  /* The first ones have no digits below 2^-46, so that their sum is exact. */
  const double whole =
      (tn_math_quarters_of(mh * t0h) + tn_math_quarters_of(mh * (t0 - t0h))) +
      (tn_math_quarters_of(ml * t0h) + tn_math_quarters_of(ml * (t0 - t0h)));
  const double b = tn_math_quarters_of(mh * t1h);
  const double c = mh * (t1 - t1h);
  const double d = ml * t1h;
  const double shifted = ((whole + b) + (c + d)) + 0x1.8p52;
  angle->quarters = tn_math_bits_f64(shifted);
  double e1, e2, e3, e4, e5, e6, e7, e8;
  const double s1 = tn_math_sum_f64(whole - (shifted - 0x1.8p52), b, &e1);
  const double s2 = tn_math_sum_f64(s1, c, &e2);
  const double s3 = tn_math_sum_f64(s2, d, &e3);
  const double s4 = tn_math_sum_f64(s3, ml * (t1 - t1h), &e4);
  const double s5 = tn_math_sum_f64(s4, (e1 + e2) + (e3 + e4), &e5);
  const double s6 = tn_math_sum_f64(s5, mh * t2h, &e6);
  const double s7 = tn_math_sum_f64(s6, mh * (t2 - t2h), &e7);
  const double s8 = tn_math_sum_f64(s7, ml * t2h, &e8);
  const double rest = (e5 + e6) + ((e7 + e8) + (ml * (t2 - t2h) + m * t3));
  angle->high = s8 + rest;
  angle->low = rest - (angle->high - s8);
}

/* |x| without quarters of a turn; NaN if x is not finite. */
TN_MATH_FN tn_math_angle tn_math_angle_f64(double x) {
  tn_math_angle angle;
  const double a = tn_math_abs_f64(x);
  /* A constant would tempt gcc to compute its angle once, in a branch. */
  const double more = a + 0.25;
  tn_math_turn_f64(a < 0x1p-8 ? more : a, &angle);
  /* Times pi/2. Without its last bit the product is none that a compiler may
   * contract. */
  const double s = angle.high;
  const double sh = tn_math_upper_f64(s);
  const double r = tn_math_from_bits_f64(
      tn_math_bits_f64(s * 0x1.921fb54442d18p+0) & 0xfffffffffffffffeu);
  const double low =
      ((sh * 0x1.921fb5p+0 - r) +
       (sh * 0x1.110b46p-26 + (s - sh) * 0x1.921fb54442d18p+0)) +
      (s * 0x1.1a62633145c07p-54 + angle.low * 0x1.921fb54442d18p+0);
  const double high = r + (a - a);
  angle.high = a < 0.5 ? a : high;
  angle.low = a < 0.5 ? 0.0 : low;
  return angle;
}

/* sin(r) of an angle without its quarters, less r.high; z is the square of
 * r.high. */
TN_MATH_FN double tn_math_sin_series(tn_math_angle r, double z) {
  double p = 0x1.5d925cdcc14e1p-33;
  p = p * z - 0x1.ae5e64a676cf8p-26;
  p = p * z + 0x1.71de3576bbdb8p-19;
  p = p * z - 0x1.a01a019c121a7p-13;
  p = p * z + 0x1.111111110f892p-7;
  p = p * z - 0x1.5555555555549p-3;
  return r.low + z * (r.high * p - 0.5 * r.low);
}

/* cos(r), likewise, as the sum of the result and *rest. */
TN_MATH_FN double tn_math_cos_series(tn_math_angle r, double z, double *rest) {
  double p = -0x1.8fb000ff5f0e3p-37;
  p = p * z + 0x1.1ee9ef51f02a7p-29;
  p = p * z - 0x1.27e4f81044d77p-22;
  p = p * z + 0x1.a01a019cbcd8bp-16;
  p = p * z - 0x1.6c16c16c15210p-10;
  p = p * z + 0x1.555555555554cp-5;
  const double half = 0.5 * z;
  const double near = 1 - half;
  *rest = ((1 - near) - half) + (z * z * p - r.high * r.low);
  return near;
}

/* b where the lowest bit of `quarters` is set, otherwise a. */
TN_MATH_FN double tn_math_turn_select(uint64_t quarters, double a, double b) {
  const uint64_t mask = (uint64_t)0 - (quarters & 1);
  return tn_math_from_bits_f64((tn_math_bits_f64(a) & ~mask) |
                               (tn_math_bits_f64(b) & mask));
}

/* y with its sign changed where bit 1 of `quarters` is set. */
TN_MATH_FN double tn_math_turn_sign(uint64_t quarters, double y) {
  return tn_math_from_bits_f64(tn_math_bits_f64(y) ^ ((quarters & 2) << 62));
}

/* y with its sign changed where x has one. */
TN_MATH_FN double tn_math_turn_with(double x, double y) {
  return tn_math_from_bits_f64(tn_math_bits_f64(y) ^
                               (tn_math_bits_f64(x) & 0x8000000000000000u));
}

TN_MATH_FN double tn_math_sin_f64(double x) {
  double rest;
  const tn_math_angle r = tn_math_angle_f64(x);
  const double z = r.high * r.high;
  const double s = r.high + tn_math_sin_series(r, z);
  const double near = tn_math_cos_series(r, z, &rest);
  const double y = tn_math_turn_select(r.quarters, s, near + rest);
  return tn_math_turn_with(x, tn_math_turn_sign(r.quarters, y));
}

TN_MATH_FN double tn_math_cos_f64(double x) {
  double rest;
  const tn_math_angle r = tn_math_angle_f64(x);
  const double z = r.high * r.high;
  const double s = r.high + tn_math_sin_series(r, z);
  const double near = tn_math_cos_series(r, z, &rest);
  const double y = tn_math_turn_select(r.quarters, near + rest, s);
  return tn_math_turn_sign(r.quarters + (r.quarters & 1), y);
}

/* The quotient of sine and cosine, or of cosine and -sine, with the error of
 * each. */
TN_MATH_FN double tn_math_tan_f64(double x) {
  double rest;
  const tn_math_angle r = tn_math_angle_f64(x);
  const double z = r.high * r.high;
  const double series = tn_math_sin_series(r, z);
  const double s = r.high + series;
  const double s_lost = series - (s - r.high);
  const double near = tn_math_cos_series(r, z, &rest);
  const double c = near + rest;
  const double c_lost = rest - (c - near);
  const uint64_t q = r.quarters;
  const double above = tn_math_turn_select(q, s, -c);
  const double above_lost = tn_math_turn_select(q, s_lost, -c_lost);
  const double below = tn_math_turn_select(q, c, s);
  const double below_lost = tn_math_turn_select(q, c_lost, s_lost);
  const double y = above / below;
  const double fix = (above_lost - y * below_lost) / below;
  return tn_math_turn_with(x, y + fix);
}

#endif /* TENON_KERNEL_MATH_TRIG64_H_ */
