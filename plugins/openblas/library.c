/* SPDX-License-Identifier: Apache-2.0
 * library.c: opens OpenBLAS with the settings that Tenon needs.
 *
 * OpenBLAS reads its settings only while it is opened, and only from the
 * environment: the number of threads and the choice of kernels. Its threads
 * would compete with the workers that call it. It recognises processors by
 * name: version 0.3.21 takes an EPYC with AVX-512 for a Haswell and loses half
 * its speed. So this file opens it with a copy of the environment that requests
 * one thread. If OpenBLAS then chose kernels below the allowed level, the file
 * opens it again with the kernels named, unless the user has set them.
 *
 * A library that the process has already opened keeps its number of threads,
 * because other callers rely on it. OpenBLAS has one number for the whole
 * process, so it is 1 only while a product or factorisation of Tenon runs;
 * afterwards the old number returns.
 *
 * A concurrent reader of the environment never sees freed memory: only the
 * pointer changes, and the copy stays until the plugin ends. A variable that
 * another thread sets at that moment may be lost, as in any program that
 * changes its environment while threads run.
 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/plugin/op.h"

static const char soname[] = "libopenblas.so.0";

/* ------------------------------------------------------------- environment */

static char one_thread[] = "OPENBLAS_NUM_THREADS=1";
static char with_avx512[] = "OPENBLAS_CORETYPE=SkylakeX";

static int is_setting(const char *entry, const char *setting) {
  const size_t n = (size_t)(strchr(setting, '=') - setting) + 1;
  return strncmp(entry, setting, n) == 0;
}

/* A copy of the environment with these settings in place of its own values;
 * NULL without memory. */
static char **copy_environment(char *const *settings, size_t n_settings) {
  size_t n = 0, kept = 0;
  while (environ && environ[n]) ++n;
  char **copy = malloc((n + n_settings + 1) * sizeof *copy);
  if (!copy) return NULL;
  for (size_t i = 0; i < n; ++i) {
    int replaced = 0;
    for (size_t k = 0; k < n_settings; ++k)
      replaced |= is_setting(environ[i], settings[k]);
    if (!replaced) copy[kept++] = environ[i];
  }
  for (size_t k = 0; k < n_settings; ++k) copy[kept++] = settings[k];
  copy[kept] = NULL;
  return copy;
}

static void *open_within(char **environment) {
  char **before = environ;
  environ = environment;
  void *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (environ == environment) environ = before;
  return handle;
}

/* ---------------------------------------------------------------- contents */

/* Stores the result of dlsym as a function: C has no conversion for it. */
static void find_function(const openblas_library *library, const char *symbol,
                          void *function) {
  void *found = dlsym(library->handle, symbol);
  memcpy(function, &found, sizeof found);
}

/* Finds a function that may be absent; notes the name of an absent one. */
static void find_optional(openblas_library *library, const char *symbol,
                          void *function) {
  void *found = dlsym(library->handle, symbol);
  memcpy(function, &found, sizeof found);
  if (!found) library->lacks = symbol;
}

