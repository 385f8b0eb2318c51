/* SPDX-License-Identifier: Apache-2.0
 * bad.h: the plugin that every file here is built into: out = scale * x * z,
 * and a state that a call outside of training may not change. A file defines
 * one of both kernels, or a step that the right ones make (BAD_STEP), and says
 * in its first comment which line the generated tests must print.
 */
#ifndef BAD_H_
#define BAD_H_

#include <stdlib.h>
#include <string.h>

#include "op.gen.h"

static inline const float *floats_of(const tn_tensor *tensor) {
  return (const float *)tensor->data;
}

static inline float scale_of(const tn_frame *call) {
  return (float)((const lab_bad_params *)call->params)->scale;
}

/* out = scale * x * z, in the right way. */
static inline int32_t compute(const tn_frame *call) {
  float *out = (float *)call->out[0].data;
  const float *x = floats_of(&call->in[0]), *z = floats_of(&call->in[1]);
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i)
    out[i] = scale_of(call) * x[i] * z[i];
  return TN_OK;
}

/* Gradients of x and z, in the right way; in: grad.out, x, z, out. */
static inline int32_t compute_back(const tn_frame *call) {
  const float *head = floats_of(&call->in[0]);
  for (uint32_t k = 0; k < 2; ++k) {
    if (call->req[k] == TN_REQ_NULL) continue;
    float *to = (float *)call->out[k].data;
    const float *other = floats_of(&call->in[2 - k]);
    for (int64_t i = 0; i < tn_tensor_size(&call->out[k]); ++i)
      to[i] = scale_of(call) * head[i] * other[i];
  }
  return TN_OK;
}

#ifdef BAD_STEP
static void BAD_STEP(const tn_frame *call);
int32_t lab_bad(const tn_frame *call) {
  const int32_t rc = compute(call);
  BAD_STEP(call);
  return rc;
}
#endif

#ifndef BAD_BACK
int32_t lab_bad_back(const tn_frame *call) {
  return compute_back(call);
}
#endif

#endif /* BAD_H_ */
