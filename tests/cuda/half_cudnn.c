/* SPDX-License-Identifier: Apache-2.0
 * half_cudnn.c: a library that tells a version of cuDNN, and has nothing else
 * of it.
 */
#include <stddef.h>

__attribute__((visibility("default"))) size_t cudnnGetVersion(void);

size_t cudnnGetVersion(void) {
  return 90501;
}
