/* SPDX-License-Identifier: Apache-2.0
 * triangle.h: the elements of dense matrices on one side of a diagonal, for the
 * operators of triangle.yaml. triangle.c computes on the CPU, triangle.cu on
 * CUDA devices.
 */
#ifndef TENSOR_TRIANGLE_H_
#define TENSOR_TRIANGLE_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One side of a diagonal of matrices with `rows` rows and `columns` columns. */
typedef struct tensor_triangle {
  int64_t rows, columns;
  int64_t k;     /* element (i, i + k) is on the diagonal, and is kept */
  int64_t upper; /* 1: keeps the elements above it, 0: those below */
} tensor_triangle;

/* Copies the kept elements of `from` to `to`, or, if `from` is NULL, the
 * element at `one`; the others become 0. `from` may be `to`. Parallel. [worker]
 */
int32_t tensor_copy_triangle(const tn_frame *call, const tensor_triangle *side,
                             const tn_tensor *to, const tn_tensor *from,
                             const void *one);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_TRIANGLE_H_ */
