/* SPDX-License-Identifier: Apache-2.0
 * openblas.c: a library that simulates an OpenBLAS for an unknown processor. It
 * reads the environment when it is opened, as the real one does, and chooses
 * Haswell by default. FAKE_OPENBLAS selects a defect.
 */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static char core[32] = "Haswell";
static int threads = 4;
static _Atomic int calls, most;

__attribute__((constructor)) static void read_environment(void) {
  const char *told = getenv("OPENBLAS_CORETYPE");
  const char *n = getenv("OPENBLAS_NUM_THREADS");
  if (told) strncpy(core, told, sizeof core - 1);
  if (n) threads = atoi(n);
}

EXPORT char *openblas_get_corename(void);
EXPORT char *openblas_get_config(void);
EXPORT int openblas_get_num_threads(void);
EXPORT void openblas_set_num_threads(int n);
EXPORT void cblas_sgemm(void);
EXPORT void cblas_dgemm(void);
EXPORT int fake_calls(void);
EXPORT int fake_most_threads(void);

char *openblas_get_corename(void) {
  return core;
}

char *openblas_get_config(void) {
  static char plain[] = "OpenBLAS 9.9.9 FAKE",
              wide[] = "OpenBLAS 9.9.9 USE64BITINT FAKE";
  const char *fault = getenv("FAKE_OPENBLAS");
  return fault && strcmp(fault, "wide") == 0 ? wide : plain;
}

int openblas_get_num_threads(void) {
  return threads;
}

void openblas_set_num_threads(int n) {
  threads = n;
}

/* They multiply nothing, but note with how many threads. */
void cblas_sgemm(void) {
  if (threads > most) most = threads;
  ++calls;
}

void cblas_dgemm(void) {
  cblas_sgemm();
}

int fake_calls(void) {
  return calls;
}

int fake_most_threads(void) {
  return most;
}
