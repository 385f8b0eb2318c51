/* SPDX-License-Identifier: Apache-2.0
 * convolution.c: the kernels of convolution.yaml. They differ only in their
 * algorithm (conv.h); the gradient of a bias is the same for all.
 */
#include "convolution.gen.h"

#include <string.h>

#include "conv.h"
#include "operands.h"
#include "plane_sums.h"
#include "tenon/kernel/kernel.h"

/* ---------------------------------------------------------------- geometry */

/* Returns a tensor with the shape of data. Its rank is -1 if only the gradient
 * of the bias is requested, which needs no data. */
static const tn_tensor *find_data(const tn_frame *call) {
  if (!(call->flags & TN_CALL_BACKWARD))
    return &call->in[NN_CONVOLUTION_IN_DATA];
  return call->req[NN_CONVOLUTION_IN_DATA] != TN_REQ_NULL
             ? &call->out[NN_CONVOLUTION_IN_DATA]
             : &call->in[NN_CONVOLUTION_BACKWARD_IN_DATA];
}

/* Returns a tensor with the shape of out, in a forward or backward call. */
static const tn_tensor *find_out(const tn_frame *call) {
  return call->flags & TN_CALL_BACKWARD
             ? &call->in[NN_CONVOLUTION_BACKWARD_GRAD_OUT]
             : &call->out[NN_CONVOLUTION_OUT_OUT];
}

/* Returns the geometry of windows with NN_WINDOW_RANK dimensions: missing ones
 * have length 1. */
static nn_window make_window(const tn_frame *call) {
  const nn_convolution_params *p = nn_convolution_params_of(call);
  const tn_tensor *data = find_data(call);
  const int32_t rank = (int32_t)p->kernel.n;
  nn_window w;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    const int32_t i = d - (NN_WINDOW_RANK - rank);
    w.in[d] = i < 0 ? 1 : data->ndim < 0 ? 0 : data->shape[i + 2];
    w.out[d] = i < 0 ? 1 : find_out(call)->shape[i + 2];
    w.kernel[d] = i < 0 ? 1 : p->kernel.v[i];
    w.stride[d] = i < 0 ? 1 : p->stride.v[i];
    w.dilate[d] = i < 0 ? 1 : p->dilate.v[i];
    w.pad[d] = i < 0 ? 0 : p->pad.v[i];
    w.stride[d] = nn_window_limit_step(w.stride[d], w.in[d] + 2 * w.pad[d]);
  }
  return w;
}

/* Describes a call for the algorithms of conv.h. */
static nn_conv make_conv(const tn_frame *call) {
  const nn_convolution_params *p = nn_convolution_params_of(call);
  const tn_tensor *data = find_data(call);
  nn_conv c = {.call = call,
               .dtype = tn_kernel_compute(call->in[0].dtype),
               .level = tn_kernel_level(call),
               .window = make_window(call),
               .images = find_out(call)->shape[0],
               .groups = p->num_group,
               .channels = data->ndim < 0 ? 0 : data->shape[1] / p->num_group,
               .filters = p->num_filter / p->num_group};
  c.bytes = tn_dtype_bytes(c.dtype);
  c.taps = nn_window_multiply_lengths(c.window.kernel);
  c.in_size = nn_window_multiply_lengths(c.window.in);
  c.out_size = nn_window_multiply_lengths(c.window.out);
  return c;
}

/* Whether all sums of a pass have no terms. */
static int is_empty(const nn_conv *c) {
  return c->images == 0 || c->channels == 0 || c->in_size == 0 ||
         c->out_size == 0;
}

/* ------------------------------------------------------------------ choice */

/* Tests whether windows are single elements, side by side, without padding. */
static int is_pointwise(const nn_conv *c) {
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    if (c->window.kernel[d] != 1 || c->window.stride[d] != 1 ||
        c->window.pad[d] != 0)
      return 0;
  return 1;
}

/* Whether images have at most two dimensions: the first of three has length 1
 * and no padding. */
static int is_two_dimensional(const nn_window *w) {
  return w->kernel[0] == 1 && w->in[0] == 1 && w->pad[0] == 0;
}

/* Tests whether groups have one channel and few filters, in at most two
 * dimensions. */
static int is_depthwise(const nn_conv *c) {
  return !nn_conv_is_mostly_padding(c) && c->channels == 1 && c->filters <= 4 &&
         is_two_dimensional(&c->window);
}

/* Whether Winograd's transforms cost less than they save: there are enough
 * channels, filters and patches. */
static int is_winograd(const nn_conv *c) {
  const nn_window *w = &c->window;
  for (int d = 1; d < NN_WINDOW_RANK; ++d)
    if (w->kernel[d] != 3 || w->stride[d] != 1 || w->dilate[d] != 1 ||
        w->pad[d] > 2 || w->out[d] < 4)
      return 0;
  return c->dtype == TN_F32 && is_two_dimensional(w) && c->channels >= 16 &&
         c->filters >= 16 && c->images * c->out_size >= 256;
}

/* Whether lines are multiplied in place. Then each element has so few products
 * that a copy for a matrix product is not worthwhile. */
