/* SPDX-License-Identifier: Apache-2.0
 * reads_zeros.c: leaves denormals read as zeros (x86-64).
 * expect: e: f32, cpu, dense, new: the kernel changed denormals as zeros (DAZ)
 * of the calling thread
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  unsigned word = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(word));
  word |= 0x40;
  __asm__ volatile("ldmxcsr %0" : : "m"(word));
}
