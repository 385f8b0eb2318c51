/* SPDX-License-Identifier: Apache-2.0
 * linalg.cuh: the common part of this plugin's CUDA kernels. All matrices are
 * dense and row-major, because the manifests say so.
 */
#ifndef LINALG_LINALG_CUH_
#define LINALG_LINALG_CUH_

#include "tenon/kernel/kernel.cuh"

/* The thread's first piece of work, and the distance to its next one. */
__device__ __forceinline__ int64_t linalg_first() {
  return (int64_t)blockIdx.x * TN_CUDA_THREADS + (int64_t)threadIdx.x;
}

__device__ __forceinline__ int64_t linalg_stride() {
  return (int64_t)gridDim.x * TN_CUDA_THREADS;
}

/* -------------------------------------------------------------------- host */

/* Product of the dimensions of a tensor before its last n ones. */
static inline int64_t linalg_count(const tn_tensor *tensor, int32_t n) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor->ndim - n; ++d) count *= tensor->shape[d];
  return count;
}

static inline int64_t linalg_rows(const tn_tensor *tensor) {
  return tensor->shape[tensor->ndim - 2];
}

static inline int64_t linalg_columns(const tn_tensor *tensor) {
  return tensor->shape[tensor->ndim - 1];
}

#endif /* LINALG_LINALG_CUH_ */
