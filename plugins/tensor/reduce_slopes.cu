/* SPDX-License-Identifier: Apache-2.0
 * reduce_slopes.cu: the loops of the gradients of reduce.h on CUDA devices.
 */
#include "reduce.h"
#include "reduce_big.h"
#include "tenon/kernel/elementwise.cuh"
#include "tensor.cuh"

struct reduce_gradient {
  tn_cuda_map map;
};

int32_t reduce_run_gradient(const tn_frame *call,
                            const reduce_gradient *gradient) {
  return tn_cuda_map_run(call, &gradient->map, 1);
}

/* x[0] is the gradient of out, x[1] data, x[2] out or the product of the
 * elements that are not 0. */
template <class C>
struct tensor_where_number {
  typedef C type;
  enum { n_in = 2 };
  explicit tensor_where_number(const void *) {}
  __device__ C operator()(const C *x) const {
    return x[1] == x[1] ? x[0] : 0;
  }
};

template <class C>
struct tensor_where_equal {
  typedef C type;
  enum { n_in = 3 };
  explicit tensor_where_equal(const void *) {}
  __device__ C operator()(const C *x) const {
    const bool are_nan = x[1] != x[1] && x[2] != x[2];
    return x[1] == x[2] || are_nan ? x[0] : 0;
  }
};

template <class C>
struct tensor_by_sign {
  typedef C type;
  enum { n_in = 2 };
  explicit tensor_by_sign(const void *) {}
  __device__ C operator()(const C *x) const {
    if (x[1] != x[1]) return x[1];
    return x[1] > 0 ? x[0] : x[1] < 0 ? -x[0] : 0;
  }
};

template <class C>
struct tensor_by_share {
  typedef C type;
  enum { n_in = 3 };
  explicit tensor_by_share(const void *) {}
  __device__ C operator()(const C *x) const {
    return x[2] == 0 ? 0 : x[0] * (x[1] / x[2]);
  }
};

__device__ __forceinline__ float tensor_exp(float x) {
  return tn_math_exp_f32(x);
}
__device__ __forceinline__ double tensor_exp(double x) {
  return tn_math_exp_f64(x);
}

template <class C>
struct tensor_by_power {
  typedef C type;
  enum { n_in = 3 };
  explicit tensor_by_power(const void *) {}
  __device__ C operator()(const C *x) const {
    return x[2] == -(C)INFINITY ? 0 : x[0] * tensor_exp(x[1] - x[2]);
  }
};

/* 0 where it is not finite. */
template <class C>
__device__ __forceinline__ C tensor_shift(C x) {
  return x - x == 0 ? x : 0;
}

template <class C>
struct tensor_power {
  typedef C type;
  enum { n_in = 2 };
  explicit tensor_power(const void *) {}
  __device__ C operator()(const C *x) const {
    return tensor_exp(x[0] - tensor_shift(x[1]));
  }
};

struct tensor_logarithm {
  typedef double type;
  enum { n_in = 2 };
  explicit tensor_logarithm(const void *) {}
  __device__ double operator()(const double *x) const {
    return tn_math_log_f64(x[0]) + tensor_shift(x[1]);
  }
};

template <class C>
struct tensor_scale {
  typedef C type;
  enum { n_in = 1 };
  C factor;
  explicit tensor_scale(const void *params)
      : factor((C) * (const double *)params) {}
  __device__ C operator()(const C *x) const {
    return x[0] * factor;
  }
};

