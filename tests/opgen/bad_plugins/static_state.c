/* SPDX-License-Identifier: Apache-2.0
 * A kernel with a static variable.
 * says:
 *   op.yaml:14:5: error[E0203]: example `three` of `diff`, forward: in other
 * memory, element 2 of `out` is 7, and was 6
 */
#define AFTER         \
  static int n_calls; \
  out[n - 1] += (float)n_calls++;
#include "bad.h"
