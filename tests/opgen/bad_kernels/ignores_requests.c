/* SPDX-License-Identifier: Apache-2.0
 * ignores_requests.c: writes a gradient that is not wanted.
 * expect: e gradient: f32, cpu, DRAWN, x alone: the kernel read or wrote
 * through a NULL pointer; the process was ended by signal 11 (Segmentation
 * fault)
 */
#define BAD_BACK
#include "bad.h"

int32_t lab_bad(const tn_frame *call) {
  return compute(call);
}

int32_t lab_bad_back(const tn_frame *call) {
  const float *head = floats_of(&call->in[0]);
  const float *x = floats_of(&call->in[1]), *z = floats_of(&call->in[2]);
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    ((float *)call->out[0].data)[i] = scale_of(call) * head[i] * z[i];
    ((float *)call->out[1].data)[i] = scale_of(call) * head[i] * x[i];
  }
  return TN_OK;
}
