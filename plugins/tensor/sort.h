/* SPDX-License-Identifier: Apache-2.0
 * sort.h: the lines that the operators of sort.yaml order, for every device.
 */
#ifndef TENSOR_SORT_H_
#define TENSOR_SORT_H_

#include "move.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An array as (outer, n, inner): lines of n elements along the axis. */
typedef struct sort_lines {
  int64_t outer, n, inner;
  int64_t k; /* elements of a line that are results */
  int descending;
} sort_lines;

/* Reads the lines of `data` and the parameters of sort, argsort or sort_grad;
 * TN_OK, or a code with TN_FAIL. [any] */
int32_t sort_read_sort(const tn_frame *call, const tn_tensor *data,
                       sort_lines *lines);

/* The same for topk, topk_mask and topk_grad. [any] */
int32_t sort_read_topk(const tn_frame *call, const tn_tensor *data,
                       sort_lines *lines);

#ifdef __cplusplus
}
#endif
#endif /* TENSOR_SORT_H_ */
