/* SPDX-License-Identifier: Apache-2.0
 * spoils_head.c: overwrites the gradient that it is given.
 * expect: e gradient: f32, cpu, dense, write, all gradients: the kernel wrote
 * to output gradient `out`, which it may only read
 */
#define BAD_BACK
#include "bad.h"

int32_t lab_bad(const tn_frame *call) {
  return compute(call);
}

int32_t lab_bad_back(const tn_frame *call) {
  const int32_t rc = compute_back(call);
  ((float *)call->in[0].data)[0] += 1;
  return rc;
}
