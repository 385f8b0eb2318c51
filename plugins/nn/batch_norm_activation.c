/* SPDX-License-Identifier: Apache-2.0
 * batch_norm_activation.c: kernel of batch_norm_activation.yaml. It uses
 * batch_norm.c, which applies the activation to each piece of a channel while a
 * cache holds it. Results in f16 or bf16 are rounded before the activation, as
 * between two calls.
 */
#include "batch_norm_activation.gen.h"

#include <stddef.h>

#include "activated.h"
#include "batch_norm.gen.h"
#include "batch_norm.h"

/* The functions of batch_norm.c accept these calls, because the params begin
 * with the same fields. */
_Static_assert(offsetof(nn_batch_norm_activation_params, axis) ==
                   offsetof(nn_batch_norm_params, axis),
               "the params do not begin with those of batch_norm");

int32_t nn_batch_norm_activation_infer(const tn_frame *call) {
  return nn_batch_norm_infer(call);
}

/* Describes batch_norm for activated.h. */
static nn_activated_operator make_activated(const tn_frame *call) {
  return (nn_activated_operator){
      nn_batch_norm_activation_params_of(call)->act_type,
      NN_BATCH_NORM_ACTIVATION_BACKWARD_OUT_OUT, nn_batch_norm_backward,
      nn_batch_norm_bytes};
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_batch_norm_activation_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_activated_operator activated = make_activated(call);
  return nn_activated_count_bytes(call, &activated, bytes);
}

int32_t nn_batch_norm_activation(const tn_frame *call) {
  const int32_t type = make_activated(call).type;
  const tn_dtype dtype = call->out[0].dtype;
  if (tn_kernel_compute(dtype) == dtype)
    return nn_batch_norm_forward(call, nn_activation_find_loop(call, type));
  const int32_t code = nn_batch_norm_forward(call, NULL);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  return nn_activation_apply(call, type);
}

int32_t nn_batch_norm_activation_backward(const tn_frame *call) {
  const nn_activated_operator activated = make_activated(call);
  return nn_activated_run_backward(call, &activated);
}
