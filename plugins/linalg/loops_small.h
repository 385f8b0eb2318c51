/* SPDX-License-Identifier: Apache-2.0
 * loops_small.h: tasks of lapack/1 for small matrices of the type LOOPS_REAL,
 * without blocks; loops.c includes it once for each type.
 */

/* Whether the elements that a factorisation of a square reads are finite. */
static int LOOPS_NAME(is_finite)(const tn_lapack_task *t, int is_lower) {
  const LOOPS_REAL *a = t->a;
  int finite = 1;
  for (int64_t i = 0; i < t->n; ++i)
    for (int64_t j = 0; j < (is_lower ? i + 1 : t->n); ++j)
      finite &= isfinite(a[i * t->lda + j]) != 0;
  return finite;
}

static void LOOPS_NAME(fill_nan)(const tn_lapack_task *t) {
  LOOPS_REAL *a = t->a;
  for (int64_t i = 0; i < t->n; ++i)
    for (int64_t j = 0; j < t->n; ++j) a[i * t->lda + j] = (LOOPS_REAL)NAN;
}

static int64_t LOOPS_NAME(run_cholesky)(const tn_lapack_task *t) {
  LOOPS_REAL *a = t->a;
  for (int64_t i = 0; i < t->n; ++i) {
    LOOPS_REAL *row = a + i * t->lda;
    for (int64_t j = 0; j <= i; ++j) {
      const LOOPS_REAL *other = a + j * t->lda;
      LOOPS_REAL sum = row[j];
      for (int64_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      if (i == j && !(sum > 0)) return i + 1;
      row[j] = i == j ? (LOOPS_REAL)sqrt((double)sum) : sum / other[j];
    }
    for (int64_t j = i + 1; j < t->n; ++j) row[j] = 0;
  }
  return 0;
}

/* Inverts a lower triangle in its place. */
static int64_t LOOPS_NAME(invert_lower)(const tn_lapack_task *t) {
  LOOPS_REAL *a = t->a;
  const int64_t ld = t->lda;
  for (int64_t i = 0; i < t->n; ++i)
    if (!(LOOPS_ABS(a[i * ld + i]) > 0)) return i + 1;
  for (int64_t j = 0; j < t->n; ++j) {
    a[j * ld + j] = 1 / a[j * ld + j];
    for (int64_t i = j + 1; i < t->n; ++i) {
      LOOPS_REAL sum = 0;
      for (int64_t k = j; k < i; ++k) sum += a[i * ld + k] * a[k * ld + j];
      a[i * ld + j] = -sum / a[i * ld + i];
    }
  }
  return 0;
}

/* With m = l^-1 the result is m^T m. */
static int64_t LOOPS_NAME(run_cholesky_inverse)(const tn_lapack_task *t) {
  LOOPS_REAL *a = t->a;
  const int64_t ld = t->lda, failed = LOOPS_NAME(invert_lower)(t);
  for (int64_t i = 0; i < t->n && failed == 0; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      LOOPS_REAL sum = 0;
      for (int64_t k = i; k < t->n; ++k) sum += a[k * ld + i] * a[k * ld + j];
      a[i * ld + j] = sum;
    }
  for (int64_t i = 0; i < t->n; ++i)
    for (int64_t j = 0; j < i; ++j) a[j * ld + i] = a[i * ld + j];
  return failed;
}

/* Exchanges row k and the row with the largest element of column k. */
static void LOOPS_NAME(exchange_rows)(const tn_lapack_task *t, int64_t k) {
  LOOPS_REAL *a = t->a;
  int64_t row = k;
  for (int64_t i = k + 1; i < t->n; ++i)
    if (LOOPS_ABS(a[i * t->lda + k]) > LOOPS_ABS(a[row * t->lda + k])) row = i;
  t->pivots[k] = (int32_t)row + 1;
  for (int64_t j = 0; row != k && j < t->n; ++j)
    LOOPS_NAME(swap)(&a[k * t->lda + j], &a[row * t->lda + j]);
}

static int64_t LOOPS_NAME(run_lu)(const tn_lapack_task *t) {
  LOOPS_REAL *a = t->a;
  const int64_t ld = t->lda;
  int64_t failed = 0;
  for (int64_t k = 0; k < t->n; ++k) {
    LOOPS_NAME(exchange_rows)(t, k);
    const LOOPS_REAL pivot = a[k * ld + k];
    if (!(LOOPS_ABS(pivot) > 0)) {
      if (failed == 0) failed = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < t->n; ++i) {
      const LOOPS_REAL factor = a[i * ld + k] / pivot;
      a[i * ld + k] = factor;
      for (int64_t j = k + 1; j < t->n; ++j)
        a[i * ld + j] -= factor * a[k * ld + j];
    }
  }
  return failed;
}

/* One right-hand side of A x = b: exchanges, then L, then U. */
static void LOOPS_NAME(solve_lu_row)(const tn_lapack_task *t, LOOPS_REAL *x) {
  const LOOPS_REAL *a = t->a;
  const int64_t n = t->n, ld = t->lda;
  for (int64_t i = 0; i < n; ++i) LOOPS_NAME(swap)(&x[i], &x[t->pivots[i] - 1]);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) x[i] -= a[i * ld + j] * x[j];
  for (int64_t i = n; i-- > 0;) {
    for (int64_t j = i + 1; j < n; ++j) x[i] -= a[i * ld + j] * x[j];
    x[i] /= a[i * ld + i];
  }
}

