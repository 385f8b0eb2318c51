/* SPDX-License-Identifier: Apache-2.0
 * scatter.h: operations between the places of an array and an array of slices:
 * scatter.c on the CPU, scatter.cu on CUDA devices. The files of operators
 * (gather.c, scatter_calls.c) are independent of the device.
 */
#ifndef TENSOR_SCATTER_H_
#define TENSOR_SCATTER_H_

#include "places.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a slice changes its place: it replaces the elements, or is added, and so
 * on. Of slices with one place the last one replaces the others; a sum or a
 * product has the order of the slices. */
typedef enum tensor_scatter_op {
  TENSOR_SCATTER_SET,
  TENSOR_SCATTER_ADD,
  TENSOR_SCATTER_MUL,
  TENSOR_SCATTER_MAX,
  TENSOR_SCATTER_MIN
} tensor_scatter_op;

typedef struct tensor_scatter {
  const tn_frame *call;
  tensor_places places;
  const tn_tensor *whole; /* dense, as all of them */
  const tn_tensor *indices;
  const tn_tensor *slices;
  const char *name; /* of whole, for messages */
  tensor_scatter_op op;
  void *room; /* workspace, as large as the operation's function says */
} tensor_scatter;

/* Fails if an index is out of range. A device that cannot know refuses only
 * indices without any valid value. Every operation below requires it.
 * [worker] */
int32_t tensor_scatter_check(const tensor_scatter *s);

/* Changes `whole`, whose elements are those of `old` before, or zeros if it is
 * NULL; `old` may be `whole` itself. [worker] */
int32_t tensor_scatter_run(const tensor_scatter *s, const tn_tensor *old);
uint64_t tensor_scatter_run_bytes(const tensor_scatter *s);

/* Whether whole has the memory of `old`. [any] */
static inline int tensor_is_in_place(const tensor_scatter *s,
                                     const tn_tensor *old) {
  return old->data == s->whole->data &&
         old->byte_offset == s->whole->byte_offset;
}

/* Sets the slices to the elements of whole at their places. [worker] */
int32_t tensor_gather_run(const tensor_scatter *s);

/* The same, but 0 for a slice that shares its place with a later one.
 * [worker] */
int32_t tensor_gather_last(const tensor_scatter *s);
uint64_t tensor_gather_last_bytes(const tensor_scatter *s);

/* Sets the places to 0. [worker] */
int32_t tensor_clear_places(const tensor_scatter *s);

/* The operands of the gradient of a product, a maximum or a minimum. */
typedef struct tensor_scatter_gradient {
  const tensor_scatter *s; /* with the values of the forward call: whole is the
                              result, slices are the updates */
  const tn_tensor *data;   /* whole before */
  const tn_tensor *gradient;      /* of the result */
  const tn_tensor *data_gradient; /* results; NULL if not requested */
  const tn_tensor *slice_gradient;
} tensor_scatter_gradient;

/* The gradient of an operand is the product of the other factors, or goes to
 * the first of equal operands, where data is before all updates. [worker] */
int32_t tensor_scatter_backward(const tensor_scatter_gradient *g);
uint64_t tensor_scatter_backward_bytes(const tensor_scatter *s);

/* The operands of the gradient of that gradient. A weight is the gradient of
 * the gradient of an operand. */
typedef struct tensor_scatter_second {
  const tensor_scatter *s; /* as above */
  const tn_tensor *data;
  const tn_tensor *head; /* the gradient of the result */
  const tn_tensor *data_weight;
  const tn_tensor *slice_weight;
  const tn_tensor *head_gradient; /* results; NULL if not requested */
  const tn_tensor *data_gradient;
  const tn_tensor *slice_gradient;
} tensor_scatter_second;

/* By the head it is the sum of the weights times the gradients for a head of 1;
 * by a factor the sum, over the other factors, of their weights times the
 * product of all factors but these two. [worker] */
int32_t tensor_scatter_second_backward(const tensor_scatter_second *g);
uint64_t tensor_scatter_second_bytes(const tensor_scatter *s);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_SCATTER_H_ */
