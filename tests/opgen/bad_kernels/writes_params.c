/* SPDX-License-Identifier: Apache-2.0
 * writes_params.c: changes a parameter.
 * expect: e: f32, cpu, front, write: the kernel wrote to its parameters
 */
#define BAD_STEP spoil
#include "bad.h"

static void spoil(const tn_frame *call) {
  lab_bad_params *params = (lab_bad_params *)call->params;
  params->scale = 3;
}
