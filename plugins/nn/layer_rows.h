/* SPDX-License-Identifier: Apache-2.0
 * layer_rows.h: the loops of layer_norm.c, included by each.h.
 */
#include "vector.h"

/* Computes the mean and 1/sqrt(var + eps) of a row. */
BODY void NAME(measure_row)(const layer_args *l, const REAL *x, REAL *mean,
                            REAL *rstd) {
  const int64_t n = l->e.length;
  *mean = NAME(sum_row)(x, n) / (REAL)n;
  const REAL var = NAME(sum_squares)(x, *mean, n) / (REAL)n;
  *rstd = (REAL)(1 / sqrt((double)var + l->eps));
}

/* Normalises rows: in[0] are the rows, in[1] and in[2] get their mean and rstd,
 * out the result. */
LOOP(normalize_rows) {
  const layer_args *l = params;
  const int64_t n = l->e.length;
  const REAL *gamma = l->gamma, *beta = l->beta;
  REAL *means = (REAL *)(uintptr_t)block->in[1];
  REAL *rstds = (REAL *)(uintptr_t)block->in[2];
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * n;
    REAL mean, rstd;
    NAME(measure_row)(l, x, &mean, &rstd);
    means[r] = mean;
    rstds[r] = rstd;
    if (!block->out) continue;
    REAL *y = (REAL *)block->out + r * n;
    NAME(prefetch_row)(x + n, n);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
  }
}

/* Computes mean and rstd of n columns. Each sum is in f64, because it has one
 * partial sum. */
BODY void NAME(measure_columns)(const layer_args *l, const REAL *x, int64_t n,
                                REAL *means, REAL *rstds) {
  double mean[NN_CHUNK] = {0}, spread[NN_CHUNK] = {0};
  for (int64_t k = 0; k < l->e.length; ++k)
    for (int64_t i = 0; i < n; ++i) mean[i] += (double)x[k * l->e.inner + i];
  for (int64_t i = 0; i < n; ++i) mean[i] /= (double)l->e.length;
  for (int64_t k = 0; k < l->e.length; ++k)
    for (int64_t i = 0; i < n; ++i) {
      const double d = (double)x[k * l->e.inner + i] - mean[i];
      spread[i] += d * d;
    }
  for (int64_t i = 0; i < n; ++i) means[i] = (REAL)mean[i];
  for (int64_t i = 0; i < n; ++i)
    rstds[i] = (REAL)(1 / sqrt(spread[i] / (double)l->e.length + l->eps));
}

LOOP(normalize_columns) {
  const layer_args *l = params;
  const int64_t n = block->n;
  const REAL *gamma = l->gamma, *beta = l->beta, *x = block->in[0];
  REAL *mean = (REAL *)(uintptr_t)block->in[1];
  REAL *rstd = (REAL *)(uintptr_t)block->in[2];
  REAL *y = block->out;
  NAME(measure_columns)(l, x, n, mean, rstd);
  for (int64_t k = 0; y && k < l->e.length; ++k) {
    const int64_t at = k * l->e.inner;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[at + i] = (x[at + i] - mean[i]) * rstd[i] * gamma[k] + beta[k];
  }
}

/* -------------------------------------------------------------- gradients
 * in[0] is the gradient of the result, in[1] the input, in[2] and in[3] mean
 * and rstd. l->part gets the gradients of gamma and beta. */

/* Coefficients of a row, from which the gradient of each of its elements
 * follows. */
typedef struct NAME(row_coefficients) {
  REAL mean;
  REAL rstd;
  REAL shift;
  REAL slope;
} NAME(row_coefficients);

/* Computes `shift` and `slope` of a row from its mean and rstd: from the means
 * of g*gamma, and of its products with x - mean. Prefetches the next row if
 * `prefetches`. */
BODY void NAME(find_coefficients)(const layer_args *l, const REAL *g,
                                  const REAL *x, NAME(row_coefficients) * s,
                                  const int prefetches) {
  const int64_t n = l->e.length;
  const REAL *gamma = l->gamma;
  const REAL mean = s->mean;
  REAL sums[2];
/* Prefetches the next row in small steps: at once it would be too much. */
#define TERM(i)                                            \
  (prefetches ? __builtin_prefetch(g + n + (i)) : (void)0, \
   prefetches ? __builtin_prefetch(x + n + (i)) : (void)0, \
   NN_VECTOR(g + (i)) * NN_VECTOR(gamma + (i)))
#define LAST(i) (g[i] * gamma[i])
  NN_SUMS(n, TERM, LAST);
#undef TERM
#undef LAST
  s->shift = sums[0] / (REAL)n;
  s->slope = sums[1] / (REAL)n * s->rstd * s->rstd;
}

/* Adds the gradients of gamma and beta from one row to l->part, and writes the
 * gradient of the row to `to` unless it is NULL. */
