/* SPDX-License-Identifier: Apache-2.0
 * products.h: the plans of a call, and operators with two factors, whose
 * gradients are products too: the common part of all operators. The factors are
 * the first two inputs; a backward call has the gradient of the output before
 * them.
 */
#ifndef CUBLASLT_PRODUCTS_H_
#define CUBLASLT_PRODUCTS_H_

#include "tenon/plugin/device_blas.h"

/* Products of a backward call; forward has CUBLASLT_LHS. */
enum { CUBLASLT_LHS, CUBLASLT_RHS, CUBLASLT_N_PLANS };

/* ------------------------------------------------------------------- plans */

/* The plans of a call: the state of each kernel. */
typedef struct cublaslt_products {
  const tn_device_blas *blas;
  void *plan[CUBLASLT_N_PLANS]; /* NULL: the gradient was not requested, or it
                                 * is empty */
  uint64_t bytes;
} cublaslt_products;

/* Creates a state without plans. TN_OK, or a code after TN_FAIL. [any] */
int32_t cublaslt_begin_products(const tn_frame *call, cublaslt_products **out);
/* Plans a product. TN_OK, or a code after TN_FAIL. [any] */
int32_t cublaslt_add_plan(const tn_frame *call,
                          const tn_device_product *product, int which,
                          cublaslt_products *to);
/* Returns `code`; destroys *out if it is a failure. Else the caller destroys
 * *out. [any] */
int32_t cublaslt_end_products(int32_t code, cublaslt_products **out);
/* NULL is allowed. [any] */
void cublaslt_destroy_products(cublaslt_products *products);

/* The largest workspace of the plans. [any] */
int32_t cublaslt_count_bytes(const tn_frame *call, uint64_t *bytes);

/* Enqueues a planned product, if it has a plan. Fills in the size and the
 * workspace of the operands. [worker] */
int32_t cublaslt_multiply(const tn_frame *call, int which,
                          tn_device_operands operands);

/* ------------------------------------------------- operators of two factors */

/* The matrices of a call: op(lhs) is m x k, op(rhs) k x n, `count` of them. */
typedef struct cublaslt_sizes {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t count;
  int transpose_a;
  int transpose_b;
} cublaslt_sizes;

/* A call, and the parameters of its products. */
typedef struct cublaslt_question {
  const tn_frame *call;
  const tn_tensor *lhs; /* their shapes, or the shapes of their gradients */
  const tn_tensor *rhs;
  int fast;
  double alpha;
} cublaslt_question;

/* A dense matrix as a factor: its stored shape, and whether op() transposes
 * it. */
typedef struct cublaslt_factor {
  int64_t rows; /* in memory */
  int64_t columns;
  int transposed;
} cublaslt_factor;

/* A question with alpha 1. [any] */
cublaslt_question cublaslt_read_question(const tn_frame *call, int fast);

/* Sizes of batches: the last two dimensions of each factor are a matrix. [any]
 */
cublaslt_sizes cublaslt_batch_sizes(const cublaslt_question *q, int transpose_a,
                                    int transpose_b);

/* Product of the dimensions from `from` to before `to`. [any] */
int64_t cublaslt_count(const tn_tensor *t, int32_t from, int32_t to);

/* Describes a product of dense matrices; the caller sets its count. [any] */
tn_device_product cublaslt_describe(const cublaslt_question *q,
                                    cublaslt_factor a, cublaslt_factor b,
                                    tn_req request);

/* Creates a state with the plans of `n` products, except those without
 * elements. The caller destroys *out. [any] */
int32_t cublaslt_create_plans(const cublaslt_question *q,
                              const tn_device_product *products, int n,
                              cublaslt_products **out);
/* The same with all requested products of an operator with two factors. [any]
 */
int32_t cublaslt_create_products(const cublaslt_question *q,
                                 const cublaslt_sizes *s,
                                 cublaslt_products **out);

/* Enqueues the products of an operator with two factors. [worker] */
int32_t cublaslt_run_forward(const tn_frame *call);
int32_t cublaslt_run_backward(const tn_frame *call, int transpose_a,
                              int transpose_b);

#endif /* CUBLASLT_PRODUCTS_H_ */
