/* SPDX-License-Identifier: Apache-2.0
 * A kernel that leaves an element as it was.
 * says:
 *   op.yaml:14:5: error[E0203]: example `three` of `diff`, forward: in other
 * memory, element 0 of `out` is 0.5, and was 0
 */
#define AFTER         \
  static int n_calls; \
  if (n_calls++ > 0) out[0] = 0.5f;
#include "bad.h"
