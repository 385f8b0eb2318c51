/* SPDX-License-Identifier: Apache-2.0
 * reduce_slopes.cu: the loops of reduce.h's slopes on CUDA devices.
 */
#include "reduce.h"
#include "tenon/elementwise.cuh"

struct reduce_slope {
  tn_cuda_map map;
};

int32_t reduce_slope_run(const tn_frame *call, const reduce_slope *slope) {
  return tn_cuda_map_run(call, &slope->map, 1);
}

/* x[0] is the gradient of out, x[1] data, x[2] out, or what the product of the
 * others is made of. */
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

/* A quotient of integers that wrapped, the least by -1, is the negative. */
__device__ __forceinline__ double tensor_without(double all, double x) {
  return all / x;
}
__device__ __forceinline__ int64_t tensor_without(int64_t all, int64_t x) {
  return x == -1 ? (int64_t)(0 - (uint64_t)all) : all / x;
}
__device__ __forceinline__ double tensor_times(double a, double b) {
  return a * b;
}
__device__ __forceinline__ int64_t tensor_times(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

template <class C, bool IsNanNone>
struct tensor_others {
  typedef C type;
  enum { n_in = 4 };
  explicit tensor_others(const void *) {}
  __device__ C operator()(const C *x) const {
    const bool is_0 = x[1] == 0;
    if (x[3] != (C)is_0 || (IsNanNone && x[1] != x[1])) return 0;
    return tensor_times(x[0], tensor_without(x[2], is_0 ? (C)1 : x[1]));
  }
};

#define ALL(name)                                              \
  {                                                            \
    tn_cuda_run<name<float>>, tn_cuda_run<name<double>>,       \
        tn_cuda_run<name<int32_t>>, tn_cuda_run<name<int64_t>> \
  }
#define FLOATS(name) \
  { tn_cuda_run<name<float>>, tn_cuda_run<name<double>>, NULL, NULL }
const reduce_slope reduce_where_number = {
    {ALL(tensor_where_number), 0, 2, {0, 1}}};
const reduce_slope reduce_where_equal = {
    {ALL(tensor_where_equal), 0, 3, {0, 1, 2}}};
const reduce_slope reduce_by_sign = {{FLOATS(tensor_by_sign), 0, 2, {0, 1}}};
const reduce_slope reduce_by_share = {
    {FLOATS(tensor_by_share), 0, 3, {0, 1, 2}}};
const reduce_slope reduce_scale = {{ALL(tensor_scale), 0, 1, {0}}};
const reduce_slope reduce_others = {
    {{NULL, tn_cuda_run<tensor_others<double, 0>>, NULL,
      tn_cuda_run<tensor_others<int64_t, 0>>},
     0,
     4,
     {0, 1, 2, 3}}};
const reduce_slope reduce_other_numbers = {
    {{NULL, tn_cuda_run<tensor_others<double, 1>>, NULL,
      tn_cuda_run<tensor_others<int64_t, 0>>},
     0,
     4,
     {0, 1, 2, 3}}};
