/* SPDX-License-Identifier: Apache-2.0
 * products.c: see products.h. The storage of the forward operands decides which
 * factor of a gradient is transposed.
 */
#include "products.h"

#include <stdlib.h>

enum { GRAD, LHS_OF_BACKWARD, RHS_OF_BACKWARD }; /* inputs of a backward call */

/* ------------------------------------------------------------------- plans */

int32_t cublaslt_begin_products(const tn_frame *call, cublaslt_products **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for plans");
  (*out)->blas = call->instance;
  return TN_OK;
}

int32_t cublaslt_add_plan(const tn_frame *call, const tn_device_product *p,
                          int which, cublaslt_products *to) {
  uint64_t bytes = 0;
  const int32_t code =
      to->blas->plan(to->blas, call, p, &to->plan[which], &bytes);
  if (bytes > to->bytes) to->bytes = bytes;
  return code;
}

int32_t cublaslt_end_products(int32_t code, cublaslt_products **out) {
  if (code == TN_OK) return TN_OK;
  cublaslt_destroy_products(*out);
  *out = NULL;
  return code;
}

void cublaslt_destroy_products(cublaslt_products *x) {
  if (!x) return;
  for (int i = 0; i < CUBLASLT_N_PLANS; ++i)
    x->blas->release(x->blas, x->plan[i]);
  free(x);
}

static const cublaslt_products *get_products(const tn_frame *call) {
  return call->prepared;
}

int32_t cublaslt_count_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = get_products(call)->bytes;
  return TN_OK;
}

int32_t cublaslt_multiply(const tn_frame *call, int which,
                          tn_device_operands operands) {
  const cublaslt_products *x = get_products(call);
  operands.struct_size = sizeof operands;
  operands.ws = call->n_ws > 0 ? call->ws[0] : NULL;
  if (!x->plan[which]) return TN_OK;
  return x->blas->multiply(x->blas, call, x->plan[which], &operands);
}

/* ------------------------------------------------------------------ shapes */

static int is_backward(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD) != 0;
}

/* An output that was not requested has no shape; it follows from the others. */
static const tn_tensor *find_shape(const tn_frame *call, uint32_t which) {
  if (!is_backward(call)) return &call->in[which];
  return call->req[which] != TN_REQ_NULL ? &call->out[which]
                                         : &call->in[LHS_OF_BACKWARD + which];
}

cublaslt_question cublaslt_read_question(const tn_frame *call, int fast) {
  return (cublaslt_question){call, find_shape(call, CUBLASLT_LHS),
                             find_shape(call, CUBLASLT_RHS), fast, 1};
}

int64_t cublaslt_count(const tn_tensor *t, int32_t from, int32_t to) {
  int64_t n = 1;
  for (int32_t d = from; d < to; ++d) n *= t->shape[d];
  return n;
}

cublaslt_sizes cublaslt_batch_sizes(const cublaslt_question *q, int transpose_a,
                                    int transpose_b) {
  const int64_t *a = q->lhs->shape + q->lhs->ndim - 2;
  const int64_t *b = q->rhs->shape + q->rhs->ndim - 2;
  return (cublaslt_sizes){.m = a[transpose_a ? 1 : 0],
                          .n = b[transpose_b ? 0 : 1],
                          .k = a[transpose_a ? 0 : 1],
                          .count = cublaslt_count(q->lhs, 0, q->lhs->ndim - 2),
                          .transpose_a = transpose_a,
                          .transpose_b = transpose_b};
}

/* ---------------------------------------------------------------- products */

tn_device_product cublaslt_describe(const cublaslt_question *q,
                                    cublaslt_factor a, cublaslt_factor b,
                                    tn_req request) {
  const int64_t m = a.transposed ? a.columns : a.rows;
  const int64_t n = b.transposed ? b.rows : b.columns;
  return (tn_device_product){.struct_size = sizeof(tn_device_product),
                             .dtype = q->call->in[0].dtype,
                             .transpose_a = (uint32_t)a.transposed,
                             .transpose_b = (uint32_t)b.transposed,
                             .flags = q->fast ? TN_PRODUCT_FAST : 0,
                             .m = m,
                             .n = n,
                             .k = a.transposed ? a.rows : a.columns,
                             .lda = a.columns,
                             .ldb = b.columns,
                             .ldc = n,
                             .alpha = q->alpha,
                             .beta = request == TN_REQ_ADD ? 1 : 0,
                             .step_a = a.rows * a.columns,
                             .step_b = b.rows * b.columns,
                             .step_c = m * n};
}

