/* SPDX-License-Identifier: Apache-2.0
 * activated.c: backward calls of operators that end with an activation. The
 * gradient of the intermediate result is computed in the workspace, and the
 * first operator gets it as the gradient of its output.
 */
#include "activated.h"

#include <string.h>

enum { MOST = 16 }; /* inputs of a backward call */

/* The call of the first operator. */
typedef struct inner {
  tn_frame frame;
  tn_tensor in[MOST];
  uint32_t flags[MOST];
  void *ws[1];
  uint64_t ws_bytes[1];
} inner;

static uint64_t slope_bytes(const tn_frame *call) {
  const tn_tensor *head = &call->in[0];
  const uint64_t bytes =
      (uint64_t)(tn_tensor_size(head) * tn_dtype_bytes(head->dtype));
  return (bytes + 63) / 64 * 64;
}

/* Its gradient of out has no data yet; the request of the result is null. */
static void inner_init(inner *own, const tn_frame *call,
                       const nn_activated *what) {
  own->frame = *call;
  memcpy(own->in, call->in, call->n_in * sizeof *own->in);
  memcpy(own->flags, call->in_flags, call->n_in * sizeof *own->flags);
  own->flags[what->out] = TN_IN_ABSENT;
  own->frame.in = own->in;
  own->frame.in_flags = own->flags;
}

int32_t nn_activated_bytes(const tn_frame *call, const nn_activated *what,
                           uint64_t *bytes) {
  inner own;
  int32_t code = TN_OK;
  *bytes = 0;
  if ((call->flags & TN_CALL_BACKWARD) == 0)
    return what->bytes ? what->bytes(call, bytes) : TN_OK;
  inner_init(&own, call, what);
  if (what->bytes) code = what->bytes(&own.frame, bytes);
  *bytes += slope_bytes(call);
  return code;
}

int32_t nn_activated_backward(const tn_frame *call, const nn_activated *what) {
  const uint64_t bytes = slope_bytes(call);
  inner own;
  inner_init(&own, call, what);
  own.in[0].data = call->ws[0];
  own.in[0].byte_offset = 0;
  own.ws[0] = (char *)call->ws[0] + bytes;
  own.ws_bytes[0] = call->ws_bytes[0] - bytes;
  own.frame.ws = own.ws;
  own.frame.ws_bytes = own.ws_bytes;
  own.frame.n_ws = what->bytes ? 1 : 0;
  const int32_t code =
      nn_activated_slope(call, what->type, &call->in[what->out], &own.in[0]);
  return code == TN_OK ? what->backward(&own.frame) : code;
}
