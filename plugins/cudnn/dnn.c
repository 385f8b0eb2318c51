/* SPDX-License-Identifier: Apache-2.0
 * dnn.c: finds cuDNN, checks its version and loads its functions.
 */
#include "dnn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Before 9, enumerations had other values, and versions other digits. */
enum { WANTED = 9 };

/* The soname, the link of the development package, then the path of a toolkit
 * that ld.so does not know. */
const char *const dnn_names[] = {"libcudnn.so.9", "libcudnn.so",
                                 "/usr/local/cuda/lib64/libcudnn.so", NULL};

/* Stores the result of dlsym as a function: C has no conversion for it. */
static const char *find_function(void *file, const char *symbol,
                                 void *function) {
  void *found = dlsym(file, symbol);
  memcpy(function, &found, sizeof found);
  return found ? NULL : symbol;
}

/* NULL, or the name of the first missing function. */
static const char *find_all(dnn_library *library) {
  const char *missing =
      find_function(library->file, "cudnnGetErrorString", &library->say);
  if (!missing)
    missing = find_function(library->file, "cudnnGetLastErrorString",
                            &library->say_more);
#define DNN_FIND(field, symbol, arguments) \
  if (!missing)                            \
    missing = find_function(library->file, #symbol, &library->field);
  DNN_FUNCTIONS(DNN_FIND)
  DNN_RNN_FUNCTIONS(DNN_FIND)
#undef DNN_FIND
  return missing;
}

/* 90501 is 9.5.1; before 9, 8907 was 8.9.7. */
static int read_version(dnn_library *library, size_t n) {
  const size_t step = n >= 10000 ? 10000 : 1000;
  (void)snprintf(library->name, sizeof library->name, "cuDNN %zu.%zu.%zu",
                 n / step, n % step / 100, n % 100);
  return (int)(n / step);
}

static int check_version(dnn_library *library, char why[240]) {
  size_t (*version)(void) = NULL;
  if (find_function(library->file, "cudnnGetVersion", &version)) {
    (void)snprintf(why, 240,
                   "libcudnn does not tell its version: it is not cuDNN");
    return 0;
  }
  if (read_version(library, version()) == WANTED) return 1;
  (void)snprintf(why, 240,
                 "%s was found, and version %d is wanted; install cuDNN %d, or "
                 "put it in front of the other on LD_LIBRARY_PATH",
                 library->name, WANTED, WANTED);
  return 0;
}

static int check_library(dnn_library *library, char why[240]) {
  if (!check_version(library, why)) return 0;
  const char *missing = find_all(library);
  if (!missing) return 1;
  (void)snprintf(why, 240, "%s has no function %s; install a complete cuDNN %d",
                 library->name, missing, WANTED);
  return 0;
}

/* Reports the reason of the first name; the others are attempts. The library is
 * never unloaded, because it may have threads. */
static void *open_first(const char *const *names, char why[240]) {
  for (size_t i = 0; names[i]; ++i) {
    void *file = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (file) return file;
    const char *reason = dlerror();
    if (i == 0)
      (void)snprintf(why, 240, "there is no cuDNN: %.120s; install cuDNN %d",
                     reason ? reason : names[0], WANTED);
  }
  return NULL;
}

int dnn_open(dnn_library *library, const char *const *names, char why[240]) {
  *library = (dnn_library){0};
  library->file = open_first(names, why);
  if (library->file && check_library(library, why)) return 1;
  dnn_close(library);
  return 0;
}

void dnn_close(dnn_library *library) {
  if (library->file) (void)dlclose(library->file);
  *library = (dnn_library){0};
}
