/* SPDX-License-Identifier: Apache-2.0
 * sets_environment.c: leaves another environment.
 * expect: e: f32, cpu, dense, new: the kernel changed the environment
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)setenv("OMP_NUM_THREADS", "1", 1);
}
