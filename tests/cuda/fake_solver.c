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
SOLVER_TYPED(DECLARE_TYPES)

static int next_status;
static int n_calls;

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

static int enqueue(const void *handle, fake_job job) {
  ++n_calls;
  const int result = fake_job_submit(handle, MAGIC, job);
  return result == 0 ? SOLVER_OK : result < 0 ? INVALID : INTERNAL;
}

static int submit(const void *handle, fake_job job) {
  const int refused = refuse();
  return refused ? refused : enqueue(handle, job);
}

/* Elements of a workspace. */
static int count_elements(int n) {
  return 3 * n + 17;
}

/* Submits a job with `size` elements of workspace. */
static int submit_with(const void *handle, fake_job job, const void *ws,
                       int size, int *info) {
  const int refused = refuse();
  if (refused) return refused;
  if (size < count_elements(job.n)) return INVALID;
  job.ws = ws;
  job.size = size;
  job.info = info;
  return enqueue(handle, job);
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
  const fake_job job = {
      .kind = FAKE_POTRF, .n = n, .triangle = triangle, .a = a, .lda = lda};
  return submit_with(handle, job, ws, size, info);
}

static int do_potrf_batched(void *handle, int triangle, int n, void *a, int lda,
                            int *info, int count) {
  const fake_job job = {.kind = FAKE_POTRF,
                        .n = n,
                        .triangle = triangle,
                        .a = a,
                        .lda = lda,
                        .has_lists = 1,
                        .count = count,
                        .info = info};
  return submit(handle, job);
}

static int do_potri_size(void *handle, int triangle, int n, void *a, int lda,
                         int *size) {
  return do_potrf_size(handle, triangle, n, a, lda, size);
}

static int do_potri(void *handle, int triangle, int n, void *a, int lda,
                    void *ws, int size, int *info) {
  const fake_job job = {
      .kind = FAKE_POTRI, .n = n, .triangle = triangle, .a = a, .lda = lda};
  return submit_with(handle, job, ws, size, info);
}

static int do_getrf_size(void *handle, int m, int n, void *a, int lda,
                         int *size) {
  (void)a;
  return lda < m ? INVALID : answer(handle, n, size);
}

static int do_getrf(void *handle, int m, int n, void *a, int lda, void *ws,
                    int *pivots, int *info) {
  if (m != n || !pivots) return INVALID;
  const fake_job job = {
      .kind = FAKE_GETRF, .n = n, .a = a, .lda = lda, .pivots = pivots};
  return submit_with(handle, job, ws, count_elements(n), info);
}

static int do_getrs(void *handle, int op, int n, int sides, const void *a,
                    int lda, const int *pivots, void *b, int ldb, int *info) {
  if (!info) return INVALID;
  const fake_job job = {.kind = FAKE_GETRS,
                        .n = n,
                        .k = sides,
                        .op = op,
                        .a = a,
                        .lda = lda,
                        .b = b,
                        .ldb = ldb,
                        .pivots = pivots,
                        .info = info};
  return submit(handle, job);
}

static int do_geqrf_size(void *handle, int m, int n, void *a, int lda,
                         int *size) {
  return do_getrf_size(handle, m, n, a, lda, size);
}

static int do_geqrf(void *handle, int m, int n, void *a, int lda, void *factors,
                    void *ws, int size, int *info) {
  const fake_job job = {.kind = FAKE_GEQRF,
                        .m = m,
                        .n = n,
                        .a = a,
                        .lda = lda,
                        .values = factors};
  return submit_with(handle, job, ws, size, info);
}

static int do_orgqr_size(void *handle, int m, int n, int k, const void *a,
                         int lda, const void *factors, int *size) {
  (void)a, (void)factors;
  return lda < m || k > n ? INVALID : answer(handle, n, size);
}

static int do_orgqr(void *handle, int m, int n, int k, void *a, int lda,
                    const void *factors, void *ws, int size, int *info) {
  if (k != n) return INVALID;
  const fake_job job = {.kind = FAKE_ORGQR,
                        .m = m,
                        .n = n,
                        .a = a,
                        .lda = lda,
                        .values = factors};
  return submit_with(handle, job, ws, size, info);
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
  const fake_job job = {.kind = FAKE_SYEVD,
                        .n = n,
                        .triangle = triangle,
                        .a = a,
                        .lda = lda,
                        .values = values};
  return submit_with(handle, job, ws, size, info);
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
  const fake_job job = {.kind = FAKE_GESVD,
                        .m = m,
                        .n = n,
                        .a = a,
                        .lda = lda,
                        .b = u,
                        .ldb = ldu,
                        .c = vt,
                        .ldc = ldvt,
                        .values = values};
  return submit_with(handle, job, ws, size, info);
}

SOLVER_TYPED(DEFINE_TYPES)
