/* SPDX-License-Identifier: Apache-2.0
 * kills.c: kills its process.
 * expect: e: f32, cpu, dense, new: the process was ended by signal 9 (Killed)
 */
#define BAD_STEP spoil
#include <signal.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)raise(SIGKILL);
}
