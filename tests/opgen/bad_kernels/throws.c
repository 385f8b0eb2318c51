/* SPDX-License-Identifier: Apache-2.0
 * throws.c: throws a C++ exception (throws.cc) out of the kernel.
 * expect: e: f32, cpu, dense, new: the process was ended by signal 6 (Aborted)
 */
#define BAD_STEP spoil
#include "bad.h"

void throw_number(void);

static void spoil(const tn_frame *call) {
  (void)call;
  throw_number();
}
