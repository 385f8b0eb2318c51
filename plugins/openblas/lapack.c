/* SPDX-License-Identifier: Apache-2.0
 * lapack.c: computes the tasks of lapack/1 with the LAPACK inside OpenBLAS.
 *
 * Its functions are Fortran's: every argument is a pointer, matrices are
 * column-major, and the lengths of texts follow the arguments. A row-major
 * matrix is the transpose of the same memory in column-major order, so most
 * functions here factorise the transpose without a copy: the upper triangle of
 * Fortran is the lower one here, QR of Fortran is LQ here, and U and V change
 * places. Only QR copies its matrix, because LQ of Fortran takes longer.
 *
 * LAPACK may print a message or not end if an element is not a number.
 * Therefore a matrix with such an element never reaches it.
 */
#include "lapack.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
  ROW_MAJOR = 101, /* of cblas.h */
  NO_TRANSPOSE = 111,
  TRANSPOSE = 112,
  UPPER = 121,
  LOWER = 122,
  NON_UNIT = 131,
  LEFT = 141,
  RIGHT = 142,
  BLOCK = 64 /* columns that LAPACK updates at a time, at most */
};

/* One task with sizes as LAPACK reads them. */
typedef struct fortran_task {
  const tn_lapack_task *task;
  const openblas_library *library;
  const openblas_functions *functions; /* of the task's type */
  int m;
  int n;
  int k; /* the smaller one */
  int lda;
  int ldb;
  int ldc;
  int info;
} fortran_task;

static int64_t smaller_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t larger_of(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static size_t element_bytes(const tn_lapack_task *task) {
  return task->dtype == TN_F32 ? sizeof(float) : sizeof(double);
}

/* -------------------------------------------------------------- workspaces */

/* The parts of a workspace, in elements of the type, and integers. */
typedef struct workspace_sizes {
  int64_t scalars; /* factors of reflections */
  int64_t reals;
  int64_t copy; /* a matrix */
  int64_t integers;
} workspace_sizes;

/* The manuals of the functions state these formulas. */
static workspace_sizes find_workspace_sizes(const tn_lapack_task *task) {
  const int64_t m = task->m, n = task->n, k = smaller_of(m, n);
  switch (task->kind) {
    case TN_LAPACK_LQ:
      return (workspace_sizes){.scalars = k, .reals = BLOCK * (k + 1)};
    case TN_LAPACK_QR:
      return (workspace_sizes){
          .scalars = k, .reals = BLOCK * (k + 1), .copy = m * n};
    case TN_LAPACK_EIGEN:
      return (workspace_sizes){.reals = 1 + (6 + 2 * n) * n,
                               .integers = 3 + 5 * n};
    case TN_LAPACK_SVD:
      return (workspace_sizes){
          .reals = (4 * k + 7) * k + BLOCK * (larger_of(m, n) + k + 1),
          .integers = 8 * k};
    default:
      return (workspace_sizes){0};
  }
}

/* Addresses of the parts of task->ws. */
typedef struct workspace {
  char *scalars;
  char *reals;
  char *copy;
  int *integers;
  int n_reals;
  int n_integers;
} workspace;

static workspace divide_workspace(const tn_lapack_task *task) {
  const workspace_sizes sizes = find_workspace_sizes(task);
  const size_t bytes = element_bytes(task);
  char *reals = (char *)task->ws + (size_t)sizes.scalars * bytes;
  char *copy = reals + (size_t)sizes.reals * bytes;
  return (workspace){
      .scalars = task->ws,
      .reals = reals,
      .copy = copy,
      .integers = (int *)(void *)(copy + (size_t)sizes.copy * bytes),
      .n_reals = (int)sizes.reals,
      .n_integers = (int)sizes.integers};
}

static int fits_int(int64_t n) {
  return n >= 0 && n <= INT32_MAX;
}

static int32_t plan_task(const tn_lapack *lapack, const tn_frame *call,
                         const tn_lapack_task *task, uint64_t *bytes) {
  const int64_t most = larger_of(task->m, task->n);
  *bytes = 0;
  if (task->dtype != TN_F32 && task->dtype != TN_F64)
    return TN_FAIL(call, TN_DTYPE, "matrices are factorised in f32 or f64");
  if (task->kind > TN_LAPACK_TRIANGULAR_SOLVE)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "%s is older than task %u of " TN_LAPACK_EXTENSION,
                   lapack->name, (unsigned)task->kind);
  int is_small = fits_int(task->m) && fits_int(task->n) &&
                 fits_int(task->lda) && fits_int(task->ldb) &&
                 fits_int(task->ldc);
  workspace_sizes sizes = {0};
  if (is_small) sizes = find_workspace_sizes(task);
  is_small = is_small && fits_int(sizes.reals) && fits_int(sizes.integers);
  if (!is_small)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "a matrix with an edge of %lld is larger than %s accepts, "
                   "whose integers have 32 bits",
                   (long long)most, lapack->name);
  *bytes = (uint64_t)(sizes.scalars + sizes.reals + sizes.copy) *
               element_bytes(task) +
           (uint64_t)sizes.integers * sizeof(int);
  return TN_OK;
}

