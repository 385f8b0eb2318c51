/* SPDX-License-Identifier: Apache-2.0
 * A kernel whose recursion has no end.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: its stack overflows
 */
static long recurse(long n);
#define FORWARD out[0] = (float)recurse(n);
#include "bad.h"

static long recurse(long n) {
  volatile char page[4096];
  page[0] = (char)n;
  return page[0] + recurse(n + 1) + page[0];
}
