/* SPDX-License-Identifier: Apache-2.0
 * line_sums.h: sums and the largest and smallest elements of dense rows. Part
 * of lines.h, which includes it.
 *
 * A sum of floats has TN_LINES_LANES partial sums, the same on every machine,
 * so that its order does not depend on the instructions. After at most
 * TN_LINES_SUMMED elements they are added to a sum in f64.
 */
#ifndef TENON_KERNEL_LINE_SUMS_H_
#define TENON_KERNEL_LINE_SUMS_H_

#include "tenon/kernel/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TN_LINES_LANES = 32, TN_LINES_SUMMED = 1024 };

/* The result of a reduction so far: `real` in a floating type to compute in,
 * otherwise `whole`, which wraps. */
typedef union tn_lines_total {
  double real;
  int64_t whole;
} tn_lines_total;

/* ----------------------------------------------------------------- one row
 * Loops that opgen writes have arrays of TN_LINES_LANES partial results: sums,
 * or largest or smallest elements. */

/* The larger of two numbers, or the smaller one; NaN if one of them is. */
#define TN_LINES_CHOOSE(name, number, before, or_nan) \
  TN_KERNEL_BODY number name(number v, number kept) { \
    return ((v before kept)or_nan) ? v : kept;        \
  }
TN_LINES_CHOOSE(tn_lines_larger_f32, float, >, | (v != v))
TN_LINES_CHOOSE(tn_lines_larger_f64, double, >, | (v != v))
TN_LINES_CHOOSE(tn_lines_larger_i32, int32_t, >, )
TN_LINES_CHOOSE(tn_lines_larger_i64, int64_t, >, )
TN_LINES_CHOOSE(tn_lines_smaller_f32, float, <, | (v != v))
TN_LINES_CHOOSE(tn_lines_smaller_f64, double, <, | (v != v))
TN_LINES_CHOOSE(tn_lines_smaller_i32, int32_t, <, )
TN_LINES_CHOOSE(tn_lines_smaller_i64, int64_t, <, )

/* Zero, as a number that compilers do not know: otherwise they would clear an
 * array by string instructions, or in pieces that are smaller than the loads
 * after them. */
TN_KERNEL_BODY float tn_lines_hide_zero(void) {
  float zero = 0;
#if defined(__GNUC__) && defined(__x86_64__) && !defined(__CUDACC__)
  __asm__("" : "+x"(zero));
#endif
  return zero;
}

TN_KERNEL_BODY void tn_lines_clear_f32(float *lanes) {
  const float zero = tn_lines_hide_zero();
  for (int l = 0; l < TN_LINES_LANES; ++l) lanes[l] = zero;
}

TN_KERNEL_BODY void tn_lines_clear_f64(double *lanes) {
  const double zero = (double)tn_lines_hide_zero();
  for (int l = 0; l < TN_LINES_LANES; ++l) lanes[l] = zero;
}

/* Adds partial sums to a total in f64: those that are far from each other
 * first. Vectors of four keep compilers from adding one number at a time. */
