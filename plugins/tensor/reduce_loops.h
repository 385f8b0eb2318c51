/* SPDX-License-Identifier: Apache-2.0
 * reduce_loops.h: reductions on the CPU: the operations on elements
 * (reduce_ops.c), and their order (reduce.c, reduce_columns.c).
 */
#ifndef TENSOR_REDUCE_LOOPS_H_
#define TENSOR_REDUCE_LOOPS_H_

#include "reduce.h"
#include "tenon/draft/reduction.h"
#include "tenon/kernel/kernel.h"

/* -------------------------------------------------------------- operations */

/* Loops over elements of one type. A record is an f64, or an i64 if the
 * elements are integers. */
typedef struct reduce_loops {
  tn_kernel_bodies line;   /* sets a record from the n elements of in[0] */
  tn_kernel_bodies column; /* reduces rows of n elements, the first at in[0],
                              into the n records of `out`; params are
                              reduce_rows */
} reduce_loops;

/* Rows of a column loop. */
typedef struct reduce_rows {
  int64_t n;
  int64_t row_distance; /* distance between two rows, in elements */
} reduce_rows;

/* Conversion of the record of all elements. */
enum { REDUCE_AS_IT_IS, REDUCE_MEAN, REDUCE_ROOT };

/* An operation: the loops over elements, and the loops over records. */
struct reduce_op {
  reduce_loops f32;
  reduce_loops f64;
  reduce_loops i64;
  reduce_loops u64;                /* empty: those of i64 have the same bits */
  const struct reduce_op *records; /* NULL: the same as over elements */
  double none_f64;                 /* the record of no elements */
  int64_t none_i64;
  uint64_t none_u64; /* if it has loops of u64 */
  uint32_t finish;   /* REDUCE_... */
};

enum { REDUCE_COLUMNS = 256 }; /* most columns of a column loop */

/* ----------------------------------------------------- shared by its files */

/* A run with all derived values. */
typedef struct reduce_task {
  const reduce_run *run;
  reduce_view in;
  tn_reduction reduction;
  tn_kernel_mode mode;    /* mode of the computation with records */
  tn_kernel_body *direct; /* over elements in their own type, or NULL */
  tn_kernel_body *line;   /* over elements converted to f64 or i64 */
  tn_kernel_body *merge;  /* over records */
  tn_kernel_body *direct_column;
  tn_kernel_body *column;
  tn_kernel_body *merge_column;
  uint64_t none; /* record of no elements */
  double count;  /* elements of a line */
} reduce_task;

/* The record of a line loop over n elements. Unused inputs are not even set to
 * zero: that would take as long as a short line. [worker] */
static inline uint64_t reduce_line(tn_kernel_body *body, const void *from,
                                   int64_t n) {
  uint64_t record = 0;
  tn_kernel_block block;
  block.n = n;
  block.out = &record;
  block.in[0] = from;
  body(&block, NULL);
  return record;
}

/* Finishes n records, of lines number `first` and following, and writes the
 * results. Changes the records. n is at most REDUCE_COLUMNS. [worker] */
void reduce_write_results(const reduce_task *t, int64_t first, int64_t n,
                          void *records);

/* The plan of a reduction by columns, which adds rows to rows. Shapes and
 * strides decide it. */
typedef struct reduce_column_plan {
  int32_t n_kept; /* axes after joining, the columns last */
  int32_t n_rows; /* axes that rows iterate over */
  int64_t kept[TN_MAX_NDIM], kept_step[TN_MAX_NDIM];
  int64_t rows[TN_MAX_NDIM], row_step[TN_MAX_NDIM];
  int64_t wide;     /* columns */
  int64_t blocks;   /* number of blocks of REDUCE_COLUMNS columns */
  int64_t outer;    /* repetitions of these columns */
  int64_t height;   /* number of rows that each column has */
  int64_t parts;    /* number of parts of these rows, for threads */
  int64_t together; /* rows joined to one, if they are short and dense */
} reduce_column_plan;

/* Whether rows are better than lines; fills in `cut` if so. [any] */
int reduce_plan_columns(const reduce_view *view, reduce_column_plan *cut);

/* Computes the reduction by columns. [worker] */
int32_t reduce_columns(const reduce_task *t, const reduce_column_plan *cut);

#endif /* TENSOR_REDUCE_LOOPS_H_ */
