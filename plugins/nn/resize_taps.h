/* SPDX-License-Identifier: Apache-2.0
 * resize_taps.h: the taps of an element of a resized axis: the elements of data
 * that it reads, and their weights. Kernels of every device include it.
 */
#ifndef NN_RESIZE_TAPS_H_
#define NN_RESIZE_TAPS_H_

#include "tenon/kernel/math.h"

/* Values of the parameters of resize.yaml, by their number. */
enum { NN_RESIZE_NEAREST, NN_RESIZE_LINEAR, NN_RESIZE_CUBIC };
enum {
  NN_RESIZE_HALF_PIXEL,
  NN_RESIZE_HALF_PIXEL_SYMMETRIC,
  NN_RESIZE_PYTORCH_HALF_PIXEL,
  NN_RESIZE_ALIGN_CORNERS,
  NN_RESIZE_ASYMMETRIC,
  NN_RESIZE_CROP
};
enum {
  NN_RESIZE_PREFER_FLOOR,
  NN_RESIZE_PREFER_CEIL,
  NN_RESIZE_FLOOR,
  NN_RESIZE_CEIL
};

/* One axis of a call. */
typedef struct nn_resize_axis {
  int64_t n_in;
  int64_t n_out;
  double scale;
  double start; /* of the crop, from 0 to 1 */
  double end;
  double cubic_a;
  int mode;
  int coordinates;
  int nearest_mode;
  int exclude_outside;
  int antialias;
  int reserved;
} nn_resize_axis;

/* The taps of an element: n adjacent elements of data, from `first` on. None if
 * the element is outside of a crop. */
typedef struct nn_resize_taps {
  int64_t first;
  int64_t n;
} nn_resize_taps;

/* Returns the position in data of element o. [any] */
TN_MATH_FN double nn_resize_find_position(const nn_resize_axis *axis,
                                          int64_t o) {
  const double n = (double)axis->n_in, at = (double)o;
  const double half = (at + 0.5) / axis->scale - 0.5;
  const double last = (double)(axis->n_out - 1);
  const double exact = axis->scale * n;
  switch (axis->coordinates) {
    case NN_RESIZE_HALF_PIXEL_SYMMETRIC:
      return n / 2 * (1 - (double)axis->n_out / exact) + half;
    case NN_RESIZE_PYTORCH_HALF_PIXEL:
      return last > 0 ? half : 0;
    case NN_RESIZE_ALIGN_CORNERS:
      return last > 0 ? at * (n - 1) / last : 0;
    case NN_RESIZE_ASYMMETRIC:
      return at / axis->scale;
    case NN_RESIZE_CROP:
      if (!(last > 0)) return (axis->start + axis->end) * (n - 1) / 2;
      return axis->start * (n - 1) +
             at * (axis->end - axis->start) * (n - 1) / last;
    default:
      return half;
  }
}

/* Returns a whole position between 0 and n - 1. [any] */
TN_MATH_FN int64_t nn_resize_limit(double x, int64_t n) {
  if (!(x > 0)) return 0;
  return x < (double)(n - 1) ? (int64_t)x : n - 1;
}

/* Returns the nearest element to position x. [any] */
TN_MATH_FN double nn_resize_round(const nn_resize_axis *axis, double x) {
  switch (axis->nearest_mode) {
    case NN_RESIZE_PREFER_CEIL:
      return floor(x + 0.5);
    case NN_RESIZE_FLOOR:
      return floor(x);
    case NN_RESIZE_CEIL:
      return ceil(x);
    default:
      return ceil(x - 0.5);
  }
}

/* Returns the factor of distances in the weights of an axis: less than 1 if an
 * image becomes smaller and is smoothed. [any] */
TN_MATH_FN double nn_resize_find_narrowing(const nn_resize_axis *axis) {
  return axis->antialias && axis->scale < 1 ? axis->scale : 1;
}

/* Returns half of the width in which an element has weight. [any] */
TN_MATH_FN double nn_resize_find_support(const nn_resize_axis *axis) {
  const double own = axis->mode == NN_RESIZE_CUBIC ? 2 : 1;
  return own / nn_resize_find_narrowing(axis);
}

/* Returns the largest number of taps of an element. [any] */
TN_MATH_FN int64_t nn_resize_count_taps(const nn_resize_axis *axis) {
  if (axis->mode == NN_RESIZE_NEAREST) return 1;
  const double most = 2 * nn_resize_find_support(axis) + 2;
  return most < (double)axis->n_in ? (int64_t)most : axis->n_in;
}

/* Returns the weight of an element at distance d, before division by a sum.
 * [any] */
TN_MATH_FN double nn_resize_weigh(const nn_resize_axis *axis, double d) {
  const double a = axis->cubic_a;
  d = fabs(d) * nn_resize_find_narrowing(axis);
  if (axis->mode == NN_RESIZE_LINEAR) return d < 1 ? 1 - d : 0;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Writes the weights of element o to w, which has room for the largest number
 * of taps. Returns the taps; a weight among them may be 0. [any] */
TN_MATH_FN nn_resize_taps nn_resize_find_taps(const nn_resize_axis *axis,
                                              int64_t o, double *w) {
  const double x = nn_resize_find_position(axis, o);
  const double support = nn_resize_find_support(axis);
  const double last = (double)(axis->n_in - 1);
  const double high = floor(x + support);
  double sum = 0;
  nn_resize_taps taps = {0, 0};
  if (axis->coordinates == NN_RESIZE_CROP && !(x >= 0 && x <= last))
    return taps;
  if (axis->mode == NN_RESIZE_NEAREST) {
    taps.first = nn_resize_limit(nn_resize_round(axis, x), axis->n_in);
    taps.n = 1;
    w[0] = 1;
    return taps;
  }
  taps.first = nn_resize_limit(ceil(x - support), axis->n_in);
  taps.n = nn_resize_limit(high, axis->n_in) - taps.first + 1;
  for (int64_t k = 0; k < taps.n; ++k) w[k] = 0;
  for (double p = ceil(x - support); p <= high; p += 1) {
    const double weight = nn_resize_weigh(axis, p - x);
    if (axis->exclude_outside && (p < 0 || p > last)) continue;
    w[nn_resize_limit(p, axis->n_in) - taps.first] += weight;
    sum += weight;
  }
  if (!axis->exclude_outside && !axis->antialias) return taps;
  for (int64_t k = 0; k < taps.n; ++k) w[k] /= sum;
  return taps;
}

#endif /* NN_RESIZE_TAPS_H_ */
