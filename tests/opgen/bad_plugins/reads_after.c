/* SPDX-License-Identifier: Apache-2.0
 * A kernel that reads one element too many.
 * says:
 *   op.yaml:14:5: error[E0202]: example `three` of `diff`, forward: it reads
 * after the end of `b`
 */
#define AFTER                 \
  volatile float next = b[n]; \
  (void)next;
#include "bad.h"
