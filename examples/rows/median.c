/* SPDX-License-Identifier: Apache-2.0
 * median.c: the kernel of rows.median. It sorts a copy of a row in scratch
 * memory.
 */
#include <stdlib.h>
#include <string.h>

#include "median.gen.h"

/* The scratch memory of a call: one row. */
int32_t rows_median_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *data = &call->in[ROWS_MEDIAN_IN_DATA];
  *bytes = (uint64_t)data->shape[1] * sizeof(float);
  return TN_OK;
}

static int compare_floats(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

int32_t rows_median(const tn_frame *call) {
  const tn_tensor *data = &call->in[ROWS_MEDIAN_IN_DATA];
  const int64_t rows = data->shape[0], columns = data->shape[1];
  const float *x = (const float *)data->data;
  float *y = (float *)call->out[ROWS_MEDIAN_OUT_OUT].data;
  float *row = (float *)call->ws[0];
  for (int64_t i = 0; i < rows; ++i) {
    memcpy(row, x + i * columns, (size_t)columns * sizeof *row);
    qsort(row, (size_t)columns, sizeof *row, compare_floats);
    y[i] = (row[(columns - 1) / 2] + row[columns / 2]) / 2;
  }
  return TN_OK;
}
