/* SPDX-License-Identifier: Apache-2.0
 * index.cu: the operators of index.yaml on CUDA devices. Arrays are dense;
 * around an axis they have the form (outer, axis, inner). The gradient of take
 * adds up slices at the positions of the indices (scatter.cuh).
 */
#include "index.gen.h"
#include "move.h"
#include "tenon/kernel/scatter.cuh"
#include "tensor.cuh"

/* ----------------------------------------------------------------- indices */

enum { DATA, INDICES, SLICES, KEYS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_taking;

/* Arguments of a CUDA kernel. */
struct tensor_taken {
  int64_t outer, length, n, inner; /* n indices; inner: units of a row */
  uint64_t none[2];                /* value for an index without a position */
  int32_t mode;
  int32_t is_whole; /* indices are integers */
};

/* A float without its fraction; NaN is `nan`. */
__device__ __forceinline__ int64_t tensor_whole(double value, int64_t nan) {
  const double most = 4611686018427387904.0; /* 2^62 */
  if (value != value) return nan;
  if (value > most) return (int64_t)most;
  return value < -most ? -(int64_t)most : (int64_t)value;
}

__device__ __forceinline__ int64_t tensor_index(const tn_cuda_array &indices,
                                                int64_t i, int is_whole,
                                                int64_t nan) {
  if (is_whole) return tn_cuda_read<int64_t>(indices, i);
  return tensor_whole(tn_cuda_read<double>(indices, i), nan);
}

/* The position that index number i selects; -1: none, under raise. */
__device__ __forceinline__ int64_t tensor_place(const tensor_taking &a,
                                                const tensor_taken &v,
                                                int64_t i) {
  const bool raises = v.mode == TENSOR_TAKE_MODE_RAISE;
  const int64_t index =
      tensor_index(a.at[INDICES], i, v.is_whole, raises ? -1 : 0);
  if (index >= 0 && index < v.length) return index;
  if (raises) return -1;
  if (v.mode == TENSOR_TAKE_MODE_CLIP) return index < 0 ? 0 : v.length - 1;
  const int64_t rest = index % v.length;
  return rest < 0 ? rest + v.length : rest;
}

/* ----------------------------------------------------------------- kernels */

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_take_each(tensor_taking a, tensor_taken v) {
  const int64_t size = v.outer * v.n * v.inner;
  T none;
  memcpy(&none, v.none, sizeof none);
  for (int64_t i = tensor_first<int64_t>(); i < size;
       i += tensor_stride<int64_t>()) {
    const int64_t row = i / v.inner, column = i - row * v.inner;
    const int64_t place = tensor_place(a, v, row % v.n);
    const int64_t from = (row / v.n * v.length + place) * v.inner + column;
    ((T *)a.at[SLICES].data)[i] =
        place < 0 ? none : ((const T *)a.at[DATA].data)[from];
  }
}

/* A key for each index. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_take_keys(tensor_taking a, tensor_taken v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    tn_cuda_key *key = (tn_cuda_key *)a.at[KEYS].data + i;
    key->value = tensor_place(a, v, i);
    key->i = i;
  }
}

/* Rows that are on at one position. */
struct tensor_heating {
  int64_t n, depth;
  uint64_t on[2], off[2];
  int64_t is_whole;
};

enum { OUT, HOT, N_ONE_HOT };

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_heat(tn_cuda_arrays<N_ONE_HOT> a, tensor_heating v) {
  T on, off;
  memcpy(&on, v.on, sizeof on);
  memcpy(&off, v.off, sizeof off);
  for (int64_t i = tensor_first<int64_t>(); i < v.n * v.depth;
       i += tensor_stride<int64_t>()) {
    const int64_t row = i / v.depth;
    const int64_t index = tensor_index(a.at[HOT], row, (int)v.is_whole, -1);
    ((T *)a.at[OUT].data)[i] = index == i - row * v.depth ? on : off;
  }
}

/* -------------------------------------------------------------------- host */

static int32_t taken_of(const tn_frame *call, const tn_tensor *data,
                        const tn_tensor *indices, tensor_taken *v) {
  const tensor_take_params *p = tensor_take_params_of(call);
  int32_t axis;
  const int32_t code = tensor_axis(call, "axis", p->axis, data->ndim, &axis);
  if (code != TN_OK) return code;
  memset(v, 0, sizeof *v);
  v->mode = p->mode;
  v->is_whole = tensor_wide_dtype(indices->dtype) == TN_I64;
  v->outer = v->inner = 1;
  for (int32_t d = 0; d < axis; ++d) v->outer *= data->shape[d];
  for (int32_t d = axis + 1; d < data->ndim; ++d) v->inner *= data->shape[d];
  v->length = data->shape[axis];
  v->n = tn_tensor_size(indices);
  if (v->n > 0 && v->length == 0)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "there are %lld indices, but no place that one could stand "
                   "for: the axis of `data` has length 0",
                   (long long)v->n);
  return TN_OK;
}

/* Combines elements of a row into units of up to 16 bytes; returns their
 * size. */