#if defined(__GNUC__)
#define TN_LINES_ADD_LANES(type, number)                                     \
  typedef number tn_lines_four_##type __attribute__((                        \
      vector_size(4 * sizeof(number)), aligned(sizeof(number)), may_alias)); \
  TN_KERNEL_BODY void tn_lines_add_lanes_##type(tn_lines_total *total,       \
                                                const number *lanes) {       \
    const tn_lines_four_##type *four =                                       \
        (const tn_lines_four_##type *)(const void *)lanes;                   \
    const tn_lines_wide_four part[2] = {                                     \
        (TN_LINES_WIDEN(four[0]) + TN_LINES_WIDEN(four[4])) +                \
            (TN_LINES_WIDEN(four[2]) + TN_LINES_WIDEN(four[6])),             \
        (TN_LINES_WIDEN(four[1]) + TN_LINES_WIDEN(four[5])) +                \
            (TN_LINES_WIDEN(four[3]) + TN_LINES_WIDEN(four[7]))};            \
    const tn_lines_wide_four all = part[0] + part[1];                        \
    total->real += (all[0] + all[2]) + (all[1] + all[3]);                    \
  }
typedef double tn_lines_wide_four __attribute__((vector_size(32)));
#define TN_LINES_WIDEN(four) __builtin_convertvector(four, tn_lines_wide_four)
#else
#define TN_LINES_ADD_LANES(type, number)                                    \
  TN_KERNEL_BODY void tn_lines_add_lanes_##type(tn_lines_total *total,      \
                                                const number *lanes) {      \
    enum { HALF = TN_LINES_LANES / 2, QUARTER = HALF / 2 };                 \
    double part[QUARTER];                                                   \
    for (int l = 0; l < QUARTER; ++l)                                       \
      part[l] =                                                             \
          ((double)lanes[l] + (double)lanes[l + HALF]) +                    \
          ((double)lanes[l + QUARTER] + (double)lanes[l + QUARTER + HALF]); \
    for (int l = 0; l < QUARTER / 2; ++l) part[l] += part[l + QUARTER / 2]; \
    total->real += (part[0] + part[2]) + (part[1] + part[3]);               \
  }
#endif
TN_LINES_ADD_LANES(f32, float)
TN_LINES_ADD_LANES(f64, double)

#define TN_LINES_ADD_WHOLE(name)                                           \
  TN_KERNEL_BODY void name(tn_lines_total *total, const uint64_t *lanes) { \
    uint64_t all = (uint64_t)total->whole;                                 \
    for (int l = 0; l < TN_LINES_LANES; ++l) all += lanes[l];              \
    total->whole = (int64_t)all;                                           \
  }
TN_LINES_ADD_WHOLE(tn_lines_add_lanes_i32)
TN_LINES_ADD_WHOLE(tn_lines_add_lanes_i64)

/* Chooses among all partial results. */
#define TN_LINES_KEEP_LANES(chosen, type, number, field, wide_number)        \
  TN_KERNEL_BODY void tn_lines_keep_##chosen##_##type(tn_lines_total *total, \
                                                      const number *lanes) { \
    number best[TN_LINES_LANES];                                             \
    for (int l = 0; l < TN_LINES_LANES; ++l) best[l] = lanes[l];             \
    for (int half = TN_LINES_LANES / 2; half > 0; half /= 2)                 \
      for (int l = 0; l < half; ++l)                                         \
        best[l] = tn_lines_##chosen##_##type(best[l + half], best[l]);       \
    total->field = (wide_number)best[0];                                     \
  }
TN_LINES_KEEP_LANES(larger, f32, float, real, double)
TN_LINES_KEEP_LANES(larger, f64, double, real, double)
TN_LINES_KEEP_LANES(larger, i32, int32_t, whole, int64_t)
TN_LINES_KEEP_LANES(larger, i64, int64_t, whole, int64_t)
TN_LINES_KEEP_LANES(smaller, f32, float, real, double)
TN_LINES_KEEP_LANES(smaller, f64, double, real, double)
TN_LINES_KEEP_LANES(smaller, i32, int32_t, whole, int64_t)
TN_LINES_KEEP_LANES(smaller, i64, int64_t, whole, int64_t)

/* Sets all partial results to a total. */
#define TN_LINES_START_LANES(type, number, field)                             \
  TN_KERNEL_BODY void tn_lines_start_##type(const tn_lines_total *total,      \
                                            number *lanes) {                  \
    for (int l = 0; l < TN_LINES_LANES; ++l) lanes[l] = (number)total->field; \
  }
TN_LINES_START_LANES(f32, float, real)
TN_LINES_START_LANES(f64, double, real)
TN_LINES_START_LANES(i32, int32_t, whole)
TN_LINES_START_LANES(i64, int64_t, whole)

#if TN_KERNEL_HAS_WIDE
/* Partial results of the highest level: those of the next sixteen elements, and
 * the others. */
typedef struct tn_lines_wide {
  tn_wide next, other;
  uint32_t nan; /* whether an element was NaN: a bit for each place */
} tn_lines_wide;

