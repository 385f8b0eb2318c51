/* SPDX-License-Identifier: Apache-2.0
 * A kernel that writes lines of an old verdict to every descriptor.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it wrote to a file of opgen
 * (forward)
 */
#define FORWARD                     \
  for (int fd = 3; fd < 1024; ++fd) \
    for (int i = 0; i < 20; ++i)    \
      if (write(fd, "E\nB 0 1\nE\n", 10) < 0) break;
#include "bad.h"
