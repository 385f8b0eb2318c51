/* SPDX-License-Identifier: Apache-2.0
 * linalg.c: linalg.gemm2 and syrk on CUDA devices. linalg.gemm is not here: its
 * output would have to begin as a copy of an input.
 */
#include "linalg.gen.h"

#include "products.h"

/* ------------------------------------------------------------------- gemm2 */

int32_t cublaslt_gemm2_create(const tn_frame *call, cublaslt_products **out) {
  const linalg_gemm2_params *p = linalg_gemm2_params_of(call);
  cublaslt_question q =
      cublaslt_read_question(call, cublaslt_gemm2_cuda_options_of(call)->fast);
  const cublaslt_sizes s =
      cublaslt_batch_sizes(&q, p->transpose_a, p->transpose_b);
  q.alpha = p->alpha;
  return cublaslt_create_products(&q, &s, out);
}

int32_t cublaslt_gemm2_backward(const tn_frame *call) {
  const linalg_gemm2_params *p = linalg_gemm2_params_of(call);
  return cublaslt_run_backward(call, p->transpose_a, p->transpose_b);
}

/* -------------------------------------------------------------------- syrk */

/* Products of matrices `a` with themselves, or with the gradient. */
typedef struct squares {
  cublaslt_question question;
  const tn_tensor *a;
  int transpose; /* the first factor is the transposed one */
} squares;

static squares find_squares(const tn_frame *call, int is_grad, int fast,
                            int transpose, double alpha) {
  return (squares){
      {call, NULL, NULL, fast, alpha}, &call->in[is_grad ? 1 : 0], transpose};
}

static cublaslt_factor find_factor(const squares *x, int transposed) {
  const int64_t *shape = x->a->shape + x->a->ndim - 2;
  return (cublaslt_factor){shape[0], shape[1], transposed};
}

/* a a^T, or a^T a. */
static int32_t create_square(const squares *x, cublaslt_products **out) {
  tn_device_product p =
      cublaslt_describe(&x->question, find_factor(x, x->transpose),
                        find_factor(x, !x->transpose), TN_REQ_WRITE);
  p.count = cublaslt_count(x->a, 0, x->a->ndim - 2);
  return cublaslt_create_plans(&x->question, &p, 1, out);
}

/* (g + g^T) a, or a (g + g^T): the second product adds to the first. */
static int32_t create_gradient(const squares *x, cublaslt_products **out) {
  const cublaslt_factor a = find_factor(x, 0);
  const int64_t n = x->transpose ? a.columns : a.rows;
  tn_device_product products[CUBLASLT_N_PLANS];
  for (int i = 0; i < CUBLASLT_N_PLANS; ++i) {
    const cublaslt_factor g = {n, n, i};
    products[i] = cublaslt_describe(&x->question, x->transpose ? a : g,
                                    x->transpose ? g : a,
                                    i == 0 ? TN_REQ_WRITE : TN_REQ_ADD);
    products[i].count = cublaslt_count(x->a, 0, x->a->ndim - 2);
  }
  return cublaslt_create_plans(&x->question, products, CUBLASLT_N_PLANS, out);
}

/* in = [gradient of out, a, out] */
static int32_t run_gradient(const tn_frame *call, int transpose) {
  const void *g = call->in[0].data, *a = call->in[1].data;
  const tn_device_operands operands = {
      .a = transpose ? a : g, .b = transpose ? g : a, .c = call->out[0].data};
  int32_t code = TN_OK;
  for (int i = 0; i < CUBLASLT_N_PLANS && code == TN_OK; ++i)
    code = cublaslt_multiply(call, i, operands);
  return code;
}

int32_t cublaslt_syrk_create(const tn_frame *call, cublaslt_products **out) {
  const linalg_syrk_params *p = linalg_syrk_params_of(call);
  const int is_grad = (call->flags & TN_CALL_BACKWARD) != 0;
  const squares s =
      find_squares(call, is_grad, cublaslt_syrk_cuda_options_of(call)->fast,
                   p->transpose, p->alpha);
  return is_grad ? create_gradient(&s, out) : create_square(&s, out);
}

int32_t cublaslt_syrk(const tn_frame *call) {
  const void *a = call->in[0].data;
  return cublaslt_multiply(
      call, CUBLASLT_LHS,
      (tn_device_operands){.a = a, .b = a, .c = call->out[0].data});
}

int32_t cublaslt_syrk_backward(const tn_frame *call) {
  return run_gradient(call, linalg_syrk_params_of(call)->transpose);
}

int32_t cublaslt_syrk_grad_create(const tn_frame *call,
                                  cublaslt_products **out) {
  const linalg_syrk_grad_params *p = linalg_syrk_grad_params_of(call);
  const squares s =
      find_squares(call, 1, cublaslt_syrk_grad_cuda_options_of(call)->fast,
                   p->transpose, p->alpha);
  return create_gradient(&s, out);
}

int32_t cublaslt_syrk_grad(const tn_frame *call) {
  return run_gradient(call, linalg_syrk_grad_params_of(call)->transpose);
}
