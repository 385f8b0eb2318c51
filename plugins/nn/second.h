/* SPDX-License-Identifier: Apache-2.0
 * second.h: converts calls of second.yaml into backward calls, on every device.
 */
#ifndef NN_SECOND_H_
#define NN_SECOND_H_

#include <string.h>

#include "tenon/plugin/op.h"

/* Arguments of nn_infer_like_forward: the forward operator's inference, and the
 * indices of its inputs and outputs among the inputs of a gradient call. There
 * are up to three of each. */
typedef struct nn_forward_inference {
  int32_t (*infer)(const tn_frame *call);
  const uint32_t *in;
  const uint32_t *out;
  uint32_t n_in;
  uint32_t n_out;
} nn_forward_inference;

int32_t nn_infer_like_forward(const tn_frame *call,
                              const nn_forward_inference *of);

/* Returns a copy of a call with the backward flag. A gradient as an operator
 * has the operands of a backward call. */
static inline tn_frame nn_make_backward_call(const tn_frame *call) {
  tn_frame own = *call;
  own.flags |= TN_CALL_BACKWARD;
  return own;
}

/* A backward call of prelu that requests only the gradient of gamma. */
typedef struct nn_prelu_call {
  tn_frame frame;
  tn_tensor in[6]; /* inputs of the backward call: [gradients of out and kept,
                      data, gamma, out, kept] */
  tn_tensor out[2];
  uint32_t in_flags[6];
  tn_req req[2];
} nn_prelu_call;

/* Makes the backward call of prelu for a call of prelu_sums. */
static inline void nn_make_prelu_call(nn_prelu_call *p, const tn_frame *call) {
  const tn_tensor *out_gradient = &call->in[0], *kept = &call->in[1];
  const tn_tensor in[] = {*out_gradient, *out_gradient, *kept,
                          call->in[2],   *kept,         *kept};
  memcpy(p->in, in, sizeof in);
  memset(p->in_flags, 0, sizeof p->in_flags);
  p->out[0] = *out_gradient;
  p->out[0].data = NULL;
  p->out[1] = call->out[0];
  p->req[0] = TN_REQ_NULL;
  p->req[1] = call->req ? call->req[0] : TN_REQ_WRITE;
  p->frame = nn_make_backward_call(call);
  p->frame.n_in = 6;
  p->frame.n_out = 2;
  p->frame.in = p->in;
  p->frame.out = p->out;
  p->frame.in_flags = p->in_flags;
  p->frame.req = p->req;
}

#endif /* NN_SECOND_H_ */
