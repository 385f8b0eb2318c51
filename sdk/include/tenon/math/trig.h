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

/* asin(s) - s, and in `s` a, up to 1/2; or sqrt((1 - a)/2), whose asin is what
 * asin(a) lacks to pi/2, halved. What is lost with that root is in `low`, from
 * half of its inverse to an eighth. */
TN_MATH_FN float tn_math_asin_rest(float a, float *s) {
  const int large = a > 0.5f;
  const float half = 0.5f - 0.5f * a;
  const float root = sqrtf(half);
  const float high =
      tn_math_from_bits_f32(tn_math_bits_f32(root) & 0xfffff000u);
  const float rest = (half - high * high) - (root + high) * (root - high);
  const float low =
      rest * tn_math_from_bits_f32(0x7e700000u - tn_math_bits_f32(root));
  const float z = large ? half : a * a;
  *s = large ? root : a;
  float p = 0x1.48aa18p-5f;
  p = p * z + 0x1.a1d878p-6f;
  p = p * z + 0x1.7206c2p-5f;
  p = p * z + 0x1.331f24p-4f;
  p = p * z + 0x1.555556p-3f;
  return (*s * z) * p + (large ? low : 0.0f);
}

/* Above 1/2 it is pi/2 - 2 asin(sqrt((1 - x)/2)). */
TN_MATH_FN float tn_math_asin_f32(float x) {
  float s;
  const float a = tn_math_abs_f32(x);
  const float rest = tn_math_asin_rest(a, &s);
  const float end = 0x1.921fb6p+0f - 2.0f * s;
  const float lost = (0x1.921fb6p+0f - end) - 2.0f * s;
  const float large = end + ((lost - 0x1.777a5cp-25f) - 2.0f * rest);
  return tn_math_signed_f32(a > 0.5f ? large : s + rest, x);
}

/* pi/2 - asin(x), or twice the asin of the root, or what that lacks to pi. */
TN_MATH_FN float tn_math_acos_f32(float x) {
  float s;
  const float a = tn_math_abs_f32(x);
  const float rest = tn_math_asin_rest(a, &s);
  const uint32_t bits = tn_math_bits_f32(x);
  const uint32_t negative = (uint32_t)((int32_t)bits >> 31);
  const float turned = tn_math_from_bits_f32(negative & 0x40490fdbu);
  const float from = a > 0.5f ? turned : 0x1.921fb6p+0f;
  const float times = tn_math_from_bits_f32(
      tn_math_bits_f32(a > 0.5f ? 2.0f : -1.0f) ^ (bits & 0x80000000u));
  const float sum = from + times * s;
  const float lost = (from - sum) + times * s;
  return sum + ((lost - from * 0x1.de12cap-26f) + times * rest);
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
  const float rest = (s * z) * p;
  const float y = (0x1.921fb6p+0f - s) - (rest + 0x1.777a5cp-25f);
  return tn_math_signed_f32(large ? y : s + rest, x);
}

#endif /* TENON_MATH_TRIG_H_ */
