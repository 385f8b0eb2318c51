/* SPDX-License-Identifier: Apache-2.0
 * second.c: shapes and kernels of second.yaml on the CPU. A gradient as an
 * operator has the operands of a backward call, and uses its kernel.
 */
#include "second.h"

#include <string.h>

#include "batch_norm.gen.h"
#include "batch_norm_activation.gen.h"
#include "layer_norm.gen.h"
#include "leaky_relu.gen.h"
#include "nn.h"
#include "pooling.gen.h"
#include "second.gen.h"
#include "softmax.gen.h"
#include "softmax.h"
#include "softmax_cross_entropy.gen.h"
#include "softmax_output.gen.h"

/* ------------------------------------------------------------------ shapes */

/* A forward call for inference; its operands are inputs of a gradient call. */
typedef struct forward_call {
  tn_frame frame; /* the first member, because set_input gets its address */
  tn_host host;
  const tn_frame *call;
  const uint32_t *in; /* indices of its inputs among the inputs of `call` */
  const uint32_t *out;
  tn_tensor operands[6];
} forward_call;

/* Replaces set_shape of the host while the inference of the forward operator
 * runs: its operands are inputs of the gradient call, so their shapes are set
 * there. */
static int32_t set_input(const tn_frame *frame, uint32_t list, uint32_t index,
                         int32_t ndim, const int64_t *shape) {
  const forward_call *f = (const forward_call *)(const void *)frame;
  const uint32_t at = (list == TN_OPERAND_IN ? f->in : f->out)[index];
  return f->call->host->set_shape(f->call, TN_OPERAND_IN, at, ndim, shape);
}

int32_t nn_infer_like_forward(const tn_frame *call,
                              const nn_forward_inference *of) {
  forward_call f = {.frame = *call, .host = *call->host, .call = call};
  for (uint32_t i = 0; i < of->n_in; ++i) f.operands[i] = call->in[of->in[i]];
  for (uint32_t i = 0; i < of->n_out; ++i)
    f.operands[3 + i] = call->in[of->out[i]];
  f.in = of->in;
  f.out = of->out;
  f.host.set_shape = set_input;
  f.frame.host = &f.host;
  f.frame.in = f.operands;
  f.frame.out = f.operands + 3;
  f.frame.n_in = of->n_in;
  f.frame.n_out = of->n_out;
  return of->infer(&f.frame);
}

int32_t nn_layer_norm_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {3, 4, 5}, out[] = {0, 1, 2};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_layer_norm_infer, in, out, 3, 3});
}

int32_t nn_batch_norm_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {3, 4, 5}, out[] = {0, 1, 2};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_batch_norm_infer, in, out, 3, 3});
}

int32_t nn_batch_norm_activation_grad_infer(const tn_frame *call) {
  return nn_batch_norm_grad_infer(call);
}

int32_t nn_softmax_output_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {1, 2}, out[] = {0, 3};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_softmax_output_infer, in, out, 2, 2});
}

int32_t nn_pooling_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {1}, out[] = {0};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_pooling_infer, in, out, 1, 1});
}

/* Checks the shape of gamma, the slopes of prelu: one number, or one for each
 * index along the second dimension of the data. */
static int32_t check_gamma_shape(const tn_frame *call, const tn_tensor *data,
                                 const tn_tensor *gamma) {
  if (data->ndim < 0 || gamma->ndim < 0) return TN_OK;
  const int64_t channels = data->ndim > 1 ? data->shape[1] : 1;
  if (gamma->ndim == 1 && (gamma->shape[0] == 1 || gamma->shape[0] < 0 ||
                           channels < 0 || gamma->shape[0] == channels))
    return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "`gamma` %s must have one number, or one for each index along "
                 "the second dimension of %s",
                 nn_print_shape(gamma).text, nn_print_shape(data).text);
}

int32_t nn_prelu_grad_infer(const tn_frame *call) {
  return check_gamma_shape(call, &call->in[2], &call->in[3]);
}

int32_t nn_prelu_sums_infer(const tn_frame *call) {
  return check_gamma_shape(call, &call->in[0], &call->in[2]);
}

/* ----------------------------------------------------------------- kernels */

