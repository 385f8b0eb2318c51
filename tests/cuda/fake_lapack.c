/* SPDX-License-Identifier: Apache-2.0
 * fake_lapack.c: see fake_lapack.h.
 */
#include "fake_lapack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake_uses.h"
#include "fake_work.h"

enum { MOST_SWEEPS = 60 };

_Thread_local int fake_is_wide;

/* ----------------------------------------------------------------- handles */

int fake_handle_create(void *out, int magic) {
  fake_handle *h = calloc(1, sizeof *h);
  if (!h) abort();
  h->magic = magic;
  h->device = fake_cuda_device();
  memcpy(out, &h, sizeof h);
  return 0;
}

int fake_handle_check(const void *handle, int magic) {
  const fake_handle *h = handle;
  if (!h || h->magic != magic) {
    fake_violate(fake_cuda(), "uses a handle of another library, or none");
    return -1;
  }
  if (h->device == fake_cuda_device()) return 0;
  fake_violate(fake_cuda(), "uses a handle of a device that is not current");
  return -1;
}

void fake_handle_destroy(void *handle) {
  fake_handle *h = handle;
  h->magic = 0;
  free(h);
}

int fake_handle_set_stream(void *handle, int magic, void *stream) {
  fake_handle *h = handle;
  if (fake_handle_check(handle, magic)) return -1;
  h->stream = stream;
  return 0;
}

/* ---------------------------------------------------------------- elements */

/* A matrix of doubles in memory of its own, with the same leading dimension. */
static double *load_matrix(const void *from, int wide, int ld, int columns) {
  const size_t n = (size_t)ld * (size_t)columns;
  double *to = malloc((n + 1) * sizeof *to);
  if (!to) abort();
  for (size_t i = 0; i < n; ++i)
    to[i] = wide ? ((const double *)from)[i] : (double)((const float *)from)[i];
  return to;
}

static void store_matrix(void *to, int wide, double *from, int ld, int rows,
                         int columns) {
  for (int j = 0; j < columns; ++j)
    for (int i = 0; i < rows; ++i) {
      const size_t at = (size_t)j * (size_t)ld + (size_t)i;
      if (wide)
        ((double *)to)[at] = from[at];
      else
        ((float *)to)[at] = (float)from[at];
    }
  free(from);
}

/* Element (i, j) of a triangle, seen as a lower one: an upper one is its
 * transpose. */
static double *find_lower(double *a, int ld, int triangle, int i, int j) {
  return triangle == SOLVER_LOWER ? &a[j * ld + i] : &a[i * ld + j];
}

/* ---------------------------------------------------------------- Cholesky */

static int factorise_cholesky(double *a, int n, int ld, int triangle) {
  for (int k = 0; k < n; ++k) {
    double *pivot = find_lower(a, ld, triangle, k, k);
    if (!(*pivot > 0)) return k + 1;
    *pivot = sqrt(*pivot);
    for (int i = k + 1; i < n; ++i)
      *find_lower(a, ld, triangle, i, k) /= *pivot;
    for (int j = k + 1; j < n; ++j)
      for (int i = j; i < n; ++i)
        *find_lower(a, ld, triangle, i, j) -=
            *find_lower(a, ld, triangle, i, k) *
            *find_lower(a, ld, triangle, j, k);
  }
  return 0;
}

/* The inverse of L L^T in the triangle of L. */
static int invert_cholesky(double *a, int n, int ld, int triangle) {
  double *x = calloc((size_t)n * (size_t)n + 1, sizeof *x);
  int info = 0;
  if (!x) abort();
  for (int i = 0; i < n && info == 0; ++i)
    if (*find_lower(a, ld, triangle, i, i) == 0) info = i + 1;
  for (int j = 0; j < n && info == 0; ++j)
    for (int i = j; i < n; ++i) {
      double sum = i == j;
      for (int k = j; k < i; ++k)
        sum -= *find_lower(a, ld, triangle, i, k) * x[k * n + j];
      x[i * n + j] = sum / *find_lower(a, ld, triangle, i, i);
    }
  for (int j = 0; j < n && info == 0; ++j)
    for (int i = j; i < n; ++i) {
      double sum = 0;
      for (int k = i; k < n; ++k) sum += x[k * n + i] * x[k * n + j];
      *find_lower(a, ld, triangle, i, j) = sum;
    }
  free(x);
  return info;
}

