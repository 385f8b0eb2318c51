/* SPDX-License-Identifier: Apache-2.0
 * loops_body.h: loops over the elements of one matrix, for the type LOOPS_REAL;
 * loops.c includes it once for each type. They implement linalg_loops.
 */

/* ----------------------------------------------------------------- squares */

static void LOOPS_NAME(copy)(int64_t n, const void *x, void *out) {
  if (n > 0) memcpy(out, x, (size_t)(n * n) * sizeof(LOOPS_REAL));
}

static void LOOPS_NAME(transpose)(int64_t rows, int64_t columns, const void *x,
                                  void *out) {
  enum { SIDE = 16 }; /* of blocks that stay in the cache */
  const LOOPS_REAL *from = x;
  LOOPS_REAL *to = out;
  for (int64_t r = 0; r < rows; r += SIDE)
    for (int64_t c = 0; c < columns; c += SIDE)
      for (int64_t i = r; i < rows && i < r + SIDE; ++i)
        for (int64_t j = c; j < columns && j < c + SIDE; ++j)
          to[j * rows + i] = from[i * columns + j];
}

static void LOOPS_NAME(transpose_square)(int64_t n, const void *x, void *out) {
  LOOPS_NAME(transpose)(n, n, x, out);
}

static void LOOPS_NAME(fill_zeros)(int64_t n, void *out) {
  if (n > 0) memset(out, 0, (size_t)n * sizeof(LOOPS_REAL));
}

static void LOOPS_NAME(make_identity)(int64_t n, const void *x, void *out) {
  LOOPS_REAL *to = out;
  (void)x;
  LOOPS_NAME(fill_zeros)(n * n, out);
  for (int64_t i = 0; i < n; ++i) to[i * n + i] = 1;
}

/* A function of elements (i, j) and (j, i). */
#define LOOPS_PAIRS(name, expression)                                     \
  static void LOOPS_NAME(name)(int64_t n, const void *x, void *out) {     \
    const LOOPS_REAL *from = x;                                           \
    LOOPS_REAL *to = out;                                                 \
    for (int64_t i = 0; i < n; ++i)                                       \
      for (int64_t j = 0; j < n; ++j) {                                   \
        const LOOPS_REAL here = from[i * n + j], there = from[j * n + i]; \
        to[i * n + j] = (expression);                                     \
      }                                                                   \
  }

LOOPS_PAIRS(symmetric_part, (here + there) / 2)
LOOPS_PAIRS(add_transpose, here + there)
LOOPS_PAIRS(minus_transpose, here - there)
LOOPS_PAIRS(mirror_lower, i < j ? there : here)
#undef LOOPS_PAIRS

static void LOOPS_NAME(take_lower)(int64_t n, const void *x, void *out) {
  const LOOPS_REAL *from = x;
  LOOPS_REAL *to = out;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) to[i * n + j] = i < j ? 0 : from[i * n + j];
}

static void LOOPS_NAME(transpose_upper)(int64_t n, const void *x, void *out) {
  const LOOPS_REAL *from = x;
  LOOPS_REAL *to = out;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) to[i * n + j] = i < j ? 0 : from[j * n + i];
}

static void LOOPS_NAME(transpose_lower)(int64_t n, const void *x, void *out) {
  const LOOPS_REAL *from = x;
  LOOPS_REAL *to = out;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) to[i * n + j] = i > j ? 0 : from[j * n + i];
}

static void LOOPS_NAME(half_triangle)(int64_t n, const void *x, void *out) {
  LOOPS_REAL *to = out;
  LOOPS_NAME(take_lower)(n, x, out);
  for (int64_t i = 0; i < n; ++i) to[i * n + i] /= 2;
}

static void LOOPS_NAME(extract_diagonal)(int64_t n, const void *x, void *out) {
  const LOOPS_REAL *from = x;
  LOOPS_REAL *to = out;
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * n + i];
}

