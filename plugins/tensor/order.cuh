/* SPDX-License-Identifier: Apache-2.0
 * order.cuh: numbers in the order of their values, equal ones in their own, on
 * CUDA devices. So what belongs to the same place stands side by side, and can
 * be added up in a fixed order without atomics. Blocks sort 256 numbers each,
 * then runs are merged two by two: every number finds its new place by itself.
 */
#ifndef TENSOR_ORDER_CUH_
#define TENSOR_ORDER_CUH_

#include "tenon/kernel.cuh"

/* A number, and which of all it is. */
struct tensor_key {
  int64_t value;
  int64_t i;
};

enum { TENSOR_KEYS, TENSOR_SORTED, TENSOR_KEY_ARRAYS };
typedef tn_cuda_arrays<TENSOR_KEY_ARRAYS> tensor_keys;

struct tensor_runs {
  int64_t n;     /* keys */
  int64_t width; /* of the runs that are sorted */
};

__device__ __forceinline__ bool tensor_is_before(const tensor_key &a,
                                                 const tensor_key &b) {
  return a.value < b.value || (a.value == b.value && a.i < b.i);
}

/* The first runs, of 256, in place. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_sort_runs(tensor_keys a, tensor_runs v) {
  __shared__ tensor_key run[TN_CUDA_THREADS];
  const int64_t runs = (v.n + TN_CUDA_THREADS - 1) / TN_CUDA_THREADS;
  tensor_key *keys = (tensor_key *)a.at[TENSOR_SORTED].data;
  for (int64_t r = blockIdx.x; r < runs; r += gridDim.x) {
    const int64_t first = r * TN_CUDA_THREADS, left = v.n - first;
    const int n = left < TN_CUDA_THREADS ? (int)left : (int)TN_CUDA_THREADS;
    const int own = (int)threadIdx.x;
    int place = 0;
    if (own < n) run[own] = keys[first + own];
    __syncthreads();
    for (int k = 0; k < n && own < n; ++k)
      place += tensor_is_before(run[k], run[own]);
    if (own < n) keys[first + place] = run[own];
    __syncthreads();
  }
}

/* Two runs become one of twice the width: a key stands behind those before it
 * in its own run, and those of the other one that are less. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_merge_runs(tensor_keys a, tensor_runs v) {
  const tensor_key *keys = (const tensor_key *)a.at[TENSOR_KEYS].data;
  tensor_key *sorted = (tensor_key *)a.at[TENSOR_SORTED].data;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.n; i += step) {
    const tensor_key key = keys[i];
    const int64_t run = i / v.width, both = run / 2 * 2 * v.width;
    const int64_t other = (run ^ 1) * v.width;
    int64_t low = other < v.n ? other : v.n;
    int64_t high = other + v.width < v.n ? other + v.width : v.n;
    const int64_t first = low;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (tensor_is_before(keys[middle], key))
        low = middle + 1;
      else
        high = middle;
    }
    sorted[both + i - run * v.width + low - first] = key;
  }
}

/* --------------------------------------------------------------------- host */

/* Bytes of workspace for n keys. */
static inline uint64_t tensor_key_bytes(int64_t n) {
  return 2 * sizeof(tensor_key) * (uint64_t)n;
}

/* The first half of the workspace, where keys are put. */
static inline tn_cuda_array tensor_key_array(void *room, int64_t n) {
  return tn_cuda_room(room, TN_I64, 2 * n);
}

/* Sorts the keys there; *sorted becomes where they are then, to be read. */
static inline int32_t tensor_sort(const tn_frame *call, void *room, int64_t n,
                                  cudaStream_t stream, tn_cuda_array *sorted) {
  tn_cuda_array from = tensor_key_array(room, n);
  tn_cuda_array to = tensor_key_array((tensor_key *)room + n, n);
  tensor_runs v = {n, TN_CUDA_THREADS};
  tensor_keys a = {};
  a.at[TENSOR_SORTED] = from;
  int32_t code = tn_cuda_start_each(call, tensor_sort_runs, n, stream, a, v);
  for (; code == TN_OK && v.width < n; v.width *= 2) {
    a.at[TENSOR_KEYS] = from;
    a.at[TENSOR_SORTED] = to;
    a.at[TENSOR_KEYS].writes = 0;
    code = tn_cuda_start_each(call, tensor_merge_runs, n, stream, a, v);
    const tn_cuda_array next = from;
    from = to;
    to = next;
  }
  *sorted = from;
  sorted->writes = 0;
  return code;
}

#endif /* TENSOR_ORDER_CUH_ */
