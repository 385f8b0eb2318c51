/* SPDX-License-Identifier: Apache-2.0
 * gather.cu: the operator of gather.yaml on CUDA devices. A thread moves one
 * element at a time. The gradient adds elements at their positions in a fixed
 * order (scatter.cuh).
 */
#include "gather.gen.h"
#include "move.h"
#include "tenon/kernel/scatter.cuh"
#include "tensor.cuh"

enum { DATA, INDICES, TAKEN, KEYS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_gathering;

/* Arguments of the CUDA kernels: the dimensions of indices and the steps of
 * data. */
struct tensor_gathered {
  int64_t n;
  int64_t ndim, axis;
  int64_t length;   /* of the axis */
  uint64_t none[2]; /* value for an index without a position */
  int64_t shape[TN_MAX_NDIM];
  int64_t step[TN_MAX_NDIM];
};

/* Position in data of element number i; -1 if its index is out of range. */
__device__ __forceinline__ int64_t tensor_gathers(const tensor_gathering &a,
                                                  const tensor_gathered &v,
                                                  int64_t i) {
  const int64_t read = tn_cuda_read<int64_t>(a.at[INDICES], i);
  const int64_t index = read < 0 ? read + v.length : read;
  if (index < 0 || index >= v.length) return -1;
  int64_t at = 0;
  for (int d = (int)v.ndim - 1; d >= 0; --d) {
    const int64_t place = i % v.shape[d];
    i /= v.shape[d];
    at += (d == v.axis ? index : place) * v.step[d];
  }
  return at;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_gather_each(tensor_gathering a, tensor_gathered v) {
  T none;
  memcpy(&none, v.none, sizeof none);
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    const int64_t from = tensor_gathers(a, v, i);
    ((T *)a.at[TAKEN].data)[i] =
        from < 0 ? none : ((const T *)a.at[DATA].data)[from];
  }
}

/* A key for each index. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_gather_keys(tensor_gathering a, tensor_gathered v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    tn_cuda_key *key = (tn_cuda_key *)a.at[KEYS].data + i;
    key->value = tensor_gathers(a, v, i);
    key->i = i;
  }
}

/* -------------------------------------------------------------------- host */

static int32_t gathered_of(const tn_frame *call, const tn_tensor *data,
                           const tn_tensor *indices, tensor_gathered *v) {
  int32_t axis;
  const int32_t code =
      tensor_axis(call, "axis", tensor_gather_elements_params_of(call)->axis,
                  data->ndim, &axis);
  int64_t step = 1;
  memset(v, 0, sizeof *v);
  if (code != TN_OK) return code;
  v->n = tn_tensor_size(indices);
  v->ndim = data->ndim;
  v->axis = axis;
  v->length = data->shape[axis];
  for (int32_t d = data->ndim; d-- > 0; step *= data->shape[d]) {
    v->shape[d] = indices->shape[d];
    v->step[d] = step;
  }
  if (v->n > 0 && v->length == 0)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "there are %lld indices, but axis %d of `data` has length 0",
                   (long long)v->n, (int)axis);
  return TN_OK;
}

int32_t tensor_gather_elements(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_GATHER_ELEMENTS_IN_DATA];
  const tn_tensor *indices = &call->in[TENSOR_GATHER_ELEMENTS_IN_INDICES];
  const int is_float = tensor_wide_dtype(data->dtype) == TN_F64;
  const tensor_element none =
      tensor_element_of(is_float ? (double)NAN : 0, data->dtype);
  const int64_t width = tn_dtype_bytes(data->dtype);
  tensor_gathered v;
  tensor_gathering a = {};
  const int32_t code = gathered_of(call, data, indices, &v);
  if (code != TN_OK || v.n == 0) return code;
  a.at[DATA] = tn_cuda_from(data);
  a.at[INDICES] = tn_cuda_from(indices);
  a.at[TAKEN] = tn_cuda_to(&call->out[0], call->req[0]);
  tensor_repeat(v.none, &none, width);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_width(width, [&](auto type) {
      return tn_cuda_start_each(call, tensor_gather_each<decltype(type)>, v.n,
                                stream, a, v);
    });
  });
}

int32_t tensor_gather_elements_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD)) return TN_OK;
  const tn_cuda_scatter places = tn_cuda_scatter_of(
      1, 0,
      tn_tensor_size(&call->in[TENSOR_GATHER_ELEMENTS_BACKWARD_IN_INDICES]), 1);
  *bytes = tn_cuda_scatter_bytes(&places);
  return TN_OK;
}

/* Writes a key of each index to the input of the sort. */
static int32_t write_keys(const tn_frame *call, const tensor_gathered &v,
                          cudaStream_t stream) {
  tensor_gathering a = {};
  a.at[INDICES] =
      tn_cuda_from(&call->in[TENSOR_GATHER_ELEMENTS_BACKWARD_IN_INDICES]);
  a.at[KEYS] = tn_cuda_key_array(call->ws[0], v.n);
  return tn_cuda_start_each(call, tensor_gather_keys, v.n, stream, a, v);
}

/* in = [gradient of out, data, indices, out] */
int32_t tensor_gather_elements_backward(const tn_frame *call) {
  const tn_tensor *data = &call->out[0];
  tensor_gathered v;
  tn_cuda_scatter_arrays a = {};
  int32_t code = TN_OK;
  if (call->req[1] != TN_REQ_NULL)
    code = tensor_fill_zeros(call, &call->out[1]);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  code = gathered_of(call, data,
                     &call->in[TENSOR_GATHER_ELEMENTS_BACKWARD_IN_INDICES], &v);
  if (code == TN_OK) code = tensor_fill_zeros(call, data);
  if (code != TN_OK || v.n == 0) return code;
  a.at[TN_CUDA_SCATTER_TO] = tn_cuda_to(data, TN_REQ_WRITE);
  a.at[TN_CUDA_SCATTER_SLICES] =
      tn_cuda_from(&call->in[TENSOR_GATHER_ELEMENTS_BACKWARD_GRAD_OUT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    const int32_t named = write_keys(call, v, stream);
    if (named != TN_OK) return named;
    const tn_cuda_scatter places =
        tn_cuda_scatter_of(1, tn_tensor_size(data), v.n, 1);
    return tn_cuda_by_sum(data->dtype, [&](auto type) {
      return tn_cuda_scatter_add<decltype(type)>(call, call->ws[0], places, a,
                                                 stream);
    });
  });
}
