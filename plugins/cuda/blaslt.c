/* SPDX-License-Identifier: Apache-2.0
 * blaslt.c: finds cuBLASLt, checks its version and loads its functions.
 */
#include "blaslt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Names of the library, the newest first, then the path of a toolkit that ld.so
 * does not know. Each needs a driver of its CUDA version or newer. */
static const struct {
  const char *name;
  size_t cuda; /* 0: known after it is open */
} names[] = {{"libcublasLt.so.13", 13},
             {"libcublasLt.so.12", 12},
             {"libcublasLt.so.11", 11},
             {"/usr/local/cuda/lib64/libcublasLt.so", 0}};

enum {
  N_NAMES = sizeof names / sizeof *names,
  LEAST_VERSION = 11 /* the first version with these enumeration values */
};

/* Stores the result of dlsym as a function: C has no conversion for it. */
static const char *find_function(void *library, const char *symbol,
                                 void *function) {
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found);
  return found ? NULL : symbol;
}

static const char *find_all(cuda_blaslt *blaslt, size_t (**version)(void)) {
  const char *missing =
      find_function(blaslt->library, "cublasLtGetVersion", version);
  if (!missing)
    missing =
        find_function(blaslt->library, "cublasLtGetStatusString", &blaslt->say);
#define BLASLT_FIND(field, symbol, arguments) \
  if (!missing)                               \
    missing = find_function(blaslt->library, #symbol, &blaslt->field);
  BLASLT_FUNCTIONS(BLASLT_FIND)
#undef BLASLT_FIND
  return missing;
}

/* 120405 is 12.4.5, as since CUDA 12; before it was 11xxxy. */
static int check_version(cuda_blaslt *blaslt, size_t cuda, char why[240]) {
  size_t (*version)(void) = NULL;
  const char *missing = find_all(blaslt, &version);
  if (missing) {
    (void)snprintf(why, 240, "libcublasLt has no function %s; it is too old",
                   missing);
    return 0;
  }
  const size_t n = version();
  (void)snprintf(blaslt->name, sizeof blaslt->name, "cuBLASLt %zu.%zu.%zu",
                 n / 10000, n % 10000 / 100, n % 100);
  if (n / 10000 >= LEAST_VERSION && n / 10000 <= cuda) return 1;
  if (n / 10000 > cuda)
    (void)snprintf(why, 240,
                   "%s wants a newer driver than that for CUDA %zu; update the "
                   "driver, or install libcublasLt.so.%zu",
                   blaslt->name, cuda, cuda);
  else
    (void)snprintf(why, 240, "%s is too old; at least %d.0 is needed",
                   blaslt->name, LEAST_VERSION);
  return 0;
}

/* A library for a newer CUDA than the driver opens and then fails at every
 * call, so it is skipped. */
static void *open_first(size_t cuda, char why[240]) {
  why[0] = '\0';
  for (size_t i = 0; i < N_NAMES; ++i) {
    if (names[i].cuda > cuda) continue;
    void *library =
        dlopen(names[i].name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library) return library;
    const char *reason = dlerror();
    if (why[0] == '\0')
      (void)snprintf(why, 240, "there is no cuBLASLt for CUDA %zu: %.140s",
                     cuda, reason ? reason : names[i].name);
  }
  return NULL;
}

int cuda_blaslt_open(cuda_blaslt *blaslt, int driver, char why[240]) {
  const size_t cuda = (size_t)driver / 1000;
  *blaslt = (cuda_blaslt){0};
  blaslt->library = open_first(cuda, why);
  if (blaslt->library && check_version(blaslt, cuda, why)) return 1;
  cuda_blaslt_close(blaslt);
  return 0;
}

void cuda_blaslt_close(cuda_blaslt *blaslt) {
  if (blaslt->library) (void)dlclose(blaslt->library);
  *blaslt = (cuda_blaslt){0};
}
