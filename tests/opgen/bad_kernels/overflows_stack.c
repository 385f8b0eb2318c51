/* SPDX-License-Identifier: Apache-2.0
 * overflows_stack.c: calls itself without end.
 * expect: e: f32, cpu, dense, new: the stack overflowed; the process was ended
 * by signal 11 (Segmentation fault)
 */
#define BAD_STEP spoil
#include "bad.h"

static int descend(volatile char *above) {
  volatile char here[4096];
  here[0] = above[0];
  return descend(here) + here[0];
}

static void spoil(const tn_frame *call) {
  (void)call;
  volatile char top[1] = {0};
  (void)descend(top);
}
