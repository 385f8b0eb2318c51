/* SPDX-License-Identifier: Apache-2.0
 * reads_before.c: reads one element before an input.
 * expect: e: f32, cpu, front, write: the kernel read or wrote 4 bytes before
 * the first element of `x`
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  volatile float unused = floats_of(&call->in[0])[-1];
  (void)unused;
}
