/* SPDX-License-Identifier: Apache-2.0
 * factors.cu: trsm of triangular.yaml and the operators of cholesky.yaml on
 * CUDA devices. A block factorises one matrix in its place; a thread solves for
 * one right-hand side.
 *
 * No device kernel waits for the host, so a matrix without a result is no
 * error: its result is NaN.
 */
#include "cholesky.gen.h"
#include "triangular.gen.h"

#include "linalg.cuh"

enum { OUT, IN, ROOM, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> linalg_factor_arrays;

/* ---------------------------------------------------------- triangular ones */

/* Equations op(a) x = alpha b: those of one column on the left side, and of one
 * row on the right. Element (i, j) of op(a) is at i * row + j * column. */
struct linalg_equations {
  int64_t count;
  int64_t n;     /* unknowns */
  int64_t sides; /* right-hand sides of a matrix */
  int64_t next;  /* between right-hand sides */
  int64_t step;  /* between elements of one */
  int64_t row, column;
  int64_t is_lower;
  double alpha;
};

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    linalg_solve_triangular(linalg_factor_arrays s, linalg_equations v) {
  for (int64_t at = linalg_first(); at < v.count * v.sides;
       at += linalg_stride()) {
    const int64_t matrix = at / v.sides, side = at % v.sides;
    const T *a = (const T *)s.at[IN].data + matrix * v.n * v.n;
    T *x = (T *)s.at[OUT].data + matrix * v.n * v.sides + side * v.next;
    const T *b =
        (const T *)s.at[ROOM].data + matrix * v.n * v.sides + side * v.next;
    for (int64_t k = 0; k < v.n; ++k) {
      const int64_t i = v.is_lower ? k : v.n - 1 - k;
      T sum = (T)v.alpha * b[i * v.step];
      for (int64_t l = 0; l < k; ++l) {
        const int64_t j = v.is_lower ? l : v.n - 1 - l;
        sum -= a[i * v.row + j * v.column] * x[j * v.step];
      }
      x[i * v.step] = sum / a[i * (v.row + v.column)];
    }
  }
}

template <class Params>
static int32_t linalg_launch_trsm(const tn_frame *call, const Params *params,
                                  bool inverts) {
  const tn_tensor *b = &call->in[1];
  const int64_t n = linalg_columns(&call->in[0]);
  const bool right = params->rightside != 0;
  const bool transpose = (params->transpose != 0) != inverts;
  /* Rows x op(a) = b are columns op(a)^T x = b. */
  const bool by_columns = transpose != right;
  linalg_factor_arrays s = {};
  linalg_equations v = {};
  v.count = linalg_count(b, 2);
  v.n = n;
  v.sides = right ? linalg_rows(b) : linalg_columns(b);
  v.next = right ? linalg_columns(b) : 1;
  v.step = right ? 1 : linalg_columns(b);
  v.row = by_columns ? 1 : n;
  v.column = by_columns ? n : 1;
  v.is_lower = (params->lower != 0) != by_columns;
  v.alpha = params->alpha;
  s.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  s.at[IN] = tn_cuda_from(&call->in[0]);
  s.at[ROOM] = tn_cuda_from(b);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(b->dtype, [&](auto type) {
      return tn_cuda_start_each(call, linalg_solve_triangular<decltype(type)>,
                                n > 0 ? v.count * v.sides : 0, stream, s, v);
    });
  });
}

int32_t linalg_trsm(const tn_frame *call) {
  return linalg_launch_trsm(call, linalg_trsm_params_of(call), false);
}

int32_t linalg_trsm_back(const tn_frame *call) {
  return linalg_launch_trsm(call, linalg_trsm_back_params_of(call), true);
}

int32_t linalg_trsm_bytes(const tn_frame *call, uint64_t *bytes) {
  (void)call;
  *bytes = 0;
  return TN_OK;
}

int32_t linalg_trsm_back_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_trsm_bytes(call, bytes);
}

/* ---------------------------------------------------------------- cholesky */

/* Element (i, j) of the lower triangle is at i * row + j * column of out and
 * in: an upper one is its transpose. */
struct linalg_triangles {
  int64_t count;
  int64_t n;
  int64_t row;
  int64_t column;
};

/* Whether a number of each thread is 0 in none: for all threads. */
__device__ __forceinline__ bool linalg_all(int *part, int mine) {
  return tn_cuda_reduce(part, mine ? 0 : 1, tn_cuda_plus()) == 0;
}

/* Copies the lower triangle, with zeros above it; reports whether all of its
 * elements are finite. */
template <class T>
__device__ bool linalg_copy_lower(const linalg_triangles &v, const T *from,
                                  T *to, int *part) {
  int finite = 1;
  for (int64_t at = threadIdx.x; at < v.n * v.n; at += TN_CUDA_THREADS) {
    const int64_t i = at / v.n, j = at % v.n;
    const T x = i < j ? (T)0 : from[i * v.row + j * v.column];
    finite &= x - x == 0;
    to[i * v.row + j * v.column] = x;
  }
  return linalg_all(part, finite);
}

template <class T>
__device__ void linalg_fill_nan(T *to, int64_t size) {
  for (int64_t at = threadIdx.x; at < size; at += TN_CUDA_THREADS)
    to[at] = (T)NAN;
}

/* The factor of one matrix in its place, column by column. Every thread returns
 * whether there is one. */
