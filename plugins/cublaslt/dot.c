/* SPDX-License-Identifier: Apache-2.0
 * dot.c: tensor.dot and tensor.batch_dot on CUDA devices. A dot of any
 * dimensions is one product of matrices: the kernel flattens the dimensions
 * that are not summed. A batch is one product per element. Gradients are
 * products too; the storage of the forward operands decides which factor is
 * transposed.
 */
#include "dot.gen.h"

#include <stdlib.h>

#include "plugin.gen.h"
#include "tenon/plugin/device_blas.h"

enum { LHS, RHS, N_PLANS }; /* products of a backward call; forward has LHS */

/* The same for both operators. */
typedef struct products {
  const tn_device_blas *blas;
  void *plan[N_PLANS]; /* NULL: the gradient was not requested, or it is
                        * empty */
  uint64_t bytes;
} products;

/* Each state starts with its products. */
struct cublaslt_dot_state {
  products products;
};

struct cublaslt_batch_dot_state {
  products products;
};

/* ------------------------------------------------------------------ shapes */

/* The matrices of a call: op(lhs) is m x k, op(rhs) k x n, `count` of them. */
typedef struct sizes {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t count;
  int transpose_a;
  int transpose_b;
} sizes;

/* Parameters of both operators, which have the same operand positions. */
typedef struct question {
  const tn_frame *call;
  const tn_tensor *lhs; /* their shapes, or the shapes of their gradients */
  const tn_tensor *rhs;
  int fast;
} question;

static int is_backward(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD) != 0;
}

/* An output that was not requested has no shape; it follows from the others. */
static const tn_tensor *shape_of(const tn_frame *call, uint32_t which) {
  if (!is_backward(call)) return &call->in[which];
  return call->req[which] != TN_REQ_NULL
             ? &call->out[which]
             : &call->in[TENSOR_DOT_BACKWARD_IN_LHS + which];
}

static question read_question(const tn_frame *call, int fast) {
  return (question){call, shape_of(call, LHS), shape_of(call, RHS), fast};
}

static int64_t size_of(const tn_tensor *t, int32_t from, int32_t to) {
  int64_t n = 1;
  for (int32_t d = from; d < to; ++d) n *= t->shape[d];
  return n;
}

static sizes dot_sizes(const question *q) {
  const tensor_dot_params *p = tensor_dot_params_of(q->call);
  const int32_t a = q->lhs->ndim, b = q->rhs->ndim;
  return (sizes){
      .m = size_of(q->lhs, p->transpose_a ? 1 : 0, p->transpose_a ? a : a - 1),
      .n = size_of(q->rhs, p->transpose_b ? 0 : 1, p->transpose_b ? b - 1 : b),
      .k = q->lhs->shape[p->transpose_a ? 0 : a - 1],
      .count = 1,
      .transpose_a = p->transpose_a,
      .transpose_b = p->transpose_b};
}

static sizes batch_sizes(const question *q) {
  const tensor_batch_dot_params *p = tensor_batch_dot_params_of(q->call);
  const int64_t *a = q->lhs->shape + q->lhs->ndim - 2;
  const int64_t *b = q->rhs->shape + q->rhs->ndim - 2;
  return (sizes){.m = a[p->transpose_a ? 1 : 0],
                 .n = b[p->transpose_b ? 0 : 1],
                 .k = a[p->transpose_a ? 0 : 1],
                 .count = size_of(q->lhs, 0, q->lhs->ndim - 2),
                 .transpose_a = p->transpose_a,
                 .transpose_b = p->transpose_b};
}

/* ---------------------------------------------------------------- products */

/* A dense matrix as a factor: its stored shape, and whether op() transposes
 * it. */
typedef struct factor {
  int64_t rows; /* in memory */
  int64_t columns;
  int transposed;
} factor;

static tn_device_product product_of(const question *q, factor a, factor b,
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
                             .alpha = 1,
                             .beta = request == TN_REQ_ADD ? 1 : 0,
                             .step_a = a.rows * a.columns,
                             .step_b = b.rows * b.columns,
                             .step_c = m * n};
}

/* op(lhs) has the layout of lhs, or the transposed one. */
static factor lhs_of(const sizes *s, int flip) {
  return (factor){s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k,
                  s->transpose_a != flip};
}

static factor rhs_of(const sizes *s, int flip) {
  return (factor){s->transpose_b ? s->n : s->k, s->transpose_b ? s->k : s->n,
                  s->transpose_b != flip};
}

static factor grad_of(const sizes *s, int flip) {
  return (factor){s->m, s->n, flip};
}

/* The product of a gradient (`which`), or the forward product. */
static tn_device_product product_for(const question *q, const sizes *s,
                                     int which) {
  const tn_req request = q->call->req[which];
  tn_device_product p;
  if (!is_backward(q->call))
    p = product_of(q, lhs_of(s, 0), rhs_of(s, 0), request);
  else if (which == LHS)
    p = s->transpose_a ? product_of(q, rhs_of(s, 0), grad_of(s, 1), request)
                       : product_of(q, grad_of(s, 0), rhs_of(s, 1), request);
  else
    p = s->transpose_b ? product_of(q, grad_of(s, 1), lhs_of(s, 0), request)
                       : product_of(q, lhs_of(s, 1), grad_of(s, 0), request);
  p.count = s->count;
  return p;
}