BODY void NAME(write_row_gradient)(const layer_args *l, const REAL *g,
                                   const REAL *x,
                                   const NAME(row_coefficients) * s, REAL *to) {
  const int64_t n = l->e.length;
  const REAL *gamma = l->gamma;
  REAL *by_gamma = l->part, *by_beta = by_gamma + n;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    by_gamma[i] += g[i] * ((x[i] - s->mean) * s->rstd);
    by_beta[i] += g[i];
  }
  if (!to) return;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i)
    to[i] =
        (g[i] * gamma[i] - s->shift - (x[i] - s->mean) * s->slope) * s->rstd;
}

/* Does the same for four rows, whose sums are added to l->part together. It
 * prefetches the next four rows into the second cache, because the first one is
 * full. */
BODY void NAME(write_four_gradients)(const layer_args *l, const REAL *g,
                                     const REAL *x,
                                     const NAME(row_coefficients) s[4],
                                     REAL *to) {
  const int64_t n = l->e.length;
  const REAL *gamma = l->gamma;
  REAL *by_gamma = l->part, *by_beta = by_gamma + n;
  int64_t i = 0;
  for (; i + NAME(lanes) <= n; i += NAME(lanes)) {
    const NAME(vector) factor = NN_VECTOR(gamma + i);
    NAME(vector) one = NN_VECTOR(by_gamma + i), two = NN_VECTOR(by_beta + i);
    for (int k = 4; l->buffer && k < 8; ++k) {
      __builtin_prefetch(g + k * n + i, 0, 2);
      __builtin_prefetch(x + k * n + i, 0, 2);
    }
    for (int k = 0; k < 4; ++k) {
      const NAME(vector) out_gradient = NN_VECTOR(g + k * n + i);
      const NAME(vector) d = NN_VECTOR(x + k * n + i) - s[k].mean;
      one += out_gradient * (d * s[k].rstd);
      two += out_gradient;
      *(NAME(vector) *)(void *)(to + k * n + i) =
          (out_gradient * factor - s[k].shift - d * s[k].slope) * s[k].rstd;
    }
    *(NAME(vector) *)(void *)(by_gamma + i) = one;
    *(NAME(vector) *)(void *)(by_beta + i) = two;
  }
  for (; i < n; ++i)
    for (int k = 0; k < 4; ++k) {
      const REAL out_gradient = g[k * n + i], d = x[k * n + i] - s[k].mean;
      by_gamma[i] += out_gradient * (d * s[k].rstd);
      by_beta[i] += out_gradient;
      to[k * n + i] =
          (out_gradient * gamma[i] - s[k].shift - d * s[k].slope) * s[k].rstd;
    }
}

/* Adds the partial sums in l->part to the block's sums, and clears them. */
BODY void NAME(flush_sums)(const layer_args *l) {
  REAL *part = l->part;
  for (int64_t i = 0; i < 2 * l->e.length; ++i) {
    l->sums[i] += (double)part[i];
    part[i] = 0;
  }
}

LOOP(write_row_gradients) {
  const layer_args *l = params;
  const int64_t n = l->e.length;
  nn_writer writer =
      nn_writer_open(block->out, block->out ? l->buffer : NULL, l->level);
  for (int64_t r = 0; r < block->n;) {
    const REAL *g = (const REAL *)block->in[0] + r * n;
    const REAL *x = (const REAL *)block->in[1] + r * n;
    REAL *to = block->out ? nn_writer_begin_line(&writer) : NULL;
    const int rows = to && block->n - r >= FOUR ? FOUR : 1;
    NAME(row_coefficients) s[FOUR] = {{0, 0, 0, 0}};
    for (int k = 0; k < rows; ++k) {
      if (l->recompute) {
        NAME(measure_row)(l, x + k * n, &s[k].mean, &s[k].rstd);
      } else {
        s[k].mean = ((const REAL *)block->in[2])[r + k];
        s[k].rstd = ((const REAL *)block->in[3])[r + k];
      }
      if (to && l->buffer)
        NAME(find_coefficients)(l, g + k * n, x + k * n, &s[k], 1);
      else if (to)
        NAME(find_coefficients)(l, g + k * n, x + k * n, &s[k], 0);
    }
    if (rows == FOUR)
      NAME(write_four_gradients)(l, g, x, s, to);
    else
      NAME(write_row_gradient)(l, g, x, s, to);
    r += rows;
    if (to) nn_writer_end_line(&writer, rows * n * (int64_t)sizeof *to);
    if (r % FLUSH == 0 || r == block->n) NAME(flush_sums)(l);
  }
  nn_writer_close(&writer);
}

/* Computes the gradients of four rows in the columns from i on, as many as
 * `vectors` vectors have lanes. */