/* -------------------------------------------------------- triangular solves */

/* Element (i, j) of op(a). */
static double op_of(const double *a, int ld, int op, int i, int j) {
  return op == SOLVER_OP_T ? a[i * ld + j] : a[j * ld + i];
}

/* x of op(a) x = x, with `step` between its elements. */
static void solve_vector(const fake_job *w, const double *a, int n, int op,
                         double *x, int step) {
  const int is_lower = (w->triangle == SOLVER_LOWER) != (op == SOLVER_OP_T);
  for (int k = 0; k < n; ++k) {
    const int i = is_lower ? k : n - 1 - k;
    for (int l = 0; l < k; ++l) {
      const int j = is_lower ? l : n - 1 - l;
      x[i * step] -= op_of(a, w->lda, op, i, j) * x[j * step];
    }
    x[i * step] /= a[i * w->lda + i];
  }
}

/* x becomes op(a) x. */
static void multiply_vector(const fake_job *w, const double *a, int n, int op,
                            double *x, int step) {
  const int is_lower = (w->triangle == SOLVER_LOWER) != (op == SOLVER_OP_T);
  for (int k = 0; k < n; ++k) {
    const int i = is_lower ? n - 1 - k : k; /* no later one needs its old x */
    double sum = 0;
    for (int j = is_lower ? 0 : i; j < (is_lower ? i + 1 : n); ++j)
      sum += op_of(a, w->lda, op, i, j) * x[j * step];
    x[i * step] = sum;
  }
}

/* Solves op(a) x = b, or multiplies. On the right side, x op(a) = b is
 * op(a)^T x^T = b^T. */
static void apply_triangle(const fake_job *w, const double *a, double *b) {
  void (*const apply)(const fake_job *, const double *, int, int, double *,
                      int) =
      w->kind == FAKE_TRMM ? multiply_vector : solve_vector;
  const int turned = w->op == SOLVER_OP_T ? SOLVER_OP_N : SOLVER_OP_T;
  for (int j = 0; j < w->n; ++j)
    for (int i = 0; i < w->m; ++i) b[j * w->ldb + i] *= w->alpha;
  if (w->side == SOLVER_LEFT)
    for (int j = 0; j < w->n; ++j) apply(w, a, w->m, w->op, b + j * w->ldb, 1);
  else
    for (int i = 0; i < w->m; ++i) apply(w, a, w->n, turned, b + i, w->ldb);
}

/* ---------------------------------------------------------------------- LU */

static void swap_rows(double *a, int ld, int columns, int i, int k) {
  for (int j = 0; j < columns; ++j) {
    const double x = a[j * ld + i];
    a[j * ld + i] = a[j * ld + k];
    a[j * ld + k] = x;
  }
}

static int factorise_lu(double *a, int n, int ld, int *pivots) {
  int info = 0;
  for (int k = 0; k < n; ++k) {
    int best = k;
    for (int i = k + 1; i < n; ++i)
      if (fabs(a[k * ld + i]) > fabs(a[k * ld + best])) best = i;
    pivots[k] = best + 1;
    swap_rows(a, ld, n, k, best);
    if (a[k * ld + k] == 0) {
      if (info == 0) info = k + 1;
      continue;
    }
    for (int i = k + 1; i < n; ++i) a[k * ld + i] /= a[k * ld + k];
    for (int j = k + 1; j < n; ++j)
      for (int i = k + 1; i < n; ++i)
        a[j * ld + i] -= a[k * ld + i] * a[j * ld + k];
  }
  return info;
}

