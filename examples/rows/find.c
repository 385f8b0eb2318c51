/* SPDX-License-Identifier: Apache-2.0
 * find.c: the kernel of rows.find. The elements decide the shape of the output.
 */
#include "find.gen.h"

int32_t rows_find(const tn_frame *call) {
  const tn_tensor *data = &call->in[ROWS_FIND_IN_DATA];
  const float *x = (const float *)data->data;
  int64_t n = 0;
  for (int64_t i = 0; i < data->shape[0]; ++i) n += x[i] != 0;
  const int32_t code =
      call->host->set_shape(call, TN_OPERAND_OUT, ROWS_FIND_OUT_OUT, 1, &n);
  if (code != TN_OK) return code;
  int64_t *out = (int64_t *)call->out[ROWS_FIND_OUT_OUT].data;
  for (int64_t i = 0; i < data->shape[0]; ++i)
    if (x[i] != 0) *out++ = i;
  return TN_OK;
}
