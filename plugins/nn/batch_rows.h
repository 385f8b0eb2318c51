/* SPDX-License-Identifier: Apache-2.0
 * batch_rows.h: the loops of batch_norm.c, included by each.h.
 *
 * Each loop gets a piece_args (batch_norm.c): `runs` runs of block->n elements
 * with the distance `run_distance`. In `plane` loops all elements belong to one
 * channel, in `column` loops element i of each run belongs to channel i.
 */
#include "vector.h"

enum {
  NAME(max_columns) = NN_CHUNK, /* largest number of columns in one piece */
  NAME(write_elements) = NN_WRITER_CHUNK / (int)sizeof(REAL) /* elements of a
                                                      plane in one write */
};

/* Buffer of an nn_writer, which writes results past the caches. */
typedef struct NAME(writer_buffer) {
  char bytes[3 * NN_WRITER_CHUNK] __attribute__((aligned(64)));
} NAME(writer_buffer);

/* Converts n values of channels to the type of the computation, for a loop over
 * columns. */
BODY void NAME(cast_values)(REAL *to, const double *from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = (REAL)from[i];
}

/* ----------------------------------------------------------------- moments */

/* Computes the mean of in[0], and the sum of squared distances to it. */
LOOP(measure_plane) {
  const piece_args *b = params;
  const REAL *x = block->in[0];
  const double count = (double)(b->runs * block->n);
  double sum = 0, beyond = 0, spread = 0;
  for (int64_t r = 0; r < b->runs; ++r)
    sum += (double)NAME(sum_row)(x + r * b->run_distance, block->n);
  /* The sum of numbers far from 0 is too inexact for distances. */
  const REAL near = (REAL)(sum / count);
  for (int64_t r = 0; r < b->runs; ++r) {
    REAL sums[2];
    NAME(sum_distances)(x + r * b->run_distance, near, block->n, sums);
    beyond += (double)sums[0];
    spread += (double)sums[1];
  }
  const double off = near - near == 0 ? beyond / count : 0;
  b->sums[0][0] = (double)near + off;
  b->sums[1][0] = spread - count * off * off;
}

/* Computes the mean and the sum of squared distances to it for each column.
 * Numbers far from 0 are summed as distances to the column's first element, and
 * then to the mean. */
LOOP(measure_columns) {
  const piece_args *b = params;
  const REAL *x = block->in[0];
  const int64_t n = block->n;
  const double count = (double)b->runs;
  REAL near[NAME(max_columns)], sum[NAME(max_columns)] = {0},
                                spread[NAME(max_columns)] = {0};
  for (int64_t i = 0; i < n; ++i) near[i] = x[i] - x[i] == 0 ? x[i] : 0;
  for (int64_t r = 0; r < b->runs; ++r)
    for (int64_t i = 0; i < n; ++i)
      sum[i] += x[r * b->run_distance + i] - near[i];
  for (int64_t i = 0; i < n; ++i) {
    b->sums[0][i] = (double)near[i] + (double)sum[i] / count;
    near[i] = (REAL)b->sums[0][i];
  }
  for (int64_t r = 0; r < b->runs; ++r)
    for (int64_t i = 0; i < n; ++i) {
      const REAL d = x[r * b->run_distance + i] - near[i];
      spread[i] += d * d;
    }
  for (int64_t i = 0; i < n; ++i) {
    const double off = b->sums[0][i] - (double)near[i];
    b->sums[1][i] = (double)spread[i] - count * off * off;
  }
}

/* out = (in[0] - mean)*scale + shift */
LOOP(scale_plane) {
  const piece_args *b = params;
  const REAL mean = (REAL)b->mean[0], scale = (REAL)b->scale[0];
  const REAL shift = (REAL)b->shift[0];
  NAME(writer_buffer) buffer;
  for (int64_t r = 0; r < b->runs; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * b->run_distance;
    REAL *y = (REAL *)block->out + r * b->run_distance;
    nn_writer writer =
        nn_writer_open(y, b->streamed ? buffer.bytes : NULL, b->level);
    for (int64_t i = 0, n; i < block->n; i += n, x += n) {
      n = block->n - i < NAME(write_elements) ? block->n - i
                                              : (int64_t)NAME(write_elements);
      y = nn_writer_begin_line(&writer);
      TN_KERNEL_INDEPENDENT
      for (int64_t k = 0; k < n; ++k) y[k] = (x[k] - mean) * scale + shift;
      nn_writer_end_line(&writer, n * (int64_t)sizeof *y);
    }
    nn_writer_close(&writer);
  }
}

