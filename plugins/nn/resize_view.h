/* SPDX-License-Identifier: Apache-2.0
 * resize_view.h: the resized axes of a call of resize.yaml. Kernels of every
 * device include it.
 */
#ifndef NN_RESIZE_VIEW_H_
#define NN_RESIZE_VIEW_H_

#include <string.h>

#include "resize.gen.h"
#include "resize_taps.h"

typedef struct nn_resize_view {
  int32_t n; /* number of resized axes */
  int32_t dim[TN_MAX_NDIM];
  nn_resize_axis axis[TN_MAX_NDIM];
} nn_resize_view;

/* Returns the number of axes that the parameters resize. [any] */
static inline int64_t nn_resize_count_axes(const nn_resize_params *p,
                                           int32_t ndim) {
  return p->axes.n > 0 ? p->axes.n : ndim;
}

/* Returns the dimension of axis k; one that is out of range is not changed.
 * [any] */
static inline int64_t nn_resize_find_dim(const nn_resize_params *p, int64_t k,
                                         int32_t ndim) {
  if (p->axes.n == 0) return k;
  return p->axes.v[k] < 0 ? p->axes.v[k] + ndim : p->axes.v[k];
}

/* Returns the factor of all axes for `keep_aspect`; -1 if a length is 0 or
 * unknown. [any] */
static inline double nn_resize_find_common_scale(const nn_resize_params *p,
                                                 int32_t ndim,
                                                 const int64_t *in) {
  double scale = 0;
  for (int64_t k = 0; k < p->sizes.n; ++k) {
    const int64_t n = in[nn_resize_find_dim(p, k, ndim)];
    const double own = n > 0 ? (double)p->sizes.v[k] / (double)n : 0;
    const int is_better = p->keep_aspect == NN_RESIZE_KEEP_ASPECT_NOT_LARGER
                              ? own < scale
                              : own > scale;
    if (n <= 0) return -1;
    if (k == 0 || is_better) scale = own;
  }
  return scale;
}

/* Sets the lengths and the factor of axis k, of n elements. The length of out
 * is -1 if it is unknown, -2 if 64 bits cannot count it. [any] */
static inline void nn_resize_set_lengths(const nn_resize_params *p, int64_t k,
                                         int64_t n, double common,
                                         nn_resize_axis *axis) {
  double length;
  axis->n_in = n;
  axis->n_out = -1;
  if (p->sizes.n > 0 && p->keep_aspect == NN_RESIZE_KEEP_ASPECT_STRETCH) {
    axis->n_out = p->sizes.v[k];
    axis->scale = n > 0 ? (double)axis->n_out / (double)n : 1;
    return;
  }
  axis->scale = p->sizes.n > 0 ? common : p->scales.v[k];
  if (n < 0 || (p->sizes.n > 0 && common < 0)) return;
  if (p->sizes.n > 0)
    length = floor(axis->scale * (double)n + 0.5);
  else
    length = (double)floorf((float)n * (float)axis->scale);
  axis->n_out = length < 0x1p62 ? (int64_t)length : -2;
}

/* Returns the axes of a tensor with ndim dimensions of lengths `in`; the
 * parameters must fit to it. [any] */
static inline nn_resize_view nn_resize_make_view(const nn_resize_params *p,
                                                 int32_t ndim,
                                                 const int64_t *in) {
  const double common = nn_resize_find_common_scale(p, ndim, in);
  nn_resize_view v;
  memset(&v, 0, sizeof v);
  v.n = (int32_t)nn_resize_count_axes(p, ndim);
  for (int32_t k = 0; k < v.n; ++k) {
    nn_resize_axis *axis = &v.axis[k];
    v.dim[k] = (int32_t)nn_resize_find_dim(p, k, ndim);
    nn_resize_set_lengths(p, k, in[v.dim[k]], common, axis);
    axis->end = 1;
    if (p->roi.n == 2 * v.n) {
      axis->start = p->roi.v[k];
      axis->end = p->roi.v[k + v.n];
    }
    axis->cubic_a = p->cubic_a;
    axis->mode = p->mode;
    axis->coordinates = p->coordinates;
    axis->nearest_mode = p->nearest_mode;
    axis->exclude_outside = p->exclude_outside;
    axis->antialias = p->antialias;
  }
  return v;
}

/* Whether an axis has the same elements in out. [any] */
static inline int nn_resize_is_unchanged(const nn_resize_axis *axis) {
  return axis->n_in == axis->n_out && axis->scale >= 1 && axis->scale <= 1 &&
         axis->coordinates != NN_RESIZE_CROP;
}

/* Returns the axes of a call, forward or backward, without those that are
 * unchanged, unless all are. Smaller factors come first; of equal ones the last
 * axis if tensors become larger, otherwise the first. That is the order of
 * forward passes. [any] */
static inline nn_resize_view nn_resize_view_call(const tn_frame *call) {
  const tn_tensor *data =
      call->flags & TN_CALL_BACKWARD ? &call->out[0] : &call->in[0];
  const nn_resize_view all =
      nn_resize_make_view(nn_resize_params_of(call), data->ndim, data->shape);
  nn_resize_view v = all;
  v.n = 0;
  for (int32_t k = 0; k < all.n; ++k) {
    const nn_resize_axis axis = all.axis[k];
    int32_t i = v.n;
    if (nn_resize_is_unchanged(&axis)) continue;
    for (; i > 0; --i) {
      const double before = v.axis[i - 1].scale;
      const int is_later = v.dim[i - 1] < all.dim[k];
      if (before < axis.scale) break;
      if (before <= axis.scale && is_later == (axis.scale < 1)) break;
      v.axis[i] = v.axis[i - 1];
      v.dim[i] = v.dim[i - 1];
    }
    v.axis[i] = axis;
    v.dim[i] = all.dim[k];
    ++v.n;
  }
  if (v.n > 0 || all.n == 0) return v;
  v.axis[0] = all.axis[0];
  v.dim[0] = all.dim[0];
  v.n = 1;
  return v;
}

#endif /* NN_RESIZE_VIEW_H_ */