TN_WIDE_FN void tn_lines_wide_start(tn_lines_wide *lanes, float x) {
  lanes->next = lanes->other = tn_wide_of(x);
  lanes->nan = 0;
}

TN_WIDE_FN __mmask16 tn_lines_wide_mask(int64_t n) {
  return (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1);
}

/* The first n floats, sixteen at most; others are 1. Rows are in a near cache,
 * so that nothing is prefetched. */
TN_WIDE_FN tn_wide tn_lines_wide_load(const float *from, int64_t n) {
  if (n >= 16) return _mm512_loadu_ps(from);
  return _mm512_mask_loadu_ps(tn_wide_of(1.0f), tn_lines_wide_mask(n), from);
}

/* Adds the first n of sixteen numbers to numbers in memory. */
TN_WIDE_FN void tn_lines_wide_add_to(float *to, int64_t n, tn_wide v) {
  tn_wide_store(to, n, tn_lines_wide_load(to, n) + v);
}

/* Sets the partial results of these elements. */
TN_WIDE_FN void tn_lines_wide_turn(tn_lines_wide *lanes, tn_wide v) {
  lanes->next = lanes->other;
  lanes->other = v;
}

TN_WIDE_FN void tn_lines_wide_add(tn_lines_wide *lanes, tn_wide v, int64_t n) {
  if (n < 16) v = _mm512_maskz_mov_ps(tn_lines_wide_mask(n), v);
  tn_lines_wide_turn(lanes, lanes->next + v);
}

/* Adds partial results to a total, in the order of tn_lines_add_lanes_f32(). */
TN_WIDE_FN void tn_lines_wide_add_lanes(tn_lines_total *total,
                                        const tn_lines_wide *lanes) {
  const __m256 low[2] = {_mm512_castps512_ps256(lanes->next),
                         _mm512_castps512_ps256(lanes->other)};
  const __m256 high[2] = {_mm512_extractf32x8_ps(lanes->next, 1),
                          _mm512_extractf32x8_ps(lanes->other, 1)};
  const __m512d part = (_mm512_cvtps_pd(low[0]) + _mm512_cvtps_pd(low[1])) +
                       (_mm512_cvtps_pd(high[0]) + _mm512_cvtps_pd(high[1]));
  const __m256d half =
      _mm512_castpd512_pd256(part) + _mm512_extractf64x4_pd(part, 1);
  const __m128d pair =
      _mm256_castpd256_pd128(half) + _mm256_extractf128_pd(half, 1);
  total->real +=
      _mm_cvtsd_f64(pair) + _mm_cvtsd_f64(_mm_unpackhi_pd(pair, pair));
}

/* Keeps larger numbers, or smaller ones, and chooses among partial results:
 * those of the other half, quarter, and so on are moved beside them. */
#define TN_LINES_WIDE_CHOOSE(chosen, choose)                                \
  TN_WIDE_FN void tn_lines_wide_##chosen(tn_lines_wide *lanes, tn_wide v,   \
                                         int64_t n) {                       \
    const __mmask16 mask = tn_lines_wide_mask(n);                           \
    lanes->nan |= _mm512_mask_cmp_ps_mask(mask, v, v, _CMP_UNORD_Q);        \
    tn_lines_wide_turn(                                                     \
        lanes, tn_wide_select(mask, lanes->next, choose(v, lanes->next)));  \
  }                                                                         \
  TN_WIDE_FN void tn_lines_wide_keep_##chosen(tn_lines_total *total,        \
                                              const tn_lines_wide *lanes) { \
    tn_wide v = choose(lanes->next, lanes->other);                          \
    v = choose(v, _mm512_shuffle_f32x4(v, v, 0x4e));                        \
    v = choose(v, _mm512_shuffle_f32x4(v, v, 0xb1));                        \
    v = choose(v, _mm512_permute_ps(v, 0x4e));                              \
    v = choose(v, _mm512_permute_ps(v, 0xb1));                              \
    const float best = _mm512_cvtss_f32(v);                                 \
    if (lanes->nan != 0 || total->real != total->real)                      \
      total->real = (double)NAN;                                            \
    else                                                                    \
      total->real = (double)best;                                           \
  }
