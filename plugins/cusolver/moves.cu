/* SPDX-License-Identifier: Apache-2.0
 * moves.cu: the kernels of moves.h. A thread moves one element; a block reduces
 * one vector, or one diagonal.
 */
#include "moves.h"

#include "tenon/kernel/kernel.cuh"

enum { TO, FROM, ODD, INFO, SECOND, PIVOTS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> cusolver_arrays;

/* -------------------------------------------------------------------- flags */

enum { FLAGS, LISTS = 2, N_FLAGS = 4 };

/* Addresses are numbers here: the kernel stores them, and reads nothing there.
 */
struct cusolver_addresses {
  int64_t count;
  uint64_t first[2];
  int64_t bytes[2];
  int32_t n;
  int32_t pad;
};

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    cusolver_clear_each(tn_cuda_arrays<N_FLAGS> s, cusolver_addresses v) {
  const int64_t stride = (int64_t)gridDim.x * TN_CUDA_THREADS;
  for (int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
       i < v.count; i += stride) {
    ((int32_t *)s.at[FLAGS].data)[i] = 0;
    ((int32_t *)s.at[FLAGS + 1].data)[i] = 0;
    for (int k = 0; k < v.n; ++k)
      ((uint64_t *)s.at[LISTS + k].data)[i] =
          v.first[k] + (uint64_t)(i * v.bytes[k]);
  }
}

int32_t cusolver_clear_flags(const tn_frame *call, const cusolver_flags *flags,
                             const cusolver_list *lists, int n) {
  tn_cuda_arrays<N_FLAGS> s = {};
  cusolver_addresses v = {};
  v.count = flags->count;
  v.n = n;
  s.at[FLAGS] = tn_cuda_room(flags->odd, TN_I32, flags->count);
  s.at[FLAGS + 1] = tn_cuda_room(flags->info, TN_I32, flags->count);
  for (int k = 0; k < n; ++k) {
    s.at[LISTS + k] = tn_cuda_room(lists[k].to, TN_I64, flags->count);
    v.first[k] = (uint64_t)(uintptr_t)lists[k].first;
    v.bytes[k] = lists[k].bytes;
  }
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, cusolver_clear_each, v.count, stream, s, v);
  });
}

/* -------------------------------------------------------------------- moves */

struct cusolver_extent {
  int64_t count, rows, columns, ld, step;
  int32_t part, transposes;
  int32_t is_in; /* 1: copy_in */
  int32_t pad;
};

/* Element (i, j) of a result. */
template <class T>
__device__ __forceinline__ T cusolver_read(const T *from,
                                           const cusolver_extent &v, int64_t i,
                                           int64_t j) {
  if (v.part == CUSOLVER_IDENTITY) return i == j ? (T)1 : (T)0;
  if (v.part == CUSOLVER_LOWER && i < j) return (T)0;
  if (v.part == CUSOLVER_UPPER && i > j) return (T)0;
  const bool mirrors = (v.part == CUSOLVER_MIRROR_LOWER && i < j) ||
                       (v.part == CUSOLVER_MIRROR_UPPER && i > j);
  const bool turns = mirrors != (v.transposes != 0);
  return turns ? from[j * v.ld + i] : from[i * v.ld + j];
}

