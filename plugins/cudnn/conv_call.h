/* SPDX-License-Identifier: Apache-2.0
 * conv_call.h: the common part of convolution.c and deconvolution.c: the arrays
 * of a call, its plans, and the passes that run them.
 *
 * A call of nn.deconvolution is the gradient of a convolution that has `out` as
 * its data and `data` as its out. So its plans are those of that convolution:
 * its forward pass is a gradient of data, and its gradient of data a forward
 * pass. Its gradient of weight is a gradient of weight there.
 */
#ifndef CUDNN_CONV_CALL_H_
#define CUDNN_CONV_CALL_H_

#include "kit.h"

/* A call of one of the operators. */
typedef struct cudnn_conv_call {
  const tn_frame *call;
  int has_bias;
  int swaps; /* plans swap `data` and `out`: nn.deconvolution */
  void (*set_windows)(const struct cudnn_conv_call *c, cudnn_task *out);
} cudnn_conv_call;

/* The arrays of a call by their names in the operator. In a backward call: a
 * requested gradient, which has the shape of its array, or that array. */
typedef struct cudnn_conv_arrays {
  const tn_tensor *data;
  const tn_tensor *weight;
  const tn_tensor *out;
  const tn_tensor *bias; /* NULL: no bias */
} cudnn_conv_arrays;

/* [any] */
cudnn_conv_arrays cudnn_conv_find_arrays(const cudnn_conv_call *c);

/* Whether the sums of a call have no terms. [any] */
int cudnn_conv_is_empty(const cudnn_conv_call *c);

/* Whether a call needs sums of the device, which write zeros, a bias or the
 * gradient of a bias. [any] */
int cudnn_conv_needs_sums(const cudnn_conv_call *c);

/* ------------------------------------------------------------------- plans */

/* A forward call has one plan, at index FIRST. A backward call has the plan of
 * the gradient of data there, and that of weight next. */
enum { CUDNN_CONV_FIRST, CUDNN_CONV_SECOND, CUDNN_CONV_N_PLANS };

/* The plans of a call: the state of each kernel. */
typedef struct cudnn_conv_plans {
  cudnn_instance *instance;
  cudnn_plan *plans[CUDNN_CONV_N_PLANS]; /* NULL: not requested, or empty */
} cudnn_conv_plans;

/* Fills in the rank of a task and its windows, by lists of `rank` entries: for
 * `set_windows`. [any] */
void cudnn_conv_set_windows(cudnn_task *to, int64_t rank, const int64_t *stride,
                            const int64_t *dilate, const int64_t *pad);

/* Describes a task of kind `what` with the arrays and options of the call.
 * [any] */
void cudnn_conv_describe(const cudnn_conv_call *c, int what, cudnn_task *out);

/* Finds or creates the plan of `only`, or the plans of all requested results if
 * it is NULL. The caller destroys *out. TN_OK, or a code after TN_FAIL. [any]
 */
int32_t cudnn_conv_create(const cudnn_conv_call *c, const cudnn_task *only,
                          cudnn_conv_plans **out);

/* [any] */
void cudnn_conv_destroy(cudnn_conv_plans *plans);

/* The largest workspace of the plans. [any] */
int32_t cudnn_conv_bytes(const tn_frame *call, uint64_t *bytes);

/* ------------------------------------------------------------------- calls */

/* TN_OK, or a code after TN_FAIL. [worker] */
int32_t cudnn_conv_run_forward(const cudnn_conv_call *c);
int32_t cudnn_conv_run_backward(const cudnn_conv_call *c);

#endif /* CUDNN_CONV_CALL_H_ */
