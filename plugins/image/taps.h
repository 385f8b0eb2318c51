/* SPDX-License-Identifier: Apache-2.0
 * taps.h: the weights with which pixels along one axis become pixels of another
 * length.
 */
#ifndef IMAGE_TAPS_H_
#define IMAGE_TAPS_H_

#include "image.h"

/* In the order of the manifests. */
enum { IMAGE_NEAREST = 0, IMAGE_BILINEAR = 1, IMAGE_BICUBIC = 2 };

/* Weights of bytes have this many bits, as Pillow's have. */
enum { IMAGE_FIXED_BITS = 22 };

/* How an axis of n_in pixels is resized: [first, last) of it becomes n_all
 * pixels. Of these, `n_out` from `begin` on are computed. */
typedef struct image_axis {
  int64_t n_in;
  double first, last;
  int64_t n_all;
  int64_t begin, n_out;
  int32_t filter;
  bool antialias;
  bool is_mirrored; /* the last computed pixel comes first */
} image_axis;

/* Weights of all computed pixels: pixel i is the sum of weight [i*most + k] and
 * pixel first[i] + k of the input, for k below count[i]. */
typedef struct image_taps {
  int64_t n, most;
  const int64_t *first, *count;
  const int32_t *fixed; /* for bytes, times 2^IMAGE_FIXED_BITS */
  const float *weight;  /* for floats; the other one is NULL */
  bool is_identity;     /* each pixel is the one of the same number */
} image_taps;

/* An axis that is resized as a whole. */
image_axis image_whole_axis(int64_t n_in, int64_t n_out, int32_t filter,
                            bool antialias);

/* Computes the weights in a room. False without memory. */
bool image_make_taps(const image_axis *axis, bool is_fixed, image_room *room,
                     image_taps *taps);

#endif /* IMAGE_TAPS_H_ */
