/* SPDX-License-Identifier: Apache-2.0
 * max_unpool_view.h: a call of max_unpool.yaml's operators: the windows of
 * nn.max_pool_indices as those of nn.pooling, and the images of nn.max_unpool.
 * Kernels of every device include it.
 */
#ifndef NN_MAX_UNPOOL_VIEW_H_
#define NN_MAX_UNPOOL_VIEW_H_

#include "max_unpool.gen.h"
#include "pool_geometry.h"

/* Makes a forward call of nn.pooling with the windows of `call`. [any] */
static inline void nn_max_pool_make_call(const tn_frame *call,
                                         nn_pool_call *own) {
  const nn_max_pool_indices_params *p = nn_max_pool_indices_params_of(call);
  const nn_window_lists lists = {&p->kernel, &p->stride, &p->dilate, &p->pad};
  nn_pool_make_call(call, &lists, NN_POOLING_POOL_TYPE_MAX,
                    p->pooling_convention, own);
}

/* Returns the windows of a call, forward or backward; *images becomes their
 * number of images of one channel. [any] */
static inline nn_pool nn_max_pool_make_pool(const tn_frame *call,
                                            int64_t *images) {
  nn_pool_call own;
  nn_max_pool_make_call(call, &own);
  *images = nn_pool_count_images(&own.frame);
  return nn_pool_make(&own.frame);
}

/* The images of one channel of a call of nn.max_unpool. */
typedef struct nn_unpool_view {
  int64_t images;
  int64_t n_in; /* elements of an image of data */
  int64_t n_out;
} nn_unpool_view;

/* Returns the images of a call, forward or backward. [any] */
static inline nn_unpool_view nn_max_unpool_view_call(const tn_frame *call) {
  const int is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *data = is_back ? &call->out[0] : &call->in[0];
  const tn_tensor *out = is_back ? &call->in[0] : &call->out[0];
  nn_unpool_view v = {data->shape[0] * data->shape[1], 1, 1};
  for (int32_t d = 2; d < data->ndim; ++d) {
    v.n_in *= data->shape[d];
    v.n_out *= out->shape[d];
  }
  return v;
}

#endif /* NN_MAX_UNPOOL_VIEW_H_ */
