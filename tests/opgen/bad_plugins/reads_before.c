/* SPDX-License-Identifier: Apache-2.0
 * A kernel that reads before the beginning.
 * says:
 *   op.yaml:14:5: error[E0202]: example `three` of `diff`, forward: it reads
 * before the beginning of `b`
 */
#define AFTER                  \
  volatile float last = b[-1]; \
  (void)last;
#include "bad.h"
