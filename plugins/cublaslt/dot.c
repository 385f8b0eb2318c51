/* SPDX-License-Identifier: Apache-2.0
 * dot.c: tensor.dot and tensor.batch_dot on CUDA devices. A dot of any
 * dimensions is one product of matrices: the kernel flattens the dimensions
 * that are not summed. A batch is one product per element. Gradients are
 * products too.
 */
#include "dot.gen.h"

#include "products.h"

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

int32_t cublaslt_dot_create(const tn_frame *call, cublaslt_products **out) {
  const cublaslt_question q =
      cublaslt_read_question(call, cublaslt_dot_cuda_options_of(call)->fast);
  const cublaslt_sizes s = find_dot_sizes(&q);
  return cublaslt_create_products(&q, &s, out);
}

int32_t cublaslt_dot_backward(const tn_frame *call) {
  const tensor_dot_params *p = tensor_dot_params_of(call);
  return cublaslt_run_backward(call, p->transpose_a, p->transpose_b);
}

int32_t cublaslt_batch_dot_create(const tn_frame *call,
                                  cublaslt_products **out) {
  const tensor_batch_dot_params *p = tensor_batch_dot_params_of(call);
  const cublaslt_question q = cublaslt_read_question(
      call, cublaslt_batch_dot_cuda_options_of(call)->fast);
  const cublaslt_sizes s =
      cublaslt_batch_sizes(&q, p->transpose_a, p->transpose_b);
  return cublaslt_create_products(&q, &s, out);
}

int32_t cublaslt_batch_dot_backward(const tn_frame *call) {
  const tensor_batch_dot_params *p = tensor_batch_dot_params_of(call);
  return cublaslt_run_backward(call, p->transpose_a, p->transpose_b);
}
