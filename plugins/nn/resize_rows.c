/* SPDX-License-Identifier: Apache-2.0
 * resize_rows.c: tables and loops of resize.h. Rows of several elements are
 * added as vectors. Single elements are first collected: up to 16 rows are
 * transposed, so that each of their elements is a row.
 */
#include "resize.h"

#include "axis.h"
#include "tenon/kernel/transpose.h"

/* ------------------------------------------------------------------ tables */

/* Returns the largest number of terms of a table. */
static int64_t count_terms(const nn_resize_axis *axis) {
  return axis->n_out * nn_resize_count_taps(axis);
}

/* Returns n elements of 8 bytes as a multiple of 64 bytes. */
static uint64_t count_bytes(int64_t n) {
  return ((uint64_t)n * 8 + 63) / 64 * 64;
}

uint64_t nn_resize_count_table_bytes(const nn_resize_axis *axis) {
  const int64_t n = axis->n_in > axis->n_out ? axis->n_in : axis->n_out;
  return count_bytes(n + 2) + 2 * count_bytes(count_terms(axis)) +
         count_bytes(nn_resize_count_taps(axis));
}

/* Stores the weight of term t. */
static void store_weight(nn_resize_table *table, tn_dtype dtype, int64_t t,
                         double weight) {
  if (dtype == TN_F64)
    ((double *)table->weight)[t] = weight;
  else
    ((float *)table->weight)[t] = (float)weight;
}

/* Fills the table of a forward pass. */
static void fill_forward(nn_resize_table *table, const nn_resize_axis *axis,
                         tn_dtype dtype, double *w) {
  int64_t t = 0;
  for (int64_t o = 0; o < axis->n_out; ++o) {
    const nn_resize_taps taps = nn_resize_find_taps(axis, o, w);
    table->begin[o] = t;
    for (int64_t k = 0; k < taps.n; ++k) {
      if (w[k] >= 0 && w[k] <= 0) continue;
      table->index[t] = taps.first + k;
      store_weight(table, dtype, t++, w[k]);
    }
  }
  table->begin[axis->n_out] = t;
}

/* Fills the table of a gradient: the terms of element i are all elements of
 * out that read it, in their order. begin[i + 2] counts the terms of i first,
 * so that begin[i + 1] is the place of its next term afterwards. */
static void fill_backward(nn_resize_table *table, const nn_resize_axis *axis,
                          tn_dtype dtype, double *w) {
  int64_t *next = table->begin;
  memset(next, 0, (size_t)(axis->n_in + 2) * sizeof *next);
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t o = 0; o < axis->n_out; ++o) {
      const nn_resize_taps taps = nn_resize_find_taps(axis, o, w);
      for (int64_t k = 0; k < taps.n; ++k) {
        const int64_t i = taps.first + k;
        if (w[k] >= 0 && w[k] <= 0) continue;
        if (pass == 0) {
          ++next[i + 2];
          continue;
        }
        table->index[next[i + 1]] = o;
        store_weight(table, dtype, next[i + 1]++, w[k]);
      }
    }
    for (int64_t i = 2; pass == 0 && i < axis->n_in + 2; ++i)
      next[i] += next[i - 1];
  }
}

void nn_resize_fill_table(nn_resize_table *table, const nn_resize_axis *axis,
                          tn_dtype dtype, int is_back, void *memory) {
  const int64_t n = axis->n_in > axis->n_out ? axis->n_in : axis->n_out;
  char *at = memory;
  table->n_from = is_back ? axis->n_out : axis->n_in;
  table->n_to = is_back ? axis->n_in : axis->n_out;
  table->outside = 0;
  table->begin = (int64_t *)(void *)at;
  at += count_bytes(n + 2);
  table->index = (int64_t *)(void *)at;
  at += count_bytes(count_terms(axis));
  table->weight = at;
  at += count_bytes(count_terms(axis));
  if (is_back)
    fill_backward(table, axis, dtype, (double *)(void *)at);
  else
    fill_forward(table, axis, dtype, (double *)(void *)at);
}

/* ------------------------------------------------------------------- loops */

