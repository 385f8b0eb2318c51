/* SPDX-License-Identifier: Apache-2.0
 * line_sums.h: sums and the largest and smallest elements of dense rows. Part
 * of lines.h, which includes it.
 *
 * A sum of floats has partial sums in TN_LINES_LANES places, the same on every
 * machine, so that its order does not depend on the instructions. After at most
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
typedef struct tn_lines_total {
  double real;
  int64_t whole;
} tn_lines_total;

/* Adds the sum of n elements to a total. */
#define TN_LINES_ADD_REALS(name, real_type)                                    \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const real_type *x = (const real_type *)block->in[0];                      \
    tn_lines_total *total = (tn_lines_total *)block->out;                      \
    double all = total->real;                                                  \
    (void)params;                                                              \
    for (int64_t at = 0, n = block->n; at < n; at += TN_LINES_SUMMED) {        \
      const int64_t end = n - at < TN_LINES_SUMMED ? n : at + TN_LINES_SUMMED; \
      real_type lane[TN_LINES_LANES] = {0};                                    \
      int64_t i = at;                                                          \
      for (; i + TN_LINES_LANES <= end; i += TN_LINES_LANES)                   \
        for (int l = 0; l < TN_LINES_LANES; ++l) lane[l] += x[i + l];          \
      for (int l = 0; i < end; ++i, ++l) lane[l] += x[i];                      \
      for (int l = 0; l < TN_LINES_LANES; ++l) all += (double)lane[l];         \
    }                                                                          \
    total->real = all;                                                         \
  }

/* The larger of a total and all elements, or the smaller one; NaN if one of
 * them is. */
#define TN_LINES_CHOOSE_REALS(name, real_type, before)                         \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const real_type *x = (const real_type *)block->in[0];                      \
    tn_lines_total *total = (tn_lines_total *)block->out;                      \
    real_type lane[TN_LINES_LANES];                                            \
    const int64_t n = block->n;                                                \
    int64_t i = 0;                                                             \
    (void)params;                                                              \
    for (int l = 0; l < TN_LINES_LANES; ++l) lane[l] = (real_type)total->real; \
    for (; i + TN_LINES_LANES <= n; i += TN_LINES_LANES)                       \
      for (int l = 0; l < TN_LINES_LANES; ++l) {                               \
        const real_type v = x[i + l];                                          \
        lane[l] = ((v before lane[l]) | (v != v)) ? v : lane[l];               \
      }                                                                        \
    for (int l = 0; i < n; ++i, ++l)                                           \
      lane[l] = ((x[i] before lane[l]) | (x[i] != x[i])) ? x[i] : lane[l];     \
    for (int l = 0; l < TN_LINES_LANES; ++l)                                   \
      if ((double)lane[l] before total->real || lane[l] != lane[l])            \
        total->real = (double)lane[l];                                         \
  }

#define TN_LINES_ADD_WHOLE(name, whole_type)                                   \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const whole_type *x = (const whole_type *)block->in[0];                    \
    tn_lines_total *total = (tn_lines_total *)block->out;                      \
    uint64_t all = (uint64_t)total->whole;                                     \
    (void)params;                                                              \
    for (int64_t i = 0, n = block->n; i < n; ++i)                              \
      all += (uint64_t)(int64_t)x[i];                                          \
    total->whole = (int64_t)all;                                               \
  }

#define TN_LINES_CHOOSE_WHOLE(name, whole_type, before)                        \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const whole_type *x = (const whole_type *)block->in[0];                    \
    tn_lines_total *total = (tn_lines_total *)block->out;                      \
    whole_type best = (whole_type)total->whole;                                \
    (void)params;                                                              \
    for (int64_t i = 0, n = block->n; i < n; ++i)                              \
      best = x[i] before best ? x[i] : best;                                   \
    total->whole = (int64_t)best;                                              \
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
TN_LINES_ADD_REALS(tn_lines_add_f32, float)
TN_KERNEL_LEVELS(tn_lines_add_f32)
TN_LINES_ADD_REALS(tn_lines_add_f64, double)
TN_KERNEL_LEVELS(tn_lines_add_f64)
TN_LINES_ADD_WHOLE(tn_lines_add_i32, int32_t)
TN_KERNEL_LEVELS(tn_lines_add_i32)
TN_LINES_ADD_WHOLE(tn_lines_add_i64, int64_t)
TN_KERNEL_LEVELS(tn_lines_add_i64)
TN_LINES_CHOOSE_REALS(tn_lines_max_f32, float, >)
TN_KERNEL_LEVELS(tn_lines_max_f32)
TN_LINES_CHOOSE_REALS(tn_lines_max_f64, double, >)
TN_KERNEL_LEVELS(tn_lines_max_f64)
TN_LINES_CHOOSE_WHOLE(tn_lines_max_i32, int32_t, >)
TN_KERNEL_LEVELS(tn_lines_max_i32)
TN_LINES_CHOOSE_WHOLE(tn_lines_max_i64, int64_t, >)
TN_KERNEL_LEVELS(tn_lines_max_i64)
TN_LINES_CHOOSE_REALS(tn_lines_min_f32, float, <)
TN_KERNEL_LEVELS(tn_lines_min_f32)
TN_LINES_CHOOSE_REALS(tn_lines_min_f64, double, <)
TN_KERNEL_LEVELS(tn_lines_min_f64)
TN_LINES_CHOOSE_WHOLE(tn_lines_min_i32, int32_t, <)
TN_KERNEL_LEVELS(tn_lines_min_i32)
TN_LINES_CHOOSE_WHOLE(tn_lines_min_i64, int64_t, <)
TN_KERNEL_LEVELS(tn_lines_min_i64)
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
