/* SPDX-License-Identifier: Apache-2.0
 * make_loss.c: kernels of make_loss.yaml.
 */
#include "make_loss.gen.h"

#include "axis.h"
#include "second.h"

enum { CHUNK = 256 }; /* elements that are read together */

int32_t nn_make_loss(const tn_frame *call) {
  return nn_copy_input(call, NN_MAKE_LOSS_IN_DATA, NN_MAKE_LOSS_OUT_OUT);
}

/* Returns the number of elements above the threshold, at least 1. */
static int64_t count_valid(const tn_frame *call, const tn_tensor *data) {
  const double threshold = nn_make_loss_params_of(call)->valid_thresh;
  const tn_kernel_mode mode = {TN_F64, tn_kernel_level(call)};
  const int64_t n = tn_tensor_size(data), bytes = tn_dtype_bytes(data->dtype);
  int64_t count = 0;
  double value[CHUNK];
  for (int64_t at = 0; at < n; at += CHUNK) {
    const int64_t n_part = n - at < CHUNK ? n - at : CHUNK;
    tn_kernel_load_dense(value, &mode, (const char *)data->data + at * bytes,
                         data->dtype, n_part);
    for (int64_t i = 0; i < n_part; ++i) count += value[i] > threshold;
  }
  return count > 0 ? count : 1;
}

/* Returns the gradient, which is the same for every element. */
static double find_gradient(const tn_frame *call, const tn_tensor *data) {
  const nn_make_loss_params *p = nn_make_loss_params_of(call);
  switch (p->normalization) {
    case NN_MAKE_LOSS_NORMALIZATION_BATCH:
      return p->grad_scale / (double)(data->ndim > 0 ? data->shape[0] : 1);
    case NN_MAKE_LOSS_NORMALIZATION_VALID:
      return p->grad_scale / (double)count_valid(call, data);
    default:
      return p->grad_scale;
  }
}

typedef struct loss_work {
  tn_dtype dtype;
  int64_t bytes; /* bytes of an element */
  char *to;
  double value; /* the gradient */
} loss_work;

/* Writes the gradient to elements [begin, end). */
static int32_t fill_slice(void *arg, int64_t begin, int64_t end) {
  const tn_kernel_mode mode = {TN_F64, 0};
  const loss_work *w = arg;
  double value[CHUNK];
  for (int64_t i = 0; i < CHUNK; ++i) value[i] = w->value;
  for (int64_t at = begin; at < end; at += CHUNK)
    tn_kernel_store_dense(w->to + at * w->bytes, w->dtype, value, &mode,
                          end - at < CHUNK ? end - at : CHUNK);
  return TN_OK;
}

int32_t nn_make_loss_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_MAKE_LOSS_IN_DATA];
  const int64_t n = tn_tensor_size(to);
  if (call->req[NN_MAKE_LOSS_IN_DATA] == TN_REQ_NULL || n == 0) return TN_OK;
  loss_work w = {
      .dtype = to->dtype,
      .bytes = tn_dtype_bytes(to->dtype),
      .to = to->data,
      .value = find_gradient(call, &call->in[NN_MAKE_LOSS_BACKWARD_IN_DATA])};
  return nn_run_parallel(call, n, 1, fill_slice, &w);
}

int32_t nn_make_loss_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_make_loss_backward(&own);
}
