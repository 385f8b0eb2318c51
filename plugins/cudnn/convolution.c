/* SPDX-License-Identifier: Apache-2.0
 * convolution.c: nn.convolution with cuDNN, and the forward pass of
 * nn.convolution_activation for relu after a bias. Each result has its plan:
 * one for a forward call, one each for data and weight in a backward call. The
 * gradient of a bias is a sum of the device. If there is nothing to multiply,
 * sums of the device write the result, zeros or the bias.
 */
#include "convolution.gen.h"

#include <stddef.h>

#include "conv_call.h"

static void set_windows(const cudnn_conv_call *c, cudnn_task *out) {
  const nn_convolution_params *p = nn_convolution_params_of(c->call);
  cudnn_conv_set_windows(out, p->kernel.n, p->stride.v, p->dilate.v, p->pad.v);
}

static cudnn_conv_call read_call(const tn_frame *call) {
  return (cudnn_conv_call){.call = call,
                           .has_bias = !nn_convolution_params_of(call)->no_bias,
                           .set_windows = set_windows};
}

int32_t cudnn_convolution_create(const tn_frame *call, cudnn_conv_plans **out) {
  const cudnn_conv_call c = read_call(call);
  return cudnn_conv_create(&c, NULL, out);
}

int32_t cudnn_convolution(const tn_frame *call) {
  const cudnn_conv_call c = read_call(call);
  return cudnn_conv_run_forward(&c);
}

int32_t cudnn_convolution_backward(const tn_frame *call) {
  const cudnn_conv_call c = read_call(call);
  return cudnn_conv_run_backward(&c);
}

int32_t cudnn_convolution_supports(const tn_frame *call) {
  const cudnn_instance *self = call->instance;
  const cudnn_conv_call c = read_call(call);
  if (self->scope->sum || !cudnn_conv_needs_sums(&c)) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "it takes the device's sums for the gradient of a bias, for a "
                 "bias that is added to what is there, and where there is "
                 "nothing to multiply; this cuda.so was built without nvcc");
}

/* --------------------------------------------------------- with activation */

/* The functions above treat its call as one of nn.convolution. */
_Static_assert(offsetof(nn_convolution_activation_params, no_bias) ==
                   offsetof(nn_convolution_params, no_bias),
               "the params do not begin with those of convolution");

/* Without a bias the heuristics of cuDNN 9.19 only offer engines that are
 * compiled at run time, and only for factors that may be rounded. */
int32_t cudnn_convolution_activation_supports(const tn_frame *call) {
  const cudnn_conv_call c = read_call(call);
  if (c.has_bias && !cudnn_conv_is_empty(&c)) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "it takes convolutions with a bias, of which there is "
                 "something to multiply");
}

int32_t cudnn_convolution_activation_create(const tn_frame *call,
                                            cudnn_conv_plans **out) {
  const cudnn_conv_call c = read_call(call);
  cudnn_task task;
  cudnn_conv_describe(&c, CUDNN_FORWARD, &task);
  task.flags |= CUDNN_BIAS | CUDNN_RELU;
  return cudnn_conv_create(&c, &task, out);
}

int32_t cudnn_convolution_activation(const tn_frame *call) {
  return cudnn_convolution(call);
}
