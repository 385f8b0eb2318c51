/* SPDX-License-Identifier: Apache-2.0
 * lapack.h: factorisations of matrices that one plugin offers to all others, as
 * the extension "lapack/1". Standalone: op.h only.
 *
 * It is the LAPACK beside the BLAS of blas.h, and plugins use it for the same
 * reason: a process should hold one such library, whose threads do not compete
 * with those that execute operators.
 *
 *   tn_lapack_task task = {.struct_size = sizeof task,
 *                          .kind = TN_LAPACK_CHOLESKY,
 *                          .dtype = TN_F64,
 *                          .n = n,
 *                          .a = a,
 *                          .lda = n};
 *   uint64_t bytes = 0;
 *   int32_t code = lapack->plan(lapack, call, &task, &bytes);
 *   task.ws = call->ws[0];
 *   if (code == TN_OK && lapack->run(lapack, &task) > 0)
 *     code = TN_FAIL(call, TN_INVALID, "not positive definite");
 *
 * A kernel calls `plan` when it requests its workspace, and `run` when it
 * computes. The table comes from host->extension(host, TN_LAPACK_EXTENSION) in
 * `init`, as that of blas.h does.
 *
 * Our own provider is plugins/openblas.
 */
#ifndef TENON_PLUGIN_LAPACK_H_
#define TENON_PLUGIN_LAPACK_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_LAPACK_EXTENSION "lapack/1"

/* tn_lapack_task.kind: the results, in terms of the operands before the call.
 * All matrices are row-major: element (i, j) of a is a[i * lda + j]. */
enum {
  /* a (n x n), symmetric and positive definite, becomes the lower L of
   * a = L L^T, with zeros above the diagonal. Reads the lower triangle. Fails
   * with the order of the first leading minor that is not positive. */
  TN_LAPACK_CHOLESKY = 0,

  /* a (n x n) is such an L; becomes the inverse of L L^T, both triangles. Reads
   * the lower triangle. Fails with the position of a 0 on the diagonal. */
  TN_LAPACK_CHOLESKY_INVERSE = 1,

  /* a (n x n) becomes its triangular factors, in a form for LU_SOLVE of the
   * same provider; `pivots` has n numbers. The determinant of a is the product
   * of the diagonal, negated for each i with pivots[i] != i + 1. Fails with the
   * position, from 1, of the first 0 on the diagonal; the factors are complete
   * all the same. */
  TN_LAPACK_LU = 2,

  /* a and `pivots` come from LU. Each of the m rows of b (m x n) is a
   * right-hand side, and becomes x of A x = b; of A^T x = b with
   * TN_LAPACK_TRANSPOSE. Never fails, but divides by the diagonal. */
  TN_LAPACK_LU_SOLVE = 3,

  /* a (m x n), m <= n, becomes Q with orthonormal rows; b (m x m) the lower L
   * of a = L Q, with zeros above the diagonal. */
  TN_LAPACK_LQ = 4,

  /* a (m x n), m >= n, becomes Q with orthonormal columns; b (n x n) the upper
   * R of a = Q R, with zeros below the diagonal. */
  TN_LAPACK_QR = 5,

  /* a (n x n) is symmetric; its rows become orthonormal eigenvectors, in the
   * order of the eigenvalues `values` (n), which ascend. Reads the lower
   * triangle. Fails with a positive number if it does not converge. */
  TN_LAPACK_EIGEN = 6,

  /* With k = min(m, n): b (m x k), `values` (k), which descend, and c (k x n)
   * become U, the singular values and V^T of a = U diag(values) V^T. The
   * content of a (m x n) is lost. Fails like EIGEN. */
  TN_LAPACK_SVD = 7,

  /* b (m x n) becomes alpha op(a) b, or alpha b op(a) with TN_LAPACK_RIGHT. a
   * is triangular: only its lower triangle is read, or its upper one with
   * TN_LAPACK_UPPER; op transposes on request. Never fails. */
  TN_LAPACK_TRIANGULAR_PRODUCT = 8,

  /* The same with the inverse of op(a). Never fails, but divides by the
   * diagonal. */
  TN_LAPACK_TRIANGULAR_SOLVE = 9
};

enum {                                /* tn_lapack_task.flags */
       TN_LAPACK_TRANSPOSE = 1u << 0, /* op(a) is the transpose of a */
       TN_LAPACK_RIGHT = 1u << 1,     /* op(a) is the right factor */
       TN_LAPACK_UPPER = 1u << 2      /* a is upper triangular */
};

/* One matrix. Operands that the kind does not name are ignored. A matrix
 * without elements is allowed, and may have no address. No two operands
 * overlap. If a matrix to factorise has an element that is not finite, all
 * results are NaN, and the task does not fail. */
typedef struct tn_lapack_task {
  uint32_t struct_size;
  uint32_t kind;  /* TN_LAPACK_CHOLESKY ... */
  tn_dtype dtype; /* of all matrices and values: TN_F32 or TN_F64 */
  uint32_t flags; /* TN_LAPACK_TRANSPOSE ... */
  int64_t m;
  int64_t n;
  void *a;
  void *b;
  void *c;
  void *values;
  int64_t lda; /* at least the length of a row, and 1 */
  int64_t ldb;
  int64_t ldc;
  int32_t *pivots;
  void *ws; /* of as many bytes as `plan` requested; aligned to 64 bytes */
  double alpha;
} tn_lapack_task;

/* Constant from the provider's init to its fini. */
typedef struct tn_lapack {
  uint32_t struct_size;
  uint32_t reserved;
  void *data;       /* the provider's own */
  const char *name; /* "OpenBLAS 0.3.21 SkylakeX": for people */

  /* Checks the sizes of a task, and sets *bytes of workspace that `run` needs.
   * Reads kind, dtype, flags, m, n and the three lds. TN_OK, or a code after
   * TN_FAIL: TN_DTYPE, or TN_UNSUPPORTED if the library cannot compute the kind
   * or the sizes. [any] */
  int32_t (*plan)(const struct tn_lapack *lapack, const tn_frame *call,
                  const tn_lapack_task *task, uint64_t *bytes);

  /* Computes a task for which `plan` has returned TN_OK, on the calling thread
   * alone, so that slices of a parallel loop may each run one. Returns 0, or a
   * positive number if the matrix has no such result; then the operands may
   * hold anything. [worker] */
  int64_t (*run)(const struct tn_lapack *lapack, const tn_lapack_task *task);
} tn_lapack;

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_LAPACK_H_ */
