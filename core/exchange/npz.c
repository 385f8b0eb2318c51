/* SPDX-License-Identifier: Apache-2.0
 * npz.c: opens libtenon-npz.so for the first .npz, and calls it. It is separate
 * because it needs zlib, and most hosts read no .npz.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#include "exchange.h"

static const tn__npz_functions *_Atomic provided;

void tn__npz_provide(const tn__npz_functions *functions) {
  atomic_store(&provided, functions);
}

static tn_code fail_open(const char *path, const char *why) {
  return tn__fail(TN_UNSUPPORTED,
                  "a .npz can be neither read nor written: %s, which does it, "
                  "cannot be opened: %s; install it beside libtenon.so, and "
                  "zlib, which it needs (package zlib1g)",
                  path, why ? why : "the dynamic linker gave no reason");
}

static tn_code open_library(const tn__env *env) {
  char folder[PATH_MAX], path[PATH_MAX];
  if (!env->find_modules)
    return tn__fail(TN_UNSUPPORTED, "this host reads and writes no .npz");
  TN__TRY(env->find_modules(env, folder));
  const int n = snprintf(path, sizeof path, "%s/%s", folder, TN__NPZ_FILE);
  if (n < 0 || (size_t)n >= sizeof path)
    return tn__fail(TN_UNSUPPORTED, "%s: the name of this folder is too long",
                    folder);
  if (!env->os->dlopen(path)) return fail_open(path, env->os->dlerror());
  return atomic_load(&provided)
             ? TN_OK
             : fail_open(path, "it is of another copy of libtenon.so");
}

/* Several threads may open the library: then it is opened several times. */
static tn_code find_functions(const tn__env *env,
                              const tn__npz_functions **out) {
  if (!atomic_load(&provided)) TN__TRY(open_library(env));
  *out = atomic_load(&provided);
  return TN_OK;
}

tn_code tn__npz_open(tn_bundle *bundle) {
  const tn__npz_functions *npz = NULL;
  TN__TRY(find_functions(bundle->env, &npz));
  return npz->open(bundle);
}

tn_code tn__npz_read(const tn__spot *spot, const tn__bundle_entry *entry,
                     void *to) {
  const tn__npz_functions *npz = NULL;
  TN__TRY(find_functions(spot->file->env, &npz));
  return npz->read(spot, entry, to);
}

tn_code tn__npz_save(tn__sink *sink, const tn_bundle_content *content) {
  const tn__npz_functions *npz = NULL;
  TN__TRY(find_functions(sink->env, &npz));
  return npz->save(sink, content);
}
