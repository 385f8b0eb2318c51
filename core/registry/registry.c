/* SPDX-License-Identifier: Apache-2.0
 * registry.c: the table of operators: creation, lookup, lists, end.
 * plugin_commit.c and plugin_unload.c change it.
 */
#include <stdlib.h>
#include <string.h>

#include "registry.h"

enum { PROBE_SECONDS = 10 };

/* Its type lets a thread detect that it has the lock already. */
static int init_load_lock(tn__registry *registry) {
  pthread_mutexattr_t kind;
  int rc = pthread_mutexattr_init(&kind);
  if (rc) return rc;
  rc = pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
  if (!rc) rc = pthread_mutex_init(&registry->load_lock, &kind);
  (void)pthread_mutexattr_destroy(&kind);
  return rc;
}

tn_code tn__load_begin(tn__registry *registry) {
  if (pthread_mutex_lock(&registry->load_lock) == 0) return TN_OK;
  return tn__fail(TN_INVALID,
                  "nothing can be loaded, defined, inspected or removed from "
                  "inside of a plugin's `init` or `fini`, or of the `destroy` "
                  "of a definition: do it when they have returned");
}

void tn__load_end(tn__registry *registry) {
  (void)pthread_mutex_unlock(&registry->load_lock);
}

tn_code tn__registry_create(const tn__registry_options *options,
                            tn__registry **out) {
  tn__registry *registry = tn__zalloc(options->env, sizeof *registry);
  *out = NULL;
  if (!registry) return tn__fail_memory(sizeof *registry, "a registry");
  registry->env = options->env;
  registry->trust = options->trust;
  registry->helpers = options->helpers;
  registry->probe_seconds =
      options->probe_seconds ? options->probe_seconds : PROBE_SECONDS;
  registry->device_add = options->device_add;
  registry->device_ctx = options->device_ctx;
  registry->passes = options->passes;
  tn__host_init(&registry->host, options);
  if (pthread_rwlock_init(&registry->lock, NULL)) {
    tn__free(options->env, registry);
    return tn__fail(TN_OUT_OF_MEMORY, "the system refused a lock");
  }
  if (init_load_lock(registry)) {
    pthread_rwlock_destroy(&registry->lock);
    tn__free(options->env, registry);
    return tn__fail(TN_OUT_OF_MEMORY, "the system refused a lock");
  }
  *out = registry;
  return TN_OK;
}

static void free_operators(tn__registry *registry) {
  const tn__env *env = registry->env;
  for (size_t i = 0; i < registry->known.n; ++i) {
    tn_operator *op = registry->known.v[i];
    tn__defaults_free(env, op->defaults);
    tn__vec_deinit(env, &op->kernels);
    tn__free(env, op);
  }
}

void tn__registry_destroy(tn__registry *registry) {
  if (!registry) return;
  const tn__env *env = registry->env;
  (void)pthread_mutex_lock(&registry->load_lock);
  while (registry->plugins.n) {
    tn__plugin *plugin = registry->plugins.v[registry->plugins.n - 1];
    tn__plugin_discard(plugin);
    tn__vec_remove(&registry->plugins, registry->plugins.n - 1);
  }
  for (size_t i = 0; i < registry->resident.n; ++i)
    tn__plugin_discard(registry->resident.v[i]);
  tn__load_end(registry);
  free_operators(registry);
  tn__map_deinit(env, &registry->operators);
  tn__map_deinit(env, &registry->extensions);
  tn__vec_deinit(env, &registry->known);
  tn__vec_deinit(env, &registry->sorted);
  tn__vec_deinit(env, &registry->replacements);
  tn__vec_deinit(env, &registry->plugins);
  tn__vec_deinit(env, &registry->pending);
  tn__vec_deinit(env, &registry->resident);
  if (registry->module_handle) env->os->dlclose(registry->module_handle);
  pthread_mutex_destroy(&registry->load_lock);
  pthread_rwlock_destroy(&registry->lock);
  tn__free(env, registry);
}

/* ------------------------------------------------------------------ lookup */

/* Length of a name without its interface. */
static size_t bare_length(const char *name) {
  return strcspn(name, "@");
}

/* The number after '@'; UINT64_MAX if there is none, which sorts a bare name
 * after all of its interfaces. */
static uint64_t interface_of(const char *name) {
  const char *at = strchr(name, '@');
  return at ? strtoull(at + 1, NULL, 10) : UINT64_MAX;
}

/* Sorts '@' first and then the end of a name, so a bare name follows all of its
 * interfaces. */
