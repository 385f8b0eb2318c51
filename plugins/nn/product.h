/* SPDX-License-Identifier: Apache-2.0
 * product.h: the products of tenon/kernel/product.h, compiled once for all
 * files of this plugin.
 */
#ifndef NN_PRODUCT_H_
#define NN_PRODUCT_H_

#include "tenon/kernel/kernel.h"
#include "tenon/plugin/blas.h"

/* As tn_blas.gemm. [worker] */
int32_t nn_multiply_plain(const tn_frame *call, const tn_blas_gemm *product);

/* A matrix with element (i, j) at at[i * row + j * column]. */
typedef struct nn_block_matrix {
  const void *at;
  int64_t row;
  int64_t column;
} nn_block_matrix;

/* A product of small matrices: c = alpha * a * b + beta * c, where a is m x k
 * and b is k x n. Rows of c are c_row elements apart. */
typedef struct nn_block_product {
  int64_t m;
  int64_t n;
  int64_t k;
  nn_block_matrix a;
  nn_block_matrix b;
  void *c;
  int64_t c_row;
  double alpha;
  double beta;
} nn_block_product;

/* Computes a product on the calling thread, in the type and with the
 * instructions of `mode`, f32 or f64. It needs 128 KiB of the stack. [worker]
 */
void nn_multiply_block(const tn_kernel_mode *mode,
                       const nn_block_product *product);

#endif /* NN_PRODUCT_H_ */
