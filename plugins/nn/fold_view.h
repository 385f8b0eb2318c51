/* SPDX-License-Identifier: Apache-2.0
 * fold_view.h: the geometry of a call of fold.yaml: images, and columns that
 * have an element of all windows. Kernels of every device include it.
 */
#ifndef NN_FOLD_VIEW_H_
#define NN_FOLD_VIEW_H_

#include "fold.gen.h"
#include "window_lists.h"

/* The columns of a plane, an image of one channel, are dense: (taps, windows).
 */
typedef struct nn_fold_view {
  nn_window window;
  int64_t planes; /* images times channels */
  int64_t in_size;
  int64_t windows;
  int64_t taps;
} nn_fold_view;

/* Returns the geometry from the shape of the images. */
static inline nn_fold_view nn_fold_make_view(const nn_window_lists *lists,
                                             const tn_tensor *images) {
  const int64_t *in = images->shape + 2;
  int64_t out[NN_WINDOW_RANK];
  nn_fold_view v;
  for (int64_t i = 0; i < lists->kernel->n; ++i)
    out[i] = nn_max(nn_window_count(lists, i, in[i]), 0);
  v.window = nn_window_from_lists(lists, in, out);
  v.planes = images->shape[0] * images->shape[1];
  v.in_size = nn_window_multiply_lengths(v.window.in);
  v.windows = nn_window_multiply_lengths(v.window.out);
  v.taps = nn_window_multiply_lengths(v.window.kernel);
  return v;
}

/* Returns the geometry of a call of unfold, forward or backward. */
static inline nn_fold_view nn_unfold_view_call(const tn_frame *call) {
  const nn_unfold_params *p = nn_unfold_params_of(call);
  const nn_window_lists lists = {&p->kernel, &p->stride, &p->dilate, &p->pad};
  return nn_fold_make_view(&lists, call->flags & TN_CALL_BACKWARD
                                       ? &call->out[NN_UNFOLD_IN_DATA]
                                       : &call->in[NN_UNFOLD_IN_DATA]);
}

/* Returns the geometry of a call of fold, forward or backward. */
static inline nn_fold_view nn_fold_view_call(const tn_frame *call) {
  const nn_fold_params *p = nn_fold_params_of(call);
  const nn_window_lists lists = {&p->kernel, &p->stride, &p->dilate, &p->pad};
  return nn_fold_make_view(&lists, call->flags & TN_CALL_BACKWARD
                                       ? &call->in[NN_FOLD_BACKWARD_GRAD_OUT]
                                       : &call->out[NN_FOLD_OUT_OUT]);
}

#endif /* NN_FOLD_VIEW_H_ */