/* ---------------------------------------------------------------- elements */

/* Rows [0, m) and columns [0, n) of a matrix, or a part of it. */
typedef struct region {
  char *at;
  int64_t m;
  int64_t n;
  int64_t ld;
  size_t bytes; /* of an element */
} region;

static region find_region(const tn_lapack_task *task, void *at, int64_t m,
                          int64_t n, int64_t ld) {
  return (region){at, m, n, ld, element_bytes(task)};
}

static char *find_row(const region *r, int64_t i) {
  return r->at + (size_t)(i * r->ld) * r->bytes;
}

/* Whether n neighbouring elements are finite. */
static int is_finite_line(const char *at, int64_t n, size_t bytes) {
  int finite = 1;
  for (int64_t j = 0; j < n && bytes == sizeof(float); ++j)
    finite &= isfinite(((const float *)(const void *)at)[j]) != 0;
  for (int64_t j = 0; j < n && bytes == sizeof(double); ++j)
    finite &= isfinite(((const double *)(const void *)at)[j]) != 0;
  return finite;
}

/* Whether all elements are finite, or those of the lower triangle. */
static int is_finite_region(const region *r, int is_lower) {
  for (int64_t i = 0; i < r->m; ++i)
    if (!is_finite_line(find_row(r, i), is_lower ? i + 1 : r->n, r->bytes))
      return 0;
  return 1;
}

static void fill_nan(const region *r) {
  for (int64_t i = 0; i < r->m; ++i)
    for (int64_t j = 0; j < r->n; ++j) {
      char *at = find_row(r, i) + (size_t)j * r->bytes;
      if (r->bytes == sizeof(float))
        *(float *)(void *)at = NAN;
      else
        *(double *)(void *)at = NAN;
    }
}

/* Clears the elements above the diagonal. */
static void clear_above(const region *r) {
  for (int64_t i = 0; i + 1 < r->n && i < r->m; ++i)
    memset(find_row(r, i) + (size_t)(i + 1) * r->bytes, 0,
           (size_t)(r->n - i - 1) * r->bytes);
}

/* Clears the elements below the diagonal of a square. */
static void clear_below(const region *r) {
  for (int64_t i = 1; i < r->m; ++i)
    memset(find_row(r, i), 0, (size_t)i * r->bytes);
}

/* Copies the elements below the diagonal to their mirror positions. */
static void mirror_lower(const region *r) {
  for (int64_t i = 0; i < r->n; ++i)
    for (int64_t j = 0; j < i; ++j)
      memcpy(find_row(r, j) + (size_t)i * r->bytes,
             find_row(r, i) + (size_t)j * r->bytes, r->bytes);
}

/* Copies the lower triangle of a square from `from` to `to`, zeros above it. */
static void copy_lower(const region *to, const region *from) {
  for (int64_t i = 0; i < to->m; ++i) {
    memset(find_row(to, i), 0, (size_t)to->n * to->bytes);
    memcpy(find_row(to, i), find_row(from, i), (size_t)(i + 1) * to->bytes);
  }
}

#define COPY_TRANSPOSED(type)                                     \
  for (int64_t i = row; i < row + SIDE && i < to->m; ++i)         \
    for (int64_t j = column; j < column + SIDE && j < to->n; ++j) \
  ((type *)(void *)to->at)[i * to->ld + j] =                      \
      ((const type *)(const void *)from->at)[j * from->ld + i]

