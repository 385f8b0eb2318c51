/* SPDX-License-Identifier: Apache-2.0
 * A kernel that ends its thread, the only one.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it ended the process with
 * status 0 (forward)
 */
#define FORWARD pthread_exit(NULL);
#include "bad.h"
