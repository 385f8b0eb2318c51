/* SPDX-License-Identifier: Apache-2.0
 * orthogonal.cu: the operators of orthogonal.yaml on CUDA devices. A block
 * computes the Householder reflections of one matrix in the workspace, with the
 * signs of LAPACK. LQ is QR of the transpose, so only steps differ.
 */
#include "orthogonal.gen.h"

#include "linalg.cuh"

enum { Q, TRIANGLE, A, ROOM, FACTORS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> linalg_orthogonal_arrays;

/* A tall matrix (rows x columns): element (i, j) is at i * row + j * column, of
 * the triangle at i * triangle_row + j * triangle_column. */
struct linalg_tall {
  int64_t count;
  int64_t rows;
  int64_t columns;
  int64_t row;
  int64_t column;
  int64_t triangle_row;
  int64_t triangle_column;
};

/* Makes reflection j: its vector replaces column j below the diagonal. The
 * result is its factor, for all threads. */
template <class T>
__device__ T linalg_make_reflection(const linalg_tall &v, int64_t j, T *w,
                                    T *part) {
  T sum = 0;
  for (int64_t i = j + 1 + (int64_t)threadIdx.x; i < v.rows;
       i += TN_CUDA_THREADS) {
    const T x = w[i * v.row + j * v.column];
    sum += x * x;
  }
  sum = tn_cuda_reduce(part, sum, tn_cuda_plus());
  const T alpha = w[j * (v.row + v.column)];
  const T length = sqrt(alpha * alpha + sum);
  const T beta = sum == 0 ? alpha : alpha < 0 ? length : -length;
  __syncthreads();
  for (int64_t i = j + 1 + (int64_t)threadIdx.x; i < v.rows && sum != 0;
       i += TN_CUDA_THREADS)
    w[i * v.row + j * v.column] /= alpha - beta;
  if (threadIdx.x == 0) w[j * (v.row + v.column)] = beta;
  __syncthreads();
  return sum == 0 ? (T)0 : (beta - alpha) / beta;
}

/* Applies reflection j of w to one column x, in steps of v.row. */
template <class T>
__device__ void linalg_reflect(const linalg_tall &v, int64_t j, const T *w,
                               T factor, T *x) {
  T sum = x[j * v.row];
  for (int64_t i = j + 1; i < v.rows; ++i)
    sum += w[i * v.row + j * v.column] * x[i * v.row];
  sum *= factor;
  x[j * v.row] -= sum;
  for (int64_t i = j + 1; i < v.rows; ++i)
    x[i * v.row] -= sum * w[i * v.row + j * v.column];
}

/* The columns of Q: reflections of unit vectors. */
template <class T>
__device__ void linalg_make_q(const linalg_tall &v, const T *w,
                              const T *factors, T *q) {
  for (int64_t c = threadIdx.x; c < v.columns; c += TN_CUDA_THREADS) {
    T *x = q + c * v.column;
    for (int64_t i = 0; i < v.rows; ++i) x[i * v.row] = i == c ? (T)1 : (T)0;
    for (int64_t j = v.columns; j-- > 0;)
      linalg_reflect(v, j, w, factors[j], x);
  }
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    linalg_qr_each(linalg_orthogonal_arrays s, linalg_tall v) {
  __shared__ T part[TN_CUDA_THREADS];
  const int64_t size = v.rows * v.columns, side = v.columns;
  for (int64_t matrix = blockIdx.x; matrix < v.count; matrix += gridDim.x) {
    const T *a = (const T *)s.at[A].data + matrix * size;
    T *w = (T *)s.at[ROOM].data + matrix * size;
    T *factors = (T *)s.at[FACTORS].data + matrix * side;
    T *q = (T *)s.at[Q].data + matrix * size;
    T *triangle = (T *)s.at[TRIANGLE].data + matrix * side * side;
    T odd = 0;
    for (int64_t at = threadIdx.x; at < size; at += TN_CUDA_THREADS) {
      if (!(a[at] - a[at] == 0)) odd = 1;
      w[at] = a[at];
    }
    const bool finite = tn_cuda_reduce(part, odd, tn_cuda_plus()) == 0;
    for (int64_t at = threadIdx.x; at < size && !finite; at += TN_CUDA_THREADS)
      w[at] = (T)NAN;
    __syncthreads();
    for (int64_t j = 0; j < side; ++j) {
      const T factor = linalg_make_reflection(v, j, w, part);
      if (threadIdx.x == 0) factors[j] = factor;
      for (int64_t c = j + 1 + (int64_t)threadIdx.x; c < side;
           c += TN_CUDA_THREADS)
        linalg_reflect(v, j, w, factor, w + c * v.column);
      __syncthreads();
    }
    for (int64_t at = threadIdx.x;
         at < side * side && s.at[TRIANGLE].data != NULL;
         at += TN_CUDA_THREADS) {
      const int64_t i = at / side, j = at % side;
      T x = i <= j ? w[i * v.row + j * v.column] : (T)0;
      if (!finite) x = (T)NAN;
      triangle[i * v.triangle_row + j * v.triangle_column] = x;
    }
    if (s.at[Q].data != NULL) linalg_make_q(v, w, factors, q);
    for (int64_t at = threadIdx.x; at < size && !finite && s.at[Q].data != NULL;
         at += TN_CUDA_THREADS)
      q[at] = (T)NAN;
    __syncthreads();
  }
}

/* -------------------------------------------------------------------- host */

static int32_t linalg_launch_qr(const tn_frame *call, bool transposes) {
  const tn_tensor *a = &call->in[0];
  const int64_t m = linalg_rows(a), n = linalg_columns(a);
  const int64_t count = linalg_count(a, 2), side = transposes ? m : n;
  linalg_tall v = {count, transposes ? n : m, side, n, 1, side, 1};
  linalg_orthogonal_arrays s = {};
  if (transposes) {
    v.row = 1, v.column = n;
    v.triangle_row = 1, v.triangle_column = side;
  }
  if (tn_tensor_size(a) == 0) return TN_OK;
  s.at[Q] = tn_cuda_to(&call->out[0], call->req[0]);
  s.at[TRIANGLE] = tn_cuda_to(&call->out[1], call->req[1]);
  s.at[A] = tn_cuda_from(a);
  s.at[ROOM] = tn_cuda_room(call->ws[0], a->dtype, tn_tensor_size(a));
  s.at[FACTORS] = tn_cuda_room(
      (char *)call->ws[0] + tn_tensor_size(a) * tn_dtype_bytes(a->dtype),
      a->dtype, count * side);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(a->dtype, [&](auto type) {
      return tn_cuda_start(call, linalg_qr_each<decltype(type)>, count, stream,
                           s, v);
    });
  });
}

static int32_t linalg_plan_qr(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *a = &call->in[0], *triangle = &call->out[1];
  *bytes = (uint64_t)((tn_tensor_size(a) +
                       linalg_count(a, 2) * linalg_columns(triangle)) *
                      tn_dtype_bytes(a->dtype));
  return TN_OK;
}

int32_t linalg_gelqf(const tn_frame *call) {
  return linalg_launch_qr(call, true);
}

int32_t linalg_qr(const tn_frame *call) {
  return linalg_launch_qr(call, false);
}

int32_t linalg_gelqf_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_plan_qr(call, bytes);
}

int32_t linalg_qr_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_plan_qr(call, bytes);
}
