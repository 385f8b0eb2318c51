/* SPDX-License-Identifier: Apache-2.0
 * conv_direct.h: declarations for conv_direct.c and conv_images.c: the loops
 * over lines in place, compiled for each level of instructions by
 * conv_direct_loops.c, and the calls from the first file to the second.
 */
#ifndef NN_CONV_DIRECT_H_
#define NN_CONV_DIRECT_H_

#include "conv.h"

enum { NN_DIRECT_TAPS = 128 }; /* largest number of elements of a window */

/* Returns the number of lines, or columns, that a window has after its first
 * one along dimension d. [any] */
static inline int64_t nn_direct_find_reach(const nn_window *w, int d) {
  return (w->kernel[d] - 1) * w->dilate[d];
}

/* Arguments of convolve: n windows, counted across the ends of lines, and the
 * layout of their input. */
typedef struct nn_direct_windows {
  int64_t planes; /* planes that a window reads */
  int64_t plane;  /* distance between planes */
  int64_t taps;
  int64_t skip; /* weights that are skipped after each plane */
  /* Distance of each tap from the first element of a window. */
  const int64_t *offset;
  int64_t n;   /* number of windows */
  int64_t row; /* distance between computed planes */
} nn_direct_windows;

/* Arguments of products: images of data and of the output gradient, whose
 * products are summed. The lines of the output gradient end with zeros up to
 * the end of a vector. */
typedef struct nn_direct_gradient_images {
  int64_t images;
  int64_t image;          /* distance between images of data */
  int64_t gradient_image; /* distance between images of the output gradient */
  int64_t gradient_plane; /* distance between filters in the output gradient */
  int64_t lines;
  int64_t pitch;  /* distance between lines */
  int64_t across; /* distance between lines of the output gradient */
  int64_t n;      /* number of windows in a line */
  int64_t depth;  /* weights of a filter */
} nn_direct_gradient_images;

/* The sums that one call of products adds to: those of some filters and taps of
 * one channel. */
typedef struct nn_direct_gradient_tile {
  const float *out_gradient;
  const float *from;
  const int64_t *offset;
  float *to;
} nn_direct_gradient_tile;

typedef void nn_direct_products_fn(const nn_direct_gradient_images *s,
                                   nn_direct_gradient_tile at);

/* The functions of one level, which conv_direct_tile.h explains, and the sizes
 * of their tiles. */
typedef struct nn_direct_loops {
  int tile_planes; /* most planes of one call of convolve */
  int lanes;       /* floats of a vector */
  int filters;     /* most filters of one call of products */
  int taps;        /* most taps of one call of products */
  void (*convolve)(const nn_direct_windows *w, const float *from,
                   const float *weight, float *to, int tile_planes);
  void (*store_line)(const float *from, float *to, int64_t n, float bias,
                     int add);
  nn_direct_products_fn
      *products[4 * 6]; /* a row for each number of filters, with a function for
                           each number of taps */
} nn_direct_loops;

/* Returns the functions of a level. [any] */
const nn_direct_loops *nn_direct_find_loops(uint32_t level);

/* conv_direct.c: packs the weights of a forward pass or of the gradient of
 * data, group by group, in the order of loops that compute about `tile_planes`
 * planes together. [any] */
uint64_t nn_direct_count_packed_bytes(const nn_conv *conv);
void nn_direct_pack_weights(const nn_conv *conv, int back, int64_t tile_planes,
                            const char *weight, char *to);

/* conv_images.c: returns the number of images, from the first on, that are
 * computed faster in vectors of images. [any] */
int64_t nn_direct_count_images(const nn_conv *conv, int back);
/* Bytes of workspace for these images, and the nn_conv_pass that computes them.
 * [any], [worker] */
uint64_t nn_direct_count_images_bytes(const nn_conv *conv, int back);
int32_t nn_direct_run_images(const nn_conv *conv, const nn_conv_arrays *arrays,
                             int add, int back);

#endif /* NN_CONV_DIRECT_H_ */
