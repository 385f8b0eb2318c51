/* SPDX-License-Identifier: Apache-2.0
 * trig.h: part of math.h: trigonometric functions and their inverses in f32.
 * The coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_KERNEL_MATH_TRIG_H_
#define TENON_KERNEL_MATH_TRIG_H_

#include "tenon/kernel/math/trig64.h"

/* One piece of 27 bits of 2/pi, divided by 4: its product with a float is
 * exact, and so is the result, the product without whole turns. A product above
 * 2^52 is an even multiple of a double's resolution, so the result is 0
 * then. */
TN_MATH_FN double tn_math_turn_piece(double x, double piece) {
  const double turns = x * piece;
  return turns - ((turns + 0x1p52) - 0x1p52);
}

/* |x| without multiples of pi/2: the rest, from -pi/4 to pi/4, and the number
 * of quarters of a turn, modulo 4 in the lowest bits. NaN if x is not
 * finite. */
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

/* An angle r + low from -pi/4 to pi/4 and quarters of a turn, modulo 4 in the
 * lowest bits. */
typedef struct tn_math_short_angle {
  float r;
  float low;
  uint32_t quarters;
} tn_math_short_angle;

/* Numbers from 0 to this, as bits, are near. */
#define TN_MATH_NEAR 0x44800000u /* 1024 */

/* Of a number that is near, from four parts of pi/2; all products but the last
 * are exact. */
TN_MATH_FN tn_math_short_angle tn_math_short_angle_near(float a) {
  tn_math_short_angle angle;
  const float magic = 0x1.8p23f;
  const float shifted = a * 0x1.45f306p-1f + magic;
  const float n = shifted - magic;
  const float rest = (a - n * 0x1.921p+0f) - n * 0x1.f6ap-13f;
  angle.r = rest - n * 0x1.11p-26f;
  angle.low = ((rest - angle.r) - n * 0x1.11p-26f) - n * 0x1.68c234p-39f;
  angle.quarters = tn_math_bits_f32(shifted);
  return angle;
}

/* Of any number. Those that are near have the same angle in both. */
TN_MATH_FN tn_math_short_angle tn_math_short_angle_any(float a) {
  uint64_t quarters;
  const tn_math_short_angle near = tn_math_short_angle_near(a);
  const double r = tn_math_turn(a, &quarters);
  const int far = tn_math_bits_f32(a) > TN_MATH_NEAR;
  tn_math_short_angle angle;
  angle.r = (float)r;
  angle.low = far ? (float)(r - (double)angle.r) : near.low;
  angle.r = far ? angle.r : near.r;
  angle.quarters = far ? (uint32_t)quarters : near.quarters;
  return angle;
}

TN_MATH_FN float tn_math_short_angle_sin(tn_math_short_angle angle) {
  const float z = angle.r * angle.r;
  float p = -0x1.9954a4p-13f;
  p = p * z + 0x1.11077ap-7f;
  p = p * z - 0x1.555546p-3f;
  return angle.r + ((angle.r * z) * p + angle.low);
}

TN_MATH_FN float tn_math_short_angle_cos(tn_math_short_angle angle) {
  const float z = angle.r * angle.r + 2.0f * angle.r * angle.low;
  float p = 0x1.99e0eep-16f;
  p = p * z - 0x1.6c0c1ap-10f;
  p = p * z + 0x1.55554ap-5f;
  p = p * z - 0.5f;
  return p * z + 1.0f;
}

/* b where the lowest bit of `quarters` is set, otherwise a. */
TN_MATH_FN float tn_math_short_angle_select(uint32_t quarters, float a,
                                            float b) {
  return quarters & 1 ? b : a;
}

/* y with its sign changed where the highest bit of `turned` is set. */
TN_MATH_FN float tn_math_short_angle_turn(float y, uint32_t turned) {
  return tn_math_from_bits_f32(tn_math_bits_f32(y) ^ (turned & 0x80000000u));
}

TN_MATH_FN float tn_math_sin_of(float x, tn_math_short_angle angle) {
  const float y =
      tn_math_short_angle_select(angle.quarters, tn_math_short_angle_sin(angle),
                                 tn_math_short_angle_cos(angle));
  return tn_math_short_angle_turn(y,
                                  tn_math_bits_f32(x) ^ (angle.quarters << 30));
}

TN_MATH_FN float tn_math_cos_of(float x, tn_math_short_angle angle) {
  (void)x;
  const float y =
      tn_math_short_angle_select(angle.quarters, tn_math_short_angle_cos(angle),
                                 tn_math_short_angle_sin(angle));
  return tn_math_short_angle_turn(y, (angle.quarters + (angle.quarters & 1))
                                         << 30);
}

