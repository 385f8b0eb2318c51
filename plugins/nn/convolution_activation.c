/* SPDX-License-Identifier: Apache-2.0
 * convolution_activation.c: kernels of convolution_activation.yaml. The
 * algorithms of conv.h apply the activation to their results while a cache
 * holds them. A result of another type than the computation is rounded before
 * the activation, as between two calls.
 */
#include "convolution_activation.gen.h"

#include <stddef.h>

#include "activated.h"
#include "conv.h"
#include "convolution.gen.h"

/* The kernels of convolution.c accept these calls, because the params begin
 * with the same fields. */
_Static_assert(offsetof(nn_convolution_activation_params, no_bias) ==
                   offsetof(nn_convolution_params, no_bias),
               "the params do not begin with those of convolution");

/* Returns the activation function (act_type). */
static int32_t get_type(const tn_frame *call) {
  return nn_convolution_activation_params_of(call)->act_type;
}

/* Runs a convolution and the activation. If `algorithm` is NULL, it chooses
 * one. */
static int32_t run_forward(const tn_frame *call,
                           const nn_conv_algorithm *algorithm) {
  const int32_t type = get_type(call);
  const tn_dtype dtype = call->out[0].dtype;
  if (tn_kernel_compute(dtype) == dtype)
    return nn_conv_run_forward(call, algorithm,
                               nn_activation_find_loop(call, type));
  const int32_t code = nn_conv_run_forward(call, algorithm, NULL);
  return code == TN_OK ? nn_activation_apply(call, type) : code;
}

#define CHOICE(name, of)               \
  int32_t name(const tn_frame *call) { \
    return of(call);                   \
  }
CHOICE(nn_convolution_activation_is_pointwise, nn_convolution_is_pointwise)
CHOICE(nn_convolution_activation_is_depthwise, nn_convolution_is_depthwise)
CHOICE(nn_convolution_activation_is_winograd, nn_convolution_is_winograd)
CHOICE(nn_convolution_activation_is_direct, nn_convolution_is_direct)

#define KERNEL(name, of, algorithm)                              \
  NN_ACTIVATED(name, NN_CONVOLUTION_ACTIVATION_BACKWARD_OUT_OUT, \
               of##_backward, of##_bytes)                        \
  int32_t name(const tn_frame *call) {                           \
    return run_forward(call, algorithm);                         \
  }

KERNEL(nn_convolution_activation_panels, nn_convolution_panels, &nn_conv_panels)
KERNEL(nn_convolution_activation_pointwise, nn_convolution_pointwise,
       &nn_conv_pointwise)
KERNEL(nn_convolution_activation_depthwise, nn_convolution_depthwise,
       &nn_conv_depthwise)
KERNEL(nn_convolution_activation_winograd, nn_convolution_winograd,
       &nn_conv_winograd)
KERNEL(nn_convolution_activation_direct, nn_convolution_direct, &nn_conv_direct)
KERNEL(nn_convolution_activation_half, nn_convolution_half, NULL)
