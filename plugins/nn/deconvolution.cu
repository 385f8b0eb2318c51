/* SPDX-License-Identifier: Apache-2.0
 * deconvolution.cu: deconvolution.yaml on CUDA devices. A thread computes an
 * element of `out` or of the gradient of `data`, from all windows that contain
 * it. A block computes an element of the gradient of a weight or of a bias. The
 * order of all sums follows from shapes.
 */
#include "deconvolution_view.h"
#include "plane_sums.cuh"
#include "windows.cuh"

/* Indices of the arrays that CUDA kernels get; TO is the one that they write.
 * OUT is the gradient of out. */
enum { TO, DATA, WEIGHT, BIAS, OUT, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_deconvolution_arrays;

struct nn_deconvolution_extent {
  nn_window_view windows;
  int64_t images;
  int64_t groups;
  int64_t channels; /* of data in one group */
  int64_t filters;  /* in one group */
};

/* Element `place` of image `image` of a channel or filter, in its group. */
struct nn_deconvolution_element {
  int64_t image;
  int64_t group;
  int64_t number;
  int64_t place;
};

/* Splits position i in dense images with `each` planes of `size` elements in
 * each group. */
__device__ __forceinline__ nn_deconvolution_element nn_deconvolution_locate(
    const nn_deconvolution_extent &v, int64_t i, int64_t each, int64_t size) {
  nn_deconvolution_element at;
  const int64_t plane = i / size;
  at.place = i - plane * size;
  at.number = plane % each;
  at.group = plane / each % v.groups;
  at.image = plane / each / v.groups;
  return at;
}

/* Returns the index of the first weight of a channel and a filter of a group.
 */
__device__ __forceinline__ int64_t
nn_deconvolution_find_weight(const nn_deconvolution_extent &v, int64_t group,
                             int64_t channel, int64_t filter) {
  return ((group * v.channels + channel) * v.filters + filter) * v.windows.taps;
}

/* Computes out. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_deconvolution_add_windows(nn_deconvolution_arrays a,
                                 nn_deconvolution_extent v) {
  const nn_window_view &w = v.windows;
  const int64_t n = v.images * v.groups * v.filters * w.in_size;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const nn_deconvolution_element e =
        nn_deconvolution_locate(v, i, v.filters, w.in_size);
    const nn_window_index at = nn_window_split(w.by_in, e.place);
    nn_compute_type<T> sum = 0;
    for (int64_t t = 0; t < w.taps; ++t) {
      const int64_t o =
          nn_window_find_window(w, at, nn_window_split(w.by_kernel, t));
      if (o < 0) continue;
      for (int64_t c = 0; c < v.channels; ++c) {
        const int64_t plane = (e.image * v.groups + e.group) * v.channels + c;
        sum += nn_load_element<T>(a.at[DATA], plane * w.out_size + o) *
               nn_load_element<T>(
                   a.at[WEIGHT],
                   nn_deconvolution_find_weight(v, e.group, c, e.number) + t);
      }
    }
    if (a.at[BIAS].data != NULL)
      sum += nn_load_element<T>(a.at[BIAS], e.group * v.filters + e.number);
    nn_store_element<T>(a.at[TO], i, sum);
  }
}

/* Computes the gradient of data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_deconvolution_read_windows(nn_deconvolution_arrays a,
                                  nn_deconvolution_extent v) {
  const nn_window_view &w = v.windows;
  const int64_t n = v.images * v.groups * v.channels * w.out_size;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const nn_deconvolution_element e =
        nn_deconvolution_locate(v, i, v.channels, w.out_size);
    const nn_window_index o = nn_window_split(w.by_out, e.place);
    nn_compute_type<T> sum = 0;
    for (int64_t t = 0; t < w.taps; ++t) {
      const int64_t at =
          nn_window_find_element(w, o, nn_window_split(w.by_kernel, t));
      if (at < 0) continue;
      for (int64_t k = 0; k < v.filters; ++k) {
        const int64_t plane = (e.image * v.groups + e.group) * v.filters + k;
        sum += nn_load_element<T>(a.at[OUT], plane * w.in_size + at) *
               nn_load_element<T>(
                   a.at[WEIGHT],
                   nn_deconvolution_find_weight(v, e.group, e.number, k) + t);
      }
    }
    nn_store_element<T>(a.at[TO], i, sum);
  }
}

/* Computes the gradient of the weight: the threads of a block add the products
 * of one element. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_deconvolution_sum_products(nn_deconvolution_arrays a,
                                  nn_deconvolution_extent v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const nn_window_view &w = v.windows;
  const int64_t n = v.groups * v.channels * v.filters * w.taps;
  for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
    const int64_t pair = i / w.taps, channel = pair / v.filters;
    const int64_t filter = channel / v.channels * v.filters + pair % v.filters;
    const nn_window_index t = nn_window_split(w.by_kernel, i % w.taps);
    C sum = 0;
    for (int64_t k = threadIdx.x; k < v.images * w.out_size;
         k += TN_CUDA_THREADS) {
      const int64_t image = k / w.out_size, o = k % w.out_size;
      const int64_t at =
          nn_window_find_element(w, nn_window_split(w.by_out, o), t);
      if (at < 0) continue;
      const int64_t data = image * v.groups * v.channels + channel;
      const int64_t out = image * v.groups * v.filters + filter;
      sum += nn_load_element<T>(a.at[DATA], data * w.out_size + o) *
             nn_load_element<T>(a.at[OUT], out * w.in_size + at);
    }
    sum = tn_cuda_reduce(part, sum, tn_cuda_plus());
    if (threadIdx.x == 0) nn_store_element<T>(a.at[TO], i, sum);
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the geometry of a call, for its CUDA kernels. */
static nn_deconvolution_extent nn_deconvolution_make_extent(
    const tn_frame *call) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  const tn_tensor *data = nn_deconvolution_find_data(call);
  nn_deconvolution_extent v = {};
  v.windows = nn_window_make_view(nn_deconvolution_make_window(call));
  v.images = nn_deconvolution_find_out(call)->shape[0];
  v.groups = p->num_group;
  v.channels = data->ndim < 0 ? 0 : data->shape[1] / p->num_group;
  v.filters = p->num_filter / p->num_group;
  return v;
}

