/* SPDX-License-Identifier: Apache-2.0
 * A kernel that uses its input as scratch memory.
 * says:
 *   op.yaml:14:5: error[E0201]: example `three` of `diff`, forward: it writes
 * to `a`, which this call only reads
 */
#define FORWARD a[0] = a[0];
#include "bad.h"
