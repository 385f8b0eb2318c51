/* SPDX-License-Identifier: Apache-2.0
 * A kernel that closes every descriptor.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it ended the process with
 * status 1 (forward)
 */
#define FORWARD closefrom(0);
#include "bad.h"
