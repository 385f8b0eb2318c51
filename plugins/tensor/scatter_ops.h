/* SPDX-License-Identifier: Apache-2.0
 * scatter_ops.h: the loops of scatter.h on the CPU that change elements.
 */
#ifndef TENSOR_SCATTER_OPS_H_
#define TENSOR_SCATTER_OPS_H_

#include "places_walk.h"
#include "scatter.h"

/* Changes the group's elements of `to` by those of `from`: its slice k begins
 * at element k * step. */
typedef void tensor_change_fn(void *to, const void *from,
                              const tensor_group *group);

/* The loop of an operation on elements of a type that is not f16 or bf16; SET
 * is possible for these too. [any] */
tensor_change_fn *tensor_find_change(tensor_scatter_op op, tn_dtype dtype);

#endif /* TENSOR_SCATTER_OPS_H_ */
