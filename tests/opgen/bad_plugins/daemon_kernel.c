/* SPDX-License-Identifier: Apache-2.0
 * A kernel that leaves a process with a session of its own.
 * says:
 *   bad.so:1:1: error[E0208]: it leaves processes, which opgen has ended
 */
#define FORWARD                \
  if (fork() == 0) {           \
    (void)setsid();            \
    if (fork() != 0) _exit(0); \
    for (;;) (void)pause();    \
  }                            \
  (void)wait(NULL);
#include "bad.h"
