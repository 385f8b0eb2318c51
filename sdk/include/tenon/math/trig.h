/* SPDX-License-Identifier: Apache-2.0
 * trig.h: part of math.h: trigonometric functions and their inverses in f32.
 * The coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_MATH_TRIG_H_
#define TENON_MATH_TRIG_H_

#include "tenon/math/trig64.h"

/* One piece of 27 bits of 2/pi, divided by 4: its product with a float is
 * exact, and so is what is left of it without whole turns, which is returned.
 * The product is an even multiple of what a double resolves where it exceeds
 * 2^52, so that nothing is left of it then. */
TN_MATH_FN double tn_math_turn_piece(double x, double piece) {
  const double turns = x * piece;
  return turns - ((turns + 0x1p52) - 0x1p52);
}

/* |x| without multiples of pi/2: what is left, from -pi/4 to pi/4, and the
 * number of quarters of a turn, modulo 4 in the lowest bits. NaN for what is
 * not finite. */
TN_MATH_FN double tn_math_turn(float x, uint64_t *quarters) {
  const double a = (double)tn_math_abs_f32(x);
  double turns = tn_math_turn_piece(a, 0x1.45f306cp-3);
  turns += tn_math_turn_piece(a, 0x1.c9c8828p-31);
  turns += tn_math_turn_piece(a, 0x1.29fc27p-58);
  turns += tn_math_turn_piece(a, 0x1.5f47d4cp-84);
  turns += tn_math_turn_piece(a, 0x1.3770368p-112);
  turns += tn_math_turn_piece(a, 0x1.629599p-138);
  turns += tn_math_turn_piece(a, 0x1.e21c82p-165);
  const double shifted = 4 * turns + 0x1.8p52;
  *quarters = tn_math_bits_f64(shifted);
  return (4 * turns - (shifted - 0x1.8p52)) * 0x1.921fb54442d18p+0;
}

/* The sine and the cosine of r from -pi/4 to pi/4, to 2^-37. */
TN_MATH_FN double tn_math_sin_short(double r) {
  const double z = r * r;
  double p = 0x1.6ccf5d51392b1p-19;
  p = p * z - 0x1.a00f745d3c1cep-13;
  p = p * z + 0x1.1111085d05713p-7;
  p = p * z - 0x1.5555554c5f7e7p-3;
  return r + r * z * p;
}

TN_MATH_FN double tn_math_cos_short(double r) {
  const double z = r * r;
  double p = -0x1.23c75e3fd3164p-22;
  p = p * z + 0x1.a00eadf3509e3p-16;
  p = p * z - 0x1.6c16b332942fbp-10;
  p = p * z + 0x1.55555545a468dp-5;
  p = p * z - 0x1.ffffffffe94fbp-2;
  return p * z + 1;
}

TN_MATH_FN float tn_math_sin_f32(float x) {
  uint64_t quarters;
  const double r = tn_math_turn(x, &quarters);
  const double y =
      tn_math_turn_select(quarters, tn_math_sin_short(r), tn_math_cos_short(r));
  const float positive = (float)tn_math_turn_sign(quarters, y);
  return tn_math_from_bits_f32(tn_math_bits_f32(positive) ^
                               (tn_math_bits_f32(x) & 0x80000000u));
}

TN_MATH_FN float tn_math_cos_f32(float x) {
  uint64_t quarters;
  const double r = tn_math_turn(x, &quarters);
  const double y =
      tn_math_turn_select(quarters, tn_math_cos_short(r), tn_math_sin_short(r));
  return (float)tn_math_turn_sign(quarters + (quarters & 1), y);
}

TN_MATH_FN float tn_math_tan_f32(float x) {
  uint64_t quarters;
  const double r = tn_math_turn(x, &quarters);
  const double s = tn_math_sin_short(r);
  const double c = tn_math_cos_short(r);
  const double above = tn_math_turn_select(quarters, s, -c);
  const double below = tn_math_turn_select(quarters, c, s);
  const float positive = (float)tn_math_divide_short(above, below);
  return tn_math_from_bits_f32(tn_math_bits_f32(positive) ^
                               (tn_math_bits_f32(x) & 0x80000000u));
}

/* ---------------------------------------------------------------- inverses */

/* asin(s) where a is up to 1/2 and s is a, otherwise where s is
 * sqrt((1 - a)/2), in double. The root of a float, with one step of Newton's,
 * is good enough and cheaper than that of a double. */
TN_MATH_FN double tn_math_asin_short(float a) {
  const double half = 0.5 - 0.5 * (double)a;
  const float coarse = sqrtf((float)half);
  const double slope = (double)(0.5f / (coarse + 0x1p-60f));
  const double root =
      (double)coarse + (half - (double)coarse * (double)coarse) * slope;
  const double s = a > 0.5f ? root : (double)a;
  const double z = a > 0.5f ? half : (double)a * (double)a;
  double p = 0x1.48aa18p-5;
  p = p * z + 0x1.a1d878p-6;
  p = p * z + 0x1.7206c2p-5;
  p = p * z + 0x1.331f24p-4;
  p = p * z + 0x1.555556p-3;
  return s + s * z * p;
}

/* Above 1/2 it is pi/2 - 2 asin(sqrt((1 - x)/2)). */
TN_MATH_FN float tn_math_asin_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const double y = tn_math_asin_short(a);
  const double rest = 0x1.921fb54442d18p+0 - 2 * y;
  return tn_math_signed_f32((float)(a > 0.5f ? rest : y), x);
}

TN_MATH_FN float tn_math_acos_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const double y = tn_math_asin_short(a);
  const double most = 0x1.921fb54442d18p+1 - 2 * y;
  const double end = x < 0 ? most : 2 * y;
  const double less = 0x1.921fb54442d18p+0 - y;
  const double more = 0x1.921fb54442d18p+0 + y;
  const double middle = x < 0 ? more : less;
  return (float)(a > 0.5f ? end : middle);
}

/* Above 1 it is pi/2 - atan(1/x). */
TN_MATH_FN float tn_math_atan_f32(float x) {
  const float a = tn_math_abs_f32(x);
  const int large = a > 1.0f;
  const float inverse = 1.0f / a;
  const float s = large ? inverse : a;
  const float z = s * s;
  float p = 0x1.ab397ep-9f;
  p = p * z - 0x1.23171ap-6f;
  p = p * z + 0x1.755130p-5f;
  p = p * z - 0x1.3de188p-4f;
  p = p * z + 0x1.b918c2p-4f;
  p = p * z - 0x1.239ccep-3f;
  p = p * z + 0x1.998c62p-3f;
  p = p * z - 0x1.555554p-2f;
  const float y = s + s * (z * p);
  const float rest = 0x1.921fb6p+0f - (y + 0x1.777a5cp-25f);
  return tn_math_signed_f32(large ? rest : y, x);
}

#endif /* TENON_MATH_TRIG_H_ */
