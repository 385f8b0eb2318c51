/* SPDX-License-Identifier: Apache-2.0
 * products.cu: products.yaml, and the products of triangular.yaml and
 * spectral.yaml, on CUDA devices. A thread computes one element as a sum of
 * products: one CUDA kernel for general, symmetric and triangular factors.
 */
#include "products.gen.h"
#include "spectral.gen.h"
#include "triangular.gen.h"

#include "linalg.cuh"

enum { OUT, A, B, C, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> linalg_operands;

/* Triangles of a factor or of the result, by position in memory. */
enum { ALL, LOWER, UPPER };

/* One factor: element (i, j) of the product is at i * row + j * column. */
struct linalg_operand {
  int64_t row;
  int64_t column;
  int64_t size; /* of a matrix */
  int32_t triangle;
  int32_t adds_transpose; /* the factor is x + x^T */
};

/* out (m x n) = alpha * a (m x k) * b (k x n) + beta * c, many times. */
struct linalg_product {
  int64_t count, m, n, k;
  linalg_operand a, b;
  double alpha, beta;
  int32_t triangle; /* of out */
  int32_t pad;
};

/* Element (i, j) of a factor; 0 in the triangle that is not read. */
template <class T>
__device__ __forceinline__ T linalg_read_factor(const T *x,
                                                const linalg_operand &f,
                                                int64_t i, int64_t j) {
  const bool is_turned = f.row < f.column;
  const int64_t low = is_turned ? j : i, high = is_turned ? i : j;
  if (f.triangle == LOWER && low < high) return 0;
  if (f.triangle == UPPER && low > high) return 0;
  const T here = x[i * f.row + j * f.column];
  return f.adds_transpose ? here + x[j * f.row + i * f.column] : here;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    linalg_multiply_each(linalg_operands o, linalg_product p) {
  const int64_t size = p.m * p.n;
  for (int64_t at = linalg_first(); at < p.count * size;
       at += linalg_stride()) {
    const int64_t matrix = at / size, i = at % size / p.n, j = at % p.n;
    const T *a = (const T *)o.at[A].data + matrix * p.a.size;
    const T *b = (const T *)o.at[B].data + matrix * p.b.size;
    T sum = 0;
    const bool is_zero =
        (p.triangle == LOWER && i < j) || (p.triangle == UPPER && i > j);
    for (int64_t l = 0; l < p.k && !is_zero; ++l)
      sum +=
          linalg_read_factor(a, p.a, i, l) * linalg_read_factor(b, p.b, l, j);
    sum *= (T)p.alpha;
    if (p.beta != 0) sum += (T)p.beta * ((const T *)o.at[C].data)[at];
    ((T *)o.at[OUT].data)[at] = sum;
  }
}

/* -------------------------------------------------------------------- host */

static linalg_operand linalg_find_operand(const tn_tensor *x, bool transpose) {
  linalg_operand f = {linalg_columns(x), 1, linalg_rows(x) * linalg_columns(x),
                      ALL, 0};
  if (transpose) f.row = 1, f.column = linalg_columns(x);
  return f;
}

/* A product of op(a) and op(b). */
static linalg_product linalg_find_product(const tn_tensor *a, bool ta,
                                          const tn_tensor *b, bool tb) {
  linalg_product p = {};
  p.count = linalg_count(a, 2);
  p.m = ta ? linalg_columns(a) : linalg_rows(a);
  p.k = ta ? linalg_rows(a) : linalg_columns(a);
  p.n = tb ? linalg_rows(b) : linalg_columns(b);
  p.a = linalg_find_operand(a, ta);
  p.b = linalg_find_operand(b, tb);
  p.alpha = 1;
  return p;
}

static int32_t linalg_launch_product(const tn_frame *call,
                                     const linalg_operands &o,
                                     const linalg_product &p) {
  const tn_dtype dtype = call->out[0].dtype;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(dtype, [&](auto type) {
      return tn_cuda_start_each(call, linalg_multiply_each<decltype(type)>,
                                p.count * p.m * p.n, stream, o, p);
    });
  });
}

/* Output k of a call becomes the product of two tensors. */
static int32_t linalg_multiply_into(const tn_frame *call, uint32_t k,
                                    const tn_tensor *a, const tn_tensor *b,
                                    const linalg_product &p) {
  linalg_operands o = {};
  o.at[OUT] = tn_cuda_to(&call->out[k], call->req[k]);
  o.at[A] = tn_cuda_from(a);
  o.at[B] = tn_cuda_from(b);
  return linalg_launch_product(call, o, p);
}

