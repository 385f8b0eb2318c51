/* SPDX-License-Identifier: Apache-2.0
 * l2_normalization.cu: l2_normalization.yaml on CUDA devices. A line has the
 * elements of one sum, and is processed by a part of a block.
 */
#include "l2_normalization.gen.h"

#include "nn.cuh"
#include "second.h"

/* Indices of the arrays that CUDA kernels get. FROM is the data, backward the
 * output gradient. Y is the result of the forward call. */
enum { TO, FROM, Y, NORM, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_l2_arrays;

struct nn_l2_view {
  nn_lines lines;
  double eps;
};

/* Writes TO and NORM; either may have no data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_l2_normalize_lines(nn_l2_arrays a, nn_l2_view v) {
  typedef nn_compute_type<T> C;
  __shared__ double part[TN_CUDA_THREADS];
  const int64_t inner = v.lines.inner;
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    C squares = 0;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const C x = nn_load_element<T>(a.at[FROM], line.at + k * inner);
      squares += x * x;
    }
    const C norm = (C)sqrt(
        tn_cuda_reduce(part, (double)squares, tn_cuda_plus(), v.lines.lanes) +
        v.eps);
    if (line.leads && a.at[NORM].data != NULL)
      nn_store_element<T>(a.at[NORM], line.number, norm);
    if (a.at[TO].data == NULL) continue;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      nn_store_element<T>(a.at[TO], i,
                          nn_load_element<T>(a.at[FROM], i) / norm);
    }
  }
}

/* Writes the gradient of data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_l2_write_gradients(nn_l2_arrays a, nn_l2_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const int64_t inner = v.lines.inner;
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    C sum = 0, norm = 1;
    if (line.end > 0) norm = nn_load_element<T>(a.at[NORM], line.number);
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      sum += nn_load_element<T>(a.at[FROM], i) * nn_load_element<T>(a.at[Y], i);
    }
    sum = tn_cuda_reduce(part, sum, tn_cuda_plus(), v.lines.lanes);
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      const C out_gradient = nn_load_element<T>(a.at[FROM], i);
      nn_store_element<T>(
          a.at[TO], i,
          (out_gradient - nn_load_element<T>(a.at[Y], i) * sum) / norm);
    }
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the geometry and parameters of a call; `like` has the shape of data.
 */
static nn_l2_view nn_l2_make_view(const tn_frame *call, const tn_tensor *like) {
  const nn_l2_normalization_params *p = nn_l2_normalization_params_of(call);
  const bool is_channel = p->mode == NN_L2_NORMALIZATION_MODE_CHANNEL;
  const bool is_spatial = p->mode == NN_L2_NORMALIZATION_MODE_SPATIAL;
  nn_l2_view v;
  v.lines =
      nn_find_lines(like, is_spatial ? 2 : 1, is_channel ? 1 : like->ndim - 1);
  v.eps = p->eps;
  return v;
}

int32_t nn_l2_normalization_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_L2_NORMALIZATION_OUT_OUT];
  const nn_l2_view v = nn_l2_make_view(call, out);
  nn_l2_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[NN_L2_NORMALIZATION_OUT_OUT]);
  a.at[NORM] = tn_cuda_to(&call->out[NN_L2_NORMALIZATION_OUT_NORM],
                          call->req[NN_L2_NORMALIZATION_OUT_NORM]);
  a.at[FROM] = tn_cuda_from(&call->in[NN_L2_NORMALIZATION_IN_DATA]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      return tn_cuda_start(call, nn_l2_normalize_lines<decltype(type)>,
                           nn_count_line_blocks(v.lines), stream, a, v);
    });
  });
}

int32_t nn_l2_normalization_cuda_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_L2_NORMALIZATION_IN_DATA];
  const nn_l2_view v = nn_l2_make_view(call, to);
  nn_l2_arrays a = {};
  a.at[TO] = tn_cuda_to(to, call->req[NN_L2_NORMALIZATION_IN_DATA]);
  if (a.at[TO].data == NULL) return TN_OK;
  a.at[FROM] = tn_cuda_from(&call->in[NN_L2_NORMALIZATION_BACKWARD_GRAD_OUT]);
  a.at[Y] = tn_cuda_from(&call->in[NN_L2_NORMALIZATION_BACKWARD_OUT_OUT]);
  a.at[NORM] = tn_cuda_from(&call->in[NN_L2_NORMALIZATION_BACKWARD_OUT_NORM]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      return tn_cuda_start(call, nn_l2_write_gradients<decltype(type)>,
                           nn_count_line_blocks(v.lines), stream, a, v);
    });
  });
}

int32_t nn_l2_normalization_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_l2_normalization_cuda_backward(&own);
}
