/* SPDX-License-Identifier: Apache-2.0
 * norm_operands.c: operands of normalisations (norm_operands.h).
 */
#include "norm_operands.h"

#include <string.h>

#include "axis.h"
#include "nn.h"

/* ------------------------------------------------------------------- shapes */

enum { DATA = 0, GAMMA = 1, OF_LINES = 1 };

/* Reports a gamma that does not have one number for each element of a line.
 * Returns the failure. */
static int32_t refuse_gamma(const tn_frame *call, int64_t axis) {
  return TN_FAIL(call, TN_SHAPE,
                 "`gamma` %s must have one number for each place on the lines "
                 "of `data` %s along axis %lld",
                 nn_print_shape(&call->in[GAMMA]).text,
                 nn_print_shape(&call->in[DATA]).text, (long long)axis);
}

/* Sets all shapes: data has `length` elements along dimension dim. */
static int32_t set_shapes(const tn_frame *call, int32_t dim, int64_t length) {
  const tn_tensor *data = &call->in[DATA];
  int64_t shape[TN_MAX_NDIM];
  memcpy(shape, data->shape, (size_t)data->ndim * sizeof *shape);
  shape[dim] = length;
  int32_t code =
      call->host->set_shape(call, TN_OPERAND_IN, DATA, data->ndim, shape);
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_IN, GAMMA, 1, &length);
  shape[dim] = 1;
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_OUT, OF_LINES, data->ndim,
                                 shape);
  return code;
}

int32_t nn_infer_along_axis(const tn_frame *call, int64_t axis) {
  const tn_tensor *data = &call->in[DATA], *gamma = &call->in[GAMMA];
  int32_t dim;
  if (gamma->ndim >= 0 && gamma->ndim != 1) return refuse_gamma(call, axis);
  const int64_t places = gamma->ndim == 1 ? gamma->shape[0] : -1;
  if (data->ndim < 0) return TN_OK;
  const int32_t code = nn_axis_find_dim(call, axis, data, &dim);
  if (code != TN_OK) return code;
  if (places >= 0 && data->shape[dim] >= 0 && data->shape[dim] != places)
    return refuse_gamma(call, axis);
  return set_shapes(call, dim, places < 0 ? data->shape[dim] : places);
}

/* ----------------------------------------------------------------- operands */

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
