/* SPDX-License-Identifier: Apache-2.0
 * pool.h: a pooling as its loops see it: what pooling.c and pool_lines.c share.
 */
#ifndef NN_POOL_H_
#define NN_POOL_H_

#include "tenon/op.h"
#include "window.h"

enum { NN_POOL_MAX, NN_POOL_AVG, NN_POOL_SUM }; /* as pool_type */

/* Element t of windows side by side: in which of them it is no padding, and
 * where in a sorted line that of window 0 lies; those of the next follow. */
typedef struct nn_pool_tap {
  nn_range inside;
  int64_t at;
  int64_t at_back; /* where the gradient of the largest sorts lines to */
} nn_pool_tap;

typedef struct nn_pool {
  nn_window window;              /* dilation is 1; pad is that in front */
  int kind;                      /* NN_POOL_* */
  int counts_padding;            /* of means */
  int64_t limit[NN_WINDOW_RANK]; /* where what counts as padding ends */
  int64_t in_size;               /* of an image */
  int64_t out_size;
  /* Set by nn_pool_begin. */
  const nn_pool_tap *taps; /* kernel[2] */
  nn_range whole; /* windows side by side of which means count all elements */
} nn_pool;

/* One image, in f32 or f64. */
typedef struct nn_pool_image {
  const nn_pool *pool;
  const void *data; /* NULL in the gradient of means and sums */
  void *out;        /* read in backward passes */
  const void *head; /* gradient of out; NULL in forward passes */
  void *to;         /* gradient of data */
  void *scratch;    /* nn_pool_scratch bytes */
  void *room;       /* nn_pool_room bytes: `to` is written past the caches; or
                       NULL */
  int add;          /* to what is there */
  tn_dtype dtype;
  uint32_t level;
} nn_pool_image;

/* Bytes of scratch for an image whose elements have `bytes`. [any] */
uint64_t nn_pool_scratch(const nn_pool *pool, int64_t bytes, int backward);

/* Bytes in which lines of the gradient of data are composed that are not to
 * come into any cache. [any] */
uint64_t nn_pool_room(const nn_pool *pool, int64_t bytes);

/* Finds out what all lines share, and keeps it in `taps`, for kernel[2] of
 * them. [worker] */
void nn_pool_begin(nn_pool *pool, nn_pool_tap *taps);

/* Computes out, or adds to it; and so the gradient of data. [worker] */
void nn_pool_forward(const nn_pool_image *image);
void nn_pool_backward(const nn_pool_image *image);

#endif /* NN_POOL_H_ */
