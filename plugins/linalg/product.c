/* SPDX-License-Identifier: Apache-2.0
 * product.c: compiles tenon/kernel/product.h once for this plugin.
 */
#include "tenon/kernel/product.h"
#include "linalg.h"

/* Whether blas/1 accepts the lengths: most libraries have integers of 32
 * bits. */
static int fits_blas(const tn_blas_gemm *g) {
  return g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX;
}

int32_t linalg_multiply(const linalg_one *one, linalg_factor a, linalg_factor b,
                        linalg_target c) {
  const linalg_instance *linalg = one->call->instance;
  const int64_t n = b.transpose ? b.rows : b.columns;
  const tn_blas_gemm g = {
      .struct_size = sizeof g,
      .dtype = one->loops->bytes == sizeof(float) ? TN_F32 : TN_F64,
      .transpose_a = a.transpose,
      .transpose_b = b.transpose,
      .m = a.transpose ? a.columns : a.rows,
      .n = n,
      .k = a.transpose ? a.rows : a.columns,
      .a = a.at,
      .b = b.at,
      .c = c.at,
      .lda = a.columns,
      .ldb = b.columns,
      .ldc = n,
      .alpha = c.alpha,
      .beta = c.beta};
  return tn_product_by(fits_blas(&g) ? linalg->blas : NULL, one->call, &g);
}
