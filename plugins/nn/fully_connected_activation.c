/* SPDX-License-Identifier: Apache-2.0
 * fully_connected_activation.c: kernels of fully_connected_activation.yaml:
 * those of fully_connected.c, followed by activation.c. A BLAS does not report
 * finished parts of a product, so the activation follows the whole product.
 */
#include "fully_connected_activation.gen.h"

#include <stddef.h>

#include "activated.h"
#include "fully_connected.gen.h"

/* The functions of fully_connected.c accept these calls, because the params
 * begin with the same fields. */
_Static_assert(offsetof(nn_fully_connected_activation_params, flatten) ==
                   offsetof(nn_fully_connected_params, flatten),
               "the params do not begin with those of fully_connected");

int32_t nn_fully_connected_activation_infer(const tn_frame *call) {
  return nn_fully_connected_infer(call);
}

/* Returns the activation function (act_type). */
static int32_t get_type(const tn_frame *call) {
  return nn_fully_connected_activation_params_of(call)->act_type;
}

/* Defines a kernel and its backward and bytes functions. `of` is the kernel of
 * fully_connected.c, `count_bytes` its function of bytes. */
#define KERNEL(name, of, count_bytes)                                        \
  NN_ACTIVATED(name, NN_FULLY_CONNECTED_ACTIVATION_BACKWARD_OUT_OUT,         \
               of##_backward, count_bytes)                                   \
  int32_t name(const tn_frame *call) {                                       \
    const int32_t code = of(call);                                           \
    return code == TN_OK ? nn_activation_apply(call, get_type(call)) : code; \
  }

KERNEL(nn_fully_connected_activation_blas, nn_fully_connected_blas, NULL)
KERNEL(nn_fully_connected_activation_plain, nn_fully_connected_plain, NULL)
KERNEL(nn_fully_connected_activation_half, nn_fully_connected_half,
       nn_fully_connected_half_bytes)
