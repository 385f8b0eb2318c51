// SPDX-License-Identifier: Apache-2.0
// throws.cc: throws out of the kernel; linked to throws_step.c.
extern "C" void throw_number(void);
void throw_number(void) {
  throw 1;
}
