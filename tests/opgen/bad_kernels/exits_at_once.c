/* SPDX-License-Identifier: Apache-2.0
 * exits_at_once.c: ends the process with success, without handlers.
 * expect: e: f32, cpu, dense, new: the process ended with exit status 0, inside
 * the call
 */
#define BAD_STEP spoil
#include <unistd.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  _exit(0);
}
