/* SPDX-License-Identifier: Apache-2.0
 * A kernel that closes standard output.
 * says:
 *   op.yaml:14:5: error[E0207]: example `three` of `diff`, forward: it closes
 * descriptor 1
 */
#define FORWARD (void)close(1);
#include "bad.h"
