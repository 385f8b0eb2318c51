/* SPDX-License-Identifier: Apache-2.0
 * deconvolution.c: nn.deconvolution with cuDNN, as the gradient of a
 * convolution (conv_call.h). The device's sums write the bias before the plan
 * adds to it, and compute its gradient.
 */
#include "deconvolution.gen.h"

#include "conv_call.h"

/* Elements from the first to the last of a window along dimension i. */
static int64_t reach_of(const nn_deconvolution_params *p, int64_t i) {
  return p->dilate.v[i] * (p->kernel.v[i] - 1) + 1;
}

/* Elements removed in front of dimension i of an image of `out`. */
static int64_t pad_of(const cudnn_conv_call *c, int64_t i) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(c->call);
  if (p->target_shape.n == 0) return p->pad.v[i];
  const int64_t n = cudnn_conv_find_arrays(c).data->shape[i + 2];
  const int64_t full = p->stride.v[i] * (n - 1) + reach_of(p, i);
  return (full - p->target_shape.v[i] + 1) / 2;
}

static void set_windows(const cudnn_conv_call *c, cudnn_task *out) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(c->call);
  int64_t pad[CUDNN_MOST_RANK];
  for (int64_t i = 0; i < p->kernel.n; ++i) pad[i] = pad_of(c, i);
  cudnn_conv_set_windows(out, p->kernel.n, p->stride.v, p->dilate.v, pad);
}

static cudnn_conv_call read_call(const tn_frame *call) {
  return (cudnn_conv_call){
      .call = call,
      .has_bias = !nn_deconvolution_params_of(call)->no_bias,
      .swaps = 1,
      .set_windows = set_windows};
}

int32_t cudnn_deconvolution_create(const tn_frame *call,
                                   cudnn_conv_plans **out) {
  const cudnn_conv_call c = read_call(call);
  return cudnn_conv_create(&c, NULL, out);
}

int32_t cudnn_deconvolution(const tn_frame *call) {
  const cudnn_conv_call c = read_call(call);
  return cudnn_conv_run_forward(&c);
}

int32_t cudnn_deconvolution_backward(const tn_frame *call) {
  const cudnn_conv_call c = read_call(call);
  return cudnn_conv_run_backward(&c);
}

/* ------------------------------------------------------------------ choice */

/* cuDNN takes images of `out` that have exactly as many windows as elements of
 * `data`. A target_shape with an odd number of removed elements and a stride of
 * 1 leaves one window out. */
static int32_t check_windows(const cudnn_conv_call *c) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(c->call);
  const cudnn_conv_arrays a = cudnn_conv_find_arrays(c);
  if (a.data->ndim < 0 || cudnn_conv_is_empty(c)) return TN_OK;
  for (int64_t i = 0; i < p->kernel.n; ++i) {
    const int64_t room =
        a.out->shape[i + 2] + 2 * pad_of(c, i) - reach_of(p, i);
    if (room / p->stride.v[i] + 1 != a.data->shape[i + 2])
      return TN_FAIL(c->call, TN_UNSUPPORTED,
                     "cuDNN removes as many elements at the end of an image as "
                     "at its front, and target_shape wants one less at the end "
                     "of dimension %d",
                     (int)i + 2);
  }
  return TN_OK;
}

int32_t cudnn_deconvolution_supports(const tn_frame *call) {
  const cudnn_instance *self = call->instance;
  const cudnn_conv_call c = read_call(call);
  if (!self->scope->sum && cudnn_conv_needs_sums(&c))
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "it takes the device's sums for a bias and its gradient, "
                   "and where there is nothing to multiply; this cuda.so was "
                   "built without nvcc");
  return check_windows(&c);
}
