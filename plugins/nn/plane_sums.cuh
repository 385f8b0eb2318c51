/* SPDX-License-Identifier: Apache-2.0
 * plane_sums.cuh: sums of planes over all images on CUDA devices: the gradient
 * of a bias.
 */
#ifndef NN_PLANE_SUMS_CUH_
#define NN_PLANE_SUMS_CUH_

#include "nn.cuh"

enum { NN_PLANE_SUMS_TO, NN_PLANE_SUMS_FROM, NN_PLANE_SUMS_ARRAYS };
typedef tn_cuda_arrays<NN_PLANE_SUMS_ARRAYS> nn_plane_sum_arrays;

/* Dense images of `planes` planes with `size` elements. */
struct nn_plane_sum_extent {
  int64_t images;
  int64_t planes;
  int64_t size;
};

/* Computes element k of TO: the threads of a block add plane k of all images,
 * in f64. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_plane_sums_add(nn_plane_sum_arrays a, nn_plane_sum_extent v) {
  __shared__ double part[TN_CUDA_THREADS];
  for (int64_t k = blockIdx.x; k < v.planes; k += gridDim.x) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < v.images * v.size; i += TN_CUDA_THREADS) {
      const int64_t plane = i / v.size * v.planes + k;
      sum += (double)tn_cuda_read<C>(a.at[NN_PLANE_SUMS_FROM],
                                     plane * v.size + i % v.size);
    }
    sum = tn_cuda_reduce(part, sum, tn_cuda_plus());
    if (threadIdx.x == 0) tn_cuda_write(a.at[NN_PLANE_SUMS_TO], k, (C)sum);
  }
}

/* Launches the sums of `from` into output i of the call. */
template <class C>
static inline int32_t nn_plane_sums_launch(const tn_frame *call, uint32_t i,
                                           const tn_tensor *from,
                                           const nn_plane_sum_extent &v,
                                           cudaStream_t stream) {
  nn_plane_sum_arrays a = {};
  a.at[NN_PLANE_SUMS_TO] = tn_cuda_to(&call->out[i], call->req[i]);
  a.at[NN_PLANE_SUMS_FROM] = tn_cuda_from(from);
  return tn_cuda_start(call, nn_plane_sums_add<C>, v.planes, stream, a, v);
}

#endif /* NN_PLANE_SUMS_CUH_ */
