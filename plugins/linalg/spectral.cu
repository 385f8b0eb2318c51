/* SPDX-License-Identifier: Apache-2.0
 * spectral.cu: syevd and svd of spectral.yaml on CUDA devices, by the one-sided
 * method of Jacobi (Hestenes, "Inversion of matrices by biorthogonalization",
 * 1958): rotations of pairs of columns make all columns orthogonal. Their
 * lengths are the singular values, and the product of the rotations is V.
 *
 * A symmetric matrix gets a multiple of I that makes it positive, because
 * eigenvectors of opposite eigenvalues would mix otherwise.
 *
 * A block computes one matrix. In a round each thread rotates one pair, and all
 * pairs of a round are disjoint, as in a tournament.
 */
#include "spectral.gen.h"

#include "linalg.cuh"

enum {
  VECTORS,
  VALUES,
  SECOND,
  A,
  TURNED,
  ROTATIONS,
  LENGTHS,
  ORDER,
  N_ARRAYS
};
typedef tn_cuda_arrays<N_ARRAYS> linalg_spectral_arrays;

enum { SWEEPS = 40 }; /* at most; about 10 are needed */

/* The matrices, as tall ones of `rows` x `k`: transposed if they are wide. */
struct linalg_spectrum {
  int64_t count;
  int64_t rows;
  int64_t k;
  int32_t is_wide;
  int32_t is_eigen;
};

/* The parts of one matrix: w (rows x k) and v (k x k), row-major. */
template <class T>
struct linalg_jacobi {
  int64_t rows, k;
  T *w, *v, *lengths;
  int64_t *order;
};

/* ----------------------------------------------------------------- rotations
 */

template <class T>
__device__ void linalg_turn_columns(int64_t rows, int64_t k, T *x, int64_t p,
                                    int64_t q, T cosine, T sine) {
  for (int64_t i = 0; i < rows; ++i) {
    const T a = x[i * k + p], b = x[i * k + q];
    x[i * k + p] = cosine * a - sine * b;
    x[i * k + q] = sine * a + cosine * b;
  }
}

