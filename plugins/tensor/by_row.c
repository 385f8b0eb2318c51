/* SPDX-License-Identifier: Apache-2.0
 * by_row.c: the operators of by_row.yaml: argmax and pick with fixed
 * parameters. They run the kernels of these operators, on any device.
 */
#include "by_row.gen.h"

#include "arg.gen.h"
#include "move.h"

int32_t tensor_argmax_channel(const tn_frame *call) {
  const tensor_argmax_params params = {.axis = 1, .has_axis = 1};
  tn_frame frame = *call;
  frame.params = &params;
  return tensor_argmax(&frame);
}

int32_t tensor_argmax_channel_bytes(const tn_frame *call, uint64_t *bytes) {
  const tensor_argmax_params params = {.axis = 1, .has_axis = 1};
  tn_frame frame = *call;
  frame.params = &params;
  return tensor_arg_bytes(&frame, bytes);
}

int32_t tensor_batch_take(const tn_frame *call) {
  const tensor_pick_params params = {.axis = 1};
  tn_frame frame = *call;
  frame.params = &params;
  return tensor_pick(&frame);
}

/* in = [gradient of out, a, indices, out]; out[1] is the gradient of the
 * indices, which pick does not have either. */
int32_t tensor_batch_take_backward(const tn_frame *call) {
  const tensor_pick_params params = {.axis = 1};
  tn_frame frame = *call;
  frame.params = &params;
  return tensor_pick_backward(&frame);
}
