/* SPDX-License-Identifier: Apache-2.0
 * second.cu: kernels of second.yaml on CUDA devices. A gradient as an operator
 * has the operands of a backward call, and uses its kernel.
 */
#include "second.h"

#include "batch_norm.gen.h"
#include "batch_norm_activation.gen.h"
#include "layer_norm.gen.h"
#include "leaky_relu.gen.h"
#include "nn.cuh"
#include "pooling.gen.h"
#include "second.gen.h"
#include "softmax.gen.h"
#include "softmax_cross_entropy.gen.h"
#include "softmax_output.gen.h"

#define BYTES(name, by)                                                   \
  int32_t nn_##name##_cuda_bytes(const tn_frame *call, uint64_t *bytes) { \
    const tn_frame own = nn_make_backward_call(call);                     \
    return by(&own, bytes);                                               \
  }
#define GRADIENT(name, by)                            \
  int32_t nn_##name##_cuda(const tn_frame *call) {    \
    const tn_frame own = nn_make_backward_call(call); \
    return by(&own);                                  \
  }

GRADIENT(softmax_grad, nn_softmax_cuda)
GRADIENT(log_softmax_grad, nn_log_softmax_cuda)
BYTES(layer_norm_grad, nn_layer_norm_cuda_bytes)
GRADIENT(layer_norm_grad, nn_layer_norm_cuda_backward)
BYTES(pooling_grad, nn_pooling_cuda_bytes)
GRADIENT(pooling_grad, nn_pooling_cuda_backward)
BYTES(softmax_cross_entropy_grad, nn_softmax_cross_entropy_cuda_bytes)

BYTES(batch_norm_grad, nn_batch_norm_cuda_bytes)
GRADIENT(batch_norm_grad, nn_batch_norm_cuda_backward)
GRADIENT(batch_norm_activation_grad, nn_batch_norm_activation_cuda_backward)
BYTES(prelu_grad, nn_leaky_relu_cuda_bytes)
GRADIENT(prelu_grad, nn_leaky_relu_cuda_backward)
BYTES(softmax_output_grad, nn_softmax_output_cuda_bytes)

/* Indices of the arrays that nn_clear_elements gets. Labels have no gradient:
 * their output is set to zeros. */
enum { TO, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_clear_arrays;

/* Sets n elements to 0. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_clear_elements(nn_clear_arrays a, int64_t n) {
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step())
    tn_cuda_write(a.at[TO], i, 0.0);
}

/* Fills an output with zeros: labels have no gradient. */
static int32_t clear_output(const tn_frame *call, uint32_t out) {
  nn_clear_arrays a = {};
  if (call->req[out] != TN_REQ_WRITE) return TN_OK;
  a.at[TO] = tn_cuda_to(&call->out[out], call->req[out]);
  const int64_t n = tn_tensor_size(&call->out[out]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, nn_clear_elements, n, stream, a, n);
  });
}

int32_t nn_softmax_cross_entropy_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  const int32_t code = clear_output(call, 1);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  return nn_softmax_cross_entropy_cuda_backward(&own);
}

int32_t nn_softmax_output_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  const int32_t code = clear_output(call, 1);
  return code == TN_OK ? nn_softmax_output_cuda_backward(&own) : code;
}

/* Makes a backward call of prelu; its params only need act_type. */
static void make_prelu_call(nn_prelu_call *p, const tn_frame *call) {
  static nn_leaky_relu_params prelu;
  prelu.act_type = NN_LEAKY_RELU_ACT_TYPE_PRELU;
  nn_make_prelu_call(p, call);
  p->frame.params = &prelu;
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_prelu_sums_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  nn_prelu_call p;
  make_prelu_call(&p, call);
  return nn_leaky_relu_cuda_bytes(&p.frame, bytes);
}

int32_t nn_prelu_sums_cuda(const tn_frame *call) {
  nn_prelu_call p;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  make_prelu_call(&p, call);
  return nn_leaky_relu_cuda_backward(&p.frame);
}