/* op(lhs) has the layout of lhs, or the transposed one. */
static cublaslt_factor find_lhs(const cublaslt_sizes *s, int flip) {
  return (cublaslt_factor){s->transpose_a ? s->k : s->m,
                           s->transpose_a ? s->m : s->k,
                           s->transpose_a != flip};
}

static cublaslt_factor find_rhs(const cublaslt_sizes *s, int flip) {
  return (cublaslt_factor){s->transpose_b ? s->n : s->k,
                           s->transpose_b ? s->k : s->n,
                           s->transpose_b != flip};
}

static cublaslt_factor find_grad(const cublaslt_sizes *s, int flip) {
  return (cublaslt_factor){s->m, s->n, flip};
}

/* The product of a gradient (`which`), or the forward product. A product that
 * was not requested has a count of 0. */
static tn_device_product choose_product(const cublaslt_question *q,
                                        const cublaslt_sizes *s, int which) {
  const tn_req request = q->call->req[which];
  cublaslt_factor a = find_lhs(s, 0), b = find_rhs(s, 0);
  if (is_backward(q->call) && which == CUBLASLT_LHS) {
    a = s->transpose_a ? find_rhs(s, 0) : find_grad(s, 0);
    b = s->transpose_a ? find_grad(s, 1) : find_rhs(s, 1);
  } else if (is_backward(q->call)) {
    a = s->transpose_b ? find_grad(s, 1) : find_lhs(s, 1);
    b = s->transpose_b ? find_lhs(s, 0) : find_grad(s, 0);
  }
  tn_device_product p = cublaslt_describe(q, a, b, request);
  p.count = request == TN_REQ_NULL ? 0 : s->count;
  return p;
}

int32_t cublaslt_create_plans(const cublaslt_question *q,
                              const tn_device_product *products, int n,
                              cublaslt_products **out) {
  int32_t code = cublaslt_begin_products(q->call, out);
  for (int i = 0; i < n && code == TN_OK; ++i) {
    const tn_device_product *p = &products[i];
    if (p->m > 0 && p->n > 0 && p->count > 0)
      code = cublaslt_add_plan(q->call, p, i, *out);
  }
  return cublaslt_end_products(code, out);
}

int32_t cublaslt_create_products(const cublaslt_question *q,
                                 const cublaslt_sizes *s,
                                 cublaslt_products **out) {
  const int n = is_backward(q->call) ? CUBLASLT_N_PLANS : 1;
  tn_device_product products[CUBLASLT_N_PLANS];
  for (int i = 0; i < n; ++i) products[i] = choose_product(q, s, i);
  return cublaslt_create_plans(q, products, n, out);
}

/* ------------------------------------------------------------------- calls */

int32_t cublaslt_run_forward(const tn_frame *call) {
  return cublaslt_multiply(call, CUBLASLT_LHS,
                           (tn_device_operands){.a = call->in[0].data,
                                                .b = call->in[1].data,
                                                .c = call->out[0].data});
}

/* In the order of choose_product's factors. */
int32_t cublaslt_run_backward(const tn_frame *call, int transpose_a,
                              int transpose_b) {
  const void *grad = call->in[GRAD].data;
  const void *lhs = call->in[LHS_OF_BACKWARD].data;
  const void *rhs = call->in[RHS_OF_BACKWARD].data;
  const tn_device_operands of_lhs = {.a = transpose_a ? rhs : grad,
                                     .b = transpose_a ? grad : rhs,
                                     .c = call->out[CUBLASLT_LHS].data};
  const tn_device_operands of_rhs = {.a = transpose_b ? grad : lhs,
                                     .b = transpose_b ? lhs : grad,
                                     .c = call->out[CUBLASLT_RHS].data};
  const int32_t code = cublaslt_multiply(call, CUBLASLT_LHS, of_lhs);
  return code == TN_OK ? cublaslt_multiply(call, CUBLASLT_RHS, of_rhs) : code;
}
