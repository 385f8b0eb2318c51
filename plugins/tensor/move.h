/* SPDX-License-Identifier: Apache-2.0
 * move.h: what the operators share that move elements and compute nothing:
 * views of operands (view.c), and copies from one view to another (move.c, on
 * CUDA devices move.cu). An operator says which elements go where by two views
 * of one shape; how they get there is decided here, for all of them. So its
 * file knows of no device: it is compiled into tensor.so with the one, and into
 * tensor.cuda.so with the other.
 */
#ifndef TENSOR_MOVE_H_
#define TENSOR_MOVE_H_

#include "tenon/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor whose shape and strides may be changed. `tensor` points into the
 * view, so it is initialised in place and never copied. */
typedef struct tensor_view {
  tn_tensor tensor;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
} tensor_view;

/* All elements of a tensor. [any] */
void tensor_view_init(tensor_view *view, const tn_tensor *tensor);

/* The elements of a dense tensor under another shape of as many. [any] */
void tensor_view_shaped(tensor_view *view, const tn_tensor *dense, int32_t ndim,
                        const int64_t *shape);

/* Of an axis, `n` places from `begin` on, `step` apart (of either sign). All of
 * them lie within it. [any] */
void tensor_view_cut(tensor_view *view, int32_t axis, int64_t begin, int64_t n,
                     int64_t step);

/* Another axis in front of `axis`: n places with `stride` elements between
 * them. The rank must allow it. [any] */
void tensor_view_insert(tensor_view *view, int32_t axis, int64_t n,
                        int64_t stride);

/* What a copy is between. */
typedef struct tensor_piece {
  const tn_tensor *to, *from;
} tensor_piece;

/* Overwrites the elements of `to` with those of `from`, which has its dtype and
 * its shape, or repeats to it; they share no memory. Parallel. TN_OK, or a code
 * with TN_FAIL. [worker] */
int32_t tensor_copy(const tn_frame *call, const tn_tensor *to,
                    const tn_tensor *from);

/* tensor_copy of all n. Pieces of the same lines are copied line by line, not
 * piece by piece, so that what they are pieces of is passed through once.
 * Parallel. [worker] */
int32_t tensor_copy_pieces(const tn_frame *call, uint32_t n,
                           const tensor_piece *pieces);

/* Overwrites the elements of `to` with the one at `element`. [worker] */
int32_t tensor_fill(const tn_frame *call, const tn_tensor *to,
                    const void *element);

/* An element of any type that stands for a number, as convert.h has it; for u64
 * too. [any] */
typedef struct tensor_element {
  uint64_t bits;
} tensor_element;
tensor_element tensor_element_of(double value, tn_dtype dtype);

/* The same with zeros, of which every type has one of no bits. [worker] */
int32_t tensor_fill_zeros(const tn_frame *call, const tn_tensor *to);

/* Overwrites each element of `to` with the sum of those that are repeated in
 * `from`: its shape is that of `to` with n_axes more axes in front, over which
 * is summed in f64 or i64, in their order. Integers wrap. Parallel. [worker] */
int32_t tensor_sum_front(const tn_frame *call, const tn_tensor *to,
                         const tn_tensor *from, int32_t n_axes);

/* Overwrites the elements of `to` with those of `from`, which has its shape and
 * may have another dtype: the way is through f64, or i64 if `to` has integers.
 * Parallel. [worker] */
int32_t tensor_convert(const tn_frame *call, const tn_tensor *to,
                       const tn_tensor *from);

/* Adds the elements of `from` to those of `to`; both are f64, or both i64,
 * which wrap, of one shape. Parallel. [worker] */
int32_t tensor_add(const tn_frame *call, const tn_tensor *to,
                   const tn_tensor *from);

/* Numbers that are equally far apart. */
typedef struct tensor_range {
  double begin, step;
  int64_t repeat; /* how often each stands there: at least once */
} tensor_range;

/* Sets element i of `to`, which is dense, to begin + (i / repeat) * step,
 * computed in f64. Parallel. [worker] */
int32_t tensor_count(const tn_frame *call, const tn_tensor *to,
                     const tensor_range *range);

/* The type that elements are added up as: their own, but i64 for u64, in which
 * kernel.h does not compute, and whose sums have the same bits. [any] */
static inline tn_dtype tensor_sum_dtype(tn_dtype dtype) {
  return dtype == TN_U64 ? TN_I64 : dtype;
}

/* The type in which many elements of a dtype are added up: i64 for integers and
 * bool, otherwise f64. [any] */
tn_dtype tensor_wide_dtype(tn_dtype dtype);

/* Number of elements of a shape; of no others if a length is 0. [any] */
enum { TENSOR_UNKNOWN = -1, TENSOR_TOO_MANY = -2 /* for 64 bits */ };
int64_t tensor_elements(int32_t ndim, const int64_t *shape);

/* Axis `axis` of `ndim`, from the end where negative, into *out; TN_OK, or
 * TN_OUT_OF_RANGE with a text that names the parameter. [any] */
int32_t tensor_axis(const tn_frame *call, const char *param, int64_t axis,
                    int32_t ndim, int32_t *out);

/* "(2,?,5)": a shape as messages have it. [any] */
typedef struct tensor_text {
  char text[24 * TN_MAX_NDIM];
} tensor_text;
tensor_text tensor_shape_text(int32_t ndim, const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_MOVE_H_ */
