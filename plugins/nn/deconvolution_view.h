/* SPDX-License-Identifier: Apache-2.0
 * deconvolution_view.h: a call of deconvolution.yaml as the convolution of
 * which it is the gradient: `out` is the data of that convolution, and `data`
 * its out. Kernels of every device include it.
 */
#ifndef NN_DECONVOLUTION_VIEW_H_
#define NN_DECONVOLUTION_VIEW_H_

#include "deconvolution.gen.h"
#include "window_lists.h"

/* Returns a tensor with the shape of `data`, in a forward or backward call. Its
 * rank is -1 if only the gradient of the bias is requested. [any] */
static inline const tn_tensor *nn_deconvolution_find_data(
    const tn_frame *call) {
  if (!(call->flags & TN_CALL_BACKWARD))
    return &call->in[NN_DECONVOLUTION_IN_DATA];
  return call->req[NN_DECONVOLUTION_IN_DATA] != TN_REQ_NULL
             ? &call->out[NN_DECONVOLUTION_IN_DATA]
             : &call->in[NN_DECONVOLUTION_BACKWARD_IN_DATA];
}

/* Returns a tensor with the shape of `out`, in a forward or backward call.
 * [any] */
static inline const tn_tensor *nn_deconvolution_find_out(const tn_frame *call) {
  return call->flags & TN_CALL_BACKWARD
             ? &call->in[NN_DECONVOLUTION_BACKWARD_GRAD_OUT]
             : &call->out[NN_DECONVOLUTION_OUT_OUT];
}

/* Returns the windows over images of `out`. There are as many as `data` has
 * elements; none if the shape of `data` is unknown. [any] */
static inline nn_window nn_deconvolution_make_window(const tn_frame *call) {
  static const int64_t none[NN_WINDOW_RANK] = {0, 0, 0};
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  const tn_tensor *data = nn_deconvolution_find_data(call);
  const tn_tensor *out = nn_deconvolution_find_out(call);
  const int64_t *windows = data->ndim < 0 ? none : data->shape + 2;
  int64_t pad[NN_WINDOW_RANK];
  const tn_ints all_pad = {pad, p->kernel.n};
  const nn_window_lists lists = {&p->kernel, &p->stride, &p->dilate, &all_pad};
  for (int64_t i = 0; i < p->kernel.n; ++i) {
    pad[i] = p->pad.v[i];
    if (p->target_shape.n == 0 || data->ndim < 0) continue;
    const int64_t full =
        p->stride.v[i] * (windows[i] - 1) + nn_window_find_reach(&lists, i);
    pad[i] = (full - p->target_shape.v[i] + 1) / 2;
  }
  return nn_window_from_lists(&lists, out->shape + 2, windows);
}

#endif /* NN_DECONVOLUTION_VIEW_H_ */
