/* SPDX-License-Identifier: Apache-2.0
 * pool_lines.c: computes a pooling (pool.h), line by line; a line has the
 * elements of a plane along its last dimension. First the lines of a window are
 * combined into one, then adjacent windows of that line are computed. If the
 * step of windows is above 1, the columns of a line are sorted by their
 * remainder modulo the step. So neighbouring windows read contiguous elements.
 */
#include "pool.h"
#include "pool_windows.h"

#include "tenon/kernel/kernel.h"
#include "writer.h"

enum {
  LANES = 16, /* number of partial results of a line that is one window */
  GROUP = 3,  /* columns of a window that get their gradients in one loop */
  PREFETCH_DISTANCE = 8, /* lines that are prefetched */
  MARGIN = 16, /* elements before and after lines that vectors may read */
  VECTOR = 16  /* lengths of lines of windows are rounded up to it */
};

/* Layout of a line with sorted columns: `step` phases, one for each remainder,
 * of `length` elements each. */
typedef struct sorted_layout {
  int64_t step;
  int64_t length; /* elements of a phase */
} sorted_layout;

/* Returns the layout of a line of data with columns sorted by phase. */
static inline sorted_layout find_sorted_layout(const nn_window *w) {
  return (sorted_layout){w->stride[2],
                         (w->in[2] + w->stride[2] - 1) / w->stride[2]};
}

/* Number of elements of a sorted line, with all its phases. */
static inline int64_t count_line_elements(const nn_window *w) {
  const sorted_layout s = find_sorted_layout(w);
  return s.step * s.length;
}

/* Returns the position of column t of window 0 in a sorted line. */
static inline int64_t find_sorted_position(const nn_window *w,
                                           const sorted_layout *s, int64_t t) {
  const int64_t column = t - w->pad[2];
  const int64_t phase = (column % s->step + s->step) % s->step;
  return phase * s->length + (column - phase) / s->step;
}

/* Returns the elements of window o along dimension d that are not padding. */
static inline nn_range find_elements(const nn_window *w, int d, int64_t o) {
  const int64_t first = o * w->stride[d] - w->pad[d];
  const int64_t begin = nn_min(nn_max(first, 0), w->in[d]);
  return (nn_range){begin,
                    nn_max(nn_min(first + w->kernel[d], w->in[d]), begin)};
}

/* Number of elements that a mean counts along d. */
static inline int64_t count_mean_elements(const nn_pool *p, int d, int64_t o) {
  const nn_window *w = &p->window;
  const nn_range inside = find_elements(w, d, o);
  const int64_t first = o * w->stride[d] - w->pad[d];
  if (!p->counts_padding) return inside.end - inside.begin;
  return nn_max(nn_min(first + w->kernel[d], p->limit[d]) - first, 0);
}

/* Returns the windows of a line in which a mean counts all columns. */
static inline nn_range find_whole_windows(const nn_pool *p) {
  const nn_window *w = &p->window;
  nn_range x = {0, w->out[2]};
  while (x.begin < x.end && count_mean_elements(p, 2, x.begin) != w->kernel[2])
    ++x.begin;
  while (x.end > x.begin &&
         count_mean_elements(p, 2, x.end - 1) != w->kernel[2])
    --x.end;
  return x;
}

/* Whether windows have 2 x 2 elements, step 2 and no padding. Then each element
 * is in at most one window, and a line of windows is computed in one step. */
static inline int has_2x2_windows(const nn_pool *p) {
  const nn_window *w = &p->window;
  for (int d = 1; d < NN_WINDOW_RANK; ++d)
    if (w->kernel[d] != 2 || w->stride[d] != 2 || w->pad[d] != 0 ||
        2 * w->out[d] > w->in[d])
      return 0;
  return w->kernel[0] == 1 && w->stride[0] == 1 && w->pad[0] == 0;
}

/* The arrays of one line of windows of 2 x 2, for the gradient of the largest.
 */
typedef struct nn_pool_2x2_line {
  const void *data;
  const void *out;
  const void *out_gradient;
  void *to;
  int64_t n;
  int64_t line; /* elements of a line of data */
} nn_pool_2x2_line;

/* Returns the start of the piece after the one at `at`, or -1 if there is none.
 * A line of n windows is computed in pieces of `length`. The last piece may
 * overlap the one before, so that short lines use vectors too. */
static inline int64_t find_next_piece(int64_t at, int64_t n, int64_t length) {
  if (at + length >= n) return -1;
  return nn_min(at + length, n - length);
}

/* Sizes of the buffers for the gradient of the largest, in elements. */
typedef struct gradient_layout {
  int64_t windows;         /* length of a line of windows */
  int64_t front;           /* elements of a phase before its first column */
  int64_t phase;           /* distance from one phase to the next */
  int64_t columns;         /* length of a line of data with all phases */
  int64_t column_distance; /* distance from the gradients for one column of
                    windows to those for the next column */
  int64_t rest;            /* size of all buffers except the lines of windows */
} gradient_layout;