/* Copies the transpose of `from` to `to`, in blocks that stay in the cache. */
static void copy_transposed(const region *to, const region *from) {
  enum { SIDE = 16 };
  for (int64_t row = 0; row < to->m; row += SIDE)
    for (int64_t column = 0; column < to->n; column += SIDE) {
      if (to->bytes == sizeof(uint32_t))
        COPY_TRANSPOSED(uint32_t);
      else
        COPY_TRANSPOSED(uint64_t);
    }
}

/* ------------------------------------------------------------------- tasks */

static void run_cholesky(fortran_task *f) {
  const tn_lapack_task *t = f->task;
  const region a = find_region(t, t->a, t->n, t->n, t->lda);
  if (!is_finite_region(&a, 1)) {
    fill_nan(&a);
    return;
  }
  f->functions->potrf("U", &f->n, t->a, &f->lda, &f->info, 1);
  clear_above(&a);
}

static void run_cholesky_inverse(fortran_task *f) {
  const tn_lapack_task *t = f->task;
  const region a = find_region(t, t->a, t->n, t->n, t->lda);
  if (!is_finite_region(&a, 1)) {
    fill_nan(&a);
    return;
  }
  f->functions->potri("U", &f->n, t->a, &f->lda, &f->info, 1);
  mirror_lower(&a);
}

static void run_lu(fortran_task *f) {
  const tn_lapack_task *t = f->task;
  const region a = find_region(t, t->a, t->n, t->n, t->lda);
  if (is_finite_region(&a, 0)) {
    f->functions->getrf(&f->n, &f->n, t->a, &f->lda, t->pivots, &f->info);
    return;
  }
  fill_nan(&a);
  for (int i = 0; i < f->n; ++i) t->pivots[i] = i + 1;
}

static void run_lu_solve(fortran_task *f) {
  const tn_lapack_task *t = f->task;
  const char *transpose = t->flags & TN_LAPACK_TRANSPOSE ? "N" : "T";
  f->functions->getrs(transpose, &f->n, &f->m, t->a, &f->lda, t->pivots, t->b,
                      &f->ldb, &f->info, 1);
  f->info = 0;
}

static void run_lq(fortran_task *f) {
  const tn_lapack_task *t = f->task;
  const region a = find_region(t, t->a, t->m, t->n, t->lda);
  const region b = find_region(t, t->b, t->m, t->m, t->ldb);
  const workspace ws = divide_workspace(t);
  if (!is_finite_region(&a, 0)) {
    fill_nan(&a);
    fill_nan(&b);
    return;
  }
  f->functions->geqrf(&f->n, &f->m, t->a, &f->lda, ws.scalars, ws.reals,
                      &ws.n_reals, &f->info);
  copy_lower(&b, &a);
  f->functions->orgqr(&f->n, &f->m, &f->m, t->a, &f->lda, ws.scalars, ws.reals,
                      &ws.n_reals, &f->info);
}

/* In column-major order the copy is the matrix itself. Its triangle is the
 * upper one there, so the lower one of the rows of the copy. */
static void run_qr(fortran_task *f) {
  const tn_lapack_task *t = f->task;
  const region a = find_region(t, t->a, t->m, t->n, t->lda);
  const region b = find_region(t, t->b, t->n, t->n, t->ldb);
  const workspace ws = divide_workspace(t);
  const region copy = find_region(t, ws.copy, t->n, t->m, t->m);
  const region lower = find_region(t, ws.copy, t->n, t->n, t->m);
  if (!is_finite_region(&a, 0)) {
    fill_nan(&a);
    fill_nan(&b);
    return;
  }
  copy_transposed(&copy, &a);
  f->functions->geqrf(&f->m, &f->n, ws.copy, &f->m, ws.scalars, ws.reals,
                      &ws.n_reals, &f->info);
  copy_transposed(&b, &lower);
  clear_below(&b);
  f->functions->orgqr(&f->m, &f->n, &f->n, ws.copy, &f->m, ws.scalars, ws.reals,
                      &ws.n_reals, &f->info);
  copy_transposed(&a, &copy);
}

