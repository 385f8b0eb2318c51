/* SPDX-License-Identifier: Apache-2.0
 * blocks_signals.c: leaves a signal blocked.
 * expect: e: f32, cpu, dense, new: the kernel changed the mask of signal 15
 */
#define BAD_STEP spoil
#include <signal.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  sigset_t set;
  (void)sigemptyset(&set);
  (void)sigaddset(&set, SIGTERM);
  (void)sigprocmask(SIG_BLOCK, &set, NULL);
}
