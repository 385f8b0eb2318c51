/* SPDX-License-Identifier: Apache-2.0
 * operands.h: operands of a kernel in the type that it computes in. Those of
 * f16 and bf16 are copied into a workspace as f32 and rounded back; those of
 * f32 and f64 are taken as they lie. All are dense.
 */
#ifndef NN_OPERANDS_H_
#define NN_OPERANDS_H_

#include "tenon/op.h"

/* A call, the type to compute in, and what is left of the workspace. */
typedef struct nn_operands {
  const tn_frame *call;
  tn_dtype dtype;
  uint32_t level; /* of instructions */
  char *room;
} nn_operands;

/* Bytes for every operand that has elements and is of another type than the
 * call computes in; a multiple of 64. [any] */
uint64_t nn_operands_bytes(const tn_frame *call);

/* `room` has nn_operands_bytes(call); NULL if that is 0. [worker] */
nn_operands nn_operands_open(const tn_frame *call, void *room);

/* The elements of an input; NULL if it is absent. Each operand is opened once
 * in a call. [worker] */
void *nn_operands_in(nn_operands *x, uint32_t i);

/* Where an output is computed. [worker] */
void *nn_operands_out(nn_operands *x, uint32_t i);

/* Whether the result is added to what is there: one in the workspace is not,
 * as nn_operands_close does that. [worker] */
int nn_operands_adds(const nn_operands *x, uint32_t i);

/* Rounds what nn_operands_out gave, and adds it if that was asked for. [worker]
 */
void nn_operands_close(const nn_operands *x, uint32_t i, const void *from);

#endif /* NN_OPERANDS_H_ */
