/* SPDX-License-Identifier: Apache-2.0
 * grid_view.h: the geometry of a call of affine_grid.yaml's operators. Kernels
 * of every device include it.
 */
#ifndef NN_GRID_VIEW_H_
#define NN_GRID_VIEW_H_

#include <string.h>

#include "affine_grid.gen.h"
#include "affine_view.h"

/* Returns the positions of a call of nn.affine_grid. */
static inline nn_affine_positions nn_affine_grid_view_call(
    const tn_frame *call) {
  const nn_affine_grid_params *p = nn_affine_grid_params_of(call);
  nn_affine_positions v;
  memset(&v, 0, sizeof v);
  v.images = call->out[0].shape[0];
  v.rank = (int32_t)p->size.n;
  v.align_corners = p->align_corners;
  for (int32_t d = 0; d < NN_AFFINE_RANK; ++d) {
    const int32_t i = d - (NN_AFFINE_RANK - v.rank);
    v.size[d] = i < 0 ? 1 : p->size.v[i];
  }
  return v;
}

/* Whether a call makes a grid of a flow. */
static inline int nn_grid_generator_is_warp(const tn_frame *call) {
  return nn_grid_generator_params_of(call)->transform_type ==
         NN_GRID_GENERATOR_TRANSFORM_TYPE_WARP;
}

/* Returns the positions of a call of nn.grid_generator with affine functions.
 */
static inline nn_affine_positions nn_grid_generator_view_call(
    const tn_frame *call) {
  return nn_affine_make_planes(
      call->out[0].shape[0], nn_grid_generator_params_of(call)->target_shape.v);
}

/* The geometry of a call of nn.grid_generator with a flow. */
typedef struct nn_flow_view {
  int64_t n; /* elements of the flow */
  int64_t height;
  int64_t width;
  int32_t is_back;
  int32_t reserved;
} nn_flow_view;

static inline nn_flow_view nn_grid_generator_view_flow(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  const nn_flow_view v = {tn_tensor_size(out), out->shape[2], out->shape[3],
                          (call->flags & TN_CALL_BACKWARD) != 0, 0};
  return v;
}

/* Returns element i of the grid for a distance x of the flow; backward, of the
 * gradient of the flow for an output gradient x. [any] */
TN_MATH_FN double nn_flow_find_position(const nn_flow_view *v, int64_t i,
                                        double x) {
  const int64_t plane = i / v->width / v->height % 2;
  const int64_t n = plane == 0 ? v->width : v->height;
  const int64_t at = plane == 0 ? i % v->width : i / v->width % v->height;
  const double scale = 2 / (double)(n > 1 ? n - 1 : 1);
  return v->is_back ? x * scale : ((double)at + x) * scale - 1;
}

#endif /* NN_GRID_VIEW_H_ */
