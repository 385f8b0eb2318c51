/* SPDX-License-Identifier: Apache-2.0
 * kernel_options.c: options of kernels that a host sets. Calls read them
 * without a lock, so replaced options stay until the plugin is unloaded.
 */
#include <string.h>

#include "choose.h"

/* The options of a kernel as the text says, or the defaults. */
static tn_code read_options(const tn__kernel *kernel, const char *text,
                            void **out) {
  const tn__env *env = kernel->plugin->registry->env;
  const tn_kernel *desc = kernel->desc;
  const tn__fields fields = {desc->options, desc->n_options, desc->options_size,
                             desc->id};
  if (desc->options_size == 0)
    return tn__fail(TN_NOT_FOUND, "kernel %s has no options", desc->id);
  return text ? tn__fields_parse(env, &fields, text, out)
              : tn__fields_build(env, &fields, NULL, 0, out);
}

static bool is_named(const tn__kernel *kernel, const char *id) {
  return strcmp(kernel->desc->id, id) == 0;
}

/* The plugin of the kernel; NULL if the operator has no kernel with this id. */
static tn__plugin *plugin_of(const tn_operator *op, const char *id) {
  for (size_t i = 0; i < op->kernels.n; ++i) {
    const tn__kernel *kernel = op->kernels.v[i];
    if (is_named(kernel, id)) return kernel->plugin;
  }
  return NULL;
}

/* Appends the new options of each pass to the replaced ones. */
static tn_code prepare_options(const tn_operator *op, const char *id,
                               const char *text, tn__vec *to) {
  for (size_t i = 0; i < op->kernels.n; ++i) {
    const tn__kernel *kernel = op->kernels.v[i];
    void *options = NULL;
    if (!is_named(kernel, id)) continue;
    TN__TRY(read_options(kernel, text, &options));
    const tn_code rc = tn__vec_push(op->registry->env, to, options);
    if (rc) {
      tn__free(op->registry->env, options);
      return rc;
    }
  }
  return TN_OK;
}

/* Exchanges the options of each pass with those prepared for it. */
static void exchange_options(const tn_operator *op, const char *id,
                             void **staged) {
  for (size_t i = 0; i < op->kernels.n; ++i) {
    tn__kernel *kernel = op->kernels.v[i];
    if (!is_named(kernel, id)) continue;
    *staged = atomic_exchange(&kernel->options, *staged);
    ++staged;
  }
}

static tn_code set_options(const tn_operator *op, const char *id,
                           const char *text) {
  tn__plugin *plugin = plugin_of(op, id);
  if (!plugin) return tn__operator_fail_no_kernel(op, id);
  tn__vec *retired = &plugin->retired;
  const size_t n = retired->n;
  const tn_code rc = prepare_options(op, id, text, retired);
  if (!rc) exchange_options(op, id, retired->v + n);
  while (rc && retired->n > n)
    tn__free(op->registry->env, retired->v[--retired->n]);
  return rc;
}

tn_code tn__operator_set_options(tn_operator *op, const char *id,
                                 const char *text) {
  pthread_rwlock_wrlock(&op->registry->lock);
  const tn_code rc = set_options(op, id, text);
  atomic_fetch_add(&op->registry->epoch, 1);
  pthread_rwlock_unlock(&op->registry->lock);
  return rc;
}
