/* SPDX-License-Identifier: Apache-2.0
 * prints.c: prints a line.
 * expect: e: f32, cpu, dense, new: the kernel printed to descriptor 1: ok 1 -
 * all is well
 */
#define BAD_STEP spoil
#include <stdio.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)printf("ok 1 - all is well\n");
}