static int64_t widen(tensor_taken *v, const tensor_taking &a, int64_t width) {
  const uint64_t both =
      (uint64_t)(uintptr_t)a.at[DATA].data | (uintptr_t)a.at[SLICES].data;
  while (width < 16 && v->inner % 2 == 0 && both % (uint64_t)(2 * width) == 0) {
    v->inner /= 2;
    width *= 2;
  }
  return width;
}

int32_t tensor_take(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_TAKE_IN_DATA];
  const tn_tensor *indices = &call->in[TENSOR_TAKE_IN_INDICES];
  const int is_float = tensor_wide_dtype(data->dtype) == TN_F64;
  const tensor_element none =
      tensor_element_of(is_float ? (double)NAN : 0, data->dtype);
  tensor_taken v;
  tensor_taking a = {};
  const int32_t code = taken_of(call, data, indices, &v);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  a.at[DATA] = tn_cuda_from(data);
  a.at[INDICES] = tn_cuda_from(indices);
  a.at[SLICES] = tn_cuda_to(&call->out[0], call->req[0]);
  tensor_repeat(v.none, &none, tn_dtype_bytes(data->dtype));
  const int64_t width = widen(&v, a, tn_dtype_bytes(data->dtype));
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_unit(width, [&](auto type) {
      return tn_cuda_start_each(call, tensor_take_each<decltype(type)>,
                                v.outer * v.n * v.inner, stream, a, v);
    });
  });
}

/* The number of columns decides the division of sums. */
int32_t tensor_take_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD)) return TN_OK;
  const int64_t n = tn_tensor_size(&call->in[TENSOR_TAKE_BACKWARD_IN_INDICES]);
  const int64_t size = tn_tensor_size(&call->in[TENSOR_TAKE_BACKWARD_GRAD_OUT]);
  const tn_cuda_scatter places =
      tn_cuda_scatter_of(1, 0, n, n > 0 ? size / n : 0);
  *bytes = tn_cuda_scatter_bytes(&places);
  return TN_OK;
}

/* Writes a key of each index to the input of the sort. */
static int32_t name_places(const tn_frame *call, const tensor_taken &v,
                           cudaStream_t stream) {
  tensor_taking a = {};
  a.at[INDICES] = tn_cuda_from(&call->in[TENSOR_TAKE_BACKWARD_IN_INDICES]);
  a.at[KEYS] = tn_cuda_key_array(call->ws[0], v.n);
  return tn_cuda_start_each(call, tensor_take_keys, v.n, stream, a, v);
}

/* in = [gradient of out, data, indices, out] */
int32_t tensor_take_backward(const tn_frame *call) {
  const tn_tensor *data = &call->out[0];
  const tn_tensor *indices = &call->in[TENSOR_TAKE_BACKWARD_IN_INDICES];
  const tn_tensor *slices = &call->in[TENSOR_TAKE_BACKWARD_GRAD_OUT];
  tensor_taken v;
  tn_cuda_scatter_arrays a = {};
  int32_t code = TN_OK;
  if (call->req[1] != TN_REQ_NULL)
    code = tensor_fill_zeros(call, &call->out[1]);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  code = taken_of(call, data, indices, &v);
  if (code == TN_OK) code = tensor_fill_zeros(call, data);
  if (code != TN_OK || tn_tensor_size(slices) == 0) return code;
  a.at[TN_CUDA_SCATTER_TO] = tn_cuda_to(data, TN_REQ_WRITE);
  a.at[TN_CUDA_SCATTER_SLICES] = tn_cuda_from(slices);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    const int32_t named = name_places(call, v, stream);
    if (named != TN_OK) return named;
    const tn_cuda_scatter places =
        tn_cuda_scatter_of(v.outer, v.length, v.n, v.inner);
    return tn_cuda_by_sum(data->dtype, [&](auto type) {
      return tn_cuda_scatter_add<decltype(type)>(call, call->ws[0], places, a,
                                                 stream);
    });
  });
}

int32_t tensor_one_hot(const tn_frame *call) {
  const tensor_one_hot_params *p = tensor_one_hot_params_of(call);
  const tn_tensor *out = &call->out[0], *indices = &call->in[0];
  const int64_t width = tn_dtype_bytes(out->dtype);
  const tensor_element on = tensor_element_of(p->on_value, out->dtype);
  const tensor_element off = tensor_element_of(p->off_value, out->dtype);
  tensor_heating v = {tn_tensor_size(indices),
                      p->depth,
                      {0, 0},
                      {0, 0},
                      tensor_wide_dtype(indices->dtype) == TN_I64};
  tn_cuda_arrays<N_ONE_HOT> a;
  tensor_repeat(v.on, &on, width);
  tensor_repeat(v.off, &off, width);
  a.at[OUT] = tn_cuda_to(out, call->req[0]);
  a.at[HOT] = tn_cuda_from(indices);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_unit(width, [&](auto type) {
      return tn_cuda_start_each(call, tensor_heat<decltype(type)>,
                                v.n * v.depth, stream, a, v);
    });
  });
}
