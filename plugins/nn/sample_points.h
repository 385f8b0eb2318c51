/* SPDX-License-Identifier: Apache-2.0
 * sample_points.h: the taps of points of a grid, which all channels share.
 */
#ifndef NN_SAMPLE_POINTS_H_
#define NN_SAMPLE_POINTS_H_

#include "sample.h"
#include "sample_block.h"

/* Derivatives of the weights of a block by each coordinate of a point; 0 for a
 * tap outside. */
typedef struct nn_sample_slopes {
  double of[NN_SAMPLE_RANK][NN_SAMPLE_TAPS * NN_SAMPLE_BLOCK];
} nn_sample_slopes;

/* Points of an image: n of them, at most NN_SAMPLE_BLOCK, from `first` on. */
typedef struct nn_sample_points {
  const nn_sample *sample;
  const void *grid;
  int64_t image;
  int64_t first;
  int64_t n;
} nn_sample_points;

/* Returns the points of a block. [any] */
static inline nn_sample_points nn_sample_get_points(const nn_sample *sample,
                                                    const void *grid,
                                                    int64_t image,
                                                    int64_t first) {
  const int64_t rest = sample->points - first;
  return (nn_sample_points){sample, grid, image, first,
                            rest < NN_SAMPLE_BLOCK ? rest : NN_SAMPLE_BLOCK};
}

/* Computes the taps of points, and their slopes unless `slopes` is NULL.
 * [worker] */
void nn_sample_fill_points(const nn_sample_points *points,
                           nn_sample_block *block, nn_sample_slopes *slopes);

#endif /* NN_SAMPLE_POINTS_H_ */
