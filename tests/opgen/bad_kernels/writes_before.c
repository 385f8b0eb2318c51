/* SPDX-License-Identifier: Apache-2.0
 * writes_before.c: writes one element before its output.
 * expect: e: f32, cpu, front, write: the kernel read or wrote 4 bytes before
 * the first element of `out`
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  ((float *)call->out[0].data)[-1] = 1;
}
