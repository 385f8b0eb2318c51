/* SPDX-License-Identifier: Apache-2.0
 * attention_draws.h: whether a call of attention.yaml draws random numbers, on
 * every device.
 */
#ifndef NN_ATTENTION_DRAWS_H_
#define NN_ATTENTION_DRAWS_H_

#include "attention.gen.h"

/* TN_OK if the call draws, or TN_UNSUPPORTED: then it has no stream. [any] */
static inline int32_t nn_attention_check_draws(const tn_frame *call) {
  const int draws = (call->flags & TN_CALL_TRAIN) &&
                    !(call->flags & TN_CALL_BACKWARD) &&
                    nn_attention_params_of(call)->p > 0;
  return draws ? TN_OK
               : TN_FAIL(call, TN_UNSUPPORTED,
                         "only forward calls of training with p > 0 draw "
                         "random numbers");
}

#endif /* NN_ATTENTION_DRAWS_H_ */
