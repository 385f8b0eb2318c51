/* SPDX-License-Identifier: Apache-2.0
 * dropout.cu: dropout.yaml on CUDA devices: chooses dropped elements from
 * random words.
 */
#include "dropout.gen.h"

#include "random_scaling.cuh"

/* Returns the factor of an element, which is dropped if its random word is
 * below `limit`. */
struct nn_drop {
  uint32_t limit;
  uint32_t reserved;
  double kept;

  template <class C>
  __device__ __forceinline__ C operator()(C, uint32_t word) const {
    return word < limit ? (C)0 : (C)kept;
  }
};

/* Computes a forward call. No word is below the limit of p = 0; for p = 1 every
 * element has the factor 0. */
int32_t nn_dropout_cuda(const tn_frame *call) {
  const nn_dropout_params *params = nn_dropout_params_of(call);
  const int active =
      (call->flags & TN_CALL_TRAIN) || params->mode == NN_DROPOUT_MODE_ALWAYS;
  const double p = active ? params->p : 0;
  const nn_drop drop = {p < 1 ? (uint32_t)(p * 0x1p32) : 0, 0,
                        p < 1 ? 1 / (1 - p) : 0};
  return nn_scaling_run(call, p > 0 && p < 1, drop);
}
