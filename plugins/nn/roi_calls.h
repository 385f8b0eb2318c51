/* SPDX-License-Identifier: Apache-2.0
 * roi_calls.h: reads the geometry of a call of roi.yaml. Kernels of every
 * device include it.
 */
#ifndef NN_ROI_CALLS_H_
#define NN_ROI_CALLS_H_

#include <string.h>

#include "roi.gen.h"
#include "roi_view.h"

/* Returns the geometry of a call of either operator, forward or backward. */
static inline nn_roi_view nn_roi_view_call(const tn_frame *call,
                                           const tn_ints *bins, double scale) {
  const int is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *data = is_back ? &call->out[0] : &call->in[0];
  const tn_tensor *out = is_back ? &call->in[0] : &call->out[0];
  nn_roi_view v;
  memset(&v, 0, sizeof v);
  v.images = data->shape[0];
  v.channels = data->shape[1];
  v.regions = out->shape[0];
  for (int d = 0; d < 2; ++d) {
    v.size[d] = data->shape[d + 2];
    v.bins[d] = bins->v[d];
  }
  v.scale = scale;
  return v;
}

static inline nn_roi_view nn_roi_pooling_view_call(const tn_frame *call) {
  const nn_roi_pooling_params *p = nn_roi_pooling_params_of(call);
  return nn_roi_view_call(call, &p->pooled_size, p->spatial_scale);
}

static inline nn_roi_view nn_roi_align_view_call(const tn_frame *call) {
  const nn_roi_align_params *p = nn_roi_align_params_of(call);
  nn_roi_view v = nn_roi_view_call(call, &p->pooled_size, p->spatial_scale);
  v.ratio = (int32_t)p->sampling_ratio;
  v.aligned = p->aligned;
  return v;
}

#endif /* NN_ROI_CALLS_H_ */
