/* SPDX-License-Identifier: Apache-2.0
 * erf.h: part of math.h: error functions and the remainder in f32. The
 * coefficients are those of tools/math/minimax.py.
 */
#ifndef TENON_MATH_ERF_H_
#define TENON_MATH_ERF_H_

#include "tenon/math/exp.h"

/* A polynomial up to |x| = 4, where the function is 1 in float. */
TN_MATH_FN float tn_math_erf_f32(float x) {
  const float above = x < -4.0f ? -4.0f : x;
  const double a = (double)(above > 4.0f ? 4.0f : above);
  const double z = a * a;
  double p = -0x1.d24dc13a95036p-64;
  p = p * z + 0x1.1e51145892e48p-56;
  p = p * z - 0x1.48657a32f39c7p-50;
  p = p * z + 0x1.d4c6eb0819826p-45;
  p = p * z - 0x1.d4b547fcfff1ep-40;
  p = p * z + 0x1.5ee201aabcf6bp-35;
  p = p * z - 0x1.9b711655c0a35p-31;
  p = p * z + 0x1.87142da92db23p-27;
  p = p * z - 0x1.35f61120cca0ep-23;
  p = p * z + 0x1.a32b151f3daebp-20;
  p = p * z - 0x1.eb5a713926af6p-17;
  p = p * z + 0x1.f6b8fd537d88bp-14;
  p = p * z - 0x1.bf8a51ff2ceb4p-11;
  p = p * z + 0x1.5643b6a5ee240p-8;
  p = p * z - 0x1.b8287d4d94b77p-6;
  p = p * z + 0x1.ce2eb31b6d45fp-4;
  p = p * z - 0x1.812742493b9f4p-2;
  p = p * z + 0x1.20dd74fc77e5fp+0;
  return (float)(a * p);
}

/* erfc(a) of a from 0 to 10.1, to 2^-33, as exp(-a*a) times a rational
 * function; `square` is a*a. */
TN_MATH_FN double tn_math_erfc_short(double a, double square) {
  double p = 0x1.4738ba3f9683ep-7;
  p = p * a + 0x1.7b5ca937f784ep-4;
  p = p * a + 0x1.9b5deed1c0bacp-2;
  p = p * a + 0x1.ffc143468e8e2p-1;
  p = p * a + 0x1.6eeecda79af95p+0;
  p = p * a + 0x1.ffffffff52148p-1;
  double q = 0x1.21fe333ae0159p-6;
  q = q * a + 0x1.5032d27ac40abp-3;
  q = q * a + 0x1.711b7f678119fp-1;
  q = q * a + 0x1.da783ae26351dp+0;
  q = q * a + 0x1.71eedfbd836c4p+1;
  q = q * a + 0x1.47e6213ec73a0p+1;
  q = q * a + 1;
  return tn_math_divide_short(tn_math_exp_short(-square) * p, q);
}

TN_MATH_FN float tn_math_erfc_f32(float x) {
  const float magnitude = tn_math_abs_f32(x);
  const double a = (double)(magnitude > 10.1f ? 10.1f : magnitude);
  const double y = tn_math_erfc_short(a, a * a);
  const double mirrored = 2 - y;
  return (float)(x < 0 ? mirrored : y);
}

/* exp(-a*a/2) as (1 + q)*scale*2^-64; returns q. `high` are the first digits
 * of a, the square of which is exact, and `low` what is left of it. */
