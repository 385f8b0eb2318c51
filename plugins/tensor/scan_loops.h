/* SPDX-License-Identifier: Apache-2.0
 * scan_loops.h: loops of scan.c for each level of instructions. All levels add
 * the same numbers in the same order: eight numbers x give
 *
 *   y[i] = x[i] + x[i - 1], z[i] = y[i] + y[i - 2], w[i] = z[i] + z[i - 4]
 *
 * and the running sums are the sum before them plus w[i]. So additions of
 * different groups need not wait for each other, but for one.
 */
#ifndef TENSOR_SCAN_LOOPS_H_
#define TENSOR_SCAN_LOOPS_H_

#include "tenon/kernel/kernel.h"

#if TN_KERNEL_HAS_WIDE && !defined(TN_KERNEL_EMULATED)
#include <immintrin.h>
#endif

enum { SCAN_GROUP = 8 };

/* The numbers of a loop. */
typedef struct scan_sum_args {
  double base; /* added to each result */
  double sum;  /* of the elements before, without the base; then of all */
} scan_sum_args;

/* Sets out[i] to the base and the sum of all elements up to x[i]. */
#define SCAN_SUMS(name, type)                                                  \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    scan_sum_args *a = (scan_sum_args *)(uintptr_t)params;                     \
    const type *x = (const type *)block->in[0];                                \
    type *out = (type *)block->out;                                            \
    const double base = a->base;                                               \
    double sum = a->sum;                                                       \
    int64_t i = 0;                                                             \
    for (; i + SCAN_GROUP <= block->n; i += SCAN_GROUP) {                      \
      double y[SCAN_GROUP], z[SCAN_GROUP];                                     \
      y[0] = (double)x[i];                                                     \
      for (int k = 1; k < SCAN_GROUP; ++k)                                     \
        y[k] = (double)x[i + k] + (double)x[i + k - 1];                        \
      for (int k = 0; k < 2; ++k) z[k] = y[k];                                 \
      for (int k = 2; k < SCAN_GROUP; ++k) z[k] = y[k] + y[k - 2];             \
      for (int k = 4; k < SCAN_GROUP; ++k) y[k] = z[k] + z[k - 4];             \
      for (int k = 0; k < 4; ++k) out[i + k] = (type)(base + (sum + z[k]));    \
      for (int k = 4; k < SCAN_GROUP; ++k)                                     \
        out[i + k] = (type)(base + (sum + y[k]));                              \
      sum = sum + y[SCAN_GROUP - 1];                                           \
    }                                                                          \
    for (; i < block->n; ++i) {                                                \
      sum = sum + (double)x[i];                                                \
      out[i] = (type)(base + sum);                                             \
    }                                                                          \
    a->sum = sum;                                                              \
  }
SCAN_SUMS(scan_sums_f32, float)
SCAN_SUMS(scan_sums_f64, double)

#if TN_KERNEL_HAS_WIDE && !defined(TN_KERNEL_EMULATED)
/* x moved up by a number of lanes, with zeros below. */
#define SCAN_MOVE(x, lanes)                      \
  _mm512_castsi512_pd(_mm512_maskz_alignr_epi64( \
      0xff, _mm512_castpd_si512(x), _mm512_setzero_si512(), 8 - (lanes)))

TN_KERNEL_INLINE TN_KERNEL_AVX512 __m512d scan_load_f32(const float *x) {
  return _mm512_cvtps_pd(_mm256_loadu_ps(x));
}

TN_KERNEL_INLINE TN_KERNEL_AVX512 void scan_store_f32(float *to, __m512d x) {
  _mm256_storeu_ps(to, _mm512_cvtpd_ps(x));
}

TN_KERNEL_INLINE TN_KERNEL_AVX512 __m512d scan_load_f64(const double *x) {
  return _mm512_loadu_pd(x);
}

TN_KERNEL_INLINE TN_KERNEL_AVX512 void scan_store_f64(double *to, __m512d x) {
  _mm512_storeu_pd(to, x);
}

#define SCAN_SUMS_WIDE(suffix, type)                                   \
  TN_KERNEL_INLINE TN_KERNEL_AVX512 void scan_sums_##suffix##_wide(    \
      const tn_kernel_block *block, const void *params) {              \
    scan_sum_args *a = (scan_sum_args *)(uintptr_t)params;             \
    const type *x = (const type *)block->in[0];                        \
    type *out = (type *)block->out;                                    \
    const __m512i top = _mm512_set1_epi64(SCAN_GROUP - 1);             \
    const __m512d base = _mm512_set1_pd(a->base);                      \
    __m512d sum = _mm512_set1_pd(a->sum);                              \
    int64_t i = 0;                                                     \
    for (; i + SCAN_GROUP <= block->n; i += SCAN_GROUP) {              \
      __m512d v = scan_load_##suffix(x + i);                           \
      v = _mm512_add_pd(v, SCAN_MOVE(v, 1));                           \
      v = _mm512_add_pd(v, SCAN_MOVE(v, 2));                           \
      v = _mm512_add_pd(v, SCAN_MOVE(v, 4));                           \
      scan_store_##suffix(out + i,                                     \
                          _mm512_add_pd(base, _mm512_add_pd(sum, v))); \
      sum = _mm512_add_pd(sum, _mm512_permutexvar_pd(top, v));         \
    }                                                                  \
    a->sum = _mm512_cvtsd_f64(sum);                                    \
    for (; i < block->n; ++i) {                                        \
      a->sum = a->sum + (double)x[i];                                  \
      out[i] = (type)(a->base + a->sum);                               \
    }                                                                  \
  }
SCAN_SUMS_WIDE(f32, float)
SCAN_SUMS_WIDE(f64, double)
TN_KERNEL_LEVELS_WIDE(scan_sums_f32)
TN_KERNEL_LEVELS_WIDE(scan_sums_f64)
#else
TN_KERNEL_LEVELS(scan_sums_f32)
TN_KERNEL_LEVELS(scan_sums_f64)
#endif

/* Rows of adjacent lines of f32, `step` elements apart. */
enum { SCAN_ROWS = 8 };
typedef struct scan_row_args {
  double *all; /* the results of the lines */
  int64_t step;
} scan_row_args;

/* `rows` rows: the results become those of the last one. */
#define SCAN_ROW(name, operation, before, rows)                                \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const scan_row_args *a = (const scan_row_args *)params;                    \
    double *all = a->all;                                                      \
    const int64_t step = a->step, n = block->n;                                \
    const float *x = (const float *)block->in[0];                              \
    float *out = (float *)block->out;                                          \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < n; ++i) {                                          \
      double sum = all[i];                                                     \
      for (int r = 0; r < (rows); ++r) {                                       \
        const double old = sum;                                                \
        sum = old operation(double) x[r * step + i];                           \
        out[r * step + i] = (float)((before) ? old : sum);                     \
      }                                                                        \
      all[i] = sum;                                                            \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
#define SCAN_ROW_FORMS(name, operation)          \
  SCAN_ROW(name, operation, 0, 1)                \
  SCAN_ROW(name##_before, operation, 1, 1)       \
  SCAN_ROW(name##_rows, operation, 0, SCAN_ROWS) \
  SCAN_ROW(name##_rows_before, operation, 1, SCAN_ROWS)
SCAN_ROW_FORMS(scan_sum, +)
SCAN_ROW_FORMS(scan_product, *)

#endif /* TENSOR_SCAN_LOOPS_H_ */
