/* SPDX-License-Identifier: Apache-2.0
 * triangle.cu: triangle.h on CUDA devices. A thread moves one element.
 */
#include "triangle.h"

#include "tensor.cuh"

enum { TO, FROM, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_sides;

/* Arguments of the CUDA kernel; `one` is used if FROM has no data. */
struct tensor_side {
  tensor_triangle side;
  int64_t size;
  uint64_t one[2];
};

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_triangle_each(tensor_sides a, tensor_side v) {
  T one, zero;
  const uint64_t none[2] = {0, 0};
  memcpy(&one, v.one, sizeof one);
  memcpy(&zero, none, sizeof zero);
  const T *from = (const T *)a.at[FROM].data;
  for (int64_t i = tensor_first<int64_t>(); i < v.size;
       i += tensor_stride<int64_t>()) {
    const int64_t row = i / v.side.columns;
    const int64_t right = i - row * v.side.columns - row % v.side.rows;
    const bool kept = v.side.upper ? right >= v.side.k : right <= v.side.k;
    T value = zero;
    if (kept) value = from != NULL ? from[i] : one;
    ((T *)a.at[TO].data)[i] = value;
  }
}

int32_t tensor_copy_triangle(const tn_frame *call, const tensor_triangle *side,
                             const tn_tensor *to, const tn_tensor *from,
                             const void *one) {
  const int64_t bytes = tn_dtype_bytes(to->dtype);
  tensor_side v = {*side, tn_tensor_size(to), {0, 0}};
  tensor_sides a = {};
  if (v.size == 0) return TN_OK;
  a.at[TO] = tn_cuda_to(to, TN_REQ_WRITE);
  if (from != NULL)
    a.at[FROM] = tn_cuda_from(from);
  else
    tensor_repeat(v.one, one, bytes);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_width(bytes, [&](auto type) {
      return tn_cuda_start_each(call, tensor_triangle_each<decltype(type)>,
                                v.size, stream, a, v);
    });
  });
}
