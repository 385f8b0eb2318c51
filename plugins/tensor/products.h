/* SPDX-License-Identifier: Apache-2.0
 * products.h: many products of matrices of one shape, on the CPU (dot.c).
 */
#ifndef TENSOR_PRODUCTS_H_
#define TENSOR_PRODUCTS_H_

#include "tenon/plugin/blas.h"

/* The first product, and the distances to the operands of the next one. */
typedef struct tensor_products {
  const tn_frame *call;
  const tn_blas *blas; /* NULL: tenon/kernel/product.h multiplies */
  tn_blas_gemm one;
  int64_t count;
  int64_t next_a; /* in elements */
  int64_t next_b;
  int64_t next_c;
} tensor_products;

/* Computes all products, small ones on several threads, large ones divided
 * among them. [worker] */
int32_t tensor_multiply_all(const tensor_products *p);

#endif /* TENSOR_PRODUCTS_H_ */
