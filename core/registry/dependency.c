/* SPDX-License-Identifier: Apache-2.0
 * dependency.c: checks the plugins that a plugin requires, and their minimal
 * releases.
 */
#include <string.h>

#include "module.h"
#include "registry.h"

const tn_dependency *tn__dependency_find(const tn_plugin *entry,
                                         const char *name) {
  const uint32_t n = TN_HAS(entry, dependencies) ? entry->n_dependencies : 0;
  for (uint32_t i = 0; i < n; ++i)
    if (strcmp(entry->dependencies[i]->plugin, name) == 0)
      return entry->dependencies[i];
  return NULL;
}

static const tn__plugin *find_loaded(const tn__registry *registry,
                                     const char *name) {
  for (size_t i = 0; i < registry->plugins.n; ++i) {
    const tn__plugin *plugin = registry->plugins.v[i];
    if (!plugin->defined && strcmp(plugin->entry->name, name) == 0)
      return plugin;
  }
  return NULL;
}

static tn_code check_one(tn__plugin *plugin, const tn_dependency *wanted) {
  const tn__plugin *other = find_loaded(plugin->registry, wanted->plugin);
  if (!other) {
    plugin->lacking = true;
    plugin->dependent = true;
    return tn__fail(TN_NOT_FOUND,
                    "%s: the plugin \"%s\" requires the plugin \"%s\", release "
                    "%u or newer, which is not loaded; load that one first",
                    plugin->path, plugin->entry->name, wanted->plugin,
                    wanted->release);
  }
  if (other->entry->release >= wanted->release) return TN_OK;
  return tn__fail(
      TN_UNSUPPORTED,
      "%s: the plugin \"%s\" requires the plugin \"%s\", release %u "
      "or newer; release %u is loaded, from %s; install a newer "
      "one",
      plugin->path, plugin->entry->name, wanted->plugin, wanted->release,
      other->entry->release, other->path);
}

/* tenon-probe loads one manifest and no other plugin. */
tn_code tn__dependencies_check(tn__plugin *plugin) {
  const tn_plugin *entry = plugin->entry;
  const uint32_t n = TN_HAS(entry, dependencies) ? entry->n_dependencies : 0;
  if (plugin->registry->trust & TNM_TRUST_PROBE) return TN_OK;
  for (uint32_t i = 0; i < n; ++i)
    TN__TRY(check_one(plugin, entry->dependencies[i]));
  return TN_OK;
}
