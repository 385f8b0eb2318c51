/* SPDX-License-Identifier: Apache-2.0
 * center.c: the kernel of rows.center, with a state that training changes.
 */
#include "center.gen.h"
#include "tenon/kernel/operand.h"

/* Moves the state towards the mean of each column. */
static void move_mean(const tn_frame *call, const tn_dense *data, float *mean) {
  const int64_t rows = data->shape[0], columns = data->shape[1];
  const float *x = (const float *)data->data;
  const double rate = rows_center_params_of(call)->rate;
  for (int64_t j = 0; j < columns && rows > 0; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < rows; ++i) sum += x[i * columns + j];
    mean[j] = (float)(mean[j] + rate * (sum / (double)rows - mean[j]));
  }
}

int32_t rows_center(const tn_frame *call) {
  tn_dense data = {.dtype = TN_F32, .ndim = 2, .shape = {-1, -1}};
  const int32_t code =
      tn_dense_open(call, &call->in[ROWS_CENTER_IN_DATA], &data);
  if (code != TN_OK) return code;
  const int64_t rows = data.shape[0], columns = data.shape[1];
  const float *x = (const float *)data.data;
  float *y = (float *)call->out[ROWS_CENTER_OUT_OUT].data;
  float *mean = (float *)call->aux[ROWS_CENTER_AUX_MEAN].data;
  if ((call->flags & TN_CALL_TRAIN) != 0) move_mean(call, &data, mean);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      y[i * columns + j] = x[i * columns + j] - mean[j];
  return TN_OK;
}
