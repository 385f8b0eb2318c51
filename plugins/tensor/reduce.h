/* SPDX-License-Identifier: Apache-2.0
 * reduce.h: what the operators share that make one element of many: how the
 * elements are put together (reduce_ops.c), in which order (reduce.c,
 * reduce_columns.c), and which axes a call names (reduce_axes.c).
 */
#ifndef TENSOR_REDUCE_H_
#define TENSOR_REDUCE_H_

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
typedef struct reduce_op {
  reduce_loops f32;
  reduce_loops f64;
  reduce_loops i64;
  const struct reduce_op *records; /* NULL: as with elements */
  double none_f64;                 /* the record of no elements */
  int64_t none_i64;
  uint32_t finish; /* REDUCE_... */
} reduce_op;

extern const reduce_op reduce_sum, reduce_mean, reduce_prod, reduce_max,
    reduce_min, reduce_nansum, reduce_nanprod, reduce_norm_1, reduce_norm_2;
/* Of products: that of what is not 0 (nor NaN), and how many zeros there are */
extern const reduce_op reduce_rest, reduce_nanrest, reduce_zeros;

enum { REDUCE_COLUMNS = 256 }; /* most columns of a column loop */

/* ----------------------------------------------------------------- one run */

/* An input whose axes that stay come first. */
typedef struct reduce_view {
  tn_tensor tensor;
  int32_t kept;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
} reduce_view;

/* One reduction: `out` gets an element for each line of `in` along the axes
 * that are bits of `axes`, in row-major order of the others. `room` is what
 * reduce_bytes() asked for, or NULL where it is done without. */
typedef struct reduce_run {
  const tn_frame *call;
  const reduce_op *op;
  const tn_tensor *in;
  const tn_tensor *out;
  uint32_t axes;
  tn_req req;
  void *room;
} reduce_run;

/* Computes it. [worker] */
int32_t reduce_all(const reduce_run *run);

/* Computes one of the two stages of fold.h, as call->flags say; `room` are the
 * records. [worker] */
int32_t reduce_stage(const reduce_run *run);

/* Bytes of `room`. If a program may feed the call by parts, that is what
 * fold.h wants to know, otherwise it is none or a number that says it may not.
 * [any] */
uint64_t reduce_bytes(const tn_tensor *in, const tn_tensor *out, uint32_t axes);

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

/* What a line loop makes of n elements. [worker] */
static inline uint64_t reduce_line(tn_kernel_body *body, const void *from,
                                   int64_t n) {
  uint64_t record = 0;
  const tn_kernel_block block = {n, &record, {from}};
  body(&block, NULL);
  return record;
}

/* Axes that lie one behind the other become one; those of length 1 go. Returns
 * how many are left, at least one. [any] */
int32_t reduce_join(int32_t ndim, int64_t *shape, int64_t *strides);

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

void reduce_view_make(reduce_view *view, const tn_tensor *in, uint32_t axes);

/* Whether rows are better than lines, and then how. [any] */
int reduce_by_columns(const reduce_view *view, reduce_cut *cut);

/* Computes it that way. [worker] */
int32_t reduce_columns(const reduce_task *t, const reduce_cut *cut);

/* ---------------------------------------------------------- axes of a call */

/* How the params of every operator of reduce.yaml begin. */
typedef struct reduce_params {
  tn_ints axis;
  int32_t has_axis;
  int32_t keepdims;
  int32_t exclude;
} reduce_params;

/* Which axes of `ndim` the params of a call name, as bits; or a code with
 * TN_FAIL. [any] */
int32_t reduce_axes(const tn_frame *call, int32_t ndim, uint32_t *axes);

/* States the shape of output 0: that of input 0 without the axes, or with 1 in
 * their place. [any] */
int32_t reduce_infer(const tn_frame *call, uint32_t axes, int keepdims);

/* TN_OK, or TN_INVALID with TN_FAIL if a line has no elements, but there are
 * lines: `what` ("the largest") cannot be told then. [any] */
int32_t reduce_not_empty(const tn_frame *call, uint32_t axes, const char *what);

/* A tensor of which lines were reduced, again as long as the lines: each
 * element is repeated along the axes. */
typedef struct reduce_repeated {
  tn_tensor tensor;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
} reduce_repeated;

/* `like` has the shape before. [any] */
void reduce_repeat(reduce_repeated *to, const tn_tensor *from,
                   const tn_tensor *like, uint32_t axes);

#endif /* TENSOR_REDUCE_H_ */