BODY void NAME(stream_columns)(const layer_args *l, const REAL *g,
                               const REAL *x, const NAME(row_coefficients) s[4],
                               REAL *to, int64_t i, const int vectors) {
  enum { L = NAME(lanes) };
  const int64_t n = l->e.length;
  const REAL *gamma = (const REAL *)l->gamma + i;
  REAL *by_gamma = (REAL *)l->part + i, *by_beta = by_gamma + n;
  NAME(vector) one[SIDE], two[SIDE];
  for (int v = 0; v < vectors; ++v) {
    one[v] = NN_VECTOR(by_gamma + L * v);
    two[v] = NN_VECTOR(by_beta + L * v);
  }
  for (int k = 0; k < FOUR; ++k)
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = k * n + i + L * v;
      const NAME(vector) factor = NN_VECTOR(gamma + L * v);
      const NAME(vector) out_gradient = NN_VECTOR(g + at);
      const NAME(vector) d = NN_VECTOR(x + at) - s[k].mean;
      __builtin_prefetch(g + at + FOUR * n, 0, 2);
      __builtin_prefetch(x + at + FOUR * n, 0, 2);
      one[v] += out_gradient * (d * s[k].rstd);
      two[v] += out_gradient;
      NAME(NN_STREAM)
      (to + at,
       (out_gradient * factor - s[k].shift - d * s[k].slope) * s[k].rstd);
    }
  for (int v = 0; v < vectors; ++v) {
    *(NAME(vector) *)(void *)(by_gamma + L * v) = one[v];
    *(NAME(vector) *)(void *)(by_beta + L * v) = two[v];
  }
}

/* Does the same as write_four_gradients, but writes past the caches: rows must
 * begin at a cache line and fill cache lines. */
BODY void NAME(stream_four_gradients)(const layer_args *l, const REAL *g,
                                      const REAL *x,
                                      const NAME(row_coefficients) s[4],
                                      REAL *to) {
  enum { L = NAME(lanes) };
  const int64_t n = l->e.length;
  int64_t i = 0;
  for (; i + L * SIDE <= n; i += L * SIDE)
    NAME(stream_columns)(l, g, x, s, to, i, SIDE);
  for (; i < n; i += L) NAME(stream_columns)(l, g, x, s, to, i, 1);
}

/* Does the same as write_row_gradients, but writes past the caches. */
LOOP(stream_row_gradients) {
  const layer_args *l = params;
  const int64_t n = l->e.length;
  const REAL *means = block->in[2], *rstds = block->in[3];
  for (int64_t r = 0, rows; r < block->n; r += rows) {
    const REAL *g = (const REAL *)block->in[0] + r * n;
    const REAL *x = (const REAL *)block->in[1] + r * n;
    REAL *to = (REAL *)block->out + r * n;
    NAME(row_coefficients) s[FOUR];
    rows = block->n - r >= FOUR ? FOUR : 1;
    for (int64_t k = 0; k < rows; ++k) {
      s[k] = (NAME(row_coefficients)){means[r + k], rstds[r + k], 0, 0};
      NAME(find_coefficients)(l, g + k * n, x + k * n, &s[k], 1);
    }
    if (rows == FOUR)
      NAME(stream_four_gradients)(l, g, x, s, to);
    else
      NAME(write_row_gradient)(l, g, x, s, to);
    if ((r + rows) % FLUSH == 0 || r + rows == block->n) NAME(flush_sums)(l);
  }
  NN_STREAM_END();
}

/* Sums g*gamma, and its products with x - mean, along each column. */
BODY void NAME(sum_columns)(const layer_args *l, const tn_kernel_block *block,
                            const REAL *mean, double *sum, double *moment) {
  const REAL *g = block->in[0], *x = block->in[1], *gamma = l->gamma;
  for (int64_t k = 0; k < l->e.length; ++k)
    for (int64_t i = 0; i < block->n; ++i) {
      const int64_t at = k * l->e.inner + i;
      const REAL out_gradient = g[at] * gamma[k];
      sum[i] += (double)out_gradient;
      moment[i] += (double)(out_gradient * (x[at] - mean[i]));
    }
}

LOOP(write_column_gradients) {
  const layer_args *l = params;
  const int64_t n = block->n, length = l->e.length;
  const REAL *g = block->in[0], *x = block->in[1], *gamma = l->gamma;
  REAL mean[NN_CHUNK], rstd[NN_CHUNK], shift[NN_CHUNK], slope[NN_CHUNK];
  REAL product[NN_CHUNK];
  double sum[NN_CHUNK] = {0}, moment[NN_CHUNK] = {0};
  REAL *y = block->out;
  if (l->recompute) {
    NAME(measure_columns)(l, x, n, mean, rstd);
  } else {
    memcpy(mean, block->in[2], (size_t)n * sizeof *mean);
    memcpy(rstd, block->in[3], (size_t)n * sizeof *rstd);
  }
  if (y) NAME(sum_columns)(l, block, mean, sum, moment);
  for (int64_t i = 0; i < n; ++i) {
    shift[i] = (REAL)(sum[i] / (double)length);
    slope[i] = (REAL)(moment[i] / (double)length) * rstd[i] * rstd[i];
  }
  for (int64_t k = 0; k < length; ++k) {
    const int64_t at = k * l->e.inner;
    for (int64_t i = 0; i < n; ++i)
      product[i] = g[at + i] * ((x[at + i] - mean[i]) * rstd[i]);
    l->sums[k] += (double)NAME(sum_row)(product, n);
    l->sums[length + k] += (double)NAME(sum_row)(g + at, n);
    if (!y) continue;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[at + i] =
          (g[at + i] * gamma[k] - shift[i] - (x[at + i] - mean[i]) * slope[i]) *
          rstd[i];
  }
}
