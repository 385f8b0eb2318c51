/* SPDX-License-Identifier: Apache-2.0
 * block_reduce.cuh: reductions over the threads of a warp or a block, for CUDA
 * devices. For CUDA C++ only; nothing here is part of the ABI. Part of
 * kernel.cuh.
 */
#include "tenon/kernel/kernel.cuh" /* includes this file: before the guard */

#ifndef TENON_KERNEL_BLOCK_REDUCE_CUH_
#define TENON_KERNEL_BLOCK_REDUCE_CUH_

/* The operations of tn_cuda_reduce. NaN is the largest and the least of all. */
struct tn_cuda_plus {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return tn_cuda_sum(a, b);
  }
};

struct tn_cuda_largest {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return b > a || b != b ? b : a;
  }
};

struct tn_cuda_least {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return b < a || b != b ? b : a;
  }
};

/* The value of the warp's thread with a number that differs in the bits of
 * `apart`. C is a number of 4 or 8 bytes; overload it for other types. */
template <class C>
__device__ __forceinline__ C tn_cuda_other(C mine, unsigned apart) {
  return __shfl_xor_sync(0xffffffffu, mine, apart);
}

/* Reduces the values of `threads` neighbours in a warp, a power of 2 of at most
 * 32, for each of them; only of threads with an equal number modulo `lanes`,
 * another power of 2. All threads of the block must call it. */
template <class C, class Fold>
__device__ __forceinline__ C tn_cuda_reduce_warp(C mine, Fold fold,
                                                 unsigned threads,
                                                 unsigned lanes = 1) {
  for (unsigned apart = threads / 2; apart >= lanes; apart /= 2) {
    const C other = tn_cuda_other(mine, apart);
    mine = threadIdx.x & apart ? fold(other, mine) : fold(mine, other);
  }
  return mine;
}

/* Reduces the values of the TN_CUDA_THREADS threads of a block, for each of
 * them; with `lanes`, a power of 2, only of threads with an equal number modulo
 * `lanes`. `part` is shared memory and free again afterwards. All threads of
 * the block must call it. Always the same order: results do not depend on the
 * device. */
template <class C, class Fold>
__device__ __forceinline__ C tn_cuda_reduce(C *part, C mine, Fold fold,
                                            unsigned lanes = 1) {
  const unsigned warp = 32, own = threadIdx.x, at = own & (lanes - 1);
  const bool is_wide = lanes >= warp; /* or a warp has a set for each lane */
  if (lanes == TN_CUDA_THREADS) return mine;
  if (!is_wide) mine = tn_cuda_reduce_warp(mine, fold, warp, lanes);
  const unsigned end =
      is_wide ? (unsigned)TN_CUDA_THREADS : TN_CUDA_THREADS / warp * lanes;
  if (is_wide)
    part[own] = mine;
  else if (own % warp < lanes)
    part[own / warp * lanes + at] = mine;
  __syncthreads();
  C all = part[at];
#pragma unroll 1
  for (unsigned k = lanes + at; k < end; k += lanes) all = fold(all, part[k]);
  __syncthreads();
  return all;
}

#endif /* TENON_KERNEL_BLOCK_REDUCE_CUH_ */