static void LOOPS_NAME(make_diagonal)(int64_t n, const void *x, void *out) {
  const LOOPS_REAL *from = x;
  LOOPS_REAL *to = out;
  LOOPS_NAME(fill_zeros)(n * n, out);
  for (int64_t i = 0; i < n; ++i) to[i * n + i] = from[i];
}

static void LOOPS_NAME(sum_differences)(int64_t n, const void *x, void *out) {
  const LOOPS_REAL *from = x;
  LOOPS_REAL *to = out;
  for (int64_t k = 0; k < n; ++k) {
    LOOPS_REAL sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += from[k * n + i] - from[i * n + k];
    to[k] = sum;
  }
}

/* Sums in double, whose error does not grow with n. */
static void LOOPS_NAME(sum_log_diagonal)(int64_t n, const void *x, void *out) {
  const LOOPS_REAL *from = x;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (double)LOOPS_LOG(from[i * n + i]);
  *(LOOPS_REAL *)out = (LOOPS_REAL)sum;
}

static void LOOPS_NAME(keep_triangle)(int64_t n, int is_lower, void *x) {
  LOOPS_REAL *a = x;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = is_lower ? i + 1 : 0, end = is_lower ? n : i;
    for (int64_t j = begin; j < end; ++j) a[i * n + j] = 0;
  }
}

static void LOOPS_NAME(divide_by_gaps)(int64_t n, const void *x,
                                       const void *values, void *out) {
  const LOOPS_REAL *from = x, *value = values;
  LOOPS_REAL *to = out;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const LOOPS_REAL here = from[i * n + j];
      const int is_zero = i == j || (here <= 0 && here >= 0);
      to[i * n + j] = is_zero ? 0 : here / (value[j] - value[i]);
    }
}

/* ------------------------------------------------------------ determinants */

static void LOOPS_NAME(find_det)(const linalg_lu *lu, void *det) {
  const LOOPS_REAL *a = lu->factors;
  LOOPS_REAL product = 1;
  for (int64_t i = 0; i < lu->n; ++i) {
    product *= a[i * lu->n + i];
    if (lu->pivots[i] != i + 1) product = -product;
  }
  *(LOOPS_REAL *)det = lu->is_singular ? 0 : product;
}

static void LOOPS_NAME(find_slogdet)(const linalg_lu *lu, void *sign,
                                     void *logarithm) {
  const LOOPS_REAL *a = lu->factors;
  LOOPS_REAL s = 1;
  double sum = 0;
  for (int64_t i = 0; i < lu->n; ++i) {
    const LOOPS_REAL d = a[i * lu->n + i];
    if ((d < 0) != (lu->pivots[i] != i + 1)) s = -s;
    if (isnan(d)) s = d;
    sum += (double)LOOPS_LOG(LOOPS_ABS(d));
  }
  *(LOOPS_REAL *)sign = lu->is_singular ? 0 : s;
  *(LOOPS_REAL *)logarithm =
      lu->is_singular ? -(LOOPS_REAL)INFINITY : (LOOPS_REAL)sum;
}

static void LOOPS_NAME(scale_square)(const linalg_lu *lu, int64_t n,
                                     const void *scale, void *x) {
  LOOPS_REAL *a = x, factor = 1;
  if (lu) LOOPS_NAME(find_det)(lu, &factor);
  factor *= *(const LOOPS_REAL *)scale;
  for (int64_t i = 0; i < n * n; ++i) a[i] *= factor;
}

/* ------------------------------------------------- cofactors if det is zero */

static void LOOPS_NAME(swap)(LOOPS_REAL *a, LOOPS_REAL *b) {
  const LOOPS_REAL kept = *a;
  *a = *b;
  *b = kept;
}

/* Moves the largest element of rows and columns from k on to (k, k), and notes
 * the exchanges in `places`. Returns the sign of the permutation, 0 if all
 * elements are 0. */
