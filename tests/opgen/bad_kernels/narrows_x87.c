/* SPDX-License-Identifier: Apache-2.0
 * narrows_x87.c: leaves the x87 in single precision (x86-64).
 * expect: e: f32, cpu, dense, new: the kernel changed the control word of the
 * x87 of the calling thread
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  unsigned short word = 0;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  word &= 0xfcff;
  __asm__ volatile("fldcw %0" : : "m"(word));
}
