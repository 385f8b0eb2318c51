/* SPDX-License-Identifier: Apache-2.0
 * softmax.cu: softmax.yaml and softmax_activation.yaml on CUDA devices.
 */
#include "softmax.cuh"

#include "second.gen.h"
#include "second.h"
#include "softmax.gen.h"
#include "softmax_activation.gen.h"

enum { TO, HEAD, OUT, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_softmax_gradient_arrays;

/* Writes the gradient of a softmax, line by line. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_softmax_write_line_gradients(nn_softmax_gradient_arrays a,
                                    nn_softmax_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const int64_t groups = nn_count_line_blocks(v.lines), inner = v.lines.inner;
  for (int64_t g = blockIdx.x; g < groups; g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    nn_long_sum<C> own;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      const C out_gradient = nn_load_element<T>(a.at[HEAD], i);
      own.add(v.is_log ? out_gradient
                       : out_gradient * nn_load_element<T>(a.at[OUT], i));
    }
    const C sum =
        tn_cuda_reduce(part, own.all(), tn_cuda_plus(), v.lines.lanes);
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      const C out_gradient = nn_load_element<T>(a.at[HEAD], i),
              y = nn_load_element<T>(a.at[OUT], i);
      const C slope =
          v.is_log ? out_gradient - nn_exp(y) * sum : y * (out_gradient - sum);
      nn_store_element<T>(a.at[TO], i, slope * (C)v.factor);
    }
  }
}

/* Writes the gradient of a softmax, row by row; rows are kept in registers. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_softmax_write_row_gradients(nn_softmax_gradient_arrays a,
                                   nn_softmax_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const C factor = (C)v.factor;
  for (int64_t g = blockIdx.x; g < nn_count_row_blocks(v.rows);
       g += gridDim.x) {
    const nn_row row = nn_locate_row<S>(v.rows, g);
    nn_pack<C, S::size> out_gradient[S::packs], y[S::packs];
    C sum = 0;
    nn_load_row<T, S>(a.at[HEAD], row, (C)0, out_gradient);
    nn_load_row<T, S>(a.at[OUT], row, (C)0, y);
    nn_visit_two_rows<S>(out_gradient, y,
                         [&](C &h, C e) { sum += v.is_log ? h : h * e; });
    sum = nn_reduce_row<S>(part, sum, tn_cuda_plus(), row);
    nn_visit_two_rows<S>(out_gradient, y, [&](C &h, C e) {
      h = (v.is_log ? h - nn_exp(e) * sum : e * (h - sum)) * factor;
    });
    nn_store_row<T, S>(a.at[TO], row, out_gradient);
  }
}

/* Launches the kernel that writes the gradient of a softmax. */
static int32_t nn_softmax_launch_gradient(const tn_frame *call,
                                          nn_softmax_view v) {
  nn_softmax_gradient_arrays a = {};
  a.at[TO] = tn_cuda_to(&call->out[NN_SOFTMAX_IN_DATA], call->req[0]);
  a.at[HEAD] = tn_cuda_from(&call->in[NN_SOFTMAX_BACKWARD_GRAD_OUT]);
  a.at[OUT] = tn_cuda_from(&call->in[NN_SOFTMAX_BACKWARD_OUT_OUT]);
  for (int i = 0; i < N_ARRAYS; ++i) nn_check_row_packs(&v.rows, a.at[i]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->out[0].dtype, [&](auto type) {
      typedef decltype(type) T;
      return nn_launch_rows(
          call, nn_softmax_write_line_gradients<T>,
          [](auto shape) {
            return nn_softmax_write_row_gradients<T, decltype(shape)>;
          },
          stream, a, v);
    });
  });
}

/* Runs a forward or backward call of softmax or log_softmax. A scalar is a line
 * of one element. */
static int32_t nn_softmax_run_call(const tn_frame *call, int64_t axis,
                                   double temperature, int is_log) {
  const tn_tensor *out = &call->out[0];
  const int32_t dim = (int32_t)(axis < 0 ? axis + out->ndim : axis);
  const nn_softmax_view v = nn_softmax_make_view(nn_find_lines(out, dim, dim),
                                                 1 / temperature, is_log);
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(out) == 0) return TN_OK;
  if (call->flags & TN_CALL_BACKWARD)
    return nn_softmax_launch_gradient(call, v);
  return nn_softmax_launch(call, v, tn_cuda_to(out, call->req[0]),
                           tn_cuda_from(&call->in[NN_SOFTMAX_IN_DATA]));
}

int32_t nn_softmax_cuda(const tn_frame *call) {
  const nn_softmax_params *p = nn_softmax_params_of(call);
  return nn_softmax_run_call(call, p->axis, p->temperature, 0);
}

int32_t nn_log_softmax_cuda(const tn_frame *call) {
  const nn_log_softmax_params *p = nn_log_softmax_params_of(call);
  return nn_softmax_run_call(call, p->axis, p->temperature, 1);
}

/* Runs a forward or backward call of softmax_activation, which has the operands
 * of softmax. */
int32_t nn_softmax_activation_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  const bool is_channel = nn_softmax_activation_params_of(call)->mode ==
                          NN_SOFTMAX_ACTIVATION_MODE_CHANNEL;
  const nn_softmax_view v = nn_softmax_make_view(
      nn_find_lines(out, 1, is_channel ? 1 : out->ndim - 1), 1, 0);
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(out) == 0) return TN_OK;
  if (call->flags & TN_CALL_BACKWARD)
    return nn_softmax_launch_gradient(call, v);
  return nn_softmax_launch(call, v, tn_cuda_to(out, call->req[0]),
                           tn_cuda_from(&call->in[NN_SOFTMAX_IN_DATA]));
}

int32_t nn_softmax_activation_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_softmax_activation_cuda(&own);
}

/* Computes the gradient of the softmax in softmax_output: input 0 is the output
 * gradient, input 1 the softmax. */
int32_t nn_softmax_output_through_cuda(const tn_frame *call) {
  const nn_softmax_output_through_params *p =
      nn_softmax_output_through_params_of(call);
  const tn_tensor in[] = {call->in[0], call->in[0], call->in[1]};
  const tn_tensor *out = &call->out[0];
  const int32_t last = out->ndim - 1, least = last < 1 ? last : 1;
  const int32_t first = p->preserve_shape && !p->multi_output ? last : least;
  tn_frame own = *call;
  own.in = in;
  own.n_in = 3;
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(out) == 0) return TN_OK;
  return nn_softmax_launch_gradient(
      &own,
      nn_softmax_make_view(
          nn_find_lines(out, first, p->multi_output ? least : last), 1, 0));
}
