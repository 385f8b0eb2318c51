/* SPDX-License-Identifier: Apache-2.0
 * sum.cu: the sums of device.h. In copies, additions and sums of few terms,
 * each thread computes one sum and iterates over the kept axes. A longer sum
 * has a block of threads, or 32 adjacent sums share one; the block reduces the
 * partial sums of its threads. The axes decide the assignment.
 */
#include "sum.h"

#include "tenon/kernel/prefetch.cuh"

enum { THREADS = TN_CUDA_THREADS };
enum { LEAST_ROW = 128 };  /* terms of a sum with a block */
enum { LEAST_COLUMN = 8 }; /* and of sums that share one */
enum { COLUMNS = 32, ROW_BITS = 8, COLUMN_BITS = 3 }; /* threads of a sum */
static_assert(THREADS == 1 << ROW_BITS && THREADS / COLUMNS == 1 << COLUMN_BITS,
              "2 to the power of these");
enum { AHEAD = 8 }; /* terms that a thread loads before it adds them */
static const int64_t most_blocks = 65536;

enum { TO, FROM, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> sum_arrays;

/* Argument of a CUDA kernel; axes as in tn_device_sum. */
struct sum_view {
  int n_kept;
  int n_summed;
  int64_t kept; /* numbers of indices */
  int64_t summed;
  tn_sum_axis axis[TN_MAX_NDIM];
  tn_cuda_divisor by[TN_MAX_NDIM]; /* lengths of the axes */
  double value;                    /* if no FROM terms are summed */
  tn_cuda_divisor by_fours;        /* fours of the last axis */
  unsigned lanes;                  /* sums of one block */
};

/* Adjacent terms. */
template <class T>
struct alignas(4 * sizeof(T)) sum_four {
  T x[4];
};

/* Addressing of terms: by all axes; in lines, along one axis or two; or four
 * terms of a line at a time. */
enum { SUM_ANY, SUM_LINES, SUM_FOURS };

/* Positions of two elements. */
struct sum_place {
  int64_t to;
  int64_t from;
};

/* Position of an index along axes `first` to `last`. */
__device__ __forceinline__ sum_place sum_walk(const sum_view &v, int first,
                                              int last, int64_t index) {
  sum_place at = {0, 0};
  for (int d = last; d > first; --d) {
    const int64_t rest = tn_cuda_quotient(index, v.by[d]);
    const int64_t place = index - rest * v.axis[d].n;
    index = rest;
    at.to += place * v.axis[d].to;
    at.from += place * v.axis[d].from;
  }
  if (first <= last) {
    at.to += index * v.axis[first].to;
    at.from += index * v.axis[first].from;
  }
  return at;
}

__device__ __forceinline__ sum_place sum_kept(const sum_view &v, int64_t i) {
  return sum_walk(v, 0, v.n_kept - 1, i);
}

/* T is the type of sums, F that of their terms: f32 for wide sums of halves,
 * otherwise T. Sums of f16 and bf16 are kept in f32, other floats in f64. Sums
 * of integers wrap, so 64 unsigned bits serve all types; of bool they count. */
template <class T>
struct sum_type {
  typedef uint64_t wide;
};
template <>
struct sum_type<float> {
  typedef double wide;
};
template <>
struct sum_type<double> {
  typedef double wide;
};
template <>
struct sum_type<__half> {
  typedef float wide;
};
template <>
struct sum_type<__nv_bfloat16> {
  typedef float wide;
};

/* Converts a double: for integers modulo 2^64. */
__device__ __forceinline__ uint64_t sum_value(double value, uint64_t) {
  return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

template <class W>
__device__ __forceinline__ W sum_value(double value, W) {
  return (W)value;
}

/* Term i of the sum at `at`. */
template <class T, class F>
__device__ __forceinline__ typename sum_type<T>::wide sum_term(
    const sum_arrays &a, const sum_view &v, int64_t at, int64_t i) {
  typedef typename sum_type<T>::wide W;
  if (a.at[FROM].data == NULL) return sum_value(v.value, W());
  const sum_place more = sum_walk(v, v.n_kept, v.n_kept + v.n_summed - 1, i);
  return tn_cuda_get<W>(((const F *)a.at[FROM].data)[at + more.from]);
}

template <class T>
__device__ __forceinline__ void sum_set(const sum_arrays &a, int64_t at,
                                        typename sum_type<T>::wide value) {
  T *to = (T *)a.at[TO].data + at;
  if (a.at[TO].adds) value += tn_cuda_get<typename sum_type<T>::wide>(*to);
  *to = tn_cuda_put(value, T());
}

/* A thread for each sum. */
template <class T, class F>
__global__ void __launch_bounds__(THREADS) sum_each(sum_arrays a, sum_view v) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i < v.kept; i += step) {
    const sum_place at = sum_kept(v, i);
    typename sum_type<T>::wide total = 0;
    for (int64_t k = 0; k < v.summed; ++k)
      total += sum_term<T, F>(a, v, at.from, k);
    sum_set<T>(a, at.to, total);
  }
}