static int is_direct(const nn_conv *c) {
  const nn_window *w = &c->window;
  const int64_t most = w->stride[1] * w->stride[2] > 1 ? 1 << 14 : 1 << 12;
  return !nn_conv_is_mostly_padding(c) && c->dtype == TN_F32 &&
         is_two_dimensional(w) && c->taps > 1 && c->taps <= 128 &&
         c->channels * c->filters <= most;
}

const nn_conv_algorithm *nn_conv_choose_algorithm(const nn_conv *c) {
  if (is_depthwise(c)) return &nn_conv_depthwise;
  if (is_winograd(c)) return &nn_conv_winograd;
  if (is_pointwise(c)) return &nn_conv_pointwise;
  return is_direct(c) ? &nn_conv_direct : &nn_conv_panels;
}

/* Whether only the gradient of the bias is requested, which is the same for
 * every algorithm. */
static int is_bias_alone(const tn_frame *call) {
  return find_data(call)->ndim < 0;
}

/* Tests whether nn_conv_pointwise accepts the call. */
int32_t nn_convolution_is_pointwise(const tn_frame *call) {
  const nn_conv c = make_conv(call);
  if (is_bias_alone(call) || is_pointwise(&c)) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "it takes windows of one element, without step or padding");
}

/* Tests whether nn_conv_depthwise accepts the call. */
int32_t nn_convolution_is_depthwise(const tn_frame *call) {
  const nn_conv c = make_conv(call);
  if (is_bias_alone(call) || is_depthwise(&c)) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "it takes groups of one channel and at most four filters, in "
                 "one or two dimensions, without padding that is far more than "
                 "the image");
}

/* Tests whether nn_conv_winograd accepts the call. */
int32_t nn_convolution_is_winograd(const tn_frame *call) {
  const nn_conv c = make_conv(call);
  if (is_bias_alone(call) || is_winograd(&c)) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "it takes windows of 3 x 3 elements without step or dilation, "
                 "in f32, for 16 channels and filters or more and not too "
                 "small images");
}

/* Tests whether nn_conv_direct accepts the call. */
int32_t nn_convolution_is_direct(const tn_frame *call) {
  const nn_conv c = make_conv(call);
  if (is_bias_alone(call) || is_direct(&c)) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "it takes windows of 2 to 128 elements, in one or two "
                 "dimensions, in f32, for few channels and filters, without "
                 "padding that is far more than the image");
}

/* -------------------------------------------------------- gradient of bias */

/* Computes the gradient of bias, the sums of the output gradient of each
 * filter; adds it to the old elements if `add`. */
static int32_t compute_bias_gradient(const nn_conv *c,
                                     const nn_conv_arrays *arrays, int add) {
  const nn_plane_sums sums = {.call = c->call,
                              .mode = {c->dtype, c->level},
                              .images = c->images,
                              .planes = c->groups * c->filters,
                              .size = c->out_size,
                              .from = arrays->out,
                              .to = arrays->bias,
                              .add = add};
  return nn_sum_planes(&sums);
}

/* ------------------------------------------------------------------ passes */

/* Returns the index of the operand that a pass computes, among the outputs of
 * the call. */
static uint32_t find_result_index(int pass) {
  if (pass == NN_CONV_FORWARD) return NN_CONVOLUTION_OUT_OUT;
  return pass == NN_CONV_DATA ? NN_CONVOLUTION_IN_DATA
                              : NN_CONVOLUTION_IN_WEIGHT;
}

/* Fills the result of a pass without terms with zeros, or with the bias. */
static void fill_result(const nn_conv *c, const nn_conv_arrays *a, int pass,
                        int add) {
  const tn_kernel_mode mode = {c->dtype, c->level};
  const int64_t n = tn_tensor_size(&c->call->out[find_result_index(pass)]);
  char *to = pass == NN_CONV_DATA ? a->data : a->weight;
  if (pass == NN_CONV_FORWARD) to = a->out;
  if (!add && n > 0) memset(to, 0, (size_t)(n * c->bytes));
  if (pass != NN_CONV_FORWARD || !a->bias) return;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t k = i / c->out_size % (c->groups * c->filters);
    tn_kernel_add_dense(to + i * c->bytes, a->bias + k * c->bytes, &mode, 1);
  }
}

/* Runs one pass of an algorithm. */
static int32_t run_pass(const nn_conv *c, const nn_conv_algorithm *algorithm,
                        const nn_conv_arrays *a, int pass, int add) {
  if (!is_empty(c)) return algorithm->passes[pass](c, a, add);
  fill_result(c, a, pass, add);
  if (pass == NN_CONV_FORWARD)
    nn_conv_run_after(c, a->out, tn_tensor_size(&c->call->out[0]));
  return TN_OK;
}

