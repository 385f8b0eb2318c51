/* SPDX-License-Identifier: Apache-2.0
 * sample_view.h: the geometry of a call of grid_sample.yaml's operators.
 * Kernels of every device include it.
 */
#ifndef NN_SAMPLE_VIEW_H_
#define NN_SAMPLE_VIEW_H_

#include <string.h>

#include "grid_sample.gen.h"
#include "sample_taps.h"

/* Fields as those of nn_sample in sample.h. */
typedef struct nn_sample_view {
  nn_sample_rule rule;
  int64_t images;
  int64_t channels;
  int64_t size;
  int64_t points;
  int64_t grid_step;
  int64_t point_step;
  int64_t coordinate_step;
} nn_sample_view;

/* Returns the geometry of a call, with coordinates that are planes. In a
 * backward call a tensor with the shape of data is out[0], and the output
 * gradient is in[0]. */
static inline nn_sample_view nn_sample_view_call(const tn_frame *call) {
  const int is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *data = is_back ? &call->out[0] : &call->in[0];
  const tn_tensor *out = is_back ? &call->in[0] : &call->out[0];
  nn_sample_view v;
  memset(&v, 0, sizeof v);
  v.rule.mode = NN_SAMPLE_LINEAR;
  v.rule.padding = NN_SAMPLE_ZEROS;
  v.rule.align_corners = 1;
  v.rule.rank = data->ndim - 2;
  v.images = data->shape[0];
  v.channels = data->shape[1];
  v.size = v.points = 1;
  for (int32_t d = 0; d < NN_SAMPLE_RANK; ++d) v.rule.size[d] = 1;
  for (int32_t d = 2; d < data->ndim; ++d) {
    v.rule.size[NN_SAMPLE_RANK - data->ndim + d] = data->shape[d];
    v.size *= data->shape[d];
    v.points *= out->shape[d];
  }
  v.grid_step = v.points * v.rule.rank;
  v.point_step = 1;
  v.coordinate_step = v.points;
  return v;
}

/* Returns the geometry of a call of nn.grid_sample, which has the coordinates
 * of a point side by side. */
static inline nn_sample_view nn_grid_sample_view_call(const tn_frame *call) {
  const nn_grid_sample_params *p = nn_grid_sample_params_of(call);
  nn_sample_view v = nn_sample_view_call(call);
  v.rule.mode = p->mode;
  v.rule.padding = p->padding;
  v.rule.align_corners = p->align_corners;
  v.point_step = v.rule.rank;
  v.coordinate_step = 1;
  return v;
}

/* Returns the geometry of a call of nn.bilinear_sampler. */
static inline nn_sample_view nn_bilinear_sampler_view_call(
    const tn_frame *call) {
  return nn_sample_view_call(call);
}

/* Returns the geometry of a call of nn.spatial_transformer, for a grid of
 * planes. */
static inline nn_sample_view nn_spatial_transformer_view_call(
    const tn_frame *call) {
  return nn_sample_view_call(call);
}

#endif /* NN_SAMPLE_VIEW_H_ */
