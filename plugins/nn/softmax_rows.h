/* SPDX-License-Identifier: Apache-2.0
 * softmax_rows.h: the loops of softmax.c, included by each.h.
 */
#include "vector.h"

/* Adds the partial sums of n lines to their sums in f64, and clears them. */
BODY void NAME(flush_sums)(double *all, REAL *sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    all[i] += (double)sum[i];
    sum[i] = 0;
  }
}

/* Computes the softmax of adjacent lines with elements s->axis_shape.inner
 * apart. */
BODY void NAME(compute_lines)(const tn_kernel_block *block,
                              const nn_softmax *s) {
  const int64_t length = s->axis_shape.length, distance = s->axis_shape.inner;
  const int64_t n = block->n;
  const REAL factor = (REAL)s->factor;
  const REAL *x = block->in[0];
  REAL *y = block->out;
  REAL top[NN_CHUNK], sum[NN_CHUNK];
  double all[NN_CHUNK];
  memcpy(top, x, (size_t)n * sizeof *x);
  memset(sum, 0, (size_t)n * sizeof *sum);
  if (length > SUMMED) memset(all, 0, (size_t)n * sizeof *all);
  for (int64_t k = 1; k < length; ++k)
    for (int64_t i = 0; i < n; ++i) {
      const REAL v = x[k * distance + i];
      top[i] = v > top[i] ? v : top[i];
    }
  for (int64_t k = 0; k < length; ++k) {
    const int64_t at = k * distance;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const REAL d = (x[at + i] - top[i]) * factor;
      const REAL v = MATH(exp_down)(d);
      y[at + i] = s->is_log ? d : v;
      sum[i] += v;
    }
    if (length > SUMMED && k % SUMMED == SUMMED - 1)
      NAME(flush_sums)(all, sum, n);
  }
  for (int64_t i = 0; length > SUMMED && i < n; ++i)
    sum[i] = (REAL)(all[i] + (double)sum[i]);
  if (s->is_log) {
    for (int64_t i = 0; i < n; ++i) sum[i] = MATH(log)(sum[i]);
    for (int64_t k = 0; k < length; ++k)
      for (int64_t i = 0; i < n; ++i) y[k * distance + i] -= sum[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) sum[i] = 1 / sum[i];
  for (int64_t k = 0; k < length; ++k)
    for (int64_t i = 0; i < n; ++i) y[k * distance + i] *= sum[i];
}

LOOP(compute_columns) {
  NAME(compute_lines)(block, params);
}

/* Computes n rows of few elements together, n up to the lanes of a vector:
 * transposed, they are columns. */
BODY void NAME(compute_short_rows)(const nn_softmax *s, const REAL *x, REAL *y,
                                   int64_t n) {
  REAL turned[FEW * NAME(lanes)];
  const int64_t length = s->axis_shape.length;
  nn_softmax own = *s;
  own.axis_shape.inner = NAME(lanes);
  const tn_kernel_block block = {
      .n = NAME(lanes), .out = turned, .in = {turned}};
  memset(turned, 0, (size_t)length * NAME(lanes) * sizeof *turned);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t k = 0; k < length; ++k)
      turned[k * NAME(lanes) + r] = x[r * length + k];
  NAME(compute_lines)(&block, &own);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t k = 0; k < length; ++k)
      y[r * length + k] = turned[k * NAME(lanes) + r];
}

/* Computes the softmax of n rows. It finds the largest element of the next row
 * before the sum of this one is known. */
BODY void NAME(compute_long_rows)(const nn_softmax *s, const REAL *x, REAL *y,
                                  int64_t n) {
  const int64_t length = s->axis_shape.length;
  const REAL factor = (REAL)s->factor;
  REAL top = NAME(find_largest)(x, length);
  for (int64_t r = 0; r < n; ++r, x += length, y += length) {
    NAME(prefetch_row)(x + length, length);
    const REAL sum = NAME(exp_row)(x, y, length, top, factor);
    if (r + 1 < n) top = NAME(find_largest)(x + length, length);
    const REAL scale = 1 / sum;
    NAME(prefetch_row)(y + length, length);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < length; ++i) y[i] *= scale;
  }
}

/* Computes the logarithm of the softmax of a row. The powers are only summed,
 * so that y may be x. */
BODY void NAME(compute_log_row)(const REAL *x, REAL *y, int64_t n,
                                REAL factor) {
  const REAL top = NAME(find_largest)(x, n);
  NAME(prefetch_row)(x + n, n);
  const REAL last = MATH(log)(NAME(sum_exp)(x, n, top, factor));
  NAME(prefetch_row)(y + n, n);
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) * factor - last;
}

/* Computes the softmax or its logarithm for rows that are written past the
 * caches: rows must begin at a cache line and fill cache lines. The powers stay
 * in the first cache. */
