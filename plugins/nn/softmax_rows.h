/* SPDX-License-Identifier: Apache-2.0
 * softmax_rows.h: the loops of softmax.c, included by each.h.
 */
#include "vector.h"

/* Adds the partial sums of some lines to whole sums, and clears them. */
BODY void NAME(move_sums)(double *all, REAL *sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    all[i] += (double)sum[i];
    sum[i] = 0;
  }
}

/* Adjacent lines, with elements e->inner apart. */
BODY void NAME(beside)(const tn_kernel_block *block, const nn_softmax *s) {
  const int64_t length = s->extent.length, apart = s->extent.inner;
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
      const REAL v = x[k * apart + i];
      top[i] = v > top[i] ? v : top[i];
    }
  for (int64_t k = 0; k < length; ++k) {
    const int64_t at = k * apart;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const REAL d = (x[at + i] - top[i]) * factor;
      const REAL v = MATH(exp_down)(d);
      y[at + i] = s->is_log ? d : v;
      sum[i] += v;
    }
    if (length > SUMMED && k % SUMMED == SUMMED - 1)
      NAME(move_sums)(all, sum, n);
  }
  for (int64_t i = 0; length > SUMMED && i < n; ++i)
    sum[i] = (REAL)(all[i] + (double)sum[i]);
  if (s->is_log) {
    for (int64_t i = 0; i < n; ++i) sum[i] = MATH(log)(sum[i]);
    for (int64_t k = 0; k < length; ++k)
      for (int64_t i = 0; i < n; ++i) y[k * apart + i] -= sum[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) sum[i] = 1 / sum[i];
  for (int64_t k = 0; k < length; ++k)
    for (int64_t i = 0; i < n; ++i) y[k * apart + i] *= sum[i];
}

LOOP(columns) {
  NAME(beside)(block, params);
}

/* Rows of few elements, many at a time: transposed, they are columns. */
BODY void NAME(short_rows)(const nn_softmax *s, const REAL *x, REAL *y,
                           int64_t n) {
  REAL turned[FEW * NAME(lanes)];
  const int64_t length = s->extent.length;
  nn_softmax own = *s;
  own.extent.inner = NAME(lanes);
  const tn_kernel_block block = {
      .n = NAME(lanes), .out = turned, .in = {turned}};
  memset(turned, 0, (size_t)length * NAME(lanes) * sizeof *turned);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t k = 0; k < length; ++k)
      turned[k * NAME(lanes) + r] = x[r * length + k];
  NAME(beside)(&block, &own);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t k = 0; k < length; ++k)
      y[r * length + k] = turned[k * NAME(lanes) + r];
}

/* n rows. Searches the largest of the next one before the sum of this one is
 * known. */
BODY void NAME(long_rows)(const nn_softmax *s, const REAL *x, REAL *y,
                          int64_t n) {
  const int64_t length = s->extent.length;
  const REAL factor = (REAL)s->factor;
  REAL top = NAME(largest)(x, length);
  for (int64_t r = 0; r < n; ++r, x += length, y += length) {
    NAME(fetch)(x + length, length);
    const REAL sum = NAME(powers)(x, y, length, top, factor);
    if (r + 1 < n) top = NAME(largest)(x + length, length);
    const REAL scale = 1 / sum;
    NAME(fetch)(y + length, length);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < length; ++i) y[i] *= scale;
  }
}

/* Powers are only summed, so that y may be x. */
BODY void NAME(long_log)(const REAL *x, REAL *y, int64_t n, REAL factor) {
  const REAL top = NAME(largest)(x, n);
  NAME(fetch)(x + n, n);
  const REAL last = MATH(log)(NAME(power_sum)(x, n, top, factor));
  NAME(fetch)(y + n, n);
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) * factor - last;
}

/* Either, for rows that are written past the caches: they begin at a cache
 * line, and fill cache lines. The first cache keeps powers. */