static void solve_lu(const fake_job *w, const double *a, const int *pivots,
                     double *b) {
  const int n = w->n;
  for (int k = 0; k < n && w->op == SOLVER_OP_N; ++k)
    swap_rows(b, w->ldb, w->k, k, pivots[k] - 1);
  for (int c = 0; c < w->k; ++c) {
    double *x = b + c * w->ldb;
    const int turns = w->op == SOLVER_OP_T;
    for (int i = 0; i < n; ++i) { /* L, or U^T */
      for (int j = 0; j < i; ++j) x[i] -= op_of(a, w->lda, w->op, i, j) * x[j];
      if (turns) x[i] /= a[i * w->lda + i];
    }
    for (int i = n; i-- > 0;) { /* U, or L^T */
      for (int j = i + 1; j < n; ++j)
        x[i] -= op_of(a, w->lda, w->op, i, j) * x[j];
      if (!turns) x[i] /= a[i * w->lda + i];
    }
  }
  for (int k = n; k-- > 0 && w->op == SOLVER_OP_T;)
    swap_rows(b, w->ldb, w->k, k, pivots[k] - 1);
}

/* -------------------------------------------------------------- reflections */

/* Applies reflection k, by its vector in column k of a, to column x. */
static void reflect_column(const double *a, int m, int ld, int k, double factor,
                           double *x) {
  double sum = x[k];
  for (int i = k + 1; i < m; ++i) sum += a[k * ld + i] * x[i];
  sum *= factor;
  x[k] -= sum;
  for (int i = k + 1; i < m; ++i) x[i] -= sum * a[k * ld + i];
}

static void factorise_qr(double *a, int m, int n, int ld, double *factors) {
  for (int k = 0; k < n; ++k) {
    double *x = a + k * ld, rest = 0;
    for (int i = k + 1; i < m; ++i) rest += x[i] * x[i];
    const double length = sqrt(x[k] * x[k] + rest);
    const double beta = rest == 0 ? x[k] : x[k] < 0 ? length : -length;
    factors[k] = rest == 0 ? 0 : (beta - x[k]) / beta;
    for (int i = k + 1; i < m && rest != 0; ++i) x[i] /= x[k] - beta;
    for (int j = k + 1; j < n; ++j)
      reflect_column(a, m, ld, k, factors[k], a + j * ld);
    x[k] = beta;
  }
}

static void make_q(double *a, int m, int n, int ld, const double *factors) {
  double *q = calloc((size_t)ld * (size_t)n + 1, sizeof *q);
  if (!q) abort();
  for (int j = 0; j < n; ++j) {
    q[j * ld + j] = 1;
    for (int k = n; k-- > 0;)
      reflect_column(a, m, ld, k, factors[k], q + j * ld);
  }
  memcpy(a, q, (size_t)ld * (size_t)n * sizeof *q);
  free(q);
}

/* ---------------------------------------------------------------- rotations */

static void turn_columns(double *a, int rows, int ld, int p, int q, double c,
                         double s) {
  for (int i = 0; i < rows; ++i) {
    const double x = a[p * ld + i], y = a[q * ld + i];
    a[p * ld + i] = c * x - s * y;
    a[q * ld + i] = s * x + c * y;
  }
}