int32_t linalg_gemm(const tn_frame *call) {
  const linalg_gemm_params *params = linalg_gemm_params_of(call);
  linalg_operands o = {};
  linalg_product p =
      linalg_find_product(&call->in[0], params->transpose_a != 0, &call->in[1],
                          params->transpose_b != 0);
  p.alpha = params->alpha;
  p.beta = params->beta;
  o.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  o.at[A] = tn_cuda_from(&call->in[0]);
  o.at[B] = tn_cuda_from(&call->in[1]);
  if (p.beta != 0) o.at[C] = tn_cuda_from(&call->in[2]);
  return linalg_launch_product(call, o, p);
}

int32_t linalg_gemm2(const tn_frame *call) {
  const linalg_gemm2_params *params = linalg_gemm2_params_of(call);
  linalg_product p =
      linalg_find_product(&call->in[0], params->transpose_a != 0, &call->in[1],
                          params->transpose_b != 0);
  p.alpha = params->alpha;
  return linalg_multiply_into(call, 0, &call->in[0], &call->in[1], p);
}

/* The gradient of a: grad * op(b)^T, or the transpose of that; of b: op(a)^T *
 * grad, or the transpose of that. in = [gradient of out, inputs, out] */
static int32_t linalg_launch_gradients(const tn_frame *call, bool ta, bool tb,
                                       double alpha) {
  const tn_tensor *grad = &call->in[0], *a = &call->in[1], *b = &call->in[2];
  int32_t code = TN_OK;
  if (call->req[0] != TN_REQ_NULL) {
    linalg_product p = ta ? linalg_find_product(b, tb, grad, true)
                          : linalg_find_product(grad, false, b, !tb);
    p.alpha = alpha;
    code = linalg_multiply_into(call, 0, ta ? b : grad, ta ? grad : b, p);
  }
  if (code == TN_OK && call->req[1] != TN_REQ_NULL) {
    linalg_product p = tb ? linalg_find_product(grad, true, a, ta)
                          : linalg_find_product(a, !ta, grad, false);
    p.alpha = alpha;
    code = linalg_multiply_into(call, 1, tb ? grad : a, tb ? a : grad, p);
  }
  return code;
}

int32_t linalg_gemm2_backward(const tn_frame *call) {
  const linalg_gemm2_params *params = linalg_gemm2_params_of(call);
  return linalg_launch_gradients(call, params->transpose_a != 0,
                                 params->transpose_b != 0, params->alpha);
}

/* The gradient of c is beta * grad: a product without terms. */
int32_t linalg_gemm_backward(const tn_frame *call) {
  const linalg_gemm_params *params = linalg_gemm_params_of(call);
  const tn_tensor *grad = &call->in[0];
  linalg_product p = linalg_find_product(grad, false, grad, false);
  linalg_operands o = {};
  const int32_t code = linalg_launch_gradients(
      call, params->transpose_a != 0, params->transpose_b != 0, params->alpha);
  if (code != TN_OK || call->req[2] == TN_REQ_NULL) return code;
  p.k = 0;
  p.beta = params->beta;
  o.at[OUT] = tn_cuda_to(&call->out[2], call->req[2]);
  o.at[C] = tn_cuda_from(grad);
  return linalg_launch_product(call, o, p);
}

int32_t linalg_syrk(const tn_frame *call) {
  const linalg_syrk_params *params = linalg_syrk_params_of(call);
  const tn_tensor *a = &call->in[0];
  linalg_product p =
      linalg_find_product(a, params->transpose != 0, a, params->transpose == 0);
  p.alpha = params->alpha;
  return linalg_multiply_into(call, 0, a, a, p);
}

/* in = [gradient of out, a, out] */
int32_t linalg_syrk_grad(const tn_frame *call) {
  const linalg_syrk_grad_params *params = linalg_syrk_grad_params_of(call);
  const tn_tensor *head = &call->in[0], *a = &call->in[1];
  const bool right = params->transpose != 0;
  linalg_product p = right ? linalg_find_product(a, false, head, false)
                           : linalg_find_product(head, false, a, false);
  (right ? p.b : p.a).adds_transpose = 1;
  p.alpha = params->alpha;
  return linalg_multiply_into(call, 0, right ? a : head, right ? head : a, p);
}

/* No workspace: sums are in registers. */
int32_t linalg_syrk_bytes(const tn_frame *call, uint64_t *bytes) {
  (void)call;
  *bytes = 0;
  return TN_OK;
}

int32_t linalg_syrk_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_syrk_bytes(call, bytes);
}

/* --------------------------------------------------------- triangular ones */

