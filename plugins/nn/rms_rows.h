/* SPDX-License-Identifier: Apache-2.0
 * rms_rows.h: the loops of rms_norm.c, included by each.h.
 */
#include "vector.h"

/* Returns 1/sqrt(mean of squares + eps) of a row. */
BODY REAL NAME(measure_row)(const rms_args *l, const REAL *x) {
  const double squares = (double)NAME(dot_rows)(x, x, l->e.length);
  return (REAL)(1 / sqrt(squares / (double)l->e.length + l->eps));
}

/* Scales rows: in[0] are the rows, in[1] gets their rstd, out the result. */
LOOP(scale_rows) {
  const rms_args *l = params;
  const int64_t n = l->e.length;
  const REAL *gamma = l->gamma;
  REAL *rstds = (REAL *)(uintptr_t)block->in[1];
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * n;
    const REAL rstd = rstds[r] = NAME(measure_row)(l, x);
    if (!block->out) continue;
    REAL *y = (REAL *)block->out + r * n;
    NAME(prefetch_row)(x + n, n);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * rstd * gamma[i];
  }
}

/* Computes rstd of n columns. Sums are in f64, because each has one partial
 * sum. */
BODY void NAME(measure_columns)(const rms_args *l, const REAL *x, int64_t n,
                                REAL *rstds) {
  double squares[NN_CHUNK] = {0};
  for (int64_t k = 0; k < l->e.length; ++k)
    for (int64_t i = 0; i < n; ++i) {
      const REAL value = x[k * l->e.inner + i];
      squares[i] += (double)(value * value);
    }
  for (int64_t i = 0; i < n; ++i)
    rstds[i] = (REAL)(1 / sqrt(squares[i] / (double)l->e.length + l->eps));
}

LOOP(scale_columns) {
  const rms_args *l = params;
  const int64_t n = block->n;
  const REAL *gamma = l->gamma, *x = block->in[0];
  REAL *rstd = (REAL *)(uintptr_t)block->in[1];
  REAL *y = block->out;
  NAME(measure_columns)(l, x, n, rstd);
  for (int64_t k = 0; y && k < l->e.length; ++k) {
    const int64_t at = k * l->e.inner;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[at + i] = x[at + i] * rstd[i] * gamma[k];
  }
}

/* -------------------------------------------------------------- gradients
 * in[0] is the gradient of the result, in[1] the input, in[2] its rstd. l->part
 * gets the gradient of gamma. */

/* Returns the sum of g*gamma*x over a row. */
BODY REAL NAME(sum_products)(const rms_args *l, const REAL *g, const REAL *x) {
  const REAL *gamma = l->gamma;
  REAL all;
#define TERM(i) \
  (NN_VECTOR(g + (i)) * NN_VECTOR(gamma + (i)) * NN_VECTOR(x + (i)))
#define LAST(i) (g[i] * gamma[i] * x[i])
  NN_SUM(all, l->e.length, TERM, LAST);
#undef TERM
#undef LAST
  return all;
}

/* Adds the gradient of gamma from one row to l->part, and writes the gradient
 * of the row to `to` unless it is NULL. */
BODY void NAME(write_row_gradient)(const rms_args *l, const REAL *g,
                                   const REAL *x, REAL rstd, REAL *to) {
  const int64_t n = l->e.length;
  const REAL *gamma = l->gamma;
  REAL *by_gamma = l->part;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) by_gamma[i] += g[i] * (x[i] * rstd);
  if (!to) return;
  const REAL slope = NAME(sum_products)(l, g, x) / (REAL)n * rstd * rstd;
  NAME(prefetch_row)(g + n, n);
  NAME(prefetch_row)(x + n, n);
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i)
    to[i] = (g[i] * gamma[i] - x[i] * slope) * rstd;
}

/* Adds the partial sums in l->part to the block's sums, and clears them. */
BODY void NAME(flush_sums)(const rms_args *l) {
  REAL *part = l->part;
  for (int64_t i = 0; i < l->e.length; ++i) {
    l->sums[i] += (double)part[i];
    part[i] = 0;
  }
}

LOOP(write_row_gradients) {
  const rms_args *l = params;
  const int64_t n = l->e.length;
  const REAL *rstds = block->in[2];
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * n;
    const REAL *x = (const REAL *)block->in[1] + r * n;
    const REAL rstd = rstds ? rstds[r] : NAME(measure_row)(l, x);
    NAME(write_row_gradient)
    (l, g, x, rstd, block->out ? (REAL *)block->out + r * n : NULL);
    if (r % FLUSH == FLUSH - 1 || r == block->n - 1) NAME(flush_sums)(l);
  }
}

LOOP(write_column_gradients) {
  const rms_args *l = params;
  const int64_t n = block->n, length = l->e.length;
  const REAL *g = block->in[0], *x = block->in[1], *gamma = l->gamma;
  REAL rstd[NN_CHUNK], slope[NN_CHUNK], product[NN_CHUNK];
  double moment[NN_CHUNK] = {0};
  REAL *y = block->out;
  if (block->in[2])
    memcpy(rstd, block->in[2], (size_t)n * sizeof *rstd);
  else
    NAME(measure_columns)(l, x, n, rstd);
  for (int64_t k = 0; k < length; ++k) {
    const int64_t at = k * l->e.inner;
    for (int64_t i = 0; i < n; ++i) product[i] = g[at + i] * x[at + i];
    for (int64_t i = 0; i < n; ++i)
      moment[i] += (double)(product[i] * gamma[k]);
    l->sums[k] += (double)NAME(dot_rows)(product, rstd, n);
  }
  for (int64_t i = 0; i < n; ++i)
    slope[i] = (REAL)(moment[i] / (double)length) * rstd[i] * rstd[i];
  for (int64_t k = 0; y && k < length; ++k) {
    const int64_t at = k * l->e.inner;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[at + i] = (g[at + i] * gamma[k] - x[at + i] * slope[i]) * rstd[i];
  }
}
