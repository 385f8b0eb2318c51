/* SPDX-License-Identifier: Apache-2.0
 * A kernel that ignores the alarm and never returns.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it did not end within 3
 * seconds (forward)
 */
#define FORWARD                   \
  (void)signal(SIGALRM, SIG_IGN); \
  for (volatile int for_ever = 1; for_ever;) (void)alarm(0);
#include "bad.h"