#define BYTES(name, by)                                              \
  int32_t nn_##name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    const tn_frame own = nn_make_backward_call(call);                \
    return by(&own, bytes);                                          \
  }
#define GRADIENT(name, by)                            \
  int32_t nn_##name(const tn_frame *call) {           \
    const tn_frame own = nn_make_backward_call(call); \
    return by(&own);                                  \
  }

BYTES(softmax_grad, nn_softmax_bytes)
GRADIENT(softmax_grad, nn_softmax_compute)
GRADIENT(log_softmax_grad, nn_log_softmax_compute)
BYTES(layer_norm_grad, nn_layer_norm_bytes)
GRADIENT(layer_norm_grad, nn_layer_norm_backward)
BYTES(pooling_grad, nn_pooling_cpu_bytes)
GRADIENT(pooling_grad, nn_pooling_cpu_backward)
BYTES(softmax_cross_entropy_grad, nn_softmax_cross_entropy_bytes)

BYTES(batch_norm_grad, nn_batch_norm_bytes)
GRADIENT(batch_norm_grad, nn_batch_norm_backward)
BYTES(batch_norm_activation_grad, nn_batch_norm_activation_bytes)
GRADIENT(batch_norm_activation_grad, nn_batch_norm_activation_backward)
BYTES(prelu_grad, nn_prelu_bytes)
GRADIENT(prelu_grad, nn_prelu_backward)
BYTES(softmax_output_grad, nn_softmax_output_bytes)

/* Labels have no gradient: sets their output to zeros. */
static void clear_output(const tn_frame *call, uint32_t out) {
  const tn_tensor *to = &call->out[out];
  const int64_t n = tn_tensor_size(to);
  if (call->req[out] == TN_REQ_WRITE && n > 0)
    memset(to->data, 0, (size_t)(n * tn_dtype_bytes(to->dtype)));
}

int32_t nn_softmax_cross_entropy_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  clear_output(call, 1);
  return call->req[0] == TN_REQ_NULL ? TN_OK
                                     : nn_softmax_cross_entropy_backward(&own);
}

int32_t nn_softmax_output_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  clear_output(call, 1);
  return nn_softmax_output_backward(&own);
}

/* ----------------------------------------------------------- other kernels */

/* Sets *bytes to the size of the workspace. */
int32_t nn_prelu_sums_bytes(const tn_frame *call, uint64_t *bytes) {
  nn_prelu_call p;
  nn_make_prelu_call(&p, call);
  return nn_prelu_bytes(&p.frame, bytes);
}

/* Computes the gradient of gamma alone. */
int32_t nn_prelu_sums(const tn_frame *call) {
  nn_prelu_call p;
  nn_make_prelu_call(&p, call);
  return call->req[0] == TN_REQ_NULL ? TN_OK : nn_prelu_backward(&p.frame);
}

/* Bytes of workspace for converted operands: output gradient, softmax and
 * result. */
int32_t nn_softmax_output_through_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 3 * nn_count_wide_bytes(&call->in[0]);
  return TN_OK;
}

/* Computes the gradient of a softmax: out * (head - sum of out*head) over the
 * classes. */
int32_t nn_softmax_output_through(const tn_frame *call) {
  const nn_softmax_output_through_params *p =
      nn_softmax_output_through_params_of(call);
  const tn_tensor *out = &call->out[0];
  const int32_t last = out->ndim - 1, least = last < 1 ? last : 1;
  const int32_t first = p->preserve_shape && !p->multi_output ? last : least;
  nn_wide_operands w = nn_open_wide_operands(call, out->dtype, 0);
  const nn_softmax s = {.call = call,
                        .axis_shape = nn_axis_find_shape(
                            out, first, p->multi_output ? least : last),
                        .mode = w.mode,
                        .factor = 1};
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(out) == 0) return TN_OK;
  void *to = nn_locate_wide_output(&w, out, call->req[0]);
  const void *out_gradient = nn_widen_input(&w, &call->in[0]);
  const void *y = nn_widen_input(&w, &call->in[1]);
  const int32_t code = nn_softmax_compute_gradient(&s, out_gradient, y, to);
  if (code == TN_OK) nn_store_wide_output(&w, out, to);
  return code;
}
