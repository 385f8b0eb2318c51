/* SPDX-License-Identifier: Apache-2.0
 * lrn.cu: lrn.yaml on CUDA devices. A thread computes an element, and reads the
 * same element of the channels in the window.
 */
#include "lrn_view.h"
#include "nn.cuh"
#include "second.h"

/* Indices of the arrays that CUDA kernels get. BASE is tmp_norm. */
enum { TO, DATA, BASE, HEAD, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_lrn_arrays;

struct nn_lrn_extent {
  nn_lrn_rule rule;
  int64_t n; /* elements */
  tn_cuda_divisor by_inner;
  tn_cuda_divisor by_channels;
};

__device__ __forceinline__ float nn_lrn_raise(float base, float exponent) {
  return powf(base, exponent);
}

__device__ __forceinline__ double nn_lrn_raise(double base, double exponent) {
  return pow(base, exponent);
}

/* The elements in the window of element i: from `first` to `last`, `inner`
 * apart. */
struct nn_lrn_window {
  int64_t first;
  int64_t last;
};

__device__ __forceinline__ nn_lrn_window
nn_lrn_find_window(const nn_lrn_extent &v, int64_t i) {
  const int64_t line = tn_cuda_quotient(i, v.by_inner);
  const int64_t c =
      line - tn_cuda_quotient(line, v.by_channels) * v.rule.channels;
  const int64_t before = c < v.rule.half ? c : v.rule.half;
  const int64_t left = v.rule.channels - 1 - c;
  const int64_t after = left < v.rule.half ? left : v.rule.half;
  const nn_lrn_window window = {i - before * v.rule.inner,
                                i + after * v.rule.inner};
  return window;
}

/* Writes TO and BASE; either may have no data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_lrn_normalize(nn_lrn_arrays a, nn_lrn_extent v) {
  typedef nn_compute_type<T> C;
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step()) {
    const nn_lrn_window window = nn_lrn_find_window(v, i);
    C sum = 0;
    for (int64_t k = window.first; k <= window.last; k += v.rule.inner) {
      const C x = nn_load_element<T>(a.at[DATA], k);
      sum += x * x;
    }
    const C base = (C)v.rule.knorm + (C)v.rule.share * sum;
    if (a.at[BASE].data != NULL) nn_store_element<T>(a.at[BASE], i, base);
    if (a.at[TO].data != NULL)
      nn_store_element<T>(a.at[TO], i,
                          nn_load_element<T>(a.at[DATA], i) *
                              nn_lrn_raise(base, (C)-v.rule.beta));
  }
}

/* Writes the gradient of data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_lrn_write_gradients(nn_lrn_arrays a, nn_lrn_extent v) {
  typedef nn_compute_type<T> C;
  const C factor = (C)(2 * v.rule.share * v.rule.beta),
          exponent = (C)-v.rule.beta;
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step()) {
    const nn_lrn_window window = nn_lrn_find_window(v, i);
    C sum = 0;
    for (int64_t k = window.first; k <= window.last; k += v.rule.inner) {
      const C base = nn_load_element<T>(a.at[BASE], k);
      sum += nn_load_element<T>(a.at[HEAD], k) *
             nn_load_element<T>(a.at[DATA], k) * nn_lrn_raise(base, exponent) /
             base;
    }
    const C power = nn_lrn_raise(nn_load_element<T>(a.at[BASE], i), exponent);
    nn_store_element<T>(a.at[TO], i,
                        nn_load_element<T>(a.at[HEAD], i) * power -
                            factor * nn_load_element<T>(a.at[DATA], i) * sum);
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the geometry and parameters of a call; `like` has the shape of data.
 */
static nn_lrn_extent nn_lrn_make_extent(const tn_frame *call,
                                        const tn_tensor *like) {
  nn_lrn_extent v = {};
  v.rule = nn_lrn_make_rule(call, like);
  v.n = tn_tensor_size(like);
  v.by_inner = tn_cuda_divisor_of(v.rule.inner);
  v.by_channels = tn_cuda_divisor_of(v.rule.channels);
  return v;
}

int32_t nn_lrn_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_LRN_OUT_OUT];
  const nn_lrn_extent v = nn_lrn_make_extent(call, out);
  nn_lrn_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[NN_LRN_OUT_OUT]);
  a.at[BASE] = tn_cuda_to(&call->out[NN_LRN_OUT_TMP_NORM],
                          call->req[NN_LRN_OUT_TMP_NORM]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_LRN_IN_DATA]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_lrn_normalize<decltype(type)>, v.n,
                                stream, a, v);
    });
  });
}

int32_t nn_lrn_cuda_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_LRN_IN_DATA];
  const nn_lrn_extent v = nn_lrn_make_extent(call, to);
  nn_lrn_arrays a = {};
  a.at[TO] = tn_cuda_to(to, call->req[NN_LRN_IN_DATA]);
  if (a.at[TO].data == NULL) return TN_OK;
  a.at[HEAD] = tn_cuda_from(&call->in[NN_LRN_BACKWARD_GRAD_OUT]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_LRN_BACKWARD_IN_DATA]);
  a.at[BASE] = tn_cuda_from(&call->in[NN_LRN_BACKWARD_OUT_TMP_NORM]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_lrn_write_gradients<decltype(type)>,
                                v.n, stream, a, v);
    });
  });
}

int32_t nn_lrn_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_lrn_cuda_backward(&own);
}
