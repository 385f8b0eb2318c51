/* SPDX-License-Identifier: Apache-2.0
 * products.c: the operators of products.yaml: products of general matrices, and
 * their gradients, which are products too.
 */
#include "products.gen.h"

#include <string.h>

#include "linalg.h"

/* The parameters of a product: gemm2 has no beta. */
typedef struct product_params {
  uint32_t transpose_a;
  uint32_t transpose_b;
  double alpha;
  double beta;
} product_params;

static product_params read_gemm(const tn_frame *call) {
  const linalg_gemm_params *p = linalg_gemm_params_of(call);
  return (product_params){p->transpose_a != 0, p->transpose_b != 0, p->alpha,
                          p->beta};
}

static product_params read_gemm2(const tn_frame *call) {
  const linalg_gemm2_params *p = linalg_gemm2_params_of(call);
  return (product_params){p->transpose_a != 0, p->transpose_b != 0, p->alpha,
                          0};
}

static linalg_factor find_factor(const tn_tensor *tensor, int64_t i,
                                 uint32_t transpose) {
  return (linalg_factor){linalg_at(tensor, 2, i), linalg_rows(tensor),
                         linalg_columns(tensor), transpose};
}

/* Bytes of a matrix of the tensor. */
static size_t matrix_bytes(const tn_tensor *tensor) {
  return (size_t)(linalg_rows(tensor) * linalg_columns(tensor) *
                  tn_dtype_bytes(tensor->dtype));
}

/* About the operations of a product of two matrices of these shapes. */
static double estimate_work(const tn_tensor *a, const tn_tensor *out) {
  return (double)linalg_rows(a) * (double)linalg_columns(a) *
             (double)(linalg_columns(out) + linalg_rows(out)) +
         1;
}

/* ------------------------------------------------------------ gemm forward */

static int64_t multiply_one(const linalg_one *one, const product_params *p) {
  const tn_frame *call = one->call;
  void *out = linalg_at(&call->out[0], 2, one->i);
  const size_t bytes = matrix_bytes(&call->out[0]);
  if (bytes == 0) return TN_OK;
  const int adds = p->beta < 0 || p->beta > 0;
  if (adds) memcpy(out, linalg_at(&call->in[2], 2, one->i), bytes);
  return linalg_multiply(one, find_factor(&call->in[0], one->i, p->transpose_a),
                         find_factor(&call->in[1], one->i, p->transpose_b),
                         (linalg_target){out, p->alpha, adds ? p->beta : 0});
}

static int64_t step_gemm(const linalg_one *one) {
  const product_params p = read_gemm(one->call);
  return multiply_one(one, &p);
}

static int64_t step_gemm2(const linalg_one *one) {
  const product_params p = read_gemm2(one->call);
  return multiply_one(one, &p);
}

static int32_t run_product(const tn_frame *call, linalg_step *step) {
  const linalg_kernel kernel = {
      .step = step, .work = estimate_work(&call->in[0], &call->out[0])};
  return linalg_run_all(call, linalg_count(&call->out[0], 2), &kernel);
}

int32_t linalg_gemm(const tn_frame *call) {
  return run_product(call, step_gemm);
}

int32_t linalg_gemm2(const tn_frame *call) {
  return run_product(call, step_gemm2);
}

/* ----------------------------------------------------------- gemm backward */

/* The gradient of a: grad * op(b)^T, or the transpose of that. */
static int32_t find_gradient_a(const linalg_one *one, const product_params *p) {
  const linalg_factor grad = find_factor(&one->call->in[0], one->i, 0);
  const linalg_factor b =
      find_factor(&one->call->in[2], one->i, p->transpose_b);
  const linalg_target c = {linalg_at(&one->call->out[0], 2, one->i), p->alpha,
                           0};
  linalg_factor first = p->transpose_a ? b : grad;
  linalg_factor second = p->transpose_a ? grad : b;
  second.transpose = !second.transpose;
  return linalg_multiply(one, first, second, c);
}

/* The gradient of b: op(a)^T * grad, or the transpose of that. */
static int32_t find_gradient_b(const linalg_one *one, const product_params *p) {
  const linalg_factor grad = find_factor(&one->call->in[0], one->i, 0);
  const linalg_factor a =
      find_factor(&one->call->in[1], one->i, p->transpose_a);
  const linalg_target c = {linalg_at(&one->call->out[1], 2, one->i), p->alpha,
                           0};
  linalg_factor first = p->transpose_b ? grad : a;
  linalg_factor second = p->transpose_b ? a : grad;
  first.transpose = !first.transpose;
  return linalg_multiply(one, first, second, c);
}

