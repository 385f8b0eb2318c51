/* SPDX-License-Identifier: Apache-2.0
 * cast.cu: calls of cast (other.yaml) from or to a storage type on CUDA
 * devices: a thread for each byte of a packed output, for each element of
 * another.
 */
#include "cast.h"

#include "tenon/kernel/elementwise.cuh"

extern "C" int32_t elemwise_cast_cuda_has_storage(const tn_frame *call) {
  return cast_check_storage(call);
}

enum { CAST_TO, CAST_FROM, CAST_N_ARRAYS };
typedef tn_cuda_arrays<CAST_N_ARRAYS> cast_arrays;

/* The elements of a call in the order of its walk, which is the order in memory
 * of a packed operand. */
struct cast_view {
  int64_t n;
  int ndim;
  int64_t shape[TN_MAX_NDIM];
  int64_t stride[CAST_N_ARRAYS][TN_MAX_NDIM];
  tn_storage_rule rule;
};

/* The index in memory of element `i` of an operand. */
__device__ __forceinline__ int64_t cast_find(const cast_view &v, int k,
                                             int64_t i) {
  int64_t at = 0;
  for (int d = v.ndim - 1; d >= 0; --d) {
    at += (d > 0 ? i % v.shape[d] : i) * v.stride[k][d];
    i /= v.shape[d];
  }
  return at;
}

/* Element `i` as a number of type C, and an element of that number. */
template <class C>
__device__ __forceinline__ C cast_read(const tn_cuda_array &from, int64_t i) {
  if (tn_storage_has(from.dtype))
    return (C)tn_storage_read(from.data, from.dtype, i);
  return tn_cuda_read<C>(from, i);
}

template <>
__device__ __forceinline__ double cast_read<double>(const tn_cuda_array &from,
                                                    int64_t i) {
  if (tn_storage_has(from.dtype))
    return (double)tn_storage_read(from.data, from.dtype, i);
  if (from.dtype == TN_I64 || from.dtype == TN_U64)
    return cast_widen((const int64_t *)from.data + i, from.dtype);
  return tn_cuda_read<double>(from, i);
}

template <class C>
__device__ __forceinline__ void cast_write(const tn_cuda_array &to, int64_t i,
                                           C x) {
  tn_cuda_write(to, i, x);
}

__device__ __forceinline__ void cast_write(const tn_cuda_array &to, int64_t i,
                                           double x) {
  if (to.dtype == TN_U64)
    ((uint64_t *)to.data)[i] = cast_narrow_u64(x);
  else
    tn_cuda_write(to, i, x);
}

__device__ __forceinline__ uint32_t cast_encode(float x,
                                                const tn_storage_rule &rule) {
  return tn_storage_encode_f32(x, &rule);
}

__device__ __forceinline__ uint32_t cast_encode(double x,
                                                const tn_storage_rule &rule) {
  return tn_storage_encode(x, &rule);
}

__device__ __forceinline__ uint32_t cast_encode(int64_t x,
                                                const tn_storage_rule &rule) {
  return tn_storage_wrap(x, rule.dtype);
}

/* To elements of a type that is not a storage type. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    cast_from_storage(cast_arrays a, cast_view v) {
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.n; i += step)
    cast_write(a.at[CAST_TO], cast_find(v, CAST_TO, i),
               cast_read<C>(a.at[CAST_FROM], cast_find(v, CAST_FROM, i)));
}

/* To bytes, each with one or more elements of a storage type. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    cast_to_storage(cast_arrays a, cast_view v) {
  const int64_t per_byte = tn_storage_per_byte(v.rule.dtype);
  const int64_t bytes = (v.n + per_byte - 1) / per_byte;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t k = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; k < bytes; k += step) {
    uint32_t byte = 0;
    for (int64_t i = k * per_byte; i < (k + 1) * per_byte && i < v.n; ++i) {
      const C x = cast_read<C>(a.at[CAST_FROM], cast_find(v, CAST_FROM, i));
      byte |= cast_encode(x, v.rule) << (i % per_byte * (8 / per_byte));
    }
    const int64_t at = per_byte > 1 ? k : cast_find(v, CAST_TO, k);
    ((uint8_t *)a.at[CAST_TO].data)[at] = (uint8_t)byte;
  }
}

/* The geometry of a call: an operand that is packed decides the order. */
static bool cast_find_view(const tn_frame *call, cast_view *v) {
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  const int from =
      !tn_dtype_is_packed(data->dtype) || tn_dtype_is_packed(out->dtype);
  tn_kernel_walk walk;
  tn_kernel_walk_init(&walk, from == 0 ? data : out);
  if (!tn_kernel_walk_add(&walk, from == 0 ? out : data)) return false;
  tn_kernel_walk_begin(&walk);
  memset(v, 0, sizeof *v);
  v->n = walk.size;
  v->ndim = walk.ndim;
  v->rule = cast_rule(call);
  memcpy(v->shape, walk.shape, sizeof v->shape);
  memcpy(v->stride[CAST_TO], walk.stride[1 - from], sizeof v->shape);
  memcpy(v->stride[CAST_FROM], walk.stride[from], sizeof v->shape);
  return true;
}

template <class C>
static int32_t cast_start(const tn_frame *call, cudaStream_t stream,
                          const cast_arrays &a, const cast_view &v) {
  if (!tn_storage_has(v.rule.dtype))
    return tn_cuda_start_each(call, cast_from_storage<C>, v.n, stream, a, v);
  return tn_cuda_start_each(call, cast_to_storage<C>,
                            tn_dtype_bytes_of(v.rule.dtype, v.n), stream, a, v);
}

extern "C" int32_t elemwise_cast_storage_cuda(const tn_frame *call) {
  const tn_dtype numbers = cast_numbers(call->in[0].dtype, call->out[0].dtype);
  cast_view v;
  cast_arrays a = {};
  if (tn_tensor_size(&call->out[0]) == 0) return TN_OK;
  if (!cast_find_view(call, &v))
    return TN_FAIL(call, TN_SHAPE, "input and output differ in shape");
  a.at[CAST_TO] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
  a.at[CAST_FROM] = tn_cuda_from(&call->in[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    if (numbers == TN_I64) return cast_start<int64_t>(call, stream, a, v);
    return numbers == TN_F32 ? cast_start<float>(call, stream, a, v)
                             : cast_start<double>(call, stream, a, v);
  });
}
