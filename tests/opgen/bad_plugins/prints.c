/* SPDX-License-Identifier: Apache-2.0
 * A kernel that prints a line.
 * says:
 *   op.yaml:14:5: error[E0206]: example `three` of `diff`, forward: it prints
 * `three?elements`
 */
#define FORWARD (void)printf("three\telements\n");
#include "bad.h"
