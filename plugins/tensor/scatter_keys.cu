/* SPDX-License-Identifier: Apache-2.0
 * scatter_keys.cu: scatter_keys.cuh.
 */
#include "scatter_keys.cuh"

#include "places.cuh"

enum { INDICES, KEYS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_scatter_places;

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_scatter_keys(tensor_scatter_places a, tensor_places p) {
  for (int64_t i = tensor_first<int64_t>(); i < p.n;
       i += tensor_stride<int64_t>()) {
    tn_cuda_key *key = (tn_cuda_key *)a.at[KEYS].data + i;
    const int64_t at = tensor_place_of(a.at[INDICES], p, i);
    key->value = at < 0 ? -1 : at / p.inner;
    key->i = i;
  }
}

int32_t tensor_write_keys(const tensor_scatter *s, cudaStream_t stream) {
  tensor_scatter_places a = {};
  a.at[INDICES] = tn_cuda_from(s->indices);
  a.at[KEYS] = tn_cuda_key_array(s->room, s->places.n);
  return tn_cuda_start_each(s->call, tensor_scatter_keys, s->places.n, stream,
                            a, s->places);
}

int32_t tensor_sort_keys(const tensor_scatter *s, cudaStream_t stream,
                         tn_cuda_array *sorted) {
  const int32_t code = tensor_write_keys(s, stream);
  return code == TN_OK
             ? tn_cuda_sort(s->call, s->room, s->places.n, stream, sorted)
             : code;
}
