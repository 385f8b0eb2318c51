/* SPDX-License-Identifier: Apache-2.0
 * deconvolution.c: shapes and kernels of deconvolution.yaml. They call the
 * passes of a convolution (conv.h) that has `out` as its data and `data` as its
 * out: a forward call computes the gradient of data there.
 */
#include "deconvolution.gen.h"

#include <string.h>

#include "axis.h"
#include "conv.h"
#include "deconvolution_view.h"
#include "operands.h"
#include "plane_sums.h"

/* ------------------------------------------------------------------ shapes */

/* Reports a dimension i of an image with a wrong size. Returns the failure. */
static int32_t refuse_size(const tn_frame *call, int64_t i, int64_t size) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  const tn_tensor *data = &call->in[NN_DECONVOLUTION_IN_DATA];
  const int d = (int)i + 2;
  if (data->shape[i + 2] == 0)
    return TN_FAIL(call, TN_SHAPE,
                   "dimension %d of `data` %s is empty; pass images with at "
                   "least one element",
                   d, nn_print_shape(data).text);
  if (size < 0)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "dimension %d of `out` would have more elements than 64 "
                   "bits count; choose a smaller `stride` or `dilate`",
                   d);
  if (p->target_shape.n > 0)
    return TN_FAIL(call, TN_SHAPE,
                   "target_shape is %lld in dimension %d, but `data` %s gives "
                   "only %lld elements there; choose a smaller target_shape",
                   (long long)p->target_shape.v[i], d,
                   nn_print_shape(data).text, (long long)size);
  return TN_FAIL(call, TN_SHAPE,
                 "`pad` of %lld removes all of the %lld elements that `data` "
                 "%s gives in dimension %d; choose a smaller `pad`",
                 (long long)p->pad.v[i], (long long)size,
                 nn_print_shape(data).text, d);
}

/* Sets *out to the elements along dimension i of an image, for n elements of
 * data. */
static int32_t infer_dim(const tn_frame *call, int64_t i, int64_t n,
                         int64_t *out) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  const nn_window_lists lists = {&p->kernel, &p->stride, &p->dilate, &p->pad};
  *out = p->target_shape.n > 0 ? p->target_shape.v[i] : -1;
  if (n < 0) return TN_OK;
  if (n == 0) return refuse_size(call, i, 0);
  int64_t size = tn_size_times(p->stride.v[i], n - 1);
  if (size >= 0) size = tn_size_plus(size, nn_window_find_reach(&lists, i));
  if (size >= 0 && p->target_shape.n == 0)
    size = tn_size_plus(size, p->adj.v[i]);
  if (size < 0 || *out > size) return refuse_size(call, i, size);
  if (*out < 0) *out = size - 2 * p->pad.v[i];
  return *out < 1 ? refuse_size(call, i, size) : TN_OK;
}

/* Checks the rank of the images and of target_shape. */
static int32_t check_ranks(const tn_frame *call) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  const tn_tensor *data = &call->in[NN_DECONVOLUTION_IN_DATA];
  if (p->target_shape.n > 0 && p->target_shape.n != p->kernel.n)
    return TN_FAIL(call, TN_INVALID,
                   "target_shape has %lld numbers, but `kernel` has %lld; give "
                   "one for each dimension of an image, or none",
                   (long long)p->target_shape.n, (long long)p->kernel.n);
  if (data->ndim >= 0 && data->ndim != p->kernel.n + 2)
    return TN_FAIL(call, TN_SHAPE,
                   "`kernel` has %lld dimensions, so `data` must have %lld, "
                   "but %s has %d",
                   (long long)p->kernel.n, (long long)p->kernel.n + 2,
                   nn_print_shape(data).text, (int)data->ndim);
  return TN_OK;
}

int32_t nn_deconvolution_infer(const tn_frame *call) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  const tn_tensor *data = &call->in[NN_DECONVOLUTION_IN_DATA];
  const tn_tensor *out = &call->out[NN_DECONVOLUTION_OUT_OUT];
  const int32_t ndim = (int32_t)p->kernel.n + 2;
  int64_t from[TN_MAX_NDIM], to[TN_MAX_NDIM];
  int32_t code = check_ranks(call);
  for (int32_t d = 0; d < ndim; ++d)
    from[d] = code == TN_OK && data->ndim >= 0 ? data->shape[d] : -1;
  if (from[0] < 0 && out->ndim == ndim) from[0] = out->shape[0];
  to[0] = from[0];
  to[1] = p->num_filter;
  for (int32_t d = 2; d < ndim && code == TN_OK; ++d)
    code = infer_dim(call, d - 2, from[d], &to[d]);
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_IN, NN_DECONVOLUTION_IN_DATA,
                                 ndim, from);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_OUT, NN_DECONVOLUTION_OUT_OUT,
                               ndim, to);
}

