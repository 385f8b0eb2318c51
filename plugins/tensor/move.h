/* SPDX-License-Identifier: Apache-2.0
 * move.h: the common part of operators that move elements and compute nothing:
 * views of operands (view.c), and copies from one view to another (move.c, on
 * CUDA devices move.cu). An operator describes a copy by two views of one
 * shape; this file chooses the algorithm. So the operator's file is independent
 * of the device: it is compiled into tensor.so and into tensor.cuda.so.
 */
#ifndef TENSOR_MOVE_H_
#define TENSOR_MOVE_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor with a shape and strides that may change. `tensor` points into the
 * view, so initialise it in place and never copy it. */
typedef struct tensor_view {
  tn_tensor tensor;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
} tensor_view;

/* Sets *view to all elements of a tensor. [any] */
void tensor_view_init(tensor_view *view, const tn_tensor *tensor);

/* The elements of a dense tensor under another shape with the same number of
 * elements. [any] */
void tensor_view_shaped(tensor_view *view, const tn_tensor *dense, int32_t ndim,
                        const int64_t *shape);

/* Selects `n` positions of an axis from `begin` on, `step` apart (of either
 * sign). All of them are valid positions. [any] */
void tensor_view_cut(tensor_view *view, int32_t axis, int64_t begin, int64_t n,
                     int64_t step);

/* Inserts an axis before `axis`: n positions with `stride` elements between
 * them. The rank must allow it. [any] */
void tensor_view_insert(tensor_view *view, int32_t axis, int64_t n,
                        int64_t stride);

/* The two sides of a copy. */
typedef struct tensor_piece {
  const tn_tensor *to, *from;
} tensor_piece;

/* Overwrites the elements of `to` with those of `from`, which has its dtype and
 * its shape, or repeats to it. They share no memory. Parallel. TN_OK, or a code
 * with TN_FAIL. [worker] */
int32_t tensor_copy(const tn_frame *call, const tn_tensor *to,
                    const tn_tensor *from);

/* Performs n copies (tensor_copy). Pieces with the same lines are copied line
 * by line, not piece by piece, so that memory of the whole is read or written
 * once. Parallel. [worker] */
int32_t tensor_copy_pieces(const tn_frame *call, uint32_t n,
                           const tensor_piece *pieces);

/* Overwrites the elements of `to` with the one at `element`. [worker] */
int32_t tensor_fill(const tn_frame *call, const tn_tensor *to,
                    const void *element);

/* An element of any type for a number, as convert.h converts it. [any] */
typedef struct tensor_element {
  uint64_t bits;
} tensor_element;
tensor_element tensor_element_of(double value, tn_dtype dtype);

/* Fills a tensor with zeros; zero has no bits set in any type. [worker] */
int32_t tensor_fill_zeros(const tn_frame *call, const tn_tensor *to);

/* Overwrites each element of `to` with the sum of the elements that `from`
 * repeats. `from` has the shape of `to` after n_axes additional axes, over
 * which it sums in f64 or i64, in their order. Integers wrap. Parallel.
 * [worker] */
int32_t tensor_sum_front(const tn_frame *call, const tn_tensor *to,
                         const tn_tensor *from, int32_t n_axes);

/* Overwrites the elements of `to` with those of `from`, which has its shape and
 * may have another dtype. It converts through f64, or i64 if `to` has integers.
 * Parallel. [worker] */
int32_t tensor_convert(const tn_frame *call, const tn_tensor *to,
                       const tn_tensor *from);

/* Adds the elements of `from` to those of `to`. Both are f64, or both i64,
 * which wraps, and have one shape. Parallel. [worker] */
int32_t tensor_add(const tn_frame *call, const tn_tensor *to,
                   const tn_tensor *from);

/* An arithmetic sequence. */
typedef struct tensor_range {
  double begin, step;
  int64_t repeat; /* copies of each number: at least one */
} tensor_range;

/* Sets element i of `to`, which is dense, to begin + (i / repeat) * step,
 * computed in f64. Parallel. [worker] */
int32_t tensor_count(const tn_frame *call, const tn_tensor *to,
                     const tensor_range *range);

/* The type of sums of a dtype: its own, but i64 for u64, whose sums have the
 * same bits. [any] */
static inline tn_dtype tensor_sum_dtype(tn_dtype dtype) {
  return dtype == TN_U64 ? TN_I64 : dtype;
}

/* The type of sums of many elements: i64 for integers and bool, otherwise f64.
 * [any] */
tn_dtype tensor_wide_dtype(tn_dtype dtype);

/* Number of elements of a shape; 0 if any length is 0, even beside unknown
 * ones. [any] */
enum { TENSOR_UNKNOWN = -1, TENSOR_TOO_MANY = -2 /* for 64 bits */ };
int64_t tensor_elements(int32_t ndim, const int64_t *shape);

/* Resolves axis `axis` of `ndim`, from the end if negative, into *out; TN_OK,
 * or TN_OUT_OF_RANGE with a text that names the parameter. [any] */
int32_t tensor_axis(const tn_frame *call, const char *param, int64_t axis,
                    int32_t ndim, int32_t *out);

/* "(2,?,5)": a shape for messages. [any] */
typedef struct tensor_text {
  char text[24 * TN_MAX_NDIM];
} tensor_text;
tensor_text tensor_shape_text(int32_t ndim, const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_MOVE_H_ */
