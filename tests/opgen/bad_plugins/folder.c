/* SPDX-License-Identifier: Apache-2.0
 * A kernel that changes the current folder.
 * says:
 *   op.yaml:14:5: error[E0207]: example `three` of `diff`, forward: it changes
 * the current folder to /
 */
#define FORWARD (void)!chdir("/");
#include "bad.h"
