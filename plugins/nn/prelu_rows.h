/* SPDX-License-Identifier: Apache-2.0
 * prelu_rows.h: the loops of prelu.c, included by each.h. In `plane` loops all
 * elements belong to one channel, in `column` loops element i of each run
 * belongs to channel i.
 */
#include "vector.h"

LOOP(scale_plane) {
  const piece_args *p = params;
  const REAL gamma = (REAL)p->gamma[0];
  for (int64_t r = 0; r < p->runs; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * p->run_distance;
    REAL *y = (REAL *)block->out + r * p->run_distance;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < block->n; ++i)
      y[i] = x[i] > 0 ? x[i] : x[i] * gamma;
  }
}

LOOP(scale_columns) {
  const piece_args *p = params;
  REAL gamma[NN_CHUNK];
  for (int64_t i = 0; i < block->n; ++i) gamma[i] = (REAL)p->gamma[i];
  for (int64_t r = 0; r < p->runs; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * p->run_distance;
    REAL *y = (REAL *)block->out + r * p->run_distance;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < block->n; ++i)
      y[i] = x[i] > 0 ? x[i] : x[i] * gamma[i];
  }
}

/* Computes the gradient of the input, and the sum of gradient times input where
 * the input is not above 0. in[0] is the output gradient, in[1] the input. */
LOOP(write_plane_gradients) {
  const piece_args *p = params;
  const REAL gamma = (REAL)p->gamma[0];
  double sum = 0;
  for (int64_t r = 0; r < p->runs; ++r)
    for (int64_t k = 0; k < block->n; k += NN_CHUNK) {
      const int64_t at = r * p->run_distance + k;
      const int64_t n = block->n - k < NN_CHUNK ? block->n - k : NN_CHUNK;
      const REAL *g = (const REAL *)block->in[0] + at;
      const REAL *x = (const REAL *)block->in[1] + at;
      REAL low[NN_CHUNK];
      for (int64_t i = 0; i < n; ++i) low[i] = x[i] > 0 ? 0 : g[i] * x[i];
      sum += (double)NAME(sum_row)(low, n);
      if (!block->out) continue;
      REAL *y = (REAL *)block->out + at;
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? g[i] : g[i] * gamma;
    }
  p->sums[0] = sum;
}

LOOP(write_column_gradients) {
  const piece_args *p = params;
  const int64_t n = block->n;
  REAL gamma[NN_CHUNK], sum[NN_CHUNK] = {0};
  for (int64_t i = 0; i < n; ++i) gamma[i] = (REAL)p->gamma[i];
  for (int64_t r = 0; r < p->runs; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * p->run_distance;
    const REAL *x = (const REAL *)block->in[1] + r * p->run_distance;
    for (int64_t i = 0; i < n; ++i) sum[i] += x[i] > 0 ? 0 : g[i] * x[i];
    if (!block->out) continue;
    REAL *y = (REAL *)block->out + r * p->run_distance;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? g[i] : g[i] * gamma[i];
  }
  for (int64_t i = 0; i < n; ++i) p->sums[i] = (double)sum[i];
}
