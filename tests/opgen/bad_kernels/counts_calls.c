/* SPDX-License-Identifier: Apache-2.0
 * counts_calls.c: gives other bits in each call.
 * expect: e: f32, cpu, dense, again: `out` has other bits in a second call, and
 * the kernel says that it is deterministic
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  static float calls;
  ((float *)call->out[0].data)[0] *= 1 + 1e-7f * ++calls;
}
