/* SPDX-License-Identifier: Apache-2.0
 * A backward kernel that aborts.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it ended the process: Aborted
 * (gradient)
 */
#define BACKWARD abort();
#include "bad.h"
