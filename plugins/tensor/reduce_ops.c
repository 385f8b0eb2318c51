/* SPDX-License-Identifier: Apache-2.0
 * reduce_ops.c: the operations of reductions: loops over elements, and their
 * properties. A line has 32 partial results, or 64 for the largest or least
 * float, which are merged as a tree. So the compiler can vectorise the loop,
 * and the order is the same at every level of instructions.
 */
#include <math.h>

#include "reduce_loops.h"

/* Operation on an element, and on two partial results. */
#define ITSELF(x) (x)
#define NOT_NAN(x, otherwise) ((x) == (x) ? (x) : (otherwise))
#define OR_0(x) NOT_NAN(x, 0)
#define OR_1(x) NOT_NAN(x, 1)
#define SIZE(x) ((x) < 0 ? -(x) : (x))
#define SQUARE(x) ((x) * (x))
#define BUT_0(x) ((x) == 0 ? 1 : (x))
#define BUT_0_OR_NAN(x) ((x) == 0 || (x) != (x) ? 1 : (x))
#define IS_0(x) ((x) == 0)
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))

/* Prefetches one page ahead: the processor's own prefetch ends at a page. */
#if defined(__GNUC__)
#define AHEAD(at) __builtin_prefetch((const char *)(at) + 4096)
#else
#define AHEAD(at) (void)(at)
#endif

/* The line loop `name` over elements of `type`, with `lanes` partial results of
 * type `part`, into a record of type `wide`. */
