/* SPDX-License-Identifier: Apache-2.0
 * loader.c: loads a plugin file, or fails with a message. The steps require
 * growing trust: name, bytes, note, versions, then the code, its descriptor,
 * init, and the registry. A failure at any step leaves the registry
 * unchanged. */
#include <errno.h>
#include <fenv.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "file_trust.h"
#include "loading.h"
#include "manifest.h"

static bool is_same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool tn__is_same_content(const struct stat *a, const struct stat *b) {
  return is_same_file(a, b) && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
         a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The C library identifies libraries by name: for a new file with the name of a
 * mapped one it would silently return the old code. */
static tn_code refuse_known(const tn__registry *registry, const char *path,
                            const struct stat *identity) {
  for (size_t i = 0; i < registry->plugins.n; ++i) {
    const tn__plugin *plugin = registry->plugins.v[i];
    if ((plugin->handle || plugin->manifest) &&
        is_same_file(&plugin->identity, identity))
      return tn__fail(TN_EXISTS, "%s: is loaded already, as plugin \"%s\"",
                      path, plugin->entry->name);
  }
  for (size_t i = 0; i < registry->resident.n; ++i) {
    const tn__plugin *plugin = registry->resident.v[i];
    if (!strcmp(plugin->path, path) &&
        !tn__is_same_content(&plugin->identity, identity))
      return tn__fail(TN_PLUGIN,
                      "%s: has changed since it was unloaded, but its old code "
                      "is still mapped because the plugin does not say that it "
                      "is unloadable; restart the program, or load the new "
                      "file under another name",
                      path);
  }
  return TN_OK;
}

static void *open_keeping_floating(const tn__env *env, const char *path) {
  fenv_t floating;
  (void)fegetenv(&floating);
  void *handle = env->os->dlopen(path);
  (void)fesetenv(&floating);
  return handle;
}

static tn_code open_code(tn__plugin *plugin) {
  const tn__env *env = plugin->registry->env;
  struct stat now;
  plugin->handle = open_keeping_floating(env, plugin->path);
  if (!plugin->handle) {
    const char *why = env->os->dlerror();
    return tn__fail(TN_PLUGIN, "%s: cannot be opened as code: %s", plugin->path,
                    why ? why : "the dynamic linker gave no reason");
  }
  if (env->os->stat(plugin->path, &now))
    return tn__fail(TN_IO, "%s: cannot be examined after opening: %s",
                    plugin->path, strerror(errno));
  if (!tn__is_same_content(&now, &plugin->identity))
    return tn__fail(TN_PLUGIN,
                    "%s: was changed or replaced while it was being loaded; "
                    "load it again",
                    plugin->path);
  return TN_OK;
}

/* ------------------------------------------------------------- descriptor */

static tn_code check_version(const tn__plugin *plugin, const tn_plugin *entry) {
  const tn_note note = {.abi_major = entry->abi_major,
                        .min_host_minor = entry->min_host_minor,
                        .machine = TN_NOTE_MACHINE,
                        .pointer_bits = 8 * sizeof(void *)};
  return tn__note_accept(&note, plugin->path);
}

/* The last field of the first version. Later fields are read only if
 * struct_size includes them. */
static tn_code accept_entry(tn__plugin *plugin, const tn_plugin *entry) {
  const size_t least = offsetof(tn_plugin, fini) + sizeof entry->fini;
  if (entry->magic != TN_PLUGIN_MAGIC)
    return tn__fail(TN_PLUGIN,
                    "%s: the magic of tn_plugin_entry is %016" PRIx64
                    ", expected %016llx; it is no Tenon plugin's descriptor",
                    plugin->path, entry->magic, TN_PLUGIN_MAGIC);
  if (entry->struct_size < least)
    return tn__fail(TN_PLUGIN,
                    "%s: struct_size of tn_plugin_entry is %u, expected at "
                    "least %zu; build the plugin again",
                    plugin->path, entry->struct_size, least);
  TN__TRY(check_version(plugin, entry));
  plugin->entry = entry;
  return TN_OK;
}

static tn_code compare_note(const tn__plugin *plugin, const tn__elf *elf) {
  const tn_plugin *entry = plugin->entry;
  tn_code rc = TN_OK;
  if (entry->abi_major != elf->note.abi_major ||
      entry->abi_minor != elf->note.abi_minor ||
      entry->min_host_minor != elf->note.min_host_minor)
    rc = tn__fail(TN_PLUGIN,
                  "the ABI is %u.%u for hosts from %u in the note, %u.%u for "
                  "hosts from %u in the descriptor",
                  elf->note.abi_major, elf->note.abi_minor,
                  elf->note.min_host_minor, entry->abi_major, entry->abi_minor,
                  entry->min_host_minor);
  if (!rc)
    rc = tn__tables_compare(plugin->registry->env, entry, elf->manifest,
                            (size_t)elf->note.manifest_size);
  if (!rc && entry->manifest_hash != elf->note.manifest_hash)
    rc = tn__fail(TN_PLUGIN,
                  "manifest_hash is %016" PRIx64 " in the note, %016" PRIx64
                  " in the descriptor",
                  elf->note.manifest_hash, entry->manifest_hash);
  return rc == TN_PLUGIN
             ? tn__fail_more(rc,
                             "; the parts of %s come from different "
                             "builds, build it again",
                             plugin->path)
             : rc;
}

static tn_code find_entry(tn__plugin *plugin) {
  const tn__env *env = plugin->registry->env;
  const void *symbol = env->os->dlsym(plugin->handle, "tn_plugin_entry");
  if (symbol) return accept_entry(plugin, symbol);
  const char *why = env->os->dlerror();
  return tn__fail(TN_PLUGIN,
                  "%s: has a Tenon note but does not export tn_plugin_entry: "
                  "%s",
                  plugin->path, why ? why : "the symbol's address is NULL");
}

/* ----------------------------------------------------------------- loading */

/* One file. `attempt` is NULL unless a search has found it. */
typedef struct load {
  tn__registry *registry;
  const char *path;
  tn__load_attempt *attempt;
} load;

/* Whether the load may be tried again later; init has run. */
static bool can_retry(const load *l, const tn__plugin *plugin, tn_code rc) {
  if (!l->attempt || l->attempt->last || rc == TN_OUT_OF_MEMORY) return false;
  l->attempt->later = plugin->lacking;
  l->attempt->dependent = plugin->dependent;
  return plugin->lacking;
}

static tn_code load_checked(const load *l, const char *path,
                            const tn__elf *elf) {
  tn__registry *registry = l->registry;
  tn__plugin *plugin = NULL;
  TN__TRY(tn__vec_reserve(registry->env, &registry->resident, 1));
  TN__TRY(tn__plugin_create(registry, path, &plugin));
  plugin->identity = elf->identity;
  tn_code rc = open_code(plugin);
  if (!rc) rc = find_entry(plugin);
  if (!rc) rc = compare_note(plugin, elf);
  if (!rc) rc = tn__plugin_start(plugin);
  const bool later = can_retry(l, plugin, rc);
  if (!rc && !later) rc = tn__plugin_commit(registry, plugin);
  if (l->attempt && !rc && !later) {
    l->attempt->loaded = true;
    l->attempt->provided = plugin->provided.n > 0;
  }
  if (rc || later) tn__plugin_retire(plugin);
  return later ? TN_OK : rc;
}

static tn_code load_manifest(tn__registry *registry, const char *path) {
  struct stat identity;
  if (registry->env->os->stat(path, &identity))
    return tn__fail(TN_IO, "%s: cannot be examined: %s", path, strerror(errno));
  TN__TRY(refuse_known(registry, path, &identity));
  return tn__manifest_load(registry, path, &identity);
}

/* Other users must not be able to change a file that a search has found. */
static bool is_suspect(const load *l) {
  return l->attempt && !(l->registry->trust & TN_TRUST_ANY_FOLDER);
}

static tn_code resolve_path(const load *l, char *real) {
  const tn__env *env = l->registry->env;
  TN__TRY(tn__path_resolve(env, l->path, real));
  return is_suspect(l) ? tn__trust_resolve(env, l->path, real) : TN_OK;
}

static tn_code load_file(const load *l) {
  tn__registry *registry = l->registry;
  const tn__env *env = registry->env;
  char real[PATH_MAX];
  tn__elf elf;
  TN__TRY(resolve_path(l, real));
  if (tn__is_manifest(real)) return load_manifest(registry, real);
  TN__TRY(tn__elf_read(env, real, &elf));
  tn_code rc = is_suspect(l) ? tn__trust_check(real, &elf.identity) : TN_OK;
  if (!rc) rc = tn__elf_accept(&elf, real);
  if (!rc) rc = refuse_known(registry, real, &elf.identity);
  if (!rc) rc = load_checked(l, real, &elf);
  tn__elf_deinit(env, &elf);
  return rc;
}

/* A search logs its refusals itself, as warnings. */
static void log_result(const load *l, tn_code rc, size_t n_before) {
  const tn__registry *registry = l->registry;
  if (rc && !l->attempt)
    tn__log(registry->env, TN__LOG_LOADING, TN_LOG_INFO, "refused: %s",
            tn_error_text());
  if (rc || registry->plugins.n == n_before) return;
  const tn__plugin *plugin = registry->plugins.v[n_before];
  tn__log(registry->env, TN__LOG_LOADING, TN_LOG_INFO,
          "loaded plugin %s %u (%u operators, %u kernels) from %s",
          plugin->entry->name, plugin->entry->release,
          plugin->entry->n_operators, plugin->entry->n_kernels, plugin->path);
}

static tn_code load_locked(const load *l) {
  TN__TRY(tn__load_begin(l->registry));
  const size_t n_before = l->registry->plugins.n;
  tn_code rc = load_file(l);
  log_result(l, rc, n_before);
  tn__load_end(l->registry);
  return rc;
}

tn_code tn__plugin_load(tn__registry *registry, const char *path) {
  return load_locked(&(load){registry, path, NULL});
}

tn_code tn__plugin_try_load(tn__registry *registry, const char *path,
                            tn__load_attempt *attempt) {
  *attempt = (tn__load_attempt){.last = attempt->last};
  return load_locked(&(load){registry, path, attempt});
}

static tn_code add_static(tn__registry *registry, const tn_plugin *entry) {
  tn__plugin *plugin = NULL;
  TN__TRY(tn__plugin_create(registry, "(static)", &plugin));
  tn_code rc = accept_entry(plugin, entry);
  if (!rc) rc = tn__plugin_start(plugin);
  if (!rc) rc = tn__plugin_commit(registry, plugin);
  if (rc) tn__plugin_discard(plugin);
  return rc;
}

tn_code tn__plugin_add(tn__registry *registry, const tn_plugin *entry) {
  if (!entry)
    return tn__fail(TN_INVALID,
                    "the plugin to add is NULL; pass the address "
                    "of its tn_plugin_<name>");
  TN__TRY(tn__load_begin(registry));
  tn_code rc = add_static(registry, entry);
  tn__load_end(registry);
  return rc;
}
