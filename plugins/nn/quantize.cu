/* SPDX-License-Identifier: Apache-2.0
 * quantize.cu: quantize.yaml and integer_dot on CUDA devices: a thread for each
 * element.
 */
#include "integer_product.gen.h"
#include "quantize.gen.h"

#include "nn.cuh"

#define NN_QUANTIZE_ONE static __device__ __forceinline__
#include "quantize.h"

enum { TO, DATA, SCALE, ZERO, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_quantize_arrays;

/* Element i has the scale and zero point i / inner % length. */
struct nn_quantize_view {
  int64_t n, inner, length;
};

enum { QUANTIZE, DEQUANTIZE, REQUANTIZE };

template <int kind, class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_quantize_elements(nn_quantize_arrays a, nn_quantize_view v) {
  const tn_dtype dtype = a.at[TO].dtype;
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step()) {
    const int64_t at = i / v.inner % v.length;
    const C x = tn_cuda_read<C>(a.at[DATA], i);
    const C scale = tn_cuda_read<C>(a.at[SCALE], at);
    const double zero =
        a.at[ZERO].data != NULL ? tn_cuda_read<double>(a.at[ZERO], at) : 0;
    double result;
    if (kind == DEQUANTIZE)
      result = (tn_cuda_read<double>(a.at[DATA], i) - zero) *
               tn_cuda_read<double>(a.at[SCALE], at);
    else
      result = nn_quantize_cut(
          (double)rint(kind == QUANTIZE ? x / scale : x * scale), zero,
          nn_quantize_least(dtype), nn_quantize_most(dtype));
    tn_cuda_write(a.at[TO], i, result);
  }
}

/* The geometry of a call; inference has checked the axis. */
static nn_quantize_view make_view(const tn_tensor *data, int has_axis,
                                  int64_t axis) {
  const int64_t n = tn_tensor_size(data);
  if (!has_axis) return {n, n, 1};
  const int32_t dim = (int32_t)(axis < 0 ? axis + data->ndim : axis);
  const nn_lines lines = nn_find_lines(data, dim, dim);
  return {n, lines.inner, lines.length};
}

template <int kind>
static int32_t start(const tn_frame *call, int has_axis, int64_t axis) {
  const nn_quantize_view v = make_view(&call->in[0], has_axis, axis);
  nn_quantize_arrays a = {};
  if (v.n == 0) return TN_OK;
  a.at[TO] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
  a.at[DATA] = tn_cuda_from(&call->in[0]);
  a.at[SCALE] = tn_cuda_from(&call->in[1]);
  if (call->n_in > 2 && call->in[2].data != NULL)
    a.at[ZERO] = tn_cuda_from(&call->in[2]);
  const bool wide = kind != QUANTIZE || call->in[0].dtype == TN_F64;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return wide ? tn_cuda_start_each(call, nn_quantize_elements<kind, double>,
                                     v.n, stream, a, v)
                : tn_cuda_start_each(call, nn_quantize_elements<kind, float>,
                                     v.n, stream, a, v);
  });
}

extern "C" int32_t nn_quantize_cuda(const tn_frame *call) {
  const nn_quantize_params *p = nn_quantize_params_of(call);
  return start<QUANTIZE>(call, p->has_axis, p->axis);
}

extern "C" int32_t nn_dequantize_cuda(const tn_frame *call) {
  const nn_dequantize_params *p = nn_dequantize_params_of(call);
  return start<DEQUANTIZE>(call, p->has_axis, p->axis);
}

extern "C" int32_t nn_requantize_cuda(const tn_frame *call) {
  const nn_requantize_params *p = nn_requantize_params_of(call);
  return start<REQUANTIZE>(call, p->has_axis, p->axis);
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