static void run_eigen(fortran_task *f) {
  const tn_lapack_task *t = f->task;
  const region a = find_region(t, t->a, t->n, t->n, t->lda);
  const region values = find_region(t, t->values, 1, t->n, t->n);
  const workspace ws = divide_workspace(t);
  if (!is_finite_region(&a, 1)) {
    fill_nan(&a);
    fill_nan(&values);
    return;
  }
  f->functions->syevd("V", "U", &f->n, t->a, &f->lda, t->values, ws.reals,
                      &ws.n_reals, ws.integers, &ws.n_integers, &f->info, 1, 1);
}

static void run_svd(fortran_task *f) {
  const tn_lapack_task *t = f->task;
  const int64_t k = f->k;
  const region a = find_region(t, t->a, t->m, t->n, t->lda);
  const region u = find_region(t, t->b, t->m, k, t->ldb);
  const region vt = find_region(t, t->c, k, t->n, t->ldc);
  const region values = find_region(t, t->values, 1, k, k);
  const workspace ws = divide_workspace(t);
  if (!is_finite_region(&a, 0)) {
    fill_nan(&u);
    fill_nan(&vt);
    fill_nan(&values);
    return;
  }
  f->functions->gesdd("S", &f->n, &f->m, t->a, &f->lda, t->values, t->c,
                      &f->ldc, t->b, &f->ldb, ws.reals, &ws.n_reals,
                      ws.integers, &f->info, 1);
}

static void run_triangular(fortran_task *f) {
  const tn_lapack_task *t = f->task;
  const int solves = t->kind == TN_LAPACK_TRIANGULAR_SOLVE;
  const int side = t->flags & TN_LAPACK_RIGHT ? RIGHT : LEFT;
  const int uplo = t->flags & TN_LAPACK_UPPER ? UPPER : LOWER;
  const int op = t->flags & TN_LAPACK_TRANSPOSE ? TRANSPOSE : NO_TRANSPOSE;
  if (t->dtype == TN_F32) {
    openblas_striangular *run = solves ? f->library->strsm : f->library->strmm;
    run(ROW_MAJOR, side, uplo, op, NON_UNIT, f->m, f->n, (float)t->alpha, t->a,
        f->lda, t->b, f->ldb);
  } else {
    openblas_dtriangular *run = solves ? f->library->dtrsm : f->library->dtrmm;
    run(ROW_MAJOR, side, uplo, op, NON_UNIT, f->m, f->n, t->alpha, t->a, f->lda,
        t->b, f->ldb);
  }
}

/* --------------------------------------------------------------- the table */

typedef void run_fn(fortran_task *f);

static run_fn *const runs[] = {
    [TN_LAPACK_CHOLESKY] = run_cholesky,
    [TN_LAPACK_CHOLESKY_INVERSE] = run_cholesky_inverse,
    [TN_LAPACK_LU] = run_lu,
    [TN_LAPACK_LU_SOLVE] = run_lu_solve,
    [TN_LAPACK_LQ] = run_lq,
    [TN_LAPACK_QR] = run_qr,
    [TN_LAPACK_EIGEN] = run_eigen,
    [TN_LAPACK_SVD] = run_svd,
    [TN_LAPACK_TRIANGULAR_PRODUCT] = run_triangular,
    [TN_LAPACK_TRIANGULAR_SOLVE] = run_triangular,
};

/* Whether the task has a matrix without elements: LAPACK gets none. */
static int is_empty(const tn_lapack_task *task) {
  const int is_square =
      task->kind <= TN_LAPACK_LU || task->kind == TN_LAPACK_EIGEN;
  return task->n == 0 || (!is_square && task->m == 0);
}

static int64_t run_task(const tn_lapack *lapack, const tn_lapack_task *task) {
  const openblas_library *library = lapack->data;
  fortran_task f = {.task = task,
                    .library = library,
                    .functions = &library->lapack[task->dtype == TN_F64],
                    .m = (int)task->m,
                    .n = (int)task->n,
                    .k = (int)smaller_of(task->m, task->n),
                    .lda = (int)task->lda,
                    .ldb = (int)task->ldb,
                    .ldc = (int)task->ldc};
  if (is_empty(task)) return 0;
  openblas_threads_begin(library);
  runs[task->kind](&f);
  openblas_threads_end(library);
  return f.info < 0 ? 1 : f.info;
}

tn_lapack openblas_lapack_table(openblas_library *library) {
  return (tn_lapack){.struct_size = sizeof(tn_lapack),
                     .data = library,
                     .name = library->name,
                     .plan = plan_task,
                     .run = run_task};
}
