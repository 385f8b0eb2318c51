/* SPDX-License-Identifier: Apache-2.0
 * pool.h: a pooling in the form of its loops: declarations for pooling.c and
 * pool_lines.c.
 */
#ifndef NN_POOL_H_
#define NN_POOL_H_

#include "tenon/plugin/op.h"
#include "window.h"

enum { NN_POOL_MAX, NN_POOL_AVG, NN_POOL_SUM }; /* values of pool_type */

/* Element t of adjacent windows: the windows in which it is not padding, and
 * its position in a sorted line for window 0; the positions for other windows
 * follow. */
typedef struct nn_pool_tap {
  nn_range inside;
  int64_t at;
  int64_t at_back; /* position in the sorted lines of the gradient of the
                    * largest */
} nn_pool_tap;

typedef struct nn_pool {
  nn_window window;              /* dilation is 1; pad is the number before */
  int kind;                      /* NN_POOL_* */
  int counts_padding;            /* of means */
  int64_t limit[NN_WINDOW_RANK]; /* end of the padding that counts */
  int64_t in_size;               /* of an image */
  int64_t out_size;
  /* Set by nn_pool_set_taps. */
  const nn_pool_tap *taps; /* kernel[2] */
  nn_range whole;          /* adjacent windows with means of all elements */
} nn_pool;

/* One image, in f32 or f64. */
typedef struct nn_pool_image {
  const nn_pool *pool;
  const void *data; /* NULL in the gradient of means and sums */
  void *out;        /* read in backward passes */
  const void *head; /* gradient of out; NULL in forward passes */
  void *to;         /* gradient of data */
  void *scratch;    /* nn_pool_count_scratch bytes */
  void *room; /* nn_pool_count_buffer_bytes bytes: `to` is written past the
                 caches; or NULL */
  int add;    /* to the old elements */
  tn_dtype dtype;
  uint32_t level;
} nn_pool_image;

/* Bytes of scratch for an image with elements of `bytes`. [any] */
uint64_t nn_pool_count_scratch(const nn_pool *pool, int64_t bytes,
                               int backward);

/* Bytes for composing lines of the gradient of data that are written past the
 * caches. [any] */
uint64_t nn_pool_count_buffer_bytes(const nn_pool *pool, int64_t bytes);

/* Computes the values that all lines share, and stores them in `taps`, of
 * kernel[2] entries. [worker] */
void nn_pool_set_taps(nn_pool *pool, nn_pool_tap *taps);

/* Computes out, or adds to it; nn_pool_backward does the same for the gradient
 * of data. [worker] */
void nn_pool_forward(const nn_pool_image *image);
void nn_pool_backward(const nn_pool_image *image);

#endif /* NN_POOL_H_ */
