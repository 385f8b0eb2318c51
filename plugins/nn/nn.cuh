/* SPDX-License-Identifier: Apache-2.0
 * nn.cuh: the common part of this plugin's CUDA kernels: functions of both
 * types, loops over elements and packs of them, and reductions of lines.
 * rows.cuh has rows, channels.cuh sums of channels. All tensors are dense; T is
 * the type of elements, nn_compute_type<T> the type of the computation.
 */
#ifndef NN_NN_CUH_
#define NN_NN_CUH_

#include "tenon/kernel/prefetch.cuh"

/* --------------------------------------------------------------- functions */

#define NN_FUNCTION(name, single, twice)             \
  __device__ __forceinline__ float name(float x) {   \
    return single(x);                                \
  }                                                  \
  __device__ __forceinline__ double name(double x) { \
    return twice(x);                                 \
  }
NN_FUNCTION(nn_exp, expf, exp)
NN_FUNCTION(nn_expm1, expm1f, expm1)
NN_FUNCTION(nn_log, logf, log)
#undef NN_FUNCTION

/* ---------------------------------------------------------------- elements */

template <class T>
using nn_compute_type = typename tn_cuda_compute<T>::type;

/* Loads element i of an array in the type of the computation. */
template <class T>
__device__ __forceinline__ nn_compute_type<T> nn_load_element(
    const tn_cuda_array &array, int64_t i) {
  return tn_cuda_get<nn_compute_type<T>>(((const T *)array.data)[i]);
}

/* Stores `value` as element i of an array, or adds it to the old element. */
template <class T>
__device__ __forceinline__ void nn_store_element(const tn_cuda_array &array,
                                                 int64_t i,
                                                 nn_compute_type<T> value) {
  tn_cuda_set((T *)array.data + i, value, array.adds);
}

/* Stores the mean or rstd of line i, if the array is present. If T is f16 or
 * bf16, the array may be f32: then its values are read again by the backward
 * pass. */
template <class T>
__device__ __forceinline__ void nn_store_moment(const tn_cuda_array &to,
                                                int64_t i,
                                                nn_compute_type<T> value) {
  if (to.data == NULL) return;
  if (sizeof(T) < sizeof(float) && to.dtype == TN_F32)
    ((float *)to.data)[i] = (float)value;
  else
    nn_store_element<T>(to, i, value);
}

/* The indices of one thread among n: for (i = nn_first_index(); i < n; i +=
 * nn_index_step()) */
