/* SPDX-License-Identifier: Apache-2.0
 * wide.h: operands of a kernel in the type that it computes in. Those of f16
 * and bf16 are copied into a workspace as f32 and rounded back; those of f32
 * and f64 are taken as they lie. All are dense.
 */
#ifndef NN_WIDE_H_
#define NN_WIDE_H_

#include "tenon/op.h"

/* A call, the type to compute in, and what is left of the workspace. */
typedef struct nn_wide {
  const tn_frame *call;
  tn_dtype dtype;
  uint32_t level; /* of instructions */
  char *room;
} nn_wide;

/* Bytes for every operand that has elements and is of another type than the
 * call computes in; a multiple of 64. [any] */
uint64_t nn_wide_bytes(const tn_frame *call);

/* `room` has nn_wide_bytes(call); NULL if that is 0. [worker] */
nn_wide nn_wide_open(const tn_frame *call, void *room);

/* The elements of an input; NULL if it is absent. Each operand is opened once
 * in a call. [worker] */
void *nn_wide_in(nn_wide *x, uint32_t i);

/* Where an output is computed. [worker] */
void *nn_wide_out(nn_wide *x, uint32_t i);

/* Whether the result is added to what is there: one in the workspace is not,
 * as nn_wide_close does that. [worker] */
int nn_wide_adds(const nn_wide *x, uint32_t i);

/* Rounds what nn_wide_out gave, and adds it if that was asked for. [worker] */
void nn_wide_close(const nn_wide *x, uint32_t i, const void *from);

#endif /* NN_WIDE_H_ */