static double dot(const double *x, const double *y, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

/* Makes the columns of w (m x n) orthogonal; v (n x n) collects the rotations.
 */
static void make_orthogonal(double *w, int m, int n, int ld, double *v) {
  int turned = 1;
  memset(v, 0, (size_t)n * (size_t)n * sizeof *v);
  for (int i = 0; i < n; ++i) v[i * n + i] = 1;
  for (int sweep = 0; sweep < MOST_SWEEPS && turned; ++sweep) {
    turned = 0;
    for (int p = 0; p < n; ++p)
      for (int q = p + 1; q < n; ++q) {
        const double pp = dot(w + p * ld, w + p * ld, m);
        const double qq = dot(w + q * ld, w + q * ld, m);
        const double pq = dot(w + p * ld, w + q * ld, m);
        if (!(fabs(pq) > 1e-15 * sqrt(pp) * sqrt(qq))) continue;
        const double zeta = (qq - pp) / (2 * pq);
        const double t =
            (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
        const double c = 1 / sqrt(1 + t * t);
        turn_columns(w, m, ld, p, q, c, c * t);
        turn_columns(v, n, n, p, q, c, c * t);
        turned = 1;
      }
  }
}

/* The columns by `keys`, the smallest first or last. */
static void sort_columns(const double *keys, int n, int descends, int *order) {
  for (int c = 0; c < n; ++c) {
    int at = c;
    for (; at > 0; --at) {
      const double before = keys[order[at - 1]];
      if (descends ? before >= keys[c] : before <= keys[c]) break;
      order[at] = order[at - 1];
    }
    order[at] = c;
  }
}

/* Gives column c of u, which has length 0, a direction of its own. */
static void complete_column(double *u, int m, int n, int ld, int c) {
  double *x = u + c * ld;
  for (int unit = 0; unit < m; ++unit) {
    memset(x, 0, (size_t)m * sizeof *x);
    x[unit] = 1;
    for (int o = 0; o < 2 * n; ++o) {
      const double *other = u + (o % n) * ld;
      const double inside = o % n == c ? 0 : dot(other, x, m);
      for (int i = 0; i < m && o % n != c; ++i) x[i] -= inside * other[i];
    }
    const double length = sqrt(dot(x, x, m));
    if (length * length * 2 * m < 1) continue;
    for (int i = 0; i < m; ++i) x[i] /= length;
    return;
  }
}

/* Rows of `vt`, columns of `u` and `values`, all by order of the values. */
static void find_singular(const fake_job *w, double *a, double *values,
                          double *u, double *vt) {
  const int m = w->m, n = w->n;
  double *v = malloc((size_t)n * (size_t)n * sizeof *v);
  double *lengths = malloc((size_t)n * sizeof *lengths);
  int *order = malloc((size_t)n * sizeof *order);
  if (!v || !lengths || !order) abort();
  make_orthogonal(a, m, n, w->lda, v);
  for (int c = 0; c < n; ++c) {
    lengths[c] = sqrt(dot(a + c * w->lda, a + c * w->lda, m));
    for (int i = 0; i < m && lengths[c] > 0; ++i)
      a[c * w->lda + i] /= lengths[c];
  }
  for (int c = 0; c < n; ++c)
    if (!(lengths[c] > 0)) complete_column(a, m, n, w->lda, c);
  sort_columns(lengths, n, 1, order);
  for (int r = 0; r < n; ++r) {
    values[r] = lengths[order[r]];
    memcpy(u + r * w->ldb, a + order[r] * w->lda, (size_t)m * sizeof *u);
    for (int i = 0; i < n; ++i) vt[i * w->ldc + r] = v[order[r] * n + i];
  }
  free(v), free(lengths), free(order);
}

/* Eigenvectors in the columns of a, as right singular vectors of a + s I, which
 * has no negative eigenvalue. */
static void find_eigen(const fake_job *w, double *a, double *values) {
  const int n = w->n;
  const size_t bytes = (size_t)n * (size_t)n * sizeof(double);
  double *x = malloc(bytes), *v = malloc(bytes), shift = 0;
  double *found = malloc((size_t)n * sizeof *found);
  int *order = malloc((size_t)n * sizeof *order);
  if (!x || !v || !found || !order) abort();
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int i = 0; i < n; ++i) {
      x[j * n + i] = i >= j ? *find_lower(a, w->lda, w->triangle, i, j)
                            : *find_lower(a, w->lda, w->triangle, j, i);
      sum += fabs(x[j * n + i]);
    }
    shift = fmax(shift, sum);
  }
  for (int i = 0; i < n; ++i) x[i * (n + 1)] += shift;
  make_orthogonal(x, n, n, n, v);
  for (int c = 0; c < n; ++c) found[c] = dot(v + c * n, x + c * n, n) - shift;
  sort_columns(found, n, 0, order);
  for (int r = 0; r < n; ++r) {
    values[r] = found[order[r]];
    for (int i = 0; i < n; ++i) a[r * w->lda + i] = -v[order[r] * n + i];
  }
  free(x), free(v), free(found), free(order);
}

/* ------------------------------------------------------------------- a job */

/* Memory of the host for one matrix of a job. */
typedef struct spot {
  void *a, *b, *c, *values;
  int *pivots;
} spot;

/* The real function for many matrices uses the other triangle as a workspace.
 */
static void spoil_triangle(const fake_job *w, double *a) {
  for (int j = 0; j < w->n; ++j)
    for (int i = 0; i < j; ++i) *find_lower(a, w->lda, w->triangle, i, j) = 1e9;
}

