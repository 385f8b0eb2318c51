/* SPDX-License-Identifier: Apache-2.0
 * stops.c: stops its process.
 * expect: e: f32, cpu, dense, new: it did not end within 1 s
 */
#define BAD_STEP spoil
#include <signal.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)raise(SIGSTOP);
}
