/* SPDX-License-Identifier: Apache-2.0
 * parts.cu: the operators of parts.yaml on CUDA devices. A thread computes one
 * element of the result.
 */
#include "parts.gen.h"

#include "linalg.cuh"
#include "loops.h"

enum { OUT, X, VALUES, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> linalg_squares;

enum { DIVIDE_BY_GAPS = LINALG_SQUARES }; /* beside the functions of loops.h */

struct linalg_part {
  int64_t n;
  int64_t size; /* elements of a result */
  int64_t total;
  int32_t which; /* LINALG_* */
  int32_t dims;  /* of a result */
};

/* Element k of a result that is a square. */
template <class T>
__device__ T linalg_find_element(const T *x, const T *values,
                                 const linalg_part &v, int64_t k) {
  const int64_t n = v.n, i = k / n, j = k % n;
  const bool is_line = v.which == LINALG_MAKE_DIAGONAL;
  const T here = is_line ? (T)0 : x[k], there = is_line ? (T)0 : x[j * n + i];
  switch (v.which) {
    case LINALG_SYMMETRIC_PART:
      return (here + there) / 2;
    case LINALG_MINUS_TRANSPOSE:
      return here - there;
    case LINALG_HALF_TRIANGLE:
      return i < j ? (T)0 : i == j ? here / 2 : here;
    case LINALG_MIRROR_LOWER:
      return i < j ? there : here;
    case LINALG_LOWER:
      return i < j ? (T)0 : here;
    case LINALG_UPPER_TRANSPOSED:
      return i < j ? (T)0 : there;
    case LINALG_LOWER_TRANSPOSED:
      return i > j ? (T)0 : there;
    case LINALG_MAKE_DIAGONAL:
      return i == j ? x[i] : (T)0;
    default: /* DIVIDE_BY_GAPS */
      return i == j || here == 0 ? (T)0 : here / (values[j] - values[i]);
  }
}

/* Element k of a result with one element for each row, or one for all. */
template <class T>
__device__ T linalg_find_sum(const T *x, int64_t n, int64_t k, int32_t which) {
  T sum = 0;
  if (which == LINALG_EXTRACT_DIAGONAL) return x[k * n + k];
  for (int64_t i = 0; i < n; ++i)
    sum += which == LINALG_SUM_LOG_DIAGONAL ? (T)log(x[i * n + i])
                                            : x[k * n + i] - x[i * n + k];
  return sum;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    linalg_part_each(linalg_squares s, linalg_part v) {
  const int64_t step = v.which == LINALG_MAKE_DIAGONAL ? v.n : v.n * v.n;
  for (int64_t at = linalg_first(); at < v.total; at += linalg_stride()) {
    const int64_t matrix = at / v.size, k = at % v.size;
    const T *x = (const T *)s.at[X].data + matrix * step;
    const T *values = (const T *)s.at[VALUES].data + matrix * v.n;
    ((T *)s.at[OUT].data)[at] = v.dims == 2
                                    ? linalg_find_element(x, values, v, k)
                                    : linalg_find_sum(x, v.n, k, v.which);
  }
}

/* -------------------------------------------------------------------- host */

/* `dims` is the number of dimensions of one result. */
static int32_t linalg_launch_part(const tn_frame *call, int32_t which,
                                  int32_t dims) {
  const tn_tensor *x = &call->in[0], *out = &call->out[0];
  linalg_squares s = {};
  linalg_part v = {};
  v.n = x->shape[x->ndim - 1];
  v.size = dims == 2 ? v.n * v.n : dims == 1 ? v.n : 1;
  v.total = tn_tensor_size(out);
  v.which = which;
  v.dims = dims;
  s.at[OUT] = tn_cuda_to(out, call->req[0]);
  s.at[X] = tn_cuda_from(x);
  if (which == DIVIDE_BY_GAPS) s.at[VALUES] = tn_cuda_from(&call->in[1]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(out->dtype, [&](auto type) {
      return tn_cuda_start_each(call, linalg_part_each<decltype(type)>, v.total,
                                stream, s, v);
    });
  });
}

#define LINALG_OPERATOR(name, which, dims)        \
  int32_t linalg_##name(const tn_frame *call) {   \
    return linalg_launch_part(call, which, dims); \
  }

LINALG_OPERATOR(sumlogdiag, LINALG_SUM_LOG_DIAGONAL, 0)
LINALG_OPERATOR(extract_diagonal, LINALG_EXTRACT_DIAGONAL, 1)
LINALG_OPERATOR(make_diagonal, LINALG_MAKE_DIAGONAL, 2)
LINALG_OPERATOR(symmetric_part, LINALG_SYMMETRIC_PART, 2)
LINALG_OPERATOR(minus_transpose, LINALG_MINUS_TRANSPOSE, 2)
LINALG_OPERATOR(half_triangle, LINALG_HALF_TRIANGLE, 2)
LINALG_OPERATOR(mirror_lower, LINALG_MIRROR_LOWER, 2)
LINALG_OPERATOR(sum_differences, LINALG_SUM_DIFFERENCES, 1)
LINALG_OPERATOR(divide_by_gaps, DIVIDE_BY_GAPS, 2)

int32_t linalg_as_lower(const tn_frame *call) {
  const bool lower = linalg_as_lower_params_of(call)->lower != 0;
  return linalg_launch_part(call,
                            lower ? LINALG_LOWER : LINALG_UPPER_TRANSPOSED, 2);
}

int32_t linalg_from_lower(const tn_frame *call) {
  const bool lower = linalg_from_lower_params_of(call)->lower != 0;
  return linalg_launch_part(call,
                            lower ? LINALG_LOWER : LINALG_LOWER_TRANSPOSED, 2);
}