/* The quotient of wrapped integers; the least by -1 is its negative. */
__device__ __forceinline__ double tensor_without(double all, double x) {
  return all / x;
}
__device__ __forceinline__ int64_t tensor_without(int64_t all, int64_t x) {
  return x == -1 ? (int64_t)(0 - (uint64_t)all) : all / x;
}
__device__ __forceinline__ uint64_t tensor_without(uint64_t all, uint64_t x) {
  return all / x;
}
__device__ __forceinline__ double tensor_times(double a, double b) {
  return a * b;
}
__device__ __forceinline__ int64_t tensor_times(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
__device__ __forceinline__ uint64_t tensor_times(uint64_t a, uint64_t b) {
  return a * b;
}

template <class C, bool IsNanNone>
struct tensor_others {
  typedef C type;
  enum { n_in = 4 };
  explicit tensor_others(const void *) {}
  __device__ C operator()(const C *x) const {
    const bool is_0 = x[1] == 0;
    if (x[3] != (C)is_0 || x[2] != x[2]) return 0;
    if (IsNanNone && x[1] != x[1]) return 0;
    return tensor_times(x[0], tensor_without(x[2], is_0 ? (C)1 : x[1]));
  }
};

/* Loops over i64 have the bits of u64. */
#define ALL(name)                                               \
  {                                                             \
    tn_cuda_run<name<float>>, tn_cuda_run<name<double>>,        \
        tn_cuda_run<name<int32_t>>, tn_cuda_run<name<int64_t>>, \
        tn_cuda_run<name<int64_t>>                              \
  }
#define FLOATS(name) \
  { tn_cuda_run<name<float>>, tn_cuda_run<name<double>>, NULL, NULL }
const reduce_gradient reduce_gradient_where_number = {
    {ALL(tensor_where_number), 0, 2, {0, 1}}};
const reduce_gradient reduce_gradient_where_equal = {
    {ALL(tensor_where_equal), 0, 3, {0, 1, 2}}};
const reduce_gradient reduce_gradient_by_sign = {
    {FLOATS(tensor_by_sign), 0, 2, {0, 1}}};
const reduce_gradient reduce_gradient_by_share = {
    {FLOATS(tensor_by_share), 0, 3, {0, 1, 2}}};
const reduce_gradient reduce_gradient_by_power = {
    {FLOATS(tensor_by_power), 0, 3, {0, 1, 2}}};
const reduce_gradient reduce_gradient_power = {
    {FLOATS(tensor_power), 0, 2, {0, 1}}};
const reduce_gradient reduce_gradient_logarithm = {
    {{NULL, tn_cuda_run<tensor_logarithm>, NULL, NULL}, 0, 2, {0, 1}}};
const reduce_gradient reduce_gradient_scale = {{ALL(tensor_scale), 0, 1, {0}}};
const reduce_gradient reduce_gradient_prod = {
    {{NULL, tn_cuda_run<tensor_others<double, 0>>, NULL,
      tn_cuda_run<tensor_others<int64_t, 0>>,
      tn_cuda_run<tensor_others<uint64_t, 0>>},
     0,
     4,
     {0, 1, 2, 3}}};
const reduce_gradient reduce_gradient_nanprod = {
    {{NULL, tn_cuda_run<tensor_others<double, 1>>, NULL,
      tn_cuda_run<tensor_others<int64_t, 0>>,
      tn_cuda_run<tensor_others<uint64_t, 0>>},
     0,
     4,
     {0, 1, 2, 3}}};

/* --------------------------------------------------------------- far lines */

enum { FAR_OUT, FAR_HEAD, FAR_DATA, FAR_RESTS, FAR_ARRAYS };
typedef tn_cuda_arrays<FAR_ARRAYS> tensor_far_arrays;

struct tensor_far_view {
  tensor_steps<3> kept; /* positions of lines in out, head and data */
  tensor_steps<2>
      gone; /* positions of the elements of a line in out and data */
  int32_t skips_nan;
  int32_t reserved;
};

/* One block per line. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_far(tensor_far_arrays a, tensor_far_view v) {
  __shared__ reduce_scaled part[TN_CUDA_THREADS];
  const double *rests = (const double *)a.at[FAR_RESTS].data;
  const int own = (int)threadIdx.x;
  for (int64_t line = blockIdx.x; line < v.kept.n; line += gridDim.x) {
    int64_t first[3], at[2];
    if (rests[line] == rests[line]) continue;
    tensor_find(v.kept, line, first);
    part[own] = reduce_scaled_make_one();
    for (int64_t i = own; i < v.gone.n; i += TN_CUDA_THREADS) {
      tensor_find(v.gone, i, at);
      const double x = tn_cuda_read<double>(a.at[FAR_DATA], first[2] + at[1]);
      if (x == x || !v.skips_nan) reduce_scaled_multiply(&part[own], x);
    }
    __syncthreads();
    for (int half = TN_CUDA_THREADS / 2; half > 0; half /= 2) {
      if (own < half)
        part[own] = reduce_scaled_multiply_both(part[own], part[own + half]);
      __syncthreads();
    }
    const reduce_scaled all = part[0];
    const double out_gradient = tn_cuda_read<double>(a.at[FAR_HEAD], first[1]);
    for (int64_t i = own; i < v.gone.n; i += TN_CUDA_THREADS) {
      tensor_find(v.gone, i, at);
      const double x = tn_cuda_read<double>(a.at[FAR_DATA], first[2] + at[1]);
      const bool is_none = v.skips_nan && x != x;
      tn_cuda_write(
          a.at[FAR_OUT], first[0] + at[0],
          is_none ? 0 : out_gradient * reduce_scaled_remove_factor(all, x));
    }
    __syncthreads();
  }
}

/* Axes [first, first + ndim) of views. */
template <int N>
static tensor_steps<N> far_steps(const reduce_view *const *views, int32_t first,
                                 int32_t ndim) {
  tensor_steps<N> s;
  memset(&s, 0, sizeof s);
  s.n = s.shape[0] = 1;
  s.ndim = ndim > 0 ? ndim : 1;
  for (int32_t d = 0; d < ndim; ++d) {
    s.n *= s.shape[d] = views[0]->shape[first + d];
    for (int k = 0; k < N; ++k) s.step[k][d] = views[k]->strides[first + d];
  }
  return s;
}

/* The host cannot wait for the records; the loops inspect them. */
int reduce_mark_overflow_lines(const reduce_overflow_lines *) {
  return 1;
}

int32_t reduce_run_overflow_lines(const reduce_overflow_lines *overflow) {
  const tn_frame *call = overflow->call;
  reduce_view out, out_gradient, data;
  tensor_far_arrays a = {};
  tensor_far_view v = {};
  reduce_view_init(&out, &call->out[0], overflow->axes);
  reduce_view_init(&out_gradient, overflow->out_gradient, overflow->axes);
  reduce_view_init(&data, overflow->data, overflow->axes);
  const reduce_view *const kept[] = {&out, &out_gradient, &data};
  const reduce_view *const gone[] = {&out, &data};
  v.kept = far_steps<3>(kept, 0, out.kept);
  v.gone = far_steps<2>(gone, out.kept, out.tensor.ndim - out.kept);
  v.skips_nan = overflow->skips_nan;
  a.at[FAR_OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  a.at[FAR_HEAD] = tn_cuda_from(overflow->out_gradient);
  a.at[FAR_DATA] = tn_cuda_from(overflow->data);
  a.at[FAR_RESTS] =
      tn_cuda_room((void *)(uintptr_t)overflow->rests, TN_F64, overflow->lines);
  a.at[FAR_RESTS].writes = 0;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start(call, tensor_far, overflow->lines, stream, a, v);
  });
}
