/* SPDX-License-Identifier: Apache-2.0
 * operands.h: operands of a kernel in the type of the computation. Operands in
 * f16 and bf16 are copied into a workspace as f32 and rounded back; those in
 * f32 and f64 are used in place. All are dense.
 */
#ifndef NN_OPERANDS_H_
#define NN_OPERANDS_H_

#include "tenon/plugin/op.h"

/* A call, the type of the computation, and the rest of the workspace. */
typedef struct nn_operands {
  const tn_frame *call;
  tn_dtype dtype;
  uint32_t level; /* of instructions */
  char *room;
} nn_operands;

/* Bytes for every operand that has elements and another type than the
 * computation; a multiple of 64. [any] */
uint64_t nn_operands_count_bytes(const tn_frame *call);

/* `room` has nn_operands_count_bytes(call); NULL if that is 0. [worker] */
nn_operands nn_operands_open(const tn_frame *call, void *room);

/* The elements of an input; NULL if it is absent. Each operand is opened once
 * in a call. [worker] */
void *nn_operands_open_input(nn_operands *x, uint32_t i);

/* Address for the computation of an output. [worker] */
void *nn_operands_open_output(nn_operands *x, uint32_t i);

/* Whether the kernel must add to the old elements. Not for a result in the
 * workspace, which nn_operands_close_output adds. [worker] */
int nn_operands_is_added(const nn_operands *x, uint32_t i);

/* Rounds a result at the address of nn_operands_open_output, and adds it if
 * requested. [worker] */
void nn_operands_close_output(const nn_operands *x, uint32_t i,
                              const void *from);

#endif /* NN_OPERANDS_H_ */
