/* SPDX-License-Identifier: Apache-2.0
 * complains.c: prints a line to stderr.
 * expect: e: f32, cpu, dense, new: the kernel printed to descriptor 2: x is
 * small
 */
#define BAD_STEP spoil
#include <stdio.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)fprintf(stderr, "x is small\n");
}
