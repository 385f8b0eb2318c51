/* SPDX-License-Identifier: Apache-2.0
 * reduce_rest.h: the loops of reduce_nonzero_prod and reduce_nonzero_nanprod:
 * products that are NaN if a partial product is beyond REDUCE_MOST. Part of
 * reduce_ops.c.
 *
 * A product of two f64 is exact up to its last bit unless it is beyond that
 * bound. So it is enough to check every product with an unchecked factor. Four
 * f32 together are within 2^596: while partial products are within SHORT_MOST,
 * eight are multiplied before a check.
 */
#ifndef TENSOR_REDUCE_REST_H_
#define TENSOR_REDUCE_REST_H_

#include "reduce_big.h"

#define SHORT_MOST 0x1p400
#define WITHIN(x, most) \
  (fabs(x) <= (most) && fabs(x) >= 1 / (most) ? (x) : (double)NAN)
#define TIMES_WITHIN(a, b) WITHIN((a) * (b), REDUCE_MOST)

enum { REST_LANES = 32 };

/* The least and the largest magnitude of the products of each lane so far. */
typedef struct rest_bounds {
  double least[REST_LANES];
  double most[REST_LANES];
} rest_bounds;

TN_KERNEL_BODY void rest_init_bounds(rest_bounds *b) {
  for (int j = 0; j < REST_LANES; ++j) b->least[j] = b->most[j] = 1;
}

TN_KERNEL_BODY double rest_note_size(rest_bounds *b, int j, double x) {
  const double size = fabs(x);
  b->least[j] = size < b->least[j] ? size : b->least[j];
  b->most[j] = size > b->most[j] ? size : b->most[j];
  return x;
}

/* The product of all lanes. The first `unseen` levels of products need no
 * check. */
TN_KERNEL_BODY double rest_multiply_lanes(double *lane, const int unseen) {
  for (int w = REST_LANES / 2, level = 0; w > 0; w /= 2, ++level)
    for (int j = 0; j < w; ++j) {
      const double all = lane[j] * lane[j + w];
      lane[j] = level < unseen ? all : WITHIN(all, REDUCE_MOST);
    }
  return lane[0];
}

/* The same; NaN if anything was beyond `most`. NaN itself is in the product. */
TN_KERNEL_BODY double rest_finish(const rest_bounds *b, double *lane,
                                  const double most, const int unseen) {
  int far = 0;
  for (int j = 0; j < REST_LANES; ++j)
    far |= (b->most[j] > most) | (b->least[j] < 1 / most);
  const double all = rest_multiply_lanes(lane, unseen);
  return far ? (double)NAN : all;
}

/* A line shorter than the number of lanes has one element in each. */
#define REST_SHORT(change, unseen)                             \
  for (int j = 0; j < L; ++j) lane[j] = 1;                     \
  if (block->n < L) {                                          \
    for (int64_t k = 0; k < block->n; ++k) {                   \
      const double p = (double)x[k];                           \
      lane[k] = change(p);                                     \
    }                                                          \
    *(double *)block->out = rest_multiply_lanes(lane, unseen); \
    return;                                                    \
  }
