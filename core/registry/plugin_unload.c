/* SPDX-License-Identifier: Apache-2.0
 * plugin_unload.c: unloads a plugin, unless something holds it. Its operators
 * stay as names without definition, so that handles stay valid. Kernels of
 * other plugins for them wait again.
 */
#include <inttypes.h>
#include <string.h>

#include "registry.h"

static tn__plugin *find_plugin(const tn__registry *registry, const char *name) {
  for (size_t i = 0; name && i < registry->plugins.n; ++i) {
    tn__plugin *plugin = registry->plugins.v[i];
    if (!plugin->defined && !strcmp(plugin->entry->name, name)) return plugin;
  }
  return NULL;
}

/* ----------------------------------------------------------------- holders */

/* The message about the holders of a plugin while it is composed. */
typedef struct holders {
  const tn__plugin *plugin;
  tn_code rc; /* TN_BUSY once there is a holder */
} holders;

static void begin_message(holders *h) {
  if (h->rc == TN_OK)
    (void)tn__fail(TN_BUSY, "the plugin \"%s\" cannot be unloaded: ",
                   h->plugin->entry->name);
  else
    (void)tn__fail_more(TN_BUSY, ", ");
  h->rc = TN_BUSY;
}

/* Adds the number of holders of an operator or a kernel to the message. */
static void add_uses(int64_t n) {
  const char *s = n == 1 ? "" : "s";
  (void)tn__fail_more(TN_BUSY,
                      "%" PRId64
                      " call%s, graph%s, program%s, tape%s or "
                      "prepared call%s",
                      n, s, s, s, s, s);
}

static void count_operators(holders *h) {
  const tn__vec *sorted = &h->plugin->registry->sorted;
  for (size_t i = 0; i < sorted->n; ++i) {
    tn_operator *op = sorted->v[i];
    if (op->plugin != h->plugin) continue;
    const int64_t params = atomic_load(&op->params);
    if (params > 0) {
      begin_message(h);
      (void)tn__fail_more(TN_BUSY, "%" PRId64 " params of %s not released",
                          params, op->name);
    }
    const int64_t calls = atomic_load(&op->calls);
    if (calls > 0) {
      begin_message(h);
      add_uses(calls);
      (void)tn__fail_more(TN_BUSY, " of %s", op->name);
    }
  }
}

/* Counts calls of kernels for other plugins' operators. count_operators has
 * counted the other calls. */
static void count_kernels(holders *h) {
  for (uint32_t i = 0; i < h->plugin->entry->n_kernels; ++i) {
    tn__kernel *kernel = &h->plugin->kernels[i];
    if (kernel->op == NULL || kernel->op->plugin == h->plugin) continue;
    const int64_t calls = atomic_load(&kernel->calls);
    if (calls == 0) continue;
    begin_message(h);
    add_uses(calls);
    (void)tn__fail_more(TN_BUSY, " of its kernel %s", kernel->desc->id);
  }
}

static void count_users(holders *h) {
  for (size_t i = 0; i < h->plugin->provided.n; ++i) {
    const tn__extension *extension = h->plugin->provided.v[i];
    for (size_t u = 0; u < extension->users.n; ++u) {
      const tn__plugin *user = extension->users.v[u];
      begin_message(h);
      (void)tn__fail_more(TN_BUSY,
                          "the plugin \"%s\" uses its extension \"%s\"",
                          user->entry->name, extension->id);
    }
    if (!extension->is_used_by_host) continue;
    begin_message(h);
    (void)tn__fail_more(TN_BUSY, "the host uses its extension \"%s\"",
                        extension->id);
  }
}

static void count_dependents(holders *h) {
  const tn__registry *registry = h->plugin->registry;
  for (size_t i = 0; i < registry->plugins.n; ++i) {
    const tn__plugin *other = registry->plugins.v[i];
    if (!tn__dependency_find(other->entry, h->plugin->entry->name)) continue;
    begin_message(h);
    (void)tn__fail_more(TN_BUSY, "the plugin \"%s\" requires it",
                        other->entry->name);
  }
}

static void count_devices(holders *h) {
  for (size_t i = 0; i < h->plugin->provided.n; ++i) {
    const tn__extension *extension = h->plugin->provided.v[i];
    if (strcmp(extension->id, TN_DEVICE_EXTENSION) != 0) continue;
    const tn_device *table = extension->table;
    begin_message(h);
    (void)tn__fail_more(TN_BUSY,
                        "the runtime uses its devices \"%s\" until it ends",
                        table->name);
  }
}

static void count_passes(holders *h) {
  for (size_t i = 0; i < h->plugin->passes.n; ++i) {
    const tn__pass *pass = h->plugin->passes.v[i];
    if (atomic_load(&pass->calls) == 0) continue;
    begin_message(h);
    (void)tn__fail_more(TN_BUSY, "its pass %s is running", pass->name);
  }
}