TN_LINES_WIDE_CHOOSE(larger, _mm512_max_ps)
TN_LINES_WIDE_CHOOSE(smaller, _mm512_min_ps)
#endif

/* ----------------------------------------------------------- several rows */

/* Adds the sum of n elements to a total. */
#define TN_LINES_ADD_REALS(name, number, add_lanes)                            \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const number *x = (const number *)block->in[0];                            \
    tn_lines_total *total = (tn_lines_total *)block->out;                      \
    (void)params;                                                              \
    for (int64_t at = 0, n = block->n; at < n; at += TN_LINES_SUMMED) {        \
      const int64_t end = n - at < TN_LINES_SUMMED ? n : at + TN_LINES_SUMMED; \
      number lane[TN_LINES_LANES] = {0};                                       \
      int64_t i = at;                                                          \
      for (; i + TN_LINES_LANES <= end; i += TN_LINES_LANES)                   \
        for (int l = 0; l < TN_LINES_LANES; ++l) lane[l] += x[i + l];          \
      for (int l = 0; i < end; ++i, ++l) lane[l] += x[i];                      \
      add_lanes(total, lane);                                                  \
    }                                                                          \
  }

/* Adds n elements to sums in f64, one for each place. */
#define TN_LINES_SPREAD_REALS(name, real_type)                                 \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const real_type *x = (const real_type *)block->in[0];                      \
    double *sums = (double *)block->out;                                       \
    (void)params;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0, n = block->n; i < n; ++i) sums[i] += (double)x[i];     \
  }

/* The larger of each of n elements and its total, or the smaller one. */
#define TN_LINES_CHOOSE_EACH(name, real_type, before)                          \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const real_type *x = (const real_type *)block->in[0];                      \
    double *best = (double *)block->out;                                       \
    (void)params;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0, n = block->n; i < n; ++i) {                            \
      const double v = (double)x[i];                                           \
      best[i] = ((v before best[i]) | (v != v)) ? v : best[i];                 \
    }                                                                          \
  }

/* Makes results of n totals, divided by `params`. */
#define TN_LINES_FINISH(name, number)                                          \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const double *totals = (const double *)block->in[0];                       \
    const double divisor = *(const double *)params;                            \
    number *to = (number *)block->out;                                         \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0, n = block->n; i < n; ++i)                              \
      to[i] = (number)(totals[i] / divisor);                                   \
  }

/* The formulas of a plugin decide which of these it needs. */
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunused-function"
#endif
TN_LINES_CHOOSE_EACH(tn_lines_most_f32, float, >)
TN_KERNEL_LEVELS(tn_lines_most_f32)
TN_LINES_CHOOSE_EACH(tn_lines_most_f64, double, >)
TN_KERNEL_LEVELS(tn_lines_most_f64)
TN_LINES_CHOOSE_EACH(tn_lines_least_f32, float, <)
TN_KERNEL_LEVELS(tn_lines_least_f32)
TN_LINES_CHOOSE_EACH(tn_lines_least_f64, double, <)
TN_KERNEL_LEVELS(tn_lines_least_f64)
TN_LINES_ADD_REALS(tn_lines_add_f32, float, tn_lines_add_lanes_f32)
TN_KERNEL_LEVELS(tn_lines_add_f32)
TN_LINES_ADD_REALS(tn_lines_add_f64, double, tn_lines_add_lanes_f64)
TN_KERNEL_LEVELS(tn_lines_add_f64)
TN_LINES_FINISH(tn_lines_finish_f32, float)
TN_KERNEL_LEVELS(tn_lines_finish_f32)
TN_LINES_FINISH(tn_lines_finish_f64, double)
TN_KERNEL_LEVELS(tn_lines_finish_f64)
TN_LINES_SPREAD_REALS(tn_lines_spread_f32, float)
TN_KERNEL_LEVELS(tn_lines_spread_f32)
TN_LINES_SPREAD_REALS(tn_lines_spread_f64, double)
TN_KERNEL_LEVELS(tn_lines_spread_f64)
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_LINE_SUMS_H_ */
