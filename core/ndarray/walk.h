/* SPDX-License-Identifier: Apache-2.0
 * walk.h: what loops over elements share: the loop over two tensors of equal
 * shape, and rows of any float type as doubles. For walk.c, copy.c, cast.c,
 * add.c, sum.c and elements.c only.
 */
#ifndef TENON_WALK_H_
#define TENON_WALK_H_

#include "ndarray.h"

/* One innermost row: `n` elements, `to` and `from` bytes apart. */
typedef struct tn__row {
  int64_t n;
  int64_t to;
  int64_t from;
  const void *ctx; /* of tn__walk */
} tn__row;

typedef void tn__row_fn(char *to, const char *from, const tn__row *row);

/* Calls `fn` for every row, in no particular order. Dimensions that lie behind
 * one another in both tensors become one row; nothing is called for empty
 * tensors. */
void tn__walk(const tn_tensor *to, const tn_tensor *from, tn__row_fn *fn,
              const void *ctx);
/* The same on all workers if it is worth while; `engine` NULL: never. */
void tn__walk_shared(tn__engine *engine, const tn_tensor *to,
                     const tn_tensor *from, tn__row_fn *fn, const void *ctx);

/* At most TN__DOUBLES elements of f16, bf16, f32 or f64, `step` bytes apart, as
 * doubles, and back: each is rounded once. */
enum { TN__DOUBLES = 512 };
void tn__doubles_load(tn_dtype dtype, double *to, const char *from,
                      int64_t step, int64_t n);
void tn__doubles_store(tn_dtype dtype, char *to, int64_t step,
                       const double *from, int64_t n);

/* Axes of a sum, in elements: from the largest steps of `from` to the smallest;
 * those that can be walked as one are one. None is of length 1. */
typedef struct tn__axes {
  tn_sum_axis v[TN_MAX_NDIM];
  int32_t n;
} tn__axes;

/* What a sum of `from` into `to` walks: axes that stay, and those that are
 * summed over, because `to` does not have them or repeats them. No tensor is
 * empty. */
void tn__sum_axes(const tn_tensor *to, const tn_tensor *from, tn__axes *kept,
                  tn__axes *cut);

#endif /* TENON_WALK_H_ */