template <class Params>
static int32_t linalg_launch_trmm(const tn_frame *call, const Params *params,
                                  bool inverts) {
  const tn_tensor *a = &call->in[0], *b = &call->in[1];
  const bool right = params->rightside != 0;
  const bool transpose = (params->transpose != 0) != inverts;
  linalg_product p = right ? linalg_find_product(b, false, a, transpose)
                           : linalg_find_product(a, transpose, b, false);
  (right ? p.b : p.a).triangle = params->lower ? LOWER : UPPER;
  p.alpha = params->alpha;
  return linalg_multiply_into(call, 0, right ? b : a, right ? a : b, p);
}

int32_t linalg_trmm(const tn_frame *call) {
  return linalg_launch_trmm(call, linalg_trmm_params_of(call), false);
}

int32_t linalg_trmm_back(const tn_frame *call) {
  return linalg_launch_trmm(call, linalg_trmm_back_params_of(call), true);
}

int32_t linalg_trmm_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_syrk_bytes(call, bytes);
}

int32_t linalg_trmm_back_bytes(const tn_frame *call, uint64_t *bytes) {
  return linalg_syrk_bytes(call, bytes);
}

/* y x^T; with transpose x y^T; on the right side x^T y and y^T x. */
int32_t linalg_triangle_outer(const tn_frame *call) {
  const linalg_triangle_outer_params *params =
      linalg_triangle_outer_params_of(call);
  const bool right = params->rightside != 0;
  const bool y_first = (params->transpose != 0) == right;
  const tn_tensor *first = &call->in[y_first ? 0 : 1];
  const tn_tensor *second = &call->in[y_first ? 1 : 0];
  linalg_product p = linalg_find_product(first, right, second, !right);
  p.alpha = params->alpha;
  p.triangle = params->lower ? LOWER : UPPER;
  return linalg_multiply_into(call, 0, first, second, p);
}

/* --------------------------------------------------------- outside a space */

/* x without its part inside of a space: x - first * (second), where the
 * workspace holds one factor. A square basis spans everything. */
static int32_t linalg_launch_outside(const tn_frame *call, bool by_columns) {
  const tn_tensor *basis = &call->in[0], *x = &call->in[1];
  const bool is_square = linalg_rows(basis) == linalg_columns(basis);
  linalg_product p = by_columns ? linalg_find_product(basis, true, x, false)
                                : linalg_find_product(x, false, basis, true);
  linalg_operands o = {}, rest = {};
  if (p.m == 0 || p.n == 0) p.k = 0;
  o.at[OUT] = tn_cuda_room(call->ws[0], x->dtype, p.count * p.m * p.n);
  o.at[A] = tn_cuda_from(by_columns ? basis : x);
  o.at[B] = tn_cuda_from(by_columns ? x : basis);
  int32_t code = is_square ? TN_OK : linalg_launch_product(call, o, p);
  linalg_product q = by_columns ? linalg_find_product(basis, false, x, false)
                                : linalg_find_product(x, false, basis, false);
  q.k = is_square ? 0 : by_columns ? p.m : p.n;
  q.m = linalg_rows(x);
  q.n = linalg_columns(x);
  q.alpha = -1;
  q.beta = is_square ? 0 : 1;
  if (by_columns)
    q.b.row = p.n, q.b.size = p.m * p.n;
  else
    q.a.row = p.n, q.a.size = p.m * p.n;
  rest.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  rest.at[A] = by_columns ? tn_cuda_from(basis) : o.at[OUT];
  rest.at[B] = by_columns ? o.at[OUT] : tn_cuda_from(basis);
  rest.at[C] = tn_cuda_from(x);
  rest.at[A].writes = rest.at[B].writes = 0;
  return code == TN_OK ? linalg_launch_product(call, rest, q) : code;
}

int32_t linalg_outside_columns(const tn_frame *call) {
  return linalg_launch_outside(call, true);
}

int32_t linalg_outside_rows(const tn_frame *call) {
  return linalg_launch_outside(call, false);
}

int32_t linalg_outside_columns_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *basis = &call->in[0], *x = &call->in[1];
  *bytes = (uint64_t)(linalg_count(x, 2) * linalg_columns(basis) *
                      linalg_columns(x) * tn_dtype_bytes(x->dtype));
  return TN_OK;
}

int32_t linalg_outside_rows_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *basis = &call->in[0], *x = &call->in[1];
  *bytes = (uint64_t)(linalg_count(x, 2) * linalg_rows(basis) * linalg_rows(x) *
                      tn_dtype_bytes(x->dtype));
  return TN_OK;
}
