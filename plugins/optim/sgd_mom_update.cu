/* SPDX-License-Identifier: Apache-2.0
 * sgd_mom_update.cu: sgd_mom_update.yaml on CUDA devices: the momentum and the
 * weight are read and written in one pass.
 */
#include "sgd_mom_update.gen.h"

#include "tenon/elementwise.cuh"

/* What the kernel is handed. */
struct optim_step_view {
  int64_t n;
  tn_dtype dtype;
  int reserved;
  double keep;                             /* of the momentum */
  double wd;                               /* decay of the weight */
  double rate;                             /* lr, unless there is `live` */
  double rescale;                          /* of the gradient */
  double limit;                            /* of the gradient; negative: none */
  const optim_sgd_mom_update_params *live; /* of the run, on the device; NULL:
                                              the call is not recorded */
  void *weight;
  void *gradient;
  void *mom;
  void *out;
};

/* In C; NaN stays NaN. */
template <class C, class T>
__device__ __forceinline__ void optim_step(const optim_step_view &v,
                                           double rate, int64_t i) {
  const C limit = (C)v.limit;
  const C weight = tn_cuda_get<C>(((const T *)v.weight)[i]);
  C g = (C)v.rescale * tn_cuda_get<C>(((const T *)v.gradient)[i]);
  if (limit >= 0 && g > limit) g = limit;
  if (limit >= 0 && g < -limit) g = -limit;
  const C m = (C)v.keep * tn_cuda_get<C>(((const T *)v.mom)[i]) -
              (C)(rate * v.wd) * weight - (C)rate * g;
  ((T *)v.mom)[i] = tn_cuda_put(m, T());
  ((T *)v.out)[i] = tn_cuda_put(weight + m, T());
}

template <class C, class T>
__global__ void __launch_bounds__(256) optim_steps(optim_step_view v) {
  const int64_t stride = (int64_t)gridDim.x * blockDim.x;
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  const double rate = v.live != NULL ? v.live->lr : v.rate;
  for (; i < v.n; i += stride) optim_step<C, T>(v, rate, i);
}

static void optim_launch(const tn_frame *call, const optim_step_view &v) {
  const cudaStream_t stream = (cudaStream_t)call->run->stream;
  const unsigned blocks = tn_cuda_blocks(call, v.n);
  switch (v.dtype) {
    case TN_F16:
      return tn_cuda_launch(optim_steps<float, __half>, blocks, stream, v);
    case TN_BF16:
      return tn_cuda_launch(optim_steps<float, __nv_bfloat16>, blocks, stream,
                            v);
    case TN_F64:
      return tn_cuda_launch(optim_steps<double, double>, blocks, stream, v);
    default:
      return tn_cuda_launch(optim_steps<float, float>, blocks, stream, v);
  }
}

static void *optim_place(const tn_tensor *tensor) {
  return (char *)tensor->data + tensor->byte_offset;
}

static optim_step_view optim_view_of(const tn_frame *call) {
  const optim_sgd_mom_update_params *p = optim_sgd_mom_update_params_of(call);
  optim_step_view v;
  memset(&v, 0, sizeof v);
  v.n = tn_tensor_size(&call->out[0]);
  v.dtype = call->out[0].dtype;
  v.keep = p->momentum;
  v.wd = p->wd;
  v.rate = p->lr;
  v.rescale = p->rescale_grad;
  v.limit = p->clip_gradient;
  v.live = (const optim_sgd_mom_update_params *)tn_call_device_params(call);
  v.weight = optim_place(&call->in[0]);
  v.gradient = optim_place(&call->in[1]);
  v.mom = optim_place(&call->aux[0]);
  v.out = optim_place(&call->out[0]);
  return v;
}

int32_t optim_sgd_mom_update_cuda(const tn_frame *call) {
  int before = 0;
  if (tn_tensor_size(&call->out[0]) == 0) return TN_OK;
  int32_t code = tn_cuda_check(call, cudaGetDevice(&before));
  if (code != TN_OK) return code;
  const int other = before != call->run->device_id;
  if (other) code = tn_cuda_check(call, cudaSetDevice(call->run->device_id));
  if (code == TN_OK) {
    optim_launch(call, optim_view_of(call));
    code = tn_cuda_check(call, cudaGetLastError());
  }
  if (other) (void)cudaSetDevice(before);
  return code;
}
