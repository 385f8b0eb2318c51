/* SPDX-License-Identifier: Apache-2.0
 * draw_trials.h: the first trials of adjacent elements of one distribution, as
 * draw_one.h makes them, vectorised. Only draw_rows.c includes it.
 */
#ifndef RANDOM_DRAW_TRIALS_H_
#define RANDOM_DRAW_TRIALS_H_

#include "tenon/kernel/philox.h"

enum { DRAW_AT_ONCE = 256 };

/* Results of the first trials of at most DRAW_AT_ONCE elements. */
typedef struct draw_trials {
  double made[DRAW_AT_ONCE];
  uint64_t is_taken[DRAW_AT_ONCE]; /* 0: the element needs another trial */
} draw_trials;

/* The arguments of a loop; in a block, in[0] and in[1] are random bits, two
 * numbers for each element. */
typedef struct draw_trial_args {
  draw_trials *trials;
  double d, c, inverse_alpha; /* of gamma numbers; the last is 0 from 1 on */
  draw_count_rule rule;       /* of counts */
} draw_trial_args;

/* draw_above_zero, without a conversion of integers. */
TN_KERNEL_BODY double draw_trial_uniform(uint64_t bits) {
  return tn_kernel_f64_from_bits(bits >> 12 | 0x3ff0000000000000u) -
         (1 - 0x1p-53);
}

/* cos(2*pi*turn), for turn up to 1: the nearest quarter, and the rest. */
TN_KERNEL_BODY double draw_trial_cos(double turn) {
  const double shifted = 4 * turn + 0x1.8p52;
  const uint64_t quarters = tn_math_bits_f64(shifted);
  const double part = 4 * turn - (shifted - 0x1.8p52);
  const tn_math_angle angle = {.high = part * 0x1.921fb54442d18p+0,
                               .quarters = quarters};
  double rest;
  const double z = angle.high * angle.high;
  const double s = angle.high + tn_math_sin_series(angle, z);
  const double near = tn_math_cos_series(angle, z, &rest);
  const double y = tn_math_turn_select(quarters, near + rest, s);
  return tn_math_turn_sign(quarters + (quarters & 1), y);
}

/* ------------------------------------------------------------------- gamma */

TN_KERNEL_BODY void draw_try_gamma(const tn_kernel_block *block,
                                   const void *params) {
  const draw_trial_args *a = (const draw_trial_args *)params;
  const uint64_t *point = (const uint64_t *)block->in[0];
  const uint64_t *rest = (const uint64_t *)block->in[1];
  double *made = a->trials->made;
  uint64_t *is_taken = a->trials->is_taken;
  const double c = a->c, d = a->d;
  const int64_t n = block->n;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const double u = draw_trial_uniform(point[2 * i]);
    const double z = sqrt(-2 * tn_math_log_f64(u)) *
                     draw_trial_cos(draw_trial_uniform(point[2 * i + 1]));
    const double root = fma(c, z, 1.0), v = root * root * root;
    const double least = tn_math_log_f64(draw_trial_uniform(rest[2 * i]));
    made[i] = d * v;
    is_taken[i] =
        (uint64_t)(root > 0) &
        (uint64_t)(least < 0.5 * z * z + d - made[i] + d * tn_math_log_f64(v));
  }
}
TN_KERNEL_LEVELS(draw_try_gamma)

/* From alpha + 1 to alpha. */
TN_KERNEL_BODY void draw_try_small_gamma(const tn_kernel_block *block,
                                         const void *params) {
  const draw_trial_args *a = (const draw_trial_args *)params;
  const uint64_t *rest = (const uint64_t *)block->in[1];
  double *made = a->trials->made;
  draw_try_gamma(block, params);
  const int64_t n = block->n;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const double u = draw_trial_uniform(rest[2 * i + 1]);
    made[i] *= tn_math_exp_f64(tn_math_log_f64(u) * a->inverse_alpha);
  }
}
TN_KERNEL_LEVELS(draw_try_small_gamma)