__device__ __forceinline__ bool cusolver_is_bad(const cusolver_arrays &s,
                                                int64_t matrix) {
  return ((const int32_t *)s.at[ODD].data)[matrix] != 0 ||
         ((const int32_t *)s.at[INFO].data)[matrix] > 0;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    cusolver_move_each(cusolver_arrays s, cusolver_extent v) {
  const int64_t size = v.rows * v.columns;
  const int64_t stride = (int64_t)gridDim.x * TN_CUDA_THREADS;
  for (int64_t at = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
       at < v.count * size; at += stride) {
    const int64_t matrix = at / size, k = at % size;
    T x = cusolver_read((const T *)s.at[FROM].data + matrix * v.step, v,
                        k / v.columns, k % v.columns);
    if (v.is_in && !(x - x == 0)) {
      ((int32_t *)s.at[ODD].data)[matrix] = 1;
      x = 0;
    }
    if (!v.is_in && cusolver_is_bad(s, matrix)) x = (T)NAN;
    ((T *)s.at[TO].data)[at] = x;
  }
}

static tn_cuda_array cusolver_read_only(const void *data, tn_dtype dtype,
                                        int64_t n) {
  tn_cuda_array array = tn_cuda_room((void *)(uintptr_t)data, dtype, n);
  array.writes = 0;
  return array;
}

static void cusolver_use_flags(const cusolver_flags *flags,
                               cusolver_arrays *s) {
  s->at[ODD] = cusolver_read_only(flags->odd, TN_I32, flags->count);
  s->at[INFO] = cusolver_read_only(flags->info, TN_I32, flags->count);
}

static int32_t cusolver_launch_move(const tn_frame *call,
                                    const cusolver_flags *flags,
                                    const cusolver_move *move, bool is_in) {
  const tn_dtype dtype = call->in[0].dtype;
  const int64_t rows = move->transposes ? move->columns : move->rows;
  const int64_t columns = move->transposes ? move->rows : move->columns;
  const int64_t total = flags->count * move->rows * move->columns;
  cusolver_arrays s = {};
  const cusolver_extent v = {flags->count,     move->rows,    move->columns,
                             move->ld,         move->step,    move->part,
                             move->transposes, is_in ? 1 : 0, 0};
  cusolver_use_flags(flags, &s);
  s.at[ODD].writes = is_in ? 1 : 0;
  s.at[TO] = tn_cuda_room(move->to, dtype, total);
  if (move->part != CUSOLVER_IDENTITY)
    s.at[FROM] = cusolver_read_only(
        move->from, dtype,
        (flags->count - 1) * move->step + (rows - 1) * move->ld + columns);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(dtype, [&](auto type) {
      return tn_cuda_start_each(call, cusolver_move_each<decltype(type)>, total,
                                stream, s, v);
    });
  });
}

int32_t cusolver_copy_in(const tn_frame *call, const cusolver_flags *flags,
                         const cusolver_move *move) {
  return cusolver_launch_move(call, flags, move, true);
}

int32_t cusolver_copy_out(const tn_frame *call, const cusolver_flags *flags,
                          const cusolver_move *move) {
  return cusolver_launch_move(call, flags, move, false);
}

/* -------------------------------------------------------------------- signs */

struct cusolver_signs {
  int64_t count, n;
  int64_t length[2], step[2], next[2];
};

/* Whether the first element with the largest magnitude is negative; for all
 * threads. */
template <class T>
__device__ bool cusolver_is_negative(const T *x, int64_t length, int64_t step,
                                     T *part, int64_t *places) {
  T most = 0;
  for (int64_t k = threadIdx.x; k < length; k += TN_CUDA_THREADS)
    if (fabs(x[k * step]) > most) most = fabs(x[k * step]);
  most = tn_cuda_reduce(part, most, tn_cuda_largest());
  int64_t place = length;
  for (int64_t k = threadIdx.x; k < place; k += TN_CUDA_THREADS)
    if (fabs(x[k * step]) == most) place = k;
  place = tn_cuda_reduce(places, place, tn_cuda_least());
  return place < length && x[place * step] < 0;
}

