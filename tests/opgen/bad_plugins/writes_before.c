/* SPDX-License-Identifier: Apache-2.0
 * A kernel that writes before the beginning.
 * says:
 *   op.yaml:14:5: error[E0202]: example `three` of `diff`, forward: it writes
 * before the beginning of `out`
 */
#define AFTER out[-1] = 1;
#include "bad.h"
