/* SPDX-License-Identifier: Apache-2.0
 * aborts.c: aborts.
 * expect: e: f32, cpu, dense, new: the process was ended by signal 6 (Aborted)
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  abort();
}
