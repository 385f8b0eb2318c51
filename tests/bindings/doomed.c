/* SPDX-License-Identifier: Apache-2.0
 * doomed.c: a library whose constructor crashes: opening it ends the process.
 */
#include <stdlib.h>

__attribute__((constructor)) static void begin(void) {
  abort();
}
