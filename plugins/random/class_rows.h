/* SPDX-License-Identifier: Apache-2.0
 * class_rows.h: the sizes of multinomial, and the search for a class, on every
 * device. Define CLASS_ONE before the include: the begin of a function that the
 * device calls.
 */
#ifndef RANDOM_CLASS_ROWS_H_
#define RANDOM_CLASS_ROWS_H_

#include "tenon/plugin/op.h"

/* Rows of `classes` probabilities, and of `draws` elements. */
typedef struct class_rows {
  int64_t rows, classes, draws;
} class_rows;

/* `out` has the drawn classes. Without elements, `draws` is 0. */
static inline class_rows find_class_rows(const tn_tensor *data,
                                         const tn_tensor *out) {
  class_rows r = {1, data->shape[data->ndim - 1], 0};
  for (int32_t d = 0; d < data->ndim - 1; ++d) r.rows *= data->shape[d];
  if (r.rows > 0) r.draws = tn_tensor_size(out) / r.rows;
  return r;
}

/* The first class whose sum is above u times the whole. A class of probability
 * 0 has the sum of the one before it, so it is never the first. -1 if the last
 * sum is NaN. */
CLASS_ONE int64_t find_class(const double *sums, int64_t classes, double u) {
  const double x = u * sums[classes - 1];
  int64_t low = 0, high = classes - 1;
  if (!(x >= 0)) return -1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (sums[middle] > x)
      high = middle;
    else
      low = middle + 1;
  }
  while (low > 0 && sums[low] <= sums[low - 1]) --low;
  return low;
}

#endif /* RANDOM_CLASS_ROWS_H_ */
