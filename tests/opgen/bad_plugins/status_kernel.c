/* SPDX-License-Identifier: Apache-2.0
 * A kernel that ends the process with the status of a missing program.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it ended the process with
 * status 127 (forward)
 */
#define FORWARD _exit(127);
#include "bad.h"
