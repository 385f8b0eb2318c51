/* SPDX-License-Identifier: Apache-2.0
 * product.c: see product.h.
 */
#include "product.h"

#include "tenon/product.h"

int32_t nn_product(const tn_frame *call, const tn_blas_gemm *g) {
  return tn_product(call, g);
}
