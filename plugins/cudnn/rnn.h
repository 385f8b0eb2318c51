/* SPDX-License-Identifier: Apache-2.0
 * rnn.h: the plan of a call of nn.rnn: descriptors for the functions of cuDNN
 * for recurrent layers, and sizes. rnn_plan.c makes it.
 */
#ifndef CUDNN_RNN_H_
#define CUDNN_RNN_H_

#include "kit.h"

/* Everything that a plan depends on. All sizes are above 0, and int32_t holds
 * them. */
typedef struct cudnn_rnn_sizes {
  unsigned kind; /* DNN_RNN_RELU ... */
  unsigned mode; /* DNN_RNN_INFERENCE, DNN_RNN_TRAINING */
  int is_fast;   /* factors in f32 may be rounded to TF32 */
  tn_dtype dtype;
  int64_t steps;
  int64_t batch;
  int64_t inputs;
  int64_t units;
  int64_t layers;
  int64_t directions;
} cudnn_rnn_sizes;

/* Elements of `parameters`, and the place where cuDNN has them. */
typedef struct cudnn_rnn_range {
  int64_t ours;
  int64_t theirs;
  int64_t n;
} cudnn_rnn_range;

typedef struct cudnn_rnn_plan {
  dnn_dropout dropout;
  dnn_rnn rnn;
  dnn_rnn_data x;
  dnn_rnn_data y;
  dnn_tensor states; /* h and c of all layers */
  size_t weights;    /* bytes of the weights as cuDNN has them */
  size_t work;       /* bytes of workspace */
  size_t reserve;    /* bytes that a backward call gets from its forward call */
  /* How the weights are moved; NULL if cuDNN has them in the same order. */
  cudnn_rnn_range *ranges;
  int64_t n_ranges;
} cudnn_rnn_plan;

/* Creates a plan; the handle's device is current. Returns a cudnnStatus_t; on
 * failure it leaves nothing. [any] */
int cudnn_rnn_plan_make(const dnn_library *library, dnn_handle handle,
                        const cudnn_rnn_sizes *sizes, cudnn_rnn_plan *out);

/* Creates the descriptors that need no handle: all but that of dropout, which a
 * test may leave NULL. Returns a cudnnStatus_t; the caller destroys those that
 * exist. [any] */
int cudnn_rnn_describe(const dnn_library *library, const cudnn_rnn_sizes *sizes,
                       cudnn_rnn_plan *out);

/* Destroys a plan, or the parts that it has. [any] */
void cudnn_rnn_plan_unmake(const dnn_library *library, cudnn_rnn_plan *plan);

#endif /* CUDNN_RNN_H_ */