/* One right-hand side of A^T x = b: the transposed factors in reverse order. */
static void LOOPS_NAME(solve_lu_row_back)(const tn_lapack_task *t,
                                          LOOPS_REAL *x) {
  const LOOPS_REAL *a = t->a;
  const int64_t n = t->n, ld = t->lda;
  for (int64_t i = 0; i < n; ++i) {
    x[i] /= a[i * ld + i];
    for (int64_t j = i + 1; j < n; ++j) x[j] -= a[i * ld + j] * x[i];
  }
  for (int64_t i = n; i-- > 0;)
    for (int64_t j = 0; j < i; ++j) x[j] -= a[i * ld + j] * x[i];
  for (int64_t i = n; i-- > 0;) LOOPS_NAME(swap)(&x[i], &x[t->pivots[i] - 1]);
}

static int64_t LOOPS_NAME(run_lu_solve)(const tn_lapack_task *t) {
  for (int64_t r = 0; r < t->m; ++r) {
    LOOPS_REAL *row = (LOOPS_REAL *)t->b + r * t->ldb;
    if (t->flags & TN_LAPACK_TRANSPOSE)
      LOOPS_NAME(solve_lu_row_back)(t, row);
    else
      LOOPS_NAME(solve_lu_row)(t, row);
  }
  return 0;
}

/* ------------------------------------------------------- triangular factors */

/* op(a) of a task: element (i, j) is at[i * row + j * column]. */
typedef struct LOOPS_NAME(triangle) {
  const LOOPS_REAL *at;
  int64_t row;
  int64_t column;
  int is_lower;
} LOOPS_NAME(triangle);

static LOOPS_NAME(triangle) LOOPS_NAME(find_triangle)(const tn_lapack_task *t) {
  const int transposed = (t->flags & TN_LAPACK_TRANSPOSE) != 0;
  return (LOOPS_NAME(triangle)){
      .at = t->a,
      .row = transposed ? 1 : t->lda,
      .column = transposed ? t->lda : 1,
      .is_lower = ((t->flags & TN_LAPACK_UPPER) != 0) == transposed};
}

/* y += factor * x, n elements. */
static void LOOPS_NAME(add_row)(LOOPS_REAL *y, const LOOPS_REAL *x,
                                LOOPS_REAL factor, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] += factor * x[j];
}

/* y *= factor, n elements. */
static void LOOPS_NAME(scale_row)(LOOPS_REAL *y, LOOPS_REAL factor, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] *= factor;
}

/* y /= divisor, n elements. */
static void LOOPS_NAME(divide_row)(LOOPS_REAL *y, LOOPS_REAL divisor,
                                   int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] /= divisor;
}

/* b = alpha * op(a) * b. A row needs only rows that follow, or precede. */
static void LOOPS_NAME(multiply_left)(const tn_lapack_task *t) {
  const LOOPS_NAME(triangle) a = LOOPS_NAME(find_triangle)(t);
  const LOOPS_REAL alpha = (LOOPS_REAL)t->alpha;
  LOOPS_REAL *b = t->b;
  for (int64_t step = 0; step < t->m; ++step) {
    const int64_t i = a.is_lower ? t->m - 1 - step : step;
    const int64_t begin = a.is_lower ? 0 : i + 1, end = a.is_lower ? i : t->m;
    LOOPS_REAL *row = b + i * t->ldb;
    LOOPS_NAME(scale_row)(row, alpha * a.at[i * (a.row + a.column)], t->n);
    for (int64_t k = begin; k < end; ++k) LOOPS_NAME(add_row)
    (row, b + k * t->ldb, alpha * a.at[i * a.row + k * a.column], t->n);
  }
}

