/* SPDX-License-Identifier: Apache-2.0
 * attention_loops.h: loops over tiles of scores (attention.h), included by
 * each.h.
 */
#include "vector.h"

/* Computes x = cap * tanh(x/cap), and in `bend` its derivative unless it is
 * NULL. */
LOOP(bend_scores) {
  const nn_attention_loop *l = params;
  const REAL cap = (REAL)l->cap;
  REAL *x = block->out, *bend = (REAL *)(uintptr_t)block->in[0];
  for (int64_t c = 0; c < l->n_columns; ++c, x += NN_ATTENTION_ROWS) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < l->lanes; ++i) {
      const REAL t = MATH(tanh)(x[i] / cap);
      x[i] = cap * t;
      if (bend) bend[i] = 1 - t * t;
    }
    if (bend) bend += NN_ATTENTION_ROWS;
  }
}

/* Adds a mask to scores; minus infinity replaces them, even NaN. */
LOOP(mask_scores) {
  const nn_attention_loop *l = params;
  const REAL *mask = block->in[0], none = -(REAL)INFINITY;
  REAL *x = block->out;
  for (int64_t c = 0; c < l->n_columns; ++c) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < l->lanes; ++i)
      x[i] = mask[i] <= none ? none : x[i] + mask[i];
    x += NN_ATTENTION_ROWS;
    mask += NN_ATTENTION_ROWS;
  }
}

/* Adds a mask that is the same for all rows: a number for each column. */
LOOP(mask_columns) {
  const nn_attention_loop *l = params;
  const REAL *mask = block->in[0], none = -(REAL)INFINITY;
  REAL *x = block->out;
  for (int64_t c = 0; c < l->n_columns; ++c, x += NN_ATTENTION_ROWS) {
    const REAL m = mask[c];
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < l->lanes; ++i) x[i] = m <= none ? none : x[i] + m;
  }
}

/* Sets scores to minus infinity where the bytes of a mask are 0. */
LOOP(mask_bytes) {
  const nn_attention_loop *l = params;
  const uint8_t *mask = block->in[0];
  REAL *x = block->out;
  for (int64_t c = 0; c < l->n_columns; ++c) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < l->lanes; ++i)
      x[i] = mask[i] ? x[i] : -(REAL)INFINITY;
    x += NN_ATTENTION_ROWS;
    mask += NN_ATTENTION_ROWS;
  }
}

/* Sets scores of columns after, or too far before, the own column of a row to
 * minus infinity. */
LOOP(hide_columns) {
  const nn_attention_loop *l = params;
  const int64_t lanes = l->lanes;
  REAL *x = block->out;
  for (int64_t c = 0; c < l->n_columns; ++c, x += NN_ATTENTION_ROWS) {
    const int64_t after = l->after + c, before = l->before + c;
    const int64_t end = after < lanes ? after : lanes;
    for (int64_t i = 0; i < end; ++i) x[i] = -(REAL)INFINITY;
    for (int64_t i = before > 0 ? before : 0; i < lanes; ++i)
      x[i] = -(REAL)INFINITY;
  }
}

/* Updates the maxima of rows. Columns are compared in four sets, so that one
 * comparison does not wait for the one before. */
BODY void NAME(find_tops)(const REAL *x, REAL *top, int64_t lanes, int64_t n) {
  enum { L = NAME(lanes), ROWS = NN_ATTENTION_ROWS, SETS = 4 };
  for (int64_t i = 0; i < lanes; i += L) {
    NAME(vector) most[SETS];
    int64_t c = 0;
    for (int k = 0; k < SETS; ++k) most[k] = NN_VECTOR(top + i);
    for (; c + SETS <= n; c += SETS)
      for (int k = 0; k < SETS; ++k)
        NN_KEEP_MAX(most[k], NN_VECTOR(x + (c + k) * ROWS + i));
    for (; c < n; ++c) NN_KEEP_MAX(most[0], NN_VECTOR(x + c * ROWS + i));
    NN_KEEP_MAX(most[0], most[1]);
    NN_KEEP_MAX(most[2], most[3]);
    NN_KEEP_MAX(most[0], most[2]);
    *(NAME(vector) *)(void *)(top + i) = most[0];
  }
}

/* Writes the weights of all columns of `lanes` rows, and adds them to `sum`. */
BODY void NAME(add_weights)(REAL *x, const REAL *top, REAL *sum,
                            const int64_t lanes, int64_t n) {
  for (int64_t c = 0; c < n; ++c, x += NN_ATTENTION_ROWS) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < lanes; ++i) {
      const REAL weight = MATH(exp_down)(x[i] - top[i]);
      x[i] = weight;
      sum[i] += weight;
    }
  }
}

