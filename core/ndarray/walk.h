/* SPDX-License-Identifier: Apache-2.0
 * walk.h: the loop over two tensors of equal shape that copies, casts and sums
 * share. For walk.c, copy.c, cast.c and add.c only.
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

#endif /* TENON_WALK_H_ */
