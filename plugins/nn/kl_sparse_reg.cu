/* SPDX-License-Identifier: Apache-2.0
 * kl_sparse_reg.cu: kl_sparse_reg.yaml on CUDA devices. A column is a line of a
 * block.
 */
#include "kl_sparse_reg.gen.h"

#include "nn.cuh"

/* Indices of the arrays that CUDA kernels get. FROM is the data, backward the
 * output gradient. */
enum { TO, FROM, MOVING, AVERAGE, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_kl_arrays;

struct nn_kl_view {
  nn_lines lines;
  double momentum; /* 1: averages stay */
  double target;
  double penalty;
  tn_cuda_divisor by_columns;
};

/* Writes AVERAGE, and MOVING if averages move. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_kl_average(nn_kl_arrays a, nn_kl_view v) {
  typedef nn_compute_type<T> C;
  __shared__ double part[TN_CUDA_THREADS];
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    double sum = 0;
    if (v.momentum < 1)
      for (int64_t k = line.first; k < line.end; k += line.step)
        sum +=
            (double)nn_load_element<T>(a.at[FROM], line.at + k * v.lines.inner);
    sum = tn_cuda_reduce(part, sum, tn_cuda_plus(), v.lines.lanes);
    if (line.first != 0 || line.number >= v.lines.inner) continue;
    double average = (double)nn_load_element<T>(a.at[MOVING], line.number);
    if (v.momentum < 1)
      average = v.momentum * average +
                (1 - v.momentum) * (sum / (double)v.lines.length);
    if (a.at[MOVING].writes)
      nn_store_element<T>(a.at[MOVING], line.number, (C)average);
    if (a.at[AVERAGE].data != NULL)
      nn_store_element<T>(a.at[AVERAGE], line.number, (C)average);
  }
}

/* Copies data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_kl_copy(nn_kl_arrays a, nn_kl_view v) {
  const int64_t n = v.lines.length * v.lines.inner;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step())
    nn_store_element<T>(a.at[TO], i, nn_load_element<T>(a.at[FROM], i));
}

/* Writes the gradient of data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_kl_write_gradients(nn_kl_arrays a, nn_kl_view v) {
  typedef nn_compute_type<T> C;
  const int64_t n = v.lines.length * v.lines.inner;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t column =
        i - tn_cuda_quotient(i, v.by_columns) * v.lines.inner;
    const double average = (double)nn_load_element<T>(a.at[AVERAGE], column);
    const double added =
        v.penalty * ((1 - v.target) / (1 - average) - v.target / average);
    nn_store_element<T>(a.at[TO], i,
                        (C)((double)nn_load_element<T>(a.at[FROM], i) + added));
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the geometry and parameters of a call; `like` has the shape of data.
 */
static nn_kl_view nn_kl_make_view(const tn_frame *call, const tn_tensor *like) {
  const nn_kl_sparse_reg_params *p = nn_kl_sparse_reg_params_of(call);
  nn_kl_view v = {};
  v.lines = nn_choose_lines(1, like->shape[0], like->shape[1]);
  v.momentum = p->momentum;
  v.target = p->sparseness_target;
  v.penalty = p->penalty;
  v.by_columns = tn_cuda_divisor_of(like->shape[1]);
  return v;
}

int32_t nn_kl_sparse_reg_cuda(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_KL_SPARSE_REG_IN_DATA];
  const tn_tensor *moving = &call->aux[NN_KL_SPARSE_REG_AUX_MOVING_AVG];
  nn_kl_view v = nn_kl_make_view(call, data);
  const bool moves = (call->flags & TN_CALL_TRAIN) && data->shape[0] > 0;
  nn_kl_arrays a = {};
  if (!moves) v.momentum = 1;
  a.at[TO] = tn_cuda_to(&call->out[NN_KL_SPARSE_REG_OUT_OUT],
                        call->req[NN_KL_SPARSE_REG_OUT_OUT]);
  a.at[AVERAGE] = tn_cuda_to(&call->out[NN_KL_SPARSE_REG_OUT_AVERAGE],
                             call->req[NN_KL_SPARSE_REG_OUT_AVERAGE]);
  a.at[FROM] = tn_cuda_from(data);
  a.at[MOVING] =
      moves ? tn_cuda_to(moving, TN_REQ_WRITE) : tn_cuda_from(moving);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(data->dtype, [&](auto type) {
      typedef decltype(type) T;
      int32_t code = tn_cuda_start(call, nn_kl_average<T>,
                                   nn_count_line_blocks(v.lines), stream, a, v);
      if (code != TN_OK || a.at[TO].data == NULL) return code;
      return tn_cuda_start_each(call, nn_kl_copy<T>, tn_tensor_size(data),
                                stream, a, v);
    });
  });
}

int32_t nn_kl_sparse_reg_cuda_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_KL_SPARSE_REG_IN_DATA];
  const nn_kl_view v = nn_kl_make_view(call, to);
  nn_kl_arrays a = {};
  a.at[TO] = tn_cuda_to(to, call->req[NN_KL_SPARSE_REG_IN_DATA]);
  if (a.at[TO].data == NULL) return TN_OK;
  a.at[FROM] = tn_cuda_from(&call->in[NN_KL_SPARSE_REG_BACKWARD_GRAD_OUT]);
  a.at[AVERAGE] =
      tn_cuda_from(&call->in[NN_KL_SPARSE_REG_BACKWARD_OUT_AVERAGE]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_kl_write_gradients<decltype(type)>,
                                tn_tensor_size(to), stream, a, v);
    });
  });
}
