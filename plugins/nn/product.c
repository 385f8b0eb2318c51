/* SPDX-License-Identifier: Apache-2.0
 * product.c: compiles tenon/kernel/product.h once for this plugin.
 */
#include "tenon/kernel/product.h"
#include "nn.h"

int32_t nn_multiply_plain(const tn_frame *call, const tn_blas_gemm *g) {
  return tn_product(call, g);
}

void nn_multiply_block(const tn_kernel_mode *mode, const nn_block_product *x) {
  union {
    char bytes[TN_PRODUCT_WIDER];
    uint64_t line[8] __attribute__((aligned(64)));
  } room;
  tn_product_tile *multiply = tn_product_tile_of(mode->compute, mode->level);
  const int64_t bytes = tn_dtype_bytes(mode->compute);
  const int64_t depth = x->k < TN_PRODUCT_DEPTH ? x->k : TN_PRODUCT_DEPTH;
  const int64_t step = 2 * TN_PRODUCT_LANES;
  const int64_t width = TN_PRODUCT_WIDER / (depth > 0 ? depth : 1) / bytes;
  const int64_t wide = width / step * step;
  for (int64_t i = 0; x->k == 0 && x->beta == 0 && i < x->m; ++i)
    memset((char *)x->c + i * x->c_row * bytes, 0, (size_t)(x->n * bytes));
  for (int64_t j = 0; x->m > 0 && j < x->n; j += wide) {
    const tn_product_block block = {
        {x->a.at, x->a.row, x->a.column},
        {tn_product_skip(x->b.at, j * x->b.column, bytes), x->b.row,
         x->b.column},
        {(char *)x->c + j * bytes, x->c_row, 1, x->alpha, x->beta},
        x->m,
        x->n - j < wide ? x->n - j : wide,
        x->k,
        0};
    multiply(&block, room.bytes);
  }
}

int32_t nn_multiply(const tn_frame *call, const tn_blas_gemm *g) {
  const nn_instance *nn = call->instance;
  return tn_product_by(nn->blas, call, g);
}
