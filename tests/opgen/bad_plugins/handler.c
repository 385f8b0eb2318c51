/* SPDX-License-Identifier: Apache-2.0
 * A kernel that sets a signal handler.
 * says:
 *   op.yaml:14:5: error[E0207]: example `three` of `diff`, forward: it changes
 * the handler of SIGUSR1
 */
#define FORWARD (void)signal(SIGUSR1, SIG_IGN);
#include "bad.h"
