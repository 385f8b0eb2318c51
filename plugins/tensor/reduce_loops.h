/* SPDX-License-Identifier: Apache-2.0
 * reduce_loops.h: reductions on the CPU: how elements are put together
 * (reduce_ops.c), and in which order (reduce.c, reduce_columns.c).
 */
#ifndef TENSOR_REDUCE_LOOPS_H_
#define TENSOR_REDUCE_LOOPS_H_

#include "reduce.h"
#include "tenon/fold.h"
#include "tenon/kernel.h"

/* --------------------------------------------------------------- operations
 */

/* Loops over elements of one type. A record is an f64, or an i64 where the
 * elements are integers. */
typedef struct reduce_loops {
  tn_kernel_bodies line;   /* sets a record from the n elements of in[0] */
  tn_kernel_bodies column; /* brings rows of n elements, the first at in[0],
                              into the n records of `out`; params are
                              reduce_rows */
} reduce_loops;

/* Rows that a column loop takes. */
typedef struct reduce_rows {
  int64_t n;
  int64_t apart; /* elements between two */
} reduce_rows;

/* What becomes of the record of all elements. */
enum { REDUCE_AS_IT_IS, REDUCE_MEAN, REDUCE_ROOT };

/* An operation: what is done with elements, and then with records. */
struct reduce_op {
  reduce_loops f32;
  reduce_loops f64;
  reduce_loops i64;
  const struct reduce_op *records; /* NULL: as with elements */
  double none_f64;                 /* the record of no elements */
  int64_t none_i64;
  uint32_t finish; /* REDUCE_... */
};

enum { REDUCE_COLUMNS = 256 }; /* most columns of a column loop */

/* ------------------------------------------------- between the files of it */

/* A run with all that follows from it. */
typedef struct reduce_task {
  const reduce_run *run;
  reduce_view in;
  tn_fold fold;
  tn_kernel_mode mode;    /* of records */
  tn_kernel_body *direct; /* of elements as they are, or NULL */
  tn_kernel_body *line;   /* of elements that became f64 or i64 */
  tn_kernel_body *merge;  /* of records */
  tn_kernel_body *direct_column;
  tn_kernel_body *column;
  tn_kernel_body *merge_column;
  uint64_t none; /* record of no elements */
  double count;  /* elements of a line */
} reduce_task;

/* What a line loop makes of n elements. The inputs that it does not have are
 * not even zero: that would take as long as a short line. [worker] */
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

/* n records, of lines number `first` and following, are finished and go where
 * they belong. The records change. At most REDUCE_COLUMNS. [worker] */
void reduce_put(const reduce_task *t, int64_t first, int64_t n, void *records);

/* How a run adds rows to rows; decided by shapes and strides. */
typedef struct reduce_cut {
  int32_t n_kept; /* axes after joining, the columns last */
  int32_t n_rows; /* axes that rows are counted along */
  int64_t kept[TN_MAX_NDIM], kept_step[TN_MAX_NDIM];
  int64_t rows[TN_MAX_NDIM], row_step[TN_MAX_NDIM];
  int64_t wide;     /* columns */
  int64_t blocks;   /* of REDUCE_COLUMNS */
  int64_t outer;    /* times that there are those columns */
  int64_t height;   /* rows of each */
  int64_t parts;    /* that these are cut into, for threads */
  int64_t together; /* rows that are one row, where they are short and dense */
} reduce_cut;

/* Whether rows are better than lines, and then how. [any] */
int reduce_by_columns(const reduce_view *view, reduce_cut *cut);

/* Computes it that way. [worker] */
int32_t reduce_columns(const reduce_task *t, const reduce_cut *cut);

#endif /* TENSOR_REDUCE_LOOPS_H_ */