BODY void NAME(stream_softmax)(const nn_softmax *s, const REAL *x, REAL *y,
                               int64_t n, const int is_log) {
  enum { L = NAME(lanes) };
  const int64_t length = s->axis_shape.length;
  const REAL factor = (REAL)s->factor;
  REAL power[STREAMED / sizeof(REAL)], next = NAME(find_largest)(x, length);
  for (int64_t r = 0; r < n; ++r, x += length, y += length) {
    const REAL top = next;
    NAME(prefetch_row)(x + length, length);
    const REAL sum = NAME(exp_row)(x, power, length, top, factor);
    if (r + 1 < n) next = NAME(find_largest)(x + length, length);
    const REAL last = is_log ? MATH(log)(sum) : 1 / sum;
    for (int64_t i = 0; i < length; i += L)
      if (is_log)
        NAME(NN_STREAM)(y + i, (NN_VECTOR(x + i) - top) * factor - last);
      else
        NAME(NN_STREAM)(y + i, NN_VECTOR(power + i) * last);
  }
  NN_STREAM_END();
}

LOOP(stream_rows) {
  const nn_softmax *s = params;
  if (s->is_log)
    NAME(stream_softmax)(s, block->in[0], block->out, block->n, 1);
  else
    NAME(stream_softmax)(s, block->in[0], block->out, block->n, 0);
}

/* Computes rows, which have contiguous elements. */
LOOP(compute_rows) {
  enum { L = NAME(lanes) };
  const nn_softmax *s = params;
  const int64_t length = s->axis_shape.length, n = block->n;
  const REAL *x = block->in[0];
  REAL *y = block->out;
  if (length <= FEW) {
    for (int64_t r = 0; r < n; r += L, x += L * length, y += L * length)
      NAME(compute_short_rows)(s, x, y, n - r < L ? n - r : L);
  } else if (s->is_log) {
    for (int64_t r = 0; r < n; ++r, x += length, y += length)
      NAME(compute_log_row)(x, y, length, (REAL)s->factor);
  } else if (n > 0) {
    NAME(compute_long_rows)(s, x, y, n);
  }
}

/* -------------------------------------------------------------- gradients
 * in[0] is the gradient of the result, in[1] the result. */

LOOP(write_column_gradients) {
  const nn_softmax *s = params;
  const int64_t length = s->axis_shape.length, distance = s->axis_shape.inner;
  const int64_t n = block->n;
  const REAL factor = (REAL)s->factor;
  const REAL *g = block->in[0], *y = block->in[1];
  REAL *to = block->out;
  REAL sum[NN_CHUNK];
  double all[NN_CHUNK];
  memset(sum, 0, (size_t)n * sizeof *sum);
  if (length > SUMMED) memset(all, 0, (size_t)n * sizeof *all);
  for (int64_t k = 0; k < length; ++k) {
    for (int64_t i = 0; i < n; ++i) {
      const REAL out_gradient = g[k * distance + i];
      sum[i] += s->is_log ? out_gradient : out_gradient * y[k * distance + i];
    }
    if (length > SUMMED && k % SUMMED == SUMMED - 1)
      NAME(flush_sums)(all, sum, n);
  }
  for (int64_t i = 0; length > SUMMED && i < n; ++i)
    sum[i] = (REAL)(all[i] + (double)sum[i]);
  for (int64_t k = 0; k < length; ++k) {
    const int64_t at = k * distance;
    if (s->is_log) {
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        to[at + i] = (g[at + i] - MATH(exp_down)(y[at + i]) * sum[i]) * factor;
    } else {
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        to[at + i] = y[at + i] * (g[at + i] - sum[i]) * factor;
    }
  }
}

LOOP(write_row_gradients) {
  const nn_softmax *s = params;
  const int64_t n = s->axis_shape.length;
  const REAL factor = (REAL)s->factor;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * n;
    const REAL *y = (const REAL *)block->in[1] + r * n;
    REAL *to = (REAL *)block->out + r * n;
    if (s->is_log) {
      const REAL sum = NAME(sum_row)(g, n);
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        to[i] = (g[i] - MATH(exp_down)(y[i]) * sum) * factor;
    } else {
      const REAL sum = NAME(dot_rows)(g, y, n);
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) to[i] = y[i] * (g[i] - sum) * factor;
    }
  }
}

/* Does the same as write_row_gradients, but writes past the caches; not for
 * logarithms. */
LOOP(stream_row_gradients) {
  const nn_softmax *s = params;
  const int64_t n = s->axis_shape.length;
  const REAL factor = (REAL)s->factor;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * n;
    const REAL *y = (const REAL *)block->in[1] + r * n;
    REAL *to = (REAL *)block->out + r * n;
    const REAL sum = NAME(dot_rows)(g, y, n);
    for (int64_t i = 0; i < n; i += NAME(lanes)) NAME(NN_STREAM)
    (to + i, NN_VECTOR(y + i) * (NN_VECTOR(g + i) - sum) * factor);
  }
  NN_STREAM_END();
}
