/* SPDX-License-Identifier: Apache-2.0
 * places.h: the places that indices name in an array, `whole`. There are two
 * forms of indices:
 *
 *   elements   an index for each element: it replaces the element's own place
 *              along one axis (gather_elements, scatter_elements)
 *   tuples     a few indices together name a place in as many dimensions: that
 *              of a slice of the remaining ones (gather_nd, scatter_nd)
 *
 * Both relate `whole` to a dense array of n slices of `inner` elements; an
 * element is a slice of one. This file is independent of the device.
 */
#ifndef TENSOR_PLACES_H_
#define TENSOR_PLACES_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The geometry of a call: it contains no address, so that kernels of devices
 * take it as an argument. */
typedef struct tensor_places {
  int64_t n;     /* slices */
  int64_t inner; /* elements of a slice */
  int64_t size;  /* elements of whole */
  int64_t is_tuples;
  /* Elements: the dimensions of the indices, and the axis. */
  int64_t ndim;
  int64_t axis;
  int64_t shape[TN_MAX_NDIM];
  /* Tuples: index k of tuple i is indices[i * next_tuple + k * next_index]. */
  int64_t depth; /* indices of a tuple */
  int64_t next_tuple;
  int64_t next_index;
  int64_t per_batch;  /* tuples of a batch */
  int64_t next_batch; /* elements of whole between batches */
  int64_t batch_dims;
  /* Dimensions of whole: all of them, or those that a tuple names. */
  int64_t length[TN_MAX_NDIM];
  int64_t step[TN_MAX_NDIM]; /* in elements */
} tensor_places;

/* How tuples are arranged in indices: along the first dimension (axis 0) or the
 * last one (-1); the first `batch_dims` dimensions number batches. */
typedef struct tensor_tuples {
  int64_t axis;
  int64_t batch_dims;
} tensor_tuples;

/* An operand of a call, as set_shape identifies it, and its name. */
typedef struct tensor_operand {
  uint32_t list;
  uint32_t index;
  const tn_tensor *tensor;
  const char *name;
} tensor_operand;

/* The operands of an inference, in this order. */
enum { TENSOR_WHOLE, TENSOR_INDICES, TENSOR_SLICES, TENSOR_N_ROLES };

/* Infer and check shapes: TN_OK, or a code with TN_FAIL. [any] */
int32_t tensor_infer_elements(const tn_frame *call, int64_t axis,
                              const tensor_operand *operands);
int32_t tensor_infer_tuples(const tn_frame *call, const tensor_tuples *form,
                            const tensor_operand *operands);

/* Initialise *p from shapes that the inference has accepted. [any] */
int32_t tensor_init_elements(const tn_frame *call, int64_t axis,
                             const tn_tensor *whole, const tn_tensor *indices,
                             tensor_places *p);
void tensor_init_tuples(const tensor_tuples *form, const tn_tensor *whole,
                        const tn_tensor *indices, tensor_places *p);

/* The same places of slices that have one element each: positions count slices
 * then. [any] */
tensor_places tensor_count_slices(const tensor_places *p);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_PLACES_H_ */