static int char_weight(char c) {
  return c == '@' ? 0 : c == 0 ? 1 : 2 + (unsigned char)c;
}

int tn__operator_compare(const char *a, const char *b) {
  size_t i = 0;
  bool interface = false;
  for (; a[i] == b[i]; ++i) {
    if (!a[i]) return 0;
    interface = interface || a[i] == '@';
  }
  if (!interface) return char_weight(a[i]) - char_weight(b[i]);
  return interface_of(a) < interface_of(b) ? -1 : 1;
}

/* The last operator that is not after `name`, or NULL. */
static tn_operator *last_until(const tn__registry *registry, const char *name) {
  size_t low = 0;
  for (size_t high = registry->sorted.n; low < high;) {
    size_t middle = low + (high - low) / 2;
    const tn_operator *op = registry->sorted.v[middle];
    if (tn__operator_compare(op->name, name) <= 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? registry->sorted.v[low - 1] : NULL;
}

/* A replacement is found by the bare name, and by the full name with the
 * interface of the replacement: callers of the name expect this interface. */
static tn_operator *find_replacement(const tn__registry *registry,
                                     const char *name) {
  size_t n = bare_length(name);
  for (size_t i = registry->replacements.n; i-- > 0;) {
    tn_operator *op = registry->replacements.v[i];
    if (strlen(op->desc->replaces) == n &&
        !strncmp(op->desc->replaces, name, n) &&
        (!name[n] || interface_of(name) == op->desc->interface))
      return op;
  }
  return NULL;
}

static tn_operator *find_operator(const tn__registry *registry,
                                  const char *name) {
  tn_operator *op = find_replacement(registry, name);
  if (op) return op;
  if (strchr(name, '@')) {
    op = tn__map_get(&registry->operators, name);
    return op && op->desc ? op : NULL;
  }
  size_t n = strlen(name);
  op = last_until(registry, name);
  return op && bare_length(op->name) == n && !strncmp(op->name, name, n) ? op
                                                                         : NULL;
}

/* The name of an operator if `name` lacks only its plugin, otherwise the most
 * similar name. */
static const char *suggest_name(const tn__registry *registry, tn__arena *arena,
                                const char *name) {
  const char **names =
      tn__arena_alloc(arena, (registry->sorted.n + 1) * sizeof *names);
  size_t n = 0;
  for (size_t i = 0; names && i < registry->sorted.n; ++i) {
    const tn_operator *op = registry->sorted.v[i];
    const char *bare = tn__arena_text(arena, op->name, bare_length(op->name));
    if (!bare) return NULL;
    if (!strcmp(op->desc->name, name)) return bare;
    names[n++] = bare;
  }
  return n ? tn__find_nearest_word(name, names, n) : NULL;
}

static bool has_plugin(const tn__registry *registry, const char *op_name) {
  for (size_t i = 0; i < registry->plugins.n; ++i) {
    const tn__plugin *plugin = registry->plugins.v[i];
    size_t n = strlen(plugin->entry->name);
    if (!strncmp(op_name, plugin->entry->name, n) && op_name[n] == '.')
      return true;
  }
  return false;
}

static tn_code fail_not_found(const tn__registry *registry, const char *name) {
  tn__arena arena;
  tn__arena_init(&arena, registry->env);
  const char *near = suggest_name(registry, &arena, name);
  const tn_operator *old = tn__map_get(&registry->operators, name);
  tn_code rc = tn__fail(TN_NOT_FOUND, "there is no operator \"%.200s\"", name);
  if (old && !old->desc)
    rc = tn__fail_more(rc, " any more: its plugin was unloaded");
  else if (near)
    rc = tn__fail_more(rc, "; did you mean \"%s\"?", near);
  else if (!strchr(name, '.'))
    rc = tn__fail_more(rc, "; names have the form plugin.operator");
  else if (!has_plugin(registry, name))
    rc = tn__fail_more(rc, ": no plugin \"%.*s\" is loaded",
                       (int)strcspn(name, "."), name);
  tn__arena_deinit(&arena);
  return rc;
}

tn_code tn__operator_get(tn__registry *registry, const char *name,
                         tn_operator **out) {
  *out = NULL;
  if (!name) return tn__fail(TN_INVALID, "the operator's name is NULL");
  pthread_rwlock_rdlock(&registry->lock);
  tn_operator *op = find_operator(registry, name);
  tn_code rc = op ? TN_OK : fail_not_found(registry, name);
  pthread_rwlock_unlock(&registry->lock);
  *out = op;
  return rc;
}

bool tn__operator_exists(tn__registry *registry, const char *name) {
  pthread_rwlock_rdlock(&registry->lock);
  const bool exists = find_operator(registry, name) != NULL;
  pthread_rwlock_unlock(&registry->lock);
  return exists;
}

/* ------------------------------------------------------------------- lists */

tn_code tn__operator_at(tn__registry *registry, size_t index,
                        tn_operator **out) {
  tn_code rc = TN_OK;
  *out = NULL;
  pthread_rwlock_rdlock(&registry->lock);
  if (index < registry->sorted.n)
    *out = registry->sorted.v[index];
  else
    rc = tn__fail(TN_NOT_FOUND, "there are %zu operators, none has number %zu",
                  registry->sorted.n, index);
  pthread_rwlock_unlock(&registry->lock);
  return rc;
}

tn_code tn__plugin_at(tn__registry *registry, size_t index,
                      tn_plugin_info *out) {
  tn_code rc = TN_OK;
  *out = (tn_plugin_info){0};
  pthread_rwlock_rdlock(&registry->lock);
  if (index < registry->plugins.n) {
    const tn__plugin *plugin = registry->plugins.v[index];
    *out = (tn_plugin_info){plugin->entry, plugin->path};
  } else {
    rc = tn__fail(TN_NOT_FOUND, "there are %zu plugins, none has number %zu",
                  registry->plugins.n, index);
  }
  pthread_rwlock_unlock(&registry->lock);
  return rc;
}

/* ----------------------------------------------------------------- pinning */

/* Kernels of both passes may have one id. */
static bool is_named_before(const tn_operator *op, size_t index) {
  const tn__kernel *kernel = op->kernels.v[index];
  for (size_t i = 0; i < index; ++i) {
    const tn__kernel *other = op->kernels.v[i];
    if (!strcmp(other->desc->id, kernel->desc->id)) return true;
  }
  return false;
}

tn_code tn__operator_fail_no_kernel(const tn_operator *op, const char *id) {
  tn_code rc = tn__fail(TN_NOT_FOUND, "%s has no kernel \"%.200s\"; it has",
                        op->name, id);
  for (size_t i = 0; i < op->kernels.n; ++i) {
    const tn__kernel *kernel = op->kernels.v[i];
    if (is_named_before(op, i)) continue;
    rc = tn__fail_more(rc, "%s %s", i ? "," : "", kernel->desc->id);
  }
  return op->kernels.n ? rc : tn__fail_more(rc, " none");
}

static tn_code pin_kernel(tn_operator *op, const char *id) {
  op->pin = NULL;
  for (size_t i = 0; id && i < op->kernels.n && !op->pin; ++i) {
    tn__kernel *kernel = op->kernels.v[i];
    if (!strcmp(kernel->desc->id, id)) op->pin = kernel;
  }
  return id && !op->pin ? tn__operator_fail_no_kernel(op, id) : TN_OK;
}

tn_code tn__operator_pin(tn_operator *op, const char *id) {
  pthread_rwlock_wrlock(&op->registry->lock);
  tn__kernel *before = op->pin;
  tn_code rc = pin_kernel(op, id);
  if (rc) op->pin = before;
  atomic_fetch_add(&op->registry->epoch, 1);
  pthread_rwlock_unlock(&op->registry->lock);
  return rc;
}

/* ----------------------------------------------------------------- as JSON */

static void add_plugin_json(const tn__plugin *plugin, tn__buf *out) {
  const tn_plugin *entry = plugin->entry;
  tn__buf_add(out, "{\"name\": ");
  tn__buf_json(out, entry->name);
  tn__buf_add(out, ", \"release\": %u, \"path\": ", entry->release);
  tn__buf_json(out, plugin->path);
  tn__buf_add(out, ", \"operators\": %u, \"kernels\": %u}", entry->n_operators,
              entry->n_kernels);
}

void tn__registry_json(tn__registry *registry, tn__buf *out) {
  if (pthread_rwlock_tryrdlock(&registry->lock) != 0) {
    tn__buf_add(out, "\"operators\": null, \"plugins\": null");
    return;
  }
  tn__buf_add(out, "\"operators\": %zu, \"plugins\": [", registry->sorted.n);
  for (size_t i = 0; i < registry->plugins.n; ++i) {
    tn__buf_add(out, "%s", i > 0 ? ", " : "");
    add_plugin_json(registry->plugins.v[i], out);
  }
  pthread_rwlock_unlock(&registry->lock);
  tn__buf_add(out, "]");
}
