/* SPDX-License-Identifier: Apache-2.0
 * draw_loops.h: loops that turn random words into numbers, in order: an element
 * of f32 uses one word, one of f64 two. A loop may write one element more than
 * requested, up to the next even number, so that pairs are whole. In a block,
 * in[0] are words, and out are elements of f32, f64 or i64.
 */
#ifndef RANDOM_DRAW_LOOPS_H_
#define RANDOM_DRAW_LOOPS_H_

#include "draw.h"
#include "tenon/kernel/philox.h"

/* 64 random bits. */
TN_KERNEL_BODY uint64_t draw_bits(const uint32_t *word, int64_t i) {
  return (uint64_t)word[2 * i + 1] << 32 | word[2 * i];
}

/* ----------------------------------------------------------------- uniform */

/* Calls fma explicitly, so that the bits are the same at every level and on
 * every device. */
TN_KERNEL_BODY void draw_uniform_f32(const tn_kernel_block *block,
                                     const void *params) {
  const draw_params *p = (const draw_params *)params;
  const uint32_t *word = (const uint32_t *)block->in[0];
  float *out = (float *)block->out;
  const float low = (float)p->low, range = (float)p->range;
  const float last = (float)p->last, unit = (float)p->unit;
  const uint32_t shift = p->shift;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) {
    const float y = fmaf((float)(int32_t)(word[i] >> shift) * unit, range, low);
    out[i] = y < last ? y : last;
  }
}
TN_KERNEL_LEVELS(draw_uniform_f32)

TN_KERNEL_BODY void draw_uniform_f64(const tn_kernel_block *block,
                                     const void *params) {
  const draw_params *p = (const draw_params *)params;
  const uint32_t *word = (const uint32_t *)block->in[0];
  double *out = (double *)block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) {
    const double u = (double)(int64_t)(draw_bits(word, i) >> 11) * 0x1p-53;
    const double y = fma(u, p->range, p->low);
    out[i] = y < p->last ? y : p->last;
  }
}
TN_KERNEL_LEVELS(draw_uniform_f64)

/* ------------------------------------------------------------------ normal */

/* In (0, 1], from all bits but one. */
TN_KERNEL_BODY float draw_above_zero_f32(uint32_t word) {
  return (float)(int32_t)(word >> 1) * 0x1p-31f + 0x1p-32f;
}

TN_KERNEL_BODY double draw_above_zero_f64(uint64_t bits) {
  return (double)(int64_t)(bits >> 12) * 0x1p-52 + 0x1p-53;
}

/* Logarithm of a number in (0, 1] that is not denormal. */
TN_KERNEL_BODY float draw_log_f32(float u) {
  float power;
  const float f = tn_math_log_split_near(u, 1.0f, &power);
  return tn_math_log_of(f, power);
}

/* The lowest two bits of a word are quarters of a turn, the others an angle
 * between an eighth of a turn to either side. */
TN_KERNEL_BODY tn_math_short_angle draw_angle(uint32_t word) {
  tn_math_short_angle angle;
  const int32_t part = (int32_t)word >> 2;
  angle.r = (float)part * 0x1.921fb6p-30f;
  angle.low = 0;
  angle.quarters = word & 3;
  return angle;
}

TN_KERNEL_BODY void draw_normal_f32(const tn_kernel_block *block,
                                    const void *params) {
  const draw_params *p = (const draw_params *)params;
  const uint32_t *word = (const uint32_t *)block->in[0];
  float *out = (float *)block->out;
  const float loc = (float)p->loc, scale = (float)p->scale;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < (block->n + 1) / 2; ++i) {
    const float u = draw_above_zero_f32(word[2 * i]);
    const float r = scale * sqrtf(-2.0f * draw_log_f32(u));
    const tn_math_short_angle angle = draw_angle(word[2 * i + 1]);
    const uint32_t q = angle.quarters;
    const float s = tn_math_short_angle_sin(angle);
    const float c = tn_math_short_angle_cos(angle);
    const float x = tn_math_short_angle_select(q, c, s);
    const float y = tn_math_short_angle_select(q, s, c);
    out[2 * i] = loc + r * tn_math_short_angle_turn(x, (q + 1) << 30);
    out[2 * i + 1] = loc + r * tn_math_short_angle_turn(y, q << 30);
  }
}
TN_KERNEL_LEVELS(draw_normal_f32)

