/* SPDX-License-Identifier: Apache-2.0
 * pool_windows.h: the elements of one window of a pooling, with any dilation.
 */
#ifndef NN_POOL_WINDOWS_H_
#define NN_POOL_WINDOWS_H_

#include "pool.h"

/* The elements of a window that are not padding: along dimension d begin[d],
 * begin[d] + dilate[d] and so on, below end[d]. `count` is the divisor of its
 * mean, at least 1. */
typedef struct nn_pool_place {
  int64_t begin[NN_WINDOW_RANK];
  int64_t end[NN_WINDOW_RANK];
  int64_t count;
} nn_pool_place;

/* Returns the number of elements from `begin` on, `step` apart, below `end`.
 * [any] */
static inline int64_t nn_pool_count_steps(int64_t begin, int64_t end,
                                          int64_t step) {
  return end > begin ? (end - begin + step - 1) / step : 0;
}

/* Returns the elements of window `number` of an image. [any] */
static inline nn_pool_place nn_pool_find_place(const nn_pool *pool,
                                               int64_t number) {
  const nn_window *w = &pool->window;
  nn_pool_place b = {.count = 1};
  for (int d = NN_WINDOW_RANK; d-- > 0; number /= w->out[d]) {
    const int64_t step = w->dilate[d];
    const int64_t first = number % w->out[d] * w->stride[d] - w->pad[d];
    const int64_t last = first + step * (w->kernel[d] - 1) + 1;
    b.begin[d] = first < 0 ? first + nn_ceil_div(-first, step) * step : first;
    b.end[d] = nn_max(nn_min(last, w->in[d]), b.begin[d]);
    b.count *=
        pool->counts_padding
            ? nn_pool_count_steps(first, nn_min(last, pool->limit[d]), step)
            : nn_pool_count_steps(b.begin[d], b.end[d], step);
  }
  b.count = nn_max(b.count, 1);
  return b;
}

/* Visits the elements of a window: `at` is the position in the image. */
#define NN_POOL_EACH_ELEMENT(w, b, at)                                       \
  for (int64_t z_ = (b)->begin[0]; z_ < (b)->end[0]; z_ += (w)->dilate[0])   \
    for (int64_t y_ = (b)->begin[1]; y_ < (b)->end[1]; y_ += (w)->dilate[1]) \
      for (int64_t x_ = (b)->begin[2],                                       \
                   at = (z_ * (w)->in[1] + y_) * (w)->in[2] + x_;            \
           x_ < (b)->end[2]; x_ += (w)->dilate[2], at += (w)->dilate[2])

/* Computes one image with any dilation, like nn_pool_forward, or like
 * nn_pool_backward if it has an output gradient. [worker] */
void nn_pool_run_windows(const nn_pool_image *image);

#endif /* NN_POOL_WINDOWS_H_ */
