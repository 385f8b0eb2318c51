/* SPDX-License-Identifier: Apache-2.0
 * A kernel that writes without end to every socket.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it wrote more than 64 MiB to a
 * file of opgen (forward)
 */
#define FORWARD                                               \
  static char zeros[1 << 16];                                 \
  struct stat about;                                          \
  for (int fd = 3; fd < 1024; ++fd)                           \
    while (fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode)) \
      (void)!write(fd, zeros, sizeof zeros);
#include "bad.h"
