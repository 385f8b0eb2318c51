/* SPDX-License-Identifier: Apache-2.0
 * pool_largest.c: the largest elements of windows and their indices
 * (pool_largest.h): the taps of a line of windows are compared as vectors.
 */
#include "pool_largest.h"

#include <math.h>

#include "axis.h"
#include "pool_windows.h"

enum {
  LANES = 16,      /* windows are compared in multiples of it */
  MOST_REACH = 64, /* of a window whose taps share one copy of the row */
  MOST_COPIED = NN_POOL_CHUNK + MOST_REACH
};

/* A row of taps of adjacent windows. */
typedef struct row_args {
  void *indices;  /* of the largest elements so far */
  int64_t first;  /* index of the row's first element in the image */
  int64_t length; /* of the row */
  int64_t at;     /* place of the first tap in it; outside if it is padding */
  int64_t step;   /* distance to the next window */
  int64_t reach;  /* distance from the first tap to the last one */
  int64_t dilate; /* distance between taps */
} row_args;

/* Returns for which i below n element at + i*step is inside of the row. */
static inline nn_range find_inside(const row_args *row, int64_t at, int64_t n) {
  const int64_t first = nn_max(nn_ceil_div(-at, row->step), 0);
  const int64_t last = nn_ceil_div(row->length - at, row->step);
  const int64_t begin = nn_min(first, n);
  return (nn_range){begin, nn_max(nn_min(last, n), begin)};
}

/* Copies n elements of a row, `step` apart from `at` on. Padding is the least
 * number. */
#define COPY_ROW(name, type)                                                   \
  TN_KERNEL_BODY void name(const row_args *row, const type *x, int64_t at,     \
                           int64_t n, type *restrict to) {                     \
    const nn_range r = find_inside(row, at, n);                                \
    for (int64_t i = 0; i < r.begin; ++i) to[i] = -(type)INFINITY;             \
    if (row->step == 1)                                                        \
      for (int64_t i = r.begin; i < r.end; ++i) to[i] = x[at + i];             \
    else if (row->step == 2)                                                   \
      for (int64_t i = r.begin; i < r.end; ++i) to[i] = x[at + 2 * i];         \
    else                                                                       \
      for (int64_t i = r.begin; i < r.end; ++i) to[i] = x[at + i * row->step]; \
    for (int64_t i = r.end; i < n; ++i) to[i] = -(type)INFINITY;               \
  }
COPY_ROW(copy_row_f32, float)
COPY_ROW(copy_row_f64, double)

/* Compares a row of taps of n windows, a multiple of LANES, with their largest
 * elements so far. `index` has the width of `type`. The taps of adjacent
 * windows are copied so that they are adjacent: with step 1 all taps at once,
 * with step 2 the even and the odd ones, otherwise each by itself. */
#define COMPARE_ROW(name, type, index, copy)                                   \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const row_args *row = params;                                              \
    const index step = (index)row->step;                                       \
    const int64_t n = block->n / LANES * LANES;                                \
    const int shares = row->step <= 2 && row->reach <= MOST_REACH;             \
    const type *x = block->in[0];                                              \
    type *restrict best = block->out;                                          \
    index *restrict at = row->indices;                                         \
    type taps[2][MOST_COPIED];                                                 \
    for (int64_t h = 0; shares && h < row->step && h <= row->reach; ++h)       \
      copy(row, x, row->at + h, n + (row->reach - h) / row->step, taps[h]);    \
    for (int64_t skip = 0; skip <= row->reach; skip += row->dilate) {          \
      const index first = (index)(row->first + row->at + skip);                \
      const type *v = taps[0];                                                 \
      if (shares)                                                              \
        v = taps[skip % row->step] + skip / row->step;                         \
      else                                                                     \
        copy(row, x, row->at + skip, n, taps[0]);                              \
      for (index i = 0; i < (index)n; ++i) {                                   \
        const index is_nan = (v[i] != v[i]) & (best[i] == best[i]);            \
        const index takes = (v[i] > best[i]) | is_nan;                         \
        best[i] = takes ? v[i] : best[i];                                      \
        at[i] = takes ? first + i * step : at[i];                              \
      }                                                                        \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
COMPARE_ROW(compare_row_f32, float, int32_t, copy_row_f32)
COMPARE_ROW(compare_row_f64, double, int64_t, copy_row_f64)

/* Returns the index of the first tap that window i has, -1 if it has none. */
static int64_t find_first(const row_args *row, int64_t i) {
  const int64_t at = row->at + i * row->step;
  const int64_t skip = at < 0 ? nn_ceil_div(-at, row->dilate) * row->dilate : 0;
  const int has = skip <= row->reach && at + skip < row->length;
  return has ? row->first + at + skip : -1;
}

/* Begins n windows with the least number, at the first tap that each has: of
 * elements that are all the least, the first is the largest. */
#define BEGIN(name, type, index)                                             \
  static void name(const row_args *row, int64_t n, type *values) {           \
    index *restrict at = row->indices;                                       \
    const index first = (index)(row->first + row->at);                       \
    const index step = (index)row->step;                                     \
    const nn_range r = find_inside(row, row->at, n);                         \
    for (int64_t i = 0; i < n; ++i) values[i] = -(type)INFINITY;             \
    for (int64_t i = 0; i < r.begin; ++i) at[i] = (index)find_first(row, i); \
    for (index i = (index)r.begin; i < (index)r.end; ++i)                    \
      at[i] = first + i * step;                                              \
    for (int64_t i = r.end; i < n; ++i) at[i] = -1;                          \
  }
BEGIN(begin_f32, float, int32_t)
BEGIN(begin_f64, double, int64_t)

void nn_pool_find_line(const nn_pool_line *line, nn_pool_largest *chunk) {
  static const nn_loops loops = NN_LOOPS(compare_row);
  const nn_window *v = &line->pool->window;
  const nn_pool_place b =
      nn_pool_find_place(line->pool, line->number * v->out[2]);
  const int64_t n =
      nn_ceil_div(line->windows.end - line->windows.begin, LANES) * LANES;
  const int has_rows = b.begin[0] < b.end[0] && b.begin[1] < b.end[1];
  row_args row = {.indices = chunk->at,
                  .first = (b.begin[0] * v->in[1] + b.begin[1]) * v->in[2],
                  .length = has_rows ? v->in[2] : 0,
                  .at = line->windows.begin * v->stride[2] - v->pad[2],
                  .step = v->stride[2],
                  .reach = (v->kernel[2] - 1) * v->dilate[2],
                  .dilate = v->dilate[2]};
  if (line->mode.compute == TN_F32)
    begin_f32(&row, n, (float *)(void *)chunk->values);
  else
    begin_f64(&row, n, chunk->values);
  for (int64_t z = b.begin[0]; z < b.end[0]; z += v->dilate[0])
    for (int64_t y = b.begin[1]; y < b.end[1]; y += v->dilate[1]) {
      row.first = (z * v->in[1] + y) * v->in[2];
      nn_run_loop(&line->mode, &loops,
                  &(tn_kernel_block){
                      .n = n,
                      .out = chunk->values,
                      .in = {(const char *)line->image +
                             row.first * tn_dtype_bytes(line->mode.compute)}},
                  &row);
    }
}
