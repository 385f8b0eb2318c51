/* SPDX-License-Identifier: Apache-2.0
 * floating.c: see floating.h: a mode that has to be replaced, which is rare.
 */
#include "floating.h"

static _Thread_local tn__floating_log replaced;

const tn__floating_log *tn__floating_replaced(void) {
  return &replaced;
}

void tn__floating_replace(const tn__floating *before, const tn__floating *now) {
  ++replaced.n;
  replaced.last = *now;
  tn__floating_set(before, now);
}
