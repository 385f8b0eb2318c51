/* SPDX-License-Identifier: Apache-2.0
 * product.h: the products of tenon/kernel/product.h, compiled once for all
 * files of this plugin.
 */
#ifndef NN_PRODUCT_H_
#define NN_PRODUCT_H_

#include "tenon/plugin/blas.h"

/* As tn_blas.gemm. [worker] */
int32_t nn_multiply_plain(const tn_frame *call, const tn_blas_gemm *product);

#endif /* NN_PRODUCT_H_ */
