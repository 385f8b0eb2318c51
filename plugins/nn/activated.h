/* SPDX-License-Identifier: Apache-2.0
 * activated.h: the common part of operators that end with an activation. Their
 * frames are like those of the first operator: the same operands at the same
 * indices, and a params struct with the same first fields. So the kernels of
 * the first operator accept them, and activation.c does the rest, with the same
 * bits as a call of nn.activation.
 */
#ifndef NN_ACTIVATED_H_
#define NN_ACTIVATED_H_

#include "tenon/kernel/kernel.h"

/* ------------------------------------------------------------ activation.c */

/* Returns the loop of activation function `type`, a value of act_type, in the
 * type of call->out[0], which is f32 or f64. Its in[0] may equal its out. [any]
 */
tn_kernel_body *nn_activation_find_loop(const tn_frame *call, int32_t type);

/* Applies activation function `type` to all of call->out[0], which is dense.
 * TN_OK, or a code after TN_FAIL. [worker] */
int32_t nn_activation_apply(const tn_frame *call, int32_t type);

/* Computes the gradient of the activation's input into *to. call->in[0] is the
 * output gradient, `out` the activation's result; all are dense. TN_OK, or a
 * code after TN_FAIL. [worker] */
int32_t nn_activation_compute_gradient(const tn_frame *call, int32_t type,
                                       const tn_tensor *out,
                                       const tn_tensor *to);

/* ------------------------------------------------------------- activated.c */

/* An operator that ends with an activation: the activation function, and the
 * functions of the first operator. */
typedef struct nn_activated_operator {
  int32_t type;
  uint32_t out; /* index of the result in the call's inputs */
  int32_t (*backward)(const tn_frame *call);
  /* Computes the bytes of workspace of the first operator; NULL: 0 bytes. */
  int32_t (*bytes)(const tn_frame *call, uint64_t *bytes);
} nn_activated_operator;

/* Sets *bytes to the size of call->ws[0], in a forward or backward call. [any]
 */
int32_t nn_activated_count_bytes(const tn_frame *call,
                                 const nn_activated_operator *activated,
                                 uint64_t *bytes);
/* Computes the backward call of both operators. [worker] */
int32_t nn_activated_run_backward(const tn_frame *call,
                                  const nn_activated_operator *activated);

/* Defines the functions `name`_backward and `name`_bytes of a kernel. `of` is
 * the backward function of the first operator, `count_bytes` its function of
 * bytes, `out_at` the index of the result among the inputs. The file must
 * define `get_type`. */
#define NN_ACTIVATED(name, out_at, of, count_bytes)                          \
  static nn_activated_operator name##_inner(const tn_frame *call) {          \
    return (nn_activated_operator){get_type(call), out_at, of, count_bytes}; \
  }                                                                          \
  int32_t name##_backward(const tn_frame *call) {                            \
    const nn_activated_operator activated = name##_inner(call);              \
    return nn_activated_run_backward(call, &activated);                      \
  }                                                                          \
  int32_t name##_bytes(const tn_frame *call, uint64_t *bytes) {              \
    const nn_activated_operator activated = name##_inner(call);              \
    return nn_activated_count_bytes(call, &activated, bytes);                \
  }

#endif /* NN_ACTIVATED_H_ */
