/* SPDX-License-Identifier: Apache-2.0
 * A kernel that leaves a process, which keeps every descriptor open.
 * says:
 *   bad.so:1:1: error[E0208]: it leaves processes, which opgen has ended
 */
#define FORWARD    \
  if (fork() == 0) \
    for (;;) (void)pause();
#include "bad.h"