int32_t nn_deconvolution_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_DECONVOLUTION_OUT_OUT];
  const nn_deconvolution_extent v = nn_deconvolution_make_extent(call);
  nn_deconvolution_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[NN_DECONVOLUTION_OUT_OUT]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_DECONVOLUTION_IN_DATA]);
  a.at[WEIGHT] = tn_cuda_from(&call->in[NN_DECONVOLUTION_IN_WEIGHT]);
  if (!nn_deconvolution_params_of(call)->no_bias)
    a.at[BIAS] = tn_cuda_from(&call->in[NN_DECONVOLUTION_IN_BIAS]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      return tn_cuda_start_each(call,
                                nn_deconvolution_add_windows<decltype(type)>,
                                tn_tensor_size(out), stream, a, v);
    });
  });
}

/* Launches the kernel of the gradient of input i. */
template <class T>
static int32_t nn_deconvolution_launch_gradient(
    const tn_frame *call, const nn_deconvolution_extent &v,
    nn_deconvolution_arrays a, uint32_t i, cudaStream_t stream) {
  const int64_t n = tn_tensor_size(&call->out[i]);
  a.at[TO] = tn_cuda_to(&call->out[i], call->req[i]);
  if (i == NN_DECONVOLUTION_IN_BIAS)
    return nn_plane_sums_launch<nn_compute_type<T>>(
        call, i, &call->in[NN_DECONVOLUTION_BACKWARD_GRAD_OUT],
        {v.images, n, v.windows.in_size}, stream);
  if (i == NN_DECONVOLUTION_IN_DATA)
    return tn_cuda_start_each(call, nn_deconvolution_read_windows<T>, n, stream,
                              a, v);
  return tn_cuda_start(call, nn_deconvolution_sum_products<T>, n, stream, a, v);
}

int32_t nn_deconvolution_cuda_backward(const tn_frame *call) {
  const tn_tensor *head = &call->in[NN_DECONVOLUTION_BACKWARD_GRAD_OUT];
  const nn_deconvolution_extent v = nn_deconvolution_make_extent(call);
  nn_deconvolution_arrays a = {};
  a.at[OUT] = tn_cuda_from(head);
  a.at[DATA] = tn_cuda_from(&call->in[NN_DECONVOLUTION_BACKWARD_IN_DATA]);
  a.at[WEIGHT] = tn_cuda_from(&call->in[NN_DECONVOLUTION_BACKWARD_IN_WEIGHT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(head->dtype, [&](auto type) {
      int32_t code = TN_OK;
      for (uint32_t i = 0; i < call->n_out && code == TN_OK; ++i)
        if (call->req[i] != TN_REQ_NULL)
          code = nn_deconvolution_launch_gradient<decltype(type)>(call, v, a, i,
                                                                  stream);
      return code;
    });
  });
}
