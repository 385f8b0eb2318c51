/* SPDX-License-Identifier: Apache-2.0
 * speaks.c: leaves another locale.
 * expect: e: f32, cpu, dense, new: the kernel changed the locale
 */
#define BAD_STEP spoil
#include <locale.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  (void)setlocale(LC_ALL, "C.UTF-8");
}
