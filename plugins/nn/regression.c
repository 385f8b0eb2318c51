/* SPDX-License-Identifier: Apache-2.0
 * regression.c: shapes and kernels of regression.yaml, element by element. The
 * three operators have the same operands and parameters.
 */
#include "regression.gen.h"

#include "axis.h"
#include "nn.h"
#include "norm_operands.h"
#include "second.h"

#define IN_DATA NN_LINEAR_REGRESSION_OUTPUT_IN_DATA
#define IN_LABEL NN_LINEAR_REGRESSION_OUTPUT_IN_LABEL
#define BACKWARD_IN_DATA NN_LINEAR_REGRESSION_OUTPUT_BACKWARD_IN_DATA
#define BACKWARD_IN_LABEL NN_LINEAR_REGRESSION_OUTPUT_BACKWARD_IN_LABEL
#define BACKWARD_OUT NN_LINEAR_REGRESSION_OUTPUT_BACKWARD_OUT_OUT

/* ------------------------------------------------------------------ shapes */

/* Whether all dimensions of a tensor are known. */
static int is_known(const tn_tensor *tensor) {
  for (int32_t d = 0; d < tensor->ndim; ++d)
    if (tensor->shape[d] < 0) return 0;
  return tensor->ndim >= 0;
}

/* Checks a label whose rank is not that of data. */
static int32_t check_label(const tn_frame *call) {
  const tn_tensor *data = &call->in[IN_DATA], *label = &call->in[IN_LABEL];
  if (!is_known(data) || !is_known(label)) return TN_OK;
  const int first =
      data->ndim == 0 || label->ndim == 0 || data->shape[0] == label->shape[0];
  if (first && tn_tensor_size(data) == tn_tensor_size(label)) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "`label` %s must have the shape of `data` %s, or its first "
                 "dimension and as many elements",
                 nn_print_shape(label).text, nn_print_shape(data).text);
}

/* Sets the shape of a label that nothing else decides: that of data, without a
 * second dimension of length 1. */
static int32_t set_default_label(const tn_frame *call) {
  const tn_tensor *data = &call->in[IN_DATA];
  const int32_t ndim = data->ndim == 2 && data->shape[1] == 1 ? 1 : data->ndim;
  if (!(call->flags & TN_CALL_DEFAULTS)) return TN_OK;
  return call->host->set_shape(call, TN_OPERAND_IN, IN_LABEL, ndim,
                               data->shape);
}

int32_t nn_regression_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[IN_DATA], *label = &call->in[IN_LABEL];
  if (data->ndim < 0) return TN_OK;
  if (label->ndim < 0) return set_default_label(call);
  if (label->ndim != data->ndim) return check_label(call);
  const int32_t code = call->host->set_shape(call, TN_OPERAND_IN, IN_LABEL,
                                             data->ndim, data->shape);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_IN, IN_DATA, label->ndim,
                               label->shape);
}

int32_t nn_regression_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {1, 2}, out[] = {0};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_regression_infer, in, out, 2, 1});
}

/* ------------------------------------------------------------------- loops */

#define NN_EACH "regression_loops.h"
#include "each.h"

typedef struct regression_work {
  tn_kernel_mode mode;
  const nn_loops *loops;
  int64_t bytes;     /* bytes of an element */
  const char *in[2]; /* data or result, and label */
  char *to;
  double factor;
} regression_work;

/* Computes elements [begin, end). */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const regression_work *w = arg;
  const int64_t skip = begin * w->bytes;
  const tn_kernel_block block = {
      .n = end - begin,
      .out = w->to + skip,
      .in = {w->in[0] + skip, w->in[1] ? w->in[1] + skip : NULL}};
  nn_run_loop(&w->mode, w->loops, &block, &w->factor);
  return TN_OK;
}

/* Sets *bytes to the size of the workspace for converted operands. */
int32_t nn_regression_bytes(const tn_frame *call, uint64_t *bytes) {
  const uint64_t n = (call->flags & TN_CALL_BACKWARD) ? 3 : 2;
  *bytes = n * nn_count_wide_bytes(&call->out[0]);
  return TN_OK;
}