/* Makes columns p and q of w orthogonal; 0 if they are. */
template <class T>
__device__ int linalg_turn_pair(const linalg_jacobi<T> &j, int64_t p,
                                int64_t q) {
  const T limit = sizeof(T) == sizeof(float) ? (T)1e-6 : (T)2e-15;
  T pp = 0, qq = 0, pq = 0;
  for (int64_t i = 0; i < j.rows; ++i) {
    const T a = j.w[i * j.k + p], b = j.w[i * j.k + q];
    pp += a * a;
    qq += b * b;
    pq += a * b;
  }
  if (!(fabs(pq) > limit * sqrt(pp) * sqrt(qq))) return 0;
  const T zeta = (qq - pp) / (2 * pq);
  const T tangent =
      (zeta < 0 ? (T)-1 : (T)1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
  const T cosine = 1 / sqrt(1 + tangent * tangent);
  linalg_turn_columns(j.rows, j.k, j.w, p, q, cosine, cosine * tangent);
  linalg_turn_columns(j.k, j.k, j.v, p, q, cosine, cosine * tangent);
  return 1;
}

/* Rotates all pairs until no pair needs it. */
template <class T>
__device__ void linalg_make_orthogonal(const linalg_jacobi<T> &j, int *flags) {
  const int64_t n = j.k + j.k % 2, circle = n - 1;
  for (int sweep = 0; sweep < SWEEPS; ++sweep) {
    int turned = 0;
    for (int64_t round = 0; round < circle; ++round) {
      for (int64_t pair = threadIdx.x; pair < n / 2; pair += TN_CUDA_THREADS) {
        const int64_t p = pair == 0 ? circle : (round + pair) % circle;
        const int64_t q = (round + circle - pair) % circle;
        if (p < j.k && q < j.k) turned |= linalg_turn_pair(j, p, q);
      }
      __syncthreads();
    }
    if (tn_cuda_reduce(flags, turned, tn_cuda_plus()) == 0) return;
  }
}

/* ------------------------------------------------------------------- results
 */

/* The numbers of columns by length: the longest is first, or last. */
template <class T>
__device__ void linalg_sort_columns(const linalg_jacobi<T> &j, bool ascending) {
  for (int64_t c = 0; c < j.k; ++c) {
    int64_t at = c;
    for (; at > 0; --at) {
      const T before = j.lengths[j.order[at - 1]];
      if (ascending ? before <= j.lengths[c] : before >= j.lengths[c]) break;
      j.order[at] = j.order[at - 1];
    }
    j.order[at] = c;
  }
}

/* A column of w without length becomes a unit vector that is orthogonal to all
 * others, which have length 1. */
template <class T>
__device__ void linalg_complete_column(const linalg_jacobi<T> &j, int64_t c) {
  for (int64_t unit = 0; unit < j.rows; ++unit) {
    T size = 0;
    for (int64_t i = 0; i < j.rows; ++i)
      j.w[i * j.k + c] = i == unit ? (T)1 : (T)0;
    for (int64_t other = 0; other < 2 * j.k; ++other) { /* twice: exact */
      const int64_t o = other % j.k;
      T inside = 0;
      for (int64_t i = 0; i < j.rows && o != c; ++i)
        inside += j.w[i * j.k + o] * j.w[i * j.k + c];
      for (int64_t i = 0; i < j.rows && o != c; ++i)
        j.w[i * j.k + c] -= inside * j.w[i * j.k + o];
    }
    for (int64_t i = 0; i < j.rows; ++i)
      size += j.w[i * j.k + c] * j.w[i * j.k + c];
    if (size * (T)(2 * j.rows) < 1) continue; /* nearly inside the others */
    for (int64_t i = 0; i < j.rows; ++i) j.w[i * j.k + c] /= sqrt(size);
    return;
  }
}

/* Divides the columns of w by their lengths. */
template <class T>
__device__ void linalg_normalise_columns(const linalg_jacobi<T> &j) {
  for (int64_t c = threadIdx.x; c < j.k; c += TN_CUDA_THREADS) {
    T sum = 0;
    for (int64_t i = 0; i < j.rows; ++i)
      sum += j.w[i * j.k + c] * j.w[i * j.k + c];
    j.lengths[c] = sqrt(sum);
    for (int64_t i = 0; i < j.rows && sum > 0; ++i)
      j.w[i * j.k + c] /= j.lengths[c];
  }
  __syncthreads();
  for (int64_t c = 0; c < j.k && threadIdx.x == 0; ++c)
    if (!(j.lengths[c] > 0)) linalg_complete_column(j, c);
  __syncthreads();
}

/* The sign that makes the element with the largest magnitude of column c
 * positive. */
template <class T>
__device__ T linalg_find_sign(const T *x, int64_t rows, int64_t k, int64_t c) {
  T most = 0;
  for (int64_t i = 0; i < rows; ++i)
    if (fabs(x[i * k + c]) > fabs(most)) most = x[i * k + c];
  return most < 0 ? (T)-1 : (T)1;
}

/* Eigenvalues are v^T w - shift, and eigenvectors the columns of v. */
template <class T>
__device__ void linalg_write_eigen(const linalg_jacobi<T> &j, T shift, T *u,
                                   T *values) {
  for (int64_t c = threadIdx.x; c < j.k; c += TN_CUDA_THREADS) {
    T sum = 0;
    for (int64_t i = 0; i < j.k; ++i)
      sum += j.v[i * j.k + c] * j.w[i * j.k + c];
    j.lengths[c] = sum - shift;
  }
  __syncthreads();
  if (threadIdx.x == 0) linalg_sort_columns(j, true);
  __syncthreads();
  for (int64_t r = threadIdx.x; r < j.k; r += TN_CUDA_THREADS) {
    const int64_t c = j.order[r];
    const T sign = linalg_find_sign(j.v, j.k, j.k, c);
    if (values != NULL) values[r] = j.lengths[c];
    for (int64_t i = 0; i < j.k && u != NULL; ++i)
      u[r * j.k + i] = sign * j.v[i * j.k + c];
  }
}

/* Of a wide matrix v has the left singular vectors, and w the right ones. */
template <class T>
__device__ void linalg_write_svd(const linalg_jacobi<T> &j, bool is_wide, T *u,
                                 T *values, T *vt) {
  const T *left = is_wide ? j.v : j.w, *right = is_wide ? j.w : j.v;
  const int64_t m = is_wide ? j.k : j.rows, n = is_wide ? j.rows : j.k;
  linalg_normalise_columns(j);
  if (threadIdx.x == 0) linalg_sort_columns(j, false);
  __syncthreads();
  for (int64_t r = threadIdx.x; r < j.k; r += TN_CUDA_THREADS) {
    const int64_t c = j.order[r];
    const T sign = linalg_find_sign(left, m, j.k, c);
    if (values != NULL) values[r] = j.lengths[c];
    for (int64_t i = 0; i < m && u != NULL; ++i)
      u[i * j.k + r] = sign * left[i * j.k + c];
    for (int64_t i = 0; i < n && vt != NULL; ++i)
      vt[r * n + i] = sign * right[i * j.k + c];
  }
}

/* ---------------------------------------------------------------- one matrix
 */

/* Copies a matrix to w and I to v. Returns false in all threads if an element
 * that is read is not finite; of eigenvectors, only the lower triangle is. */
template <class T>
__device__ bool linalg_begin_jacobi(const linalg_jacobi<T> &j,
                                    const linalg_spectrum &s, const T *a,
                                    int *flags) {
  int odd = 0;
  for (int64_t at = threadIdx.x; at < j.rows * j.k; at += TN_CUDA_THREADS) {
    const int64_t i = at / j.k, c = at % j.k;
    const bool turns = s.is_wide || (s.is_eigen && i < c);
    const T x = turns ? a[c * j.rows + i] : a[at];
    odd |= !(x - x == 0);
    j.w[at] = x;
  }
  for (int64_t at = threadIdx.x; at < j.k * j.k; at += TN_CUDA_THREADS)
    j.v[at] = at / j.k == at % j.k ? (T)1 : (T)0;
  return tn_cuda_reduce(flags, odd, tn_cuda_plus()) == 0;
}

/* Adds a multiple of I to a symmetric w so that no eigenvalue is negative:
 * the largest sum of magnitudes of a row. Returns it in all threads. */
template <class T>
__device__ T linalg_shift_diagonal(const linalg_jacobi<T> &j, T *part) {
  T most = 0;
  for (int64_t i = threadIdx.x; i < j.k; i += TN_CUDA_THREADS) {
    T sum = 0;
    for (int64_t c = 0; c < j.k; ++c) sum += fabs(j.w[i * j.k + c]);
    if (sum > most) most = sum;
  }
  most = tn_cuda_reduce(part, most, tn_cuda_largest());
  for (int64_t i = threadIdx.x; i < j.k; i += TN_CUDA_THREADS)
    j.w[i * (j.k + 1)] += most;
  __syncthreads();
  return most;
}

template <class T>
__device__ void linalg_set_nan(T *to, int64_t size) {
  for (int64_t at = threadIdx.x; at < size && to != NULL; at += TN_CUDA_THREADS)
    to[at] = (T)NAN;
}

/* Output `at` of a matrix with `size` elements, or NULL. */
template <class T>
__device__ T *linalg_find_output(const tn_cuda_array &array, int64_t offset) {
  return array.data == NULL ? (T *)NULL : (T *)array.data + offset;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    linalg_spectrum_each(linalg_spectral_arrays s, linalg_spectrum v) {
  __shared__ int flags[TN_CUDA_THREADS];
  __shared__ T part[TN_CUDA_THREADS];
  const int64_t size = v.rows * v.k, square = v.k * v.k;
  const int64_t left = v.is_eigen || v.is_wide ? square : size;
  const int64_t right = v.is_wide ? size : square;
  for (int64_t matrix = blockIdx.x; matrix < v.count; matrix += gridDim.x) {
    const linalg_jacobi<T> j = {v.rows,
                                v.k,
                                (T *)s.at[TURNED].data + matrix * size,
                                (T *)s.at[ROTATIONS].data + matrix * square,
                                (T *)s.at[LENGTHS].data + matrix * v.k,
                                (int64_t *)s.at[ORDER].data + matrix * v.k};
    T *u = linalg_find_output<T>(s.at[VECTORS], matrix * left);
    T *values = linalg_find_output<T>(s.at[VALUES], matrix * v.k);
    T *vt = linalg_find_output<T>(s.at[SECOND], matrix * right);
    const T *a = (const T *)s.at[A].data + matrix * size;
    if (!linalg_begin_jacobi(j, v, a, flags)) {
      linalg_set_nan(u, left);
      linalg_set_nan(values, v.k);
      linalg_set_nan(vt, right);
      continue;
    }
    const T shift = v.is_eigen ? linalg_shift_diagonal(j, part) : (T)0;
    linalg_make_orthogonal(j, flags);
    __syncthreads();
    if (v.is_eigen)
      linalg_write_eigen(j, shift, u, values);
    else
      linalg_write_svd(j, v.is_wide != 0, u, values, vt);
    __syncthreads();
  }
}

/* -------------------------------------------------------------------- host */

static int64_t linalg_round(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

static linalg_spectrum linalg_find_spectrum(const tn_tensor *a, bool is_eigen) {
  const int64_t m = linalg_rows(a), n = linalg_columns(a);
  linalg_spectrum v = {linalg_count(a, 2), m < n ? n : m, m < n ? m : n, m < n,
                       is_eigen};
  return v;
}

static int32_t linalg_launch_spectrum(const tn_frame *call, bool is_eigen) {
  const tn_tensor *a = &call->in[0];
  const linalg_spectrum v = linalg_find_spectrum(a, is_eigen);
  const int64_t bytes = tn_dtype_bytes(a->dtype);
  const int64_t square = v.count * v.k * v.k, lines = v.count * v.k;
  linalg_spectral_arrays s = {};
  char *room = (char *)call->ws[0];
  if (tn_tensor_size(a) == 0) return TN_OK;
  s.at[VECTORS] = tn_cuda_to(&call->out[0], call->req[0]);
  s.at[VALUES] = tn_cuda_to(&call->out[1], call->req[1]);
  if (!is_eigen) s.at[SECOND] = tn_cuda_to(&call->out[2], call->req[2]);
  s.at[A] = tn_cuda_from(a);
  s.at[TURNED] = tn_cuda_room(room, a->dtype, tn_tensor_size(a));
  room += linalg_round(tn_tensor_size(a) * bytes);
  s.at[ROTATIONS] = tn_cuda_room(room, a->dtype, square);
  room += linalg_round(square * bytes);
  s.at[LENGTHS] = tn_cuda_room(room, a->dtype, lines);
  room += linalg_round(lines * bytes);
  s.at[ORDER] = tn_cuda_room(room, TN_I64, lines);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(a->dtype, [&](auto type) {
      return tn_cuda_start(call, linalg_spectrum_each<decltype(type)>, v.count,
                           stream, s, v);
    });
  });
}

static int32_t linalg_plan_spectrum(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *a = &call->in[0];
  const linalg_spectrum v = linalg_find_spectrum(a, false);
  const int64_t width = tn_dtype_bytes(a->dtype), lines = v.count * v.k;
  *bytes = (uint64_t)(linalg_round(tn_tensor_size(a) * width) +
                      linalg_round(lines * v.k * width) +
                      linalg_round(lines * width) +
                      lines * (int64_t)sizeof(int64_t));
  return TN_OK;
}

int32_t linalg_syevd(const tn_frame *call) {
  return linalg_launch_spectrum(call, true);
}

int32_t linalg_svd(const tn_frame *call) {
  return linalg_launch_spectrum(call, false);
}

int32_t linalg_syevd_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_plan_spectrum(call, bytes);
}

int32_t linalg_svd_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_plan_spectrum(call, bytes);
}
