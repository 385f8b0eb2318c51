/* SPDX-License-Identifier: Apache-2.0
 * window.h: windows over images: the inputs of convolution and pooling. Images
 * of fewer than three dimensions have leading ones of length 1.
 */
#ifndef NN_WINDOW_H_
#define NN_WINDOW_H_

#include <stdint.h>

enum { NN_WINDOW_RANK = 3 };

/* Window o of a dimension has elements o*stride + t*dilate - pad, for t below
 * kernel; those outside of [0, in) are padding. */
typedef struct nn_window {
  int64_t in[NN_WINDOW_RANK];
  int64_t out[NN_WINDOW_RANK];
  int64_t kernel[NN_WINDOW_RANK];
  int64_t stride[NN_WINDOW_RANK];
  int64_t dilate[NN_WINDOW_RANK];
  int64_t pad[NN_WINDOW_RANK];
} nn_window;

/* A range [begin, end); empty if they are equal. */
typedef struct nn_range {
  int64_t begin;
  int64_t end;
} nn_range;

static inline int64_t nn_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t nn_max(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* a / b rounded up, for b above 0 and any a. */
static inline int64_t nn_ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b > 0);
}

/* Returns the windows along dimension d in which element t is not padding,
 * limited to the windows in `among`. */
static inline nn_range nn_window_find_inside(const nn_window *w, int d,
                                             int64_t t, nn_range among) {
  const int64_t at = t * w->dilate[d] - w->pad[d];
  const int64_t first = nn_ceil_div(-at, w->stride[d]);
  const int64_t last = nn_ceil_div(w->in[d] - at, w->stride[d]);
  const int64_t begin = nn_min(nn_max(first, among.begin), among.end);
  return (nn_range){begin, nn_max(nn_min(last, among.end), begin)};
}

/* Limits the step between windows to n, the number of elements with padding. A
 * second window is outside with step n as with any longer step. */
static inline int64_t nn_window_limit_step(int64_t stride, int64_t n) {
  return nn_min(stride, nn_max(n, 1));
}

static inline int64_t nn_window_multiply_lengths(const int64_t *lengths) {
  return lengths[0] * lengths[1] * lengths[2];
}

#endif /* NN_WINDOW_H_ */
