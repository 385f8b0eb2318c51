/* SPDX-License-Identifier: Apache-2.0
 * loops.c: never ends.
 * expect: e: f32, cpu, dense, new: it did not end within 1 s
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  for (volatile int i = 0;; ++i) continue;
}
