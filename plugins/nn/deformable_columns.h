/* SPDX-License-Identifier: Apache-2.0
 * deformable_columns.h: the windows of a deformable convolution as columns of a
 * matrix with a row for each channel and element of a window, on the CPU. A
 * panel is a part of that matrix: some channels, and some windows of an image.
 */
#ifndef NN_DEFORMABLE_COLUMNS_H_
#define NN_DEFORMABLE_COLUMNS_H_

#include "conv.h"
#include "deformable_view.h"

/* A call with its dense inputs in f32 or f64. */
typedef struct nn_deformable {
  nn_conv conv; /* a convolution with the same weight and out */
  nn_deformable_view view;
  char *data;
  char *weight;
  char *offset;
  char *mask; /* NULL: none */
  char *bias; /* NULL: none */
  char *out;  /* backward: the gradient of out */
} nn_deformable;

/* Channels [channel, channel + channels) and windows [window, window + n). Rows
 * of groups are complete, or the panel is a part of one group. */
typedef struct nn_deformable_panel {
  int64_t image;
  int64_t channel;
  int64_t channels;
  int64_t window;
  int64_t n;
  char *to; /* rows of n elements, dense */
} nn_deformable_panel;

/* The gradients of offset and mask. */
typedef struct nn_deformable_slopes {
  char *offset; /* NULL: not requested */
  char *mask;
  int add_offset; /* added to the old elements */
  int add_mask;
} nn_deformable_slopes;

/* Computes a panel: the samples of images, multiplied by the mask. [worker] */
void nn_deformable_read_panel(const nn_deformable *d,
                              const nn_deformable_panel *panel);

/* Multiplies a gradient of a panel by the mask, and adds it to the elements of
 * the images at `data` that the samples are made of. [worker] */
void nn_deformable_add_panel(const nn_deformable *d,
                             const nn_deformable_panel *panel, char *data);

/* Computes the gradients of offset and mask from a gradient of a panel. The
 * panel with the first channel of a group of offsets must be the first of that
 * group; later ones are added. [worker] */
void nn_deformable_write_slopes(const nn_deformable *d,
                                const nn_deformable_panel *panel,
                                const nn_deformable_slopes *to);

#endif /* NN_DEFORMABLE_COLUMNS_H_ */
