/* SPDX-License-Identifier: Apache-2.0
 * device_lapack.h: factorisations of matrices on devices that one plugin offers
 * to all others, like lapack.h on the CPU. Standalone: op.h only.
 *
 * There is one such table for each type of device; that of CUDA devices is
 * "lapack.cuda/1", which plugins/cusolver provides if it finds cuSOLVER and
 * cuBLAS. A kernel plans its tasks when it requests its workspace, and enqueues
 * them on its stream:
 *
 *   int32_t acme_bytes(const tn_frame *call, uint64_t *bytes) {
 *     const tn_device_lapack *lapack = call->instance;
 *     const tn_device_task task = describe_task(call);
 *     return lapack->plan(lapack, call, &task, bytes);
 *   }
 *
 *   int32_t acme_compute(const tn_frame *call) {
 *     const tn_device_lapack *lapack = call->instance;
 *     tn_device_task task = describe_task(call);
 *     task.a = call->out[0].data;
 *     task.info = call->ws[1];
 *     task.ws = call->ws[0];
 *     task.ws_bytes = call->ws_bytes[0];
 *     return lapack->run(lapack, call, &task);
 *   }
 *
 * A kernel of the device checks `info` afterwards, because no host waits for
 * it. Such kernels declare TN_KERNEL_ASYNC, and not TN_KERNEL_CAPTURABLE:
 * libraries of factorisations may not be recorded into device graphs.
 */
#ifndef TENON_PLUGIN_DEVICE_LAPACK_H_
#define TENON_PLUGIN_DEVICE_LAPACK_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_DEVICE_LAPACK_CUDA "lapack.cuda/1"

/* tn_device_task.kind: the results, in terms of the operands before the call.
 * All matrices are row-major: element (i, j) of a is a[i * lda + j]. The
 * elements of `info` become 0, or a positive number if a matrix has no such
 * result; then its operands may hold anything. */
enum {
  /* The lower triangle of a (n x n), symmetric and positive definite, becomes
   * the L of a = L L^T; with UPPER the upper triangle becomes the U of
   * a = U^T U. The other triangle is not read, and may hold anything after the
   * task. `info` is the order of the first leading minor that is not positive.
   */
  TN_DEVICE_CHOLESKY = 0,

  /* A triangle of a (n x n) is such a factor; it becomes the same triangle of
   * the inverse of L L^T or U^T U. The other triangle is as for CHOLESKY.
   * `info` is the position of a 0 on the diagonal. */
  TN_DEVICE_CHOLESKY_INVERSE = 1,

  /* b (m x n) becomes x of op(a) x = alpha b, or of x op(a) = alpha b with
   * RIGHT. Only one triangle of a is read, the lower one unless UPPER says
   * otherwise; op transposes with TRANSPOSE. Divides by the diagonal, and has
   * no `info`. */
  TN_DEVICE_TRIANGULAR_SOLVE = 2,

  /* a (n x n) becomes its triangular factors, in a form for LU_SOLVE of the
   * same provider; `pivots` has n numbers. The determinant of a is the product
   * of the diagonal, negated for each i with pivots[i] != i + 1. `info` is the
   * position, from 1, of the first 0 on the diagonal; the factors are complete
   * all the same. */
  TN_DEVICE_LU = 3,

  /* a and `pivots` come from LU. Each of the m rows of b (m x n) is a
   * right-hand side, and becomes x of a x = b; of a^T x = b with TRANSPOSE.
   * Divides by the diagonal, and has no `info`. */
  TN_DEVICE_LU_SOLVE = 4,

  /* a (m x n), m <= n, becomes the reflections of its LQ factors, in a form for
   * LQ_ROWS of the same provider, and `values` (m) their factors. The lower
   * triangle of a becomes L. QR is LQ of the transpose. */
  TN_DEVICE_LQ = 5,

  /* a and `values` come from LQ; a becomes Q with orthonormal rows. */
  TN_DEVICE_LQ_ROWS = 6,

