/* SPDX-License-Identifier: Apache-2.0
 * step.cu: optimizer steps on CUDA devices: one loop over a weight, its
 * gradient and the states, all dense. The formula is a struct, a template
 * parameter of the loop. Each thread updates one element of every operand.
 */
#include "adam_update.gen.h"
#include "ftrl_update.gen.h"
#include "mp_sgd_mom_update.gen.h"
#include "mp_sgd_update.gen.h"
#include "rmsprop_update.gen.h"
#include "rmspropalex_update.gen.h"
#include "sgd_mom_update.gen.h"
#include "step.h"
#include "tenon/kernel/kernel.cuh"

enum {
  OUT,
  WEIGHT,
  GRADIENT,
  LIVE, /* the params of a run, if the call is recorded */
  STATE,
  N_ARRAYS = STATE + OPTIM_MAX_STATES
};
typedef tn_cuda_arrays<N_ARRAYS> optim_arrays;

__device__ __forceinline__ float optim_root(float x) {
  return sqrtf(x);
}
__device__ __forceinline__ double optim_root(double x) {
  return sqrt(x);
}

/* Clips to [-limit, limit]; NaN stays NaN. */
template <class C>
__device__ __forceinline__ C optim_clip(C x, C limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

/* The gradient of a step that includes the decay of the weight. */
template <class C>
__device__ __forceinline__ C optim_decayed(const optim_gradient &how, C weight,
                                           C slope) {
  return optim_clip((C)how.rescale * slope + (C)how.decay * weight,
                    (C)how.limit);
}

/* -------------------------------------------------------------- formulas
 * Each formula holds its values that are constant in a loop. `set` computes
 * them from the dynamic parameters, on host or device, and `renew` from the
 * parameters of a run. A call gets a weight, its gradient and states; it
 * replaces the states and returns the new weight. */

struct optim_sgd_mom {
  enum { n_states = 1 };
  double keep; /* of the momentum */
  double wd;
  double lr;
  optim_gradient gradient;

  __host__ __device__ void set(double rate) {
    lr = rate;
  }

  __device__ void renew(const void *params) {
    set(((const optim_sgd_mom_update_params *)params)->lr);
  }

  template <class C>
  __device__ __forceinline__ C operator()(C weight, C slope, C *state) const {
    const C g = optim_clip((C)gradient.rescale * slope, (C)gradient.limit);
    state[0] = (C)keep * state[0] - (C)(lr * wd) * weight - (C)lr * g;
    return weight + state[0];
  }
};

/* out = weight - rate*mean/(root*sqrt(var) + epsilon) */
struct optim_adam {
  enum { n_states = 2 };
  double beta1, beta2;
  double rate; /* lr, corrected */
  double root; /* the correction of the square root of var */
  double epsilon;
  optim_gradient gradient;

  /* 1 - beta^n: the weight of n numbers in an average that began at 0. An
   * average with beta 1 keeps its first value and has no correction. */
  static __host__ __device__ double weight_of(double beta, int64_t n) {
    return n == 0 || beta == 1 ? 1 : 1 - pow(beta, (double)n);
  }

  __host__ __device__ void set(double lr, int64_t step) {
    rate = lr / weight_of(beta1, step);
    root = 1 / sqrt(weight_of(beta2, step));
  }

  __device__ void renew(const void *params) {
    const optim_adam_update_params *p =
        (const optim_adam_update_params *)params;
    set(p->lr, p->step);
  }

  template <class C>
  __device__ __forceinline__ C operator()(C weight, C slope, C *state) const {
    const C g = optim_decayed(gradient, weight, slope);
    state[0] = (C)beta1 * state[0] + (C)(1 - beta1) * g;
    state[1] = (C)beta2 * state[1] + (C)(1 - beta2) * (g * g);
    return weight -
           (C)rate * state[0] / ((C)root * optim_root(state[1]) + (C)epsilon);
  }
};

struct optim_rmsprop {
  enum { n_states = 1 };
  double keep; /* of n */
  double lr, epsilon;
  double most; /* largest absolute value of a weight */
  optim_gradient gradient;

  __host__ __device__ void set(double rate) {
    lr = rate;
  }

  __device__ void renew(const void *params) {
    set(((const optim_rmsprop_update_params *)params)->lr);
  }

  template <class C>
  __device__ __forceinline__ C operator()(C weight, C slope, C *state) const {
    const C g = optim_decayed(gradient, weight, slope);
    state[0] = (C)keep * state[0] + (C)(1 - keep) * (g * g);
    const C step = (C)lr * g / optim_root(state[0] + (C)epsilon);
    return optim_clip(weight - step, (C)most);
  }
};

struct optim_rmspropalex {
  enum { n_states = 3 };
  double keep;  /* of n and g */
  double again; /* of the last step */
  double lr, epsilon;
  double most; /* largest absolute value of a weight */
  optim_gradient gradient;

  __host__ __device__ void set(double rate) {
    lr = rate;
  }

  __device__ void renew(const void *params) {
    set(((const optim_rmspropalex_update_params *)params)->lr);
  }

  template <class C>
  __device__ __forceinline__ C operator()(C weight, C slope, C *state) const {
    const C g = optim_decayed(gradient, weight, slope);
    state[0] = (C)keep * state[0] + (C)(1 - keep) * (g * g);
    state[1] = (C)keep * state[1] + (C)(1 - keep) * g;
    const C apart = state[0] - state[1] * state[1];
    const C variance = apart < 0 ? 0 : apart;
    state[2] =
        (C)again * state[2] - (C)lr * g / optim_root(variance + (C)epsilon);
    return optim_clip(weight + state[2], (C)most);
  }
};

struct optim_ftrl {
  enum { n_states = 2 };
  double slow; /* 1/lr */
  double lamda1, beta, wd;
  optim_gradient gradient;

  __host__ __device__ void set(double lr) {
    slow = 1 / lr;
  }

  __device__ void renew(const void *params) {
    set(((const optim_ftrl_update_params *)params)->lr);
  }

  template <class C>
  __device__ __forceinline__ C operator()(C weight, C slope, C *state) const {
    const C g = optim_clip((C)gradient.rescale * slope, (C)gradient.limit);
    const C sum = state[1] + g * g, root = optim_root(sum);
    const C d = state[0] + g - (root - optim_root(state[1])) * weight * (C)slow;
    const C beyond = optim_clip(d, (C)lamda1) - d;
    state[0] = d;
    state[1] = sum;
    return beyond == 0 ? 0 : beyond / (((C)beta + root) * (C)slow + (C)wd);
  }
};

/* The last state is the weight in f32; the return value is that, rounded. */
struct optim_mp_sgd {
  enum { n_states = 1 };
  double wd;
  double lr;
  optim_gradient gradient;

  __host__ __device__ void set(double rate) {
    lr = rate;
  }

  __device__ void renew(const void *params) {
    set(((const optim_mp_sgd_update_params *)params)->lr);
  }

  template <class C>
  __device__ __forceinline__ C operator()(C, C slope, C *state) const {
    const C g = optim_clip((C)gradient.rescale * slope, (C)gradient.limit);
    state[0] = (C)(1 - lr * wd) * state[0] - (C)lr * g;
    return state[0];
  }
};

struct optim_mp_sgd_mom {
  enum { n_states = 2 };
  optim_sgd_mom step;

  __device__ void renew(const void *params) {
    step.set(((const optim_mp_sgd_mom_update_params *)params)->lr);
  }

  template <class C>
  __device__ __forceinline__ C operator()(C, C slope, C *state) const {
    state[1] = step(state[1], slope, state);
    return state[1];
  }
};

/* Type of the states of a weight of type T. */
template <class Step, class T>
struct optim_state {
  typedef T type;
};
template <class T>
struct optim_state<optim_mp_sgd, T> {
  typedef float type;
};
template <class T>
struct optim_state<optim_mp_sgd_mom, T> {
  typedef float type;
};

/* -------------------------------------------------------------------- loop */

template <class Step>
struct optim_work {
  int64_t n;
  Step step;
};

/* The formula on the device. One thread of a block computes the values that
 * depend on the parameters of a run, which may need powers, for all threads. */
template <class Step>
__device__ __forceinline__ Step optim_step_of(const optim_arrays &a,
                                              const optim_work<Step> &w) {
  __shared__ Step renewed;
  if (a.at[LIVE].data == NULL) return w.step;
  if (threadIdx.x == 0) {
    renewed = w.step;
    renewed.renew(a.at[LIVE].data);
  }
  __syncthreads();
  return renewed;
}

template <class Step, class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    optim_steps(optim_arrays a, optim_work<Step> w) {
  typedef typename tn_cuda_compute<T>::type C;
  typedef typename optim_state<Step, T>::type S;
  const Step step = optim_step_of(a, w);
  const int64_t stride = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < w.n; i += stride) {
    const C weight = tn_cuda_get<C>(((const T *)a.at[WEIGHT].data)[i]);
    const C slope = tn_cuda_get<C>(((const T *)a.at[GRADIENT].data)[i]);
    C state[Step::n_states];
    for (int k = 0; k < Step::n_states; ++k)
      state[k] = tn_cuda_get<C>(((const S *)a.at[STATE + k].data)[i]);
    const C out = step(weight, slope, state);
    for (int k = 0; k < Step::n_states; ++k)
      ((S *)a.at[STATE + k].data)[i] = tn_cuda_put(state[k], S());
    ((T *)a.at[OUT].data)[i] = tn_cuda_put(out, T());
  }
}

