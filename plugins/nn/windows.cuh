/* SPDX-License-Identifier: Apache-2.0
 * windows.cuh: windows over dense images on CUDA devices, with strides and
 * dilation: for kernels that compute one element with each thread.
 */
#ifndef NN_WINDOWS_CUH_
#define NN_WINDOWS_CUH_

#include "nn.cuh"
#include "window.h"

/* Windows with the divisors of their lengths. */
struct nn_window_view {
  nn_window window;
  tn_cuda_divisor by_in[NN_WINDOW_RANK];
  tn_cuda_divisor by_out[NN_WINDOW_RANK];
  tn_cuda_divisor by_kernel[NN_WINDOW_RANK];
  tn_cuda_divisor by_stride[NN_WINDOW_RANK];
  int64_t in_size; /* elements of an image of one channel */
  int64_t out_size;
  int64_t taps; /* elements of a window */
};

/* Indices along each dimension. */
struct nn_window_index {
  int64_t d[NN_WINDOW_RANK];
};

/* Prepares windows for a kernel. */
static inline nn_window_view nn_window_make_view(const nn_window &w) {
  nn_window_view v = {};
  v.window = w;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    v.by_in[d] = tn_cuda_divisor_of(w.in[d]);
    v.by_out[d] = tn_cuda_divisor_of(w.out[d]);
    v.by_kernel[d] = tn_cuda_divisor_of(w.kernel[d]);
    v.by_stride[d] = tn_cuda_divisor_of(w.stride[d]);
  }
  v.in_size = nn_window_multiply_lengths(w.in);
  v.out_size = nn_window_multiply_lengths(w.out);
  v.taps = nn_window_multiply_lengths(w.kernel);
  return v;
}

/* Splits position i into indices; `by` has the lengths. */
__device__ __forceinline__ nn_window_index
nn_window_split(const tn_cuda_divisor *by, int64_t i) {
  nn_window_index at;
#pragma unroll
  for (int d = NN_WINDOW_RANK - 1; d > 0; --d) {
    const int64_t rest = tn_cuda_quotient(i, by[d]);
    at.d[d] = i - rest * by[d].by;
    i = rest;
  }
  at.d[0] = i;
  return at;
}

/* Returns the position of tap t of window o in its image; -1 if it is padding.
 */
__device__ __forceinline__ int64_t
nn_window_find_element(const nn_window_view &v, const nn_window_index &o,
                       const nn_window_index &t) {
  int64_t place = 0;
#pragma unroll
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    const int64_t at = o.d[d] * v.window.stride[d] +
                       t.d[d] * v.window.dilate[d] - v.window.pad[d];
    if (at < 0 || at >= v.window.in[d]) return -1;
    place = place * v.window.in[d] + at;
  }
  return place;
}

/* Returns the number of the window with its tap t at the element with the
 * indices `at`; -1 if there is none. */
__device__ __forceinline__ int64_t
nn_window_find_window(const nn_window_view &v, const nn_window_index &at,
                      const nn_window_index &t) {
  int64_t number = 0;
#pragma unroll
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    const int64_t from =
        at.d[d] + v.window.pad[d] - t.d[d] * v.window.dilate[d];
    if (from < 0) return -1;
    const int64_t o = tn_cuda_quotient(from, v.by_stride[d]);
    if (o * v.window.stride[d] != from || o >= v.window.out[d]) return -1;
    number = number * v.window.out[d] + o;
  }
  return number;
}

#endif /* NN_WINDOWS_CUH_ */
