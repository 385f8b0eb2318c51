/* SPDX-License-Identifier: Apache-2.0
 * fully_connected.c: nn.fully_connected on CUDA devices. Forward computes data
 * * weight^T and adds the bias in the same product. Backward computes grad *
 * weight, and grad^T * data with the row sums, which are the gradient of the
 * bias. nn.fully_connected_activation has a forward pass for relu: cuBLASLt
 * applies it before it writes.
 */
#include "fully_connected.gen.h"

#include <stddef.h>

#include "products.h"

/* The plans of a backward call; forward has one, at index DATA. */
enum { DATA = CUBLASLT_LHS, WEIGHT = CUBLASLT_RHS };

/* ---------------------------------------------------------------- products */

/* The matrices of a call: rows of data, and the weight's shape. */
typedef struct sizes {
  int64_t rows;
  int64_t hidden;
  int64_t depth;
} sizes;

static int64_t size_of(const tn_tensor *tensor) {
  int64_t n = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d) n *= tensor->shape[d];
  return n;
}

/* An output that was not requested has no shape; it follows from the others. */
static sizes sizes_of(const tn_frame *call) {
  const int64_t hidden = nn_fully_connected_params_of(call)->num_hidden;
  const int backward = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *head = backward
                              ? &call->in[NN_FULLY_CONNECTED_BACKWARD_GRAD_OUT]
                              : &call->out[NN_FULLY_CONNECTED_OUT_OUT];
  const tn_tensor *weight = backward ? &call->out[NN_FULLY_CONNECTED_IN_WEIGHT]
                                     : &call->in[NN_FULLY_CONNECTED_IN_WEIGHT];
  sizes s = {.rows = size_of(head) / hidden, .hidden = hidden};
  if (backward && call->req[NN_FULLY_CONNECTED_IN_WEIGHT] == TN_REQ_NULL)
    weight = &call->in[NN_FULLY_CONNECTED_BACKWARD_IN_WEIGHT];
  s.depth = weight->ndim == 2 ? weight->shape[1] : 0;
  return s;
}

static int has_bias(const tn_frame *call) {
  return !nn_fully_connected_params_of(call)->no_bias;
}

static tn_device_product product_of(const tn_frame *call, uint32_t request) {
  const int fast = cublaslt_fully_connected_cuda_options_of(call)->fast;
  return (tn_device_product){.struct_size = sizeof(tn_device_product),
                             .dtype = call->in[0].dtype,
                             .flags = fast ? TN_PRODUCT_FAST : 0,
                             .alpha = 1,
                             .beta = request == TN_REQ_ADD ? 1 : 0};
}

static tn_device_product forward_product(const tn_frame *call) {
  const sizes s = sizes_of(call);
  tn_device_product p = product_of(call, call->req[0]);
  p.transpose_b = 1;
  if (has_bias(call)) p.flags |= TN_PRODUCT_BIAS;
  p.m = s.rows;
  p.n = p.ldc = s.hidden;
  p.k = p.lda = p.ldb = s.depth;
  return p;
}

static tn_device_product data_product(const tn_frame *call) {
  const sizes s = sizes_of(call);
  tn_device_product p = product_of(call, call->req[NN_FULLY_CONNECTED_IN_DATA]);
  p.m = s.rows;
  p.n = p.ldb = p.ldc = s.depth;
  p.k = p.lda = s.hidden;
  return p;
}

/* The gradients of the weight and of the bias. */
static tn_device_product weight_product(const tn_frame *call) {
  const sizes s = sizes_of(call);
  const tn_req weight = call->req[NN_FULLY_CONNECTED_IN_WEIGHT];
  const tn_req bias =
      has_bias(call) ? call->req[NN_FULLY_CONNECTED_IN_BIAS] : TN_REQ_NULL;
  tn_device_product p = product_of(call, weight);
  p.transpose_a = 1;
  if (bias != TN_REQ_NULL) p.flags |= TN_PRODUCT_SUMS;
  if (bias == TN_REQ_ADD) p.flags |= TN_PRODUCT_SUMS_ADD;
  p.m = p.lda = s.hidden;
  p.n = weight == TN_REQ_NULL ? 0 : s.depth;
  p.ldb = p.ldc = s.depth;
  p.k = s.rows;
  return p;
}

