/* SPDX-License-Identifier: Apache-2.0
 * pool.h: the geometry of a pooling, and the functions that compute one image.
 * pool_lines.c implements them for the CPU.
 */
#ifndef NN_POOL_H_
#define NN_POOL_H_

#include "tenon/plugin/op.h"
#include "window.h"

enum { NN_POOL_MAX, NN_POOL_AVG, NN_POOL_SUM }; /* values of pool_type */

/* Column t of a window. The range has the windows of a line in which that
 * column is not padding. The positions are those for window 0; window o is o
 * elements further. */
typedef struct nn_pool_tap {
  nn_range inside;
  int64_t at;
  /* Position in a sorted line of the gradient, for the largest. */
  int64_t at_back;
} nn_pool_tap;

typedef struct nn_pool {
  nn_window window;   /* pad is the number before */
  int kind;           /* NN_POOL_* */
  int counts_padding; /* a mean divides by padding elements as well */
  /* End of the elements that such a mean counts. */
  int64_t limit[NN_WINDOW_RANK];
  int64_t in_size; /* elements of an input plane: depth, height, width */
  int64_t out_size;
  /* The following fields are set by nn_pool_set_taps. */
  const nn_pool_tap *taps; /* kernel[2] */
  nn_range whole; /* windows of a line in which a mean counts all columns */
} nn_pool;

/* The arrays of one image, in f32 or f64, and the options of its loops. */
typedef struct nn_pool_image {
  const nn_pool *pool;
  const void *data; /* NULL in the gradient of means and sums */
  void *out; /* forward: the result; backward: the result of the forward pass,
                which is read */
  const void *out_gradient; /* gradient of out; NULL in forward passes */
  void *to;                 /* gradient of data */
  void *scratch;            /* scratch memory of nn_pool_count_scratch bytes */
  void *buffer; /* NULL, or nn_pool_count_buffer_bytes bytes: then `to` is
                 written past the caches */
  int add;      /* results are added to the old elements */
  tn_dtype dtype;
  uint32_t level;
} nn_pool_image;

/* Bytes of scratch memory for an image with elements of `bytes` bytes. [any] */
uint64_t nn_pool_count_scratch(const nn_pool *pool, int64_t bytes,
                               int backward);

/* Bytes of a buffer in which lines of the gradient of data are composed, if
 * they are written past the caches. [any] */
uint64_t nn_pool_count_buffer_bytes(const nn_pool *pool, int64_t bytes);

/* Whether elements of a window are not adjacent. pool_windows.c computes these
 * poolings, window by window. [any] */
static inline int nn_pool_is_dilated(const nn_pool *pool) {
  const int64_t *dilate = pool->window.dilate;
  return dilate[0] != 1 || dilate[1] != 1 || dilate[2] != 1;
}

/* Computes the fields of *pool that all lines share. `taps` has kernel[2]
 * entries and must stay valid. [worker] */
void nn_pool_set_taps(nn_pool *pool, nn_pool_tap *taps);

/* nn_pool_forward computes `out` of one image, nn_pool_backward the gradient
 * `to`; both add to the old elements if `add`. [worker] */
void nn_pool_forward(const nn_pool_image *image);
void nn_pool_backward(const nn_pool_image *image);

#endif /* NN_POOL_H_ */
