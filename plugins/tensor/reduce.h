/* SPDX-License-Identifier: Apache-2.0
 * reduce.h: what the operators share that make one element of many: which axes
 * a call names (reduce_axes.c), and what is made of the elements along them
 * (reduce.c on the CPU, reduce.cu on CUDA devices).
 */
#ifndef TENSOR_REDUCE_H_
#define TENSOR_REDUCE_H_

#include "tenon/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- one run */

/* What is done with the elements of a line. */
typedef struct reduce_op reduce_op;

extern const reduce_op reduce_sum, reduce_mean, reduce_prod, reduce_max,
    reduce_min, reduce_nansum, reduce_nanprod, reduce_norm_1, reduce_norm_2;
/* Of products: that of the elements that are not 0 (nor NaN), which is NaN if
 * f64 may not hold a part of it; and the number of zeros. */
extern const reduce_op reduce_rest, reduce_nanrest, reduce_zeros;

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

/* Computes it, or one of the two stages of fold.h, as call->flags say; `room`
 * are then the records. [worker] */
int32_t reduce_all(const reduce_run *run);

/* Bytes of `room`. If a program may feed the call by parts, that is what
 * fold.h wants to know, otherwise it is none or a number that says it may not.
 * [any] */
uint64_t reduce_bytes(const tn_tensor *in, const tn_tensor *out, uint32_t axes);

/* ------------------------------------------------------------------ slopes */

/* An element of the gradient of data. It is made of those of in[0], the
 * gradient of out, in[1], data, in[2], out, each of the shape of data. */
typedef struct reduce_slope reduce_slope;

/* The gradient where data is a number; where it equals out; with the sign of
 * data; times data over out; and times a factor, a double that is `params`. */
extern const reduce_slope reduce_where_number, reduce_where_equal,
    reduce_by_sign, reduce_by_share, reduce_scale;
/* Times the product of the other elements, as a quotient: in[2] is the product
 * of the elements that are not 0, in[3] the number of zeros, both as f64 or
 * i64. Where NaN counts as 1, it is no element. Lines whose in[2] is NaN are
 * those of reduce_far_run(). */
extern const reduce_slope reduce_others, reduce_other_numbers;

/* Makes out[0] of all of them, as call->req[0] says. [worker] */
int32_t reduce_slope_run(const tn_frame *call, const reduce_slope *slope);

/* The lines of floats of which reduce_others computes nothing. */
typedef struct reduce_far {
  const tn_frame *call;
  const tn_tensor *head; /* the gradient of out, in the shape of data */
  const tn_tensor *data;
  const double *rests; /* records of reduce_rest */
  double *zeros;       /* and of reduce_zeros */
  int64_t lines;
  uint32_t axes;
  int skips_nan; /* NaN is no element */
} reduce_far;

/* Whether there may be such lines. On the CPU they get two zeros, so that
 * reduce_others computes zeros. [worker] */
int reduce_far_mark(const reduce_far *far);

/* Writes out[0] in those lines, or adds to it. [worker] */
int32_t reduce_far_run(const reduce_far *far);

/* ------------------------------------------------------------------- views */

/* An input whose axes that stay come first. */
typedef struct reduce_view {
  tn_tensor tensor;
  int32_t kept;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
} reduce_view;

/* `view` refers to itself and is not to be copied. [any] */
void reduce_view_make(reduce_view *view, const tn_tensor *in, uint32_t axes);

/* Axes that lie one behind the other become one; those of length 1 go. Returns
 * how many are left, at least one. [any] */
int32_t reduce_join(int32_t ndim, int64_t *shape, int64_t *strides);

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

/* The same where one is named, or, if there is no `axis`, all. [any] */
int32_t reduce_axis(const tn_frame *call, const int64_t *axis, int32_t ndim,
                    uint32_t *axes);

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

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_REDUCE_H_ */