/* ------------------------------------------------------------------- state */

static int wants_weight(const tn_frame *call) {
  return call->req[NN_FULLY_CONNECTED_IN_WEIGHT] != TN_REQ_NULL ||
         (has_bias(call) &&
          call->req[NN_FULLY_CONNECTED_IN_BIAS] != TN_REQ_NULL);
}

static int32_t add_plans(const tn_frame *call, cublaslt_products *to) {
  int32_t code = TN_OK;
  if (!(call->flags & TN_CALL_BACKWARD)) {
    const tn_device_product p = forward_product(call);
    return cublaslt_add_plan(call, &p, DATA, to);
  }
  if (call->req[NN_FULLY_CONNECTED_IN_DATA] != TN_REQ_NULL) {
    const tn_device_product p = data_product(call);
    code = cublaslt_add_plan(call, &p, DATA, to);
  }
  if (code == TN_OK && wants_weight(call)) {
    const tn_device_product p = weight_product(call);
    code = cublaslt_add_plan(call, &p, WEIGHT, to);
  }
  return code;
}

int32_t cublaslt_fully_connected_create(const tn_frame *call,
                                        cublaslt_products **out) {
  int32_t code = cublaslt_begin_products(call, out);
  if (code == TN_OK) code = add_plans(call, *out);
  return cublaslt_end_products(code, out);
}

/* ------------------------------------------------------------------- calls */

int32_t cublaslt_fully_connected(const tn_frame *call) {
  return cublaslt_multiply(
      call, DATA,
      (tn_device_operands){
          .a = call->in[NN_FULLY_CONNECTED_IN_DATA].data,
          .b = call->in[NN_FULLY_CONNECTED_IN_WEIGHT].data,
          .c = call->out[0].data,
          .bias = has_bias(call) ? call->in[NN_FULLY_CONNECTED_IN_BIAS].data
                                 : NULL});
}

int32_t cublaslt_fully_connected_backward(const tn_frame *call) {
  const void *grad = call->in[NN_FULLY_CONNECTED_BACKWARD_GRAD_OUT].data;
  const int32_t code = cublaslt_multiply(
      call, DATA,
      (tn_device_operands){
          .a = grad,
          .b = call->in[NN_FULLY_CONNECTED_BACKWARD_IN_WEIGHT].data,
          .c = call->out[NN_FULLY_CONNECTED_IN_DATA].data});
  if (code != TN_OK || !wants_weight(call)) return code;
  return cublaslt_multiply(
      call, WEIGHT,
      (tn_device_operands){
          .a = grad,
          .b = call->in[NN_FULLY_CONNECTED_BACKWARD_IN_DATA].data,
          .c = call->out[NN_FULLY_CONNECTED_IN_WEIGHT].data,
          .sums = call->out[NN_FULLY_CONNECTED_IN_BIAS].data});
}

/* --------------------------------------------------------- with activation */

/* All functions above treat its call as one of nn.fully_connected. */
_Static_assert(offsetof(nn_fully_connected_activation_params, flatten) ==
                   offsetof(nn_fully_connected_params, flatten),
               "the params do not begin with those of fully_connected");
_Static_assert(sizeof(cublaslt_fully_connected_activation_cuda_options) ==
                   sizeof(cublaslt_fully_connected_cuda_options),
               "the options are others");

int32_t cublaslt_fully_connected_activation_supports(const tn_frame *call) {
  if (sizes_of(call).depth > 0) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED, "there is nothing to multiply");
}

int32_t cublaslt_fully_connected_activation_create(const tn_frame *call,
                                                   cublaslt_products **out) {
  tn_device_product p = forward_product(call);
  p.flags |= TN_PRODUCT_RELU;
  int32_t code = cublaslt_begin_products(call, out);
  if (code == TN_OK) code = cublaslt_add_plan(call, &p, DATA, *out);
  return cublaslt_end_products(code, out);
}

int32_t cublaslt_fully_connected_activation(const tn_frame *call) {
  return cublaslt_fully_connected(call);
}
