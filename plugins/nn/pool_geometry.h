/* SPDX-License-Identifier: Apache-2.0
 * pool_geometry.h: reads the geometry of a pooling from a call of pooling.yaml.
 * Kernels of every device include it.
 */
#ifndef NN_POOL_GEOMETRY_H_
#define NN_POOL_GEOMETRY_H_

#include <string.h>

#include "pool.h"
#include "pooling.gen.h"
#include "window_lists.h"

/* A call of nn.pooling, with its parameters. */
typedef struct nn_pool_call {
  tn_frame frame;
  nn_pooling_params params;
} nn_pool_call;

/* Makes a call of nn.pooling with the operands of another operator's call and
 * its windows; global_pool is false. [any] */
static inline void nn_pool_make_call(const tn_frame *call,
                                     const nn_window_lists *lists,
                                     int32_t pool_type, int32_t convention,
                                     nn_pool_call *own) {
  memset(&own->params, 0, sizeof own->params);
  own->params.kernel = *lists->kernel;
  own->params.stride = *lists->stride;
  own->params.pad = *lists->pad;
  own->params.dilate = *lists->dilate;
  own->params.pool_type = pool_type;
  own->params.pooling_convention = convention;
  own->frame = *call;
  own->frame.params = &own->params;
}

/* Returns a tensor with the shape of `data`, in a forward or backward call;
 * nn_pool_find_out does the same for `out`. */
static inline const tn_tensor *nn_pool_find_data(const tn_frame *call) {
  return call->flags & TN_CALL_BACKWARD ? &call->out[NN_POOLING_IN_DATA]
                                        : &call->in[NN_POOLING_IN_DATA];
}

/* Returns a tensor with the shape of out, in a forward or backward call. */
static inline const tn_tensor *nn_pool_find_out(const tn_frame *call) {
  return call->flags & TN_CALL_BACKWARD
             ? &call->in[NN_POOLING_BACKWARD_GRAD_OUT]
             : &call->out[NN_POOLING_OUT_OUT];
}

/* Returns the number of images: examples times channels. */
static inline int64_t nn_pool_count_images(const tn_frame *call) {
  return nn_pool_find_data(call)->shape[0] * nn_pool_find_data(call)->shape[1];
}

/* Sets dimension d of the window from dimension i of the image. */
static inline void nn_pool_set_dim(const tn_frame *call, nn_pool *pool, int d,
                                   int32_t i) {
  const nn_pooling_params *p = nn_pooling_params_of(call);
  nn_window *w = &pool->window;
  w->in[d] = nn_pool_find_data(call)->shape[i + 2];
  w->out[d] = nn_pool_find_out(call)->shape[i + 2];
  w->kernel[d] = p->global_pool ? w->in[d] : p->kernel.v[i];
  w->stride[d] = p->global_pool ? 1 : p->stride.v[i];
  w->pad[d] = p->global_pool ? 0 : p->pad.v[i];
  w->dilate[d] = p->global_pool || w->kernel[d] == 1 ? 1 : p->dilate.v[i];
  pool->limit[d] = w->in[d] + w->pad[d];
  if (!p->global_pool &&
      p->pooling_convention == NN_POOLING_POOLING_CONVENTION_SAME) {
    const int64_t reach =
        (w->out[d] - 1) * w->stride[d] + w->dilate[d] * (w->kernel[d] - 1) + 1;
    w->pad[d] = nn_max(reach - w->in[d], 0) / 2;
    pool->limit[d] = nn_max(reach - w->pad[d], w->in[d]);
  }
  w->stride[d] = nn_window_limit_step(w->stride[d], w->in[d] + 2 * w->pad[d]);
}

/* Whether there is a single window, which contains the whole image. */
static inline int nn_pool_has_one_window(const nn_window *w) {
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    if (w->out[d] != 1 || w->pad[d] != 0 || w->kernel[d] != w->in[d] ||
        w->dilate[d] != 1)
      return 0;
  return 1;
}

/* Returns the geometry of a call. A single window that contains the whole image
 * becomes one line. */
static inline nn_pool nn_pool_make(const tn_frame *call) {
  const nn_pooling_params *p = nn_pooling_params_of(call);
  const int32_t rank = nn_pool_find_data(call)->ndim - 2;
  nn_pool pool;
  nn_window *w = &pool.window;
  memset(&pool, 0, sizeof pool);
  pool.kind = p->pool_type;
  pool.counts_padding = p->count_include_pad;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    w->in[d] = w->out[d] = w->kernel[d] = w->stride[d] = w->dilate[d] = 1;
    pool.limit[d] = 1;
    if (d >= NN_WINDOW_RANK - rank)
      nn_pool_set_dim(call, &pool, d, d - (NN_WINDOW_RANK - rank));
  }
  pool.in_size = nn_window_multiply_lengths(w->in);
  pool.out_size = nn_window_multiply_lengths(w->out);
  if (!nn_pool_has_one_window(w)) return pool;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    w->in[d] = w->kernel[d] = pool.limit[d] = d == 2 ? pool.in_size : 1;
    w->stride[d] = 1;
  }
  return pool;
}

#endif /* NN_POOL_GEOMETRY_H_ */
