/* SPDX-License-Identifier: Apache-2.0
 * second_products.c: shapes and kernels of second_products.yaml: backward calls
 * of convolutions and fully connected layers, with an activation or without.
 */
#include "second_products.gen.h"

#include "convolution.gen.h"
#include "convolution_activation.gen.h"
#include "fully_connected.gen.h"
#include "fully_connected_activation.gen.h"
#include "nn.h"
#include "second.h"
#include "tenon/kernel/checked_size.h"

/* ------------------------------------------------------------------ shapes */

int32_t nn_fully_connected_activation_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {1, 2, 3}, out[] = {0, 0, 0};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_fully_connected_activation_infer, in,
                                    out, 3, 1});
}

int32_t nn_fully_connected_activation_grad_2_1_infer(const tn_frame *call) {
  static const uint32_t in[] = {1, 2}, out[] = {0, 0};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_fully_connected_activation_infer, in,
                                    out, 2, 1});
}

enum {
  HEAD,
  DATA,
  WEIGHT
}; /* indices of the inputs of a convolution's gradient */

/* Checks data and the parameters of a convolution's gradient. The params of all
 * convolution operators have the same first fields. */
static int32_t check_images(const tn_frame *call,
                            const nn_convolution_params *p) {
  const tn_tensor *data = &call->in[DATA];
  if (data->ndim != p->kernel.n + 2)
    return TN_FAIL(
        call, TN_SHAPE,
        "`kernel` has %lld dimensions, so `data` must have %lld, but "
        "%s has %d",
        (long long)p->kernel.n, (long long)p->kernel.n + 2,
        nn_print_shape(data).text, (int)data->ndim);
  const int64_t channels = data->shape[1];
  if (p->num_filter % p->num_group == 0 &&
      (channels < 0 || channels % p->num_group == 0))
    return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "channels of `data` %s and `num_filter` %lld must divide into "
                 "`num_group` %lld",
                 nn_print_shape(data).text, (long long)p->num_filter,
                 (long long)p->num_group);
}

/* Returns the number of windows along dimension d of n elements; -1 if it is
 * unknown, -2 if the window is larger. */
static int64_t count_windows(const nn_convolution_params *p, int64_t d,
                             int64_t n) {
  const int64_t padded = n < 0 ? -1 : tn_size_plus(n, 2 * p->pad.v[d]);
  const int64_t reach = p->dilate.v[d] * (p->kernel.v[d] - 1) + 1;
  if (n < 0) return -1;
  return padded < reach ? -2 : (padded - reach) / p->stride.v[d] + 1;
}

/* Infers the shapes of the output gradient and the weight from data and
 * parameters. */
int32_t nn_convolution_grad_infer(const tn_frame *call) {
  const nn_convolution_params *p = (const nn_convolution_params *)call->params;
  const tn_tensor *data = &call->in[DATA];
  int64_t out[TN_MAX_NDIM], weight[TN_MAX_NDIM];
  if (data->ndim < 0) return TN_OK;
  int32_t code = check_images(call, p);
  if (code != TN_OK) return code;
  out[0] = data->shape[0];
  out[1] = weight[0] = p->num_filter;
  weight[1] = data->shape[1] < 0 ? -1 : data->shape[1] / p->num_group;
  for (int32_t d = 2; d < data->ndim; ++d) {
    out[d] = count_windows(p, d - 2, data->shape[d]);
    weight[d] = p->kernel.v[d - 2];
    if (out[d] < -1)
      return TN_FAIL(call, TN_SHAPE,
                     "a window is larger than dimension %d of the padded "
                     "images `data` %s",
                     (int)d, nn_print_shape(data).text);
  }
  code = call->host->set_shape(call, TN_OPERAND_IN, HEAD, data->ndim, out);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_IN, WEIGHT, data->ndim, weight);
}

/* ----------------------------------------------------------------- kernels */

/* A backward call of [gradient of out, data, weight, bias, out]. */
typedef struct product_call {
  tn_frame frame;
  tn_tensor in[5];
  tn_tensor out[3];
  uint32_t in_flags[5];
  tn_req req[3];
} product_call;

/* Prepares a backward call without inputs and outputs; the caller sets them. */
static void open_call(product_call *p, const tn_frame *call) {
  memset(p, 0, sizeof *p);
  p->frame = nn_make_backward_call(call);
  p->frame.n_in = 5;
  p->frame.n_out = 3;
  p->frame.in = p->in;
  p->frame.out = p->out;
  p->frame.in_flags = p->in_flags;
  p->frame.req = p->req;
}

/* Makes a backward call without a bias from a gradient call. */
static void make_product_call(product_call *p, const tn_frame *call) {
  open_call(p, call);
  for (uint32_t i = 0; i < 3; ++i) p->in[i] = call->in[i];
  p->in[3].ndim = -1;
  p->in_flags[3] = TN_IN_ABSENT;
  p->in[4] = call->in[3];
  for (uint32_t i = 0; i < 2; ++i) {
    p->out[i] = call->out[i];
    p->req[i] = call->req ? call->req[i] : TN_REQ_WRITE;
  }
  p->out[2].ndim = -1;
}

/* Makes a backward call that requests only the gradient of the weight. */
static void make_weight_call(product_call *p, const tn_frame *call) {
  open_call(p, call);
  for (uint32_t i = 0; i < 5; ++i) p->in[i].ndim = -1;
  for (uint32_t i = 2; i < 5; ++i) p->in_flags[i] = TN_IN_ABSENT;
  p->in[0] = call->in[0];
  p->in[1] = call->in[1];
  p->out[0].ndim = p->out[2].ndim = -1;
  p->out[1] = call->out[0];
  p->req[1] = call->req ? call->req[0] : TN_REQ_WRITE;
}

/* Defines gradient kernels that call the kernels `of`, which accept every type.
 */
#define GRADIENT(name, of)                                                    \
  int32_t nn_##name##_grad(const tn_frame *call) {                            \
    const tn_frame own = nn_make_backward_call(call);                         \
    return of##_backward(&own);                                               \
  }                                                                           \
  int32_t nn_##name##_grad_bytes(const tn_frame *call, uint64_t *bytes) {     \
    const tn_frame own = nn_make_backward_call(call);                         \
    return of##_bytes(&own, bytes);                                           \
  }                                                                           \
  int32_t nn_##name##_grad_2_1(const tn_frame *call) {                        \
    product_call p;                                                           \
    make_product_call(&p, call);                                              \
    return of##_backward(&p.frame);                                           \
  }                                                                           \
  int32_t nn_##name##_grad_2_1_bytes(const tn_frame *call, uint64_t *bytes) { \
    product_call p;                                                           \
    make_product_call(&p, call);                                              \
    return of##_bytes(&p.frame, bytes);                                       \
  }
#define WEIGHT(name, of)                                                    \
  int32_t nn_##name##_weight(const tn_frame *call) {                        \
    product_call p;                                                         \
    make_weight_call(&p, call);                                             \
    return of##_backward(&p.frame);                                         \
  }                                                                         \
  int32_t nn_##name##_weight_bytes(const tn_frame *call, uint64_t *bytes) { \
    product_call p;                                                         \
    make_weight_call(&p, call);                                             \
    return of##_bytes(&p.frame, bytes);                                     \
  }

GRADIENT(fully_connected_activation, nn_fully_connected_activation_half)
GRADIENT(convolution_activation, nn_convolution_activation_half)
WEIGHT(fully_connected, nn_fully_connected_half)
WEIGHT(convolution, nn_convolution_half)
