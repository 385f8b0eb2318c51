/* SPDX-License-Identifier: Apache-2.0
 * A kernel that ends the process as if all were well.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it ended the process with
 * status 0 (forward)
 */
#define FORWARD exit(0);
#include "bad.h"
