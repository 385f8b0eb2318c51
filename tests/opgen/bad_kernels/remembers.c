/* SPDX-License-Identifier: Apache-2.0
 * remembers.c: depends on an earlier call.
 * expect: e: f32, cpu, dense, again: `out` has other bits after a call with
 * other numbers, and the kernel says that it is deterministic
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  static float last;
  ((float *)call->out[0].data)[0] += last * 1e-6f;
  last = floats_of(&call->in[0])[0] == 3 ? 1 : last;
}
