/* SPDX-License-Identifier: Apache-2.0
 * l2_rows.h: the loops of l2_normalization.c, included by each.h.
 */
#include "vector.h"

/* Divides rows by their norms: in[0] are the rows, in[1] gets the norms. */
LOOP(normalize_rows) {
  const l2_args *l = params;
  const int64_t n = l->e.length;
  REAL *norms = (REAL *)(uintptr_t)block->in[1];
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * n;
    const REAL norm = (REAL)sqrt((double)NAME(dot_rows)(x, x, n) + l->eps);
    norms[r] = norm;
    if (!block->out) continue;
    REAL *y = (REAL *)block->out + r * n;
    const REAL factor = 1 / norm;
    NAME(prefetch_row)(x + n, n);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
  }
}

LOOP(normalize_columns) {
  const l2_args *l = params;
  const int64_t n = block->n, inner = l->e.inner;
  const REAL *x = block->in[0];
  REAL *norms = (REAL *)(uintptr_t)block->in[1];
  REAL *y = block->out;
  REAL factor[NN_CHUNK];
  double squares[NN_CHUNK] = {0};
  for (int64_t k = 0; k < l->e.length; ++k)
    for (int64_t i = 0; i < n; ++i) {
      const REAL value = x[k * inner + i];
      squares[i] += (double)(value * value);
    }
  for (int64_t i = 0; i < n; ++i) {
    norms[i] = (REAL)sqrt(squares[i] + l->eps);
    factor[i] = 1 / norms[i];
  }
  for (int64_t k = 0; y && k < l->e.length; ++k) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[k * inner + i] = x[k * inner + i] * factor[i];
  }
}

/* Writes the gradients of rows: in[0] is the output gradient, in[1] are norms,
 * in[2] the result. */
LOOP(write_row_gradients) {
  const l2_args *l = params;
  const int64_t n = l->e.length;
  const REAL *norms = block->in[1];
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * n;
    const REAL *y = (const REAL *)block->in[2] + r * n;
    REAL *to = (REAL *)block->out + r * n;
    const REAL sum = NAME(dot_rows)(g, y, n), factor = 1 / norms[r];
    NAME(prefetch_row)(g + n, n);
    NAME(prefetch_row)(y + n, n);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = (g[i] - y[i] * sum) * factor;
  }
}

LOOP(write_column_gradients) {
  const l2_args *l = params;
  const int64_t n = block->n, inner = l->e.inner;
  const REAL *g = block->in[0], *norms = block->in[1], *y = block->in[2];
  REAL *to = block->out;
  REAL sum[NN_CHUNK], factor[NN_CHUNK];
  double all[NN_CHUNK] = {0};
  for (int64_t k = 0; k < l->e.length; ++k)
    for (int64_t i = 0; i < n; ++i)
      all[i] += (double)(g[k * inner + i] * y[k * inner + i]);
  for (int64_t i = 0; i < n; ++i) {
    sum[i] = (REAL)all[i];
    factor[i] = 1 / norms[i];
  }
  for (int64_t k = 0; k < l->e.length; ++k) {
    const int64_t at = k * inner;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      to[at + i] = (g[at + i] - y[at + i] * sum[i]) * factor[i];
  }
}
