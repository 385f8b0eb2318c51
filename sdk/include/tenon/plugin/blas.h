/* SPDX-License-Identifier: Apache-2.0
 * blas.h: matrix products that one plugin offers to all others, as the
 * extension "blas/1". Standalone: op.h only.
 *
 * A process should hold one BLAS, and its threads must not compete with those
 * that execute operators. So a plugin that needs products uses this table
 * instead of opening a library:
 *
 *   int32_t acme_init(const tn_host *host, tn_registrar *registrar,
 *                     void **instance) {
 *     const tn_blas *blas = host->extension(host, TN_BLAS_EXTENSION);
 *     if (!blas)
 *       registrar->withdraw(registrar, "acme.solve.cpu",
 *                           "no plugin provides " TN_BLAS_EXTENSION);
 *     *instance = (void *)(uintptr_t)blas;
 *     return TN_OK;
 *   }
 *
 * and calls `blas->gemm(blas, call, &product)` from its kernels. Our own
 * provider is plugins/openblas; a plugin for another library provides the same
 * table, and is loaded instead.
 */
#ifndef TENON_PLUGIN_BLAS_H_
#define TENON_PLUGIN_BLAS_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_BLAS_EXTENSION "blas/1"

/* c = alpha * op(a) * op(b) + beta * c, where op transposes on request. All
 * matrices are row-major: element (i, j) of c is c[i * ldc + j], and op(a) is m
 * x k, op(b) is k x n. An ld is at least the length of a row in memory. With
 * beta 0 nothing of c is read, so it may hold NaN. c must not overlap a or b.
 * Any of m, n, k may be 0. */
typedef struct tn_blas_gemm {
  uint32_t struct_size;
  tn_dtype dtype;       /* of all three: TN_F32 or TN_F64 */
  uint32_t transpose_a; /* 1: a is k x m in memory */
  uint32_t transpose_b; /* 1: b is n x k in memory */
  int64_t m;
  int64_t n;
  int64_t k;
  const void *a;
  const void *b;
  void *c;
  int64_t lda;
  int64_t ldb;
  int64_t ldc;
  double alpha;
  double beta;
} tn_blas_gemm;

/* Constant from the provider's init to its fini. */
typedef struct tn_blas {
  uint32_t struct_size;
  uint32_t reserved;
  void *data;       /* the provider's own */
  const char *name; /* "OpenBLAS 0.3.21 SkylakeX": for people */

  /* Computes a product inside of a call, divided over the host's workers
   * (parallel_for) and over no other threads. The slices depend on the shapes
   * alone, so that the result is the same for every number of workers. TN_OK,
   * or a code after TN_FAIL. [worker] */
  int32_t (*gemm)(const struct tn_blas *blas, const tn_frame *call,
                  const tn_blas_gemm *product);
} tn_blas;

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_BLAS_H_ */
