/* SPDX-License-Identifier: Apache-2.0
 * lp_pooling_view.h: a call of lp_pooling.yaml as a call of nn.pooling with the
 * same windows. Kernels of every device include it.
 */
#ifndef NN_LP_POOLING_VIEW_H_
#define NN_LP_POOLING_VIEW_H_

#include "lp_pooling.gen.h"
#include "pool_geometry.h"

/* Makes the call of nn.pooling that adds the elements of the windows of `call`.
 * [any] */
static inline void nn_lp_pooling_make_call(const tn_frame *call,
                                           nn_pool_call *own) {
  const nn_lp_pooling_params *p = nn_lp_pooling_params_of(call);
  const nn_window_lists lists = {&p->kernel, &p->stride, &p->dilate, &p->pad};
  nn_pool_make_call(call, &lists, NN_POOLING_POOL_TYPE_SUM,
                    p->pooling_convention, own);
  own->params.global_pool = p->global_pool;
}

/* Returns the windows of a call. [any] */
static inline nn_pool nn_lp_pooling_make_pool(const tn_frame *call) {
  nn_pool_call own;
  nn_lp_pooling_make_call(call, &own);
  return nn_pool_make(&own.frame);
}

#endif /* NN_LP_POOLING_VIEW_H_ */
