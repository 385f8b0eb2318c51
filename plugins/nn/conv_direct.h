/* SPDX-License-Identifier: Apache-2.0
 * conv_direct.h: declarations for conv_direct.c and conv_images.c: the loops
 * over lines in place, compiled for each level of instructions by
 * conv_direct_loops.c, and the calls from the first file to the second.
 */
#ifndef NN_CONV_DIRECT_H_
#define NN_CONV_DIRECT_H_

#include "conv.h"

enum { NN_DIRECT_TAPS = 128 }; /* elements of a window, at most */

/* Lines, or columns, that a window has after its first. [any] */
static inline int64_t nn_direct_find_reach(const nn_window *w, int d) {
  return (w->kernel[d] - 1) * w->dilate[d];
}

/* Windows, counted across the ends of lines, and their inputs. */
typedef struct nn_direct_windows {
  int64_t planes; /* that a window reads */
  int64_t plane;  /* elements from one to the next */
  int64_t taps;
  int64_t skip; /* weights from one plane's last to the next one's first */
  const int64_t *offset; /* of each element of a window */
  int64_t n;             /* windows */
  int64_t row;           /* elements from one computed plane to the next */
} nn_direct_windows;

/* Images, as inputs of sums of products. Heads are the gradient of out; after
 * the end of a line they are zero. */
typedef struct nn_direct_gradient_images {
  int64_t images;
  int64_t image;      /* elements from one to the next */
  int64_t head_image; /* the same of heads */
  int64_t head;       /* from one filter's heads to the next one's */
  int64_t lines;
  int64_t pitch;  /* from one line to the next */
  int64_t across; /* the same of heads */
  int64_t n;      /* windows in a line */
  int64_t depth;  /* elements of a filter */
} nn_direct_gradient_images;

/* Some filters and elements of windows of one channel. */
typedef struct nn_direct_gradient_tile {
  const float *head;
  const float *from;
  const int64_t *offset;
  float *to;
} nn_direct_gradient_tile;

typedef void nn_direct_products_fn(const nn_direct_gradient_images *s,
                                   nn_direct_gradient_tile at);

/* The loops of one level; see conv_direct_tile.h. */
typedef struct nn_direct_loops {
  int held;
  int lanes;
  int heads;
  int taps;
  void (*convolve)(const nn_direct_windows *w, const float *from,
                   const float *weight, float *to, int held);
  void (*store_line)(const float *from, float *to, int64_t n, float bias,
                     int add);
  nn_direct_products_fn *products[4 * 6]; /* a row for each number of filters */
} nn_direct_loops;

/* [any] */
const nn_direct_loops *nn_direct_find_loops(uint32_t level);

/* conv_direct.c: packs the weights of a pass, forward or backward to data,
 * group by group, in the order of loops that compute about `held` planes
 * together. [any] */
uint64_t nn_direct_count_packed_bytes(const nn_conv *conv);
void nn_direct_pack_weights(const nn_conv *conv, int back, int64_t held,
                            const char *weight, char *to);

/* conv_images.c: the number of first images of a pass, forward or backward to
 * data, for which vectors of images are faster. [any] */
int64_t nn_direct_count_images(const nn_conv *conv, int back);
/* Bytes of room for them, and their nn_conv_pass. [any], [worker] */
uint64_t nn_direct_count_images_bytes(const nn_conv *conv, int back);
int32_t nn_direct_run_images(const nn_conv *conv, const nn_conv_arrays *arrays,
                             int add, int back);

#endif /* NN_CONV_DIRECT_H_ */
