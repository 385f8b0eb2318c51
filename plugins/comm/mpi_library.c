/* SPDX-License-Identifier: Apache-2.0
 * mpi_library.c: finds an MPI. A library with the standard ABI comes first, if
 * it belongs to the mpirun that started this process; then mpi_shim.so, which
 * was compiled against the MPI of the machine that built this plugin.
 *
 * The libraries stay open: MPI cannot be started twice in a process.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_calls.h"
#include "mpi_thread.h"

static const char variable[] = "TENON_MPI_LIBRARY";

/* 1 if the library is another one than that of the mpirun that started this
 * process: then each process would be alone. */
static int is_foreign(const char *version, char *why, size_t bytes) {
  const int is_open = strstr(version, "Open MPI") != NULL;
  const int by_open = getenv("OMPI_COMM_WORLD_SIZE") != NULL;
  const int by_hydra = !by_open && getenv("PMI_RANK") != NULL;
  if ((!by_open || is_open) && (!by_hydra || !is_open)) return 0;
  (void)snprintf(why, bytes,
                 "%s is not the MPI whose mpirun started this "
                 "process",
                 version);
  return 1;
}

/* Accepts a table, or returns NULL with the reason. */
static const comm_mpi_calls *accept_table(const comm_mpi_calls *calls,
                                          char name[128], char *why,
                                          size_t bytes) {
  if (!calls) return NULL;
  if (calls->table != COMM_MPI_TABLE ||
      calls->struct_size < sizeof(comm_mpi_calls)) {
    (void)snprintf(why, bytes, "mpi_shim.so belongs to another release");
    return NULL;
  }
  if (calls->version(name, 128) != 0) {
    (void)snprintf(why, bytes, "the library does not tell its release");
    return NULL;
  }
  return is_foreign(name, why, bytes) ? NULL : calls;
}

static const comm_mpi_calls *open_abi(const char *file, char name[128],
                                      char *why, size_t bytes) {
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    (void)snprintf(why, bytes, "%s", reason ? reason : file);
    return NULL;
  }
  const comm_mpi_calls *calls =
      accept_table(comm_mpi_abi(handle, why, bytes), name, why, bytes);
  if (!calls) (void)dlclose(handle);
  return calls;
}

/* The file mpi_shim.so beside this plugin, or in the folder `comm` there. */
static const comm_mpi_calls *open_shim(char name[128], char *why,
                                       size_t bytes) {
  static const char *const places[] = {"comm/", ""};
  Dl_info self;
  char file[1024];
  if (!dladdr(variable, &self) || !self.dli_fname) return NULL;
  const char *slash = strrchr(self.dli_fname, '/');
  const int n = slash ? (int)(slash + 1 - self.dli_fname) : 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
    const comm_mpi_calls *(*get)(void) = NULL;
    (void)snprintf(file, sizeof file, "%.*s%smpi_shim.so", n, self.dli_fname,
                   places[i]);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) continue;
    void *found = dlsym(handle, COMM_MPI_SHIM);
    memcpy(&get, &found, sizeof found);
    const comm_mpi_calls *calls =
        get ? accept_table(get(), name, why, bytes) : NULL;
    if (calls) return calls;
    (void)dlclose(handle);
    return NULL;
  }
  (void)snprintf(why, bytes, "mpi_shim.so: %s",
                 dlerror() ? "cannot be opened (was MPI found when this "
                             "plugin was built?)"
                           : "is absent");
  return NULL;
}

const comm_mpi_calls *mpi_find_library(char name[128], char *why,
                                       uint64_t bytes) {
  char first[256] = "", second[256] = "";
  const char *file = getenv(variable);
  const comm_mpi_calls *calls = NULL;
  if (file && *file) {
    calls = open_abi(file, name, first, sizeof first);
    if (!calls)
      (void)snprintf(why, (size_t)bytes, "%s=%s: %s", variable, file, first);
    return calls;
  }
  /* A program that uses an MPI of its own keeps to it. */
  if (!dlsym(RTLD_DEFAULT, "MPI_Init"))
    calls = open_abi("libmpi_abi.so.1", name, first, sizeof first);
  if (!calls) calls = open_shim(name, second, sizeof second);
  if (!calls)
    (void)snprintf(why, (size_t)bytes,
                   "libmpi_abi.so.1: %s; %s. Install MPICH 5 or later, or set "
                   "%s to its libmpi_abi.so.1",
                   first[0] ? first
                            : "not tried, because the program has an "
                              "MPI of its own",
                   second, variable);
  return calls;
}
