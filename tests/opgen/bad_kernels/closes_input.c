/* SPDX-License-Identifier: Apache-2.0
 * closes_input.c: closes standard input.
 * expect: e: f32, cpu, dense, new: the kernel closed descriptor 0
 */
#define BAD_STEP spoil
#include <unistd.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)close(0);
}
