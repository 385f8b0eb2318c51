/* SPDX-License-Identifier: Apache-2.0
 * writes_after.c: writes one element after the end of its output.
 * expect: e: f32, cpu, dense, write: the kernel read or wrote 1 bytes after the
 * last element of `out`
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  ((float *)call->out[0].data)[tn_tensor_size(&call->out[0])] = 1;
}
