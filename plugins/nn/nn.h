/* SPDX-License-Identifier: Apache-2.0
 * nn.h: the common part of this plugin's kernels.
 */
#ifndef NN_NN_H_
#define NN_NN_H_

#include "product.h"

/* State of the plugin for one runtime: call->instance. */
typedef struct nn_instance {
  const tn_blas *blas; /* NULL: no plugin provides blas/1 */
} nn_instance;

/* A shape as text for messages, for example "(2,?,5)". */
typedef struct nn_shape_text {
  char text[24 * TN_MAX_NDIM];
} nn_shape_text;

nn_shape_text nn_print_shape(const tn_tensor *tensor);

/* Computes a matrix product with blas/1, or with product.h if no plugin
 * provides it. [worker] */
int32_t nn_multiply(const tn_frame *call, const tn_blas_gemm *product);

#endif /* NN_NN_H_ */
