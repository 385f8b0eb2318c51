/* SPDX-License-Identifier: Apache-2.0
 * good.c: does nothing wrong; every case passes.
 */
#include "bad.h"

int32_t lab_bad(const tn_frame *call) {
  return compute(call);
}
