/* SPDX-License-Identifier: Apache-2.0
 * softmax.h: softmax of dense tensors, for all operators that contain one.
 */
#ifndef NN_SOFTMAX_H_
#define NN_SOFTMAX_H_

#include "axis.h"

/* The lines of a softmax, and its kind, in f32 or f64. */
typedef struct nn_softmax {
  const tn_frame *call;
  nn_axis_shape axis_shape;
  tn_kernel_mode mode;
  double factor; /* factor of elements before the softmax: 1 / temperature */
  int is_log;    /* the result is the logarithm of the softmax */
} nn_softmax;

/* Computes the softmax of all lines. `to` may be `from`. TN_OK, or a code of
 * parallel_for. [worker] */
int32_t nn_softmax_forward(const nn_softmax *s, const void *from, void *to);

/* Computes the gradient `to` of the input from the output gradient
 * `out_gradient` and the softmax `out`. `to` may be either. [worker] */
int32_t nn_softmax_compute_gradient(const nn_softmax *s,
                                    const void *out_gradient, const void *out,
                                    void *to);

#endif /* NN_SOFTMAX_H_ */
