/* SPDX-License-Identifier: Apache-2.0
 * strided_walk.h: shared parts of loops over elements: the loop over two
 * tensors of equal shape, rows of any float type as doubles, and the axes of a
 * sum. For strided_*.c and elements.c only.
 */
#ifndef TENON_STRIDED_WALK_H_
#define TENON_STRIDED_WALK_H_

#include "ndarray.h"

/* One innermost row: `n` elements, `to` and `from` bytes apart. */
typedef struct tn__row {
  int64_t n;
  int64_t to;
  int64_t from;
  const void *ctx; /* of tn__walk_rows */
} tn__row;

typedef void tn__row_fn(char *to, const char *from, const tn__row *row);

/* Calls `fn` for every row, in no particular order. Dimensions that are
 * adjacent in memory in both tensors become one row. Empty tensors have no
 * rows. */
void tn__walk_rows(const tn_tensor *to, const tn_tensor *from, tn__row_fn *fn,
                   const void *ctx);
/* The same on all workers if the tensors are large; `engine` NULL: never. */
void tn__walk_rows_shared(tn__engine *engine, const tn_tensor *to,
                          const tn_tensor *from, tn__row_fn *fn,
                          const void *ctx);

/* Load at most TN__DOUBLES elements of f16, bf16, f32 or f64, `step` bytes
 * apart, as doubles, and store them: each is rounded once. */
enum { TN__DOUBLES = 512 };
void tn__doubles_load(tn_dtype dtype, double *to, const char *from,
                      int64_t step, int64_t n);
void tn__doubles_store(tn_dtype dtype, char *to, int64_t step,
                       const double *from, int64_t n);

/* Axes of a sum, in elements: from the largest steps of `from` to the smallest;
 * axes that can be walked as one are merged. None has length 1. */
typedef struct tn__axes {
  tn_sum_axis v[TN_MAX_NDIM];
  int32_t n;
} tn__axes;

/* Finds the axes of a sum of `from` into `to`: axes that stay, and axes that
 * are summed, because `to` does not have them or repeats them. No tensor is
 * empty. */
void tn__find_sum_axes(const tn_tensor *to, const tn_tensor *from,
                       tn__axes *kept, tn__axes *cut);

#endif /* TENON_STRIDED_WALK_H_ */
