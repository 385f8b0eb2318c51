/* SPDX-License-Identifier: Apache-2.0
 * reads_after.c: reads one element after the end of an input.
 * expect: e: f32, cpu, dense, new: the kernel read or wrote 1 bytes after the
 * last element of `z`
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  volatile float unused = floats_of(&call->in[1])[tn_tensor_size(&call->in[1])];
  (void)unused;
}
