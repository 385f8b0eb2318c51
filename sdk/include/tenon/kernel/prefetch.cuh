/* SPDX-License-Identifier: Apache-2.0
 * prefetch.cuh: loops of kernels for CUDA devices that are as fast as memory.
 * For CUDA C++ only; nothing here is part of the ABI.
 *
 * Memory is the limit only if a thread needs fewer than some thirty
 * instructions for a float that it reads and writes: a division of 64 bits has
 * a hundred. A load without other work to overlap costs its whole latency. So
 * the host prepares divisors, threads walk along lines by additions, and
 * several elements are loaded before the first of them is used:
 *
 *   struct acme_extent { int64_t n; tn_cuda_divisor by_columns; };
 *
 *   // out[r, c] = data[r, c] * factor[r]
 *   template <class C>
 *   __global__ void __launch_bounds__(TN_CUDA_THREADS)
 *       acme_scale(tn_cuda_arrays<3> a, acme_extent v) {
 *     tn_cuda_each(
 *         v.n,
 *         [&](int64_t i) {
 *           const int64_t row = tn_cuda_quotient(i, v.by_columns);
 *           return tn_cuda_read<C>(a.at[DATA], i) *
 *                  tn_cuda_read<C>(a.at[FACTOR], row);
 *         },
 *         [&](int64_t i, C x) { tn_cuda_write(a.at[OUT], i, x); });
 *   }
 */
#ifndef TENON_KERNEL_PREFETCH_CUH_
#define TENON_KERNEL_PREFETCH_CUH_

#include "tenon/kernel/kernel.cuh"

/* ---------------------------------------------------------------- divisors */

/* A divisor that the host knows: threads multiply instead of the hundred
 * instructions of a division of 64 bits. */
struct tn_cuda_divisor {
  int64_t by;
  uint64_t factor; /* (2^shift - by)/by of 2^64, and one more */
  uint32_t small;  /* of 2^32 */
  uint32_t shift;  /* 2^shift is at least `by` */
};

/* The divisor `by`; do not divide by one that is less than 1. */
static inline tn_cuda_divisor tn_cuda_divisor_of(int64_t by) {
  tn_cuda_divisor d = {by, 0, 0, 0};
  if (by < 1) return d;
  while ((uint64_t)1 << d.shift < (uint64_t)by) ++d.shift;
  const uint64_t rest = ((uint64_t)1 << d.shift) - (uint64_t)by;
  const unsigned __int128 whole = (unsigned __int128)rest << 64;
  d.factor = (uint64_t)(whole / (uint64_t)by) + 1;
  if (d.shift < 32) d.small = (uint32_t)((rest << 32) / (uint64_t)by + 1);
  return d;
}

/* i / d.by for i >= 0. */
__device__ __forceinline__ int64_t tn_cuda_quotient(int64_t i,
                                                    const tn_cuda_divisor &d) {
  const uint64_t high = __umul64hi((uint64_t)i, d.factor);
  return (int64_t)((high + (uint64_t)i) >> d.shift);
}

/* The same for i and d.by below 2^31, in half of the time. */
__device__ __forceinline__ int32_t tn_cuda_quotient(int32_t i,
                                                    const tn_cuda_divisor &d) {
  const uint32_t high = __umulhi((uint32_t)i, d.small);
  return (int32_t)((high + (uint32_t)i) >> d.shift);
}

/* ------------------------------------------------------------------- loops */

/* Calls store(i, load(i)) for i = first, first + step, ... below `end`, AHEAD
 * loads before the first of their stores: so more loads overlap. The value
 * stored for one i must not be loaded for another. */
template <int AHEAD = 4, class Load, class Store>
__device__ __forceinline__ void tn_cuda_prefetch(int64_t first, int64_t end,
                                                 int64_t step, Load load,
                                                 Store store) {
  for (int64_t i = first; i < end; i += AHEAD * step) {
    decltype(load(i)) loaded[AHEAD] = {};
#pragma unroll
    for (int k = 0; k < AHEAD; ++k)
      if (i + k * step < end) loaded[k] = load(i + k * step);
#pragma unroll
    for (int k = 0; k < AHEAD; ++k)
      if (i + k * step < end) store(i + k * step, loaded[k]);
  }
}

/* The same for all i below n, by all threads of a launch. */
template <int AHEAD = 4, class Load, class Store>
__device__ __forceinline__ void tn_cuda_each(int64_t n, Load load,
                                             Store store) {
  tn_cuda_prefetch<AHEAD>((int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x,
                          n, (int64_t)gridDim.x * TN_CUDA_THREADS, load, store);
}

/* ------------------------------------------------------------------- lines */

/* The position of a thread that visits elements in lines at a constant
 * distance, by a few additions each. */
struct tn_cuda_walk {
  int64_t at;    /* in memory, in elements */
  int64_t place; /* in its line */
  int64_t inner; /* elements of a line */
  int64_t step;  /* added to `at` per step */
  int64_t along; /* and to `place` */
  int64_t over;  /* added to `at` at the end of a line */
  int left;      /* remaining elements of the thread */
};

/* Elements first, first + 2^bits, first + 2*2^bits, ... below `end`, where
 * element k of line o is at o*lines + k*elements. A thread has fewer than 2^31.
 */
__device__ __forceinline__ tn_cuda_walk
tn_cuda_walk_of(int64_t first, int64_t end, unsigned bits,
                const tn_cuda_divisor &inner, int64_t lines, int64_t elements) {
  const int64_t every = (int64_t)1 << bits;
  const int64_t line = tn_cuda_quotient(first, inner);
  const int64_t skipped = tn_cuda_quotient(every, inner);
  tn_cuda_walk walk;
  walk.place = first - line * inner.by;
  walk.at = line * lines + walk.place * elements;
  walk.inner = inner.by;
  walk.along = every - skipped * inner.by;
  walk.step = skipped * lines + walk.along * elements;
  walk.over = lines - inner.by * elements;
  walk.left = (int)((end - first + every - 1) >> bits); /* or less than 1 */
  return walk;
}

/* Like tn_cuda_prefetch, over the rest of a walk: store(at, load(at)); before
 * the first store there is a call of `between`, by all threads. */
template <int AHEAD, class Load, class Between, class Store>
__device__ __forceinline__ void tn_cuda_prefetch_along(tn_cuda_walk walk,
                                                       Load load,
                                                       Between between,
                                                       Store store) {
  bool is_first = true;
#pragma unroll 1
  do {
    decltype(load(walk.at)) loaded[AHEAD] = {};
    int64_t at[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
      at[k] = walk.at;
      if (k < walk.left) loaded[k] = load(walk.at);
      walk.at += walk.step;
      walk.place += walk.along;
      if (walk.place < walk.inner) continue;
      walk.at += walk.over;
      walk.place -= walk.inner;
    }
    if (is_first) between();
    is_first = false;
#pragma unroll
    for (int k = 0; k < AHEAD; ++k)
      if (k < walk.left) store(at[k], loaded[k]);
    walk.left -= AHEAD;
  } while (walk.left > 0);
}

template <int AHEAD, class Load, class Store>
__device__ __forceinline__ void tn_cuda_prefetch_along(const tn_cuda_walk &walk,
                                                       Load load, Store store) {
  tn_cuda_prefetch_along<AHEAD>(
      walk, load, [] {}, store);
}

#endif /* TENON_KERNEL_PREFETCH_CUH_ */
