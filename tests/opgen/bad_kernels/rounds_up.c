/* SPDX-License-Identifier: Apache-2.0
 * rounds_up.c: leaves another rounding mode.
 * expect: e: f32, cpu, dense, new: the kernel changed the rounding mode of the
 * calling thread
 */
#define BAD_STEP spoil
#include <fenv.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)fesetround(FE_UPWARD);
}