  /* a (n x n) is symmetric; its rows become orthonormal eigenvectors, in the
   * order of the eigenvalues `values` (n), which ascend. Reads the lower
   * triangle. `info` is positive if it does not converge. */
  TN_DEVICE_EIGEN = 7,

  /* With m <= n: b (m x m), `values` (m), which descend, and c (m x n) become
   * U, the singular values and V^T of a = U diag(values) V^T. The content of a
   * (m x n) is lost. `info` is like that of EIGEN. Of a matrix with m > n,
   * decompose the transpose. */
  TN_DEVICE_SVD = 8,

  /* b (m x n) becomes alpha op(a) b, or alpha b op(a) with RIGHT, with a as for
   * TRIANGULAR_SOLVE. Has no `info`. */
  TN_DEVICE_TRIANGULAR_PRODUCT = 9
};

enum {                                /* tn_device_task.flags */
       TN_DEVICE_TRANSPOSE = 1u << 0, /* op(a) is the transpose of a */
       TN_DEVICE_RIGHT = 1u << 1,     /* op(a) is the right factor */
       TN_DEVICE_UPPER = 1u << 2      /* a is upper triangular */
};

/* `count` equal tasks, each for one matrix of every operand. Operands that the
 * kind does not name are ignored. They are on the device of the call, and no
 * two overlap. Matrices have elements, and those to factorise are finite.
 *
 * Matrix number i of an operand begins `i * step` elements after its first; so
 * do the `values` of a matrix, of which there are min(m, n), and its n pivots
 * without a gap.
 *
 * Several CHOLESKY, TRIANGULAR_SOLVE, LU and LU_SOLVE need lists: arrays on the
 * device with the addresses of all matrices a, and of all matrices b. A kernel
 * of the caller writes them, because the host cannot without waiting. */
typedef struct tn_device_task {
  uint32_t struct_size;
  uint32_t kind;  /* TN_DEVICE_CHOLESKY ... */
  tn_dtype dtype; /* of all matrices and values: TN_F32 or TN_F64 */
  uint32_t flags; /* TN_DEVICE_TRANSPOSE ... */
  int64_t m;
  int64_t n;
  int64_t lda; /* at least the length of a row */
  int64_t ldb;
  int64_t ldc;
  int64_t count;
  int64_t step_a; /* in elements */
  int64_t step_b;
  int64_t step_c;
  double alpha;
  void *a;
  void *b;
  void *c;
  void *values;
  int32_t *pivots;
  int32_t *info;     /* `count` numbers */
  void **a_list;     /* `count` addresses; NULL is allowed if count is 1 */
  void **b_list;     /* the same */
  void *ws;          /* aligned to 256 */
  uint64_t ws_bytes; /* at least as many as `plan` requested */
} tn_device_task;

/* Constant from the provider's init to its fini. */
typedef struct tn_device_lapack {
  uint32_t struct_size;
  int32_t device_type;
  void *data;       /* the provider's own */
  const char *name; /* "cuSOLVER 12.0.4, cuBLAS 13.1.0": for people */

  /* Checks the sizes of a task on the device of the call, and sets *ws_bytes,
   * possibly 0, of workspace that `run` needs. Reads kind, dtype, flags, m, n,
   * the lds and count. TN_OK, or a code after TN_FAIL: TN_DTYPE, or
   * TN_UNSUPPORTED if the library cannot compute the kind or the sizes.
   * [any] */
  int32_t (*plan)(const struct tn_device_lapack *lapack, const tn_frame *call,
                  const tn_device_task *task, uint64_t *ws_bytes);

  /* Enqueues a task for which `plan` has returned TN_OK on
   * call->run->stream. EIGEN and SVD of some libraries compute a part on the
   * host, and then wait for the stream. TN_OK, or a code after TN_FAIL.
   * [worker] */
  int32_t (*run)(const struct tn_device_lapack *lapack, const tn_frame *call,
                 const tn_device_task *task);
} tn_device_lapack;

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_DEVICE_LAPACK_H_ */