/* `bytes` of the operator's params. */
template <class Step>
static int32_t optim_run(const tn_frame *call, const Step &step,
                         int64_t bytes) {
  const optim_work<Step> w = {tn_tensor_size(&call->out[0]), step};
  optim_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  a.at[WEIGHT] = tn_cuda_from(&call->in[0]);
  a.at[GRADIENT] = tn_cuda_from(&call->in[1]);
  a.at[LIVE] = tn_cuda_live_params(call, bytes);
  for (int k = 0; k < Step::n_states; ++k)
    a.at[STATE + k] = tn_cuda_to(&call->aux[k], TN_REQ_WRITE);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start_each(call, optim_steps<Step, decltype(type)>, w.n,
                                stream, a, w);
    });
  });
}

/* ----------------------------------------------------------------- kernels */

int32_t optim_sgd_mom_update_cuda(const tn_frame *call) {
  const optim_sgd_mom_update_params *p = optim_sgd_mom_update_params_of(call);
  optim_sgd_mom step = {
      p->momentum, p->wd, 0,
      optim_gradient_of(p->rescale_grad, 0, p->clip_gradient)};
  step.set(p->lr);
  return optim_run(call, step, sizeof *p);
}

int32_t optim_adam_update_cuda(const tn_frame *call) {
  const optim_adam_update_params *p = optim_adam_update_params_of(call);
  optim_adam step = {
      p->beta1,   p->beta2,
      0,          0,
      p->epsilon, optim_gradient_of(p->rescale_grad, p->wd, p->clip_gradient)};
  step.set(p->lr, p->step);
  return optim_run(call, step, sizeof *p);
}

