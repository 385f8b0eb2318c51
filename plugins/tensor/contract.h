/* SPDX-License-Identifier: Apache-2.0
 * contract.h: the sum over some dimensions of the products of two arrays:
 * contract.c on the CPU, contract.cu on CUDA devices.
 */
#ifndef TENSOR_CONTRACT_H_
#define TENSOR_CONTRACT_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of dimensions, in their order: those of both operands and of the
 * result, those of the first operand and the result, those of the second one
 * and the result, and those of both operands that are summed. */
enum {
  TENSOR_BATCH,
  TENSOR_LEFT,
  TENSOR_RIGHT,
  TENSOR_SUMMED,
  TENSOR_DIM_KINDS
};

enum { TENSOR_MOST_DIMS = 2 * TN_MAX_NDIM };

/* A contraction. The result is dense and has the dimensions that are not
 * summed, in their order. */
typedef struct tensor_contraction {
  int64_t n; /* dimensions */
  int64_t first[TENSOR_DIM_KINDS + 1];
  int64_t length[TENSOR_MOST_DIMS];
  int64_t step_a[TENSOR_MOST_DIMS]; /* in elements; 0 if it has no such one */
  int64_t step_b[TENSOR_MOST_DIMS];
} tensor_contraction;

/* The memory of the operands and of the result, with its type: f32, f64, i32 or
 * i64 (which wrap). Shapes are only those of the memory. */
typedef struct tensor_factors {
  const tn_tensor *a;
  const tn_tensor *b;
  const tn_tensor *out;
  void *room; /* workspace of tensor_contract_bytes() */
} tensor_factors;

/* Computes a contraction. [worker] */
int32_t tensor_contract(const tn_frame *call, const tensor_contraction *c,
                        const tensor_factors *f);
uint64_t tensor_contract_bytes(const tensor_contraction *c, tn_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_CONTRACT_H_ */
