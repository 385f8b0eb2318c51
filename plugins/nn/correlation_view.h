/* SPDX-License-Identifier: Apache-2.0
 * correlation_view.h: the geometry of a call of correlation.yaml. Kernels of
 * every device include it.
 */
#ifndef NN_CORRELATION_VIEW_H_
#define NN_CORRELATION_VIEW_H_

#include <string.h>

#include "correlation.gen.h"
#include "tenon/kernel/math.h"

/* Images, and windows of out; index 0 of a pair is the dimension down. */
typedef struct nn_correlation_view {
  int64_t images;
  int64_t channels;
  int64_t size[2];    /* of an image */
  int64_t windows[2]; /* of an image */
  int64_t kernel;
  int64_t first; /* index of the first window without padding */
  int64_t stride;
  int64_t step;  /* between displacements */
  int64_t reach; /* largest displacement in steps */
  int64_t count; /* displacements along a dimension */
  double share;  /* factor of a sum of products */
  int32_t multiplies;
  int32_t reserved;
} nn_correlation_view;

/* Returns the geometry of a call, forward or backward. [any] */
static inline nn_correlation_view nn_correlation_view_call(
    const tn_frame *call) {
  const nn_correlation_params *p = nn_correlation_params_of(call);
  const int is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *data = is_back ? &call->out[0] : &call->in[0];
  const tn_tensor *out = is_back ? &call->in[0] : &call->out[0];
  nn_correlation_view v;
  memset(&v, 0, sizeof v);
  v.images = data->shape[0];
  v.channels = data->shape[1];
  for (int d = 0; d < 2; ++d) {
    v.size[d] = data->shape[d + 2];
    v.windows[d] = out->shape[d + 2];
  }
  v.kernel = p->kernel_size;
  v.first = p->max_displacement - p->pad_size;
  v.stride = p->stride1;
  v.step = p->stride2;
  v.reach = p->max_displacement / p->stride2;
  v.count = 2 * v.reach + 1;
  if (v.channels > 0) v.share = 1 / (double)(v.kernel * v.kernel * v.channels);
  v.multiplies = p->is_multiply;
  return v;
}

/* Returns the product of two elements, or the magnitude of their difference.
 * [any] */
TN_MATH_FN double nn_correlation_compare(const nn_correlation_view *v, double a,
                                         double b) {
  return v->multiplies ? a * b : fabs(a - b);
}

/* Returns the derivative of that by a. [any] */
TN_MATH_FN double nn_correlation_derive(const nn_correlation_view *v, double a,
                                        double b) {
  if (v->multiplies) return b;
  return a > b ? 1 : a < b ? -1 : a - b;
}

#endif /* NN_CORRELATION_VIEW_H_ */
