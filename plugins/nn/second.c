/* SPDX-License-Identifier: Apache-2.0
 * second.c: shapes and kernels of second.yaml on the CPU. The operands of a
 * gradient that is an operator are those of a backward call, and the kernel is
 * the same.
 */
#include "second.gen.h"

#include <string.h>

#include "layer_norm.gen.h"
#include "pooling.gen.h"
#include "softmax.gen.h"
#include "softmax_cross_entropy.gen.h"

/* ------------------------------------------------------------------ shapes */

/* A forward call whose operands are inputs of the call that is asked. */
typedef struct forward_call {
  tn_frame frame; /* first: the host gets this one back */
  tn_host host;
  const tn_frame *call;
  const uint32_t *in; /* their numbers there */
  const uint32_t *out;
  tn_tensor operands[6];
} forward_call;

static int32_t set_input(const tn_frame *frame, uint32_t list, uint32_t index,
                         int32_t ndim, const int64_t *shape) {
  const forward_call *f = (const forward_call *)(const void *)frame;
  const uint32_t at = (list == TN_OPERAND_IN ? f->in : f->out)[index];
  return f->call->host->set_shape(f->call, TN_OPERAND_IN, at, ndim, shape);
}

typedef int32_t infer_function(const tn_frame *call);

/* Infers as the operator does whose gradient the call is; it has up to three
 * inputs and outputs. */
static int32_t infer_forward(const tn_frame *call, infer_function *infer,
                             const uint32_t *in, const uint32_t *out,
                             uint32_t n) {
  forward_call f = {.frame = *call, .host = *call->host, .call = call};
  for (uint32_t i = 0; i < n; ++i) {
    f.operands[i] = call->in[in[i]];
    f.operands[3 + i] = call->in[out[i]];
  }
  f.in = in;
  f.out = out;
  f.host.set_shape = set_input;
  f.frame.host = &f.host;
  f.frame.in = f.operands;
  f.frame.out = f.operands + 3;
  f.frame.n_in = f.frame.n_out = n;
  return infer(&f.frame);
}

int32_t nn_layer_norm_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {3, 4, 5}, out[] = {0, 1, 2};
  return infer_forward(call, nn_layer_norm_infer, in, out, 3);
}

int32_t nn_pooling_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {1}, out[] = {0};
  return infer_forward(call, nn_pooling_infer, in, out, 1);
}

/* ----------------------------------------------------------------- kernels */

static tn_frame as_backward(const tn_frame *call) {
  tn_frame own = *call;
  own.flags |= TN_CALL_BACKWARD;
  return own;
}

#define BYTES(name, by)                                              \
  int32_t nn_##name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    const tn_frame own = as_backward(call);                          \
    return by(&own, bytes);                                          \
  }
#define GRADIENT(name, by)                  \
  int32_t nn_##name(const tn_frame *call) { \
    const tn_frame own = as_backward(call); \
    return by(&own);                        \
  }

BYTES(softmax_grad, nn_softmax_bytes)
GRADIENT(softmax_grad, nn_softmax_compute)
GRADIENT(log_softmax_grad, nn_log_softmax_compute)
BYTES(layer_norm_grad, nn_layer_norm_bytes)
GRADIENT(layer_norm_grad, nn_layer_norm_backward)
BYTES(pooling_grad, nn_pooling_cpu_bytes)
GRADIENT(pooling_grad, nn_pooling_cpu_backward)
BYTES(softmax_cross_entropy_grad, nn_softmax_cross_entropy_bytes)

/* Labels have no gradient: what is asked for is zeros. */
static void clear(const tn_frame *call, uint32_t out) {
  const tn_tensor *to = &call->out[out];
  if (call->req[out] == TN_REQ_WRITE)
    memset(to->data, 0,
           (size_t)(tn_tensor_size(to) * tn_dtype_bytes(to->dtype)));
}

int32_t nn_softmax_cross_entropy_grad(const tn_frame *call) {
  const tn_frame own = as_backward(call);
  clear(call, 1);
  return call->req[0] == TN_REQ_NULL ? TN_OK
                                     : nn_softmax_cross_entropy_backward(&own);
}
