/* SPDX-License-Identifier: Apache-2.0
 * sgd_mom_update.cu: sgd_mom_update.yaml on CUDA devices: the momentum and the
 * weight are read and written in one pass.
 */
#include "sgd_mom_update.gen.h"

#include "tenon/kernel.cuh"

enum { WEIGHT, GRADIENT, MOM, OUT, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> optim_step_arrays;

/* What the kernel is handed. */
struct optim_step_view {
  int64_t n;
  double keep;    /* of the momentum */
  double decay;   /* lr * wd */
  double rate;    /* lr */
  double rescale; /* of the gradient */
  double limit;   /* of the gradient; negative: none */
};

/* In C; NaN stays NaN. */
template <class C, class T>
__device__ __forceinline__ void optim_step(const optim_step_arrays &a,
                                           const optim_step_view &v,
                                           int64_t i) {
  const C limit = (C)v.limit;
  const C weight = tn_cuda_get<C>(((const T *)a.at[WEIGHT].data)[i]);
  T *mom = (T *)a.at[MOM].data + i;
  C g = (C)v.rescale * tn_cuda_get<C>(((const T *)a.at[GRADIENT].data)[i]);
  if (limit >= 0 && g > limit) g = limit;
  if (limit >= 0 && g < -limit) g = -limit;
  const C m =
      (C)v.keep * tn_cuda_get<C>(*mom) - (C)v.decay * weight - (C)v.rate * g;
  *mom = tn_cuda_put(m, T());
  ((T *)a.at[OUT].data)[i] = tn_cuda_put(weight + m, T());
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    optim_steps(optim_step_arrays a, optim_step_view v) {
  typedef typename tn_cuda_compute<T>::type C;
  const int64_t stride = (int64_t)gridDim.x * blockDim.x;
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i < v.n; i += stride) optim_step<C, T>(a, v, i);
}

static optim_step_view optim_view_of(const tn_frame *call) {
  const optim_sgd_mom_update_params *p = optim_sgd_mom_update_params_of(call);
  optim_step_view v;
  v.n = tn_tensor_size(&call->out[0]);
  v.keep = p->momentum;
  v.decay = p->lr * p->wd;
  v.rate = p->lr;
  v.rescale = p->rescale_grad;
  v.limit = p->clip_gradient;
  return v;
}

int32_t optim_sgd_mom_update_cuda(const tn_frame *call) {
  const optim_step_view v = optim_view_of(call);
  optim_step_arrays a;
  a.at[WEIGHT] = tn_cuda_from(&call->in[0]);
  a.at[GRADIENT] = tn_cuda_from(&call->in[1]);
  a.at[MOM] = tn_cuda_to(&call->aux[0], TN_REQ_WRITE);
  a.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(a.at[WEIGHT].dtype, [&](auto type) {
      return tn_cuda_start_each(call, optim_steps<decltype(type)>, v.n, stream,
                                a, v);
    });
  });
}