/* A maximum of minus infinity counts as 0, so that its weights are 0. */
LOOP(take_scores) {
  const nn_attention_loop *l = params;
  const int64_t lanes = l->lanes, n = l->n_columns;
  REAL *x = block->out, *top = l->top, *sum = l->sum, *factor = l->factor;
  REAL old[NN_ATTENTION_ROWS], from[NN_ATTENTION_ROWS];
  memcpy(old, top, (size_t)lanes * sizeof *old);
  NAME(find_tops)(x, top, lanes, n);
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < lanes; ++i) {
    from[i] = top[i] <= -(REAL)INFINITY ? 0 : top[i];
    factor[i] = MATH(exp_down)(old[i] - from[i]);
    sum[i] *= factor[i];
  }
  if (lanes == NN_ATTENTION_ROWS)
    NAME(add_weights)(x, from, sum, NN_ATTENTION_ROWS, n);
  else
    NAME(add_weights)(x, from, sum, lanes, n);
}

/* Computes the words of Philox blocks with lower counters from `low` on, one
 * for each row, and the upper counter `high`. Rows are the inner loop, so that
 * it is vectorised. */
BODY void NAME(draw_rows)(const nn_attention_loop *l, uint64_t high,
                          uint32_t word[4][NN_ATTENTION_ROWS]) {
  uint32_t key[2] = {(uint32_t)l->key, (uint32_t)(l->key >> 32)};
  for (int r = 0; r < NN_ATTENTION_ROWS; ++r) {
    const uint64_t counter = l->counter + (uint64_t)r;
    word[0][r] = (uint32_t)counter;
    word[1][r] = (uint32_t)(counter >> 32);
    word[2][r] = (uint32_t)high;
    word[3][r] = (uint32_t)(high >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    TN_KERNEL_INDEPENDENT
    for (int r = 0; r < NN_ATTENTION_ROWS; ++r) {
      uint32_t c[4] = {word[0][r], word[1][r], word[2][r], word[3][r]};
      tn_kernel_philox_round(c, key);
      word[0][r] = c[0];
      word[1][r] = c[1];
      word[2][r] = c[2];
      word[3][r] = c[3];
    }
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
}

/* Multiplies weights by 0 or 1/(1 - p). */
LOOP(drop_weights) {
  const nn_attention_loop *l = params;
  const REAL kept = (REAL)l->kept;
  uint32_t word[4][NN_ATTENTION_ROWS];
  REAL *x = block->out;
  for (int64_t c = 0; c < l->n_columns; ++c, x += NN_ATTENTION_ROWS) {
    const int64_t column = l->column + c;
    const uint32_t *drawn = word[column % 4];
    if (c == 0 || column % 4 == 0)
      NAME(draw_rows)(l, (uint64_t)(1 + column / 4), word);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < l->lanes; ++i)
      x[i] *= drawn[i] < l->limit ? 0 : kept;
  }
}

LOOP(weigh_scores) {
  const nn_attention_loop *l = params;
  const REAL *lse = l->top;
  REAL *x = block->out, from[NN_ATTENTION_ROWS];
  for (int64_t i = 0; i < l->lanes; ++i)
    from[i] = lse[i] <= -(REAL)INFINITY ? 0 : lse[i];
  for (int64_t c = 0; c < l->n_columns; ++c, x += NN_ATTENTION_ROWS) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < l->lanes; ++i)
      x[i] = MATH(exp_down)(x[i] - from[i]);
  }
}

LOOP(slope_scores) {
  const nn_attention_loop *l = params;
  const REAL *weight = block->in[0], *bend = block->in[1], *sum = l->sum;
  REAL *x = block->out;
  for (int64_t c = 0; c < l->n_columns; ++c) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < l->lanes; ++i) x[i] = weight[i] * (x[i] - sum[i]);
    for (int64_t i = 0; bend && i < l->lanes; ++i) x[i] *= bend[i];
    x += NN_ATTENTION_ROWS;
    weight += NN_ATTENTION_ROWS;
    if (bend) bend += NN_ATTENTION_ROWS;
  }
}

LOOP(scale_lines) {
  const nn_attention_loop *l = params;
  const REAL *factor = l->factor;
  REAL *x = block->out;
  for (int64_t r = 0; r < block->n; ++r, x += l->width) {
    const REAL f = factor[r];
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < l->width; ++i) x[i] *= f;
  }
}

LOOP(dot_lines) {
  const nn_attention_loop *l = params;
  const REAL *x = block->in[0], *y = block->in[1];
  REAL *sum = l->sum;
  for (int64_t r = 0; r < block->n; ++r)
    sum[r] = NAME(dot_rows)(x + r * l->width, y + r * l->width, l->width);
}
