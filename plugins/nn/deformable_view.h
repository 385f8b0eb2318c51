/* SPDX-License-Identifier: Apache-2.0
 * deformable_view.h: a call of deformable_convolution.yaml: its sizes, and the
 * positions at which windows read images. Kernels of every device include it.
 */
#ifndef NN_DEFORMABLE_VIEW_H_
#define NN_DEFORMABLE_VIEW_H_

#include <string.h>

#include "deformable_convolution.gen.h"
#include "sample_taps.h"

enum { NN_DEFORMABLE_TAPS = 4 }; /* elements of an interpolation */

/* Sizes of a call; index 0 of a pair is the dimension down. */
typedef struct nn_deformable_view {
  nn_sample_rule rule;
  int64_t images;
  int64_t channels; /* of data, in all groups */
  int64_t filters;  /* in all groups */
  int64_t groups;
  int64_t offset_groups;
  int64_t size;    /* elements of an image of one channel */
  int64_t windows; /* number in an image */
  int64_t across;  /* windows in a row */
  int64_t taps;    /* elements of a window */
  int64_t kernel[2];
  int64_t stride[2];
  int64_t dilate[2];
  int64_t pad[2];
} nn_deformable_view;

/* Returns a tensor with the shape of `data`, in a forward or backward call. Its
 * rank is -1 if only the gradient of the bias is requested. [any] */
static inline const tn_tensor *nn_deformable_find_data(const tn_frame *call) {
  if (!(call->flags & TN_CALL_BACKWARD))
    return &call->in[NN_DEFORMABLE_CONVOLUTION_IN_DATA];
  return call->req[NN_DEFORMABLE_CONVOLUTION_IN_DATA] != TN_REQ_NULL
             ? &call->out[NN_DEFORMABLE_CONVOLUTION_IN_DATA]
             : &call->in[NN_DEFORMABLE_CONVOLUTION_BACKWARD_IN_DATA];
}

/* Tests whether input i of a call was passed and has elements to read. [any] */
static inline int nn_deformable_has_input(const tn_frame *call, uint32_t i) {
  return i < call->n_in && (call->in_flags[i] & TN_IN_ABSENT) == 0;
}

/* Returns the sizes of a forward or backward call. Images have no elements if
 * the shape of data is unknown. [any] */
static inline nn_deformable_view nn_deformable_view_call(const tn_frame *call) {
  const nn_deformable_convolution_params *p =
      nn_deformable_convolution_params_of(call);
  const tn_tensor *data = nn_deformable_find_data(call);
  const tn_tensor *out =
      call->flags & TN_CALL_BACKWARD
          ? &call->in[NN_DEFORMABLE_CONVOLUTION_BACKWARD_GRAD_OUT]
          : &call->out[NN_DEFORMABLE_CONVOLUTION_OUT_OUT];
  nn_deformable_view v;
  memset(&v, 0, sizeof v);
  v.rule.mode = NN_SAMPLE_LINEAR;
  v.rule.padding = NN_SAMPLE_ZEROS;
  v.rule.align_corners = 1;
  v.rule.rank = 2;
  v.rule.size[0] = 1;
  v.images = out->shape[0];
  v.channels = data->ndim < 0 ? 0 : data->shape[1];
  v.filters = p->num_filter;
  v.groups = p->num_group;
  v.offset_groups = p->num_deformable_group;
  v.size = v.windows = v.taps = 1;
  for (int d = 0; d < 2; ++d) {
    v.rule.size[d + 1] = data->ndim < 0 ? 0 : data->shape[d + 2];
    v.kernel[d] = p->kernel.v[d];
    v.stride[d] = p->stride.v[d];
    v.dilate[d] = p->dilate.v[d];
    v.pad[d] = p->pad.v[d];
    v.size *= v.rule.size[d + 1];
    v.windows *= out->shape[d + 2];
    v.taps *= v.kernel[d];
  }
  v.across = out->shape[3];
  return v;
}

/* Tests whether no element of an image is multiplied. [any] */
TN_MATH_FN int nn_deformable_is_empty(const nn_deformable_view *v) {
  return v->images == 0 || v->channels == 0 || v->size == 0 || v->windows == 0;
}

/* Returns the index of window 0 among the elements of `mask`, for tap t of an
 * image and a group of offsets. Twice as many planes precede in `offset`. [any]
 */
TN_MATH_FN int64_t nn_deformable_find_plane(const nn_deformable_view *v,
                                            int64_t image, int64_t group,
                                            int64_t t) {
  return ((image * v->offset_groups + group) * v->taps + t) * v->windows;
}

/* Sets the elements along both dimensions for tap t of a window, moved by an
 * offset: a distance down and one across. [any] */
TN_MATH_FN void nn_deformable_find_lines(const nn_deformable_view *v, int64_t t,
                                         int64_t window, const double *offset,
                                         nn_sample_line *lines) {
  const int64_t row = window / v->across, column = window % v->across;
  const int64_t y = row * v->stride[0] + t / v->kernel[1] * v->dilate[0];
  const int64_t x = column * v->stride[1] + t % v->kernel[1] * v->dilate[1];
  nn_sample_set_line(&v->rule, v->rule.size[1],
                     (double)(y - v->pad[0]) + offset[0], 1, &lines[1]);
  nn_sample_set_line(&v->rule, v->rule.size[2],
                     (double)(x - v->pad[1]) + offset[1], 1, &lines[2]);
}

#endif /* NN_DEFORMABLE_VIEW_H_ */
