/* SPDX-License-Identifier: Apache-2.0
 * library.c: finds cuSOLVER and cuBLAS and loads their functions.
 */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The sonames of CUDA 13 and 12, then the path of a toolkit that ld.so does not
 * know. */
const solver_files solver_names[] = {
    {"libcusolver.so.12", "libcublas.so.13", 13},
    {"libcusolver.so.11", "libcublas.so.12", 12},
    {"/usr/local/cuda/lib64/libcusolver.so",
     "/usr/local/cuda/lib64/libcublas.so", 0},
    {NULL, NULL, 0}};

enum { LEAST_CUDA = 12 }; /* all functions are there from 12.2 on */

/* Stores the result of dlsym as a function: C has no conversion for it. */
static const char *find_function(void *library, const char *symbol,
                                 void *function) {
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found);
  return found ? NULL : symbol;
}

#define FIND(in, field, symbol) \
  if (!missing) missing = find_function(library->in, symbol, &library->field);
#define FIND_SOLVER(field, symbol, arguments, names) \
  FIND(solver, field, #symbol)
#define FIND_SOLVER_TYPED(field, before, after, arguments, names) \
  FIND(solver, field[0], #before "S" #after)                      \
  FIND(solver, field[1], #before "D" #after)
#define FIND_BLAS(field, symbol, arguments, names) FIND(blas, field, #symbol)
#define FIND_BLAS_TYPED(field, before, after, arguments, names) \
  FIND(blas, field[0], #before "S" #after)                      \
  FIND(blas, field[1], #before "D" #after)

/* NULL, or the name of the first missing function. */
static const char *find_solver(solver_library *library) {
  const char *missing = NULL;
  SOLVER_FUNCTIONS(FIND_SOLVER)
  SOLVER_TYPED(FIND_SOLVER_TYPED)
  return missing;
}

static const char *find_blas(solver_library *library) {
  const char *missing =
      find_function(library->blas, "cublasGetStatusString", &library->say);
  SOLVER_BLAS_FUNCTIONS(FIND_BLAS)
  SOLVER_BLAS_TYPED(FIND_BLAS_TYPED)
  return missing;
}

static int find_all(solver_library *library, char why[240]) {
  const char *missing = find_solver(library);
  const char *file = "libcusolver";
  if (!missing) {
    file = "libcublas";
    missing = find_blas(library);
  }
  if (!missing) return 1;
  (void)snprintf(why, 240,
                 "%s has no function %s; install the libraries of CUDA 12.2 or "
                 "later",
                 file, missing);
  return 0;
}

static void read_names(solver_library *library) {
  int solver[3] = {0}, blas[3] = {0};
  for (int i = SOLVER_MAJOR; i <= SOLVER_PATCH; ++i) {
    (void)library->version(i, &solver[i]);
    (void)library->blas_version(i, &blas[i]);
  }
  (void)snprintf(library->name, sizeof library->name,
                 "cuSOLVER %d.%d.%d, cuBLAS %d.%d.%d", solver[0], solver[1],
                 solver[2], blas[0], blas[1], blas[2]);
}

/* The major version of CUDA that the loaded driver supports; 99 without one. */
static int find_driver(void) {
  int (*version)(int *) = NULL;
  int n = 99000;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!driver) return n / 1000;
  if (!find_function(driver, "cuDriverGetVersion", &version)) (void)version(&n);
  (void)dlclose(driver);
  return n / 1000;
}

/* Reports the reason of the first names; the others are attempts. Libraries for
 * a newer CUDA than the driver open, and then fail at every call, so they are
 * skipped. They are never unloaded, because they may have threads. */
static int open_first(solver_library *library, const solver_files *names,
                      char why[240]) {
  const int how = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  const int driver = find_driver();
  why[0] = '\0';
  if (driver < LEAST_CUDA) {
    (void)snprintf(why, 240,
                   "cuSOLVER is used from CUDA %d on, and the driver is for "
                   "CUDA %d; update the driver",
                   LEAST_CUDA, driver);
    return 0;
  }
  for (size_t i = 0; names[i].solver; ++i) {
    if (names[i].cuda > driver) continue;
    library->blas = dlopen(names[i].blas, how);
    library->solver = library->blas ? dlopen(names[i].solver, how) : NULL;
    if (library->solver) return 1;
    const char *reason = dlerror();
    if (why[0] == '\0')
      (void)snprintf(why, 240,
                     "there is no cuSOLVER with cuBLAS for CUDA %d: %.120s; "
                     "install the libraries of CUDA 12.2 or later",
                     names[i].cuda ? names[i].cuda : driver,
                     reason ? reason : names[i].solver);
    solver_close(library);
  }
  return 0;
}

/* cuBLAS has the major version of its CUDA. */
static int check_version(solver_library *library, char why[240]) {
  int major = 0;
  (void)library->blas_version(SOLVER_MAJOR, &major);
  if (major <= find_driver()) return 1;
  (void)snprintf(why, 240,
                 "%s want a newer driver than that for CUDA %d; update the "
                 "driver, or install libcublas.so.%d with its cuSOLVER",
                 library->name, find_driver(), find_driver());
  return 0;
}

int solver_open(solver_library *library, const solver_files *names,
                char why[240]) {
  *library = (solver_library){0};
  if (open_first(library, names, why) && find_all(library, why)) {
    read_names(library);
    if (check_version(library, why)) return 1;
  }
  solver_close(library);
  return 0;
}

void solver_close(solver_library *library) {
  if (library->solver) (void)dlclose(library->solver);
  if (library->blas) (void)dlclose(library->blas);
  *library = (solver_library){0};
}

const char *solver_describe(const solver_library *library, int status) {
  static const char *const texts[] = {"success",
                                      "not initialised",
                                      "no memory for its own data",
                                      "invalid argument",
                                      "it has no code for this GPU",
                                      "mapping error",
                                      "a kernel failed",
                                      "internal error",
                                      "matrix type not supported",
                                      "not supported"};
  if (status >= SOLVER_BLAS_STATUS)
    return library->say(status - SOLVER_BLAS_STATUS);
  if (status < 0 || (size_t)status >= sizeof texts / sizeof *texts)
    return "unknown status";
  return texts[status];
}
