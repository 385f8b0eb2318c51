/* SPDX-License-Identifier: Apache-2.0
 * half_cudnn.c: a library that reports a version of cuDNN and has no other
 * function.
 */
#include <stddef.h>

__attribute__((visibility("default"))) size_t cudnnGetVersion(void);

size_t cudnnGetVersion(void) {
  return 90501;
}
