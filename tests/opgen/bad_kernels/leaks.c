/* SPDX-License-Identifier: Apache-2.0
 * leaks.c: takes memory in each call and keeps it.
 * expect: e: f32, cpu, dense, again: the kernel leaks: each of 6 equal calls
 * left more memory allocated
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  static void *volatile kept;
  kept = malloc(64);
}
