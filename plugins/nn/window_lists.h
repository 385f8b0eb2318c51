/* SPDX-License-Identifier: Apache-2.0
 * window_lists.h: windows from the parameters of an operator, which have a
 * number for each dimension of an image. Kernels of every device include it.
 */
#ifndef NN_WINDOW_LISTS_H_
#define NN_WINDOW_LISTS_H_

#include "tenon/kernel/checked_size.h"
#include "tenon/plugin/op.h"
#include "window.h"

/* The parameters of windows; NULL: the default value for every dimension. */
typedef struct nn_window_lists {
  const tn_ints *kernel;
  const tn_ints *stride;
  const tn_ints *dilate;
  const tn_ints *pad;
} nn_window_lists;

/* Returns the number of list `list` for dimension i, or `standard`. */
static inline int64_t nn_window_read_list(const tn_ints *list, int64_t i,
                                          int64_t standard) {
  return list ? list->v[i] : standard;
}

/* Returns the windows over images of size `in`; `out` is their number. Both
 * have a length for each dimension of the kernel. [any] */
static inline nn_window nn_window_from_lists(const nn_window_lists *lists,
                                             const int64_t *in,
                                             const int64_t *out) {
  const int32_t rank = (int32_t)lists->kernel->n;
  nn_window w;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    const int32_t i = d - (NN_WINDOW_RANK - rank);
    w.in[d] = i < 0 ? 1 : in[i];
    w.out[d] = i < 0 ? 1 : out[i];
    w.kernel[d] = i < 0 ? 1 : lists->kernel->v[i];
    w.stride[d] = i < 0 ? 1 : nn_window_read_list(lists->stride, i, 1);
    w.dilate[d] = i < 0 ? 1 : nn_window_read_list(lists->dilate, i, 1);
    w.pad[d] = i < 0 ? 0 : nn_window_read_list(lists->pad, i, 0);
    w.stride[d] = nn_window_limit_step(w.stride[d], w.in[d] + 2 * w.pad[d]);
  }
  return w;
}

/* Returns the distance of the first and the last element of a window along
 * dimension i, plus 1: at most 2^62. [any] */
static inline int64_t nn_window_find_reach(const nn_window_lists *lists,
                                           int64_t i) {
  return nn_window_read_list(lists->dilate, i, 1) * (lists->kernel->v[i] - 1) +
         1;
}

/* Returns the number of windows along dimension i of n elements; -1 if the
 * window is larger than the padded dimension or 64 bits cannot count that.
 * [any] */
static inline int64_t nn_window_count(const nn_window_lists *lists, int64_t i,
                                      int64_t n) {
  const int64_t pad = nn_window_read_list(lists->pad, i, 0);
  const int64_t padded = tn_size_plus(n, 2 * pad);
  const int64_t reach = nn_window_find_reach(lists, i);
  if (padded < reach) return -1;
  return (padded - reach) / nn_window_read_list(lists->stride, i, 1) + 1;
}

#endif /* NN_WINDOW_LISTS_H_ */
