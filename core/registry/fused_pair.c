/* SPDX-License-Identifier: Apache-2.0
 * fused_pair.c: keeps the operators that compute two other operators in one
 * kernel. Plugins register them in init. core/program decides whether a program
 * may use one.
 */
#include <string.h>

#include "registry.h"

/* --------------------------------------------------------------- registering
 */

static bool is_full(const char *name) {
  const char *dot = name ? strchr(name, '.') : NULL;
  return dot && dot > name && strchr(dot, '@');
}

static bool is_same_pair(const tn_fused_pair *a, const tn_fused_pair *b) {
  return strcmp(a->first, b->first) == 0 && strcmp(a->second, b->second) == 0;
}

static bool is_known(const tn__plugin *plugin, const tn_fused_pair *pair) {
  for (size_t i = 0; i < plugin->fused_pairs.n; ++i)
    if (is_same_pair(plugin->fused_pairs.v[i], pair)) return true;
  return false;
}

int32_t tn__fused_pair_add(tn_registrar *registrar, const tn_fused_pair *pair) {
  tn__plugin *plugin = tn__registrar_plugin(registrar);
  if (!pair || pair->struct_size < sizeof *pair || !is_full(pair->both))
    return tn__registrar_fail(
        registrar, TN_INVALID, pair && pair->both ? pair->both : "",
        "cannot be an operator for two: it has no size or no full name, as "
        "\"acme.convolve@1\" is one");
  if (pair->reserved)
    return tn__registrar_fail(
        registrar, TN_INVALID, pair->both,
        "is an operator for two that sets `reserved`, which has no meaning for "
        "this host; a newer one may know it");
  if (!is_full(pair->first) || !is_full(pair->second))
    return tn__registrar_fail(
        registrar, TN_INVALID, pair->both,
        "is an operator for two that have no full names, as "
        "\"acme.convolve@1\" is one");
  if (is_known(plugin, pair))
    return tn__registrar_fail(registrar, TN_EXISTS, pair->both,
                              "is an operator for two that have one already");
  if (tn__vec_push(plugin->registry->env, &plugin->fused_pairs,
                   (void *)(uintptr_t)pair))
    return tn__registrar_fail(registrar, TN_OUT_OF_MEMORY, pair->both,
                              "cannot be registered: no memory");
  return TN_OK;
}

void tn__fused_pairs_free(tn__plugin *plugin) {
  tn__vec_deinit(plugin->registry->env, &plugin->fused_pairs);
  plugin->fused_pairs = (tn__vec){0};
}

/* ---------------------------------------------------------------- looking up
 */

/* Finds the operator; the lock is held. */
static tn_operator *find_fused(const tn_operator *first,
                               const tn_operator *second) {
  const tn__registry *registry = first->registry;
  for (size_t i = registry->plugins.n; i-- > 0;) {
    const tn__plugin *plugin = registry->plugins.v[i];
    for (size_t k = 0; k < plugin->fused_pairs.n; ++k) {
      const tn_fused_pair *pair = plugin->fused_pairs.v[k];
      if (strcmp(pair->first, first->name) != 0 ||
          strcmp(pair->second, second->name) != 0)
        continue;
      tn_operator *both = tn__map_get(&registry->operators, pair->both);
      if (both && both->desc) return both;
    }
  }
  return NULL;
}

tn_operator *tn__fused_pair_hold(const tn_operator *first,
                                 const tn_operator *second) {
  tn__registry *registry = first->registry;
  pthread_rwlock_rdlock(&registry->lock);
  tn_operator *both = find_fused(first, second);
  if (both) atomic_fetch_add(&both->calls, 1);
  pthread_rwlock_unlock(&registry->lock);
  return both;
}
