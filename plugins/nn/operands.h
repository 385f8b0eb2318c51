/* SPDX-License-Identifier: Apache-2.0
 * operands.h: operands of a kernel in the type of the computation. Operands in
 * f16 and bf16 are copied into a workspace as f32 and rounded back; those in
 * f32 and f64 are used in place. All are dense.
 */
#ifndef NN_OPERANDS_H_
#define NN_OPERANDS_H_

#include "tenon/plugin/op.h"

/* The operands of a call: the type of the computation, and the unused part of
 * the workspace. */
typedef struct nn_operands {
  const tn_frame *call;
  tn_dtype dtype;
  uint32_t level; /* level of vector instructions */
  char *memory;
} nn_operands;

/* Returns element i of a dense array of f32 or f64. [any] */
static inline double nn_operands_get(tn_dtype dtype, const void *array,
                                     int64_t i) {
  return dtype == TN_F32 ? (double)((const float *)array)[i]
                         : ((const double *)array)[i];
}

/* Sets it to a number, or adds the number to it. [any] */
static inline void nn_operands_set(tn_dtype dtype, void *array, int64_t i,
                                   double value, int add) {
  if (add) value += nn_operands_get(dtype, array, i);
  if (dtype == TN_F32)
    ((float *)array)[i] = (float)value;
  else
    ((double *)array)[i] = value;
}

/* Bytes of workspace to convert every operand that has elements and another
 * type than the computation; a multiple of 64. [any] */
uint64_t nn_operands_count_bytes(const tn_frame *call);

/* Starts a call. `memory` has nn_operands_count_bytes(call) bytes; it is NULL
 * if that is 0. [worker] */
nn_operands nn_operands_open(const tn_frame *call, void *memory);

/* Returns the elements of input i in the type of the computation; NULL if it is
 * absent. Call it once for each input. [worker] */
void *nn_operands_open_input(nn_operands *x, uint32_t i);

/* Returns the address at which the kernel computes output i: its own elements,
 * or workspace. [worker] */
void *nn_operands_open_output(nn_operands *x, uint32_t i);

/* Whether the kernel must add to the old elements of output i. It never adds in
 * the workspace; nn_operands_close_output adds that result. [worker] */
int nn_operands_is_added(const nn_operands *x, uint32_t i);

/* Converts a result from the workspace to the type of output i, and adds it if
 * requested. [worker] */
void nn_operands_close_output(const nn_operands *x, uint32_t i,
                              const void *from);

#endif /* NN_OPERANDS_H_ */
