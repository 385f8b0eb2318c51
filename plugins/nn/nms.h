/* SPDX-License-Identifier: Apache-2.0
 * nms.h: boxes of nms.yaml, for every device.
 */
#ifndef NN_NMS_H_
#define NN_NMS_H_

#include "tenon/plugin/op.h"

#if defined(__CUDACC__) || defined(__cplusplus)
#define NN_NMS_FN __host__ __device__ static inline
#else
#define NN_NMS_FN static inline
#endif

/* Lower and upper corner, and area. */
typedef struct nn_nms_box {
  double low[2], high[2];
  double area;
} nn_nms_box;

/* Sizes and parameters of a call. */
typedef struct nn_nms_view {
  int64_t images, boxes, classes;
  int64_t most; /* boxes of a class of an image */
  double overlap;
  double score; /* if has_score */
  int32_t has_score;
  int32_t is_center;
} nn_nms_view;

/* Makes a box of its four numbers. The corners may have any order. */
NN_NMS_FN nn_nms_box nn_nms_make_box(const double *v, int is_center) {
  nn_nms_box box;
  for (int k = 0; k < 2; ++k) {
    const double half = v[k + 2] / 2;
    const double a = is_center ? v[k] - half : v[k];
    const double b = is_center ? v[k] + half : v[k + 2];
    box.low[k] = a < b ? a : b;
    box.high[k] = a < b ? b : a;
  }
  box.area = (box.high[0] - box.low[0]) * (box.high[1] - box.low[1]);
  return box;
}

/* Whether the intersection, divided by the union, is above a limit. */
NN_NMS_FN int nn_nms_overlaps(const nn_nms_box *a, const nn_nms_box *b,
                              double limit) {
  double common = 1;
  for (int k = 0; k < 2; ++k) {
    const double low = a->low[k] > b->low[k] ? a->low[k] : b->low[k];
    const double high = a->high[k] < b->high[k] ? a->high[k] : b->high[k];
    if (!(high > low)) return 0;
    common *= high - low;
  }
  if (!(a->area > 0) || !(b->area > 0)) return 0;
  const double all = a->area + b->area - common;
  return all > 0 && common / all > limit;
}

/* Whether a score lets a box be selected. */
NN_NMS_FN int nn_nms_counts(const nn_nms_view *v, double score) {
  return v->has_score ? score > v->score : score == score;
}

#endif /* NN_NMS_H_ */
