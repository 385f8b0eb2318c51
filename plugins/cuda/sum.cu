/* SPDX-License-Identifier: Apache-2.0
 * sum.cu: the sums of device.h. Copies and additions, and sums of which each
 * thread has one, walk the axes that stay; a sum along a row is a block's,
 * whose threads halve what they have found. Who adds what follows from the
 * axes.
 */
#include "sum.h"

#include "tenon/elementwise.cuh"

enum {
  THREADS = 256,  /* of a block */
  LEAST_ROW = 128 /* of a sum that is worth a block */
};
static const int64_t most_blocks = 65536;

/* What a kernel is handed; axes as in tn_device_sum. */
struct sum_view {
  int n_kept;
  int n_summed;
  int add;
  int width;    /* bytes of an element */
  int64_t kept; /* numbers of indices */
  int64_t summed;
  tn_sum_axis axis[TN_MAX_NDIM];
  void *to;
  const void *from;
  double value;
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

/* Sums of f16 and bf16 are kept in f32, others in f64. */
template <class T>
struct sum_type {
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

/* Term i of the sum at `at`. */
template <class T>
__device__ __forceinline__ typename sum_type<T>::wide sum_term(
    const sum_view &v, int64_t at, int64_t i) {
  typedef typename sum_type<T>::wide W;
  if (v.from == NULL) return (W)v.value;
  const sum_place more = sum_walk(v.axis + v.n_kept, v.n_summed, i);
  return tn_cuda_get<W>(((const T *)v.from)[at + more.from]);
}

template <class T>
__device__ __forceinline__ void sum_set(const sum_view &v, int64_t at,
                                        typename sum_type<T>::wide value) {
  T *to = (T *)v.to + at;
  if (v.add) value += tn_cuda_get<typename sum_type<T>::wide>(*to);
  *to = tn_cuda_put(value, T());
}

/* A thread for each sum. */
template <class T>
__global__ void __launch_bounds__(THREADS) sum_each(sum_view v) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i < v.kept; i += step) {
    const sum_place at = sum_walk(v.axis, v.n_kept, i);
    typename sum_type<T>::wide total = 0;
    for (int64_t k = 0; k < v.summed; ++k) total += sum_term<T>(v, at.from, k);
    sum_set<T>(v, at.to, total);
  }
}

/* A block for each sum. */
template <class T>
__global__ void __launch_bounds__(THREADS) sum_row(sum_view v) {
  typedef typename sum_type<T>::wide W;
  __shared__ W part[THREADS];
  for (int64_t i = blockIdx.x; i < v.kept; i += gridDim.x) {
    const sum_place at = sum_walk(v.axis, v.n_kept, i);
    W total = 0;
    for (int64_t k = threadIdx.x; k < v.summed; k += THREADS)
      total += sum_term<T>(v, at.from, k);
    part[threadIdx.x] = total;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) sum_set<T>(v, at.to, part[0]);
    __syncthreads();
  }
}

/* Elements as they are, of any type of a width. */
template <class T>
__global__ void __launch_bounds__(THREADS) sum_copy(sum_view v) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i < v.kept; i += step) {
    const sum_place at = sum_walk(v.axis, v.n_kept, i);
    ((T *)v.to)[at.to] = ((const T *)v.from)[at.from];
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
static void run_sum(cudaStream_t stream, const sum_view &v) {
  if (is_row(v))
    tn_cuda_launch(sum_row<T>, blocks_for(v.kept), stream, v);
  else
    tn_cuda_launch(sum_each<T>, blocks_for((v.kept + THREADS - 1) / THREADS),
                   stream, v);
}

template <class T>
static void run_copy(cudaStream_t stream, const sum_view &v) {
  tn_cuda_launch(sum_copy<T>, blocks_for((v.kept + THREADS - 1) / THREADS),
                 stream, v);
}

static cudaError_t copy_any(cudaStream_t stream, const sum_view &v) {
  switch (v.width) {
    case 1:
      run_copy<uint8_t>(stream, v);
      break;
    case 2:
      run_copy<uint16_t>(stream, v);
      break;
    case 4:
      run_copy<uint32_t>(stream, v);
      break;
    case 8:
      run_copy<uint64_t>(stream, v);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

static cudaError_t sum_any(cudaStream_t stream, const sum_view &v,
                           tn_dtype dtype) {
  switch (dtype) {
    case TN_F16:
      run_sum<__half>(stream, v);
      break;
    case TN_BF16:
      run_sum<__nv_bfloat16>(stream, v);
      break;
    case TN_F32:
      run_sum<float>(stream, v);
      break;
    case TN_F64:
      run_sum<double>(stream, v);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

static sum_view view_of(const tn_device_sum *sum) {
  sum_view v;
  memset(&v, 0, sizeof v);
  v.n_kept = (int)sum->n_kept;
  v.n_summed = (int)sum->n_summed;
  v.add = (sum->flags & TN_SUM_ADD) != 0;
  v.width = (int)tn_dtype_bytes(sum->dtype);
  v.kept = v.summed = 1;
  v.to = sum->to;
  v.from = sum->from;
  v.value = sum->value;
  for (uint32_t d = 0; d < sum->n_kept + sum->n_summed; ++d) {
    v.axis[d] = sum->axes[d];
    (d < sum->n_kept ? v.kept : v.summed) *= sum->axes[d].n;
  }
  return v;
}

static int sum_run(void *stream, const tn_device_sum *sum) {
  const sum_view v = view_of(sum);
  const bool moves = v.n_summed == 0 && v.add == 0 && v.from != NULL;
  return (int)(moves ? copy_any((cudaStream_t)stream, v)
                     : sum_any((cudaStream_t)stream, v, sum->dtype));
}

cuda_sum_fn *const cuda_sum = sum_run;
