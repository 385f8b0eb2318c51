/* SPDX-License-Identifier: Apache-2.0
 * divides_by_zero.c: divides an integer by zero.
 * expect: e: f32, cpu, dense, new: the process was ended by signal 8 (Floating
 * point exception)
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  volatile int zero = 0;
  zero = 7 / zero;
}
