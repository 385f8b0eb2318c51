/* SPDX-License-Identifier: Apache-2.0
 * fold.cu: fold.yaml on CUDA devices. A thread computes one element of columns
 * or of an image. The latter reads all columns that contain it, in the order of
 * the elements of a window.
 */
#include "fold_view.h"
#include "windows.cuh"

/* Indices of the arrays that CUDA kernels get. */
enum { TO, FROM, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_fold_arrays;

struct nn_fold_extent {
  nn_window_view windows;
  tn_cuda_divisor by_in_size;
  tn_cuda_divisor by_out_size;
  tn_cuda_divisor by_taps;
  int64_t planes;
};

/* Copies elements of windows to columns. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_fold_copy_windows(nn_fold_arrays a, nn_fold_extent v) {
  typedef nn_compute_type<T> C;
  const nn_window_view &w = v.windows;
  tn_cuda_each(
      v.planes * w.taps * w.out_size,
      [&](int64_t i) {
        const int64_t row = tn_cuda_quotient(i, v.by_out_size);
        const int64_t plane = tn_cuda_quotient(row, v.by_taps);
        const int64_t at = nn_window_find_element(
            w, nn_window_split(w.by_out, i - row * w.out_size),
            nn_window_split(w.by_kernel, row - plane * w.taps));
        if (at < 0) return (C)0;
        return nn_load_element<T>(a.at[FROM], plane * w.in_size + at);
      },
      [&](int64_t i, C x) { nn_store_element<T>(a.at[TO], i, x); });
}

/* Adds elements of columns for each element of an image. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_fold_add_columns(nn_fold_arrays a, nn_fold_extent v) {
  const nn_window_view &w = v.windows;
  const int64_t n = v.planes * w.in_size;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t plane = tn_cuda_quotient(i, v.by_in_size);
    const nn_window_index at = nn_window_split(w.by_in, i - plane * w.in_size);
    nn_compute_type<T> sum = 0;
    for (int64_t t = 0; w.out_size > 0 && t < w.taps; ++t) {
      const int64_t o =
          nn_window_find_window(w, at, nn_window_split(w.by_kernel, t));
      if (o >= 0)
        sum += nn_load_element<T>(a.at[FROM],
                                  (plane * w.taps + t) * w.out_size + o);
    }
    nn_store_element<T>(a.at[TO], i, sum);
  }
}

/* -------------------------------------------------------------------- host */

/* Launches the kernel of a call that computes columns, or images if
 * `is_folded`. */
static int32_t nn_fold_launch(const tn_frame *call, const nn_fold_view &view,
                              bool is_folded) {
  const tn_tensor *out = &call->out[0];
  nn_fold_extent v = {};
  nn_fold_arrays a = {};
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  v.windows = nn_window_make_view(view.window);
  v.by_in_size = tn_cuda_divisor_of(view.in_size);
  v.by_out_size = tn_cuda_divisor_of(view.windows);
  v.by_taps = tn_cuda_divisor_of(view.taps);
  v.planes = view.planes;
  a.at[TO] = tn_cuda_to(out, call->req[0]);
  a.at[FROM] = tn_cuda_from(&call->in[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      typedef decltype(type) T;
      return tn_cuda_start_each(
          call, is_folded ? nn_fold_add_columns<T> : nn_fold_copy_windows<T>,
          tn_tensor_size(out), stream, a, v);
    });
  });
}

int32_t nn_unfold_cuda(const tn_frame *call) {
  return nn_fold_launch(call, nn_unfold_view_call(call), false);
}

int32_t nn_unfold_cuda_backward(const tn_frame *call) {
  return nn_fold_launch(call, nn_unfold_view_call(call), true);
}

int32_t nn_fold_cuda(const tn_frame *call) {
  return nn_fold_launch(call, nn_fold_view_call(call), true);
}

int32_t nn_fold_cuda_backward(const tn_frame *call) {
  return nn_fold_launch(call, nn_fold_view_call(call), false);
}
