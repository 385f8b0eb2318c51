/* SPDX-License-Identifier: Apache-2.0
 * fake_solver.c: a cuSOLVER for the simulated driver, with the soname of one.
 * It refuses workspaces that are smaller than it requested, and matrices that
 * the real one does not compute.
 */
#include "fake_lapack.h"
#include "fake_work.h"
#include "kernels.h"

enum { MAGIC = 0x501fe2, INVALID = 3, INTERNAL = 7 };

#define DECLARE(field, symbol, arguments, names) int symbol arguments;
SOLVER_FUNCTIONS(DECLARE)
#undef DECLARE
#define DECLARE(field, before, after, arguments, names) \
  int before##S##after arguments;                       \
  int before##D##after arguments;
SOLVER_TYPED(DECLARE)
#undef DECLARE

static int next_status;
static int n_calls;
static _Thread_local int wide; /* of the call */

void fake_solver_fail(int status) {
  next_status = status;
}

int fake_solver_calls(void) {
  const int n = n_calls;
  n_calls = 0;
  return n;
}

/* The status that a test wants, once. */
static int refuse(void) {
  const int status = next_status;
  next_status = SOLVER_OK;
  return status;
}

static int submit(const void *handle, fake_job job, int wanted) {
  const int refused = refuse();
  if (refused) return refused;
  if (job.size < wanted) return INVALID;
  job.wide = wide;
  if (job.count == 0) job.count = 1;
  ++n_calls;
  const int result = fake_job_submit(handle, MAGIC, &job);
  return result == 0 ? SOLVER_OK : result < 0 ? INVALID : INTERNAL;
}

/* Elements of a workspace. */
static int count_elements(int n) {
  return 3 * n + 17;
}

static int answer(const void *handle, int n, int *size) {
  const int refused = refuse();
  *size = 0;
  if (refused) return refused;
  if (fake_handle_check(handle, MAGIC)) return INVALID;
  *size = count_elements(n);
  return SOLVER_OK;
}

/* ----------------------------------------------------------------- handles */

int cusolverDnCreate(void *out) {
  const int refused = refuse();
  return refused ? refused : fake_handle_create(out, MAGIC);
}

int cusolverDnDestroy(void *handle) {
  if (fake_handle_check(handle, MAGIC)) return INVALID;
  fake_handle_destroy(handle);
  return SOLVER_OK;
}

int cusolverDnSetStream(void *handle, void *stream) {
  return fake_handle_set_stream(handle, MAGIC, stream) ? INVALID : SOLVER_OK;
}

int cusolverDnSetDeterministicMode(void *handle, int mode) {
  if (fake_handle_check(handle, MAGIC)) return INVALID;
  return mode == SOLVER_DETERMINISTIC ? SOLVER_OK : INVALID;
}

int cusolverGetProperty(int which, int *out) {
  static const int version[] = {12, 0, 4};
  *out = version[which];
  return SOLVER_OK;
}

/* --------------------------------------------------------------- functions */

static int do_potrf_size(void *handle, int triangle, int n, void *a, int lda,
                         int *size) {
  (void)triangle, (void)a;
  return lda < n ? INVALID : answer(handle, n, size);
}

static int do_potrf(void *handle, int triangle, int n, void *a, int lda,
                    void *ws, int size, int *info) {
  return submit(handle,
                (fake_job){.kind = FAKE_POTRF,
                           .n = n,
                           .triangle = triangle,
                           .a = a,
                           .lda = lda,
                           .ws = ws,
                           .size = size,
                           .info = info},
                count_elements(n));
}

static int do_potrf_batched(void *handle, int triangle, int n, void *a, int lda,
                            int *info, int count) {
  return submit(handle,
                (fake_job){.kind = FAKE_POTRF,
                           .n = n,
                           .triangle = triangle,
                           .a = a,
                           .lda = lda,
                           .has_lists = 1,
                           .count = count,
                           .info = info},
                0);
}

static int do_potri_size(void *handle, int triangle, int n, void *a, int lda,
                         int *size) {
  return do_potrf_size(handle, triangle, n, a, lda, size);
}

static int do_potri(void *handle, int triangle, int n, void *a, int lda,
                    void *ws, int size, int *info) {
  return submit(handle,
                (fake_job){.kind = FAKE_POTRI,
                           .n = n,
                           .triangle = triangle,
                           .a = a,
                           .lda = lda,
                           .ws = ws,
                           .size = size,
                           .info = info},
                count_elements(n));
}