TN_KERNEL_BODY void draw_normal_f64(const tn_kernel_block *block,
                                    const void *params) {
  const draw_params *p = (const draw_params *)params;
  const uint32_t *word = (const uint32_t *)block->in[0];
  double *out = (double *)block->out;
  for (int64_t i = 0; i < (block->n + 1) / 2; ++i) {
    const double u = draw_above_zero_f64(draw_bits(word, 2 * i));
    const double r = p->scale * sqrt(-2 * tn_math_log_f64(u));
    const double turn = (double)(int64_t)draw_bits(word, 2 * i + 1) * 0x1p-63;
    const double angle = turn * 0x1.921fb54442d18p+1;
    out[2 * i] = p->loc + r * tn_math_cos_f64(angle);
    out[2 * i + 1] = p->loc + r * tn_math_sin_f64(angle);
  }
}
TN_KERNEL_LEVELS(draw_normal_f64)

/* -------------------------------------------------------------- the others */

TN_KERNEL_BODY void draw_exponential_f32(const tn_kernel_block *block,
                                         const void *params) {
  const draw_params *p = (const draw_params *)params;
  const uint32_t *word = (const uint32_t *)block->in[0];
  float *out = (float *)block->out;
  const float scale = (float)p->scale;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    out[i] = scale * -draw_log_f32(draw_above_zero_f32(word[i]));
}
TN_KERNEL_LEVELS(draw_exponential_f32)

TN_KERNEL_BODY void draw_exponential_f64(const tn_kernel_block *block,
                                         const void *params) {
  const draw_params *p = (const draw_params *)params;
  const uint32_t *word = (const uint32_t *)block->in[0];
  double *out = (double *)block->out;
  for (int64_t i = 0; i < block->n; ++i)
    out[i] =
        p->scale * -tn_math_log_f64(draw_above_zero_f64(draw_bits(word, i)));
}
TN_KERNEL_LEVELS(draw_exponential_f64)

TN_KERNEL_BODY void draw_bernoulli_f32(const tn_kernel_block *block,
                                       const void *params) {
  const draw_params *p = (const draw_params *)params;
  const uint32_t *word = (const uint32_t *)block->in[0];
  float *out = (float *)block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    out[i] = (int64_t)word[i] < p->limit ? 1.0f : 0.0f;
}
TN_KERNEL_LEVELS(draw_bernoulli_f32)

TN_KERNEL_BODY void draw_bernoulli_f64(const tn_kernel_block *block,
                                       const void *params) {
  const draw_params *p = (const draw_params *)params;
  const uint32_t *word = (const uint32_t *)block->in[0];
  double *out = (double *)block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    out[i] = (int64_t)word[i] < p->limit ? 1.0 : 0.0;
}
TN_KERNEL_LEVELS(draw_bernoulli_f64)

/* The upper half of the product of two numbers of 64 bits. */
TN_KERNEL_BODY uint64_t draw_upper(uint64_t a, uint64_t b) {
  const uint64_t a0 = (uint32_t)a, a1 = a >> 32;
  const uint64_t b0 = (uint32_t)b, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  const uint64_t other = a0 * b1 + (uint32_t)middle;
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

TN_KERNEL_BODY void draw_randint(const tn_kernel_block *block,
                                 const void *params) {
  const draw_params *p = (const draw_params *)params;
  const uint32_t *word = (const uint32_t *)block->in[0];
  int64_t *out = (int64_t *)block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    out[i] =
        (int64_t)((uint64_t)p->least + draw_upper(draw_bits(word, i), p->n));
}
TN_KERNEL_LEVELS(draw_randint)

#endif /* RANDOM_DRAW_LOOPS_H_ */
