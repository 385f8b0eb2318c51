/* SPDX-License-Identifier: Apache-2.0
 * plugin_pass.c: the passes that plugins register: their names, and holders
 * while they run. core/passes runs them.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "registry.h"

/* --------------------------------------------------------------- the table */

static const tn_passes *_Atomic provided;

void tn__passes_provide(const tn_passes *table) {
  atomic_store(&provided, table);
}

/* libtenon-graph provides the table while it is opened, and stays open. */
static void open_graphs(const tn__env *env) {
  char folder[PATH_MAX], path[PATH_MAX];
  if (env->find_modules(env, folder)) return;
  const int n = snprintf(path, sizeof path, "%s/%s", folder, TN__GRAPH_FILE);
  if (n < 0 || (size_t)n >= sizeof path || env->os->dlopen(path)) return;
  const char *why = env->os->dlerror();
  tn__log(env, TN__LOG_REGISTRY, TN_LOG_WARNING,
          "a plugin has passes over graphs, but %s cannot be opened: %s; "
          "install it beside libtenon.so",
          path, why ? why : "the dynamic linker gave no reason");
}

const tn_passes *tn__passes_find(tn__registry *registry) {
  if (!registry->passes) registry->passes = atomic_load(&provided);
  if (!registry->passes && registry->env->find_modules) {
    open_graphs(registry->env);
    registry->passes = atomic_load(&provided);
  }
  return registry->passes;
}

/* --------------------------------------------------------------- registering
 */

static bool is_name(const char *name) {
  size_t n = 0;
  while ((name[n] >= 'a' && name[n] <= 'z') || name[n] == '_' ||
         (n > 0 && name[n] >= '0' && name[n] <= '9'))
    ++n;
  return n > 0 && n <= TN__PASS_NAME && name[n] == '\0' && name[0] != '_';
}

static bool are_all_named(const char *const *list, uint32_t n) {
  if (n > 0 && !list) return false;
  for (uint32_t i = 0; i < n; ++i)
    if (!list[i] || list[i][0] == '\0') return false;
  return true;
}

/* Whether all names that the pass provides begin with the plugin's name. */
static bool are_all_own(const tn__plugin *plugin, const tn_pass *pass) {
  const char *own = plugin->entry->name;
  const size_t n = strlen(own);
  for (uint32_t i = 0; i < pass->n_provides; ++i)
    if (strncmp(pass->provides[i], own, n) != 0 || pass->provides[i][n] != '.')
      return false;
  return true;
}

/* NULL, or a description of the mistake in the pass. */
static const char *find_mistake(const tn__plugin *plugin, const tn_pass *pass) {
  if (!is_name(pass->name))
    return "cannot name a pass: a name is a small letter, then small letters, "
           "digits and _, 60 at most";
  if (!pass->run) return "is a pass without `run`";
  if (pass->flags & ~(uint32_t)TN_PASS_INNER)
    return "is a pass with flags that this host does not know";
  if (!are_all_named(pass->needs, pass->n_needs))
    return "is a pass that needs something without a name";
  if (!are_all_named(pass->provides, pass->n_provides))
    return "is a pass that provides something without a name";
  if (!are_all_own(plugin, pass))
    return "is a pass that provides a name; it does not begin with its "
           "plugin's name";
  return NULL;
}

static tn__pass *find_own(const tn__plugin *plugin, const char *full) {
  for (size_t i = 0; i < plugin->passes.n; ++i) {
    tn__pass *pass = plugin->passes.v[i];
    if (strcmp(pass->name, full) == 0) return pass;
  }
  return NULL;
}

static tn_code enter_pass(tn__plugin *plugin, const tn_pass *desc,
                          const char *full) {
  const tn__env *env = plugin->registry->env;
  tn__pass *pass = tn__zalloc(env, sizeof *pass);
  if (!pass) return TN_OUT_OF_MEMORY;
  pass->name = tn__strdup(env, full);
  pass->desc = desc;
  pass->plugin = plugin;
  if (pass->name && !tn__vec_push(env, &plugin->passes, pass)) return TN_OK;
  tn__free(env, pass->name);
  tn__free(env, pass);
  return TN_OUT_OF_MEMORY;
}

int32_t tn__pass_add(tn_registrar *registrar, const tn_pass *pass) {
  tn__plugin *plugin = tn__registrar_plugin(registrar);
  char full[TN__PASS_NAME + 128];
  if (!pass || !pass->name || pass->struct_size < sizeof *pass)
    return tn__registrar_fail(registrar, TN_INVALID, "",
                              "is a pass without a name, or of no size");
  const char *what = find_mistake(plugin, pass);
  if (what) return tn__registrar_fail(registrar, TN_INVALID, pass->name, what);
  (void)snprintf(full, sizeof full, "%.100s.%s", plugin->entry->name,
                 pass->name);
  if (find_own(plugin, full))
    return tn__registrar_fail(registrar, TN_EXISTS, pass->name,
                              "is the name of two passes");
  if (enter_pass(plugin, pass, full))
    return tn__registrar_fail(registrar, TN_OUT_OF_MEMORY, pass->name,
                              "cannot be registered: no memory");
  return TN_OK;
}

void tn__passes_free(tn__plugin *plugin) {
  const tn__env *env = plugin->registry->env;
  for (size_t i = 0; i < plugin->passes.n; ++i) {
    tn__pass *pass = plugin->passes.v[i];
    tn__free(env, pass->name);
    tn__free(env, pass);
  }
  tn__vec_deinit(env, &plugin->passes);
  plugin->passes = (tn__vec){0};
}

/* ---------------------------------------------------------------- looking up
 */

/* The lock is held. */
static tn__pass *pass_at(const tn__registry *registry, size_t index) {
  for (size_t i = 0; i < registry->plugins.n; ++i) {
    const tn__plugin *plugin = registry->plugins.v[i];
    if (index < plugin->passes.n) return plugin->passes.v[index];
    index -= plugin->passes.n;
  }
  return NULL;
}

tn__pass *tn__pass_hold(tn__registry *registry, const char *name) {
  tn__pass *found = NULL;
  pthread_rwlock_rdlock(&registry->lock);
  for (size_t i = 0; !found && i < registry->plugins.n; ++i)
    found = find_own(registry->plugins.v[i], name);
  if (found) atomic_fetch_add(&found->calls, 1);
  pthread_rwlock_unlock(&registry->lock);
  return found;
}

tn__pass *tn__pass_hold_at(tn__registry *registry, size_t index) {
  pthread_rwlock_rdlock(&registry->lock);
  tn__pass *found = pass_at(registry, index);
  if (found) atomic_fetch_add(&found->calls, 1);
  pthread_rwlock_unlock(&registry->lock);
  return found;
}

void tn__pass_unhold(tn__pass *pass) {
  if (pass) atomic_fetch_sub(&pass->calls, 1);
}
