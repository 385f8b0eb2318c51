/* SPDX-License-Identifier: Apache-2.0
 * windows.c: the common part of convolution, deconvolution and pooling: shapes
 * of images in the form of cuDNN, biases, and arrays that need no computation.
 */
#include <string.h>

#include "kit.h"

void cudnn_task_begin(const tn_frame *call, int what, cudnn_task *out) {
  memset(out, 0, sizeof *out);
  out->device = call->run->device_id;
  out->what = what;
  out->dtype = call->in[0].dtype;
  for (int d = 0; d < CUDNN_MOST_RANK; ++d) out->dilate[d] = 1;
}

void cudnn_set_shape(int64_t *to, const tn_tensor *tensor) {
  const int32_t more = tensor->ndim == 3;
  to[0] = tensor->shape[0];
  to[1] = tensor->shape[1];
  to[2] = 1;
  for (int32_t d = 2; d < tensor->ndim; ++d) to[d + more] = tensor->shape[d];
}

void cudnn_set_steps(int64_t *to, const int64_t *list, int64_t n,
                     int64_t other) {
  to[0] = other;
  for (int64_t d = 0; d < n; ++d) to[d + (n == 1)] = list[d];
}

static int32_t enqueue_sum(const tn_frame *call, const tn_device_sum *what) {
  const cudnn_instance *self = call->instance;
  return self->scope->sum(self->scope, call, what);
}

int32_t cudnn_clear(const tn_frame *call, const tn_tensor *to, tn_req req) {
  const tn_sum_axis axis = {tn_tensor_size(to), 1, 0};
  const tn_device_sum zeros = {.struct_size = sizeof zeros,
                               .dtype = to->dtype,
                               .n_kept = 1,
                               .axes = &axis,
                               .to = to->data};
  if (req != TN_REQ_WRITE || axis.n == 0) return TN_OK;
  return enqueue_sum(call, &zeros);
}

static int64_t count_pixels(const tn_tensor *images) {
  int64_t n = 1;
  for (int32_t d = 2; d < images->ndim; ++d) n *= images->shape[d];
  return n;
}

int32_t cudnn_start_from_bias(const tn_frame *call, const tn_tensor *images,
                              const tn_tensor *bias, tn_req req) {
  const int64_t filters = images->shape[1], n = count_pixels(images);
  const tn_sum_axis axes[] = {
      {images->shape[0], filters * n, 0}, {filters, n, 1}, {n, 1, 0}};
  if (tn_tensor_size(images) == 0) return TN_OK;
  return enqueue_sum(
      call, &(tn_device_sum){.struct_size = sizeof(tn_device_sum),
                             .flags = req == TN_REQ_ADD ? TN_SUM_ADD : 0,
                             .dtype = images->dtype,
                             .n_kept = 3,
                             .axes = axes,
                             .to = images->data,
                             .from = bias->data});
}

int32_t cudnn_sum_bias(const tn_frame *call, const tn_tensor *images,
                       const tn_tensor *bias, tn_req req) {
  const int64_t filters = images->shape[1], n = count_pixels(images);
  const tn_sum_axis axes[] = {
      {filters, 1, n}, {images->shape[0], 0, filters * n}, {n, 0, 1}};
  if (req == TN_REQ_NULL) return TN_OK;
  if (tn_tensor_size(images) == 0) return cudnn_clear(call, bias, req);
  return enqueue_sum(
      call, &(tn_device_sum){.struct_size = sizeof(tn_device_sum),
                             .flags = req == TN_REQ_ADD ? TN_SUM_ADD : 0,
                             .dtype = images->dtype,
                             .n_kept = 1,
                             .n_summed = 2,
                             .axes = axes,
                             .to = bias->data,
                             .from = images->data});
}
