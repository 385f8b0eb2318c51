/* SPDX-License-Identifier: Apache-2.0
 * sample_block.h: the taps of a block of positions, and loops that use them for
 * one image after the other, on the CPU.
 */
#ifndef NN_SAMPLE_BLOCK_H_
#define NN_SAMPLE_BLOCK_H_

#include "sample_taps.h"
#include "tenon/kernel/kernel.h"

enum { NN_SAMPLE_BLOCK = 128 }; /* positions of a block */

/* The taps of a block: tap t of position p is number t*NN_SAMPLE_BLOCK + p. A
 * tap outside has weight 0. */
typedef struct nn_sample_block {
  int64_t n;    /* positions */
  int32_t taps; /* of each position */
  int32_t at[NN_SAMPLE_TAPS * NN_SAMPLE_BLOCK];
  double weight[NN_SAMPLE_TAPS * NN_SAMPLE_BLOCK]; /* or as many floats */
} nn_sample_block;

/* Fails for images of one channel with more elements than 31 bits count. TN_OK,
 * or a code after TN_FAIL. */
int32_t nn_sample_check_size(const tn_frame *call, int64_t size);

/* Sets the taps of position p, for a computation in `dtype`; missing ones are
 * outside. [worker] */
void nn_sample_set_position(nn_sample_block *block, tn_dtype dtype, int64_t p,
                            const nn_sample_taps *taps);

/* Computes the positions of an image: the sums of weights times elements. Adds
 * them to the old elements at `to` if `add`. [worker] */
void nn_sample_gather_block(const tn_kernel_mode *mode,
                            const nn_sample_block *block, const void *image,
                            void *to, int add);

/* Images of one channel each, and as many rows of elements. Steps count
 * elements. */
typedef struct nn_sample_planes {
  int64_t n;
  const void *from;
  int64_t from_step;
  void *images;
  int64_t image_step;
} nn_sample_planes;

/* Adds an element of each row for each position, multiplied by the weights, to
 * the elements of its image. [worker] */
void nn_sample_scatter_block(const tn_kernel_mode *mode,
                             const nn_sample_block *block,
                             const nn_sample_planes *planes);

/* Adds the product of an image's element and number p of the elements at `from`
 * to products[t*NN_SAMPLE_BLOCK + p], for each tap t. Taps outside get any
 * number. [worker] */
void nn_sample_multiply_block(const tn_kernel_mode *mode,
                              const nn_sample_block *block, const void *image,
                              const void *from, double *products);

#endif /* NN_SAMPLE_BLOCK_H_ */
