/* SPDX-License-Identifier: Apache-2.0
 * A kernel that opens a file in each call.
 * says:
 *   op.yaml:14:5: error[E0207]: example `three` of `diff`, forward: it leaves
 * descriptor 4 open
 */
#define FORWARD (void)!open("/dev/null", O_RDONLY);
#include "bad.h"