/* Some builds of OpenBLAS have no LAPACK. */
static void find_lapack(openblas_library *library) {
  openblas_functions *s = &library->lapack[0], *d = &library->lapack[1];
  const struct {
    const char *symbol;
    void *function;
  } all[] = {{"cblas_strmm", &library->strmm}, {"cblas_strsm", &library->strsm},
             {"cblas_dtrmm", &library->dtrmm}, {"cblas_dtrsm", &library->dtrsm},
             {"spotrf_", &s->potrf},           {"dpotrf_", &d->potrf},
             {"spotri_", &s->potri},           {"dpotri_", &d->potri},
             {"sgetrf_", &s->getrf},           {"dgetrf_", &d->getrf},
             {"sgetrs_", &s->getrs},           {"dgetrs_", &d->getrs},
             {"sgeqrf_", &s->geqrf},           {"dgeqrf_", &d->geqrf},
             {"sorgqr_", &s->orgqr},           {"dorgqr_", &d->orgqr},
             {"ssyevd_", &s->syevd},           {"dsyevd_", &d->syevd},
             {"sgesdd_", &s->gesdd},           {"dgesdd_", &d->gesdd}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    find_optional(library, all[i].symbol, all[i].function);
}

static int find_all(openblas_library *library, char why[256]) {
  char *(*config)(void) = NULL, *(*core)(void) = NULL;
  find_function(library, "cblas_sgemm", &library->sgemm);
  find_function(library, "cblas_dgemm", &library->dgemm);
  find_function(library, "openblas_get_config", &config);
  find_function(library, "openblas_get_corename", &core);
  find_function(library, "openblas_get_num_threads", &library->get_threads);
  find_function(library, "openblas_set_num_threads", &library->set_threads);
  if (!library->sgemm || !library->dgemm || !config || !core) {
    (void)snprintf(why, 256, "%s lacks functions of OpenBLAS", soname);
    return 0;
  }
  if (strstr(config(), "USE64BITINT")) {
    (void)snprintf(why, 256, "%s has integers of 64 bits", soname);
    return 0;
  }
  const char *version = config(); /* "OpenBLAS 0.3.21 NO_LAPACKE ..." */
  const char *blank = strchr(version, ' ');
  const char *end = blank ? strchr(blank + 1, ' ') : NULL;
  (void)snprintf(library->name, sizeof library->name, "%.*s %s",
                 end ? (int)(end - version) : 64, version, core());
  find_lapack(library);
  return 1;
}

/* One for the process, because all runtimes share the library. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_products;     /* running now */
static int threads_before; /* when the first of them began */

void openblas_threads_begin(const openblas_library *library) {
  if (!library->get_threads || !library->set_threads) return;
  (void)pthread_mutex_lock(&lock);
  if (n_products++ == 0) {
    threads_before = library->get_threads();
    if (threads_before > 1) library->set_threads(1);
  }
  (void)pthread_mutex_unlock(&lock);
}

/* Keeps a number that the program has set meanwhile. */
void openblas_threads_end(const openblas_library *library) {
  if (!library->get_threads || !library->set_threads) return;
  (void)pthread_mutex_lock(&lock);
  if (--n_products == 0 && threads_before > 1 && library->get_threads() == 1)
    library->set_threads(threads_before);
  (void)pthread_mutex_unlock(&lock);
}

/* Whether the chosen kernels lack instructions that the host allows. Names that
 * are newer than this list are accepted. */
static int is_outdone(const openblas_library *library, uint64_t features) {
  static const char *const before_avx512[] = {
      "Haswell",   "Zen",         "Excavator", "Steamroller", "Piledriver",
      "Bulldozer", "Sandybridge", "Nehalem",   "Barcelona",   "Prescott"};
  const char *core = strrchr(library->name, ' ') + 1;
  if (!(features & TN_CPU_AVX512) || getenv("OPENBLAS_CORETYPE")) return 0;
  for (size_t i = 0; i < sizeof before_avx512 / sizeof *before_avx512; ++i)
    if (strcmp(core, before_avx512[i]) == 0) return 1;
  return 0;
}

/* ---------------------------------------------------------- open and close */

static int open_new(openblas_library *library, int told, char why[256]) {
  char *const settings[] = {one_thread, with_avx512};
  *library = (openblas_library){0};
  library->environment = copy_environment(settings, told ? 2 : 1);
  if (library->environment) library->handle = open_within(library->environment);
  if (library->handle && find_all(library, why)) return 1;
  if (!library->handle) {
    const char *reason = library->environment ? dlerror() : "out of memory";
    (void)snprintf(why, 256, "%s", reason ? reason : soname);
  }
  openblas_library_close(library);
  return 0;
}

/* Opens a library that the process already uses, unchanged. */
static int open_known(openblas_library *library, void *handle, char why[256]) {
  *library = (openblas_library){.handle = handle};
  if (find_all(library, why)) {
    library->threads = library->get_threads ? library->get_threads() : 1;
    return 1;
  }
  openblas_library_close(library);
  return 0;
}

int openblas_library_open(openblas_library *library, uint64_t features,
                          char why[256]) {
  void *known = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (known) return open_known(library, known, why);
  if (!open_new(library, 0, why)) return 0;
  if (!is_outdone(library, features)) return 1;
  openblas_library_close(library);
  return open_new(library, 1, why);
}

void openblas_library_close(openblas_library *library) {
  if (library->handle) (void)dlclose(library->handle);
  free(library->environment);
  *library = (openblas_library){0};
}