TN_MATH_FN float tn_math_tan_of(float x, tn_math_short_angle angle) {
  const float z = angle.r * angle.r;
  float p = 0x1.231986p-8f;
  p = p * z - 0x1.83710ap-15f;
  p = p * z + 0x1.66a9e0p-7f;
  p = p * z + 0x1.5bf930p-6f;
  p = p * z + 0x1.baee2ep-5f;
  p = p * z + 0x1.110d22p-3f;
  p = p * z + 0x1.555562p-2f;
  const float t = angle.r + ((angle.r * z) * p + angle.low);
  const float y = tn_math_short_angle_select(angle.quarters, t, -1.0f / t);
  return tn_math_short_angle_turn(y, tn_math_bits_f32(x));
}

/* sin, cos and tan; and the same for loops that compute a part again with those
 * if the highest bit of `far` is set then: if a number was not near, and its
 * result is garbage. */
#define TN_MATH_ANGLE(name)                                                  \
  TN_MATH_FN float tn_math_##name##_f32(float x) {                           \
    return tn_math_##name##_of(x,                                            \
                               tn_math_short_angle_any(tn_math_abs_f32(x))); \
  }                                                                          \
  TN_MATH_FN float tn_math_##name##_near_f32(float x, uint32_t *far) {       \
    const float a = tn_math_abs_f32(x);                                      \
    *far |= TN_MATH_NEAR - tn_math_bits_f32(a);                              \
    return tn_math_##name##_of(x, tn_math_short_angle_near(a));              \
  }

TN_MATH_ANGLE(sin)
TN_MATH_ANGLE(cos)
TN_MATH_ANGLE(tan)
#undef TN_MATH_ANGLE

/* ---------------------------------------------------------------- inverses */

/* The parts of asin(a): s is a, up to 1/2, or root = sqrt((1 - a)/2), with
 * asin(root) = (pi/2 - asin(a))/2. `rest` is asin(s) - s; for the root it
 * includes the rounding error, by half of its inverse to an eighth. `high` has
 * the first digits of s. */
typedef struct tn_math_arc {
  int large;
  float s;
  float rest;
  float root;
  float high;
} tn_math_arc;

TN_MATH_FN tn_math_arc tn_math_arc_of(float a) {
  tn_math_arc arc;
  const float half = 0.5f - 0.5f * a;
  const float root = sqrtf(half);
  const float high = tn_math_upper_f32(root);
  const float rest = (half - high * high) - (root + high) * (root - high);
  const float low =
      rest * tn_math_from_bits_f32(0x7e700000u - tn_math_bits_f32(root));
  /* Of both it is the smaller one. */
  const float z = tn_math_from_bits_f32(tn_math_least_bits(a * a, half));
  float p = 0x1.48aa18p-5f;
  p = p * z + 0x1.a1d878p-6f;
  p = p * z + 0x1.7206c2p-5f;
  p = p * z + 0x1.331f24p-4f;
  p = p * z + 0x1.555556p-3f;
  arc.large = a > 0.5f;
  arc.s = tn_math_from_bits_f32(tn_math_least_bits(a, root));
  arc.rest = (arc.s * z) * p + tn_math_select_f32(arc.large, low, 0.0f);
  arc.root = root;
  arc.high = high;
  return arc;
}

/* Above 1/2 it is pi/2 - 2 asin(sqrt((1 - x)/2)). */
TN_MATH_FN float tn_math_asin_f32(float x) {
  const tn_math_arc arc = tn_math_arc_of(tn_math_abs_f32(x));
  const float end = 0x1.921fb6p+0f - 2.0f * arc.high; /* exact */
  const float lost = (arc.root - arc.high) + arc.rest;
  const float large = end - (2.0f * lost + 0x1.777a5cp-25f);
  return tn_math_signed_f32(arc.large ? large : arc.s + arc.rest, x);
}

/* pi/2 - asin(x), or twice the asin of the root, or pi minus that. */
TN_MATH_FN float tn_math_acos_f32(float x) {
  const tn_math_arc arc = tn_math_arc_of(tn_math_abs_f32(x));
  const uint32_t bits = tn_math_bits_f32(x);
  const uint32_t negative = (uint32_t)((int32_t)bits >> 31);
  const float turned = tn_math_from_bits_f32(negative & 0x40490fdbu);
  const float from = tn_math_select_f32(arc.large, turned, 0x1.921fb6p+0f);
  const float times = tn_math_from_bits_f32(
      tn_math_bits_f32(arc.large ? 2.0f : -1.0f) ^ (bits & 0x80000000u));
  return from + (times * arc.s + (times * arc.rest - from * 0x1.de12cap-26f));
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

#endif /* TENON_KERNEL_MATH_TRIG_H_ */
