/* SPDX-License-Identifier: Apache-2.0
 * make_loss.cu: make_loss.yaml on CUDA devices.
 */
#include "make_loss.gen.h"

#include "nn.cuh"
#include "second.h"

/* Indices of the arrays that CUDA kernels get. COUNT is one f64. */
enum { TO, FROM, COUNT, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_loss_arrays;

struct nn_loss_view {
  int64_t n;
  double threshold;
  double value; /* the gradient, before it is divided by COUNT */
};

/* Copies elements. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_loss_copy(nn_loss_arrays a, nn_loss_view v) {
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step())
    nn_store_element<T>(a.at[TO], i, nn_load_element<T>(a.at[FROM], i));
}

/* Writes COUNT, the number of elements above the threshold, at least 1. One
 * block runs it. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_loss_count_valid(nn_loss_arrays a, nn_loss_view v) {
  __shared__ double part[TN_CUDA_THREADS];
  double n = 0;
  for (int64_t i = threadIdx.x; i < v.n; i += TN_CUDA_THREADS)
    n += (double)nn_load_element<T>(a.at[FROM], i) > v.threshold;
  n = tn_cuda_reduce(part, n, tn_cuda_plus());
  if (threadIdx.x == 0) *(double *)a.at[COUNT].data = n > 1 ? n : 1;
}

/* Writes the gradient of every element. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_loss_fill(nn_loss_arrays a, nn_loss_view v) {
  const double count =
      a.at[COUNT].data != NULL ? *(const double *)a.at[COUNT].data : 1;
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step())
    nn_store_element<T>(a.at[TO], i, (nn_compute_type<T>)(v.value / count));
}

/* -------------------------------------------------------------------- host */

int32_t nn_make_loss_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_MAKE_LOSS_OUT_OUT];
  const nn_loss_view v = {tn_tensor_size(out), 0, 0};
  nn_loss_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[NN_MAKE_LOSS_OUT_OUT]);
  if (a.at[TO].data == NULL) return TN_OK;
  a.at[FROM] = tn_cuda_from(&call->in[NN_MAKE_LOSS_IN_DATA]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_loss_copy<decltype(type)>, v.n, stream,
                                a, v);
    });
  });
}

/* Sets *bytes to the size of COUNT in a backward call. */
int32_t nn_make_loss_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = (call->flags & TN_CALL_BACKWARD) ? sizeof(double) : 0;
  return TN_OK;
}

/* Launches the kernels of a backward call. */
template <class T>
static int32_t nn_loss_launch_backward(const tn_frame *call, nn_loss_arrays a,
                                       const nn_loss_view &v,
                                       cudaStream_t stream) {
  int32_t code = TN_OK;
  if (a.at[COUNT].data != NULL)
    code = tn_cuda_start(call, nn_loss_count_valid<T>, 1, stream, a, v);
  a.at[COUNT].writes = 0;
  if (code != TN_OK) return code;
  return tn_cuda_start_each(call, nn_loss_fill<T>, v.n, stream, a, v);
}

int32_t nn_make_loss_cuda_backward(const tn_frame *call) {
  const nn_make_loss_params *p = nn_make_loss_params_of(call);
  const tn_tensor *to = &call->out[NN_MAKE_LOSS_IN_DATA];
  nn_loss_view v = {tn_tensor_size(to), p->valid_thresh, p->grad_scale};
  nn_loss_arrays a = {};
  a.at[TO] = tn_cuda_to(to, call->req[NN_MAKE_LOSS_IN_DATA]);
  if (a.at[TO].data == NULL) return TN_OK;
  if (p->normalization == NN_MAKE_LOSS_NORMALIZATION_BATCH && to->ndim > 0)
    v.value /= (double)to->shape[0];
  if (p->normalization == NN_MAKE_LOSS_NORMALIZATION_VALID) {
    a.at[FROM] = tn_cuda_from(&call->in[NN_MAKE_LOSS_BACKWARD_IN_DATA]);
    a.at[COUNT] = tn_cuda_room(call->ws[0], TN_F64, 1);
  }
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      return nn_loss_launch_backward<decltype(type)>(call, a, v, stream);
    });
  });
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_make_loss_grad_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_make_loss_cuda_bytes(&own, bytes);
}

int32_t nn_make_loss_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_make_loss_cuda_backward(&own);
}