/* Partial sum of one thread of a block: every n-th term. */
template <class T, class F>
__device__ __forceinline__ typename sum_type<T>::wide sum_of_lines(
    const sum_arrays &a, const sum_view &v, int64_t at, int64_t first,
    int64_t end, unsigned bits) {
  typedef typename sum_type<T>::wide W;
  const int last = v.n_kept + v.n_summed - 1;
  const int64_t lines = v.n_summed == 2 ? v.axis[v.n_kept].from : 0;
  const F *from = (const F *)a.at[FROM].data + at;
  W total = 0;
  tn_cuda_prefetch_along<AHEAD>(
      tn_cuda_walk_of(first, end, bits, v.by[last], lines, v.axis[last].from),
      [&](int64_t k) { return from[k]; },
      [&](int64_t, F term) { total += tn_cuda_get<W>(term); });
  return total;
}

/* Adds the terms of a line that consists of packs of four elements; `end`
 * counts packs. */
template <class T, class F>
__device__ __forceinline__ typename sum_type<T>::wide sum_of_fours(
    const sum_arrays &a, const sum_view &v, int64_t at, int64_t first,
    int64_t end, unsigned bits) {
  typedef typename sum_type<T>::wide W;
  const int64_t lines = v.n_summed == 2 ? v.axis[v.n_kept].from / 4 : 0;
  const sum_four<F> *from =
      (const sum_four<F> *)((const F *)a.at[FROM].data + at);
  W total = 0;
  tn_cuda_prefetch_along<AHEAD>(
      tn_cuda_walk_of(first, end, bits, v.by_fours, lines, 1),
      [&](int64_t k) { return from[k]; },
      [&](int64_t, const sum_four<F> &terms) {
        for (int k = 0; k < 4; ++k) total += tn_cuda_get<W>(terms.x[k]);
      });
  return total;
}

template <class T, class F>
__device__ __forceinline__ typename sum_type<T>::wide sum_of_any(
    const sum_arrays &a, const sum_view &v, int64_t at, int64_t first,
    int64_t end, unsigned bits) {
  typename sum_type<T>::wide total = 0;
  for (int64_t k = first; k < end; k += (int64_t)1 << bits)
    total += sum_term<T, F>(a, v, at, k);
  return total;
}

/* A block for one sum, or for `lanes`. */
template <class T, class F, int HOW>
__global__ void __launch_bounds__(THREADS) sum_rows(sum_arrays a, sum_view v) {
  typedef typename sum_type<T>::wide W;
  __shared__ W part[THREADS];
  const int64_t step = (int64_t)gridDim.x * v.lanes;
  const int64_t terms = HOW == SUM_FOURS ? v.summed / 4 : v.summed;
  const unsigned bits = v.lanes == 1 ? ROW_BITS : COLUMN_BITS;
  int64_t i = (int64_t)blockIdx.x * v.lanes;
  for (; i < v.kept; i += step) {
    const int64_t own = i + threadIdx.x % v.lanes;
    const bool is_there = own < v.kept;
    const sum_place at = sum_kept(v, is_there ? own : i);
    const int64_t first = threadIdx.x / v.lanes, end = is_there ? terms : 0;
    W total =
        HOW == SUM_FOURS   ? sum_of_fours<T, F>(a, v, at.from, first, end, bits)
        : HOW == SUM_LINES ? sum_of_lines<T, F>(a, v, at.from, first, end, bits)
                           : sum_of_any<T, F>(a, v, at.from, first, end, bits);
    total = tn_cuda_reduce(part, total, tn_cuda_plus(), v.lanes);
    if (is_there && threadIdx.x < v.lanes) sum_set<T>(a, at.to, total);
  }
}

/* Copies elements of any type of one width. */
template <class T>
__global__ void __launch_bounds__(THREADS) sum_copy(sum_arrays a, sum_view v) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i < v.kept; i += step) {
    const sum_place at = sum_kept(v, i);
    ((T *)a.at[TO].data)[at.to] = ((const T *)a.at[FROM].data)[at.from];
  }
}

/* -------------------------------------------------------------------- host */

static unsigned blocks_for(int64_t n) {
  return (unsigned)(n < 1 ? 1 : n < most_blocks ? n : most_blocks);
}

/* Number of sums of one block. One, if the terms of a sum are closer in memory
 * than neighbouring sums: then the threads read adjacent memory. Several in the
 * opposite case, for the same reason. 0 if each thread computes one sum. */
static unsigned lanes_of(const sum_view &v) {
  if (v.summed < LEAST_COLUMN) return 0;
  if (v.n_kept == 0) return 1;
  const int64_t along = v.axis[v.n_kept + v.n_summed - 1].from;
  const int64_t across = v.axis[v.n_kept - 1].from;
  const bool is_row =
      (along < 0 ? -along : along) <= (across < 0 ? -across : across);
  if (!is_row) return COLUMNS;
  return v.summed < LEAST_ROW ? 0 : 1;
}

