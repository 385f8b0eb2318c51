/* SPDX-License-Identifier: Apache-2.0
 * A kernel that writes one element too many.
 * says:
 *   op.yaml:14:5: error[E0202]: example `three` of `diff`, forward: it writes
 * after the end of `out`
 */
#define AFTER out[n] = 1;
#include "bad.h"
