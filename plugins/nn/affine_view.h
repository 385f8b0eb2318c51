/* SPDX-License-Identifier: Apache-2.0
 * affine_view.h: affine functions of the positions of an image's elements: the
 * geometry of affine_grid.yaml. Kernels of every device include it.
 */
#ifndef NN_AFFINE_VIEW_H_
#define NN_AFFINE_VIEW_H_

#include "tenon/kernel/math.h"

enum { NN_AFFINE_RANK = 3 };

/* For each image a function of rank rows with rank + 1 numbers, and for each
 * element of an image of `size` a position with rank coordinates. */
typedef struct nn_affine_positions {
  int64_t images;
  int32_t rank;
  int32_t align_corners;
  int64_t size[NN_AFFINE_RANK]; /* 1 before the first dimension */
  int32_t is_planar; /* each coordinate is a plane; otherwise the coordinates of
                        an element are side by side */
  int32_t reserved;
} nn_affine_positions;

/* Returns the positions that the original's samplers use: planes for an image
 * of target[0] x target[1] elements, from -1 at the first element to 1 at the
 * last one. [any] */
static inline nn_affine_positions nn_affine_make_planes(int64_t images,
                                                        const int64_t *target) {
  const nn_affine_positions p = {images, 2, 1, {1, target[0], target[1]}, 1, 0};
  return p;
}

/* Returns the number of elements of an image. [any] */
TN_MATH_FN int64_t nn_affine_count_points(const nn_affine_positions *p) {
  return p->size[0] * p->size[1] * p->size[2];
}

/* Returns coordinate k of an element, 0 for the one along the last dimension;
 * 1 if k is the rank. [any] */
TN_MATH_FN double nn_affine_find_coordinate(const nn_affine_positions *p,
                                            int64_t point, int k) {
  if (k == p->rank) return 1;
  for (int d = NN_AFFINE_RANK - 1; d > NN_AFFINE_RANK - 1 - k; --d)
    point /= p->size[d];
  const int64_t n = p->size[NN_AFFINE_RANK - 1 - k];
  const int64_t at = point % n;
  if (!p->align_corners) return (double)(2 * at + 1) / (double)n - 1;
  return n > 1 ? (double)(2 * at) / (double)(n - 1) - 1 : 0;
}

/* Returns the position of coordinate `row` of an element among all positions.
 * [any] */
TN_MATH_FN int64_t nn_affine_find_place(const nn_affine_positions *p,
                                        int64_t image, int64_t point, int row) {
  const int64_t points = nn_affine_count_points(p);
  return p->is_planar ? (image * p->rank + row) * points + point
                      : (image * points + point) * p->rank + row;
}

#endif /* NN_AFFINE_VIEW_H_ */