template <class T>
__device__ bool linalg_factorise_lower(const linalg_triangles &v, T *a) {
  for (int64_t k = 0; k < v.n; ++k) {
    const T pivot = a[k * (v.row + v.column)];
    if (!(pivot > 0)) return false;
    __syncthreads();
    const T root = sqrt(pivot);
    for (int64_t i = k + (int64_t)threadIdx.x; i < v.n; i += TN_CUDA_THREADS)
      a[i * v.row + k * v.column] =
          i == k ? root : a[i * v.row + k * v.column] / root;
    __syncthreads();
    const int64_t rest = v.n - k - 1;
    for (int64_t at = threadIdx.x; at < rest * rest; at += TN_CUDA_THREADS) {
      const int64_t i = k + 1 + at / rest, j = k + 1 + at % rest;
      if (j <= i)
        a[i * v.row + j * v.column] -=
            a[i * v.row + k * v.column] * a[j * v.row + k * v.column];
    }
    __syncthreads();
  }
  return true;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    linalg_factor_each(linalg_factor_arrays s, linalg_triangles v) {
  __shared__ int part[TN_CUDA_THREADS];
  const int64_t size = v.n * v.n;
  for (int64_t matrix = blockIdx.x; matrix < v.count; matrix += gridDim.x) {
    T *a = (T *)s.at[OUT].data + matrix * size;
    bool done =
        linalg_copy_lower(v, (const T *)s.at[IN].data + matrix * size, a, part);
    __syncthreads();
    if (done) done = linalg_factorise_lower(v, a);
    __syncthreads();
    if (!done) linalg_fill_nan(a, size);
    __syncthreads();
  }
}

/* The inverse of a lower triangle: a thread computes one column. */
template <class T>
__device__ void linalg_invert_lower(const linalg_triangles &v, const T *a,
                                    T *to) {
  for (int64_t j = threadIdx.x; j < v.n; j += TN_CUDA_THREADS)
    for (int64_t i = 0; i < v.n; ++i) {
      T sum = i == j ? (T)1 : (T)0;
      for (int64_t k = j; k < i; ++k)
        sum -= a[i * v.row + k * v.column] * to[k * v.n + j];
      to[i * v.n + j] = i < j ? (T)0 : sum / a[i * (v.row + v.column)];
    }
}

/* With m = a^-1 the result is m^T m. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    linalg_invert_each(linalg_factor_arrays s, linalg_triangles v) {
  __shared__ int part[TN_CUDA_THREADS];
  const int64_t size = v.n * v.n;
  for (int64_t matrix = blockIdx.x; matrix < v.count; matrix += gridDim.x) {
    const T *a = (const T *)s.at[IN].data + matrix * size;
    T *room = (T *)s.at[ROOM].data + matrix * size;
    T *out = (T *)s.at[OUT].data + matrix * size;
    int regular = 1;
    for (int64_t i = threadIdx.x; i < v.n; i += TN_CUDA_THREADS)
      for (int64_t j = 0; j <= i; ++j) {
        const T x = a[i * v.row + j * v.column];
        regular &= x - x == 0 && !(i == j && x == 0);
      }
    if (!linalg_all(part, regular)) {
      linalg_fill_nan(out, size);
      continue;
    }
    linalg_invert_lower(v, a, room);
    __syncthreads();
    for (int64_t at = threadIdx.x; at < size; at += TN_CUDA_THREADS) {
      const int64_t i = at / v.n, j = at % v.n;
      T sum = 0;
      for (int64_t k = i > j ? i : j; k < v.n; ++k)
        sum += room[k * v.n + i] * room[k * v.n + j];
      out[at] = sum;
    }
    __syncthreads();
  }
}

/* -------------------------------------------------------------------- host */

static linalg_triangles linalg_find_triangles(const tn_frame *call,
                                              bool is_lower) {
  const int64_t n = linalg_columns(&call->in[0]);
  linalg_triangles v = {linalg_count(&call->in[0], 2), n, n, 1};
  if (!is_lower) v.row = 1, v.column = n;
  return v;
}

static int32_t linalg_launch_factor(const tn_frame *call, bool is_lower) {
  const linalg_triangles v = linalg_find_triangles(call, is_lower);
  linalg_factor_arrays s = {};
  s.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  s.at[IN] = tn_cuda_from(&call->in[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start(call, linalg_factor_each<decltype(type)>,
                           v.n > 0 ? v.count : 0, stream, s, v);
    });
  });
}

int32_t linalg_potrf(const tn_frame *call) {
  return linalg_launch_factor(call, linalg_potrf_params_of(call)->lower != 0);
}

int32_t linalg_cholesky(const tn_frame *call) {
  return linalg_launch_factor(call, true);
}

int32_t linalg_potri(const tn_frame *call) {
  const linalg_triangles v =
      linalg_find_triangles(call, linalg_potri_params_of(call)->lower != 0);
  linalg_factor_arrays s = {};
  s.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  s.at[IN] = tn_cuda_from(&call->in[0]);
  s.at[ROOM] = tn_cuda_room(call->ws[0], call->out[0].dtype,
                            tn_tensor_size(&call->out[0]));
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start(call, linalg_invert_each<decltype(type)>,
                           v.n > 0 ? v.count : 0, stream, s, v);
    });
  });
}

int32_t linalg_potrf_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_trsm_bytes(call, bytes);
}

int32_t linalg_cholesky_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_trsm_bytes(call, bytes);
}

int32_t linalg_potri_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = (uint64_t)(tn_tensor_size(&call->out[0]) *
                      tn_dtype_bytes(call->out[0].dtype));
  return TN_OK;
}
