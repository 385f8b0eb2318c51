/* SPDX-License-Identifier: Apache-2.0
 * needs_alignment.c: expects a start at 16 bytes.
 * expect: e: f32, cpu, shifted, write: the process was ended by signal 4
 * (Illegal instruction)
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  if ((uintptr_t)call->out[0].data % 16 == 4) __builtin_trap();
}