/* Computes the gradient of data from input `from` and the label. */
static int32_t write_gradient(const tn_frame *call, const nn_loops *loops,
                              uint32_t from, double grad_scale) {
  const tn_tensor *to = &call->out[IN_DATA];
  const int64_t n = tn_tensor_size(to);
  if (call->req[IN_DATA] == TN_REQ_NULL || n == 0) return TN_OK;
  nn_wide_operands wide = nn_open_wide_operands(call, to->dtype, 0);
  const int64_t examples = to->ndim > 0 ? to->shape[0] : 1;
  regression_work w = {.mode = wide.mode,
                       .loops = loops,
                       .bytes = tn_dtype_bytes(wide.mode.compute),
                       .factor = grad_scale * (double)examples / (double)n};
  w.in[0] = nn_widen_input(&wide, &call->in[from]);
  w.in[1] = nn_widen_input(&wide, &call->in[BACKWARD_IN_LABEL]);
  w.to = nn_locate_wide_output(&wide, to, TN_REQ_WRITE);
  const int32_t code = nn_run_parallel(call, n, 1, run_slice, &w);
  if (code == TN_OK) nn_store_wide_output(&wide, to, w.to);
  return code;
}

/* ------------------------------------------------------------------- calls */

int32_t nn_linear_regression_output(const tn_frame *call) {
  return nn_copy_input(call, IN_DATA, 0);
}

int32_t nn_linear_regression_output_backward(const tn_frame *call) {
  static const nn_loops loops = NN_LOOPS(write_differences);
  return write_gradient(
      call, &loops, BACKWARD_IN_DATA,
      nn_linear_regression_output_params_of(call)->grad_scale);
}

int32_t nn_mae_regression_output(const tn_frame *call) {
  return nn_copy_input(call, IN_DATA, 0);
}

int32_t nn_mae_regression_output_backward(const tn_frame *call) {
  static const nn_loops loops = NN_LOOPS(write_signs);
  return write_gradient(call, &loops, BACKWARD_IN_DATA,
                        nn_mae_regression_output_params_of(call)->grad_scale);
}

int32_t nn_logistic_regression_output(const tn_frame *call) {
  static const nn_loops loops = NN_LOOPS(write_sigmoids);
  const tn_tensor *out = &call->out[0];
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(out) == 0) return TN_OK;
  nn_wide_operands wide = nn_open_wide_operands(call, out->dtype, 0);
  regression_work w = {.mode = wide.mode,
                       .loops = &loops,
                       .bytes = tn_dtype_bytes(wide.mode.compute)};
  w.in[0] = nn_widen_input(&wide, &call->in[IN_DATA]);
  w.to = nn_locate_wide_output(&wide, out, call->req[0]);
  const int32_t code =
      nn_run_parallel(call, tn_tensor_size(out), 1, run_slice, &w);
  if (code == TN_OK) nn_store_wide_output(&wide, out, w.to);
  return code;
}

int32_t nn_logistic_regression_output_backward(const tn_frame *call) {
  static const nn_loops loops = NN_LOOPS(write_differences);
  return write_gradient(
      call, &loops, BACKWARD_OUT,
      nn_logistic_regression_output_params_of(call)->grad_scale);
}

/* ---------------------------------------------------- gradients as operators
 */

/* Sets *bytes to the size of the workspace. */
int32_t nn_regression_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_regression_bytes(&own, bytes);
}

/* Computes the gradient of data; labels have none: theirs is set to zeros. */
#define GRADIENT(name)                                \
  int32_t nn_##name##_grad(const tn_frame *call) {    \
    const tn_frame own = nn_make_backward_call(call); \
    nn_fill_output(call, IN_LABEL, 0);                \
    return nn_##name##_backward(&own);                \
  }

GRADIENT(linear_regression_output)
GRADIENT(mae_regression_output)
GRADIENT(logistic_regression_output)