/* The arguments of the loop over the rows of a result. */
typedef struct sum_args {
  const nn_resize_table *table;
  int64_t inner; /* elements of a row */
} sum_args;

/* Computes all rows of the result of a pass: weighted sums of rows. */
#define SUM_ROWS(name, type)                                                   \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const sum_args *args = params;                                             \
    const nn_resize_table *table = args->table;                                \
    const int64_t inner = args->inner;                                         \
    type *restrict y = block->out;                                             \
    for (int64_t o = 0; o < table->n_to; ++o, y += inner) {                    \
      const int64_t t = table->begin[o], n = table->begin[o + 1] - t;          \
      const int64_t *index = table->index + t;                                 \
      const type *w = (const type *)table->weight + t;                         \
      const type *x = block->in[0];                                            \
      if (n == 0)                                                              \
        for (int64_t j = 0; j < inner; ++j) y[j] = (type)table->outside;       \
      if (n == 1) {                                                            \
        const type *a = x + index[0] * inner, v = w[0];                        \
        for (int64_t j = 0; j < inner; ++j) y[j] = v * a[j];                   \
      }                                                                        \
      for (int64_t k = 0; k + 1 < n; k += 2) {                                 \
        const type *a = x + index[k] * inner, *b = x + index[k + 1] * inner;   \
        const type v = w[k], u = w[k + 1];                                     \
        if (k == 0)                                                            \
          for (int64_t j = 0; j < inner; ++j) y[j] = v * a[j] + u * b[j];      \
        else                                                                   \
          for (int64_t j = 0; j < inner; ++j) y[j] += v * a[j] + u * b[j];     \
      }                                                                        \
      if (n > 2 && n % 2 != 0) {                                               \
        const type *a = x + index[n - 1] * inner, v = w[n - 1];                \
        for (int64_t j = 0; j < inner; ++j) y[j] += v * a[j];                  \
      }                                                                        \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
SUM_ROWS(sum_rows_f32, float)
SUM_ROWS(sum_rows_f64, double)

/* Computes the result of one array (n_from, inner). */
static void sum_rows(const nn_resize_pass *pass, int64_t inner,
                     const void *from, void *to) {
  static const nn_loops loops = NN_LOOPS(sum_rows);
  const sum_args args = {pass->table, inner};
  nn_run_loop(&pass->mode, &loops,
              &(tn_kernel_block){.n = 1, .out = to, .in = {from}}, &args);
}

uint64_t nn_resize_count_line_bytes(int64_t n) {
  return count_bytes(NN_RESIZE_ROWS * n);
}

/* Computes the result of up to NN_RESIZE_ROWS rows. */
static void sum_elements(const nn_resize_pass *pass, int64_t rows,
                         const void *from, void *to) {
  const nn_resize_table *table = pass->table;
  const int64_t bytes = tn_dtype_bytes(pass->mode.compute);
  tn_transpose_fn *turn = tn_transpose_of(bytes, pass->mode.level);
  char *columns = pass->lines;
  char *results = columns + nn_resize_count_line_bytes(table->n_from);
  if (rows == 1) {
    sum_rows(pass, 1, from, to);
    return;
  }
  const tn_transpose in = {columns,       from,          rows,
                           table->n_from, table->n_from, rows};
  const tn_transpose out = {to, results, table->n_to, rows, rows, table->n_to};
  turn(&in);
  sum_rows(pass, rows, columns, results);
  turn(&out);
}

void nn_resize_run_pass(const nn_resize_pass *pass, const void *from,
                        void *to) {
  const int64_t bytes = tn_dtype_bytes(pass->mode.compute) * pass->inner;
  const int64_t step = pass->inner > 1 ? 1 : NN_RESIZE_ROWS;
  for (int64_t i = 0; pass->inner > 0 && i < pass->outer; i += step) {
    const int64_t left = pass->outer - i;
    const char *in = (const char *)from + i * pass->table->n_from * bytes;
    char *out = (char *)to + i * pass->table->n_to * bytes;
    if (pass->inner > 1)
      sum_rows(pass, pass->inner, in, out);
    else
      sum_elements(pass, left < step ? left : step, in, out);
  }
}