/* Whether lines consist of fours at every start of a sum. */
static bool are_fours(const sum_arrays &a, const sum_view &v) {
  const int last = v.n_kept + v.n_summed - 1;
  const uintptr_t bytes = 4 * (uintptr_t)tn_dtype_bytes(a.at[FROM].dtype);
  bool found = v.lanes == 1 && v.axis[last].from == 1 &&
               v.axis[last].n % 4 == 0 &&
               (uintptr_t)a.at[FROM].data % bytes == 0;
  for (int d = 0; d < last; ++d) found = found && v.axis[d].from % 4 == 0;
  return found;
}

static int how_to(const sum_arrays &a, const sum_view &v) {
  if (a.at[FROM].data == NULL || v.n_summed < 1 || v.n_summed > 2)
    return SUM_ANY;
  return are_fours(a, v) ? SUM_FOURS : SUM_LINES;
}

template <class T, class F>
static cudaError_t run_sum(cudaStream_t stream, const sum_arrays &a,
                           const sum_view &v) {
  const int how = how_to(a, v);
  if (v.lanes == 0)
    return tn_cuda_launch(sum_each<T, F>,
                          blocks_for((v.kept + THREADS - 1) / THREADS), stream,
                          a, v);
  return tn_cuda_launch(how == SUM_FOURS   ? sum_rows<T, F, SUM_FOURS>
                        : how == SUM_LINES ? sum_rows<T, F, SUM_LINES>
                                           : sum_rows<T, F, SUM_ANY>,
                        blocks_for((v.kept + v.lanes - 1) / v.lanes), stream, a,
                        v);
}

static sum_view view_of(const tn_device_sum *sum) {
  sum_view v;
  memset(&v, 0, sizeof v);
  v.n_kept = (int)sum->n_kept;
  v.n_summed = (int)sum->n_summed;
  v.kept = v.summed = 1;
  v.value = sum->value;
  for (uint32_t d = 0; d < sum->n_kept + sum->n_summed; ++d) {
    v.axis[d] = sum->axes[d];
    v.by[d] = tn_cuda_divisor_of(sum->axes[d].n);
    (d < sum->n_kept ? v.kept : v.summed) *= sum->axes[d].n;
  }
  v.lanes = lanes_of(v);
  if (v.n_kept + v.n_summed > 0)
    v.by_fours = tn_cuda_divisor_of(v.axis[v.n_kept + v.n_summed - 1].n / 4);
  return v;
}

/* From the lowest to the highest element of one side. */
static tn_cuda_array array_of(const tn_device_sum *sum, int side) {
  const tn_dtype dtype =
      side == FROM && sum->flags & TN_SUM_WIDE ? TN_F32 : sum->dtype;
  const int64_t width = tn_dtype_bytes(dtype);
  int64_t low = 0, high = 0;
  tn_cuda_array array;
  memset(&array, 0, sizeof array);
  for (uint32_t d = 0; d < sum->n_kept + sum->n_summed; ++d) {
    const tn_sum_axis *axis = &sum->axes[d];
    const int64_t reach = (axis->n - 1) * (side == TO ? axis->to : axis->from);
    (reach < 0 ? low : high) += reach;
  }
  array.data = side == TO ? sum->to : (void *)(uintptr_t)sum->from;
  array.low = low * width;
  array.bytes = (high - low + 1) * width;
  array.dtype = dtype;
  array.writes = side == TO;
  array.adds = side == TO && (sum->flags & TN_SUM_ADD) != 0;
  return array;
}

static int32_t sum_any(cudaStream_t stream, const sum_arrays &a,
                       const sum_view &v) {
  return tn_cuda_by_sum(a.at[TO].dtype, [&](auto type) {
    typedef decltype(type) T;
    return (int32_t)run_sum<T, T>(stream, a, v);
  });
}

static int32_t sum_wide(cudaStream_t stream, const sum_arrays &a,
                        const sum_view &v) {
  return (int32_t)(a.at[TO].dtype == TN_F16
                       ? run_sum<__half, float>(stream, a, v)
                       : run_sum<__nv_bfloat16, float>(stream, a, v));
}

static int32_t copy_any(cudaStream_t stream, const sum_arrays &a,
                        const sum_view &v) {
  return tn_cuda_by_width(tn_dtype_bytes(a.at[TO].dtype), [&](auto type) {
    return (int32_t)tn_cuda_launch(sum_copy<decltype(type)>,
                                   blocks_for((v.kept + THREADS - 1) / THREADS),
                                   stream, a, v);
  });
}

static int sum_run(void *stream, const tn_device_sum *sum) {
  const sum_view v = view_of(sum);
  sum_arrays a;
  a.at[TO] = array_of(sum, TO);
  a.at[FROM] = array_of(sum, FROM);
  if (v.n_summed == 0 && sum->flags == 0 && sum->from != NULL)
    return copy_any((cudaStream_t)stream, a, v);
  if (sum->flags & TN_SUM_WIDE) return sum_wide((cudaStream_t)stream, a, v);
  return sum_any((cudaStream_t)stream, a, v);
}

cuda_sum_fn *const cuda_sum = sum_run;