/* Under the write lock no thread can begin a call or create params. */
static tn_code check_holders(const tn__plugin *plugin) {
  holders h = {plugin, TN_OK};
  count_operators(&h);
  count_kernels(&h);
  count_users(&h);
  if (!plugin->defined) count_dependents(&h);
  count_devices(&h);
  count_passes(&h);
  return h.rc;
}

/* ----------------------------------------------------------------- leaving */

static void remove_from(tn__vec *vec, const void *item) {
  for (size_t i = vec->n; i-- > 0;)
    if (vec->v[i] == item) tn__vec_remove(vec, i);
}

/* Kernels of other plugins for our operators, which will wait. */
static size_t count_foreign(const tn__plugin *plugin) {
  const tn__registry *registry = plugin->registry;
  size_t n = 0;
  for (size_t i = 0; i < registry->sorted.n; ++i) {
    const tn_operator *op = registry->sorted.v[i];
    if (op->plugin == plugin) n += op->kernels.n;
  }
  return n;
}

/* Its own kernels are removed already. The others wait, in the order of the
 * list. */
static void withdraw_operator(tn__registry *registry, tn_operator *op) {
  while (op->kernels.n) {
    tn__kernel *kernel = op->kernels.v[0];
    tn__kernel_detach(kernel);
    tn__vec_insert_reserved(&registry->pending, registry->pending.n, kernel);
  }
  remove_from(&registry->replacements, op);
  tn__defaults_free(registry->env, op->defaults);
  op->defaults = NULL;
  op->desc = NULL;
  op->plugin = NULL;
}

static void withdraw_plugin(tn__registry *registry, tn__plugin *plugin) {
  for (uint32_t i = 0; i < plugin->entry->n_kernels; ++i) {
    tn__kernel *kernel = &plugin->kernels[i];
    if (kernel->op)
      tn__kernel_detach(kernel);
    else
      remove_from(&registry->pending, kernel);
  }
  for (size_t i = registry->sorted.n; i-- > 0;) {
    tn_operator *op = registry->sorted.v[i];
    if (op->plugin != plugin) continue;
    tn__vec_remove(&registry->sorted, i);
    withdraw_operator(registry, op);
  }
  for (size_t i = 0; i < plugin->provided.n; ++i) {
    const tn__extension *extension = plugin->provided.v[i];
    tn__map_remove(&registry->extensions, extension->id);
  }
  remove_from(&registry->plugins, plugin);
}

static tn_code make_room(tn__registry *registry, const tn__plugin *plugin) {
  TN__TRY(tn__vec_reserve(registry->env, &registry->resident, 1));
  return tn__vec_reserve(registry->env, &registry->pending,
                         count_foreign(plugin));
}

static tn_code remove_plugin(tn__registry *registry, tn__plugin *plugin) {
  pthread_rwlock_wrlock(&registry->lock);
  tn_code rc = check_holders(plugin);
  if (!rc) rc = make_room(registry, plugin);
  if (!rc) withdraw_plugin(registry, plugin);
  pthread_rwlock_unlock(&registry->lock);
  return rc;
}

static tn_code unload_plugin(tn__registry *registry, tn__plugin *plugin) {
  TN__TRY(remove_plugin(registry, plugin));
  tn__log(registry->env, TN__LOG_REGISTRY, TN_LOG_DEBUG, "unloaded plugin %s",
          plugin->entry->name);
  tn__plugin_retire(plugin);
  return TN_OK;
}

static tn_code unload_name(tn__registry *registry, const char *name) {
  tn__plugin *plugin = find_plugin(registry, name);
  if (plugin) return unload_plugin(registry, plugin);
  return tn__fail(TN_NOT_FOUND, "no plugin named \"%.200s\" is loaded",
                  name ? name : "");
}

static tn_code unload_operator(const tn_operator *op) {
  tn__plugin *plugin = op->plugin;
  if (!plugin)
    return tn__fail(TN_NOT_FOUND, "the operator %s is not defined (any more)",
                    op->name);
  if (plugin->defined) return unload_plugin(op->registry, plugin);
  return tn__fail(TN_INVALID,
                  "the operator %s was not defined by tn_operator_define; "
                  "unload its plugin \"%s\"",
                  op->name, plugin->entry->name);
}

tn_code tn__plugin_unload(tn__registry *registry, const char *name) {
  TN__TRY(tn__load_begin(registry));
  tn_code rc = unload_name(registry, name);
  tn__load_end(registry);
  return rc;
}

tn_code tn__operator_remove(tn_operator *op) {
  TN__TRY(tn__load_begin(op->registry));
  tn_code rc = unload_operator(op);
  tn__load_end(op->registry);
  return rc;
}
