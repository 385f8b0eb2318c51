/* SPDX-License-Identifier: Apache-2.0
 * scatter_keys.cuh: the places of a tensor_scatter as sorted keys, on CUDA
 * devices (tenon/kernel/scatter.cuh). A key for each slice has its place, which
 * is counted in slices: -1 if an index is out of range.
 */
#ifndef TENSOR_SCATTER_KEYS_CUH_
#define TENSOR_SCATTER_KEYS_CUH_

#include "scatter.h"
#include "tenon/kernel/scatter.cuh"

/* Writes the keys to the room of `s`, for a sort. [worker] */
int32_t tensor_write_keys(const tensor_scatter *s, cudaStream_t stream);

/* Writes and sorts the keys; *sorted becomes their array. [worker] */
int32_t tensor_sort_keys(const tensor_scatter *s, cudaStream_t stream,
                         tn_cuda_array *sorted);

#endif /* TENSOR_SCATTER_KEYS_CUH_ */
