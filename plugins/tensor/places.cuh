/* SPDX-License-Identifier: Apache-2.0
 * places.cuh: positions of places.h on CUDA devices.
 */
#ifndef TENSOR_PLACES_CUH_
#define TENSOR_PLACES_CUH_

#include "places.h"
#include "tensor.cuh"

/* An index from the start of its dimension; -1: it is out of range. */
__device__ __forceinline__ int64_t tensor_normal(int64_t index,
                                                 int64_t length) {
  if (index < 0) index += length;
  return index < length ? index : -1;
}

/* Position in whole of slice i, in elements; -1 if an index is out of range. */
__device__ __forceinline__ int64_t tensor_place_of(const tn_cuda_array &indices,
                                                   const tensor_places &p,
                                                   int64_t i) {
  int64_t at = 0;
  if (p.is_tuples) {
    if (p.per_batch < p.n) at = i / p.per_batch * p.next_batch;
    for (int k = 0; k < (int)p.depth; ++k) {
      const int64_t read =
          tn_cuda_read<int64_t>(indices, i * p.next_tuple + k * p.next_index);
      const int64_t index = tensor_normal(read, p.length[k]);
      if (index < 0) return -1;
      at += index * p.step[k];
    }
    return at;
  }
  const int64_t index =
      tensor_normal(tn_cuda_read<int64_t>(indices, i), p.length[p.axis]);
  if (index < 0) return -1;
  for (int d = (int)p.ndim - 1; d >= 0; --d) {
    const int64_t place = i % p.shape[d];
    i /= p.shape[d];
    at += (d == p.axis ? index : place) * p.step[d];
  }
  return at;
}

#endif /* TENSOR_PLACES_CUH_ */