/* The gradient of c: beta * grad. */
static void find_gradient_c(const linalg_one *one, const product_params *p) {
  const tn_tensor *out = &one->call->out[2];
  void *to = linalg_at(out, 2, one->i);
  const size_t bytes = matrix_bytes(out);
  const int64_t n = linalg_rows(out) * linalg_columns(out);
  if (bytes == 0) return;
  memcpy(to, linalg_at(&one->call->in[0], 2, one->i), bytes);
  for (int64_t i = 0; i < n && out->dtype == TN_F32; ++i)
    ((float *)to)[i] *= (float)p->beta;
  for (int64_t i = 0; i < n && out->dtype == TN_F64; ++i)
    ((double *)to)[i] *= p->beta;
}

/* in = [gradient of out, inputs, out] */
static int64_t find_gradients(const linalg_one *one, const product_params *p) {
  const tn_frame *call = one->call;
  int32_t code = TN_OK;
  if (call->req[0] != TN_REQ_NULL && matrix_bytes(&call->out[0]) > 0)
    code = find_gradient_a(one, p);
  if (code == TN_OK && call->req[1] != TN_REQ_NULL &&
      matrix_bytes(&call->out[1]) > 0)
    code = find_gradient_b(one, p);
  if (call->n_out > 2 && call->req[2] != TN_REQ_NULL) find_gradient_c(one, p);
  return code;
}

static int64_t step_gemm_backward(const linalg_one *one) {
  const product_params p = read_gemm(one->call);
  return find_gradients(one, &p);
}

static int64_t step_gemm2_backward(const linalg_one *one) {
  const product_params p = read_gemm2(one->call);
  return find_gradients(one, &p);
}

static int32_t run_backward(const tn_frame *call, linalg_step *step) {
  const linalg_kernel kernel = {
      .step = step, .work = 2 * estimate_work(&call->out[0], &call->out[1])};
  return linalg_run_all(call, linalg_count(&call->in[0], 2), &kernel);
}

int32_t linalg_gemm_backward(const tn_frame *call) {
  return run_backward(call, step_gemm_backward);
}

int32_t linalg_gemm2_backward(const tn_frame *call) {
  return run_backward(call, step_gemm2_backward);
}

/* -------------------------------------------------------------------- syrk */

static int64_t step_syrk(const linalg_one *one) {
  const linalg_syrk_params *p = linalg_syrk_params_of(one->call);
  const uint32_t transpose = p->transpose != 0;
  void *out = linalg_at(&one->call->out[0], 2, one->i);
  if (matrix_bytes(&one->call->out[0]) == 0) return TN_OK;
  return linalg_multiply(one, find_factor(&one->call->in[0], one->i, transpose),
                         find_factor(&one->call->in[0], one->i, !transpose),
                         (linalg_target){out, p->alpha, 0});
}

int32_t linalg_syrk(const tn_frame *call) {
  return run_product(call, step_syrk);
}

/* in = [gradient of out, a, out]; of the operator syrk_grad as well. */
static int64_t step_syrk_grad(const linalg_one *one) {
  const tn_frame *call = one->call;
  const linalg_syrk_grad_params *p = linalg_syrk_grad_params_of(call);
  const int64_t n = linalg_rows(&call->in[0]);
  const linalg_factor sum = {one->scratch, n, n, 0};
  const linalg_factor a = find_factor(&call->in[1], one->i, 0);
  const linalg_target out = {linalg_at(&call->out[0], 2, one->i), p->alpha, 0};
  if (matrix_bytes(&call->out[0]) == 0) return TN_OK;
  one->loops->square[LINALG_ADD_TRANSPOSE](
      n, linalg_at(&call->in[0], 2, one->i), one->scratch);
  return p->transpose ? linalg_multiply(one, a, sum, out)
                      : linalg_multiply(one, sum, a, out);
}

static linalg_kernel plan_syrk_grad(const tn_frame *call) {
  return (linalg_kernel){.step = step_syrk_grad,
                         .scratch = matrix_bytes(&call->in[0]),
                         .work = estimate_work(&call->in[0], &call->out[0])};
}

int32_t linalg_syrk_grad(const tn_frame *call) {
  const linalg_kernel kernel = plan_syrk_grad(call);
  return linalg_run_all(call, linalg_count(&call->in[0], 2), &kernel);
}

int32_t linalg_syrk_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  const linalg_kernel kernel = plan_syrk_grad(call);
  *bytes = linalg_scratch(linalg_count(&call->in[0], 2), &kernel);
  return TN_OK;
}

/* Forward needs no workspace. */
int32_t linalg_syrk_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  return call->flags & TN_CALL_BACKWARD ? linalg_syrk_grad_bytes(call, bytes)
                                        : TN_OK;
}
