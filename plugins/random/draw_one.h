/* SPDX-License-Identifier: Apache-2.0
 * draw_one.h: one number of a distribution that needs an unknown number of
 * random words, for the CPU and for devices. Before the include, define
 *
 *   DRAW_ONE       the begin of a function, such as `static inline`
 *   draw_source    the place of an element in the stream of a call
 *   draw_block     block `sub` of the element, of 128 random bits:
 *                  tn_kernel_bits draw_block(const draw_source *, uint32_t sub)
 *
 * Block `sub` has the counter of the element in its lower half and `sub`, from
 * 1 on, in its upper one. So it never meets a block of another element or call.
 * Everything is computed in f64.
 */
#ifndef RANDOM_DRAW_ONE_H_
#define RANDOM_DRAW_ONE_H_

#include "draw_rows.h"

enum {
  DRAW_TRIALS = 64,      /* of a proposal that is taken in most trials */
  DRAW_GAMMA_BLOCK = 1,  /* the first block of a gamma number: two a trial */
  DRAW_COUNT_BLOCK = 129 /* the first block of a count */
};

#define DRAW_LARGE_MEAN 10.0 /* the least mean of Hoermann's proposals */

/* In (0, 1], from half `i` of a block. */
DRAW_ONE double draw_above_zero(const tn_kernel_bits *bits, int i) {
  const uint64_t word =
      (uint64_t)bits->word[2 * i + 1] << 32 | bits->word[2 * i];
  return (double)(int64_t)(word >> 12) * 0x1p-52 + 0x1p-53;
}

/* One coordinate of a point of Box and Muller. */
DRAW_ONE double draw_normal_of(const tn_kernel_bits *bits) {
  const double r = sqrt(-2 * log(draw_above_zero(bits, 0)));
  return r * cos(0x1.921fb54442d18p+2 * draw_above_zero(bits, 1));
}

/* Marsaglia and Tsang: the cube of a shifted normal number is taken with a
 * probability that makes it exact; above 0.95 for alpha of 1 or more. A smaller
 * alpha comes from that of alpha + 1. The trials before the first one have
 * failed. */
DRAW_ONE double draw_gamma_from(const draw_source *source, double alpha,
                                uint32_t first_trial) {
  const double shape = alpha < 1 ? alpha + 1 : alpha;
  const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
  double made = 0, power = 1;
  for (uint32_t t = first_trial; t < DRAW_TRIALS; ++t) {
    const tn_kernel_bits point = draw_block(source, DRAW_GAMMA_BLOCK + 2 * t);
    const tn_kernel_bits rest =
        draw_block(source, DRAW_GAMMA_BLOCK + 2 * t + 1);
    const double z = draw_normal_of(&point), root = fma(c, z, 1.0);
    if (root <= 0) continue;
    const double v = root * root * root;
    made = d * v;
    power = draw_above_zero(&rest, 1);
    if (log(draw_above_zero(&rest, 0)) < 0.5 * z * z + d - made + d * log(v))
      break;
  }
  return alpha < 1 ? made * exp(log(power) / alpha) : made;
}

DRAW_ONE double draw_gamma(const draw_source *source, double alpha) {
  return draw_gamma_from(source, alpha, 0);
}

/* The logarithm of k!: a sum of few terms, otherwise Stirling's series, right
 * to 1e-13. */
DRAW_ONE double draw_log_factorial(double k) {
  double small = 1;
  if (k < 16) {
    for (double i = 2; i <= k; ++i) small *= i;
    return log(small);
  }
  const double inverse = 1 / k, square = inverse * inverse;
  return (k + 0.5) * log(k) - k + 0.91893853320467274178 +
         inverse * (1.0 / 12 - square * (1.0 / 360 - square / 1260));
}

/* Factors in (0, 1] until their product is below exp(-lam), for small lam. */
DRAW_ONE double draw_small_count(const draw_source *source, double lam) {
  const double limit = exp(-lam);
  double product = 1, count = -1;
  if (limit >= 1) return 0; /* exp(-lam) was rounded to 1 */
  for (uint32_t sub = DRAW_COUNT_BLOCK; product > limit; ++sub) {
    const tn_kernel_bits bits = draw_block(source, sub);
    for (int i = 0; i < 2 && product > limit; ++i, ++count)
      product *= draw_above_zero(&bits, i);
  }
  return count;
}

/* The numbers of Hoermann's proposals. */
typedef struct draw_count_rule {
  double lam, log_lam;
  double a, b, inverse_alpha;
  double quick; /* most numbers below it are taken without another comparison */
} draw_count_rule;

DRAW_ONE draw_count_rule draw_rule_of(double lam) {
  draw_count_rule r;
  r.lam = lam;
  r.log_lam = log(lam);
  r.b = 0.931 + 2.53 * sqrt(lam);
  r.a = 0.02483 * r.b - 0.059;
  r.inverse_alpha = 1.1239 + 1.1328 / (r.b - 3.4);
  r.quick = 0.9277 - 3.6224 / (r.b - 2);
  return r;
}