static int do_getrf_size(void *handle, int m, int n, void *a, int lda,
                         int *size) {
  (void)a;
  return lda < m ? INVALID : answer(handle, n, size);
}

static int do_getrf(void *handle, int m, int n, void *a, int lda, void *ws,
                    int *pivots, int *info) {
  if (m != n || !pivots) return INVALID;
  return submit(handle,
                (fake_job){.kind = FAKE_GETRF,
                           .n = n,
                           .a = a,
                           .lda = lda,
                           .ws = ws,
                           .size = count_elements(n),
                           .pivots = pivots,
                           .info = info},
                0);
}

static int do_getrs(void *handle, int op, int n, int sides, const void *a,
                    int lda, const int *pivots, void *b, int ldb, int *info) {
  if (!info) return INVALID;
  return submit(handle,
                (fake_job){.kind = FAKE_GETRS,
                           .n = n,
                           .k = sides,
                           .op = op,
                           .a = a,
                           .lda = lda,
                           .b = b,
                           .ldb = ldb,
                           .pivots = pivots,
                           .info = info},
                0);
}

static int do_geqrf_size(void *handle, int m, int n, void *a, int lda,
                         int *size) {
  (void)a;
  return lda < m ? INVALID : answer(handle, n, size);
}

static int do_geqrf(void *handle, int m, int n, void *a, int lda, void *factors,
                    void *ws, int size, int *info) {
  return submit(handle,
                (fake_job){.kind = FAKE_GEQRF,
                           .m = m,
                           .n = n,
                           .a = a,
                           .lda = lda,
                           .values = factors,
                           .ws = ws,
                           .size = size,
                           .info = info},
                count_elements(n));
}

static int do_orgqr_size(void *handle, int m, int n, int k, const void *a,
                         int lda, const void *factors, int *size) {
  (void)a, (void)factors;
  return lda < m || k > n ? INVALID : answer(handle, n, size);
}

static int do_orgqr(void *handle, int m, int n, int k, void *a, int lda,
                    const void *factors, void *ws, int size, int *info) {
  if (k != n) return INVALID;
  return submit(handle,
                (fake_job){.kind = FAKE_ORGQR,
                           .m = m,
                           .n = n,
                           .a = a,
                           .lda = lda,
                           .values = factors,
                           .ws = ws,
                           .size = size,
                           .info = info},
                count_elements(n));
}

static int do_syevd_size(void *handle, int mode, int triangle, int n,
                         const void *a, int lda, const void *values,
                         int *size) {
  (void)triangle, (void)a, (void)values;
  return lda < n || mode != SOLVER_VECTORS ? INVALID : answer(handle, n, size);
}

static int do_syevd(void *handle, int mode, int triangle, int n, void *a,
                    int lda, void *values, void *ws, int size, int *info) {
  if (mode != SOLVER_VECTORS) return INVALID;
  return submit(handle,
                (fake_job){.kind = FAKE_SYEVD,
                           .n = n,
                           .triangle = triangle,
                           .a = a,
                           .lda = lda,
                           .values = values,
                           .ws = ws,
                           .size = size,
                           .info = info},
                count_elements(n));
}

static int do_gesvd_size(void *handle, int m, int n, int *size) {
  return m < n ? INVALID : answer(handle, n, size);
}

static int do_gesvd(void *handle, signed char job_u, signed char job_vt, int m,
                    int n, void *a, int lda, void *values, void *u, int ldu,
                    void *vt, int ldvt, void *ws, int size, void *rest,
                    int *info) {
  (void)rest;
  if (job_u != 'S' || job_vt != 'S') return INVALID;
  return submit(handle,
                (fake_job){.kind = FAKE_GESVD,
                           .m = m,
                           .n = n,
                           .a = a,
                           .lda = lda,
                           .b = u,
                           .ldb = ldu,
                           .c = vt,
                           .ldc = ldvt,
                           .values = values,
                           .ws = ws,
                           .size = size,
                           .info = info},
                count_elements(n));
}

#define DEFINE(field, before, after, arguments, names) \
  int before##S##after arguments {                     \
    wide = 0;                                          \
    return do_##field names;                           \
  }                                                    \
  int before##D##after arguments {                     \
    wide = 1;                                          \
    return do_##field names;                           \
  }
SOLVER_TYPED(DEFINE)
