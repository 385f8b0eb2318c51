/* SPDX-License-Identifier: Apache-2.0
 * forges.c: writes to every descriptor.
 * expect: e: f32, cpu, dense, new: the kernel wrote to a descriptor that is not
 * its own: the records of this test are damaged
 */
#define BAD_STEP spoil
#include <unistd.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  for (int i = 3; i < 1024; ++i)
    if (write(i, "CRNT and more than a head", 25) < 0) continue;
}
