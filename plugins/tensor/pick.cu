/* SPDX-License-Identifier: Apache-2.0
 * pick.cu: selects one element of every line by its position, on CUDA devices.
 * Each thread computes one output element. A thread of the gradient checks
 * whether its element was picked.
 */
#include "arg.gen.h"
#include "move.h"
#include "reduce.h"
#include "tensor.cuh"

enum { DATA, INDEX, PICKED, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_picking;

/* Lines of data: `inner` of them side by side, `length` elements each. */
struct tensor_places {
  int64_t n; /* number of elements that are picked */
  int64_t inner;
  int64_t length;
  int64_t is_whole; /* places are integers */
};

/* The position that a line picks: the nearest valid one. */
__device__ __forceinline__ int64_t tensor_picks(const tensor_picking &a,
                                                const tensor_places &v,
                                                int64_t line) {
  const int64_t last = v.length - 1;
  if (v.is_whole) {
    const int64_t k = tn_cuda_read<int64_t>(a.at[INDEX], line);
    return k < 0 ? 0 : k < last ? k : last;
  }
  const double k = tn_cuda_read<double>(a.at[INDEX], line);
  if (!(k > 0)) return 0;
  return k < (double)last ? (int64_t)k : last;
}

template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_pick_each(tensor_picking a, tensor_places v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    const int64_t row = i / v.inner * v.length + tensor_picks(a, v, i);
    const int64_t at = row * v.inner + i % v.inner;
    tn_cuda_write(a.at[PICKED], i, tn_cuda_read<C>(a.at[DATA], at));
  }
}

/* DATA is the gradient, PICKED the gradient of the picked elements. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_pick_slopes(tensor_picking a, tensor_places v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    const int64_t row = i / v.inner;
    const int64_t line = row / v.length * v.inner + i % v.inner;
    const bool is_hit = tensor_picks(a, v, line) == row % v.length;
    if (is_hit)
      tn_cuda_write(a.at[DATA], i, tn_cuda_read<C>(a.at[PICKED], line));
    else if (!a.at[DATA].adds)
      tn_cuda_write(a.at[DATA], i, (C)0);
  }
}

static int32_t places_of(const tn_frame *call, const tn_tensor *data,
                         const tn_tensor *index, tensor_places *v) {
  uint32_t axes;
  const int32_t code = reduce_read_axis(
      call, &tensor_pick_params_of(call)->axis, data->ndim, &axes);
  if (code != TN_OK) return code;
  v->inner = 1;
  v->is_whole = tensor_wide_dtype(index->dtype) == TN_I64;
  for (int32_t i = data->ndim; i-- > 0 && !(axes >> i & 1);)
    v->inner *= data->shape[i];
  for (int32_t i = 0; i < data->ndim; ++i)
    if (axes >> i & 1) v->length = data->shape[i];
  return TN_OK;
}

int32_t tensor_pick(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_PICK_IN_DATA];
  const tn_tensor *index = &call->in[TENSOR_PICK_IN_INDEX];
  tensor_places v = {tn_tensor_size(&call->out[0]), 1, 1, 0};
  tensor_picking a;
  const int32_t code = places_of(call, data, index, &v);
  if (code != TN_OK || v.n == 0) return code;
  a.at[DATA] = tn_cuda_from(data);
  a.at[INDEX] = tn_cuda_from(index);
  a.at[PICKED] = tn_cuda_to(&call->out[0], call->req[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_wide(data->dtype, [&](auto type) {
      return tn_cuda_start_each(call, tensor_pick_each<decltype(type)>, v.n,
                                stream, a, v);
    });
  });
}

int32_t tensor_pick_backward(const tn_frame *call) {
  const tn_tensor *data_gradient = &call->out[0];
  const tn_tensor *index = &call->in[TENSOR_PICK_BACKWARD_IN_INDEX];
  tensor_places v = {tn_tensor_size(data_gradient), 1, 1, 0};
  tensor_picking a;
  const int32_t code = places_of(call, data_gradient, index, &v);
  if (code != TN_OK || v.n == 0 || call->req[0] == TN_REQ_NULL) return code;
  a.at[DATA] = tn_cuda_to(data_gradient, call->req[0]);
  a.at[INDEX] = tn_cuda_from(index);
  a.at[PICKED] = tn_cuda_from(&call->in[TENSOR_PICK_BACKWARD_GRAD_OUT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_wide(data_gradient->dtype, [&](auto type) {
      return tn_cuda_start_each(call, tensor_pick_slopes<decltype(type)>, v.n,
                                stream, a, v);
    });
  });
}
