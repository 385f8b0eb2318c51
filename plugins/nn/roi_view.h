/* SPDX-License-Identifier: Apache-2.0
 * roi_view.h: regions of images: the geometry of roi.yaml. Kernels of every
 * device include it.
 */
#ifndef NN_ROI_VIEW_H_
#define NN_ROI_VIEW_H_

#include "tenon/kernel/math.h"

enum { NN_ROI_SAMPLES = 4096 }; /* most samples of a bin along a dimension */

/* Regions and images of a call; index 0 of a pair is the dimension down. */
typedef struct nn_roi_view {
  int64_t images;
  int64_t channels;
  int64_t regions;
  int64_t size[2];
  int64_t bins[2];
  double scale;
  int32_t ratio; /* samples of a bin; 0: by its size */
  int32_t aligned;
} nn_roi_view;

/* A region along one dimension. */
typedef struct nn_roi_line {
  double start;
  double length; /* of a bin */
  int64_t samples;
} nn_roi_line;

/* Returns a coordinate without values that integers cannot count. [any] */
TN_MATH_FN double nn_roi_limit(double x) {
  if (!(x > -1e9)) return -1e9;
  return x < 1e9 ? x : 1e9;
}

/* Returns the region between two coordinates along dimension d. [any] */
TN_MATH_FN nn_roi_line nn_roi_find_line(const nn_roi_view *v, int d,
                                        double first, double last) {
  const double offset = v->aligned ? 0.5 : 0;
  const double begin = nn_roi_limit(first * v->scale - offset);
  double length = nn_roi_limit(last * v->scale - offset) - begin;
  nn_roi_line line;
  if (!v->aligned && length < 1) length = 1;
  line.start = begin;
  line.length = length / (double)v->bins[d];
  line.samples = v->ratio;
  if (v->ratio == 0) {
    const double samples = ceil(line.length);
    line.samples = samples < NN_ROI_SAMPLES ? (int64_t)samples : NN_ROI_SAMPLES;
    if (line.samples < 0) line.samples = 0;
  }
  return line;
}

/* Returns the weight of element i of n in a sample at x. [any] */
TN_MATH_FN double nn_roi_weigh_sample(double x, int64_t i, int64_t n) {
  const double last = (double)(n - 1);
  if (!(x >= -1 && x <= (double)n)) return 0;
  if (x < 0) x = 0;
  if (x > last) x = last;
  const double d = fabs(x - (double)i);
  return d < 1 ? 1 - d : 0;
}

/* Returns the mean weight of element i of n in all samples of a bin along a
 * dimension. [any] */
TN_MATH_FN double nn_roi_weigh(const nn_roi_line *line, int64_t bin, int64_t i,
                               int64_t n) {
  const double start = line->start + (double)bin * line->length;
  double sum = 0;
  for (int64_t k = 0; k < line->samples; ++k)
    sum += nn_roi_weigh_sample(
        start + ((double)k + 0.5) * line->length / (double)line->samples, i, n);
  return line->samples > 0 ? sum / (double)line->samples : 0;
}

/* The elements of a bin along a dimension, from begin to end - 1. */
typedef struct nn_roi_range {
  int64_t begin;
  int64_t end;
} nn_roi_range;

/* Returns a range inside of n elements. [any] */
TN_MATH_FN nn_roi_range nn_roi_clip(double begin, double end, int64_t n) {
  nn_roi_range range = {0, 0};
  if (begin > 0) range.begin = begin < (double)n ? (int64_t)begin : n;
  if (end > 0) range.end = end < (double)n ? (int64_t)end : n;
  if (range.end < range.begin) range.end = range.begin;
  return range;
}

/* Returns the elements that samples of a bin may read. [any] */
TN_MATH_FN nn_roi_range nn_roi_find_readable(const nn_roi_line *line,
                                             int64_t bin, int64_t n) {
  const double start = line->start + (double)bin * line->length;
  const double end = start + line->length;
  const double low = start < end ? start : end;
  const double high = start < end ? end : start;
  if (n < 1 || low > (double)n || high < -1) return nn_roi_clip(0, 0, n);
  nn_roi_range range = nn_roi_clip(floor(low), floor(high) + 2, n);
  if (range.begin >= n) range.begin = n - 1;
  if (range.end < 1) range.end = 1;
  return range;
}

/* Returns the rows or columns of a bin of nn.roi_pooling between two
 * coordinates along dimension d. [any] */
TN_MATH_FN nn_roi_range nn_roi_find_bin(const nn_roi_view *v, int d,
                                        int64_t bin, double first,
                                        double last) {
  const int64_t begin = (int64_t)round(nn_roi_limit(first * v->scale));
  const int64_t end = (int64_t)round(nn_roi_limit(last * v->scale)) + 1;
  const int64_t length = end > begin ? end - begin : 1;
  const int64_t low = begin + bin * length / v->bins[d];
  const int64_t high =
      begin + ((bin + 1) * length + v->bins[d] - 1) / v->bins[d];
  return nn_roi_clip((double)low, (double)high, v->size[d]);
}

#endif /* NN_ROI_VIEW_H_ */
