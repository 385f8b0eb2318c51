/* SPDX-License-Identifier: Apache-2.0
 * pool_largest.c: the largest elements of windows and their indices
 * (pool_largest.h): the taps of a line of windows are compared as vectors.
 */
#include "pool_largest.h"

#include <math.h>

#include "axis.h"
#include "pool_windows.h"

/* The arguments of the loop over windows of a line for one tap. */
typedef struct tap_args {
  void *indices; /* of the largest elements, -1: none so far */
  int64_t first; /* index of the tap of the first window */
  int64_t step;  /* distance to that of the next window */
} tap_args;

/* Compares one tap of n windows with their largest elements so far. `index` has
 * the width of `type`. */
#define COMPARE_TAP(name, type, index)                                         \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const tap_args *args = params;                                             \
    const index first = (index)args->first, step = (index)args->step;          \
    const index n = (index)block->n;                                           \
    const type *x = block->in[0];                                              \
    type *restrict best = block->out;                                          \
    index *restrict at = args->indices;                                        \
    type row[NN_POOL_CHUNK];                                                   \
    if (step == 2)                                                             \
      for (index i = 0; i < n; ++i) row[i] = x[2 * i];                         \
    else if (step != 1)                                                        \
      for (index i = 0; i < n; ++i) row[i] = x[i * step];                      \
    if (step != 1) x = row;                                                    \
    for (index i = 0; i < n; ++i) {                                            \
      const type v = x[i];                                                     \
      const index is_nan = (v != v) & (best[i] == best[i]);                    \
      const index takes = (at[i] < 0) | (v > best[i]) | is_nan;                \
      best[i] = takes ? v : best[i];                                           \
      at[i] = takes ? first + i * step : at[i];                                \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
COMPARE_TAP(compare_tap_f32, float, int32_t)
COMPARE_TAP(compare_tap_f64, double, int64_t)

/* Sets the largest elements of a chunk to those of no element. */
static void clear_chunk(tn_dtype dtype, nn_pool_largest *chunk) {
  for (int64_t i = 0; i < NN_POOL_CHUNK; ++i) {
    if (dtype == TN_F32) {
      ((float *)(void *)chunk->values)[i] = -(float)INFINITY;
      ((int32_t *)(void *)chunk->at)[i] = -1;
    } else {
      chunk->values[i] = -(double)INFINITY;
      chunk->at[i] = -1;
    }
  }
}

/* Compares tap (z, y, t) of the windows of a line, of which z and y are rows of
 * the image. */
static void compare_row(const nn_pool_line *line, int64_t row, int64_t t,
                        nn_pool_largest *chunk) {
  static const nn_loops loops = NN_LOOPS(compare_tap);
  const nn_window *v = &line->pool->window;
  const int64_t bytes = tn_dtype_bytes(line->mode.compute);
  const nn_range r = nn_window_find_inside(v, 2, t, line->windows);
  const int64_t skip = r.begin - line->windows.begin;
  const int64_t first =
      row * v->in[2] + r.begin * v->stride[2] + t * v->dilate[2] - v->pad[2];
  if (r.begin == r.end) return;
  /* Values and indices have the same width. */
  const tap_args args = {(char *)chunk->at + skip * bytes, first, v->stride[2]};
  nn_run_loop(
      &line->mode, &loops,
      &(tn_kernel_block){.n = r.end - r.begin,
                         .out = (char *)chunk->values + skip * bytes,
                         .in = {(const char *)line->image + first * bytes}},
      &args);
}

void nn_pool_find_line(const nn_pool_line *line, nn_pool_largest *chunk) {
  const nn_window *v = &line->pool->window;
  const nn_pool_place b =
      nn_pool_find_place(line->pool, line->number * v->out[2]);
  clear_chunk(line->mode.compute, chunk);
  for (int64_t z = b.begin[0]; z < b.end[0]; z += v->dilate[0])
    for (int64_t y = b.begin[1]; y < b.end[1]; y += v->dilate[1])
      for (int64_t t = 0; t < v->kernel[2]; ++t)
        compare_row(line, z * v->in[1] + y, t, chunk);
}
