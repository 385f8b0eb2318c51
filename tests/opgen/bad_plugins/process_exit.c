/* SPDX-License-Identifier: Apache-2.0
 * A kernel that leaves a process and ends its own.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it ended the process and left
 * another (forward)
 */
#define FORWARD             \
  if (fork() == 0)          \
    for (;;) (void)pause(); \
  _exit(0);
#include "bad.h"
