/* SPDX-License-Identifier: Apache-2.0
 * affine_positions.h: affine functions of the positions of an image's elements,
 * and their gradients, on the CPU.
 */
#ifndef NN_AFFINE_POSITIONS_H_
#define NN_AFFINE_POSITIONS_H_

#include "affine_view.h"
#include "tenon/kernel/kernel.h"

/* The arrays of a call. Forward, `from` has the functions and `to` the
 * positions; backward, `from` has the output gradient and `to` that of the
 * functions. */
typedef struct nn_affine_arrays {
  tn_dtype from_dtype;
  tn_dtype to_dtype;
  const void *from;
  void *to;
  int is_back;
  int add; /* the result is added to the old elements */
} nn_affine_arrays;

/* Computes positions or the gradient of functions, in f64. TN_OK, or a code
 * after TN_FAIL. [worker] */
int32_t nn_affine_run(const tn_frame *call,
                      const nn_affine_positions *positions,
                      const nn_affine_arrays *arrays);

#endif /* NN_AFFINE_POSITIONS_H_ */
