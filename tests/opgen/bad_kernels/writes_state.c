/* SPDX-License-Identifier: Apache-2.0
 * writes_state.c: changes a state outside of training.
 * expect: e: f32, cpu, dense, new: the kernel wrote to state `kept`, which it
 * may only read
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  ((float *)call->aux[0].data)[0] += 1;
}
