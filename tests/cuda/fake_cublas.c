/* SPDX-License-Identifier: Apache-2.0
 * fake_cublas.c: the functions of cuBLAS that plugins/cusolver uses, for the
 * simulated driver, with the soname of cuBLAS.
 */
#include "fake_lapack.h"

enum { MAGIC = 0xb1a5, INVALID = 7, FAILED = 13 };

#define DECLARE(field, symbol, arguments, names) int symbol arguments;
SOLVER_BLAS_FUNCTIONS(DECLARE)
#undef DECLARE
SOLVER_BLAS_TYPED(DECLARE_TYPES)
const char *cublasGetStatusString(int status);

static int n_calls;

int fake_cublas_calls(void) {
  const int n = n_calls;
  n_calls = 0;
  return n;
}

const char *cublasGetStatusString(int status) {
  return status == INVALID ? "CUBLAS_STATUS_INVALID_VALUE"
                           : "CUBLAS_STATUS_EXECUTION_FAILED";
}

static int submit(const void *handle, fake_job job) {
  ++n_calls;
  const int result = fake_job_submit(handle, MAGIC, job);
  return result == 0 ? 0 : result < 0 ? INVALID : FAILED;
}

int cublasCreate_v2(void *out) {
  return fake_handle_create(out, MAGIC);
}

int cublasDestroy_v2(void *handle) {
  if (fake_handle_check(handle, MAGIC)) return INVALID;
  fake_handle_destroy(handle);
  return 0;
}

int cublasSetStream_v2(void *handle, void *stream) {
  return fake_handle_set_stream(handle, MAGIC, stream) ? INVALID : 0;
}

int cublasGetProperty(int which, int *out) {
  static const int version[] = {13, 1, 0};
  *out = version[which];
  return 0;
}

static double read_alpha(const void *alpha) {
  return fake_is_wide ? *(const double *)alpha : (double)*(const float *)alpha;
}

static int do_trsm(void *handle, int side, int triangle, int op, int diagonal,
                   int m, int n, const void *alpha, const void *a, int lda,
                   void *b, int ldb) {
  if (diagonal != SOLVER_NON_UNIT || !b) return INVALID;
  const fake_job job = {.kind = FAKE_TRSM,
                        .m = m,
                        .n = n,
                        .side = side,
                        .triangle = triangle,
                        .op = op,
                        .alpha = read_alpha(alpha),
                        .a = a,
                        .lda = lda,
                        .b = b,
                        .ldb = ldb};
  return submit(handle, job);
}

static int do_trsm_batched(void *handle, int side, int triangle, int op,
                           int diagonal, int m, int n, const void *alpha,
                           const void *a, int lda, const void *b, int ldb,
                           int count) {
  if (diagonal != SOLVER_NON_UNIT || !b) return INVALID;
  const fake_job job = {.kind = FAKE_TRSM,
                        .m = m,
                        .n = n,
                        .side = side,
                        .triangle = triangle,
                        .op = op,
                        .alpha = read_alpha(alpha),
                        .a = a,
                        .lda = lda,
                        .b = b,
                        .ldb = ldb,
                        .has_lists = 1,
                        .count = count};
  return submit(handle, job);
}

/* In the place of a factor, as the plugin calls it. */
static int do_trmm(void *handle, int side, int triangle, int op, int diagonal,
                   int m, int n, const void *alpha, const void *a, int lda,
                   const void *b, int ldb, void *c, int ldc) {
  if (diagonal != SOLVER_NON_UNIT || b != c || ldb != ldc) return INVALID;
  const fake_job job = {.kind = FAKE_TRMM,
                        .m = m,
                        .n = n,
                        .side = side,
                        .triangle = triangle,
                        .op = op,
                        .alpha = read_alpha(alpha),
                        .a = a,
                        .lda = lda,
                        .b = c,
                        .ldb = ldc};
  return submit(handle, job);
}

static int do_getrf_batched(void *handle, int n, const void *a, int lda,
                            int *pivots, int *info, int count) {
  if (!pivots || !info) return INVALID;
  const fake_job job = {.kind = FAKE_GETRF,
                        .n = n,
                        .a = a,
                        .lda = lda,
                        .pivots = pivots,
                        .info = info,
                        .has_lists = 1,
                        .count = count};
  return submit(handle, job);
}

/* `info` is in memory of the host. */
static int do_getrs_batched(void *handle, int op, int n, int sides,
                            const void *a, int lda, const int *pivots,
                            const void *b, int ldb, int *info, int count) {
  if (!b || !info) return INVALID;
  *info = 0;
  const fake_job job = {.kind = FAKE_GETRS,
                        .n = n,
                        .k = sides,
                        .op = op,
                        .a = a,
                        .lda = lda,
                        .pivots = pivots,
                        .b = b,
                        .ldb = ldb,
                        .has_lists = 1,
                        .count = count};
  return submit(handle, job);
}

SOLVER_BLAS_TYPED(DEFINE_TYPES)
