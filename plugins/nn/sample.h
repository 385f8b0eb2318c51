/* SPDX-License-Identifier: Apache-2.0
 * sample.h: reads images at the positions of a grid, on the CPU: the common
 * part of grid_sample.yaml's operators.
 */
#ifndef NN_SAMPLE_H_
#define NN_SAMPLE_H_

#include "sample_taps.h"
#include "tenon/kernel/kernel.h"

/* Images (images, channels, size), grids and results (images, channels,
 * points), all dense, in f32 or f64. Coordinate k of point p of image i is
 * element i*grid_step + p*point_step + k*coordinate_step of the grid; the first
 * coordinate is along the last dimension. */
typedef struct nn_sample {
  const tn_frame *call;
  tn_kernel_mode mode;
  nn_sample_rule rule;
  int64_t images;
  int64_t channels;
  int64_t size; /* elements of an image of one channel, below 2^31 */
  int64_t points;
  int64_t grid_step;
  int64_t point_step;
  int64_t coordinate_step;
} nn_sample;

/* The arrays of a call; `out` is the output gradient in a backward call. */
typedef struct nn_sample_arrays {
  const void *data;
  const void *grid;
  const void *out;
} nn_sample_arrays;

/* Computes the result at `to`; adds to the old elements if `add`. TN_OK, or a
 * code after TN_FAIL. [worker] */
int32_t nn_sample_run_forward(const nn_sample *sample,
                              const nn_sample_arrays *arrays, void *to,
                              int add);

/* nn_sample_run_data computes the gradient of the images, nn_sample_run_grid
 * that of the grid, in the same way. [worker] */
int32_t nn_sample_run_data(const nn_sample *sample,
                           const nn_sample_arrays *arrays, void *to, int add);
int32_t nn_sample_run_grid(const nn_sample *sample,
                           const nn_sample_arrays *arrays, void *to, int add);

#endif /* NN_SAMPLE_H_ */