#define REST_LINES(name, change)                                           \
  TN_KERNEL_BODY void name##_f32_line(const tn_kernel_block *block,        \
                                      const void *params) {                \
    enum { L = REST_LANES };                                               \
    const float *x = (const float *)block->in[0];                          \
    double lane[L];                                                        \
    rest_bounds b;                                                         \
    int64_t i = 0;                                                         \
    (void)params;                                                          \
    REST_SHORT(change, 2)                                                  \
    rest_init_bounds(&b);                                                  \
    for (; i + 4 * L <= block->n; i += 4 * L) {                            \
      for (int j = 0; j < 4 * L; j += 16) AHEAD(x + i + j);                \
      for (int j = 0; j < L; ++j) {                                        \
        const double p = (double)x[i + j], q = (double)x[i + j + L];       \
        const double s = (double)x[i + j + 2 * L];                         \
        const double t = (double)x[i + j + 3 * L];                         \
        const double u = change(p) * change(q), v = change(s) * change(t); \
        lane[j] = rest_note_size(&b, j, lane[j] * (u * v));                \
      }                                                                    \
    }                                                                      \
    for (; i < block->n; i += L)                                           \
      for (int j = 0; j < L && i + j < block->n; ++j) {                    \
        const double p = (double)x[i + j];                                 \
        lane[j] = rest_note_size(&b, j, lane[j] * change(p));              \
      }                                                                    \
    *(double *)block->out = rest_finish(&b, lane, SHORT_MOST, 1);          \
  }                                                                        \
  TN_KERNEL_LEVELS(name##_f32_line)                                        \
  TN_KERNEL_BODY void name##_f64_line(const tn_kernel_block *block,        \
                                      const void *params) {                \
    enum { L = REST_LANES };                                               \
    const double *x = (const double *)block->in[0];                        \
    double lane[L];                                                        \
    rest_bounds b;                                                         \
    int64_t i = 0;                                                         \
    (void)params;                                                          \
    REST_SHORT(change, 0)                                                  \
    rest_init_bounds(&b);                                                  \
    for (; i + L <= block->n; i += L) {                                    \
      for (int j = 0; j < L; j += 8) AHEAD(x + i + j);                     \
      for (int j = 0; j < L; ++j)                                          \
        lane[j] = rest_note_size(&b, j, lane[j] * change(x[i + j]));       \
    }                                                                      \
    for (int j = 0; i + j < block->n; ++j)                                 \
      lane[j] = rest_note_size(&b, j, lane[j] * change(x[i + j]));         \
    *(double *)block->out = rest_finish(&b, lane, REDUCE_MOST, 0);         \
  }                                                                        \
  TN_KERNEL_LEVELS(name##_f64_line)

/* Four rows, or one. */
#define REST_FOUR(change, j, r)                         \
  (change((double)x[(j) + (r)*row_distance]) *          \
   change((double)x[(j) + ((r) + 1) * row_distance]) *  \
   (change((double)x[(j) + ((r) + 2) * row_distance]) * \
    change((double)x[(j) + ((r) + 3) * row_distance])))
#define REST_COLUMN(name, change)                                     \
  TN_KERNEL_BODY void name##_f32_column(const tn_kernel_block *block, \
                                        const void *params) {         \
    const reduce_rows *rows = (const reduce_rows *)params;            \
    const float *x = (const float *)block->in[0];                     \
    double *all = (double *)block->out;                               \
    const int64_t row_distance = rows->row_distance;                  \
    int64_t r = 0;                                                    \
    for (; r + 8 <= rows->n; r += 8, x += 8 * row_distance) {         \
      TN_KERNEL_INDEPENDENT                                           \
      for (int64_t j = 0; j < block->n; ++j) {                        \
        const double four = all[j] * REST_FOUR(change, j, 0);         \
        const double eight = four * REST_FOUR(change, j, 4);          \
        all[j] = WITHIN(eight, SHORT_MOST);                           \
      }                                                               \
    }                                                                 \
    for (; r < rows->n; ++r, x += row_distance) {                     \
      TN_KERNEL_INDEPENDENT                                           \
      for (int64_t j = 0; j < block->n; ++j) {                        \
        const double one = all[j] * change((double)x[j]);             \
        all[j] = WITHIN(one, SHORT_MOST);                             \
      }                                                               \
    }                                                                 \
  }                                                                   \
  TN_KERNEL_LEVELS(name##_f32_column)

#define RESTS(name, change) \
  REST_LINES(name, change)  \
  REST_COLUMN(name, change) \
  COLUMN(name##_f64, double, double, double, change, TIMES_WITHIN, TIMES_WITHIN)

#endif /* TENSOR_REDUCE_REST_H_ */
