/* SPDX-License-Identifier: Apache-2.0
 * softmax_cross_entropy.cu: softmax_cross_entropy.yaml on CUDA devices.
 * Forward, rows write their losses, which one block sums. Backward, rows of a
 * half type are measured again, because the saved values are rounded.
 */
#include "softmax_cross_entropy.gen.h"

#include "nn.cuh"

/* Indices of the arrays that CUDA kernels get. Backward, OUT is the gradient of
 * data, and NORM has no data if it must be computed again. */
enum { OUT, DATA, LABEL, NORM, LOSS, HEAD, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_cross_arrays;

/* A row's largest element `top`, and the logarithm of the sum of exp(x - top).
 * Both are 0 if there are no classes. */
template <class C>
struct nn_log_norm {
  C top;
  C log;
};

/* Computes the nn_log_norm of a thread's line. */
template <class T>
__device__ __forceinline__ nn_log_norm<nn_compute_type<T>> nn_cross_find_norm(
    const nn_cross_arrays &a, const nn_line &line, unsigned lanes) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  C top = -(C)INFINITY, sum = 0;
  for (int64_t k = line.first; k < line.end; k += line.step)
    top = tn_cuda_largest()(top, nn_load_element<T>(a.at[DATA], line.at + k));
  top = tn_cuda_reduce(part, top, tn_cuda_largest(), lanes);
  for (int64_t k = line.first; k < line.end; k += line.step)
    sum += nn_exp(nn_load_element<T>(a.at[DATA], line.at + k) - top);
  sum = tn_cuda_reduce(part, sum, tn_cuda_plus(), lanes);
  nn_log_norm<C> norm = {0, 0};
  if (line.end > 0) norm = {top, nn_log(sum)};
  return norm;
}

/* Returns the class number of a row, or -1 if its label is no class. */
__device__ __forceinline__ int64_t nn_cross_read_label(const nn_cross_arrays &a,
                                                       const nn_lines &v,
                                                       int64_t row) {
  const double label = tn_cuda_read<double>(a.at[LABEL], row);
  return label >= 0 && label < (double)v.length ? (int64_t)label : -1;
}

/* Writes the loss of each row to LOSS, and its norm to NORM. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_cross_write_losses(nn_cross_arrays a, nn_lines v) {
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v); g += gridDim.x) {
    const nn_line line = nn_locate_line(v, g);
    const nn_log_norm<nn_compute_type<T>> norm =
        nn_cross_find_norm<T>(a, line, v.lanes);
    if (!line.leads) continue;
    const int64_t label = nn_cross_read_label(a, v, line.number);
    double loss = 0;
    if (label >= 0)
      loss =
          (double)norm.log -
          (double)(nn_load_element<T>(a.at[DATA], line.at + label) - norm.top);
    ((double *)a.at[LOSS].data)[line.number] = loss;
    if (a.at[NORM].data == NULL) continue;
    nn_store_element<T>(a.at[NORM], 2 * line.number, norm.top);
    nn_store_element<T>(a.at[NORM], 2 * line.number + 1, norm.log);
  }
}

/* Writes the sum of all losses. One block runs it. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_cross_sum_losses(nn_cross_arrays a, nn_lines v) {
  __shared__ double part[TN_CUDA_THREADS];
  double sum = 0;
  for (int64_t r = threadIdx.x; r < v.outer; r += TN_CUDA_THREADS)
    sum += ((const double *)a.at[LOSS].data)[r];
  sum = tn_cuda_reduce(part, sum, tn_cuda_plus());
  if (threadIdx.x == 0) tn_cuda_set((T *)a.at[OUT].data, sum, a.at[OUT].adds);
}

/* Writes the gradient of data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_cross_write_gradients(nn_cross_arrays a, nn_lines v) {
  typedef nn_compute_type<T> C;
  const C out_gradient = nn_load_element<T>(a.at[HEAD], 0);
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v); g += gridDim.x) {
    const nn_line line = nn_locate_line(v, g);
    nn_log_norm<C> norm;
    if (a.at[NORM].data == NULL) {
      norm = nn_cross_find_norm<T>(a, line, v.lanes);
    } else if (line.end > 0) {
      norm.top = nn_load_element<T>(a.at[NORM], 2 * line.number);
      norm.log = nn_load_element<T>(a.at[NORM], 2 * line.number + 1);
    }
    if (line.end == 0) continue;
    const int64_t label = nn_cross_read_label(a, v, line.number);
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const C x = nn_load_element<T>(a.at[DATA], line.at + k);
      const C slope = nn_exp((x - norm.top) - norm.log) * out_gradient;
      nn_store_element<T>(a.at[OUT], line.at + k,
                          label < 0    ? 0
                          : k == label ? slope - out_gradient
                                       : slope);
    }
  }
}

/* -------------------------------------------------------------------- host */

