/* SPDX-License-Identifier: Apache-2.0
 * softmax_activation.c: kernels of softmax_activation.yaml, which are those of
 * softmax.h.
 */
#include "softmax_activation.gen.h"

#include "second.h"
#include "softmax.h"

/* Sets *bytes to the size of the workspace for converted operands: two forward;
 * backward the softmax, output gradient and result. */
int32_t nn_softmax_activation_bytes(const tn_frame *call, uint64_t *bytes) {
  const uint64_t n = (call->flags & TN_CALL_BACKWARD) ? 3 : 2;
  *bytes = n * nn_count_wide_bytes(&call->out[0]);
  return TN_OK;
}

/* Runs a forward or backward call. */
int32_t nn_softmax_activation(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  const int is_channel = nn_softmax_activation_params_of(call)->mode ==
                         NN_SOFTMAX_ACTIVATION_MODE_CHANNEL;
  nn_wide_operands wide = nn_open_wide_operands(call, out->dtype, 0);
  const nn_softmax s = {
      .call = call,
      .axis_shape = nn_axis_find_shape(out, 1, is_channel ? 1 : out->ndim - 1),
      .mode = wide.mode,
      .factor = 1};
  int32_t code;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  void *to = nn_locate_wide_output(&wide, out, call->req[0]);
  const void *in = nn_widen_input(&wide, &call->in[0]);
  if (call->flags & TN_CALL_BACKWARD) {
    const void *result = nn_widen_input(
        &wide, &call->in[NN_SOFTMAX_ACTIVATION_BACKWARD_OUT_OUT]);
    code = nn_softmax_compute_gradient(&s, in, result, to);
  } else {
    code = nn_softmax_forward(&s, in, to);
  }
  if (code == TN_OK) nn_store_wide_output(&wide, out, to);
  return code;
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_softmax_activation_grad_bytes(const tn_frame *call,
                                         uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_softmax_activation_bytes(&own, bytes);
}

int32_t nn_softmax_activation_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_softmax_activation(&own);
}
