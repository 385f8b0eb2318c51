/* SPDX-License-Identifier: Apache-2.0
 * pooling.cuh: a part of pooling.cu only: the geometry of windows on CUDA
 * devices, and loops over their elements.
 */
#ifndef NN_POOLING_CUH_
#define NN_POOLING_CUH_

#include "pool_geometry.h"
#include "rows.cuh"

/* Indices of the arrays that CUDA kernels get. Backward, TO is the gradient of
 * DATA. CHOSEN has the position of each window's largest element. */
enum { TO, DATA, OUT, HEAD, CHOSEN, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_pool_arrays;

struct nn_pool_view {
  nn_window window;
  int64_t limit[NN_WINDOW_RANK]; /* limit[] of nn_pool (pool.h) */
  tn_cuda_divisor by_in[NN_WINDOW_RANK];
  tn_cuda_divisor by_out[NN_WINDOW_RANK];
  tn_cuda_divisor by_stride[NN_WINDOW_RANK];
  tn_cuda_divisor by_in_size;
  tn_cuda_divisor by_out_size;
  int64_t images;
  int kind; /* NN_POOL_* */
  int counts_padding;
  int are_pairs; /* along each dimension an element is in at most two windows */
  int is_dilated; /* elements of a window are not adjacent */
};

/* The type of indices, and the first dimension with more than one element. */
template <class I, int FIRST>
struct nn_pool_shape {
  typedef I index;
  enum { first = FIRST };
};

/* ----------------------------------------------------------------- windows */

/* The indices of an element or of a window in its image, along each dimension.
 */
template <class I>
struct nn_pool_index {
  I d[NN_WINDOW_RANK];
};

/* A range of indices along each dimension: the elements of a window, or the
 * windows that contain an element. */
template <class I>
struct nn_pool_range {
  I begin[NN_WINDOW_RANK];
  I end[NN_WINDOW_RANK];
};

/* Returns the elements of window `o` that are not padding. */
template <class S>
__device__ __forceinline__ nn_pool_range<typename S::index>
nn_pool_find_elements(const nn_pool_view &v,
                      const nn_pool_index<typename S::index> &o) {
  typedef typename S::index I;
  nn_pool_range<I> x = {{0, 0, 0}, {1, 1, 1}};
#pragma unroll
  for (int d = S::first; d < NN_WINDOW_RANK; ++d) {
    const I first = o.d[d] * (I)v.window.stride[d] - (I)v.window.pad[d];
    const I step = (I)v.window.dilate[d], end = (I)v.window.in[d];
    const I last = first + step * (I)(v.window.kernel[d] - 1) + 1;
    x.begin[d] = first;
    if (first < 0)
      x.begin[d] = v.is_dilated ? first + (step - 1 - first) / step * step : 0;
    x.end[d] = last < end ? last : end;
  }
  return x;
}

/* Returns the divisor of the mean of window `o`, at least 1. */
template <class S>
__device__ __forceinline__ int64_t nn_pool_count_elements(
    const nn_pool_view &v, const nn_pool_index<typename S::index> &o) {
  const nn_pool_range<typename S::index> w = nn_pool_find_elements<S>(v, o);
  int64_t count = 1;
#pragma unroll
  for (int d = S::first; d < NN_WINDOW_RANK; ++d) {
    const int64_t first =
        (int64_t)o.d[d] * v.window.stride[d] - v.window.pad[d];
    const int64_t step = v.window.dilate[d];
    const int64_t last = first + step * (v.window.kernel[d] - 1) + 1;
    const int64_t reach = last < v.limit[d] ? last : v.limit[d];
    const int64_t n = v.counts_padding ? reach - first : w.end[d] - w.begin[d];
    count *= n < 0 ? 0 : v.is_dilated ? (n + step - 1) / step : n;
  }
  return count < 1 ? 1 : count;
}

/* Splits position i in an image into indices along each dimension; `by` has the
 * lengths. */
template <class S>
__device__ __forceinline__ nn_pool_index<typename S::index> nn_pool_split_index(
    const tn_cuda_divisor *by, typename S::index i) {
  typedef typename S::index I;
  nn_pool_index<I> at = {{0, 0, 0}};
#pragma unroll
  for (int d = NN_WINDOW_RANK - 1; d > S::first; --d) {
    const I rest = (I)tn_cuda_quotient(i, by[d]);
    at.d[d] = i - rest * (I)by[d].by;
    i = rest;
  }
  at.d[S::first] = i;
  return at;
}

/* Returns the position of an element from its indices, the inverse of
 * nn_pool_split_index. */
template <class S>
__device__ __forceinline__ typename S::index nn_pool_join_index(
    const tn_cuda_divisor *by, const nn_pool_index<typename S::index> &at) {
  typedef typename S::index I;
  I place = at.d[S::first];
#pragma unroll
  for (int d = S::first + 1; d < NN_WINDOW_RANK; ++d)
    place = place * (I)by[d].by + at.d[d];
  return place;
}

/* The indices of a window in its image, and the position of the image's first
 * element. */
template <class I>
struct nn_pool_located_window {
  nn_pool_index<I> at;
  int64_t first;
};

/* Returns window i, counted over all images. */
template <class S>
__device__ __forceinline__ nn_pool_located_window<typename S::index>
nn_pool_locate_window(const nn_pool_view &v, typename S::index i) {
  typedef typename S::index I;
  const I image = (I)tn_cuda_quotient(i, v.by_out_size);
  const nn_pool_located_window<I> found = {
      nn_pool_split_index<S>(v.by_out, i - image * (I)v.by_out_size.by),
      (int64_t)image * v.by_in_size.by};
  return found;
}

/* Calls `each` with the positions of a window's elements in the image, in
 * order, until it returns false. */
template <class S, class Each>
__device__ __forceinline__ void nn_pool_visit_elements(
    const nn_pool_view &v, const nn_pool_range<typename S::index> &w,
    Each each) {
  typedef typename S::index I;
  const int64_t *step = v.window.dilate;
  nn_pool_index<I> at;
  for (at.d[0] = w.begin[0]; at.d[0] < w.end[0]; at.d[0] += (I)step[0])
    for (at.d[1] = w.begin[1]; at.d[1] < w.end[1]; at.d[1] += (I)step[1])
      for (at.d[2] = w.begin[2]; at.d[2] < w.end[2]; at.d[2] += (I)step[2])
        if (!each(nn_pool_join_index<S>(v.by_in, at))) return;
}

/* Returns the result of a window without elements. */
template <class C>
__device__ __forceinline__ C nn_pool_get_identity(const nn_pool_view &v) {
  return v.kind == NN_POOL_MAX ? -(C)INFINITY : (C)0;
}

/* Returns the larger of two values, or their sum. */
template <class C>
__device__ __forceinline__ C nn_pool_combine_values(const nn_pool_view &v, C a,
                                                    C b) {
  return v.kind == NN_POOL_MAX ? tn_cuda_largest()(a, b) : a + b;
}

#endif /* NN_POOLING_CUH_ */
