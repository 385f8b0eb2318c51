/* SPDX-License-Identifier: Apache-2.0
 * reduce.h: the common part of reductions: the axes that a call names
 * (reduce_axes.c), and the results of the elements along them (reduce.c on the
 * CPU, reduce.cu on CUDA devices).
 */
#ifndef TENSOR_REDUCE_H_
#define TENSOR_REDUCE_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- one run */

/* An operation on the elements of a line. */
typedef struct reduce_op reduce_op;

extern const reduce_op reduce_sum, reduce_mean, reduce_prod, reduce_max,
    reduce_min, reduce_nansum, reduce_nanprod, reduce_norm_1, reduce_norm_2;
/* The product of the elements that are not 0, or neither 0 nor NaN: it is NaN
 * if f64 may not hold a partial product. And the number of zeros. */
extern const reduce_op reduce_nonzero_prod, reduce_nonzero_nanprod,
    reduce_zero_count;

/* One reduction: `out` gets an element for each line of `in` along the axes
 * that are bits of `axes`, in row-major order of the others. `workspace` has
 * the size that reduce_count_bytes() returned, or is NULL if that is 0. */
typedef struct reduce_run {
  const tn_frame *call;
  const reduce_op *op;
  const tn_tensor *in;
  const tn_tensor *out;
  uint32_t axes;
  tn_req req;
  void *workspace;
} reduce_run;

/* Computes a reduction, or one of the two stages of reduction.h, as call->flags
 * requests; `workspace` then contains the records. [worker] */
int32_t reduce_compute(const reduce_run *run);

/* Bytes of `workspace`. If a program may feed the call by parts, this is the
 * size that reduction.h requires; otherwise it is 0, or a number that forbids
 * it. [any] */
uint64_t reduce_count_bytes(const tn_tensor *in, const tn_tensor *out,
                            uint32_t axes);

/* --------------------------------------------------------------- gradients */

/* A rule for one element of the gradient of data. It depends on the elements of
 * in[0], the gradient of out, in[1], data, and in[2], out, each with the shape
 * of data. */
typedef struct reduce_gradient reduce_gradient;

/* Rules for the gradient of data, from the gradient g of out: g where data is
 * not NaN; g where data equals out; g with the sign of data; g times data over
 * out; g times exp(data - out); g times a factor, the double `params`. */
extern const reduce_gradient reduce_gradient_where_number,
    reduce_gradient_where_equal, reduce_gradient_by_sign,
    reduce_gradient_by_share, reduce_gradient_by_power, reduce_gradient_scale;
/* Steps of logsumexp, with in[1] as 0 where it is not finite: exp(in[0] -
 * in[1]), and log(in[0]) + in[1], where in[0] is f64. */
extern const reduce_gradient reduce_gradient_power, reduce_gradient_logarithm;
/* The gradients of prod and nanprod: the gradient of out times the product of
 * the other elements, as a quotient. in[2] is the product
 * of the elements that are not 0, in[3] the number of zeros, both as f64 or
 * i64. If NaN counts as 1, it is no element. reduce_run_overflow_lines()
 * computes lines with NaN in in[2]. */
extern const reduce_gradient reduce_gradient_prod, reduce_gradient_nanprod;

/* Computes all of out[0], as call->req[0] requests. [worker] */
int32_t reduce_run_gradient(const tn_frame *call,
                            const reduce_gradient *gradient);

/* The lines of floats that reduce_gradient_prod cannot compute, because f64 may
 * not hold their products: they may overflow or underflow. */
typedef struct reduce_overflow_lines {
  const tn_frame *call;
  const tn_tensor *out_gradient; /* the gradient of out, in the shape of data */
  const tn_tensor *data;
  const double *rests; /* records of reduce_nonzero_prod */
  double *zeros;       /* records of reduce_zero_count */
  int64_t lines;
  uint32_t axes;
  int skips_nan; /* NaN is no element */
} reduce_overflow_lines;

/* Whether there may be lines that reduce_gradient_prod cannot compute. On the
 * CPU it sets their zeros to two, so that reduce_gradient_prod computes zeros.
 * [worker] */
int reduce_mark_overflow_lines(const reduce_overflow_lines *overflow);

/* Writes out[0] in those lines, or adds to it. [worker] */
int32_t reduce_run_overflow_lines(const reduce_overflow_lines *overflow);

/* ------------------------------------------------------------------- views */

/* An input with its kept axes first. */
typedef struct reduce_view {
  tn_tensor tensor;
  int32_t kept;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
} reduce_view;

/* Initialises `view`, which refers to itself and must not be copied. [any] */
void reduce_view_init(reduce_view *view, const tn_tensor *in, uint32_t axes);

/* Joins axes that are contiguous with the next one, and drops those of length
 * 1. Returns the remaining number, at least one. [any] */
int32_t reduce_join_axes(int32_t ndim, int64_t *shape, int64_t *strides);

/* ---------------------------------------------------------- axes of a call */

/* The first fields of the params of every operator of reduce.yaml. */
typedef struct reduce_params {
  tn_ints axis;
  int32_t has_axis;
  int32_t keepdims;
  int32_t exclude;
} reduce_params;

/* The axes of `ndim` that the params of a call name, as bits; or a code with
 * TN_FAIL. [any] */
int32_t reduce_read_axes(const tn_frame *call, int32_t ndim, uint32_t *axes);

/* Reads a parameter with one axis as a mask of axes; all axes if there is no
 * `axis`. [any] */
int32_t reduce_read_axis(const tn_frame *call, const int64_t *axis,
                         int32_t ndim, uint32_t *axes);

/* States the shape of output 0: that of input 0 without the axes, or with 1 in
 * their place. [any] */
int32_t reduce_infer_shape(const tn_frame *call, uint32_t axes, int keepdims);

/* TN_OK, or TN_INVALID with TN_FAIL if there are lines, but without elements:
 * `what` ("the largest") does not exist then. [any] */
int32_t reduce_check_not_empty(const tn_frame *call, uint32_t axes,
                               const char *what);

/* A reduced tensor with the shape from before the reduction: each element is
 * repeated along the axes. */
typedef struct reduce_repeated {
  tn_tensor tensor;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
} reduce_repeated;

/* `like` has the unreduced shape. [any] */
void reduce_repeat_along(reduce_repeated *to, const tn_tensor *from,
                         const tn_tensor *like, uint32_t axes);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_REDUCE_H_ */
