/* SPDX-License-Identifier: Apache-2.0
 * affine_grid.cu: affine_grid.yaml on CUDA devices. A thread computes a
 * coordinate of a position; a block computes a number of the gradient of a
 * function.
 */
#include "affine_positions.cuh"
#include "grid_view.h"
#include "second.h"

/* Computes a grid of a flow, or the gradient of the flow. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_flow_write_positions(nn_affine_cuda_arrays a, nn_flow_view v) {
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step())
    tn_cuda_write(a.at[NN_AFFINE_TO], i,
                  (C)nn_flow_find_position(
                      &v, i, (double)tn_cuda_read<C>(a.at[NN_AFFINE_FROM], i)));
}

/* Returns the arrays of a call. */
static nn_affine_cuda_arrays nn_affine_make_arrays(const tn_frame *call) {
  nn_affine_cuda_arrays a = {};
  a.at[NN_AFFINE_TO] = tn_cuda_to(&call->out[0], call->req[0]);
  a.at[NN_AFFINE_FROM] = tn_cuda_from(&call->in[0]);
  return a;
}

/* Launches the kernel of an affine grid. */
static int32_t nn_affine_launch_call(const tn_frame *call,
                                     const nn_affine_positions &positions) {
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      return nn_affine_launch<decltype(type)>(
          call, positions, nn_affine_make_arrays(call), is_back, stream);
    });
  });
}

int32_t nn_affine_grid_cuda(const tn_frame *call) {
  return nn_affine_launch_call(call, nn_affine_grid_view_call(call));
}

int32_t nn_affine_grid_cuda_backward(const tn_frame *call) {
  return nn_affine_grid_cuda(call);
}

int32_t nn_grid_generator_cuda(const tn_frame *call) {
  const int64_t n = tn_tensor_size(&call->out[0]);
  if (!nn_grid_generator_is_warp(call))
    return nn_affine_launch_call(call, nn_grid_generator_view_call(call));
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_flow_write_positions<decltype(type)>,
                                n, stream, nn_affine_make_arrays(call),
                                nn_grid_generator_view_flow(call));
    });
  });
}

int32_t nn_grid_generator_cuda_backward(const tn_frame *call) {
  return nn_grid_generator_cuda(call);
}

int32_t nn_grid_generator_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_grid_generator_cuda_backward(&own);
}
