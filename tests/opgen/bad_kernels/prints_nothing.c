/* SPDX-License-Identifier: Apache-2.0
 * prints_nothing.c: writes, waits and sets, and puts everything back; every
 * case passes.
 */
#define BAD_STEP spoil
#include <fenv.h>
#include <unistd.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  const int mode = fegetround();
  (void)fesetround(FE_UPWARD);
  (void)fesetround(mode);
  free(malloc(100));
  const int file = dup(0);
  (void)close(file);
}
