/* SPDX-License-Identifier: Apache-2.0
 * plugin.c: starts and stops a plugin: kernel records, init with the registrar,
 * fini. The requests of init stay in the plugin's own record; plugin_commit.c
 * makes them public.
 */
#include <fenv.h>
#include <stdio.h>
#include <string.h>

#include "module.h"
#include "registry.h"

tn_code tn__plugin_create(tn__registry *registry, const char *path,
                          tn__plugin **out) {
  const tn__env *env = registry->env;
  tn__plugin *plugin = tn__zalloc(env, sizeof *plugin);
  *out = NULL;
  if (!plugin) return tn__fail_memory(sizeof *plugin, "a plugin");
  plugin->registry = registry;
  plugin->host = registry->host;
  plugin->host.host_data = plugin;
  tn__arena_init(&plugin->arena, env);
  plugin->path = tn__strdup(env, path);
  if (!plugin->path) {
    tn__free(env, plugin);
    return tn__fail_memory(strlen(path) + 1, "the name of a plugin");
  }
  *out = plugin;
  return TN_OK;
}

/* --------------------------------------------------------------- registrar */

/* The target of a registrar's host_data while init runs. */
typedef struct session {
  tn_registrar registrar;
  tn__plugin *plugin;
  tn_code refused; /* by the registry, even if init ignores it */
  char text[1024];
  tn_code answered; /* code and text of the last failed function, for an init
                       that returns the code without a reason */
  char answer[256];
} session;

static int32_t registrar_fail(tn_registrar *registrar, int32_t code,
                              const char *format, ...) {
  session *s = registrar->host_data;
  va_list args;
  va_start(args, format);
  (void)vsnprintf(s->text, sizeof s->text, format ? format : "", args);
  va_end(args);
  return code < 0 ? code : TN_PLUGIN;
}

static tn_code refuse_init(session *s, tn_code code, const char *id,
                           const char *why) {
  s->refused = code;
  (void)snprintf(s->text, sizeof s->text, "\"%s\" %s", id, why);
  return code;
}

static tn_code fail_request(session *s, tn_code code, const char *id,
                            const char *why) {
  s->answered = code;
  (void)snprintf(s->answer, sizeof s->answer, "\"%.100s\" %s", id, why);
  return code;
}

tn__plugin *tn__registrar_plugin(const tn_registrar *registrar) {
  const session *s = registrar->host_data;
  return s->plugin;
}

tn_code tn__registrar_fail(tn_registrar *registrar, tn_code code,
                           const char *id, const char *why) {
  return refuse_init(registrar->host_data, code, id, why);
}

static int32_t withdraw_kernel(tn_registrar *registrar, const char *kernel_id,
                               const char *why) {
  session *s = registrar->host_data;
  tn__plugin *plugin = s->plugin;
  const tn__env *env = plugin->registry->env;
  bool found = false;
  if (!kernel_id)
    return refuse_init(s, TN_INVALID, "",
                       "is withdrawn: the id of the kernel is "
                       "NULL");
  for (uint32_t i = 0; i < plugin->entry->n_kernels; ++i) {
    tn__kernel *kernel = &plugin->kernels[i];
    if (strcmp(kernel->desc->id, kernel_id) != 0) continue;
    found = true;
    tn__free(env, kernel->withdrawn);
    kernel->withdrawn = tn__strdup(env, why ? why : "no reason was given");
    if (!kernel->withdrawn)
      return refuse_init(s, TN_OUT_OF_MEMORY, kernel_id, "cannot be withdrawn");
  }
  return found ? TN_OK
               : fail_request(
                     s, TN_NOT_FOUND, kernel_id,
                     "is withdrawn, but the plugin has no kernel of this id");
}

static bool is_provided(const tn__plugin *plugin, const char *id) {
  if (strcmp(id, TN_PASS_EXTENSION) == 0)
    return true; /* provided by the host */
  for (size_t i = 0; i < plugin->provided.n; ++i) {
    const tn__extension *extension = plugin->provided.v[i];
    if (!strcmp(extension->id, id)) return true;
  }
  return strcmp(id, TN_DEVICE_EXTENSION) != 0 &&
         tn__map_get(&plugin->registry->extensions, id) != NULL;
}

