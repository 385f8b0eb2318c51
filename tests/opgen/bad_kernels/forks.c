/* SPDX-License-Identifier: Apache-2.0
 * forks.c: leaves a process.
 * expect: e: f32, cpu, dense, new: the kernel left a process running
 */
#define BAD_STEP spoil
#include <unistd.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  if (fork() == 0) {
    (void)setsid();
    for (;;) (void)pause();
  }
}