/* Bytes of workspace for the loss of each row. */
int32_t nn_softmax_cross_entropy_cuda_bytes(const tn_frame *call,
                                            uint64_t *bytes) {
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD))
    *bytes = (uint64_t)call->in[NN_SOFTMAX_CROSS_ENTROPY_IN_DATA].shape[0] *
             sizeof(double);
  return TN_OK;
}

/* Launches the kernels of a forward call. */
template <class T>
static int32_t nn_cross_launch_forward(const tn_frame *call,
                                       const nn_cross_arrays &a,
                                       const nn_lines &v, cudaStream_t stream) {
  const int32_t code = tn_cuda_start(call, nn_cross_write_losses<T>,
                                     nn_count_line_blocks(v), stream, a, v);
  if (code != TN_OK || a.at[OUT].data == NULL) return code;
  return tn_cuda_start(call, nn_cross_sum_losses<T>, 1, stream, a, v);
}

int32_t nn_softmax_cross_entropy_cuda(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_SOFTMAX_CROSS_ENTROPY_IN_DATA];
  const nn_lines v = nn_find_lines(data, 1, 1);
  nn_cross_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_SOFTMAX_CROSS_ENTROPY_OUT_OUT],
                         call->req[NN_SOFTMAX_CROSS_ENTROPY_OUT_OUT]);
  a.at[DATA] = tn_cuda_from(data);
  a.at[LABEL] = tn_cuda_from(&call->in[NN_SOFTMAX_CROSS_ENTROPY_IN_LABEL]);
  a.at[NORM] = tn_cuda_to(&call->out[NN_SOFTMAX_CROSS_ENTROPY_OUT_NORM],
                          call->req[NN_SOFTMAX_CROSS_ENTROPY_OUT_NORM]);
  a.at[LOSS] = tn_cuda_room(call->ws[0], TN_F64, v.outer);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(data->dtype, [&](auto type) {
      return nn_cross_launch_forward<decltype(type)>(call, a, v, stream);
    });
  });
}

int32_t nn_softmax_cross_entropy_cuda_backward(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_SOFTMAX_CROSS_ENTROPY_BACKWARD_IN_DATA];
  const tn_tensor *norm = &call->in[NN_SOFTMAX_CROSS_ENTROPY_BACKWARD_OUT_NORM];
  const nn_lines v = nn_find_lines(data, 1, 1);
  nn_cross_arrays a = {};
  if (call->req[NN_SOFTMAX_CROSS_ENTROPY_IN_DATA] == TN_REQ_NULL ||
      tn_tensor_size(data) == 0)
    return TN_OK;
  a.at[OUT] = tn_cuda_to(&call->out[NN_SOFTMAX_CROSS_ENTROPY_IN_DATA],
                         call->req[NN_SOFTMAX_CROSS_ENTROPY_IN_DATA]);
  a.at[DATA] = tn_cuda_from(data);
  a.at[LABEL] =
      tn_cuda_from(&call->in[NN_SOFTMAX_CROSS_ENTROPY_BACKWARD_IN_LABEL]);
  a.at[HEAD] =
      tn_cuda_from(&call->in[NN_SOFTMAX_CROSS_ENTROPY_BACKWARD_GRAD_OUT]);
  if (tn_kernel_compute(norm->dtype) == norm->dtype)
    a.at[NORM] = tn_cuda_from(norm);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(data->dtype, [&](auto type) {
      return tn_cuda_start(call, nn_cross_write_gradients<decltype(type)>,
                           nn_count_line_blocks(v), stream, a, v);
    });
  });
}
