/* SPDX-License-Identifier: Apache-2.0
 * nn.h: what the kernels of this plugin share.
 */
#ifndef NN_NN_H_
#define NN_NN_H_

#include "product.h"

/* What init found out for a runtime: call->instance. */
typedef struct nn_instance {
  const tn_blas *blas; /* NULL: no plugin provides blas/1 */
} nn_instance;

/* "(2,?,5)": a shape as messages have it. */
typedef struct nn_shape_text {
  char text[24 * TN_MAX_NDIM];
} nn_shape_text;

nn_shape_text nn_shape(const tn_tensor *tensor);

/* A product by blas/1 or by product.h, as tn_product_by has it. [worker] */
int32_t nn_multiply(const tn_frame *call, const tn_blas_gemm *product);

#endif /* NN_NN_H_ */
