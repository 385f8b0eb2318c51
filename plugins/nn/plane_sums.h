/* SPDX-License-Identifier: Apache-2.0
 * plane_sums.h: sums of planes over all images: the gradient of a bias.
 */
#ifndef NN_PLANE_SUMS_H_
#define NN_PLANE_SUMS_H_

#include "tenon/kernel/kernel.h"

/* Dense images of `planes` planes with `size` elements, in f32 or f64. */
typedef struct nn_plane_sums {
  const tn_frame *call;
  tn_kernel_mode mode;
  int64_t images;
  int64_t planes;
  int64_t size;
  const char *from;
  char *to; /* one element for each plane */
  int add;  /* the sums are added to the old elements */
} nn_plane_sums;

/* Computes element k of `to`: the sum of plane k of all images. TN_OK, or a
 * code after TN_FAIL. [worker] */
int32_t nn_sum_planes(const nn_plane_sums *sums);

#endif /* NN_PLANE_SUMS_H_ */
