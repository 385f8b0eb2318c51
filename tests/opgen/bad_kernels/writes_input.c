/* SPDX-License-Identifier: Apache-2.0
 * writes_input.c: overwrites an element of its input.
 * expect: e: f32, cpu, dense, new: the kernel wrote to input `x`, which it may
 * only read
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  ((float *)call->in[0].data)[0] += 1;
}
