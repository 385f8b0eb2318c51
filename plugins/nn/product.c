/* SPDX-License-Identifier: Apache-2.0
 * product.c: compiles tenon/kernel/product.h once for this plugin.
 */
#include "tenon/kernel/product.h"
#include "nn.h"

int32_t nn_multiply_plain(const tn_frame *call, const tn_blas_gemm *g) {
  return tn_product(call, g);
}

int32_t nn_multiply(const tn_frame *call, const tn_blas_gemm *g) {
  const nn_instance *nn = call->instance;
  return tn_product_by(nn->blas, call, g);
}
