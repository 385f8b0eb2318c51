/* SPDX-License-Identifier: Apache-2.0
 * quantize.cu: quantize.yaml and integer_dot on CUDA devices: a thread for each
 * element, or for each byte of packed ones.
 */
#include "integer_product.gen.h"
#include "quantize.gen.h"

#include "nn.cuh"
#include "quantize.h"

enum { TO, DATA, SCALE, ZERO, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_quantize_arrays;

/* The arguments of a call besides its arrays. */
struct nn_quantize_task {
  int64_t n;
  nn_quantize_view view;
  tn_storage_rule rule; /* of an output of a storage type */
};

enum { QUANTIZE, DEQUANTIZE, REQUANTIZE };

template <class C>
__device__ __forceinline__ C nn_read_number(const tn_cuda_array &from,
                                            int64_t i) {
  return tn_storage_has(from.dtype)
             ? (C)tn_storage_read(from.data, from.dtype, i)
             : tn_cuda_read<C>(from, i);
}

/* The number of the output's element i, before it is rounded to a float. C is
 * the type of a quotient. */
template <int kind, class C>
__device__ __forceinline__ double nn_scale_number(const nn_quantize_arrays &a,
                                                  const nn_quantize_view &v,
                                                  int64_t i) {
  const tn_dtype dtype = a.at[TO].dtype;
  const int64_t at = nn_quantize_scale_at(&v, i);
  const C x = nn_read_number<C>(a.at[DATA], i);
  const C scale = nn_read_number<C>(a.at[SCALE], at);
  const bool has_zero = a.at[ZERO].data != NULL;
  const double zero = has_zero ? nn_read_number<double>(a.at[ZERO], at) : 0;
  if (kind == DEQUANTIZE) return ((double)x - zero) * (double)scale;
  const C scaled = kind == QUANTIZE ? x / scale : x * scale;
  if (!nn_quantize_is_integer(dtype))
    return has_zero ? (double)(C)(scaled + (C)zero) : (double)scaled;
  return nn_quantize_cut((double)rint(scaled), zero, nn_quantize_least(dtype),
                         nn_quantize_most(dtype));
}

template <int kind, class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_quantize_elements(nn_quantize_arrays a, nn_quantize_task t) {
  for (int64_t i = nn_first_index(); i < t.n; i += nn_index_step())
    tn_cuda_write(a.at[TO], i, nn_scale_number<kind, C>(a, t.view, i));
}

/* Bytes of a storage type, each with one or more elements. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_quantize_bytes(nn_quantize_arrays a, nn_quantize_task t) {
  const int64_t per_byte = tn_storage_per_byte(t.rule.dtype);
  const int64_t bytes = (t.n + per_byte - 1) / per_byte;
  for (int64_t k = nn_first_index(); k < bytes; k += nn_index_step()) {
    uint32_t byte = 0;
    for (int64_t i = k * per_byte; i < (k + 1) * per_byte && i < t.n; ++i) {
      const double x = nn_scale_number<QUANTIZE, C>(a, t.view, i);
      byte |= tn_storage_encode(x, &t.rule) << (i % per_byte * (8 / per_byte));
    }
    ((uint8_t *)a.at[TO].data)[k] = (uint8_t)byte;
  }
}

static nn_quantize_arrays nn_find_quantize_arrays(const tn_frame *call) {
  nn_quantize_arrays a = {};
  a.at[TO] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
  a.at[DATA] = tn_cuda_from(&call->in[0]);
  a.at[SCALE] = tn_cuda_from(&call->in[1]);
  if (call->n_in > 2 && call->in[2].data != NULL)
    a.at[ZERO] = tn_cuda_from(&call->in[2]);
  return a;
}

template <int kind, class C>
static int32_t nn_start_quantize(const tn_frame *call,
                                 const nn_quantize_task &t) {
  const nn_quantize_arrays a = nn_find_quantize_arrays(call);
  if (t.n == 0) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    if (tn_storage_has(call->out[0].dtype))
      return tn_cuda_start_each(call, nn_quantize_bytes<C>,
                                tn_dtype_bytes_of(t.rule.dtype, t.n), stream, a,
                                t);
    return tn_cuda_start_each(call, nn_quantize_elements<kind, C>, t.n, stream,
                              a, t);
  });
}

extern "C" int32_t nn_quantize_cuda(const tn_frame *call) {
  const nn_quantize_params *p = nn_quantize_params_of(call);
  const tn_tensor *data = &call->in[0];
  const nn_quantize_task t = {
      tn_tensor_size(data),
      nn_quantize_find_view(data, p->has_axis, p->axis, p->block_size),
      {call->out[0].dtype, p->saturate, TN_STORAGE_UP}};
  return data->dtype == TN_F64 ? nn_start_quantize<QUANTIZE, double>(call, t)
                               : nn_start_quantize<QUANTIZE, float>(call, t);
}

extern "C" int32_t nn_dequantize_cuda(const tn_frame *call) {
  const nn_dequantize_params *p = nn_dequantize_params_of(call);
  const tn_tensor *data = &call->in[0];
  const nn_quantize_task t = {
      tn_tensor_size(data),
      nn_quantize_find_view(data, p->has_axis, p->axis, p->block_size),
      {}};
  return nn_start_quantize<DEQUANTIZE, double>(call, t);
}

extern "C" int32_t nn_requantize_cuda(const tn_frame *call) {
  const nn_requantize_params *p = nn_requantize_params_of(call);
  const tn_tensor *data = &call->in[0];
  const nn_quantize_task t = {
      tn_tensor_size(data),
      nn_quantize_find_view(data, p->has_axis, p->axis, 0),
      {}};
  return nn_start_quantize<REQUANTIZE, double>(call, t);
}

/* --------------------------------------------------------------------- dot */

enum { PRODUCT, LHS, RHS, LHS_ZERO, RHS_ZERO, N_PRODUCT_ARRAYS };
typedef tn_cuda_arrays<N_PRODUCT_ARRAYS> nn_integer_arrays;

struct nn_integer_view {
  int64_t size, m, k, n;
};

__device__ __forceinline__ int32_t nn_read_small(const tn_cuda_array &a,
                                                 int64_t i) {
  return a.dtype == TN_I8 ? ((const int8_t *)a.data)[i]
                          : ((const uint8_t *)a.data)[i];
}

__device__ __forceinline__ int32_t nn_read_zero(const tn_cuda_array &a) {
  return a.data != NULL ? nn_read_small(a, 0) : 0;
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_integer_products(nn_integer_arrays a, nn_integer_view v) {
  const int32_t lhs_zero = nn_read_zero(a.at[LHS_ZERO]);
  const int32_t rhs_zero = nn_read_zero(a.at[RHS_ZERO]);
  uint32_t *out = (uint32_t *)a.at[PRODUCT].data;
  for (int64_t i = nn_first_index(); i < v.size; i += nn_index_step()) {
    const int64_t row = i / v.n, column = i % v.n;
    const int64_t matrix = row / v.m * v.k;
    uint32_t sum = 0;
    for (int64_t k = 0; k < v.k; ++k)
      sum += (uint32_t)((nn_read_small(a.at[LHS], row * v.k + k) - lhs_zero) *
                        (nn_read_small(a.at[RHS], (matrix + k) * v.n + column) -
                         rhs_zero));
    out[i] = sum;
  }
}

extern "C" int32_t nn_integer_dot_cuda(const tn_frame *call) {
  const tn_tensor *lhs = &call->in[NN_INTEGER_DOT_IN_LHS];
  const tn_tensor *out = &call->out[NN_INTEGER_DOT_OUT_OUT];
  const nn_integer_view v = {tn_tensor_size(out), out->shape[out->ndim - 2],
                             lhs->shape[lhs->ndim - 1],
                             out->shape[out->ndim - 1]};
  nn_integer_arrays a = {};
  if (v.size == 0) return TN_OK;
  a.at[PRODUCT] = tn_cuda_to(out, TN_REQ_WRITE);
  a.at[LHS] = tn_cuda_from(lhs);
  a.at[RHS] = tn_cuda_from(&call->in[NN_INTEGER_DOT_IN_RHS]);
  for (uint32_t i = 2; i < call->n_in; ++i)
    if (call->in[i].data != NULL)
      a.at[LHS_ZERO + i - 2] = tn_cuda_from(&call->in[i]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, nn_integer_products, v.size, stream, a, v);
  });
}
