/* SPDX-License-Identifier: Apache-2.0
 * A kernel that writes a record of 2^61 elements to every descriptor.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it wrote to a file of opgen
 * (forward)
 */
#define FORWARD                                                    \
  for (int fd = 3; fd < 1024; ++fd) {                              \
    static const char text[] =                                     \
        "V o out 73730 1 2305843009213693952 1 2 3 4 5 6 7 8 9\n"; \
    (void)!write(fd, text, sizeof text - 1);                       \
  }                                                                \
  _exit(0);
#include "bad.h"
