/* SPDX-License-Identifier: Apache-2.0
 * group_rows.h: the loops of group_norm.c, included by each.h. A row has the
 * channels of one group of one image. The rows of a loop are `distance` rows
 * apart, and the first one is group l->first of its image.
 */
#include "vector.h"

/* Computes the mean and 1/sqrt(var + eps) of a row of n elements. */
BODY void NAME(measure_row)(const group_args *l, const REAL *x, int64_t n,
                            REAL *mean, REAL *rstd) {
  REAL spread;
  *mean = NAME(sum_row)(x, n) / (REAL)n;
  NN_LONG_SUM(spread, n, NAME(sum_squares)(x + at, *mean, n_part));
  *rstd = (REAL)(1 / sqrt((double)spread / (double)n + l->eps));
}

/* Normalises rows: in[0] are the rows, in[1] and in[2] get their mean and rstd,
 * out the result. */
LOOP(normalize_groups) {
  const group_args *l = params;
  const int64_t inner = l->inner, n = l->channels * inner;
  REAL *means = (REAL *)(uintptr_t)block->in[1];
  REAL *rstds = (REAL *)(uintptr_t)block->in[2];
  for (int64_t r = 0; r < block->n; ++r) {
    const int64_t group = (l->first + r * l->distance) % l->groups;
    const REAL *gamma = (const REAL *)l->gamma + group * l->channels;
    const REAL *beta = (const REAL *)l->beta + group * l->channels;
    const REAL *x = (const REAL *)block->in[0] + r * l->distance * n;
    REAL mean, rstd;
    NAME(measure_row)(l, x, n, &mean, &rstd);
    means[r * l->distance] = mean;
    rstds[r * l->distance] = rstd;
    if (!block->out) continue;
    REAL *y = (REAL *)block->out + r * l->distance * n;
    if (inner == 1) {
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
      continue;
    }
    for (int64_t c = 0; c < l->channels; ++c) {
      const REAL scale = rstd * gamma[c], shift = beta[c];
      TN_KERNEL_INDEPENDENT
      for (int64_t i = c * inner; i < (c + 1) * inner; ++i)
        y[i] = (x[i] - mean) * scale + shift;
    }
  }
}

/* -------------------------------------------------------------- gradients
 * in[0] is the gradient of the result, in[1] the input, in[2] and in[3] mean
 * and rstd. l->sums gets the gradients of gamma, followed by those of beta. */

/* Values of a row from which the gradient of each of its elements follows. */
typedef struct NAME(group_coefficients) {
  REAL mean;
  REAL rstd;
  REAL shift; /* mean of g*gamma */
  REAL slope; /* mean of g*gamma*(x - mean), times rstd^2 */
} NAME(group_coefficients);

/* For a row with one element in each channel: adds its sums to l->sums, and
 * computes `shift` and `slope`. */
BODY void NAME(sum_elements)(const group_args *l, const REAL *gamma,
                             const REAL *g, const REAL *x, double *by_gamma,
                             NAME(group_coefficients) * s) {
  const int64_t n = l->channels;
  double *by_beta = by_gamma + l->groups * n;
  const REAL mean = s->mean;
  REAL sums[2];
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    by_gamma[i] += (double)(g[i] * ((x[i] - mean) * s->rstd));
    by_beta[i] += (double)g[i];
  }
#define TERM(i) (NN_VECTOR(g + (i)) * NN_VECTOR(gamma + (i)))
#define LAST(i) (g[i] * gamma[i])
  NN_SUMS(n, TERM, LAST);
#undef TERM
#undef LAST
  s->shift = sums[0] / (REAL)n;
  s->slope = sums[1] / (REAL)n * s->rstd * s->rstd;
}

/* Does the same for a row with several elements in each channel. */
BODY void NAME(sum_channels)(const group_args *l, const REAL *gamma,
                             const REAL *g, const REAL *x, double *by_gamma,
                             NAME(group_coefficients) * s) {
  const int64_t inner = l->inner;
  const double n = (double)(l->channels * inner);
  double *by_beta = by_gamma + l->groups * l->channels;
  double shift = 0, slope = 0;
  for (int64_t c = 0; c < l->channels; ++c) {
    REAL sums[2];
    NAME(sum_moments)(g + c * inner, x + c * inner, s->mean, inner, sums);
    by_gamma[c] += (double)sums[1] * (double)s->rstd;
    by_beta[c] += (double)sums[0];
    shift += (double)sums[0] * (double)gamma[c];
    slope += (double)sums[1] * (double)gamma[c];
  }
  s->shift = (REAL)(shift / n);
  s->slope = (REAL)(slope / n) * s->rstd * s->rstd;
}

/* Writes the gradient of a row. */
BODY void NAME(write_gradient)(const group_args *l, const REAL *gamma,
                               const REAL *g, const REAL *x,
                               const NAME(group_coefficients) * s, REAL *to) {
  const int64_t inner = l->inner;
  if (inner == 1) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < l->channels; ++i)
      to[i] =
          (g[i] * gamma[i] - s->shift - (x[i] - s->mean) * s->slope) * s->rstd;
    return;
  }
  for (int64_t c = 0; c < l->channels; ++c) {
    const REAL factor = gamma[c];
    TN_KERNEL_INDEPENDENT
    for (int64_t i = c * inner; i < (c + 1) * inner; ++i)
      to[i] =
          (g[i] * factor - s->shift - (x[i] - s->mean) * s->slope) * s->rstd;
  }
}

LOOP(write_group_gradients) {
  const group_args *l = params;
  const int64_t n = l->channels * l->inner, step = l->distance * n;
  const REAL *means = block->in[2], *rstds = block->in[3];
  const REAL *gamma = (const REAL *)l->gamma + l->first * l->channels;
  double *by_gamma = l->sums + l->first * l->channels;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * step;
    const REAL *x = (const REAL *)block->in[1] + r * step;
    NAME(group_coefficients) s = {0, 0, 0, 0};
    if (means) {
      s.mean = means[r * l->distance];
      s.rstd = rstds[r * l->distance];
    } else {
      NAME(measure_row)(l, x, n, &s.mean, &s.rstd);
    }
    if (l->inner == 1)
      NAME(sum_elements)(l, gamma, g, x, by_gamma, &s);
    else
      NAME(sum_channels)(l, gamma, g, x, by_gamma, &s);
    if (block->out)
      NAME(write_gradient)(l, gamma, g, x, &s, (REAL *)block->out + r * step);
  }
}
