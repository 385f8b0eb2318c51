/* SPDX-License-Identifier: Apache-2.0
 * device_blas.h: matrix products on devices that one plugin offers to all
 * others, like blas.h on the CPU. Standalone: op.h only.
 *
 * There is one such table for each type of device; that of CUDA devices is
 * "blas.cuda/1", which plugins/cuda provides if it finds cuBLASLt. A kernel
 * plans its products when it is prepared (`state` of its manifest), requests
 * the workspace for them, and enqueues them on its stream:
 *
 *   int32_t acme_create(const tn_frame *call, acme_state *state) {
 *     const tn_device_blas *blas = call->instance;
 *     const tn_device_product what = {.struct_size = sizeof what, ...};
 *     state->blas = blas;
 *     return blas->plan(blas, call, &what, &state->plan, &state->bytes);
 *   }
 *
 *   int32_t acme_compute(const tn_frame *call) {
 *     const acme_state *state = call->prepared;
 *     const tn_device_operands with = {.struct_size = sizeof with, ...,
 *                                      .ws = call->ws[0]};
 *     return state->blas->multiply(state->blas, call, state->plan, &with);
 *   }
 *
 * Such kernels declare TN_KERNEL_ASYNC.
 */
#ifndef TENON_PLUGIN_DEVICE_BLAS_H_
#define TENON_PLUGIN_DEVICE_BLAS_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_DEVICE_BLAS_CUDA "blas.cuda/1"

enum { /* tn_device_product.flags */
       /* `bias`, n elements, is added to every row, before the other flags. For
        * beta 0 or 1 only. */
       TN_PRODUCT_BIAS = 1u << 0,
       /* max(c, 0) of every element, at the end. */
       TN_PRODUCT_RELU = 1u << 1,
       /* Factors in f32 may be rounded for the hardware that multiplies
        * matrices (TF32 keeps 10 bits); sums stay in f32. */
       TN_PRODUCT_FAST = 1u << 2,
       /* `sums`, m elements, becomes the sum of every row of op(a), in f32 at
        * least; SUMS_ADD adds it to `sums`. With n 0 nothing else is computed.
        * It computes the gradient of a bias. */
       TN_PRODUCT_SUMS = 1u << 3,
       TN_PRODUCT_SUMS_ADD = 1u << 4
};

/* c = alpha * op(a) * op(b) + beta * c, and the operations of the flags.
 * Matrices are as in tn_blas_gemm: row-major, op(a) is m x k, op(b) is k x n,
 * an ld is at least the length of a row in memory. With beta 0 nothing of c is
 * read. Any of m, n and k may be 0. Sums are in f32, for f64 in f64.
 *
 * `count` is the number of equal products. The operands are the first matrices;
 * each next one follows after a step. A step of 0 repeats the same matrix, not
 * for c. Several products have neither a bias nor sums. */
typedef struct tn_device_product {
  uint32_t struct_size;
  tn_dtype dtype;       /* of all operands: TN_F16, TN_BF16, TN_F32, TN_F64 */
  uint32_t transpose_a; /* 1: a is k x m in memory */
  uint32_t transpose_b; /* 1: b is n x k in memory */
  uint32_t flags;       /* TN_PRODUCT_* */
  uint32_t reserved;
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t lda;
  int64_t ldb;
  int64_t ldc;
  double alpha;
  double beta;
  int64_t count;  /* 0, or beyond struct_size: one product */
  int64_t step_a; /* in elements */
  int64_t step_b;
  int64_t step_c;
} tn_device_product;

/* Addresses of the matrices of one product, or the first of several, on the
 * device of the call. c overlaps nothing else. */
typedef struct tn_device_operands {
  uint32_t struct_size;
  uint32_t reserved;
  const void *a;
  const void *b;
  void *c;
  const void *bias; /* TN_PRODUCT_BIAS; else NULL */
  void *sums;       /* TN_PRODUCT_SUMS; else NULL */
  void *ws;         /* *ws_bytes of plan, aligned to 256 */
} tn_device_operands;

/* Constant from the provider's init to its fini. */
typedef struct tn_device_blas {
  uint32_t struct_size;
  int32_t device_type;
  void *data;       /* the provider's own */
  const char *name; /* "cuBLASLt 12.4.5": for people */

  /* Chooses how to compute a product on the device of the call, which may have
   * no data yet. The caller releases *plan, and any number of threads may use
   * it at the same time; *ws_bytes, possibly 0, is the workspace that each
   * multiply needs. TN_OK, or a code after TN_FAIL. [any] */
  int32_t (*plan)(const struct tn_device_blas *blas, const tn_frame *call,
                  const tn_device_product *product, void **plan,
                  uint64_t *ws_bytes);

  /* Enqueues the product on call->run->stream. TN_OK, or a code after TN_FAIL.
   * [worker] */
  int32_t (*multiply)(const struct tn_device_blas *blas, const tn_frame *call,
                      const void *plan, const tn_device_operands *operands);

  /* Releases a plan; NULL is allowed. [any] */
  void (*release)(const struct tn_device_blas *blas, void *plan);
} tn_device_blas;

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_DEVICE_BLAS_H_ */