/* Solves op(a) * x = alpha * b. */
static void LOOPS_NAME(solve_left)(const tn_lapack_task *t) {
  const LOOPS_NAME(triangle) a = LOOPS_NAME(find_triangle)(t);
  LOOPS_REAL *b = t->b;
  for (int64_t step = 0; step < t->m; ++step) {
    const int64_t i = a.is_lower ? step : t->m - 1 - step;
    const int64_t begin = a.is_lower ? 0 : i + 1, end = a.is_lower ? i : t->m;
    LOOPS_REAL *row = b + i * t->ldb;
    LOOPS_NAME(scale_row)(row, (LOOPS_REAL)t->alpha, t->n);
    for (int64_t k = begin; k < end; ++k) LOOPS_NAME(add_row)
    (row, b + k * t->ldb, -a.at[i * a.row + k * a.column], t->n);
    LOOPS_NAME(divide_row)(row, a.at[i * (a.row + a.column)], t->n);
  }
}

/* The sum of x[k] * op(a)[k, j] beside the diagonal. */
static LOOPS_REAL LOOPS_NAME(sum_column)(const LOOPS_NAME(triangle) * a,
                                         const LOOPS_REAL *x, int64_t j,
                                         int64_t n) {
  const int64_t begin = a->is_lower ? j + 1 : 0, end = a->is_lower ? n : j;
  LOOPS_REAL sum = 0;
  for (int64_t k = begin; k < end; ++k)
    sum += x[k] * a->at[k * a->row + j * a->column];
  return sum;
}

/* b = alpha * b * op(a), row by row. */
static void LOOPS_NAME(multiply_right)(const tn_lapack_task *t) {
  const LOOPS_NAME(triangle) a = LOOPS_NAME(find_triangle)(t);
  for (int64_t r = 0; r < t->m; ++r) {
    LOOPS_REAL *x = (LOOPS_REAL *)t->b + r * t->ldb;
    for (int64_t step = 0; step < t->n; ++step) {
      const int64_t j = a.is_lower ? step : t->n - 1 - step;
      x[j] = (LOOPS_REAL)t->alpha * (x[j] * a.at[j * (a.row + a.column)] +
                                     LOOPS_NAME(sum_column)(&a, x, j, t->n));
    }
  }
}

/* Solves x * op(a) = alpha * b, row by row. */
static void LOOPS_NAME(solve_right)(const tn_lapack_task *t) {
  const LOOPS_NAME(triangle) a = LOOPS_NAME(find_triangle)(t);
  for (int64_t r = 0; r < t->m; ++r) {
    LOOPS_REAL *x = (LOOPS_REAL *)t->b + r * t->ldb;
    for (int64_t step = 0; step < t->n; ++step) {
      const int64_t j = a.is_lower ? t->n - 1 - step : step;
      x[j] = ((LOOPS_REAL)t->alpha * x[j] -
              LOOPS_NAME(sum_column)(&a, x, j, t->n)) /
             a.at[j * (a.row + a.column)];
    }
  }
}

/* --------------------------------------------------------------- all tasks */

static int64_t LOOPS_NAME(run_square)(const tn_lapack_task *t) {
  if (!LOOPS_NAME(is_finite)(t, t->kind != TN_LAPACK_LU)) {
    for (int64_t i = 0; i < t->n && t->kind == TN_LAPACK_LU; ++i)
      t->pivots[i] = (int32_t)i + 1;
    LOOPS_NAME(fill_nan)(t);
    return 0;
  }
  if (t->kind == TN_LAPACK_CHOLESKY) return LOOPS_NAME(run_cholesky)(t);
  if (t->kind == TN_LAPACK_LU) return LOOPS_NAME(run_lu)(t);
  return LOOPS_NAME(run_cholesky_inverse)(t);
}

static int64_t LOOPS_NAME(run_task)(const tn_lapack_task *t) {
  const int right = (t->flags & TN_LAPACK_RIGHT) != 0;
  if (t->kind <= TN_LAPACK_LU) return LOOPS_NAME(run_square)(t);
  if (t->kind == TN_LAPACK_LU_SOLVE) return LOOPS_NAME(run_lu_solve)(t);
  if (t->kind == TN_LAPACK_TRIANGULAR_PRODUCT)
    (right ? LOOPS_NAME(multiply_right) : LOOPS_NAME(multiply_left))(t);
  else
    (right ? LOOPS_NAME(solve_right) : LOOPS_NAME(solve_left))(t);
  return 0;
}
