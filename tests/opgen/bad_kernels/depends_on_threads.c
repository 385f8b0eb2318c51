/* SPDX-License-Identifier: Apache-2.0
 * depends_on_threads.c: has another result in another runtime.
 * expect: e: f32, cpu, dense, again: `out` has other bits with another number
 * of threads, and the kernel says that it is deterministic
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  static const tn_host *first;
  if (first == NULL) first = call->host;
  if (first != call->host) ((float *)call->out[0].data)[0] *= 1 + 1e-6f;
}