/* Returns the layout of the buffers for gradients. */
static inline gradient_layout find_gradient_layout(const nn_window *w) {
  const int64_t step = w->stride[2];
  gradient_layout l = {.windows = (w->out[2] + VECTOR - 1) / VECTOR * VECTOR,
                       .front = (w->pad[2] + step - 1) / step + MARGIN};
  const int64_t columns =
      nn_max((w->in[2] + step - 1) / step, w->kernel[2] / step + l.windows);
  l.phase = (l.front + columns + MARGIN + VECTOR - 1) / VECTOR * VECTOR;
  l.columns = step * l.phase;
  l.column_distance = l.windows + 2 * MARGIN;
  l.rest = 2 * l.columns + GROUP * l.column_distance;
  return l;
}

/* Returns the windows along dimension d that contain element i. */
static inline nn_range find_windows(const nn_window *w, int d, int64_t i) {
  const int64_t at = i + w->pad[d];
  const int64_t first = nn_ceil_div(at - w->kernel[d] + 1, w->stride[d]);
  const int64_t begin = nn_min(nn_max(first, 0), w->out[d]);
  const int64_t last = at / w->stride[d] + 1;
  return (nn_range){begin, nn_max(nn_min(last, w->out[d]), begin)};
}

/* Expands `name` before TN_KERNEL_LEVELS, because it is a macro itself. */
#define LEVELS(name) TN_KERNEL_LEVELS(name)

#define REAL float
#define BITS uint32_t
#define NAME(x) x##_f32
#include "pool_lines.h"

#define REAL double
#define BITS uint64_t
#define NAME(x) x##_f64
#include "pool_lines.h"

#if defined(TN_KERNEL_AVX2)
#include "pool_3x3.h"
#endif

void nn_pool_set_taps(nn_pool *pool, nn_pool_tap *taps) {
  const nn_window *w = &pool->window;
  const sorted_layout s = find_sorted_layout(w);
  const gradient_layout l = find_gradient_layout(w);
  const sorted_layout back = {s.step, l.phase};
  if (nn_pool_is_dilated(pool)) return;
  for (int64_t t = 0; t < w->kernel[2]; ++t)
    taps[t] =
        (nn_pool_tap){nn_window_find_inside(w, 2, t, (nn_range){0, w->out[2]}),
                      find_sorted_position(w, &s, t),
                      find_sorted_position(w, &back, t) + l.front};
  pool->taps = taps;
  pool->whole = find_whole_windows(pool);
}

/* Number of elements of scratch memory for the gradient of one image. */
static int64_t count_backward_scratch(const nn_pool *pool) {
  const nn_window *w = &pool->window;
  const int64_t lines = w->out[0] * w->out[1];
  const gradient_layout l = find_gradient_layout(w);
  int64_t own = 0;
#if defined(TN_KERNEL_AVX2)
  own = pool3_count_scratch(w);
#endif
  if (pool->kind == NN_POOL_MAX)
    return nn_max(2 * lines * l.windows + l.rest, own);
  return (lines + 1) * count_line_elements(w) + w->out[2];
}

uint64_t nn_pool_count_scratch(const nn_pool *pool, int64_t bytes,
                               int backward) {
  const nn_window *w = &pool->window;
  if (nn_pool_is_dilated(pool)) return 0;
  const int64_t n = backward
                        ? count_backward_scratch(pool)
                        : 2 * count_line_elements(w) + w->stride[2] + w->out[2];
  return ((uint64_t)(n * bytes) + 63) / 64 * 64;
}

uint64_t nn_pool_count_buffer_bytes(const nn_pool *pool, int64_t bytes) {
  return nn_writer_count_bytes(2 * pool->window.in[2] * bytes);
}

void nn_pool_forward(const nn_pool_image *image) {
  static const tn_kernel_bodies singles = TN_KERNEL_BODIES(pool_forward_f32);
  static const tn_kernel_bodies doubles = TN_KERNEL_BODIES(pool_forward_f64);
  const tn_kernel_block none = {.n = 0};
  if (nn_pool_is_dilated(image->pool)) {
    nn_pool_run_windows(image);
    return;
  }
  tn_kernel_body_at(image->dtype == TN_F32 ? &singles : &doubles, image->level)(
      &none, image);
}

void nn_pool_backward(const nn_pool_image *image) {
  static const tn_kernel_bodies singles = TN_KERNEL_BODIES(pool_backward_f32);
  static const tn_kernel_bodies doubles = TN_KERNEL_BODIES(pool_backward_f64);
  const tn_kernel_block none = {.n = 0};
  if (nn_pool_is_dilated(image->pool)) {
    nn_pool_run_windows(image);
    return;
  }
#if defined(TN_KERNEL_AVX2)
  if (pool3_has_windows(image) && pool3_backward(image)) return;
#endif
  tn_kernel_body_at(image->dtype == TN_F32 ? &singles : &doubles, image->level)(
      &none, image);
}
