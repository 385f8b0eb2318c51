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

/* The function `type` of act_type, as a loop in the type of call->out[0], which
 * is f32 or f64; its in[0] may equal its out. [any] */
tn_kernel_body *nn_activation_find_loop(const tn_frame *call, int32_t type);

/* Applies it to all of call->out[0], which is dense. TN_OK, or a code after
 * TN_FAIL. [worker] */
int32_t nn_activation_apply(const tn_frame *call, int32_t type);

/* The gradient of the activation's input, from the gradient of its result,
 * which is call->in[0], and its result; all of them are dense, *to as well.
 * TN_OK, or a code after TN_FAIL. [worker] */
int32_t nn_activation_compute_gradient(const tn_frame *call, int32_t type,
                                       const tn_tensor *out,
                                       const tn_tensor *to);

/* ------------------------------------------------------------- activated.c */

/* A function of an activation, and the functions of the first operator. */
typedef struct nn_activated_operator {
  int32_t type;
  uint32_t out; /* index of the result in the call's inputs */
  int32_t (*backward)(const tn_frame *call);
  int32_t (*bytes)(const tn_frame *call, uint64_t *bytes); /* NULL: 0 */
} nn_activated_operator;

/* Bytes of call->ws[0], of either pass. [any] */
int32_t nn_activated_count_bytes(const tn_frame *call,
                                 const nn_activated_operator *activated,
                                 uint64_t *bytes);
/* Computes the backward call. [worker] */
int32_t nn_activated_run_backward(const tn_frame *call,
                                  const nn_activated_operator *activated);

/* The gradient of a kernel, and its bytes: `of` is the gradient of the first
 * operator, `room` its function of bytes; `out_at` is the index of the result
 * in the inputs. The file must define a `type_of`. */
#define NN_ACTIVATED(name, out_at, of, room)                          \
  static nn_activated_operator name##_inner(const tn_frame *call) {   \
    return (nn_activated_operator){get_type(call), out_at, of, room}; \
  }                                                                   \
  int32_t name##_backward(const tn_frame *call) {                     \
    const nn_activated_operator activated = name##_inner(call);       \
    return nn_activated_run_backward(call, &activated);               \
  }                                                                   \
  int32_t name##_bytes(const tn_frame *call, uint64_t *bytes) {       \
    const nn_activated_operator activated = name##_inner(call);       \
    return nn_activated_count_bytes(call, &activated, bytes);         \
  }

#endif /* NN_ACTIVATED_H_ */