LOOP(scale_columns) {
  const piece_args *b = params;
  const int64_t n = block->n;
  REAL mean[NAME(max_columns)], scale[NAME(max_columns)],
      shift[NAME(max_columns)];
  NAME(cast_values)(mean, b->mean, n);
  NAME(cast_values)(scale, b->scale, n);
  NAME(cast_values)(shift, b->shift, n);
  for (int64_t r = 0; r < b->runs; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * b->run_distance;
    REAL *y = (REAL *)block->out + r * b->run_distance;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
  }
}

/* -------------------------------------------------------------- gradients
 * in[0] is the gradient of the result, in[1] the input. */

/* Computes the sum of the output gradient, and of its products with x - mean.
 */
LOOP(sum_plane_gradients) {
  const piece_args *b = params;
  const REAL mean = (REAL)b->mean[0];
  double sum = 0, moment = 0;
  for (int64_t r = 0; r < b->runs; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * b->run_distance;
    const REAL *x = (const REAL *)block->in[1] + r * b->run_distance;
    REAL sums[2];
    NAME(sum_moments)(g, x, mean, block->n, sums);
    sum += (double)sums[0];
    moment += (double)sums[1];
  }
  b->sums[0][0] = sum;
  b->sums[1][0] = moment;
}

LOOP(sum_column_gradients) {
  const piece_args *b = params;
  const int64_t n = block->n;
  REAL mean[NAME(max_columns)], sum[NAME(max_columns)],
      moment[NAME(max_columns)];
  memset(sum, 0, sizeof sum);
  memset(moment, 0, sizeof moment);
  NAME(cast_values)(mean, b->mean, n);
  for (int64_t r = 0; r < b->runs; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * b->run_distance;
    const REAL *x = (const REAL *)block->in[1] + r * b->run_distance;
    for (int64_t i = 0; i < n; ++i) {
      sum[i] += g[i];
      moment[i] += g[i] * (x[i] - mean[i]);
    }
  }
  for (int64_t i = 0; i < n; ++i) b->sums[0][i] = (double)sum[i];
  for (int64_t i = 0; i < n; ++i) b->sums[1][i] = (double)moment[i];
}

/* out = (g - shift - (x - mean)*factor) * scale */
LOOP(write_plane_gradients) {
  const piece_args *b = params;
  const REAL mean = (REAL)b->mean[0], scale = (REAL)b->scale[0];
  const REAL shift = (REAL)b->shift[0], factor = (REAL)b->factor[0];
  NAME(writer_buffer) buffer;
  for (int64_t r = 0; r < b->runs; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * b->run_distance;
    const REAL *x = (const REAL *)block->in[1] + r * b->run_distance;
    REAL *y = (REAL *)block->out + r * b->run_distance;
    nn_writer writer =
        nn_writer_open(y, b->streamed ? buffer.bytes : NULL, b->level);
    for (int64_t i = 0, n; i < block->n; i += n, x += n, g += n) {
      n = block->n - i < NAME(write_elements) ? block->n - i
                                              : (int64_t)NAME(write_elements);
      y = nn_writer_begin_line(&writer);
      TN_KERNEL_INDEPENDENT
      for (int64_t k = 0; k < n; ++k)
        y[k] = ((g[k] - shift) - (x[k] - mean) * factor) * scale;
      nn_writer_end_line(&writer, n * (int64_t)sizeof *y);
    }
    nn_writer_close(&writer);
  }
}

LOOP(write_column_gradients) {
  const piece_args *b = params;
  const int64_t n = block->n;
  REAL mean[NAME(max_columns)], scale[NAME(max_columns)],
      shift[NAME(max_columns)];
  REAL factor[NAME(max_columns)];
  NAME(cast_values)(mean, b->mean, n);
  NAME(cast_values)(scale, b->scale, n);
  NAME(cast_values)(shift, b->shift, n);
  NAME(cast_values)(factor, b->factor, n);
  for (int64_t r = 0; r < b->runs; ++r) {
    const REAL *g = (const REAL *)block->in[0] + r * b->run_distance;
    const REAL *x = (const REAL *)block->in[1] + r * b->run_distance;
    REAL *y = (REAL *)block->out + r * b->run_distance;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[i] = ((g[i] - shift[i]) - (x[i] - mean[i]) * factor[i]) * scale[i];
  }
}
