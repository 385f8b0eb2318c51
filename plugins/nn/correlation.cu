/* SPDX-License-Identifier: Apache-2.0
 * correlation.cu: correlation.yaml on CUDA devices. A thread computes an
 * element of out; backward, an element of an image, from all windows that
 * contain it.
 */
#include "correlation_view.h"
#include "nn.cuh"

/* Indices of the arrays that CUDA kernels get: HEAD has the
 * output gradient, OWN the images of this gradient, OTHER the other ones. */
enum { TO, OWN, OTHER, HEAD, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_correlation_arrays;

struct nn_correlation_extent {
  nn_correlation_view view;
  int sign; /* 1 if OTHER is displaced, -1 if OWN is */
  int reserved;
};

/* Returns an element of a plane, 0 for one outside. */
template <class C>
__device__ __forceinline__ double nn_correlation_read(
    const tn_cuda_array &array, const nn_correlation_view &v, int64_t plane,
    int64_t y, int64_t x) {
  if (y < 0 || y >= v.size[0] || x < 0 || x >= v.size[1]) return 0;
  return (double)tn_cuda_read<C>(array,
                                 (plane * v.size[0] + y) * v.size[1] + x);
}

/* Computes out. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_correlation_compare_windows(nn_correlation_arrays a,
                                   nn_correlation_extent e) {
  const nn_correlation_view &v = e.view;
  const int64_t n = v.windows[0] * v.windows[1], all = v.count * v.count;
  for (int64_t i = nn_first_index(); i < v.images * all * n;
       i += nn_index_step()) {
    const int64_t at = i % n, d = i / n % all, image = i / n / all;
    const int64_t down = (d / v.count - v.reach) * v.step;
    const int64_t across = (d % v.count - v.reach) * v.step;
    const int64_t row = v.first + at / v.windows[1] * v.stride;
    const int64_t column = v.first + at % v.windows[1] * v.stride;
    double sum = 0;
    for (int64_t c = 0; c < v.channels; ++c)
      for (int64_t t = 0; t < v.kernel * v.kernel; ++t) {
        const int64_t plane = image * v.channels + c;
        const int64_t y = row + t / v.kernel, x = column + t % v.kernel;
        sum += nn_correlation_compare(
            &v, nn_correlation_read<C>(a.at[OWN], v, plane, y, x),
            nn_correlation_read<C>(a.at[OTHER], v, plane, y + down,
                                   x + across));
      }
    tn_cuda_write(a.at[TO], i, (C)(sum * v.share));
  }
}

/* Returns the window along dimension d with its element t at `at`, -1 if there
 * is none. */
__device__ __forceinline__ int64_t nn_correlation_find_window(
    const nn_correlation_view &v, int d, int64_t at, int64_t t) {
  const int64_t from = at - v.first - t;
  if (from < 0 || from % v.stride != 0 || from / v.stride >= v.windows[d])
    return -1;
  return from / v.stride;
}

/* Computes the gradient of images. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_correlation_add_windows(nn_correlation_arrays a,
                               nn_correlation_extent e) {
  const nn_correlation_view &v = e.view;
  const int64_t size = v.size[0] * v.size[1], all = v.count * v.count;
  for (int64_t i = nn_first_index(); i < v.images * v.channels * size;
       i += nn_index_step()) {
    const int64_t plane = i / size, y = i % size / v.size[1];
    const int64_t x = i % v.size[1];
    const double own = (double)tn_cuda_read<C>(a.at[OWN], i);
    double sum = 0;
    for (int64_t k = 0; k < all * v.kernel * v.kernel; ++k) {
      const int64_t d = k / v.kernel / v.kernel, t = k % (v.kernel * v.kernel);
      const int64_t down = (d / v.count - v.reach) * v.step;
      const int64_t across = (d % v.count - v.reach) * v.step;
      /* An element of displaced images belongs to a window elsewhere. */
      const int64_t row = nn_correlation_find_window(
          v, 0, e.sign < 0 ? y - down : y, t / v.kernel);
      const int64_t column = nn_correlation_find_window(
          v, 1, e.sign < 0 ? x - across : x, t % v.kernel);
      if (row < 0 || column < 0) continue;
      const double other = nn_correlation_read<C>(
          a.at[OTHER], v, plane, y + e.sign * down, x + e.sign * across);
      const int64_t head =
          ((plane / v.channels * all + d) * v.windows[0] + row) * v.windows[1] +
          column;
      sum += (double)tn_cuda_read<C>(a.at[HEAD], head) * v.share *
             nn_correlation_derive(&v, own, other);
    }
    tn_cuda_write(a.at[TO], i, (C)sum);
  }
}

/* -------------------------------------------------------------------- host */

int32_t nn_correlation_cuda(const tn_frame *call) {
  const nn_correlation_extent e = {nn_correlation_view_call(call), 1, 0};
  nn_correlation_arrays a = {};
  a.at[TO] = tn_cuda_to(&call->out[0], call->req[0]);
  a.at[OWN] = tn_cuda_from(&call->in[0]);
  a.at[OTHER] = tn_cuda_from(&call->in[1]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start_each(call,
                                nn_correlation_compare_windows<decltype(type)>,
                                tn_tensor_size(&call->out[0]), stream, a, e);
    });
  });
}

/* Launches the kernel of the gradient of input i. */
template <class C>
static int32_t nn_correlation_launch_gradient(const tn_frame *call, uint32_t i,
                                              cudaStream_t stream) {
  const nn_correlation_extent e = {nn_correlation_view_call(call),
                                   i == 0 ? 1 : -1, 0};
  nn_correlation_arrays a = {};
  a.at[TO] = tn_cuda_to(&call->out[i], call->req[i]);
  a.at[HEAD] = tn_cuda_from(&call->in[0]);
  a.at[OWN] = tn_cuda_from(&call->in[1 + i]);
  a.at[OTHER] = tn_cuda_from(&call->in[2 - i]);
  return tn_cuda_start_each(call, nn_correlation_add_windows<C>,
                            tn_tensor_size(&call->out[i]), stream, a, e);
}

int32_t nn_correlation_cuda_backward(const tn_frame *call) {
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      int32_t code = TN_OK;
      for (uint32_t i = 0; i < 2 && code == TN_OK; ++i)
        if (call->req[i] != TN_REQ_NULL)
          code =
              nn_correlation_launch_gradient<decltype(type)>(call, i, stream);
      return code;
    });
  });
}