__device__ __forceinline__ int64_t nn_first_index(void) {
  return (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
}

/* Returns the distance of a thread's indices: the number of all threads. */
__device__ __forceinline__ int64_t nn_index_step(void) {
  return (int64_t)gridDim.x * TN_CUDA_THREADS;
}

/* N adjacent elements, 1 or 4, in one load or store. */
template <class T, int N>
struct alignas(N * sizeof(T)) nn_pack {
  T x[N];
};

/* Whether an array of n elements consists of whole packs of four, and is
 * aligned to them; true for an array without data. */
static inline bool nn_has_packs_of_4(const tn_cuda_array &array, int64_t n) {
  const uintptr_t bytes = 4 * (uintptr_t)tn_dtype_bytes(array.dtype);
  return array.data == NULL ||
         (n % 4 == 0 && (uintptr_t)array.data % bytes == 0);
}

/* Loads pack i of an array in the type of the computation. */
template <class T, int N>
__device__ __forceinline__ nn_pack<nn_compute_type<T>, N> nn_load_pack(
    const tn_cuda_array &array, int64_t i) {
  const nn_pack<T, N> in = ((const nn_pack<T, N> *)array.data)[i];
  nn_pack<nn_compute_type<T>, N> out;
#pragma unroll
  for (int k = 0; k < N; ++k)
    out.x[k] = tn_cuda_get<nn_compute_type<T>>(in.x[k]);
  return out;
}

/* Stores pack i of an array, or adds it to the old elements. */
template <class T, int N>
__device__ __forceinline__ void nn_store_pack(
    const tn_cuda_array &array, int64_t i,
    const nn_pack<nn_compute_type<T>, N> &value) {
  nn_pack<T, N> *to = (nn_pack<T, N> *)array.data + i;
  nn_pack<T, N> out;
  if (array.adds) out = *to;
#pragma unroll
  for (int k = 0; k < N; ++k) tn_cuda_set(&out.x[k], value.x[k], array.adds);
  *to = out;
}

template <int N>
struct nn_pack_size {
  enum { value = N };
};

/* Calls `run` with an nn_pack_size: 4 if are_fours, otherwise 1. */
template <class Run>
static inline int32_t nn_run_by_pack_size(bool are_fours, Run run) {
  return are_fours ? run(nn_pack_size<4>()) : run(nn_pack_size<1>());
}

/* ------------------------------------------------------------------- lines */

/* Returns the least power of 2 that is not below n, at most `most`, a power
 * of 2. */
static inline unsigned nn_round_to_power_of_2(int64_t n, unsigned most) {
  unsigned lanes = 1;
  while (lanes < most && lanes < n) lanes *= 2;
  return lanes;
}

/* A dense tensor as lines along an axis. Element k of line o*inner + s is
 * element (o*length + k)*inner + s of the tensor. A block processes `lanes`
 * lines at a time. */
struct nn_lines {
  int64_t outer;
  int64_t length;
  int64_t inner;
  unsigned lanes;
  tn_cuda_divisor by_inner;
};

/* A thread's part of its line: for (k = line.first; k < line.end; k +=
 * line.step), with element k at line.at + k*inner. */
struct nn_line {
  int64_t number;
  int64_t at;
  int64_t first;
  int64_t end; /* 0 if the thread has no line */
  int64_t step;
  int leads; /* true for one thread of each line */
};

/* Returns the line of the calling thread in the group of lines of one block. */
__device__ __forceinline__ nn_line nn_locate_line(const nn_lines &v,
                                                  int64_t group) {
  nn_line line;
  line.number = group * v.lanes + threadIdx.x % v.lanes;
  const int64_t before = tn_cuda_quotient(line.number, v.by_inner) * v.inner;
  line.at = before * v.length + (line.number - before);
  line.first = threadIdx.x / v.lanes;
  line.step = TN_CUDA_THREADS / v.lanes;
  const bool inside = line.number < v.outer * v.inner;
  line.end = inside ? v.length : 0;
  line.leads = inside && line.first == 0;
  return line;
}

/* Returns the number of blocks that all lines need. */
static __host__ __device__ inline int64_t nn_count_line_blocks(
    const nn_lines &v) {
  return (v.outer * v.inner + v.lanes - 1) / v.lanes;
}

/* Chooses `lanes` so that adjacent threads read adjacent memory. If lines are
 * interleaved (inner > 1), a block has up to 32 adjacent lines. It has one line
 * for each thread if there are many lines and none is long. If lines are
 * contiguous, a block has as many short lines as its threads can process. */
static inline nn_lines nn_choose_lines(int64_t outer, int64_t length,
                                       int64_t inner) {
  enum { MANY = 1 << 15, SHORT = 256 };
  const int alone = inner >= 32 && outer * inner >= MANY && length <= SHORT;
  nn_lines v = {outer, length, inner, 1, tn_cuda_divisor_of(inner)};
  if (inner > 1)
    v.lanes =
        alone ? (unsigned)TN_CUDA_THREADS : nn_round_to_power_of_2(inner, 32);
  while (inner == 1 && v.lanes < TN_CUDA_THREADS &&
         2 * v.lanes * length <= TN_CUDA_THREADS)
    v.lanes *= 2;
  return v;
}

/* Returns the lines of a tensor along dimensions `first` to `last`, which are
 * treated as one axis. */
static inline nn_lines nn_find_lines(const tn_tensor *tensor, int32_t first,
                                     int32_t last) {
  int64_t outer = 1, length = 1, inner = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d)
    (d < first ? outer : d > last ? inner : length) *= tensor->shape[d];
  return nn_choose_lines(outer, length, inner);
}

#endif /* NN_NN_CUH_ */
