/* SPDX-License-Identifier: Apache-2.0
 * tensor.cuh: iteration of this plugin's CUDA kernels over tensors of any
 * strides. The first argument of a CUDA kernel is the tensors, the second is a
 * walk of kernel.h, which the host creates.
 */
#ifndef TENSOR_TENSOR_CUH_
#define TENSOR_TENSOR_CUH_

#include "tenon/kernel/kernel.cuh"

/* Several elements as one unit. */
struct alignas(16) tensor_sixteen {
  uint64_t half[2];
};

/* The elements of N tensors of one shape. */
template <int N>
struct tensor_steps {
  int64_t n;
  int64_t ndim; /* at least 1 */
  int64_t shape[TN_MAX_NDIM];
  int64_t step[N][TN_MAX_NDIM]; /* in elements */
};

/* Distance from the first element of each tensor to element number i, in
 * elements. Index is the type of the arithmetic: divisions of 32 bits are
 * faster. */
template <class Index, int N>
__device__ __forceinline__ void tensor_find(const tensor_steps<N> &s, Index i,
                                            int64_t *at) {
#pragma unroll
  for (int k = 0; k < N; ++k) at[k] = 0;
  for (int d = (int)s.ndim - 1; d >= 0; --d) {
    const Index length = (Index)s.shape[d];
    const int64_t place = (int64_t)(d > 0 ? i % length : i);
    i /= length;
#pragma unroll
    for (int k = 0; k < N; ++k) at[k] += place * s.step[k][d];
  }
}

/* The thread's first element, and the distance to its next one. */
template <class Index>
__device__ __forceinline__ Index tensor_first() {
  return (Index)blockIdx.x * (Index)TN_CUDA_THREADS + (Index)threadIdx.x;
}

template <class Index>
__device__ __forceinline__ Index tensor_stride() {
  return (Index)gridDim.x * (Index)TN_CUDA_THREADS;
}

/* -------------------------------------------------------------------- host */

/* The first N operands of a walk. */
template <int N>
static inline tensor_steps<N> tensor_steps_of(const tn_kernel_walk *walk) {
  tensor_steps<N> s;
  memset(&s, 0, sizeof s);
  s.n = walk->size;
  s.ndim = walk->ndim;
  for (int d = 0; d < walk->ndim; ++d) {
    s.shape[d] = walk->shape[d];
    for (int k = 0; k < N; ++k) s.step[k][d] = walk->stride[k][d];
  }
  return s;
}

/* Calls `run` with a value of the type that can count n elements. */
template <class Run>
static inline int32_t tensor_by_count(int64_t n, Run run) {
  return n < INT32_MAX ? run(uint32_t()) : run(int64_t());
}

/* Calls `run` with a value of the type of sums of a dtype: int64_t for integers
 * and bool, otherwise double. */
template <class Run>
static inline int32_t tensor_by_wide(tn_dtype dtype, Run run) {
  return dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F32 ||
                 dtype == TN_F64
             ? run(double())
             : run(int64_t());
}

/* tn_cuda_by_width for units of several elements, up to 16 bytes. */
template <class Run>
static inline int32_t tensor_by_unit(int64_t bytes, Run run) {
  return bytes == 16 ? run(tensor_sixteen()) : tn_cuda_by_width(bytes, run);
}

/* Fills 16 bytes with copies of one element. */
static inline void tensor_repeat(uint64_t *bits, const void *element,
                                 int64_t bytes) {
  for (int64_t i = 0; i < 16; i += bytes)
    memcpy((char *)bits + i, element, (size_t)bytes);
}

#endif /* TENSOR_TENSOR_CUH_ */