int32_t nn_conv_run_forward(const tn_frame *call,
                            const nn_conv_algorithm *algorithm,
                            tn_kernel_body *after) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  nn_conv c = make_conv(call);
  c.after = after;
  c.memory = (char *)call->ws[0] + nn_operands_count_bytes(call);
  const nn_conv_arrays a = {
      nn_operands_open_input(&x, NN_CONVOLUTION_IN_DATA),
      nn_operands_open_input(&x, NN_CONVOLUTION_IN_WEIGHT),
      call->n_in > NN_CONVOLUTION_IN_BIAS
          ? nn_operands_open_input(&x, NN_CONVOLUTION_IN_BIAS)
          : NULL,
      nn_operands_open_output(&x, NN_CONVOLUTION_OUT_OUT)};
  const int32_t code =
      run_pass(&c, algorithm ? algorithm : nn_conv_choose_algorithm(&c), &a,
               NN_CONV_FORWARD, nn_operands_is_added(&x, 0));
  if (code == TN_OK) nn_operands_close_output(&x, 0, a.out);
  return code;
}

/* Tests whether the gradient of input i is requested. */
static int is_requested(const tn_frame *call, uint32_t i) {
  return i < call->n_out && call->req[i] != TN_REQ_NULL;
}

/* Computes the requested gradients. If `algorithm` is NULL, it chooses one. The
 * gradient of data is the last one: it may be in the memory of data. */
static int32_t run_backward(const tn_frame *call,
                            const nn_conv_algorithm *algorithm) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  nn_conv c = make_conv(call);
  const int to_weight = is_requested(call, NN_CONVOLUTION_IN_WEIGHT);
  const int to_data = is_requested(call, NN_CONVOLUTION_IN_DATA);
  int32_t code = TN_OK;
  c.memory = (char *)call->ws[0] + nn_operands_count_bytes(call);
  if (!algorithm) algorithm = nn_conv_choose_algorithm(&c);
  nn_conv_arrays a = {
      .out = nn_operands_open_input(&x, NN_CONVOLUTION_BACKWARD_GRAD_OUT)};
  if (to_weight) {
    a.data = nn_operands_open_input(&x, NN_CONVOLUTION_BACKWARD_IN_DATA);
    a.weight = nn_operands_open_output(&x, NN_CONVOLUTION_IN_WEIGHT);
    code = run_pass(&c, algorithm, &a, NN_CONV_WEIGHT,
                    nn_operands_is_added(&x, NN_CONVOLUTION_IN_WEIGHT));
    if (code == TN_OK)
      nn_operands_close_output(&x, NN_CONVOLUTION_IN_WEIGHT, a.weight);
  }
  if (is_requested(call, NN_CONVOLUTION_IN_BIAS) && code == TN_OK) {
    a.bias = nn_operands_open_output(&x, NN_CONVOLUTION_IN_BIAS);
    code = compute_bias_gradient(
        &c, &a, nn_operands_is_added(&x, NN_CONVOLUTION_IN_BIAS));
    if (code == TN_OK)
      nn_operands_close_output(&x, NN_CONVOLUTION_IN_BIAS, a.bias);
  }
  if (to_data && code == TN_OK) {
    a.data = nn_operands_open_output(&x, NN_CONVOLUTION_IN_DATA);
    a.weight = nn_operands_open_input(&x, NN_CONVOLUTION_BACKWARD_IN_WEIGHT);
    code = run_pass(&c, algorithm, &a, NN_CONV_DATA,
                    nn_operands_is_added(&x, NN_CONVOLUTION_IN_DATA));
    if (code == TN_OK)
      nn_operands_close_output(&x, NN_CONVOLUTION_IN_DATA, a.data);
  }
  return code;
}

/* Sets *bytes to the workspace of a call. The passes of a call use the same
 * workspace, one after the other. */
static int32_t count_call_bytes(const tn_frame *call,
                                const nn_conv_algorithm *algorithm,
                                uint64_t *bytes) {
  const nn_conv c = make_conv(call);
  const int backward = (call->flags & TN_CALL_BACKWARD) != 0;
  uint64_t most = 64;
  for (int pass = 0; pass < NN_CONV_PASSES && !is_empty(&c); ++pass) {
    if ((pass != NN_CONV_FORWARD) != backward) continue;
    if (!is_requested(call, find_result_index(pass))) continue;
    const uint64_t memory =
        (algorithm ? algorithm : nn_conv_choose_algorithm(&c))
            ->count_bytes(&c, pass);
    most = memory > most ? memory : most;
  }
  *bytes = nn_operands_count_bytes(call) + most;
  return TN_OK;
}

/* ----------------------------------------------------------------- kernels */

#define KERNEL(name, algorithm)                                 \
  int32_t name(const tn_frame *call) {                          \
    return nn_conv_run_forward(call, algorithm, NULL);          \
  }                                                             \
  int32_t name##_backward(const tn_frame *call) {               \
    return run_backward(call, algorithm);                       \
  }                                                             \
  int32_t name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    return count_call_bytes(call, algorithm, bytes);            \
  }

KERNEL(nn_convolution_panels, &nn_conv_panels)
KERNEL(nn_convolution_pointwise, &nn_conv_pointwise)
KERNEL(nn_convolution_depthwise, &nn_conv_depthwise)
KERNEL(nn_convolution_winograd, &nn_conv_winograd)
KERNEL(nn_convolution_direct, &nn_conv_direct)
KERNEL(nn_convolution_half,
       NULL) /* NULL: the first algorithm that accepts the call */
