/* SPDX-License-Identifier: Apache-2.0
 * moves.c: leaves another current folder.
 * expect: e: f32, cpu, dense, new: the kernel changed the current folder
 */
#define BAD_STEP spoil
#include <unistd.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  if (chdir("/") != 0) abort();
}
