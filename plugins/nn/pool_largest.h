/* SPDX-License-Identifier: Apache-2.0
 * pool_largest.h: the largest elements of windows and their indices, on the
 * CPU.
 */
#ifndef NN_POOL_LARGEST_H_
#define NN_POOL_LARGEST_H_

#include "pool.h"
#include "tenon/kernel/kernel.h"

enum { NN_POOL_CHUNK = 256 }; /* most windows that are computed together */

/* The largest elements of adjacent windows, in f32 or f64: of several the
 * first, or the first NaN. */
typedef struct nn_pool_largest {
  double values[NN_POOL_CHUNK]; /* or as many floats */
  int64_t at[NN_POOL_CHUNK]; /* indices in the image, or i32 for floats; -1: the
                                window has no element */
} nn_pool_largest;

/* Windows of an image along the last dimension: line `number` of all. */
typedef struct nn_pool_line {
  const nn_pool *pool;
  tn_kernel_mode mode;
  const void *image; /* at most INT32_MAX elements for f32 */
  int64_t number;
  nn_range windows; /* at most NN_POOL_CHUNK of the line */
} nn_pool_line;

/* Computes the largest elements of a part of a line. [worker] */
void nn_pool_find_line(const nn_pool_line *line, nn_pool_largest *chunk);

/* Returns the index of the largest element of window i of a chunk. [any] */
static inline int64_t nn_pool_get_index(const nn_pool_largest *chunk,
                                        tn_dtype dtype, int64_t i) {
  return dtype == TN_F32 ? ((const int32_t *)(const void *)chunk->at)[i]
                         : chunk->at[i];
}

#endif /* NN_POOL_LARGEST_H_ */