static int LOOPS_NAME(move_pivot)(int64_t n, int64_t k, LOOPS_REAL *a,
                                  int64_t *places) {
  int64_t row = k, column = k;
  int sign = 1;
  for (int64_t i = k; i < n; ++i)
    for (int64_t j = k; j < n; ++j)
      if (LOOPS_ABS(a[i * n + j]) > LOOPS_ABS(a[row * n + column]))
        row = i, column = j;
  if (!(LOOPS_ABS(a[row * n + column]) > 0)) return 0;
  for (int64_t j = 0; row != k && j < n; ++j)
    LOOPS_NAME(swap)(&a[k * n + j], &a[row * n + j]);
  for (int64_t i = 0; column != k && i < n; ++i)
    LOOPS_NAME(swap)(&a[i * n + k], &a[i * n + column]);
  if (row != k) sign = -sign;
  if (column != k) sign = -sign;
  const int64_t r = places[row], c = places[n + column];
  places[row] = places[k], places[k] = r;
  places[n + column] = places[n + k], places[n + k] = c;
  return sign;
}

/* Factorises P a Q = L U with the largest pivots, but for the last one. Returns
 * their product with the sign of both permutations. */
static LOOPS_REAL LOOPS_NAME(factorise_fully)(int64_t n, LOOPS_REAL *a,
                                              int64_t *places) {
  LOOPS_REAL product = 1;
  for (int64_t i = 0; i < n; ++i) places[i] = places[n + i] = i;
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int sign = LOOPS_NAME(move_pivot)(n, k, a, places);
    if (sign == 0) return 0;
    product *= (LOOPS_REAL)sign * a[k * n + k];
    for (int64_t i = k + 1; i < n; ++i) {
      const LOOPS_REAL factor = a[i * n + k] / a[k * n + k];
      a[i * n + k] = factor;
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return product;
}

/* The adjugate of U with a last pivot of 0 is the product of the other pivots
 * times v e_n^T, where U v = 0 and v_n = 1; that of L is its inverse. So the
 * adjugate of x is Q v times w^T P, where w^T L = e_n^T. */
static void LOOPS_NAME(find_singular_cofactors)(int64_t n, void *x,
                                                int64_t *places, void *vectors,
                                                void *out) {
  LOOPS_REAL *a = x, *v = vectors, *w = v + n, *to = out;
  const LOOPS_REAL product = LOOPS_NAME(factorise_fully)(n, a, places);
  for (int64_t i = n; i-- > 0;) {
    LOOPS_REAL sum_v = 0, sum_w = 0;
    for (int64_t j = i + 1; j < n; ++j) {
      sum_v += a[i * n + j] * v[j];
      sum_w += a[j * n + i] * w[j];
    }
    v[i] = i == n - 1 ? 1 : -sum_v / a[i * n + i];
    w[i] = i == n - 1 ? 1 : -sum_w;
  }
  LOOPS_NAME(fill_zeros)(n * n, out);
  if (!(LOOPS_ABS(product) > 0)) return;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      to[places[i] * n + places[n + j]] = product * w[i] * v[j];
}

/* ------------------------------------------------------------------- signs */

static void LOOPS_NAME(choose_sign)(const linalg_signs *s, int64_t k) {
  LOOPS_REAL *v = (LOOPS_REAL *)s->vectors + k * s->next;
  LOOPS_REAL most = 0;
  for (int64_t i = 0; i < s->length; ++i)
    if (LOOPS_ABS(v[i * s->step]) > LOOPS_ABS(most)) most = v[i * s->step];
  if (!(most < 0)) return;
  for (int64_t i = 0; i < s->length; ++i) v[i * s->step] = -v[i * s->step];
  if (!s->vectors_2) return;
  LOOPS_REAL *other = (LOOPS_REAL *)s->vectors_2 + k * s->length_2;
  for (int64_t i = 0; i < s->length_2; ++i) other[i] = -other[i];
}

static void LOOPS_NAME(choose_signs)(const linalg_signs *s) {
  for (int64_t k = 0; k < s->n; ++k) LOOPS_NAME(choose_sign)(s, k);
}