static tn_code add_extension(tn__plugin *plugin, const char *id,
                             const void *table) {
  const tn__env *env = plugin->registry->env;
  tn__extension *extension = tn__zalloc(env, sizeof *extension);
  if (!extension) return tn__fail_memory(sizeof *extension, "an extension");
  extension->id = tn__strdup(env, id);
  extension->table = table;
  extension->provider = plugin;
  if (extension->id && !tn__vec_push(env, &plugin->provided, extension))
    return TN_OK;
  tn__free(env, extension->id);
  tn__free(env, extension);
  return TN_OUT_OF_MEMORY;
}

static int32_t provide_extension(tn_registrar *registrar, const char *id,
                                 const void *table) {
  session *s = registrar->host_data;
  if (!id || !table)
    return refuse_init(s, TN_INVALID, id ? id : "",
                       "is provided without a table");
  if (!strcmp(id, TN_DEVICE_EXTENSION) && !s->plugin->registry->device_add)
    return refuse_init(s, TN_UNSUPPORTED, id,
                       "is provided, but this host takes no devices");
  if (is_provided(s->plugin, id))
    return fail_request(s, TN_EXISTS, id,
                        "is provided already, by this or another plugin");
  if (add_extension(s->plugin, id, table))
    return refuse_init(s, TN_OUT_OF_MEMORY, id,
                       "cannot be provided: no memory");
  return TN_OK;
}

/* ------------------------------------------------------------ init and fini */

static tn_code create_kernels(tn__plugin *plugin) {
  const tn_plugin *entry = plugin->entry;
  const tn__env *env = plugin->registry->env;
  size_t bytes = entry->n_kernels * sizeof *plugin->kernels;
  plugin->kernels = tn__zalloc(env, bytes);
  if (!plugin->kernels) return tn__fail_memory(bytes, "a plugin's kernels");
  for (uint32_t i = 0; i < entry->n_kernels; ++i) {
    tn__kernel *kernel = &plugin->kernels[i];
    kernel->desc = entry->kernels[i];
    kernel->plugin = plugin;
    if (!kernel->desc->options_size) continue;
    const tn__fields fields = {kernel->desc->options, kernel->desc->n_options,
                               kernel->desc->options_size, kernel->desc->id};
    void *options = NULL;
    TN__TRY(tn__fields_build(env, &fields, NULL, 0, &options));
    kernel->options = options;
  }
  return TN_OK;
}

static tn_code fail_init(const session *s, tn_code rc) {
  const tn__plugin *plugin = s->plugin;
  const char *why = s->text;
  if (rc > 0 || rc < TN_INTERNAL) rc = TN_PLUGIN;
  if (!why[0]) why = s->answered == rc ? s->answer : "it gave no reason";
  return tn__fail(rc, "%s: init of the plugin \"%s\" failed: %s (%s)",
                  plugin->path, plugin->entry->name, why, tn_code_name(rc));
}

/* A plugin may change the floating-point state while it loads. The state is
 * restored, because it would change the host's results. */
static tn_code call_init(tn__plugin *plugin) {
  session s = {.registrar = {.struct_size = sizeof(tn_registrar),
                             .fail = registrar_fail,
                             .withdraw = withdraw_kernel,
                             .provide = provide_extension},
               .plugin = plugin};
  fenv_t floating;
  s.registrar.host_data = &s;
  if (!plugin->entry->init) {
    plugin->started = true;
    return TN_OK;
  }
  (void)fegetenv(&floating);
  plugin->began = true;
  plugin->loading = true;
  tn_code rc =
      plugin->entry->init(&plugin->host, &s.registrar, &plugin->instance);
  plugin->loading = false;
  (void)fesetenv(&floating);
  plugin->started = rc == TN_OK;
  if (!rc) rc = s.refused;
  return rc ? fail_init(&s, rc) : TN_OK;
}

static tn_code refuse_second(const tn__plugin *plugin) {
  const tn__vec *loaded = &plugin->registry->plugins;
  for (size_t i = 0; !plugin->defined && i < loaded->n; ++i) {
    const tn__plugin *other = loaded->v[i];
    if (!other->defined && !strcmp(other->entry->name, plugin->entry->name))
      return tn__fail(TN_EXISTS,
                      "%s: a plugin named \"%s\" is loaded already, from %s; "
                      "unload it first",
                      plugin->path, plugin->entry->name, other->path);
  }
  return TN_OK;
}

