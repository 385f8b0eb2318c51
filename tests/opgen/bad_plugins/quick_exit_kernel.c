/* SPDX-License-Identifier: Apache-2.0
 * The same without the handlers of exit.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it ended the process with
 * status 0 (forward)
 */
#define FORWARD _exit(0);
#include "bad.h"