TN_MATH_FN float tn_math_bell(float high, float low, float *scale) {
  const float square = (high * -0.5f) * high;
  const float magic = 0x1.8p23f + 127 + 64;
  const float shifted = square * 0x1.715476p+0f + magic;
  const float n = shifted - magic;
  const float most = (square - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  const float r = most - low * (0.5f * low + high);
  const float r2 = r * r;
  const float p4 = 0x1.6ac6dcp-10f * r2 + (0x1.123ddcp-7f * r + 0x1.555858p-5f);
  const float p = p4 * r2 + (0x1.55548cp-3f * r + 0x1.fffffcp-2f);
  *scale = tn_math_from_bits_f32(tn_math_bits_f32(shifted) << 23);
  return p * r2 + r;
}

/* x less |x|*erfc(|x|/sqrt(2))/2, or that alone where x is negative. It is
 * a/(a + 5/4), as its first digits u and what is lost with them, times
 * (1 + s)/2 times the bell. Products of first digits are exact. */
TN_MATH_FN float tn_math_gelu_f32(float x) {
  const float a =
      tn_math_from_bits_f32(tn_math_least_bits(tn_math_abs_f32(x), 14.5f));
  const float high = tn_math_upper_f32(a);
  const float rest = a - high;
  float scale;
  const float q = tn_math_bell(high, rest, &scale);
  const float v = 1.0f / (a + 1.25f);
  const float u = tn_math_upper_f32(a * v);
  const float low = (((a - u * 1.25f) - u * high) - u * rest) * v;
  const float t = v - 0.4375f;
  const float t2 = t * t;
  float even = 0x1.be05a0p+4f;
  float odd = -0x1.d7fe2cp+4f;
  even = even * t2 - 0x1.630db0p+3f;
  odd = odd * t2 + 0x1.2421d8p-1f;
  even = even * t2 - 0x1.7a50e2p+1f;
  odd = odd * t2 + 0x1.db3062p+2f;
  even = even * t2 + 0x1.b8a37cp+0f;
  odd = odd * t2 - 0x1.f3416ap-4f;
  even = even * t2 + 0x1.83b72cp-1f;
  odd = odd * t2 - 0x1.bef9b6p+0f;
  even = even * t2 - 0x1.efe10ap-1f;
  odd = odd * t2 + 0x1.95582ap-2f;
  even = even * t2 + 0x1.63c594p-3f;
  odd = odd * t2 + 0x1.fa1924p-2f;
  const float s = odd * t + even;
  const float more = u * s + (low * s + low);
  const float product = u + ((u + more) * q + more);
  const float none = x < 0 ? -0.0f : x;
  return none - (product * scale) * 0x1p-65f;
}

/* The remainder of a / b with the sign of b, also of 0; 0 where b is 0. */
TN_MATH_FN float tn_math_mod_f32(float a, float b) {
  const double by = (double)tn_math_abs_f32(b);
  const double inverse = 1 / by;
  double rest = (double)a;
  /* Each step takes the multiple of by*2^(29*step) that is nearest. All of it
   * is exact: the multiplier has at most 29 bits, what is left at most 24. */
#define TN_MATH_MOD_STEP(up, down)                                    \
  {                                                                   \
    const double n = (rest * (inverse * down) + 0x1.8p52) - 0x1.8p52; \
    rest = rest - n * (by * up);                                      \
  }
  TN_MATH_MOD_STEP(0x1p261, 0x1p-261)
  TN_MATH_MOD_STEP(0x1p232, 0x1p-232)
  TN_MATH_MOD_STEP(0x1p203, 0x1p-203)
  TN_MATH_MOD_STEP(0x1p174, 0x1p-174)
  TN_MATH_MOD_STEP(0x1p145, 0x1p-145)
  TN_MATH_MOD_STEP(0x1p116, 0x1p-116)
  TN_MATH_MOD_STEP(0x1p87, 0x1p-87)
  TN_MATH_MOD_STEP(0x1p58, 0x1p-58)
  TN_MATH_MOD_STEP(0x1p29, 0x1p-29)
  TN_MATH_MOD_STEP(1.0, 1.0)
#undef TN_MATH_MOD_STEP
  /* Now it is nearest to 0; it must be on the side of b. */
  const double turned = b < 0 ? -rest : rest;
  const double moved = turned + by;
  const double inside = turned < 0 ? moved : turned;
  const double a_turned = b < 0 ? -(double)a : (double)a;
  const double outside = a_turned < 0 ? by : a_turned;
  const double finite = by < INFINITY ? inside : outside;
  const double wrong = (a - a != 0 || b != b) ? NAN : finite;
  const float result = tn_math_signed_f32(tn_math_abs_f32((float)wrong), b);
  return b == 0 ? 0.0f : result;
}

#endif /* TENON_MATH_ERF_H_ */