/* Sets a vector to NaN, negates it, or leaves it; with all threads. */
template <class T>
__device__ void cusolver_change_vector(T *x, int64_t length, int64_t step,
                                       bool is_bad, bool negates) {
  for (int64_t k = threadIdx.x; k < length; k += TN_CUDA_THREADS) {
    T *to = x + k * step;
    if (is_bad)
      *to = (T)NAN;
    else if (negates)
      *to = -*to;
  }
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    cusolver_sign_each(cusolver_arrays s, cusolver_signs v) {
  __shared__ T part[TN_CUDA_THREADS];
  __shared__ int64_t places[TN_CUDA_THREADS];
  for (int64_t at = blockIdx.x; at < v.count * v.n; at += gridDim.x) {
    const int64_t matrix = at / v.n, i = at % v.n;
    T *first = (T *)s.at[TO].data + matrix * v.n * v.length[0] + i * v.next[0];
    const bool is_bad = cusolver_is_bad(s, matrix);
    const bool negates =
        cusolver_is_negative(first, v.length[0], v.step[0], part, places);
    __syncthreads();
    for (int which = 0; which < 2; ++which) {
      if (s.at[which == 0 ? TO : SECOND].data == NULL) continue;
      T *x = (T *)s.at[which == 0 ? TO : SECOND].data +
             matrix * v.n * v.length[which] + i * v.next[which];
      cusolver_change_vector(x, v.length[which], v.step[which], is_bad,
                             negates);
    }
    __syncthreads();
  }
}

int32_t cusolver_choose_signs(const tn_frame *call, const cusolver_flags *flags,
                              int64_t n, const cusolver_vectors *first,
                              const cusolver_vectors *second) {
  const tn_dtype dtype = call->in[0].dtype;
  const cusolver_vectors none = {};
  if (second == NULL) second = &none;
  cusolver_arrays s = {};
  const cusolver_signs v = {flags->count,
                            n,
                            {first->length, second->length},
                            {first->step, second->step},
                            {first->next, second->next}};
  cusolver_use_flags(flags, &s);
  s.at[TO] = tn_cuda_room(first->at, dtype, flags->count * n * first->length);
  s.at[SECOND] =
      tn_cuda_room(second->at, dtype, flags->count * n * second->length);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(dtype, [&](auto type) {
      return tn_cuda_start(call, cusolver_sign_each<decltype(type)>,
                           flags->count * n, stream, s, v);
    });
  });
}

/* ------------------------------------------------------------- determinants */

enum { LOGARITHM = SECOND };

struct cusolver_times {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a * b;
  }
};

struct cusolver_diagonals {
  int64_t count, n;
  int32_t is_logarithm;
  int32_t pad;
};

/* TO is the determinant, or its sign. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    cusolver_determine_each(cusolver_arrays s, cusolver_diagonals v) {
  __shared__ T part[TN_CUDA_THREADS];
  for (int64_t matrix = blockIdx.x; matrix < v.count; matrix += gridDim.x) {
    const T *a = (const T *)s.at[FROM].data + matrix * v.n * v.n;
    const int32_t *pivots = (const int32_t *)s.at[PIVOTS].data + matrix * v.n;
    const bool is_odd = ((const int32_t *)s.at[ODD].data)[matrix] != 0;
    const bool is_singular = ((const int32_t *)s.at[INFO].data)[matrix] > 0;
    T product = 1, sum = 0;
    for (int64_t i = threadIdx.x; i < v.n; i += TN_CUDA_THREADS) {
      const T d = a[i * (v.n + 1)];
      const T sign = pivots[i] == (int32_t)(i + 1) ? (T)1 : (T)-1;
      product *= v.is_logarithm ? (d < 0 ? -sign : sign) : d * sign;
      if (v.is_logarithm) sum += log(fabs(d));
    }
    product = tn_cuda_reduce(part, product, cusolver_times());
    sum = tn_cuda_reduce(part, sum, tn_cuda_plus());
    if (is_singular) product = 0, sum = (T)-INFINITY;
    if (is_odd) product = sum = (T)NAN;
    if (threadIdx.x == 0 && s.at[TO].data != NULL)
      ((T *)s.at[TO].data)[matrix] = product;
    if (threadIdx.x == 0 && s.at[LOGARITHM].data != NULL)
      ((T *)s.at[LOGARITHM].data)[matrix] = sum;
    __syncthreads();
  }
}

int32_t cusolver_write_determinants(const tn_frame *call,
                                    const cusolver_flags *flags,
                                    const cusolver_determinants *what) {
  const tn_dtype dtype = call->in[0].dtype;
  const cusolver_diagonals v = {flags->count, what->n, what->det == NULL, 0};
  cusolver_arrays s = {};
  cusolver_use_flags(flags, &s);
  s.at[FROM] = cusolver_read_only(what->factors, dtype,
                                  flags->count * what->n * what->n);
  s.at[PIVOTS] =
      cusolver_read_only(what->pivots, TN_I32, flags->count * what->n);
  s.at[TO] = tn_cuda_room(what->det != NULL ? what->det : what->sign, dtype,
                          flags->count);
  s.at[LOGARITHM] = tn_cuda_room(what->logarithm, dtype, flags->count);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(dtype, [&](auto type) {
      return tn_cuda_start(call, cusolver_determine_each<decltype(type)>,
                           flags->count, stream, s, v);
    });
  });
}
