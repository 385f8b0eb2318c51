/* SPDX-License-Identifier: Apache-2.0
 * order_rows.h: sizes that random orders need, on every device.
 */
#ifndef RANDOM_ORDER_ROWS_H_
#define RANDOM_ORDER_ROWS_H_

#include "tenon/plugin/op.h"

/* Rows of an array; 1 without dimensions. */
static inline int64_t count_rows(const tn_tensor *t) {
  return t->ndim > 0 ? t->shape[0] : 1;
}

static inline int64_t row_bytes(const tn_tensor *t) {
  const int64_t rows = count_rows(t);
  return rows > 0 ? tn_tensor_size(t) / rows * tn_dtype_bytes(t->dtype) : 0;
}

/* Whether a shuffle has anything to do. */
static inline int needs_order(const tn_frame *call) {
  return row_bytes(&call->in[0]) > 0 || call->req[1] != TN_REQ_NULL;
}

/* Where a shuffle keeps its order: in its output, or in the workspace. */
static inline int64_t *find_order(const tn_frame *call, int64_t rows) {
  return call->req[1] != TN_REQ_NULL ? (int64_t *)call->out[1].data
                                     : (int64_t *)call->ws[0] + 4 * rows;
}

#endif /* RANDOM_ORDER_ROWS_H_ */