/* ------------------------------------------------------------------ passes */

/* Describes the convolution for the algorithms of conv.h. */
static nn_conv make_conv(const tn_frame *call) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  const tn_tensor *data = nn_deconvolution_find_data(call);
  nn_conv c = {.call = call,
               .dtype = tn_kernel_compute(call->in[0].dtype),
               .level = tn_kernel_level(call),
               .window = nn_deconvolution_make_window(call),
               .images = nn_deconvolution_find_out(call)->shape[0],
               .groups = p->num_group,
               .channels = p->num_filter / p->num_group,
               .filters = data->ndim < 0 ? 0 : data->shape[1] / p->num_group};
  c.bytes = tn_dtype_bytes(c.dtype);
  c.taps = nn_window_multiply_lengths(c.window.kernel);
  c.in_size = nn_window_multiply_lengths(c.window.in);
  c.out_size = nn_window_multiply_lengths(c.window.out);
  return c;
}

/* Whether images of `out` have as many windows as a convolution would give
 * them. An odd number of removed elements with stride 1 leaves one out. */
static int has_all_windows(const nn_conv *c) {
  const nn_window *w = &c->window;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    const int64_t reach = w->dilate[d] * (w->kernel[d] - 1) + 1;
    const int64_t rest = w->in[d] + 2 * w->pad[d] - reach;
    if (rest / w->stride[d] + 1 != w->out[d]) return 0;
  }
  return 1;
}

/* Returns the algorithm of a call. */
static const nn_conv_algorithm *choose_algorithm(const nn_conv *c) {
  return has_all_windows(c) ? nn_conv_choose_algorithm(c) : &nn_conv_panels;
}

/* Whether all sums of a pass have no terms. */
static int is_empty(const nn_conv *c) {
  return c->images == 0 || c->filters == 0 || c->out_size == 0;
}

/* Runs a pass of an algorithm, which computes n elements at `to`. */
static int32_t run_pass(const nn_conv *c, const nn_conv_arrays *a, int pass,
                        int add, int64_t n) {
  char *to = pass == NN_CONV_DATA ? a->data : a->weight;
  if (!is_empty(c)) return choose_algorithm(c)->passes[pass](c, a, add);
  if (pass == NN_CONV_FORWARD) to = a->out;
  if (!add && n > 0) memset(to, 0, (size_t)(n * c->bytes));
  return TN_OK;
}

/* The addition of a bias to planes of an image. */
typedef struct bias_work {
  tn_kernel_mode mode;
  int64_t filters;
  int64_t size;
  const char *bias;
  char *out;
} bias_work;

/* Adds the bias to planes [begin, end). */
static int32_t add_bias_slice(void *arg, int64_t begin, int64_t end) {
  const bias_work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t k = i % w->filters;
    if (w->mode.compute == TN_F32) {
      float *line = (float *)(void *)w->out + i * w->size;
      const float b = ((const float *)(const void *)w->bias)[k];
      for (int64_t j = 0; j < w->size; ++j) line[j] += b;
    } else {
      double *line = (double *)(void *)w->out + i * w->size;
      const double b = ((const double *)(const void *)w->bias)[k];
      for (int64_t j = 0; j < w->size; ++j) line[j] += b;
    }
  }
  return TN_OK;
}

/* Adds the bias to every element of out. */
static int32_t add_bias(const nn_conv *c, const nn_conv_arrays *a) {
  bias_work w = {{c->dtype, c->level},
                 c->groups * c->channels,
                 c->in_size,
                 a->bias,
                 a->data};
  if (!a->bias || c->in_size == 0) return TN_OK;
  return nn_run_parallel(c->call, c->images * w.filters, w.size, add_bias_slice,
                         &w);
}

/* Tests whether output i of the call is requested. */
static int is_requested(const tn_frame *call, uint32_t i) {
  return i < call->n_out && call->req[i] != TN_REQ_NULL;
}

