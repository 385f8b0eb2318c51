/* SPDX-License-Identifier: Apache-2.0
 * solve.cu: the operators of solve.yaml on CUDA devices. A block computes the
 * LU factors of one matrix in the workspace; then a thread solves for one
 * right-hand side.
 *
 * No device kernel waits for the host, so a singular matrix is no error: its
 * inverse and its solutions are NaN.
 */
#include "solve.gen.h"

#include "linalg.cuh"

enum { OUT, SECOND, A, B, FACTORS, PIVOTS, VECTORS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> linalg_lu_arrays;

enum { INVERSE, DET, DET_GRAD, SLOGDET, SOLVE };

struct linalg_systems {
  int64_t count;
  int64_t n;
  int64_t sides; /* columns of b */
  int64_t which;
};

/* The state of a block's matrix, in shared memory. */
struct linalg_lu_state {
  int64_t index[TN_CUDA_THREADS]; /* rows of candidates for the pivot */
  int flags[TN_CUDA_THREADS];
};

/* Moves the row with the largest element of column k to row k, and notes it.
 * Returns false in all threads if all candidates are 0. */
template <class T>
__device__ bool linalg_move_pivot(int64_t n, int64_t k, T *a, int64_t *pivots,
                                  linalg_lu_state *state) {
  int64_t best = k + (int64_t)threadIdx.x;
  for (int64_t i = best; i < n; i += TN_CUDA_THREADS)
    if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
  state->index[threadIdx.x] = best < n ? best : k;
  __syncthreads();
  best = k;
  for (int t = 0; t < TN_CUDA_THREADS && k + t < n; ++t) {
    const int64_t i = state->index[t];
    if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
  }
  __syncthreads();
  if (threadIdx.x == 0) pivots[k] = best;
  for (int64_t j = threadIdx.x; best != k && j < n; j += TN_CUDA_THREADS) {
    const T kept = a[k * n + j];
    a[k * n + j] = a[best * n + j];
    a[best * n + j] = kept;
  }
  __syncthreads();
  return a[k * n + k] != 0;
}

/* The factors of a matrix in its place; whether it is regular. */
template <class T>
__device__ bool linalg_factorise_lu(int64_t n, T *a, int64_t *pivots,
                                    linalg_lu_state *state) {
  bool regular = true;
  for (int64_t k = 0; k < n; ++k) {
    if (!linalg_move_pivot(n, k, a, pivots, state)) {
      regular = false;
      continue;
    }
    for (int64_t i = k + 1 + (int64_t)threadIdx.x; i < n; i += TN_CUDA_THREADS)
      a[i * n + k] /= a[k * n + k];
    __syncthreads();
    const int64_t rest = n - k - 1;
    for (int64_t at = threadIdx.x; at < rest * rest; at += TN_CUDA_THREADS) {
      const int64_t i = k + 1 + at / rest, j = k + 1 + at % rest;
      a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
    __syncthreads();
  }
  return regular;
}

/* One column x, with `step` between elements: A x = b in its place. */
template <class T>
__device__ void linalg_solve_column(int64_t n, const T *a,
                                    const int64_t *pivots, T *x, int64_t step) {
  for (int64_t i = 0; i < n; ++i) {
    const T kept = x[i * step];
    x[i * step] = x[pivots[i] * step];
    x[pivots[i] * step] = kept;
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) x[i * step] -= a[i * n + j] * x[j * step];
  for (int64_t i = n; i-- > 0;) {
    for (int64_t j = i + 1; j < n; ++j)
      x[i * step] -= a[i * n + j] * x[j * step];
    x[i * step] /= a[i * n + i];
  }
}

/* The determinant of factors; all threads compute it. */
template <class T>
__device__ T linalg_find_det(int64_t n, const T *a, const int64_t *pivots) {
  T product = 1;
  for (int64_t i = 0; i < n; ++i)
    product *= pivots[i] == i ? a[i * n + i] : -a[i * n + i];
  return product;
}

template <class T>
__device__ void linalg_find_slogdet(int64_t n, const T *a,
                                    const int64_t *pivots, T *sign, T *sum) {
  *sign = 1;
  *sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T d = a[i * n + i];
    if ((d < 0) != (pivots[i] != i)) *sign = -*sign;
    if (d != d) *sign = d;
    *sum += log(fabs(d));
  }
}

/* Stores the numbers of a matrix that need no solutions. */
template <class T>
__device__ void linalg_write_det(const linalg_lu_arrays &s, int64_t which,
                                 int64_t matrix, int64_t n, bool regular) {
  const T *a = (const T *)s.at[FACTORS].data + matrix * n * n;
  const int64_t *pivots = (const int64_t *)s.at[PIVOTS].data + 2 * matrix * n;
  T first = 0, second = (T)-INFINITY;
  if (threadIdx.x != 0) return;
  if (regular && which == DET) first = linalg_find_det(n, a, pivots);
  if (regular && which == SLOGDET)
    linalg_find_slogdet(n, a, pivots, &first, &second);
  if (s.at[OUT].data != NULL) ((T *)s.at[OUT].data)[matrix] = first;
  if (s.at[SECOND].data != NULL) ((T *)s.at[SECOND].data)[matrix] = second;
}

/* Solves for all columns. Of DET_GRAD, column c of the inverse becomes row c of
 * the cofactors, times the head. */
template <class T>
__device__ void linalg_solve_all(const linalg_lu_arrays &s,
                                 const linalg_systems &v, int64_t matrix,
                                 bool regular) {
  const int64_t n = v.n;
  const T *a = (const T *)s.at[FACTORS].data + matrix * n * n;
  const int64_t *pivots = (const int64_t *)s.at[PIVOTS].data + 2 * matrix * n;
  const bool is_grad = v.which == DET_GRAD;
  const T *b = (const T *)s.at[B].data + matrix * (is_grad ? 1 : n * v.sides);
  T factor = 1;
  if (is_grad) factor = *b * linalg_find_det(n, a, pivots);
  for (int64_t c = threadIdx.x; c < v.sides; c += TN_CUDA_THREADS) {
    const int64_t step = is_grad ? 1 : v.sides;
    T *x = (T *)s.at[OUT].data + matrix * n * v.sides + (is_grad ? c * n : c);
    for (int64_t i = 0; i < n; ++i)
      x[i * step] = v.which == SOLVE ? b[i * v.sides + c] : (T)(i == c);
    linalg_solve_column(n, a, pivots, x, step);
    for (int64_t i = 0; i < n; ++i)
      x[i * step] = regular ? x[i * step] * factor : (T)NAN;
  }
}

/* ------------------------------------------------- cofactors if det is zero */

/* Moves the largest element of rows and columns from k on to (k, k). Returns
 * the sign of the permutation, 0 if all elements are 0. */
template <class T>
__device__ int linalg_move_largest(int64_t n, int64_t k, T *a,
                                   int64_t *places) {
  int64_t row = k, column = k;
  for (int64_t at = k * n; at < n * n; ++at)
    if (at % n >= k && fabs(a[at]) > fabs(a[row * n + column]))
      row = at / n, column = at % n;
  if (a[row * n + column] == 0) return 0;
  for (int64_t i = 0; i < n; ++i) {
    const T x = a[k * n + i];
    a[k * n + i] = a[row * n + i];
    a[row * n + i] = x;
  }
  for (int64_t i = 0; i < n; ++i) {
    const T x = a[i * n + k];
    a[i * n + k] = a[i * n + column];
    a[i * n + column] = x;
  }
  const int64_t r = places[row], c = places[n + column];
  places[row] = places[k], places[k] = r;
  places[n + column] = places[n + k], places[n + k] = c;
  return (row != k) == (column != k) ? 1 : -1;
}

/* The cofactors of a singular matrix, as loops_body.h computes them, by one
 * thread. */
template <class T>
__device__ void linalg_find_cofactors(int64_t n, T *a, int64_t *places,
                                      T *vectors, T *out) {
  T *v = vectors, *w = vectors + n, product = 1;
  for (int64_t i = 0; i < n; ++i) places[i] = places[n + i] = i;
  for (int64_t k = 0; k + 1 < n && product != 0; ++k) {
    const int sign = linalg_move_largest(n, k, a, places);
    product *= sign == 0 ? (T)0 : (T)sign * a[k * n + k];
    for (int64_t i = k + 1; i < n && sign != 0; ++i) {
      const T factor = a[i * n + k] /= a[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  for (int64_t i = n; i-- > 0;) {
    v[i] = w[i] = i == n - 1 ? (T)1 : (T)0;
    for (int64_t j = i + 1; j < n; ++j) {
      v[i] -= a[i * n + j] * v[j];
      w[i] -= a[j * n + i] * w[j];
    }
    if (i < n - 1) v[i] /= a[i * n + i];
  }
  for (int64_t at = 0; at < n * n; ++at)
    out[places[at / n] * n + places[n + at % n]] =
        product == 0 ? (T)0 : product * w[at / n] * v[at % n];
}

/* Replaces the gradient of the determinant of a singular matrix. */
template <class T>
__device__ void linalg_repair_gradient(const linalg_lu_arrays &s,
                                       const linalg_systems &v,
                                       int64_t matrix) {
  const int64_t size = v.n * v.n;
  const T *from = (const T *)s.at[A].data + matrix * size;
  const T head = ((const T *)s.at[B].data)[matrix];
  T *a = (T *)s.at[FACTORS].data + matrix * size;
  T *out = (T *)s.at[OUT].data + matrix * size;
  if (threadIdx.x != 0) return;
  for (int64_t at = 0; at < size; ++at) a[at] = from[at];
  linalg_find_cofactors(v.n, a, (int64_t *)s.at[PIVOTS].data + 2 * matrix * v.n,
                        (T *)s.at[VECTORS].data + 2 * matrix * v.n, out);
  for (int64_t at = 0; at < size; ++at) out[at] *= head;
}

/* -------------------------------------------------------------- all of them */

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    linalg_lu_each(linalg_lu_arrays s, linalg_systems v) {
  __shared__ linalg_lu_state state;
  const int64_t size = v.n * v.n;
  for (int64_t matrix = blockIdx.x; matrix < v.count; matrix += gridDim.x) {
    const T *from = (const T *)s.at[A].data + matrix * size;
    T *a = (T *)s.at[FACTORS].data + matrix * size;
    int64_t *pivots = (int64_t *)s.at[PIVOTS].data + 2 * matrix * v.n;
    int odd = 0;
    for (int64_t at = threadIdx.x; at < size; at += TN_CUDA_THREADS) {
      odd |= !(from[at] - from[at] == 0);
      a[at] = from[at];
    }
    const bool finite = tn_cuda_reduce(state.flags, odd, tn_cuda_plus()) == 0;
    for (int64_t at = threadIdx.x; at < size && !finite; at += TN_CUDA_THREADS)
      a[at] = (T)NAN;
    __syncthreads();
    const bool regular = linalg_factorise_lu(v.n, a, pivots, &state);
    if (v.which == DET || v.which == SLOGDET)
      linalg_write_det<T>(s, v.which, matrix, v.n, regular);
    else
      linalg_solve_all<T>(s, v, matrix, regular);
    __syncthreads();
    if (v.which == DET_GRAD && !regular)
      linalg_repair_gradient<T>(s, v, matrix);
    __syncthreads();
  }
}

/* -------------------------------------------------------------------- host */

static int64_t linalg_lu_bytes(const tn_tensor *a) {
  return (tn_tensor_size(a) * tn_dtype_bytes(a->dtype) + 63) / 64 * 64;
}

/* `a` is the matrices, `b` right-hand sides or heads, or NULL. */
static int32_t linalg_launch_lu(const tn_frame *call, int64_t which,
                                const tn_tensor *a, const tn_tensor *b) {
  const int64_t n = linalg_columns(a), count = linalg_count(a, 2);
  const bool is_number = which == DET || which == SLOGDET;
  linalg_lu_arrays s = {};
  linalg_systems v = {count, n, n, which};
  if (which == SOLVE) v.sides = linalg_columns(b);
  char *room = (char *)call->ws[0];
  s.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  if (which == SLOGDET) s.at[SECOND] = tn_cuda_to(&call->out[1], call->req[1]);
  s.at[A] = tn_cuda_from(a);
  if (b != NULL) s.at[B] = tn_cuda_from(b);
  if (n > 0) {
    s.at[FACTORS] = tn_cuda_room(room, a->dtype, count * n * n);
    room += linalg_lu_bytes(a);
    s.at[PIVOTS] = tn_cuda_room(room, TN_I64, 2 * count * n);
    room += 2 * count * n * (int64_t)sizeof(int64_t);
    s.at[VECTORS] = tn_cuda_room(room, a->dtype, 2 * count * n);
  }
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(a->dtype, [&](auto type) {
      return tn_cuda_start(call, linalg_lu_each<decltype(type)>,
                           n > 0 || is_number ? count : 0, stream, s, v);
    });
  });
}

static int32_t linalg_plan_lu(const tn_tensor *a, uint64_t *bytes) {
  const int64_t rows = linalg_count(a, 1);
  const int64_t each = (int64_t)sizeof(int64_t) + (int64_t)sizeof(double);
  *bytes = (uint64_t)(linalg_lu_bytes(a) + 2 * rows * each);
  return TN_OK;
}

int32_t linalg_inverse(const tn_frame *call) {
  return linalg_launch_lu(call, INVERSE, &call->in[0], NULL);
}

int32_t linalg_det(const tn_frame *call) {
  return linalg_launch_lu(call, DET, &call->in[0], NULL);
}

/* in = [gradient of out, a, out] */
int32_t linalg_det_grad(const tn_frame *call) {
  return linalg_launch_lu(call, DET_GRAD, &call->in[1], &call->in[0]);
}

int32_t linalg_slogdet(const tn_frame *call) {
  return linalg_launch_lu(call, SLOGDET, &call->in[0], NULL);
}

int32_t linalg_solve(const tn_frame *call) {
  return linalg_launch_lu(call, SOLVE, &call->in[0], &call->in[1]);
}

int32_t linalg_inverse_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_plan_lu(&call->in[0], bytes);
}

int32_t linalg_det_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_plan_lu(&call->in[call->flags & TN_CALL_BACKWARD ? 1 : 0],
                        bytes);
}

int32_t linalg_det_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_plan_lu(&call->in[1], bytes);
}

int32_t linalg_slogdet_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_plan_lu(&call->in[0], bytes);
}

int32_t linalg_solve_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_plan_lu(&call->in[0], bytes);
}
