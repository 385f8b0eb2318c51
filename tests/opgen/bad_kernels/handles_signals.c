/* SPDX-License-Identifier: Apache-2.0
 * handles_signals.c: leaves a signal handler.
 * expect: e: f32, cpu, dense, new: the kernel changed the handler of signal 15
 */
#define BAD_STEP spoil
#include <signal.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)signal(SIGTERM, SIG_IGN);
}
