/* SPDX-License-Identifier: Apache-2.0
 * half_driver.c: a library that reports a driver's version and has no other
 * function.
 */
__attribute__((visibility("default"))) int cuDriverGetVersion(int *out);

int cuDriverGetVersion(int *out) {
  *out = 12020;
  return 0;
}
