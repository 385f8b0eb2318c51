/* SPDX-License-Identifier: Apache-2.0
 * A kernel that wants 100 GiB, which it does not get here, and goes on without.
 * says:
 *   nothing
 */
#include <sys/mman.h>
#define AFTER                                                                 \
  if (mmap(NULL, (size_t)100 << 30, PROT_READ | PROT_WRITE,                   \
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED) \
    out[0] = 99;
#include "bad.h"