BODY void NAME(past)(const nn_softmax *s, const REAL *x, REAL *y, int64_t n,
                     const int is_log) {
  enum { L = NAME(lanes) };
  const int64_t length = s->extent.length;
  const REAL factor = (REAL)s->factor;
  REAL power[PAST / sizeof(REAL)], next = NAME(largest)(x, length);
  for (int64_t r = 0; r < n; ++r, x += length, y += length) {
    const REAL top = next;
    NAME(fetch)(x + length, length);
    const REAL sum = NAME(powers)(x, power, length, top, factor);
    if (r + 1 < n) next = NAME(largest)(x + length, length);
    const REAL last = is_log ? MATH(log)(sum) : 1 / sum;
    for (int64_t i = 0; i < length; i += L)
      if (is_log)
        NAME(NN_PAST)(y + i, (NN_VECTOR(x + i) - top) * factor - last);
      else
        NAME(NN_PAST)(y + i, NN_VECTOR(power + i) * last);
  }
  NN_PAST_ALL();
}

LOOP(past_rows) {
  const nn_softmax *s = params;
  if (s->is_log)
    NAME(past)(s, block->in[0], block->out, block->n, 1);
  else
    NAME(past)(s, block->in[0], block->out, block->n, 0);
}

/* Rows with contiguous elements. */
LOOP(rows) {
  enum { L = NAME(lanes) };
  const nn_softmax *s = params;
  const int64_t length = s->extent.length, n = block->n;
  const REAL *x = block->in[0];
  REAL *y = block->out;
  if (length <= FEW) {
    for (int64_t r = 0; r < n; r += L, x += L * length, y += L * length)
      NAME(short_rows)(s, x, y, n - r < L ? n - r : L);
  } else if (s->is_log) {
    for (int64_t r = 0; r < n; ++r, x += length, y += length)
      NAME(long_log)(x, y, length, (REAL)s->factor);
  } else if (n > 0) {
    NAME(long_rows)(s, x, y, n);
  }
}

/* -------------------------------------------------------------- gradients
 * in[0] is the gradient of the result, in[1] the result. */

LOOP(back_columns) {
  const nn_softmax *s = params;
  const int64_t length = s->extent.length, apart = s->extent.inner;
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
      const REAL head = g[k * apart + i];
      sum[i] += s->is_log ? head : head * y[k * apart + i];
    }
    if (length > SUMMED && k % SUMMED == SUMMED - 1)
      NAME(move_sums)(all, sum, n);
  }
  for (int64_t i = 0; length > SUMMED && i < n; ++i)
    sum[i] = (REAL)(all[i] + (double)sum[i]);
  for (int64_t k = 0; k < length; ++k) {
    const int64_t at = k * apart;
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

LOOP(back_rows) {
  const nn_softmax *s = params;
  const int64_t n = s->extent.length;
  const REAL factor = (REAL)s->factor;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * n;
    const REAL *y = (const REAL *)block->in[1] + r * n;
    REAL *to = (REAL *)block->out + r * n;
    if (s->is_log) {
      const REAL sum = NAME(sum)(g, n);
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        to[i] = (g[i] - MATH(exp_down)(y[i]) * sum) * factor;
    } else {
      const REAL sum = NAME(dot)(g, y, n);
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) to[i] = y[i] * (g[i] - sum) * factor;
    }
  }
}

/* back_rows past the caches, except for logarithms. */
LOOP(past_back_rows) {
  const nn_softmax *s = params;
  const int64_t n = s->extent.length;
  const REAL factor = (REAL)s->factor;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * n;
    const REAL *y = (const REAL *)block->in[1] + r * n;
    REAL *to = (REAL *)block->out + r * n;
    const REAL sum = NAME(dot)(g, y, n);
    for (int64_t i = 0; i < n; i += NAME(lanes)) NAME(NN_PAST)
    (to + i, NN_VECTOR(y + i) * (NN_VECTOR(g + i) - sum) * factor);
  }
  NN_PAST_ALL();
}
