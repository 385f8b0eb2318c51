/* SPDX-License-Identifier: Apache-2.0
 * product.h: matrix products in C, for machines without a BLAS. They are
 * vectorised and use the host's workers, but pack less than a BLAS does, so
 * that large products get a part of its speed only (docs/performance.md).
 */
#ifndef NN_PRODUCT_H_
#define NN_PRODUCT_H_

#include "tenon/blas.h"

/* As tn_blas.gemm. [worker] */
int32_t nn_product(const tn_frame *call, const tn_blas_gemm *product);

#endif /* NN_PRODUCT_H_ */
