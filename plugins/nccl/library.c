/* SPDX-License-Identifier: Apache-2.0
 * library.c: finds NCCL and the CUDA driver and loads their functions.
 */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char *const nccl_names[] = {"libnccl.so.2", NULL};

enum { LEAST_VERSION = 21400 }; /* communicators that do not wait */

/* ncclGetVersion of a release before 2.9 has another form: 2804 is 2.8.4. */
static void write_version(int version, char to[24]) {
  const int is_new = version >= 10000;
  const int major = version / (is_new ? 10000 : 1000);
  const int minor = version / 100 % (is_new ? 100 : 10);
  (void)snprintf(to, 24, "%d.%d.%d", major, minor, version % 100);
}

/* Stores the result of dlsym as a function: C has no conversion for it. */
static const char *find_function(void *library, const char *symbol,
                                 void *function) {
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found);
  return found ? NULL : symbol;
}

#define FIND(in, field, symbol) \
  if (!missing) missing = find_function(library->in, symbol, &library->field);
#define FIND_NCCL(field, symbol, arguments, names) FIND(file, field, #symbol)
#define FIND_DRIVER(field, symbol, arguments, names) \
  FIND(driver, field, #symbol)

/* NULL, or the name of the first missing function. */
static const char *find_nccl(nccl_library *library) {
  const char *missing = NULL;
  NCCL_FUNCTIONS(FIND_NCCL)
  FIND(file, open, "ncclCommInitRankConfig")
  FIND(file, describe, "ncclGetErrorString")
  FIND(file, get_last_error, "ncclGetLastError")
  return missing;
}

static const char *find_driver(nccl_library *library) {
  const char *missing = NULL;
  NCCL_DRIVER_FUNCTIONS(FIND_DRIVER)
  return missing;
}

static int open_file(nccl_library *library, const char *const *names,
                     char why[240]) {
  /* It may have threads, so it is never unloaded. */
  const int how = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  const char *reason = NULL;
  for (size_t i = 0; names[i] && !library->file; ++i) {
    library->file = dlopen(names[i], how);
    if (!library->file) reason = dlerror();
  }
  if (library->file) return 1;
  (void)snprintf(why, 240,
                 "there is no NCCL: %.120s; install NCCL 2.14 or later, or "
                 "name its folder in LD_LIBRARY_PATH",
                 reason ? reason : nccl_names[0]);
  return 0;
}

/* A release that is too old lacks functions, so the version comes first. */
static int check_version(nccl_library *library, char why[240]) {
  int version = 0;
  char text[24];
  if (!find_function(library->file, "ncclGetVersion", &library->version))
    (void)library->version(&version);
  write_version(version, text);
  (void)snprintf(library->name, sizeof library->name, "NCCL %s", text);
  if (version >= LEAST_VERSION) return 1;
  (void)snprintf(why, 240,
                 "this is %s, which lacks communicators that do not wait; "
                 "install NCCL 2.14 or later",
                 library->name);
  return 0;
}

static int find_all(nccl_library *library, char why[240]) {
  const char *missing = find_nccl(library);
  if (missing) {
    (void)snprintf(why, 240, "%s has no function %s; install NCCL again",
                   library->name, missing);
    return 0;
  }
  library->driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  missing = library->driver ? find_driver(library) : "at all";
  if (!missing) return 1;
  (void)snprintf(why, 240,
                 "the driver (libcuda.so.1) has no function %s; update it",
                 missing);
  return 0;
}

int nccl_library_open(nccl_library *library, const char *const *names,
                      char why[240]) {
  *library = (nccl_library){0};
  if (open_file(library, names, why) && check_version(library, why) &&
      find_all(library, why))
    return 1;
  nccl_library_close(library);
  return 0;
}

void nccl_library_close(nccl_library *library) {
  if (library->driver) (void)dlclose(library->driver);
  if (library->file) (void)dlclose(library->file);
  *library = (nccl_library){0};
}

nccl_config nccl_get_config(void) {
  return (nccl_config){
      .size = sizeof(nccl_config),
      .magic = (unsigned)NCCL_MAGIC_HIGH << 16 | (unsigned)NCCL_MAGIC_LOW,
      .version = NCCL_CONFIG_VERSION};
}
