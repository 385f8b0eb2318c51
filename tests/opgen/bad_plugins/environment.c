/* SPDX-License-Identifier: Apache-2.0
 * A kernel that sets a variable.
 * says:
 *   op.yaml:14:5: error[E0207]: example `three` of `diff`, forward: it changes
 * the environment
 */
#define FORWARD (void)setenv("BAD", "1", 1);
#include "bad.h"
