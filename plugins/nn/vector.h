/* SPDX-License-Identifier: Apache-2.0
 * vector.h: vectors of one element type and level, for headers that each.h
 * includes, and functions on them.
 */

enum { NAME(lanes) = BYTES / (int)sizeof(REAL) };

typedef REAL NAME(vector)
    __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(vector_16) __attribute__((vector_size(16), may_alias));

/* Loads the vector at x. Functions with vectors as arguments or results would
 * not have the same ABI at all levels, so there are none, not even inline ones.
 */
#ifndef NN_VECTOR
#define NN_VECTOR(x) (*(const NAME(vector) *)(const void *)(x))
#endif

/* NAME(NN_STREAM)(to, v) writes a vector past the caches to `to`, which is
 * aligned to its size. NN_STREAM_END() after the last one makes the stores
 * visible in order. */
#ifndef NN_STREAM_END
#if defined(TN_KERNEL_AVX2)
#define NN_STREAM_END() _mm_sfence()
#define NN_STREAM_f32_base _mm_stream_ps
#define NN_STREAM_f32_avx2 _mm256_stream_ps
#define NN_STREAM_f32_avx512 _mm512_stream_ps
#define NN_STREAM_f64_base _mm_stream_pd
#define NN_STREAM_f64_avx2 _mm256_stream_pd
#define NN_STREAM_f64_avx512 _mm512_stream_pd
#else
#define NN_STREAM_END() (void)0
#define NN_STREAM_f32_base(to, v) (*(vector_f32_base *)(void *)(to) = (v))
#define NN_STREAM_f64_base(to, v) (*(vector_f64_base *)(void *)(to) = (v))
#endif
#endif

/* Number of vectors of partial results of a sum or maximum. An addition takes
 * as long as several additions that do not wait for each other, so there are
 * several: as many as sixteen registers can hold if vectors are short. */
enum { NAME(n_sums) = BYTES == 64 ? 4 : 8 };

/* Prefetches n elements, which need not exist: the next row, between two passes
 * over the current one. The processor's own prefetch ends at a page. For short
 * rows this would be too late and too much. */
BODY void NAME(prefetch_row)(const REAL *x, int64_t n) {
  enum { LINE = 64, SHORT = 1024 };
  const uintptr_t at = (uintptr_t)x, bytes = (uintptr_t)n * sizeof *x;
  if (bytes < SHORT) return;
  for (uintptr_t k = 0; k < bytes; k += LINE)
    __builtin_prefetch((const void *)(at + k));
}

/* Prefetches the addresses one page after two vectors. */
#ifndef NN_PAGE_AHEAD
#define NN_PAGE_AHEAD(x, y)                      \
  (__builtin_prefetch((const char *)(x) + 4096), \
   __builtin_prefetch((const char *)(y) + 4096))
#endif

/* Returns the sum of a vector's elements, adding halves first. */
BODY REAL NAME(sum_lanes)(const NAME(vector) * v) {
  const NAME(vector_16) *q = (const NAME(vector_16) *)v;
  enum { n = 16 / (int)sizeof(REAL) };
  NAME(vector_16) part = q[0];
  if (BYTES == 32) part = q[0] + q[1];
  if (BYTES == 64) part = (q[0] + q[2]) + (q[1] + q[3]);
  if (n == 2) return part[0] + part[1];
  return (part[0] + part[n / 2]) + (part[1] + part[n - 1]);
}

/* Sets each element of `most` to the larger one of `most` and `v`; it keeps
 * that of `most` where either is NaN. */
#ifndef NN_KEEP_MAX
#if defined(TN_KERNEL_AVX2)
#define NN_MAX_f32_base _mm_max_ps
#define NN_MAX_f32_avx2 _mm256_max_ps
#define NN_MAX_f32_avx512 _mm512_max_ps
#define NN_MAX_f64_base _mm_max_pd
#define NN_MAX_f64_avx2 _mm256_max_pd
#define NN_MAX_f64_avx512 _mm512_max_pd
#define NN_KEEP_MAX(most, v) ((most) = NAME(NN_MAX)((v), (most)))
#else
#define NN_KEEP_MAX(most, v)                                           \
  do {                                                                 \
    const __typeof__(most) other = (v);                                \
    const __typeof__(other > other) above = other > (most);            \
    (most) = (__typeof__(most))((above & (__typeof__(above))other) |   \
                                (~above & (__typeof__(above))(most))); \
  } while (0)
#endif
#endif

/* Returns the largest of n elements. It may skip NaN, which the exponential
 * then returns. */