/* Returns the pass that computes output i of a call; NN_CONV_PASSES: none. */
static int find_pass(const tn_frame *call, uint32_t i) {
  if (!(call->flags & TN_CALL_BACKWARD)) return NN_CONV_DATA;
  if (i == NN_DECONVOLUTION_IN_DATA) return NN_CONV_FORWARD;
  return i == NN_DECONVOLUTION_IN_WEIGHT ? NN_CONV_WEIGHT : NN_CONV_PASSES;
}

/* ----------------------------------------------------------------- kernels */

/* Sets *bytes to the workspace of a call. The passes of a call use the same
 * workspace, one after the other. */
int32_t nn_deconvolution_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_conv c = make_conv(call);
  uint64_t most = 64;
  for (uint32_t i = 0; i < call->n_out && !is_empty(&c); ++i) {
    const int pass = find_pass(call, i);
    if (pass == NN_CONV_PASSES || !is_requested(call, i)) continue;
    const uint64_t memory = choose_algorithm(&c)->count_bytes(&c, pass);
    most = memory > most ? memory : most;
  }
  *bytes = nn_operands_count_bytes(call) + most;
  return TN_OK;
}

int32_t nn_deconvolution(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  nn_conv c = make_conv(call);
  c.memory = (char *)call->ws[0] + nn_operands_count_bytes(call);
  nn_conv_arrays a = {
      .out = nn_operands_open_input(&x, NN_DECONVOLUTION_IN_DATA),
      .weight = nn_operands_open_input(&x, NN_DECONVOLUTION_IN_WEIGHT),
      .bias = call->n_in > NN_DECONVOLUTION_IN_BIAS
                  ? nn_operands_open_input(&x, NN_DECONVOLUTION_IN_BIAS)
                  : NULL,
      .data = nn_operands_open_output(&x, NN_DECONVOLUTION_OUT_OUT)};
  int32_t code = run_pass(&c, &a, NN_CONV_DATA, nn_operands_is_added(&x, 0),
                          tn_tensor_size(&call->out[0]));
  if (code == TN_OK) code = add_bias(&c, &a);
  if (code == TN_OK) nn_operands_close_output(&x, 0, a.data);
  return code;
}

/* Computes the gradient of data or weight, output i of the call. `a` has the
 * output gradient. */
static int32_t run_gradient(nn_operands *x, const nn_conv *c, nn_conv_arrays a,
                            uint32_t i) {
  const tn_frame *call = c->call;
  char *to = nn_operands_open_output(x, i);
  if (i == NN_DECONVOLUTION_IN_DATA) {
    a.out = to;
    a.weight = nn_operands_open_input(x, NN_DECONVOLUTION_BACKWARD_IN_WEIGHT);
  } else {
    a.weight = to;
    a.out = nn_operands_open_input(x, NN_DECONVOLUTION_BACKWARD_IN_DATA);
  }
  const int32_t code =
      run_pass(c, &a, find_pass(call, i), nn_operands_is_added(x, i),
               tn_tensor_size(&call->out[i]));
  if (code == TN_OK) nn_operands_close_output(x, i, to);
  return code;
}

/* Computes the gradient of the bias. */
static int32_t run_bias_gradient(nn_operands *x, const nn_conv *c,
                                 const char *out_gradient) {
  const nn_plane_sums sums = {
      .call = c->call,
      .mode = {c->dtype, c->level},
      .images = c->images,
      .planes = c->groups * c->channels,
      .size = c->in_size,
      .from = out_gradient,
      .to = nn_operands_open_output(x, NN_DECONVOLUTION_IN_BIAS),
      .add = nn_operands_is_added(x, NN_DECONVOLUTION_IN_BIAS)};
  const int32_t code = nn_sum_planes(&sums);
  if (code == TN_OK)
    nn_operands_close_output(x, NN_DECONVOLUTION_IN_BIAS, sums.to);
  return code;
}

int32_t nn_deconvolution_backward(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  nn_conv c = make_conv(call);
  int32_t code = TN_OK;
  c.memory = (char *)call->ws[0] + nn_operands_count_bytes(call);
  const nn_conv_arrays a = {
      .data = nn_operands_open_input(&x, NN_DECONVOLUTION_BACKWARD_GRAD_OUT)};
  for (uint32_t i = 0; i < NN_DECONVOLUTION_IN_BIAS && code == TN_OK; ++i)
    if (is_requested(call, i)) code = run_gradient(&x, &c, a, i);
  if (code == TN_OK && is_requested(call, NN_DECONVOLUTION_IN_BIAS))
    code = run_bias_gradient(&x, &c, a.data);
  return code;
}