int32_t optim_rmsprop_update_cuda(const tn_frame *call) {
  const optim_rmsprop_update_params *p = optim_rmsprop_update_params_of(call);
  optim_rmsprop step = {
      p->gamma1, 0, p->epsilon, optim_limit_of(p->clip_weights),
      optim_gradient_of(p->rescale_grad, p->wd, p->clip_gradient)};
  step.set(p->lr);
  return optim_run(call, step, sizeof *p);
}

int32_t optim_ftrl_update_cuda(const tn_frame *call) {
  const optim_ftrl_update_params *p = optim_ftrl_update_params_of(call);
  optim_ftrl step = {0, p->lamda1, p->beta, p->wd,
                     optim_gradient_of(p->rescale_grad, 0, p->clip_gradient)};
  step.set(p->lr);
  return optim_run(call, step, sizeof *p);
}

int32_t optim_rmspropalex_update_cuda(const tn_frame *call) {
  const optim_rmspropalex_update_params *p =
      optim_rmspropalex_update_params_of(call);
  optim_rmspropalex step = {
      p->gamma1,
      p->gamma2,
      0,
      p->epsilon,
      optim_limit_of(p->clip_weights),
      optim_gradient_of(p->rescale_grad, p->wd, p->clip_gradient)};
  step.set(p->lr);
  return optim_run(call, step, sizeof *p);
}

int32_t optim_mp_sgd_update_cuda(const tn_frame *call) {
  const optim_mp_sgd_update_params *p = optim_mp_sgd_update_params_of(call);
  optim_mp_sgd step = {p->wd, 0,
                       optim_gradient_of(p->rescale_grad, 0, p->clip_gradient)};
  step.set(p->lr);
  return optim_run(call, step, sizeof *p);
}

int32_t optim_mp_sgd_mom_update_cuda(const tn_frame *call) {
  const optim_mp_sgd_mom_update_params *p =
      optim_mp_sgd_mom_update_params_of(call);
  optim_mp_sgd_mom step = {
      {p->momentum, p->wd, 0,
       optim_gradient_of(p->rescale_grad, 0, p->clip_gradient)}};
  step.step.set(p->lr);
  return optim_run(call, step, sizeof *p);
}
