/* SPDX-License-Identifier: Apache-2.0
 * lp_pooling.cu: lp_pooling.yaml on CUDA devices. A thread computes a window;
 * backward, an element of data from all windows that contain it.
 */
#include "lp_pooling_view.h"
#include "windows.cuh"

/* Indices of the arrays that CUDA kernels get; HEAD is the gradient of out. */
enum { TO, DATA, OUT, HEAD, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_lp_pooling_arrays;

struct nn_lp_pooling_extent {
  nn_window_view windows;
  int64_t images;
  double p;
};

/* Returns x^p for x of at least 0. */
template <class C>
__device__ __forceinline__ C nn_lp_raise(C x, double p) {
  if (p == 2) return x * x;
  return p <= 1 ? x : (C)pow((double)x, p);
}

/* Computes the windows of all images. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_lp_pooling_reduce_windows(nn_lp_pooling_arrays a,
                                 nn_lp_pooling_extent v) {
  typedef nn_compute_type<T> C;
  const nn_window_view &w = v.windows;
  for (int64_t i = nn_first_index(); i < v.images * w.out_size;
       i += nn_index_step()) {
    const int64_t image = i / w.out_size;
    const nn_window_index o = nn_window_split(w.by_out, i - image * w.out_size);
    C sum = 0;
    for (int64_t t = 0; t < w.taps; ++t) {
      const int64_t at =
          nn_window_find_element(w, o, nn_window_split(w.by_kernel, t));
      if (at < 0) continue;
      const C x = nn_load_element<T>(a.at[DATA], image * w.in_size + at);
      sum += nn_lp_raise(x < 0 ? -x : x, v.p);
    }
    if (v.p > 1) sum = (C)pow((double)sum, 1 / v.p);
    nn_store_element<T>(a.at[TO], i, sum);
  }
}

/* Computes the gradient of all elements. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_lp_pooling_add_windows(nn_lp_pooling_arrays a, nn_lp_pooling_extent v) {
  typedef nn_compute_type<T> C;
  const nn_window_view &w = v.windows;
  for (int64_t i = nn_first_index(); i < v.images * w.in_size;
       i += nn_index_step()) {
    const int64_t image = i / w.in_size;
    const nn_window_index at = nn_window_split(w.by_in, i - image * w.in_size);
    const C x = nn_load_element<T>(a.at[DATA], i);
    const C sign = x > 0 ? (C)1 : x < 0 ? (C)-1 : x;
    C sum = 0;
    for (int64_t t = 0; t < w.taps; ++t) {
      const int64_t o =
          nn_window_find_window(w, at, nn_window_split(w.by_kernel, t));
      if (o < 0) continue;
      const C y = nn_load_element<T>(a.at[OUT], image * w.out_size + o);
      const C head = nn_load_element<T>(a.at[HEAD], image * w.out_size + o);
      if (y != 0)
        sum += head * sign *
               (v.p > 1 ? nn_lp_raise((x < 0 ? -x : x) / y, v.p - 1) : (C)1);
    }
    nn_store_element<T>(a.at[TO], i, sum);
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the geometry of a call, for its CUDA kernels. */
static nn_lp_pooling_extent nn_lp_pooling_make_extent(const tn_frame *call) {
  nn_pool_call own;
  nn_lp_pooling_extent v = {};
  nn_lp_pooling_make_call(call, &own);
  v.windows = nn_window_make_view(nn_pool_make(&own.frame).window);
  v.images = nn_pool_count_images(&own.frame);
  v.p = nn_lp_pooling_params_of(call)->p_value;
  return v;
}

int32_t nn_lp_pooling_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_LP_POOLING_OUT_OUT];
  const nn_lp_pooling_extent v = nn_lp_pooling_make_extent(call);
  nn_lp_pooling_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[NN_LP_POOLING_OUT_OUT]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_LP_POOLING_IN_DATA]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      return tn_cuda_start_each(call,
                                nn_lp_pooling_reduce_windows<decltype(type)>,
                                tn_tensor_size(out), stream, a, v);
    });
  });
}

int32_t nn_lp_pooling_cuda_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_LP_POOLING_IN_DATA];
  const nn_lp_pooling_extent v = nn_lp_pooling_make_extent(call);
  nn_lp_pooling_arrays a = {};
  if (call->req[NN_LP_POOLING_IN_DATA] == TN_REQ_NULL) return TN_OK;
  a.at[TO] = tn_cuda_to(to, call->req[NN_LP_POOLING_IN_DATA]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_LP_POOLING_BACKWARD_IN_DATA]);
  a.at[OUT] = tn_cuda_from(&call->in[NN_LP_POOLING_BACKWARD_OUT_OUT]);
  a.at[HEAD] = tn_cuda_from(&call->in[NN_LP_POOLING_BACKWARD_GRAD_OUT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_lp_pooling_add_windows<decltype(type)>,
                                tn_tensor_size(to), stream, a, v);
    });
  });
}