static int run_factors(const fake_job *w, const spot *s) {
  double *a = load_matrix(s->a, w->wide, w->lda, w->n);
  int info = 0;
  if (w->kind == FAKE_POTRF)
    info = factorise_cholesky(a, w->n, w->lda, w->triangle);
  if (w->kind == FAKE_POTRF && w->has_lists) spoil_triangle(w, a);
  if (w->kind == FAKE_POTRI)
    info = invert_cholesky(a, w->n, w->lda, w->triangle);
  if (w->kind == FAKE_GETRF) info = factorise_lu(a, w->n, w->lda, s->pivots);
  store_matrix(s->a, w->wide, a, w->lda, w->n, w->n);
  return info;
}

static void run_solve(const fake_job *w, const spot *s) {
  const int is_lu = w->kind == FAKE_GETRS;
  const int side = w->side == SOLVER_LEFT ? w->m : w->n;
  double *a = load_matrix(s->a, w->wide, w->lda, is_lu ? w->n : side);
  double *b = load_matrix(s->b, w->wide, w->ldb, is_lu ? w->k : w->n);
  if (is_lu)
    solve_lu(w, a, s->pivots, b);
  else
    apply_triangle(w, a, b);
  store_matrix(s->b, w->wide, b, w->ldb, is_lu ? w->n : w->m,
               is_lu ? w->k : w->n);
  free(a);
}

static void run_reflections(const fake_job *w, const spot *s) {
  double *a = load_matrix(s->a, w->wide, w->lda, w->n);
  double *factors = load_matrix(s->values, w->wide, w->n, 1);
  if (w->kind == FAKE_GEQRF) {
    factorise_qr(a, w->m, w->n, w->lda, factors);
    store_matrix(s->values, w->wide, factors, w->n, w->n, 1);
  } else {
    make_q(a, w->m, w->n, w->lda, factors);
    free(factors);
  }
  store_matrix(s->a, w->wide, a, w->lda, w->m, w->n);
}

static void run_values(const fake_job *w, const spot *s) {
  double *a = load_matrix(s->a, w->wide, w->lda, w->n);
  double *values = load_matrix(s->values, w->wide, w->n, 1);
  if (w->kind == FAKE_SYEVD) {
    find_eigen(w, a, values);
    store_matrix(s->a, w->wide, a, w->lda, w->n, w->n);
  } else {
    double *u = load_matrix(s->b, w->wide, w->ldb, w->n);
    double *vt = load_matrix(s->c, w->wide, w->ldc, w->n);
    find_singular(w, a, values, u, vt);
    store_matrix(s->b, w->wide, u, w->ldb, w->m, w->n);
    store_matrix(s->c, w->wide, vt, w->ldc, w->n, w->n);
    free(a);
  }
  store_matrix(s->values, w->wide, values, w->n, w->n, 1);
}

static void *reach(fake *f, const void *at) {
  return at ? fake_reach(f, at) : NULL;
}

static void run_job(fake *f, const void *arg) {
  fake_job w;
  memcpy(&w, arg, sizeof w);
  void *const *a_list = w.has_lists ? fake_reach(f, w.a) : NULL;
  void *const *b_list = w.has_lists ? reach(f, w.b) : NULL;
  int *pivots = reach(f, w.pivots), *info = reach(f, w.info);
  for (int i = 0; i < w.count; ++i) {
    const spot s = {.a = reach(f, a_list ? a_list[i] : w.a),
                    .b = reach(f, b_list ? b_list[i] : w.b),
                    .c = reach(f, w.c),
                    .values = reach(f, w.values),
                    .pivots = pivots ? pivots + i * w.n : NULL};
    int failed = 0;
    if (w.kind == FAKE_POTRF || w.kind == FAKE_POTRI || w.kind == FAKE_GETRF)
      failed = run_factors(&w, &s);
    else if (w.kind == FAKE_TRSM || w.kind == FAKE_TRMM || w.kind == FAKE_GETRS)
      run_solve(&w, &s);
    else if (w.kind == FAKE_GEQRF || w.kind == FAKE_ORGQR)
      run_reflections(&w, &s);
    else
      run_values(&w, &s);
    if (info) info[i] = failed;
  }
}

