/* SPDX-License-Identifier: Apache-2.0
 * window.h: windows over images: where convolution and pooling read. Images of
 * fewer than three dimensions have others of length 1 in front.
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

static inline int64_t nn_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t nn_most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* a / b rounded up, for b above 0 and any a. */
static inline int64_t nn_ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b > 0);
}

/* The windows along d whose element t is no padding, between `begin` and
 * `end`. */
static inline nn_range nn_window_inside(const nn_window *w, int d, int64_t t,
                                        nn_range among) {
  const int64_t at = t * w->dilate[d] - w->pad[d];
  const int64_t first = nn_ceil_div(-at, w->stride[d]);
  const int64_t last = nn_ceil_div(w->in[d] - at, w->stride[d]);
  const int64_t begin = nn_least(nn_most(first, among.begin), among.end);
  return (nn_range){begin, nn_most(nn_least(last, among.end), begin)};
}

/* The step between windows over n elements, padding included: no more than n,
 * which takes the second window behind all of them, as any longer one does. */
static inline int64_t nn_window_step(int64_t stride, int64_t n) {
  return nn_least(stride, nn_most(n, 1));
}

static inline int64_t nn_window_product(const int64_t *lengths) {
  return lengths[0] * lengths[1] * lengths[2];
}

#endif /* NN_WINDOW_H_ */