tn_code tn__plugin_start(tn__plugin *plugin) {
  tn_code rc = tn__tables_check(plugin->registry->env, plugin->entry, true);
  if (rc) return tn__fail_more(rc, " (%s)", plugin->path);
  TN__TRY(refuse_second(plugin));
  TN__TRY(tn__dependencies_check(plugin));
  rc = create_kernels(plugin);
  if (rc) return tn__fail_more(rc, " (%s)", plugin->path);
  return call_init(plugin);
}

static void call_fini(tn__plugin *plugin) {
  fenv_t floating;
  if (!plugin->started) return;
  plugin->started = false;
  if (!plugin->entry->fini) return;
  (void)fegetenv(&floating);
  plugin->entry->fini(plugin->instance);
  (void)fesetenv(&floating);
}

/* ---------------------------------------------------------------- the end */

static void forget_user(tn__registry *registry, const tn__plugin *plugin) {
  for (size_t p = 0; p < registry->plugins.n; ++p) {
    const tn__plugin *provider = registry->plugins.v[p];
    for (size_t i = 0; i < provider->provided.n; ++i) {
      tn__extension *extension = provider->provided.v[i];
      for (size_t u = extension->users.n; u-- > 0;)
        if (extension->users.v[u] == plugin)
          tn__vec_remove(&extension->users, u);
    }
  }
}

static void free_records(tn__plugin *plugin) {
  const tn__env *env = plugin->registry->env;
  for (uint32_t i = 0; plugin->kernels && i < plugin->entry->n_kernels; ++i) {
    tn__free(env, plugin->kernels[i].withdrawn);
    tn__free(env, plugin->kernels[i].options);
  }
  for (size_t i = 0; i < plugin->retired.n; ++i)
    tn__free(env, plugin->retired.v[i]);
  tn__vec_deinit(env, &plugin->retired);
  plugin->retired = (tn__vec){0};
  for (size_t i = 0; i < plugin->provided.n; ++i) {
    tn__extension *extension = plugin->provided.v[i];
    tn__vec_deinit(env, &extension->users);
    tn__free(env, extension->id);
    tn__free(env, extension);
  }
  tn__vec_deinit(env, &plugin->provided);
  plugin->provided = (tn__vec){0};
  tn__passes_free(plugin);
  tn__fused_pairs_free(plugin);
  tn__free(env, plugin->kernels);
  plugin->kernels = NULL;
}

/* If init was never called, no code of the plugin can still run. Otherwise the
 * file may be closed only if the plugin allows it. */
static bool can_close(const tn__plugin *plugin) {
  return !plugin->began || plugin->entry->flags & TN_PLUGIN_UNLOADABLE;
}

/* Calls fini if init has succeeded, closes the file if that is allowed, and
 * frees everything but path and record. True if the file stays mapped. */
static bool stop_plugin(tn__plugin *plugin) {
  const bool close = plugin->handle && can_close(plugin);
  call_fini(plugin);
  forget_user(plugin->registry, plugin);
  free_records(plugin);
  plugin->entry = NULL;
  if (plugin->manifest) plugin->registry->module->release(plugin->manifest);
  plugin->manifest = NULL;
  tn__arena_deinit(&plugin->arena);
  if (close) plugin->registry->env->os->dlclose(plugin->handle);
  const bool stays = plugin->handle && !close;
  plugin->handle = NULL;
  return stays;
}

tn_code tn__plugin_append_path(const tn__plugin *plugin, tn_code rc) {
  if (rc == TN_OUT_OF_MEMORY || plugin->defined) return rc;
  return tn__fail_more(rc, " (%s)", plugin->path);
}

void tn__plugin_discard(tn__plugin *plugin) {
  if (!plugin) return;
  const tn__env *env = plugin->registry->env;
  (void)stop_plugin(plugin);
  tn__free(env, plugin->path);
  tn__free(env, plugin);
}

/* Remembers a file that stays mapped, once per name. */
void tn__plugin_retire(tn__plugin *plugin) {
  tn__vec *resident = &plugin->registry->resident;
  bool stays = stop_plugin(plugin);
  for (size_t i = 0; i < resident->n; ++i) {
    const tn__plugin *other = resident->v[i];
    stays = stays && strcmp(other->path, plugin->path) != 0;
  }
  if (stays)
    tn__vec_insert_reserved(resident, resident->n, plugin);
  else
    tn__plugin_discard(plugin);
}