/* ------------------------------------------------------------------ submit */

static int64_t count_extent(int ld, int rows, int columns, int width) {
  return ((int64_t)(columns - 1) * ld + rows) * width;
}

static int is_triangular(const fake_job *w) {
  return w->kind == FAKE_TRSM || w->kind == FAKE_TRMM;
}

/* Operands without lists. */
static void add_matrices(const fake_job *w, fake_uses *reads,
                         fake_uses *writes) {
  const int width = w->wide ? 8 : 4;
  const int is_lu = w->kind == FAKE_GETRS, is_solve = is_triangular(w);
  const int side = w->side == SOLVER_LEFT ? w->m : w->n;
  const int is_tall =
      w->kind == FAKE_GEQRF || w->kind == FAKE_ORGQR || w->kind == FAKE_GESVD;
  const int edge = is_solve ? side : w->n;
  add_use(is_lu || is_solve ? reads : writes, w->a,
          count_extent(w->lda, is_tall ? w->m : edge, edge, width));
  if (is_lu) add_use(writes, w->b, count_extent(w->ldb, w->n, w->k, width));
  if (is_solve) add_use(writes, w->b, count_extent(w->ldb, w->m, w->n, width));
  if (w->kind != FAKE_GESVD) return;
  add_use(writes, w->b, count_extent(w->ldb, w->m, w->n, width));
  add_use(writes, w->c, count_extent(w->ldc, w->n, w->n, width));
}

/* A matrix needs its rows in memory, and results need an address. */
static int check_job(const fake_job *w) {
  const int side = w->side == SOLVER_LEFT ? w->m : w->n;
  const int rows = is_triangular(w)        ? side
                   : w->kind == FAKE_GEQRF ? w->m
                   : w->kind == FAKE_ORGQR ? w->m
                   : w->kind == FAKE_GESVD ? w->m
                                           : w->n;
  if (w->n < 1 || w->m < 0 || w->count < 1 || !w->a || w->lda < rows) return -1;
  if (w->kind == FAKE_GESVD && (w->m < w->n || w->ldb < w->m || w->ldc < w->n))
    return -1;
  if (is_triangular(w) && w->ldb < w->m) return -1;
  if (w->kind == FAKE_GETRS && w->ldb < w->n) return -1;
  if ((w->kind == FAKE_GEQRF || w->kind == FAKE_ORGQR) && w->m < w->n)
    return -1;
  if (w->size > 0 && !w->ws) return -1;
  return 0;
}

int fake_job_submit(const void *handle, int magic, fake_job job) {
  job.wide = fake_is_wide;
  if (!job.has_lists) job.count = 1;
  const fake_job *w = &job;
  const fake_handle *h = handle;
  fake_uses reads = {.n = 0}, writes = {.n = 0};
  if (fake_handle_check(handle, magic) || check_job(w)) return -1;
  if (!h->stream) {
    fake_violate(fake_cuda(), "enqueues a factorisation without a stream");
    return -1;
  }
  const cuda_stream stream = h->stream;
  if (stream->recording) {
    fake_violate(fake_cuda(), "records a factorisation");
    return -1;
  }
  if (w->has_lists) {
    add_use(&reads, w->a, w->count * (int64_t)sizeof(void *));
    add_use(&reads, w->b, w->count * (int64_t)sizeof(void *));
  } else {
    add_matrices(w, &reads, &writes);
  }
  const int is_factor = w->kind == FAKE_GETRF;
  add_use(is_factor ? &writes : &reads, w->pivots,
          (int64_t)w->count * w->n * 4);
  add_use(w->kind == FAKE_ORGQR ? &reads : &writes, w->values,
          (int64_t)w->n * (w->wide ? 8 : 4));
  add_use(&writes, w->ws, (int64_t)w->size * (w->wide ? 8 : 4));
  add_use(&writes, w->info, (int64_t)w->count * 4);
  const fake_work work = {.run = run_job, .arg = w, .arg_bytes = sizeof *w};
  return submit_uses(stream, work, &reads, &writes);
}
