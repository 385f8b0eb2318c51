/* SPDX-License-Identifier: Apache-2.0
 * dot.c: tensor.dot and tensor.batch_dot on CUDA devices. A dot of any
 * dimensions is one product of matrices: the kernel flattens the dimensions
 * that are not summed. A batch is one product per element. Gradients are
 * products too.
 */
#include "dot.gen.h"

#include "products.h"

/* Each state starts with its products. */
struct cublaslt_dot_state {
  cublaslt_products products;
};

struct cublaslt_batch_dot_state {
  cublaslt_products products;
};

/* ------------------------------------------------------------------- state */

static cublaslt_sizes find_dot_sizes(const cublaslt_question *q) {
  const tensor_dot_params *p = tensor_dot_params_of(q->call);
  const int32_t a = q->lhs->ndim, b = q->rhs->ndim;
  return (cublaslt_sizes){.m = cublaslt_count(q->lhs, p->transpose_a ? 1 : 0,
                                              p->transpose_a ? a : a - 1),
                          .n = cublaslt_count(q->rhs, p->transpose_b ? 0 : 1,
                                              p->transpose_b ? b - 1 : b),
                          .k = q->lhs->shape[p->transpose_a ? 0 : a - 1],
                          .count = 1,
                          .transpose_a = p->transpose_a,
                          .transpose_b = p->transpose_b};
}

int32_t cublaslt_dot_create(const tn_frame *call, cublaslt_dot_state **out) {
  const cublaslt_question q =
      cublaslt_read_question(call, cublaslt_dot_cuda_options_of(call)->fast);
  const cublaslt_sizes s = find_dot_sizes(&q);
  cublaslt_products *x = NULL;
  const int32_t code = cublaslt_create_products(&q, &s, &x);
  *out = (cublaslt_dot_state *)x;
  return code;
}

void cublaslt_dot_destroy(cublaslt_dot_state *state) {
  cublaslt_destroy_products(&state->products);
}

int32_t cublaslt_batch_dot_create(const tn_frame *call,
                                  cublaslt_batch_dot_state **out) {
  const tensor_batch_dot_params *p = tensor_batch_dot_params_of(call);
  const cublaslt_question q = cublaslt_read_question(
      call, cublaslt_batch_dot_cuda_options_of(call)->fast);
  const cublaslt_sizes s =
      cublaslt_batch_sizes(&q, p->transpose_a, p->transpose_b);
  cublaslt_products *x = NULL;
  const int32_t code = cublaslt_create_products(&q, &s, &x);
  *out = (cublaslt_batch_dot_state *)x;
  return code;
}

void cublaslt_batch_dot_destroy(cublaslt_batch_dot_state *state) {
  cublaslt_destroy_products(&state->products);
}

int32_t cublaslt_dot_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = cublaslt_dot_cuda_state_of(call)->products.bytes;
  return TN_OK;
}

int32_t cublaslt_batch_dot_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = cublaslt_batch_dot_cuda_state_of(call)->products.bytes;
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

int32_t cublaslt_dot(const tn_frame *call) {
  return cublaslt_run_forward(call,
                              &cublaslt_dot_cuda_state_of(call)->products);
}

int32_t cublaslt_dot_backward(const tn_frame *call) {
  const tensor_dot_params *p = tensor_dot_params_of(call);
  return cublaslt_run_backward(call,
                               &cublaslt_dot_cuda_state_of(call)->products,
                               p->transpose_a, p->transpose_b);
}

int32_t cublaslt_batch_dot(const tn_frame *call) {
  return cublaslt_run_forward(
      call, &cublaslt_batch_dot_cuda_state_of(call)->products);
}

int32_t cublaslt_batch_dot_backward(const tn_frame *call) {
  const tensor_batch_dot_params *p = tensor_batch_dot_params_of(call);
  return cublaslt_run_backward(
      call, &cublaslt_batch_dot_cuda_state_of(call)->products, p->transpose_a,
      p->transpose_b);
}
