/* SPDX-License-Identifier: Apache-2.0
 * activated.c: backward calls of operators that end with an activation. The
 * gradient of the intermediate result is computed in the workspace, and the
 * first operator gets it as the gradient of its output.
 */
#include "activated.h"

#include <string.h>

enum { MOST = 16 }; /* largest number of inputs of a backward call */

/* A backward call of the first operator, with its own operand tables. */
typedef struct inner_call {
  tn_frame frame;
  tn_tensor in[MOST];
  uint32_t flags[MOST];
  void *ws[1];
  uint64_t ws_bytes[1];
} inner_call;

/* Returns the bytes of workspace for the gradient of the activation's input. */
static uint64_t count_gradient_bytes(const tn_frame *call) {
  const tn_tensor *out_gradient = &call->in[0];
  const uint64_t bytes = (uint64_t)(tn_tensor_size(out_gradient) *
                                    tn_dtype_bytes(out_gradient->dtype));
  return (bytes + 63) / 64 * 64;
}

/* Copies a call for the first operator, without the result of the activation.
 * The caller sets the data of its output gradient. */
static void init_inner_call(inner_call *own, const tn_frame *call,
                            const nn_activated_operator *activated) {
  own->frame = *call;
  memcpy(own->in, call->in, call->n_in * sizeof *own->in);
  memcpy(own->flags, call->in_flags, call->n_in * sizeof *own->flags);
  own->flags[activated->out] = TN_IN_ABSENT;
  own->frame.in = own->in;
  own->frame.in_flags = own->flags;
}

int32_t nn_activated_count_bytes(const tn_frame *call,
                                 const nn_activated_operator *activated,
                                 uint64_t *bytes) {
  inner_call own;
  int32_t code = TN_OK;
  *bytes = 0;
  if ((call->flags & TN_CALL_BACKWARD) == 0)
    return activated->bytes ? activated->bytes(call, bytes) : TN_OK;
  init_inner_call(&own, call, activated);
  if (activated->bytes) code = activated->bytes(&own.frame, bytes);
  *bytes += count_gradient_bytes(call);
  return code;
}

int32_t nn_activated_run_backward(const tn_frame *call,
                                  const nn_activated_operator *activated) {
  const uint64_t bytes = count_gradient_bytes(call);
  inner_call own;
  init_inner_call(&own, call, activated);
  own.in[0].data = call->ws[0];
  own.in[0].byte_offset = 0;
  own.ws[0] = (char *)call->ws[0] + bytes;
  own.ws_bytes[0] = call->ws_bytes[0] - bytes;
  own.frame.ws = own.ws;
  own.frame.ws_bytes = own.ws_bytes;
  own.frame.n_ws = activated->bytes ? 1 : 0;
  const int32_t code = nn_activation_compute_gradient(
      call, activated->type, &call->in[activated->out], &own.in[0]);
  return code == TN_OK ? activated->backward(&own.frame) : code;
}
