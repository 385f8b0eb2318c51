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

/* The labels of a loss: numbers of classes. */
typedef struct nn_labels {
  const tn_tensor *tensor;
  int64_t classes;
  uint32_t level; /* of the CPU's instructions */
} nn_labels;

/* Labels that are read together. */
enum { NN_LABELS = 64 };

/* Reads n labels, at most NN_LABELS, from label `at` on; -1 for a number that
 * is no class. [worker] */
void nn_read_labels(const nn_labels *labels, int64_t at, int64_t n,
                    int64_t *to);

#endif /* NN_NN_H_ */