/* Hoermann's proposals by the transformed ratio of uniform numbers: most are
 * taken by the first comparison. The trials before the first one have
 * failed. */
DRAW_ONE double draw_large_count(const draw_source *source,
                                 const draw_count_rule *r,
                                 uint32_t first_trial) {
  double k = r->lam;
  for (uint32_t t = first_trial; t < DRAW_TRIALS; ++t) {
    const tn_kernel_bits bits = draw_block(source, DRAW_COUNT_BLOCK + t);
    const double u = draw_above_zero(&bits, 0) - 0.5;
    const double v = draw_above_zero(&bits, 1);
    const double edge = 0.5 - fabs(u);
    if (edge <= 0) continue;
    const double proposed = floor((2 * r->a / edge + r->b) * u + r->lam + 0.43);
    if (proposed < 0 || (edge < 0.013 && v > edge)) continue;
    k = proposed;
    if (edge >= 0.07 && v <= r->quick) break;
    if (log(v * r->inverse_alpha / (r->a / (edge * edge) + r->b)) <=
        k * r->log_lam - r->lam - draw_log_factorial(k))
      break;
  }
  return k;
}

DRAW_ONE double draw_count(const draw_source *source, double lam) {
  if (lam <= 0) return 0;
  if (lam < DRAW_LARGE_MEAN) return draw_small_count(source, lam);
  const draw_count_rule rule = draw_rule_of(lam);
  return draw_large_count(source, &rule, 0);
}

/* Whether there is a distribution of these parameters. */
DRAW_ONE int draw_is_valid(draw_row_kind kind, double a, double b) {
  if (!(fabs(a) <= DRAW_MOST && fabs(b) <= DRAW_MOST)) return 0;
  switch (kind) {
    case DRAW_ROW_UNIFORM:
      return a <= b && b - a <= DRAW_MOST;
    case DRAW_ROW_NORMAL:
      return b >= 0;
    case DRAW_ROW_GAMMA:
      return a > 0 && b > 0;
    case DRAW_ROW_EXPONENTIAL:
      return a > 0;
    case DRAW_ROW_POISSON:
      return a >= 0 && a <= DRAW_MOST_MEAN;
    case DRAW_ROW_NEGATIVE:
      return a >= 0 && b > 0 && b <= 1 && a * (1 - b) / b <= DRAW_MOST_MEAN;
    default:
      return a >= 0 && a <= DRAW_MOST_MEAN && b >= 0;
  }
}

/* A mean that a gamma number makes larger than counts can be is cut. */
DRAW_ONE double draw_mixed_count(const draw_source *source, double mean) {
  return draw_count(source, mean < DRAW_MOST_MEAN ? mean : DRAW_MOST_MEAN);
}

/* Uniform numbers stay below b in the type of the output, too. */
DRAW_ONE double draw_uniform_one(const tn_kernel_bits *bits, double a, double b,
                                 tn_dtype dtype) {
  const double y = fma(draw_above_zero(bits, 0) - 0x1p-53, b - a, a);
  if (a < b && dtype == TN_F32 && (float)y >= (float)b)
    return nextafterf((float)b, -INFINITY);
  return a < b && y >= b ? nextafter(b, (double)-INFINITY) : y;
}

/* An element of the distribution; NaN without one. `dtype` is that of the
 * output, f32 or f64 for uniform numbers. */
DRAW_ONE double draw_one(const draw_source *source, draw_row_kind kind,
                         double a, double b, tn_dtype dtype) {
  tn_kernel_bits bits = {{0}};
  if (!draw_is_valid(kind, a, b)) return NAN;
  if (kind == DRAW_ROW_UNIFORM || kind == DRAW_ROW_NORMAL ||
      kind == DRAW_ROW_EXPONENTIAL)
    bits = draw_block(source, DRAW_COUNT_BLOCK);
  switch (kind) {
    case DRAW_ROW_UNIFORM:
      return draw_uniform_one(&bits, a, b, dtype);
    case DRAW_ROW_NORMAL:
      return fma(b, draw_normal_of(&bits), a);
    case DRAW_ROW_GAMMA:
      return b * draw_gamma(source, a);
    case DRAW_ROW_EXPONENTIAL:
      return -log(draw_above_zero(&bits, 0)) / a;
    case DRAW_ROW_POISSON:
      return draw_count(source, a);
    case DRAW_ROW_NEGATIVE:
      if (a <= 0 || b >= 1) return 0;
      return draw_mixed_count(source, draw_gamma(source, a) * (1 - b) / b);
    default:
      if (a <= 0 || b <= 1 / DRAW_MOST) return draw_count(source, a);
      return draw_mixed_count(source, draw_gamma(source, 1 / b) * b * a);
  }
}

#endif /* RANDOM_DRAW_ONE_H_ */
