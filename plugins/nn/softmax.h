/* SPDX-License-Identifier: Apache-2.0
 * softmax.h: softmax of dense tensors, for all operators that contain one.
 */
#ifndef NN_SOFTMAX_H_
#define NN_SOFTMAX_H_

#include "axis.h"

/* The kind of softmax and its lines, in f32 or f64. */
typedef struct nn_softmax {
  const tn_frame *call;
  nn_axis_shape axis_shape;
  tn_kernel_mode mode;
  double factor; /* of elements before anything else */
  int is_log;    /* its logarithm instead */
} nn_softmax;

/* `to` may be `from`. [worker] */
int32_t nn_softmax_forward(const nn_softmax *s, const void *from, void *to);

/* The gradient, from the gradient of the result, and the result; `to` may be
 * either. [worker] */
int32_t nn_softmax_compute_gradient(const nn_softmax *s, const void *head,
                                    const void *out, void *to);

#endif /* NN_SOFTMAX_H_ */
