/* SPDX-License-Identifier: Apache-2.0
 * installed.c: finds the files that are installed with this program, also after
 * it was moved.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "opgen.h"

bool opgen_find_installed(const char *beside, char *to) {
  if (realpath("/proc/self/exe", to) == NULL) return false;
  char *slash = strrchr(to, '/');
  const size_t n = strlen(beside) + 1;
  if (slash == NULL || (size_t)(slash + 1 - to) + n > PATH_MAX) return false;
  memcpy(slash + 1, beside, n);
  return true;
}