#define LINE(name, type, part, wide, lanes, none, change, both)                \
  TN_KERNEL_BODY void name##_line(const tn_kernel_block *block,                \
                                  const void *params) {                        \
    const type *x = (const type *)block->in[0];                                \
    part lane[lanes];                                                          \
    int64_t i = 0;                                                             \
    (void)params;                                                              \
    for (int j = 0; j < (lanes); ++j) lane[j] = (none);                        \
    for (; i + (lanes) <= block->n; i += (lanes)) {                            \
      for (int j = 0; j < (lanes); j += 64 / (int)sizeof *x) AHEAD(x + i + j); \
      for (int j = 0; j < (lanes); ++j) {                                      \
        const part v = (part)x[i + j];                                         \
        const part w = (part)change(v);                                        \
        lane[j] = both(lane[j], w);                                            \
      }                                                                        \
    }                                                                          \
    for (int j = 0; i + j < block->n; ++j) {                                   \
      const part v = (part)x[i + j];                                           \
      const part w = (part)change(v);                                          \
      lane[j] = both(lane[j], w);                                              \
    }                                                                          \
    for (int w = (lanes) / 2; w > 0; w /= 2)                                   \
      for (int j = 0; j < w; ++j) lane[j] = both(lane[j], lane[j + w]);        \
    *(wide *)block->out = (wide)lane[0];                                       \
  }                                                                            \
  TN_KERNEL_LEVELS(name##_line)

/* The column loop: four rows at a time, because each step reads and writes the
 * records. Rows are combined as `part` before they are merged with records. */
#define COLUMN(name, type, part, wide, change, both, last)        \
  TN_KERNEL_BODY void name##_column(const tn_kernel_block *block, \
                                    const void *params) {         \
    const reduce_rows *rows = (const reduce_rows *)params;        \
    const type *x = (const type *)block->in[0];                   \
    wide *sum = (wide *)block->out;                               \
    const int64_t row_distance = rows->row_distance;              \
    int64_t r = 0;                                                \
    for (; r + 4 <= rows->n; r += 4, x += 4 * row_distance) {     \
      TN_KERNEL_INDEPENDENT                                       \
      for (int64_t j = 0; j < block->n; ++j) {                    \
        const part a = (part)x[j], b = (part)x[j + row_distance]; \
        const part c = (part)x[j + 2 * row_distance],             \
                   d = (part)x[j + 3 * row_distance];             \
        const part p = (part)change(a), q = (part)change(b);      \
        const part s = (part)change(c), t = (part)change(d);      \
        const part u = both(p, q), v = both(s, t);                \
        const part w = both(u, v);                                \
        const wide all = sum[j];                                  \
        sum[j] = last(all, (wide)w);                              \
      }                                                           \
    }                                                             \
    for (; r < rows->n; ++r, x += row_distance) {                 \
      TN_KERNEL_INDEPENDENT                                       \
      for (int64_t j = 0; j < block->n; ++j) {                    \
        const part a = (part)x[j], p = (part)change(a);           \
        const wide all = sum[j];                                  \
        sum[j] = last(all, (wide)p);                              \
      }                                                           \
    }                                                             \
  }                                                               \
  TN_KERNEL_LEVELS(name##_column)

/* Both loops for floats, with sums and products in f64; for the largest or
 * least float, which propagate NaN; and for integers, unsigned if they wrap. */
#define FLOATS(name, none, change, both)                           \
  LINE(name##_f32, float, double, double, 32, none, change, both)  \
  LINE(name##_f64, double, double, double, 32, none, change, both) \
  COLUMN(name##_f32, float, double, double, change, both, both)    \
  COLUMN(name##_f64, double, double, double, change, both, both)
#define ORDERED(name, none)                                                \
  LINE(name##_f32, float, float, double, 64, none, ITSELF,                 \
       tn_math_##name##_f32)                                               \
  LINE(name##_f64, double, double, double, 32, none, ITSELF,               \
       tn_math_##name##_f64)                                               \
  COLUMN(name##_f32, float, float, double, ITSELF, tn_math_##name##_f32,   \
         tn_math_##name##_f64)                                             \
  COLUMN(name##_f64, double, double, double, ITSELF, tn_math_##name##_f64, \
         tn_math_##name##_f64)
#define WHOLE(name, type, none, change, both)                \
  LINE(name##_i64, type, type, type, 32, none, change, both) \
  COLUMN(name##_i64, type, type, type, change, both, both)
#define SIGNLESS(name, none, both)                                       \
  LINE(name##_u64, uint64_t, uint64_t, uint64_t, 32, none, ITSELF, both) \
  COLUMN(name##_u64, uint64_t, uint64_t, uint64_t, ITSELF, both, both)

#include "reduce_rest.h"

FLOATS(sum, 0, ITSELF, PLUS)
FLOATS(prod, 1, ITSELF, TIMES)
ORDERED(max, -INFINITY)
ORDERED(min, INFINITY)
FLOATS(nansum, 0, OR_0, PLUS)
FLOATS(nanprod, 1, OR_1, TIMES)
FLOATS(size, 0, SIZE, PLUS)
FLOATS(square, 0, SQUARE, PLUS)
RESTS(rest, BUT_0)
RESTS(nanrest, BUT_0_OR_NAN)
LINE(checked_f64, double, double, double, 32, 1, ITSELF, TIMES_WITHIN)
COLUMN(checked_f64, double, double, double, ITSELF, TIMES_WITHIN, TIMES_WITHIN)
FLOATS(zeros, 0, IS_0, PLUS)
WHOLE(sum, uint64_t, 0, ITSELF, PLUS)
WHOLE(prod, uint64_t, 1, ITSELF, TIMES)
WHOLE(max, int64_t, INT64_MIN, ITSELF, tn_math_max_i64)
WHOLE(min, int64_t, INT64_MAX, ITSELF, tn_math_min_i64)
SIGNLESS(max, 0, tn_math_max_u64)
SIGNLESS(min, UINT64_MAX, tn_math_min_u64)
WHOLE(rest, uint64_t, 1, BUT_0, TIMES)
WHOLE(zeros, uint64_t, 0, IS_0, PLUS)

#if defined(TN_KERNEL_AVX2)
#include "reduce_wide.h"
#define WIDE(name, loop)                                                     \
  {                                                                          \
    { name##_f32_##loop##_base, half_##name##_##loop, wide_##name##_##loop } \
  }
#else
#define WIDE(name, loop) TN_KERNEL_BODIES(name##_f32_##loop)
#endif

#define PAIR(name) \
  { TN_KERNEL_BODIES(name##_line), TN_KERNEL_BODIES(name##_column) }
#define ALL(floats, whole) \
  .f32 = PAIR(floats##_f32), .f64 = PAIR(floats##_f64), .i64 = PAIR(whole##_i64)
#define ONES .none_f64 = 1, .none_i64 = 1

#define WIDELY(name)                                                      \
  .f32 = {WIDE(name, line), WIDE(name, column)}, .f64 = PAIR(name##_f64), \
  .i64 = PAIR(name##_i64)
const reduce_op reduce_sum = {WIDELY(sum)};
const reduce_op reduce_mean = {WIDELY(sum), .finish = REDUCE_MEAN};
const reduce_op reduce_prod = {ALL(prod, prod), ONES};
const reduce_op reduce_max = {WIDELY(max), .none_f64 = -INFINITY,
                              .none_i64 = INT64_MIN, .u64 = PAIR(max_u64)};
const reduce_op reduce_min = {WIDELY(min), .none_f64 = INFINITY,
                              .none_i64 = INT64_MAX, .u64 = PAIR(min_u64),
                              .none_u64 = UINT64_MAX};
const reduce_op reduce_nansum = {ALL(nansum, sum), .records = &reduce_sum};
const reduce_op reduce_nanprod = {ALL(nanprod, prod), .records = &reduce_prod,
                                  ONES};
const reduce_op reduce_norm_1 = {ALL(size, sum), .records = &reduce_sum};
const reduce_op reduce_norm_2 = {ALL(square, sum), .records = &reduce_sum,
                                 .finish = REDUCE_ROOT};
static const reduce_op checked = {
    .f64 = PAIR(checked_f64), .i64 = PAIR(prod_i64), ONES};
const reduce_op reduce_nonzero_prod = {ALL(rest, rest), .records = &checked,
                                       ONES};
const reduce_op reduce_nonzero_nanprod = {ALL(nanrest, rest),
                                          .records = &checked, ONES};
const reduce_op reduce_zero_count = {ALL(zeros, zeros), .records = &reduce_sum};
