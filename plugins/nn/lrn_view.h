/* SPDX-License-Identifier: Apache-2.0
 * lrn_view.h: the sizes and numbers of a call of lrn.yaml. Kernels of every
 * device include it.
 */
#ifndef NN_LRN_VIEW_H_
#define NN_LRN_VIEW_H_

#include "lrn.gen.h"

typedef struct nn_lrn_rule {
  int64_t channels;
  int64_t inner; /* distance of channels */
  int64_t half;  /* channels of the window on each side of the middle */
  double share;  /* alpha/nsize */
  double beta;
  double knorm;
} nn_lrn_rule;

/* Returns the rule of a call; `like` has the shape of data. [any] */
static inline nn_lrn_rule nn_lrn_make_rule(const tn_frame *call,
                                           const tn_tensor *like) {
  const nn_lrn_params *p = nn_lrn_params_of(call);
  nn_lrn_rule rule;
  rule.channels = like->shape[1];
  rule.inner = 1;
  for (int32_t d = 2; d < like->ndim; ++d) rule.inner *= like->shape[d];
  rule.half = p->nsize / 2 < rule.channels ? p->nsize / 2 : rule.channels;
  rule.share = p->alpha / (double)p->nsize;
  rule.beta = p->beta;
  rule.knorm = p->knorm;
  return rule;
}

#endif /* NN_LRN_VIEW_H_ */