/* ------------------------------------------------------------------- state */

static void release_plans(products *x) {
  for (int i = 0; i < N_PLANS; ++i) x->blas->release(x->blas, x->plan[i]);
}

static int32_t add_plan(const question *q, const sizes *s, int which,
                        products *to) {
  uint64_t bytes = 0;
  const tn_device_product p = product_for(q, s, which);
  if (p.m == 0 || p.n == 0 || p.count == 0) return TN_OK;
  const int32_t code =
      to->blas->plan(to->blas, q->call, &p, &to->plan[which], &bytes);
  if (bytes > to->bytes) to->bytes = bytes;
  return code;
}

static int32_t add_plans(const question *q, const sizes *s, products *to) {
  const int n = is_backward(q->call) ? N_PLANS : 1;
  int32_t code = TN_OK;
  to->blas = q->call->instance;
  for (int i = 0; i < n && code == TN_OK; ++i)
    if (q->call->req[i] != TN_REQ_NULL) code = add_plan(q, s, i, to);
  if (code != TN_OK) release_plans(to);
  return code;
}

static int32_t create_products(const question *q, const sizes *s,
                               products **out) {
  products *x = calloc(1, sizeof *x);
  *out = NULL;
  if (!x) return TN_FAIL(q->call, TN_OUT_OF_MEMORY, "no memory for plans");
  const int32_t code = add_plans(q, s, x);
  if (code == TN_OK)
    *out = x;
  else
    free(x);
  return code;
}

static void destroy_products(products *x) {
  release_plans(x);
  free(x);
}

int32_t cublaslt_dot_create(const tn_frame *call, cublaslt_dot_state **out) {
  const question q =
      read_question(call, cublaslt_dot_cuda_options_of(call)->fast);
  const sizes s = dot_sizes(&q);
  products *x = NULL;
  const int32_t code = create_products(&q, &s, &x);
  *out = (cublaslt_dot_state *)x;
  return code;
}

void cublaslt_dot_destroy(cublaslt_dot_state *state) {
  destroy_products(&state->products);
}

int32_t cublaslt_batch_dot_create(const tn_frame *call,
                                  cublaslt_batch_dot_state **out) {
  const question q =
      read_question(call, cublaslt_batch_dot_cuda_options_of(call)->fast);
  const sizes s = batch_sizes(&q);
  products *x = NULL;
  const int32_t code = create_products(&q, &s, &x);
  *out = (cublaslt_batch_dot_state *)x;
  return code;
}

void cublaslt_batch_dot_destroy(cublaslt_batch_dot_state *state) {
  destroy_products(&state->products);
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

static int32_t run_product(const tn_frame *call, const products *x, int which,
                           const void *a, const void *b) {
  const tn_device_operands with = {.struct_size = sizeof with,
                                   .a = a,
                                   .b = b,
                                   .c = call->out[which].data,
                                   .ws = call->n_ws > 0 ? call->ws[0] : NULL};
  if (!x->plan[which]) return TN_OK;
  return x->blas->multiply(x->blas, call, x->plan[which], &with);
}

static int32_t run_forward(const tn_frame *call, const products *x) {
  return run_product(call, x, LHS, call->in[LHS].data, call->in[RHS].data);
}

/* In the order of product_for's factors. */
static int32_t run_backward(const tn_frame *call, const products *x,
                            int transpose_a, int transpose_b) {
  const void *grad = call->in[TENSOR_DOT_BACKWARD_GRAD_OUT].data;
  const void *lhs = call->in[TENSOR_DOT_BACKWARD_IN_LHS].data;
  const void *rhs = call->in[TENSOR_DOT_BACKWARD_IN_RHS].data;
  const int32_t code = transpose_a ? run_product(call, x, LHS, rhs, grad)
                                   : run_product(call, x, LHS, grad, rhs);
  if (code != TN_OK) return code;
  return transpose_b ? run_product(call, x, RHS, grad, lhs)
                     : run_product(call, x, RHS, lhs, grad);
}

int32_t cublaslt_dot(const tn_frame *call) {
  return run_forward(call, &cublaslt_dot_cuda_state_of(call)->products);
}

int32_t cublaslt_dot_backward(const tn_frame *call) {
  const tensor_dot_params *p = tensor_dot_params_of(call);
  return run_backward(call, &cublaslt_dot_cuda_state_of(call)->products,
                      p->transpose_a, p->transpose_b);
}

int32_t cublaslt_batch_dot(const tn_frame *call) {
  return run_forward(call, &cublaslt_batch_dot_cuda_state_of(call)->products);
}

int32_t cublaslt_batch_dot_backward(const tn_frame *call) {
  const tensor_batch_dot_params *p = tensor_batch_dot_params_of(call);
  return run_backward(call, &cublaslt_batch_dot_cuda_state_of(call)->products,
                      p->transpose_a, p->transpose_b);
}
