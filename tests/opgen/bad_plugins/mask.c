/* SPDX-License-Identifier: Apache-2.0
 * A kernel that changes the umask.
 * says:
 *   op.yaml:14:5: error[E0207]: example `three` of `diff`, forward: it changes
 * the umask to 077
 */
#define FORWARD (void)umask(077);
#include "bad.h"
