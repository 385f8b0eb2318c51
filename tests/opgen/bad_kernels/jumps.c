/* SPDX-License-Identifier: Apache-2.0
 * jumps.c: leaves with longjmp to a place that was never set.
 * expect: e: f32, cpu, dense, new: the kernel read or wrote
 */
#include <setjmp.h>
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  static jmp_buf place;
  (void)call;
  longjmp(place, 1);
}
