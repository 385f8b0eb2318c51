/* SPDX-License-Identifier: Apache-2.0
 * driver.c: finds the CUDA driver, checks its version, loads its functions and
 * starts it.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The first version with memory pools that streams share. */
enum { LEAST_VERSION = 11020, GRAPHS_VERSION = 11040 };

const char *const cuda_driver_names[] = {"libcuda.so.1", "libcuda.so", NULL};

/* Texts of results of the CUDA runtime that the driver does not know: kernels
 * are launched through the runtime. */
static const char *describe_runtime_error(int result) {
  switch (result) {
    case 35: /* cudaErrorInsufficientDriver */
      return "the NVIDIA driver is older than the CUDA toolkit that this was "
             "compiled with; install a newer one";
    case 98: /* cudaErrorInvalidDeviceFunction */
      return "this was compiled for other GPUs; compile it for this one";
    default:
      return "the driver has no text for it";
  }
}

void cuda_driver_describe(const cuda_driver *driver, int result, char to[160]) {
  const char *name = NULL, *text = NULL;
  if (driver->error_name(result, &name) != CUDA_OK || !name ||
      driver->error_text(result, &text) != CUDA_OK || !text)
    (void)snprintf(to, 160, "error %d: %s", result,
                   describe_runtime_error(result));
  else
    (void)snprintf(to, 160, "%s: %s", name, text);
}

/* Reports the reason of the first name; the others are attempts. The library is
 * never unloaded: a started driver has threads. */
static void *open_first(const char *const *names, char why[240]) {
  for (size_t i = 0; names[i]; ++i) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library) return library;
    const char *reason = dlerror();
    if (i == 0)
      (void)snprintf(why, 240,
                     "there is no NVIDIA driver: %.120s; install one, or in a "
                     "container ask for GPUs",
                     reason ? reason : names[0]);
  }
  return NULL;
}

/* Stores the result of dlsym as a function: C has no conversion for it. */
static const char *find_function(void *library, const char *symbol,
                                 void *function) {
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found);
  return found ? NULL : symbol;
}

#define CUDA_FIND(field, symbol, arguments) \
  if (!missing)                             \
    missing = find_function(driver->library, #symbol, &driver->field);

/* NULL, or the name of the first missing function. */
static const char *find_all(cuda_driver *driver) {
  const char *missing = NULL;
  CUDA_DRIVER_FUNCTIONS(CUDA_FIND)
  return missing;
}

static int find_graphs(cuda_driver *driver) {
  const char *missing = NULL;
  CUDA_GRAPH_FUNCTIONS(CUDA_FIND)
  return missing == NULL;
}
#undef CUDA_FIND

/* Checks the version first, because an old driver lacks functions. */
static int check_version(cuda_driver *driver, char why[240]) {
  if (find_function(driver->library, "cuDriverGetVersion",
                    &driver->driver_version) ||
      driver->driver_version(&driver->version) != CUDA_OK) {
    (void)snprintf(why, 240,
                   "libcuda.so.1 does not tell its version: it is not the "
                   "library of an NVIDIA driver");
    return 0;
  }
  if (driver->version >= LEAST_VERSION) return 1;
  (void)snprintf(why, 240,
                 "the NVIDIA driver is for CUDA %d.%d, and at least %d.%d is "
                 "needed; update the driver",
                 driver->version / 1000, driver->version % 1000 / 10,
                 LEAST_VERSION / 1000, LEAST_VERSION % 1000 / 10);
  return 0;
}

static int start_driver(cuda_driver *driver, char why[240]) {
  char text[160];
  const char *missing = find_all(driver);
  if (missing) {
    (void)snprintf(why, 240,
                   "libcuda.so.1 has no function %s, although it says that it "
                   "is for CUDA %d.%d; update the driver",
                   missing, driver->version / 1000,
                   driver->version % 1000 / 10);
    return 0;
  }
  driver->has_graphs = driver->version >= GRAPHS_VERSION && find_graphs(driver);
  const int result = driver->init(0);
  if (result == CUDA_OK) return 1;
  cuda_driver_describe(driver, result, text);
  (void)snprintf(why, 240, "the NVIDIA driver does not start: %s", text);
  return 0;
}

int cuda_driver_open(cuda_driver *driver, const char *const *names,
                     char why[240]) {
  *driver = (cuda_driver){0};
  driver->library = open_first(names, why);
  if (!driver->library) return 0;
  if (check_version(driver, why) && start_driver(driver, why)) return 1;
  cuda_driver_close(driver);
  return 0;
}

void cuda_driver_close(cuda_driver *driver) {
  if (driver->library) (void)dlclose(driver->library);
  *driver = (cuda_driver){0};
}
