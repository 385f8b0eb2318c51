/* SPDX-License-Identifier: Apache-2.0
 * resize.h: tables of weighted sums along an axis on the CPU, and the loops
 * that compute these sums.
 */
#ifndef NN_RESIZE_H_
#define NN_RESIZE_H_

#include "resize_view.h"
#include "tenon/kernel/kernel.h"

/* Element o of the result is the sum of the terms begin[o] to begin[o + 1] - 1;
 * term t is element index[t] times weight[t]. An element without terms is
 * `outside`. */
typedef struct nn_resize_table {
  int64_t n_from;
  int64_t n_to;
  int64_t *begin; /* n_to + 1 */
  int64_t *index;
  void *weight; /* f32 or f64 */
  double outside;
} nn_resize_table;

/* One pass over a dense array (outer, table->n_from, inner), whose result is
 * (outer, table->n_to, inner). */
typedef struct nn_resize_pass {
  const nn_resize_table *table;
  int64_t outer;
  int64_t inner;
  tn_kernel_mode mode; /* f32 or f64 */
  void *lines;         /* nn_resize_count_line_bytes; used if inner is 1 */
} nn_resize_pass;

/* Largest number of rows that are processed together if inner is 1. */
enum { NN_RESIZE_ROWS = 16 };

/* Bytes of memory for the table of an axis; a multiple of 64. [any] */
uint64_t nn_resize_count_table_bytes(const nn_resize_axis *axis);

/* Fills a table in memory of that size, for a forward pass along an axis or,
 * if is_back, for its gradient. [worker] */
void nn_resize_fill_table(nn_resize_table *table, const nn_resize_axis *axis,
                          tn_dtype dtype, int is_back, void *memory);

/* Bytes of memory for rows of at most n elements; a multiple of 64. [any] */
uint64_t nn_resize_count_line_bytes(int64_t n);

/* Runs a pass. [worker] */
void nn_resize_run_pass(const nn_resize_pass *pass, const void *from, void *to);

#endif /* NN_RESIZE_H_ */
