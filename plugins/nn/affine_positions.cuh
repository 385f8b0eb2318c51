/* SPDX-License-Identifier: Apache-2.0
 * affine_positions.cuh: affine functions of the positions of an image's
 * elements, and their gradients, on CUDA devices.
 */
#ifndef NN_AFFINE_POSITIONS_CUH_
#define NN_AFFINE_POSITIONS_CUH_

#include "affine_view.h"
#include "nn.cuh"

/* Indices of the arrays that CUDA kernels get: functions and positions, or
 * their gradients. */
enum { NN_AFFINE_TO, NN_AFFINE_FROM, NN_AFFINE_ARRAYS };
typedef tn_cuda_arrays<NN_AFFINE_ARRAYS> nn_affine_cuda_arrays;

/* Computes the positions of all points. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_affine_write_positions(nn_affine_cuda_arrays a, nn_affine_positions v) {
  const int64_t points = nn_affine_count_points(&v);
  for (int64_t i = nn_first_index(); i < v.images * points * v.rank;
       i += nn_index_step()) {
    const int row = (int)(i % v.rank);
    const int64_t point = i / v.rank % points, image = i / v.rank / points;
    const int64_t first = (image * v.rank + row) * (v.rank + 1);
    double sum = 0;
    for (int k = 0; k <= v.rank; ++k)
      sum += (double)tn_cuda_read<C>(a.at[NN_AFFINE_FROM], first + k) *
             nn_affine_find_coordinate(&v, point, k);
    tn_cuda_write(a.at[NN_AFFINE_TO],
                  nn_affine_find_place(&v, image, point, row), (C)sum);
  }
}

/* Computes the gradients of all functions; a block computes a number. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_affine_sum_slopes(nn_affine_cuda_arrays a, nn_affine_positions v) {
  __shared__ double part[TN_CUDA_THREADS];
  const int64_t points = nn_affine_count_points(&v);
  for (int64_t i = blockIdx.x; i < v.images * v.rank * (v.rank + 1);
       i += gridDim.x) {
    const int k = (int)(i % (v.rank + 1));
    const int row = (int)(i / (v.rank + 1) % v.rank);
    const int64_t image = i / (v.rank + 1) / v.rank;
    double sum = 0;
    for (int64_t point = threadIdx.x; point < points; point += TN_CUDA_THREADS)
      sum +=
          (double)tn_cuda_read<C>(a.at[NN_AFFINE_FROM],
                                  nn_affine_find_place(&v, image, point, row)) *
          nn_affine_find_coordinate(&v, point, k);
    sum = tn_cuda_reduce(part, sum, tn_cuda_plus());
    if (threadIdx.x == 0) tn_cuda_write(a.at[NN_AFFINE_TO], i, (C)sum);
  }
}

/* Launches one of the kernels. */
template <class C>
static int32_t nn_affine_launch(const tn_frame *call,
                                const nn_affine_positions &v,
                                const nn_affine_cuda_arrays &a, bool is_back,
                                cudaStream_t stream) {
  if (is_back)
    return tn_cuda_start(call, nn_affine_sum_slopes<C>,
                         v.images * v.rank * (v.rank + 1), stream, a, v);
  return tn_cuda_start_each(call, nn_affine_write_positions<C>,
                            v.images * v.rank * nn_affine_count_points(&v),
                            stream, a, v);
}

#endif /* NN_AFFINE_POSITIONS_CUH_ */