BODY REAL NAME(find_largest)(const REAL *x, int64_t n) {
  enum { L = NAME(lanes), C = NAME(n_sums) };
  REAL all = x[0];
  int64_t i = 0;
  if (n >= L) {
    NAME(vector) most[C];
    for (int k = 0; k < C; ++k) most[k] = NN_VECTOR(x);
    for (; i + C * L <= n; i += C * L)
      for (int k = 0; k < C; ++k)
        NN_KEEP_MAX(most[k], NN_VECTOR(x + i + k * L));
    for (; i + L <= n; i += L) NN_KEEP_MAX(most[0], NN_VECTOR(x + i));
    for (int half = C / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) NN_KEEP_MAX(most[k], most[k + half]);
    for (int half = L / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k)
        if (most[0][k + half] > most[0][k]) most[0][k] = most[0][k + half];
    all = most[0][0];
  }
  for (; i < n; ++i) all = x[i] > all ? x[i] : all;
  return all;
}

/* Adds all C vectors of `part` into the first one. */
#ifndef NN_ADD_VECTORS
#define NN_ADD_VECTORS(part)                               \
  do {                                                     \
    for (int k = 0; k < C; k += 2) part[k] += part[k + 1]; \
    for (int k = 0; k < C; k += 4) part[k] += part[k + 2]; \
    if (C == 8) part[0] += part[C / 2];                    \
  } while (0)
#endif

/* Sets `result` to a sum of n terms: `term(i)` is the vector of terms i and
 * following, `last(i)` term i alone. */
#ifndef NN_SUM
#define NN_SUM(result, n, term, last)                         \
  do {                                                        \
    enum { L = NAME(lanes), C = NAME(n_sums) };               \
    NAME(vector) part[C] = {{0}};                             \
    REAL rest = 0;                                            \
    int64_t i = 0;                                            \
    for (; i + C * L <= (n); i += C * L)                      \
      for (int k = 0; k < C; ++k) part[k] += term(i + k * L); \
    for (; i + L <= (n); i += L) part[0] += term(i);          \
    for (; i < (n); ++i) rest += last(i);                     \
    for (int k = 0; k < C; k += 2) part[k] += part[k + 1];    \
    for (int k = 0; k < C; k += 4) part[k] += part[k + 2];    \
    if (C == 8) part[0] += part[4];                           \
    (result) = NAME(sum_lanes)(&part[0]) + rest;              \
  } while (0)
#endif

/* Number of elements in a partial sum of a long sum. Partial sums are added as
 * f64, because f32 alone would lose digits. The cost is not measurable. */
#ifndef NN_LONG
#define NN_LONG 4096
#define NN_LONG_SUM(result, n, part)                          \
  do {                                                        \
    double whole = 0;                                         \
    for (int64_t at = 0; at < (n); at += NN_LONG) {           \
      const int64_t left = (n)-at;                            \
      const int64_t n_part = left < NN_LONG ? left : NN_LONG; \
      whole += (double)(part);                                \
    }                                                         \
    (result) = (REAL)whole;                                   \
  } while (0)
#endif

BODY REAL NAME(sum_part)(const REAL *x, int64_t n) {
  REAL all;
#define TERM(i) NN_VECTOR(x + (i))
#define LAST(i) x[i]
  NN_SUM(all, n, TERM, LAST);
#undef TERM
#undef LAST
  return all;
}

BODY REAL NAME(sum_row)(const REAL *x, int64_t n) {
  REAL all;
  if (n <= NN_LONG) return NAME(sum_part)(x, n);
  NN_LONG_SUM(all, n, NAME(sum_part)(x + at, n_part));
  return all;
}

BODY REAL NAME(dot_part)(const REAL *x, const REAL *y, int64_t n) {
  REAL all;
#define TERM(i) (NN_VECTOR(x + (i)) * NN_VECTOR(y + (i)))
#define LAST(i) (x[i] * y[i])
  NN_SUM(all, n, TERM, LAST);
#undef TERM
#undef LAST
  return all;
}

BODY REAL NAME(dot_rows)(const REAL *x, const REAL *y, int64_t n) {
  REAL all;
  if (n <= NN_LONG) return NAME(dot_part)(x, y, n);
  NN_LONG_SUM(all, n, NAME(dot_part)(x + at, y + at, n_part));
  return all;
}

/* Sets y = exp((x - top)*factor), which is at most 1, and returns the sum of y.
 * `y` may be `x`. n is at most NN_LONG. */
