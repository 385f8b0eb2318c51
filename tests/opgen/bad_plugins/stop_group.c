/* SPDX-License-Identifier: Apache-2.0
 * A kernel that stops all processes of its group, the guard too.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it did not end within 3
 * seconds (forward)
 */
#define FORWARD (void)kill(0, SIGSTOP);
#include "bad.h"
