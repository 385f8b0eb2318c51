/* SPDX-License-Identifier: Apache-2.0
 * norm_operands.c: operands of normalisations (norm_operands.h).
 */
#include "norm_operands.h"

const void *nn_read_weight(const tn_kernel_mode *mode, const tn_tensor *weight,
                           int64_t n, char *to) {
  if (weight->data) {
    tn_kernel_load_dense(to, mode, weight->data, weight->dtype, n);
    return to;
  }
  for (int64_t i = 0; i < n; ++i)
    if (mode->compute == TN_F32)
      ((float *)(void *)to)[i] = 1;
    else
      ((double *)(void *)to)[i] = 1;
  return to;
}

char *nn_locate_hidden(const tn_frame *call, uint32_t index,
                       const tn_kernel_mode *mode, char *buffer) {
  const tn_tensor *out = &call->out[index];
  const int direct =
      call->req[index] != TN_REQ_NULL && out->dtype == mode->compute;
  return direct ? out->data : buffer;
}

void nn_write_hidden(const tn_frame *call, uint32_t index,
                     const tn_kernel_mode *mode, const char *from) {
  const tn_tensor *out = &call->out[index];
  if (call->req[index] == TN_REQ_NULL || from == out->data) return;
  tn_kernel_store_dense(out->data, out->dtype, from, mode, tn_tensor_size(out));
}

void nn_fill_output(const tn_frame *call, uint32_t index, double value) {
  const tn_kernel_mode mode = {TN_F64, tn_kernel_level(call)};
  const tn_tensor *out = &call->out[index];
  const int64_t n = tn_tensor_size(out), bytes = tn_dtype_bytes(out->dtype);
  if (call->req[index] == TN_REQ_NULL) return;
  for (int64_t i = 0; i < n; ++i)
    tn_kernel_store_dense((char *)out->data + i * bytes, out->dtype, &value,
                          &mode, 1);
}