BODY REAL NAME(exp_part)(const REAL *x, REAL *y, int64_t n, REAL top,
                         REAL factor) {
  enum { L = NAME(lanes), C = 2 };
  NAME(vector) part[C] = {{0}};
  REAL rest = 0;
  int64_t i = 0;
  for (; i + C * L <= n; i += C * L) {
    TN_KERNEL_INDEPENDENT
    for (int k = 0; k < C * L; ++k)
      y[i + k] = MATH(exp_down)((x[i + k] - top) * factor);
    for (int k = 0; k < C; ++k) part[k] += NN_VECTOR(y + i + k * L);
  }
  for (; i < n; ++i) {
    y[i] = MATH(exp_down)((x[i] - top) * factor);
    rest += y[i];
  }
  part[0] += part[1];
  return NAME(sum_lanes)(&part[0]) + rest;
}

BODY REAL NAME(exp_row)(const REAL *x, REAL *y, int64_t n, REAL top,
                        REAL factor) {
  REAL all;
  if (n <= NN_LONG) return NAME(exp_part)(x, y, n, top, factor);
  NN_LONG_SUM(all, n, NAME(exp_part)(x + at, y + at, n_part, top, factor));
  return all;
}

/* Returns the sum of exp((x - top)*factor) over a row, without storing the
 * terms. */
BODY REAL NAME(sum_exp)(const REAL *x, int64_t n, REAL top, REAL factor) {
  REAL power[NN_CHUNK];
  double sum = 0;
  for (int64_t at = 0; at < n; at += NN_CHUNK) {
    const int64_t n_part = n - at < NN_CHUNK ? n - at : NN_CHUNK;
    sum += (double)NAME(exp_part)(x + at, power, n_part, top, factor);
  }
  return (REAL)sum;
}

/* Returns the sum of squared distances to a mean. */
BODY REAL NAME(sum_squares)(const REAL *x, REAL mean, int64_t n) {
  REAL all;
#define TERM(i) ((NN_VECTOR(x + (i)) - mean) * (NN_VECTOR(x + (i)) - mean))
#define LAST(i) ((x[i] - mean) * (x[i] - mean))
  NN_SUM(all, n, TERM, LAST);
#undef TERM
#undef LAST
  return all;
}

/* Sets sums[0] to the sum of t, and sums[1] to the sum of t * (x - mean), where
 * t is an output gradient, or one times a weight. */
#ifndef NN_SUMS
#define NN_SUMS(n, term, last)                           \
  do {                                                   \
    enum { L = NAME(lanes) };                            \
    NAME(vector) one[4] = {{0}}, two[4] = {{0}};         \
    REAL rest[2] = {0, 0};                               \
    int64_t i = 0;                                       \
    for (; i + 4 * L <= (n); i += 4 * L)                 \
      for (int k = 0; k < 4; ++k) {                      \
        const NAME(vector) t = term(i + k * L);          \
        one[k] += t;                                     \
        two[k] += t * (NN_VECTOR(x + i + k * L) - mean); \
      }                                                  \
    for (; i + L <= (n); i += L) {                       \
      const NAME(vector) t = term(i);                    \
      one[0] += t;                                       \
      two[0] += t * (NN_VECTOR(x + i) - mean);           \
    }                                                    \
    for (; i < (n); ++i) {                               \
      const REAL t = last(i);                            \
      rest[0] += t;                                      \
      rest[1] += t * (x[i] - mean);                      \
    }                                                    \
    one[0] = (one[0] + one[1]) + (one[2] + one[3]);      \
    two[0] = (two[0] + two[1]) + (two[2] + two[3]);      \
    sums[0] = NAME(sum_lanes)(&one[0]) + rest[0];        \
    sums[1] = NAME(sum_lanes)(&two[0]) + rest[1];        \
  } while (0)
#endif

/* Computes the sum of distances to a value near the mean, and the sum of their
 * squares. */
BODY void NAME(sum_distances)(const REAL *x, REAL mean, int64_t n,
                              REAL sums[2]) {
#define TERM(i) (NN_VECTOR(x + (i)) - mean)
#define LAST(i) (x[i] - mean)
  NN_SUMS(n, TERM, LAST);
#undef TERM
#undef LAST
}

BODY void NAME(sum_moments)(const REAL *g, const REAL *x, REAL mean, int64_t n,
                            REAL sums[2]) {
#define TERM(i) (NN_PAGE_AHEAD(g + (i), x + (i)), NN_VECTOR(g + (i)))
#define LAST(i) g[i]
  NN_SUMS(n, TERM, LAST);
#undef TERM
#undef LAST
}
