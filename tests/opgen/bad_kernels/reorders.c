/* SPDX-License-Identifier: Apache-2.0
 * reorders.c: computes the gradient of z first. It may be in the memory of the
 * output gradient, which the gradient of x reads after that.
 * expect: e gradient: f32, cpu, dense, inplace, z in grad.out: `x` (f32),
 * element (0): expected
 */
#define BAD_BACK
#include "bad.h"

int32_t lab_bad(const tn_frame *call) {
  return compute(call);
}

int32_t lab_bad_back(const tn_frame *call) {
  const float *head = floats_of(&call->in[0]);
  for (uint32_t k = 2; k-- > 0;) {
    if (call->req[k] == TN_REQ_NULL) continue;
    float *to = (float *)call->out[k].data;
    const float *other = floats_of(&call->in[2 - k]);
    for (int64_t i = 0; i < tn_tensor_size(&call->out[k]); ++i)
      to[i] = scale_of(call) * head[i] * other[i];
  }
  return TN_OK;
}
