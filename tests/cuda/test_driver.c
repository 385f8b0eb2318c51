/* SPDX-License-Identifier: Apache-2.0
 * How plugins/cuda finds the driver, or reports the missing part.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "driver.h"

static char why[240];

static void misses(const char *name, const char *text) {
  const char *const names[] = {name, "libtenon-nothing.so.2", NULL};
  cuda_driver driver;
  cr_assert_eq(cuda_driver_open(&driver, names, why), 0);
  cr_assert_not_null(strstr(why, text), "%s lacks `%s`", why, text);
  cr_assert_null(driver.library);
}

Test(driver, that_is_not_installed_is_named) {
  misses("libtenon-nothing.so.1",
         "there is no NVIDIA driver: libtenon-nothing.so.1: cannot open "
         "shared object file");
}

Test(driver, a_library_that_is_none_is_refused) {
  misses("libm.so.6", "does not tell its version");
}

Test(driver, without_a_function_is_refused_by_its_name) {
  misses(HALF_FILE,
         "has no function cuInit, although it says that it is for CUDA 12.2");
}

Test(driver, explains_a_result) {
  const char *const names[] = {FAKE_FILE, NULL};
  cuda_driver driver;
  char text[160];
  cr_assert_eq(cuda_driver_open(&driver, names, why), 1, "%s", why);
  cr_assert_eq(driver.version, 13000);
  cuda_driver_describe(&driver, CUDA_NO_DEVICE, text);
  cr_assert_str_eq(text,
                   "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected");
  cuda_driver_describe(&driver, 12345, text);
  cr_assert_str_eq(text, "error 12345: the driver has no text for it");
  cuda_driver_describe(&driver, 35, text);
  cr_assert_not_null(strstr(text, "older than the CUDA toolkit"), "%s", text);
  cuda_driver_close(&driver);
}
