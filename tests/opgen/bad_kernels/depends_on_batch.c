/* SPDX-License-Identifier: Apache-2.0
 * depends_on_batch.c: rows have other results in a large batch.
 * expect: e: f32, cpu, dense, batch: rows of `out` have other bits in a batch
 * of 257 than in one of 3, and the manifest says `batch_invariant: true`
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  const int64_t n = tn_tensor_size(&call->out[0]);
  if (n > 100) ((float *)call->out[0].data)[0] *= 1 + 1e-6f;
}
