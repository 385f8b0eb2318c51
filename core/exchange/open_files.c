/* SPDX-License-Identifier: Apache-2.0
 * open_files.c: opens libtenon-files.so for the first file of arrays, and calls
 * it. It is separate because it needs zlib, and many hosts read no such file.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "exchange.h"

static const tn__file_functions *_Atomic provided;

void tn__files_provide(const tn__file_functions *functions) {
  atomic_store(&provided, functions);
}

static tn_code fail_open(const char *path, const char *why) {
  return tn__fail(TN_UNSUPPORTED,
                  "files of arrays can be neither read nor written: %s, which "
                  "does it, cannot be opened: %s; install it beside "
                  "libtenon.so, and zlib, which it needs (package zlib1g)",
                  path, why ? why : "the dynamic linker gave no reason");
}

static tn_code open_library(const tn__env *env) {
  char folder[PATH_MAX], path[PATH_MAX];
  if (!env->find_modules)
    return tn__fail(TN_UNSUPPORTED, "this host reads and writes no files");
  TN__TRY(env->find_modules(env, folder));
  const int n = snprintf(path, sizeof path, "%s/%s", folder, TN__FILES_FILE);
  if (n < 0 || (size_t)n >= sizeof path)
    return tn__fail(TN_UNSUPPORTED, "%s: the name of this folder is too long",
                    folder);
  if (!env->os->dlopen(path)) return fail_open(path, env->os->dlerror());
  return atomic_load(&provided)
             ? TN_OK
             : fail_open(path, "it belongs to another copy of libtenon.so");
}

/* If several threads open the library at once, it is opened several times. */
static tn_code find_functions(const tn__env *env,
                              const tn__file_functions **out) {
  if (!atomic_load(&provided)) TN__TRY(open_library(env));
  *out = atomic_load(&provided);
  return TN_OK;
}

tn_code tn__bundle_open(const tn__env *env, const char *path, tn_bundle **out) {
  const tn__file_functions *files = NULL;
  *out = NULL;
  TN__TRY(find_functions(env, &files));
  return files->open(env, path, out);
}

void tn__bundle_close(tn_bundle *bundle) {
  if (bundle) atomic_load(&provided)->close(bundle);
}

tn_code tn__bundle_get(const tn_bundle *bundle, const char *name,
                       uint32_t flags, tn_array **out) {
  return atomic_load(&provided)->get(bundle, name, flags, out);
}

tn_code tn__bundle_save(const tn__env *env, const char *path,
                        const tn_bundle_content *content) {
  const tn__file_functions *files = NULL;
  TN__TRY(find_functions(env, &files));
  return files->save(env, path, content);
}

/* A file of an unknown format is refused later. */
bool tn__bundle_is_named(const char *path) {
  const size_t n = strlen(path);
  return n > 4 && strcmp(path + n - 4, ".npy") != 0;
}