static void draw_trials_gamma(draw_trials *t, const draw_source *source,
                              int64_t n, double alpha, uint32_t level) {
  static const tn_kernel_bodies large = TN_KERNEL_BODIES(draw_try_gamma),
                                small = TN_KERNEL_BODIES(draw_try_small_gamma);
  TN_KERNEL_LINED uint32_t point[4 * DRAW_AT_ONCE], rest[4 * DRAW_AT_ONCE];
  tn_philox_place place = {source->key, source->counter, DRAW_GAMMA_BLOCK};
  draw_trial_args a = {.trials = t,
                       .d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3,
                       .inverse_alpha = alpha < 1 ? 1 / alpha : 0};
  const tn_kernel_block block = {n, NULL, {point, rest}};
  a.c = 1 / sqrt(9 * a.d);
  tn_philox_blocks(point, &place, n, level);
  ++place.high;
  tn_philox_blocks(rest, &place, n, level);
  tn_kernel_body_at(alpha < 1 ? &small : &large, level)(&block, &a);
}

/* ------------------------------------------------------------------ counts */

/* draw_log_factorial of each number: of less than FEW from a table. */
TN_KERNEL_BODY void draw_trial_factorials(const double *k, int64_t n,
                                          double *to) {
  enum { FEW = 16 };
  static const double few[FEW] = {
      0,
      0,
      0x1.62e42fefa39efp-1,
      0x1.cab0bfa2a2002p+0,
      0x1.96ca77c922cf9p+1,
      0x1.326643c4479c9p+2,
      0x1.a51273acf01cap+2,
      0x1.10ce1f32dcc30p+3,
      0x1.5358e82fcb70dp+3,
      0x1.99a8921a7f7cfp+3,
      0x1.e357590954d15p+3,
      0x1.180973f3a8d74p+4,
      0x1.3fcba16d50143p+4,
      0x1.68d5a9c3b32cep+4,
      0x1.930f3df162a42p+4,
      0x1.be636a63fd346p+4,
  };
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const double more = k[i] < FEW ? (double)FEW : k[i];
    const double inverse = 1 / more, square = inverse * inverse;
    to[i] = (more + 0.5) * tn_math_log_f64(more) - more +
            0.91893853320467274178 +
            inverse * (1.0 / 12 - square * (1.0 / 360 - square / 1260));
  }
  for (int64_t i = 0; i < n; ++i)
    if (k[i] >= 0 && k[i] < FEW) to[i] = few[(int)k[i]];
}

/* Proposals of counts. The loops are separate, so that gcc vectorises them. */
TN_KERNEL_BODY void draw_try_count(const tn_kernel_block *block,
                                   const void *params) {
  const draw_trial_args *args = (const draw_trial_args *)params;
  const uint64_t *bits = (const uint64_t *)block->in[0];
  const draw_count_rule r = args->rule;
  double *made = args->trials->made;
  uint64_t *is_taken = args->trials->is_taken;
  const int64_t n = block->n;
  double least[DRAW_AT_ONCE], factorial[DRAW_AT_ONCE];
  uint64_t is_quick[DRAW_AT_ONCE];
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const double u = draw_trial_uniform(bits[2 * i]) - 0.5;
    const double v = draw_trial_uniform(bits[2 * i + 1]);
    const double edge = 0.5 - tn_math_abs_f64(u);
    made[i] = (2 * r.a / edge + r.b) * u + r.lam + 0.43;
    least[i] =
        tn_math_log_f64(v * r.inverse_alpha / (r.a / (edge * edge) + r.b));
    is_taken[i] = (uint64_t)(edge >= 0.013) | (uint64_t)(v <= edge);
    is_quick[i] = (uint64_t)(edge >= 0.07) & (uint64_t)(v <= r.quick);
  }
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) made[i] = tn_math_floor_f64(made[i]);
  draw_trial_factorials(made, n, factorial);
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const double most = made[i] * r.log_lam - r.lam - factorial[i];
    is_taken[i] &=
        (uint64_t)(made[i] >= 0) & (is_quick[i] | (uint64_t)(least[i] <= most));
  }
}
TN_KERNEL_LEVELS(draw_try_count)

static void draw_trials_count(draw_trials *t, const draw_source *source,
                              int64_t n, const draw_count_rule *rule,
                              uint32_t level) {
  static const tn_kernel_bodies bodies = TN_KERNEL_BODIES(draw_try_count);
  TN_KERNEL_LINED uint32_t bits[4 * DRAW_AT_ONCE];
  const tn_philox_place place = {source->key, source->counter,
                                 DRAW_COUNT_BLOCK};
  const draw_trial_args a = {.trials = t, .rule = *rule};
  const tn_kernel_block block = {n, NULL, {bits}};
  tn_philox_blocks(bits, &place, n, level);
  tn_kernel_body_at(&bodies, level)(&block, &a);
}

#endif /* RANDOM_DRAW_TRIALS_H_ */
