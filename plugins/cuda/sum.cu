/* SPDX-License-Identifier: Apache-2.0
 * sum.cu: the sums of device.h. Copies and additions, and sums of which each
 * thread has one, walk the axes that stay; a sum along a row is a block's,
 * whose threads halve what they have found. Who adds what follows from the
 * axes.
 */
#include "sum.h"

#include "tenon/kernel.cuh"

enum { THREADS = TN_CUDA_THREADS };
enum { LEAST_ROW = 128 }; /* of a sum that is worth a block */
static const int64_t most_blocks = 65536;

enum { TO, FROM, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> sum_arrays;

/* What a kernel is handed; axes as in tn_device_sum. */
struct sum_view {
  int n_kept;
  int n_summed;
  int64_t kept; /* numbers of indices */
  int64_t summed;
  tn_sum_axis axis[TN_MAX_NDIM];
  double value; /* where nothing is summed FROM */
};

/* Two elements' places. */
struct sum_place {
  int64_t to;
  int64_t from;
};

__device__ __forceinline__ sum_place sum_walk(const tn_sum_axis *axis, int n,
                                              int64_t index) {
  sum_place at = {0, 0};
  for (int d = n - 1; d >= 0; --d) {
    const int64_t place = index % axis[d].n;
    index /= axis[d].n;
    at.to += place * axis[d].to;
    at.from += place * axis[d].from;
  }
  return at;
}

/* Sums of f16 and bf16 are kept in f32, other floats in f64. Those of integers
 * wrap, so that 64 bits without a sign serve them all; of bool they count. */
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

/* What a double says: of integers modulo 2^64. */
__device__ __forceinline__ uint64_t sum_value(double value, uint64_t) {
  return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

template <class W>
__device__ __forceinline__ W sum_value(double value, W) {
  return (W)value;
}

/* Term i of the sum at `at`. */
template <class T>
__device__ __forceinline__ typename sum_type<T>::wide sum_term(
    const sum_arrays &a, const sum_view &v, int64_t at, int64_t i) {
  typedef typename sum_type<T>::wide W;
  if (a.at[FROM].data == NULL) return sum_value(v.value, W());
  const sum_place more = sum_walk(v.axis + v.n_kept, v.n_summed, i);
  return tn_cuda_get<W>(((const T *)a.at[FROM].data)[at + more.from]);
}

template <class T>
__device__ __forceinline__ void sum_set(const sum_arrays &a, int64_t at,
                                        typename sum_type<T>::wide value) {
  T *to = (T *)a.at[TO].data + at;
  if (a.at[TO].adds) value += tn_cuda_get<typename sum_type<T>::wide>(*to);
  *to = tn_cuda_put(value, T());
}

/* A thread for each sum. */
template <class T>
__global__ void __launch_bounds__(THREADS) sum_each(sum_arrays a, sum_view v) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i < v.kept; i += step) {
    const sum_place at = sum_walk(v.axis, v.n_kept, i);
    typename sum_type<T>::wide total = 0;
    for (int64_t k = 0; k < v.summed; ++k)
      total += sum_term<T>(a, v, at.from, k);
    sum_set<T>(a, at.to, total);
  }
}

/* A block for each sum. */
template <class T>
__global__ void __launch_bounds__(THREADS) sum_row(sum_arrays a, sum_view v) {
  typedef typename sum_type<T>::wide W;
  __shared__ W part[THREADS];
  for (int64_t i = blockIdx.x; i < v.kept; i += gridDim.x) {
    const sum_place at = sum_walk(v.axis, v.n_kept, i);
    W total = 0;
    for (int64_t k = threadIdx.x; k < v.summed; k += THREADS)
      total += sum_term<T>(a, v, at.from, k);
    total = tn_cuda_fold(part, total, tn_cuda_plus());
    if (threadIdx.x == 0) sum_set<T>(a, at.to, total);
  }
}

/* Elements as they are, of any type of a width. */
template <class T>
__global__ void __launch_bounds__(THREADS) sum_copy(sum_arrays a, sum_view v) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i < v.kept; i += step) {
    const sum_place at = sum_walk(v.axis, v.n_kept, i);
    ((T *)a.at[TO].data)[at.to] = ((const T *)a.at[FROM].data)[at.from];
  }
}

/* --------------------------------------------------------------------- host */

static unsigned blocks_for(int64_t n) {
  return (unsigned)(n < 1 ? 1 : n < most_blocks ? n : most_blocks);
}

/* Whether neighbours in a sum lie closer than neighbouring sums do: then the
 * threads of a block read what lies together. */
static bool is_row(const sum_view &v) {
  if (v.summed < LEAST_ROW) return false;
  if (v.n_kept == 0) return true;
  const int64_t along = v.axis[v.n_kept + v.n_summed - 1].from;
  const int64_t across = v.axis[v.n_kept - 1].from;
  return (along < 0 ? -along : along) <= (across < 0 ? -across : across);
}

template <class T>
static void run_sum(cudaStream_t stream, const sum_arrays &a,
                    const sum_view &v) {
  if (is_row(v))
    tn_cuda_launch(sum_row<T>, blocks_for(v.kept), stream, a, v);
  else
    tn_cuda_launch(sum_each<T>, blocks_for((v.kept + THREADS - 1) / THREADS),
                   stream, a, v);
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
    (d < sum->n_kept ? v.kept : v.summed) *= sum->axes[d].n;
  }
  return v;
}

/* From the lowest to the highest element of one side. */
static tn_cuda_array array_of(const tn_device_sum *sum, int side) {
  const int64_t width = tn_dtype_bytes(sum->dtype);
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
  array.dtype = sum->dtype;
  array.writes = side == TO;
  array.adds = side == TO && (sum->flags & TN_SUM_ADD) != 0;
  return array;
}

static int32_t sum_any(cudaStream_t stream, const sum_arrays &a,
                       const sum_view &v) {
  return tn_cuda_by_sum(a.at[TO].dtype, [&](auto type) {
    run_sum<decltype(type)>(stream, a, v);
    return (int32_t)cudaGetLastError();
  });
}

static int32_t copy_any(cudaStream_t stream, const sum_arrays &a,
                        const sum_view &v) {
  return tn_cuda_by_width(tn_dtype_bytes(a.at[TO].dtype), [&](auto type) {
    tn_cuda_launch(sum_copy<decltype(type)>,
                   blocks_for((v.kept + THREADS - 1) / THREADS), stream, a, v);
    return (int32_t)cudaGetLastError();
  });
}

static int sum_run(void *stream, const tn_device_sum *sum) {
  const sum_view v = view_of(sum);
  sum_arrays a;
  a.at[TO] = array_of(sum, TO);
  a.at[FROM] = array_of(sum, FROM);
  if (v.n_summed == 0 && !a.at[TO].adds && sum->from != NULL)
    return copy_any((cudaStream_t)stream, a, v);
  return sum_any((cudaStream_t)stream, a, v);
}

cuda_sum_fn *const cuda_sum = sum_run;
