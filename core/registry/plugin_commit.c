/* SPDX-License-Identifier: Apache-2.0
 * plugin_commit.c: makes a started plugin's operators and kernels visible, all
 * or nothing. First it prepares everything that can fail, invisible to others.
 * Then it reserves room under the lock; the remaining steps cannot fail.
 */
#include <stdio.h>
#include <string.h>

#include "manifest.h"
#include "registry.h"

/* An operator to define: a new one, or the name of one with an unloaded
 * plugin. */
typedef struct staged {
  tn_operator *op;
  const tn_op *desc;
  tn_params *defaults;
  bool fresh;
} staged;

typedef struct commit {
  tn__registry *registry;
  tn__plugin *plugin;
  staged *ops;
  size_t n_ops;
  size_t n_replaces;
  tn__map names;   /* full name -> staged */
  tn__vec adopted; /* tn__kernel *, of other plugins, for our operators */
  size_t n_attached;
} commit;

/* --------------------------------------------------------------- operators */

/* Room for "plugin.op@4294967295" after the struct. */
static tn_operator *create_operator(tn__registry *registry, const char *plugin,
                                    const tn_op *desc) {
  size_t room = strlen(plugin) + strlen(desc->name) + sizeof ".@4294967295";
  tn_operator *op = tn__zalloc(registry->env, sizeof *op + room);
  if (!op) return NULL;
  op->registry = registry;
  op->name = (char *)(op + 1);
  (void)snprintf(op->name, room, "%s.%s@%u", plugin, desc->name,
                 desc->interface);
  return op;
}

static tn_code check_replacement(commit *c, const staged *s) {
  if (!s->desc->replaces) return TN_OK;
  ++c->n_replaces;
  if (c->registry->trust & TN_TRUST_REPLACE) return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "%s asks to replace %s, which this host does not allow; "
                  "create the runtime with TN_TRUST_REPLACE if it should",
                  s->op->name, s->desc->replaces);
}

static tn_code fail_defined(const tn_operator *old) {
  if (old->plugin->defined)
    return tn__fail(TN_EXISTS,
                    "the operator %s is defined already, by this host; remove "
                    "it first",
                    old->name);
  return tn__fail(TN_EXISTS,
                  "the operator %s is defined already, by the plugin \"%s\" "
                  "(%s)",
                  old->name, old->plugin->entry->name, old->plugin->path);
}

/* Reuses the name of an unloaded operator, so that its handles become valid
 * again. */
static tn_code adopt_name(commit *c, staged *s) {
  tn_operator *old = tn__map_get(&c->registry->operators, s->op->name);
  if (tn__map_get(&c->names, s->op->name))
    return tn__fail(TN_EXISTS,
                    "the plugin \"%s\" defines the operator %s twice",
                    c->plugin->entry->name, s->op->name);
  if (!old) return TN_OK;
  if (old->desc) return fail_defined(old);
  tn__free(c->registry->env, s->op);
  s->op = old;
  s->fresh = false;
  return TN_OK;
}

static tn_code stage_operator(commit *c, const tn_op *desc) {
  const tn__env *env = c->registry->env;
  staged *s = &c->ops[c->n_ops];
  *s = (staged){.desc = desc, .fresh = true};
  s->op = create_operator(c->registry, c->plugin->entry->name, desc);
  if (!s->op) return tn__fail_memory(sizeof *s->op, "an operator");
  ++c->n_ops;
  TN__TRY(adopt_name(c, s));
  TN__TRY(check_replacement(c, s));
  TN__TRY(tn__defaults_create(s->op, desc, &s->defaults));
  return tn__map_set(env, &c->names, s->op->name, s);
}

/* ----------------------------------------------------------------- kernels */

static const tn_target *find_target(const tn_plugin *entry, const char *name) {
  for (uint32_t i = 0; i < entry->n_targets; ++i)
    if (!strcmp(entry->targets[i]->op, name)) return entry->targets[i];
  return NULL;
}

static bool is_own(const tn_plugin *entry, const char *name) {
  size_t n = strlen(entry->name);
  return !strncmp(name, entry->name, n) && name[n] == '.' &&
         !strchr(name + n + 1, '.');
}

/* Whether the kernel's plugin was compiled for this description of the
 * operator. */
static tn_code check_fit(const tn__kernel *kernel, const tn_op *desc) {
  const tn_plugin *entry = kernel->plugin->entry;
  const tn_target *target = find_target(entry, kernel->desc->op);
  if (target && !tn__fields_prefix(target, desc))
    return tn__fail_more(TN_PLUGIN,
                         "; the kernel %s of the plugin \"%s\" was built for "
                         "another %s, build it again",
                         kernel->desc->id, entry->name, kernel->desc->op);
  return tn__kernel_fits(kernel->desc, desc);
}

static tn_code stage_kernel(commit *c, tn__kernel *kernel) {
  const tn_plugin *entry = c->plugin->entry;
  const char *name = kernel->desc->op;
  const staged *s = tn__map_get(&c->names, name);
  if (s) {
    kernel->op = s->op;
    return tn__kernel_fits(kernel->desc, s->desc);
  }
  if (is_own(entry, name))
    return tn__fail(TN_PLUGIN,
                    "the kernel %s is for %s, which its plugin does not define",
                    kernel->desc->id, name);
  if (!find_target(entry, name))
    return tn__fail(TN_PLUGIN,
                    "the kernel %s is for %s of another plugin, but no target "
                    "describes the operator that it was built for",
                    kernel->desc->id, name);
  tn_operator *op = tn__map_get(&c->registry->operators, name);
  if (!op || !op->desc) return TN_OK;
  kernel->op = op;
  return check_fit(kernel, op->desc);
}

/* Collects kernels that wait for one of our operators. A kernel that does not
 * fit continues to wait; it does not make us fail. */
static tn_code stage_pending(commit *c) {
  const tn__env *env = c->registry->env;
  TN__TRY(tn__vec_reserve(env, &c->adopted, c->registry->pending.n));
  for (size_t i = 0; i < c->registry->pending.n; ++i) {
    tn__kernel *kernel = c->registry->pending.v[i];
    const staged *s = tn__map_get(&c->names, kernel->desc->op);
    if (!s) continue;
    if (check_fit(kernel, s->desc)) {
      tn__log(env, TN__LOG_REGISTRY, TN_LOG_WARNING, "%s", tn_error_text());
      continue;
    }
    kernel->op = s->op;
    tn__vec_insert_reserved(&c->adopted, c->adopted.n, kernel);
  }
  return TN_OK;
}

static tn_code stage_plugin(commit *c) {
  const tn_plugin *entry = c->plugin->entry;
  const tn__env *env = c->registry->env;
  size_t bytes = entry->n_operators * sizeof *c->ops;
  c->ops = tn__zalloc(env, bytes);
  if (!c->ops) return tn__fail_memory(bytes, "new operators");
  for (uint32_t i = 0; i < entry->n_operators; ++i)
    TN__TRY(stage_operator(c, entry->operators[i]));
  for (uint32_t i = 0; i < entry->n_kernels; ++i)
    TN__TRY(stage_kernel(c, &c->plugin->kernels[i]));
  return stage_pending(c);
}

/* ------------------------------------------------------ the order of kernels
 */

/* Highest priority first; the other rules only make the order deterministic. */
static bool is_before(const tn_kernel *a, const tn_kernel *b) {
  if (a->priority != b->priority) return a->priority > b->priority;
  int order = strcmp(a->id, b->id);
  return order ? order < 0 : a->pass < b->pass;
}

/* Enters a kernel into its operator's list. */
static tn_code attach_kernel(tn__kernel *kernel) {
  tn__vec *kernels = &kernel->op->kernels;
  size_t at = 0;
  for (size_t i = 0; i < kernels->n; ++i) {
    const tn__kernel *other = kernels->v[i];
    at += is_before(other->desc, kernel->desc);
    if (!strcmp(other->desc->id, kernel->desc->id) &&
        other->desc->pass == kernel->desc->pass)
      return tn__fail(TN_EXISTS,
                      "the operator %s has a kernel %s already, of the plugin "
                      "\"%s\"",
                      kernel->op->name, kernel->desc->id,
                      other->plugin->entry->name);
  }
  TN__TRY(tn__vec_reserve(kernel->op->registry->env, kernels, 1));
  tn__vec_insert_reserved(kernels, at, kernel);
  atomic_fetch_add(&kernel->op->registry->epoch, 1);
  return TN_OK;
}

void tn__kernel_detach(tn__kernel *kernel) {
  tn__vec *kernels = &kernel->op->kernels;
  if (kernel->op->pin == kernel) kernel->op->pin = NULL;
  for (size_t i = kernels->n; i-- > 0;)
    if (kernels->v[i] == kernel) tn__vec_remove(kernels, i);
  atomic_fetch_add(&kernel->op->registry->epoch, 1);
  kernel->op = NULL;
}

/* -------------------------------------------------------------- publishing */

static tn_code make_room(const commit *c) {
  tn__registry *r = c->registry;
  const tn__env *env = r->env;
  TN__TRY(tn__map_reserve(env, &r->operators, c->n_ops));
  TN__TRY(tn__vec_reserve(env, &r->known, c->n_ops));
  TN__TRY(tn__vec_reserve(env, &r->sorted, c->n_ops));
  TN__TRY(tn__vec_reserve(env, &r->replacements, c->n_replaces));
  TN__TRY(tn__vec_reserve(env, &r->plugins, 1));
  TN__TRY(tn__vec_reserve(env, &r->pending, c->plugin->entry->n_kernels));
  return tn__map_reserve(env, &r->extensions, c->plugin->provided.n);
}

static tn__kernel *kernel_at(const commit *c, size_t i) {
  const size_t own = c->plugin->entry->n_kernels;
  return i < own ? &c->plugin->kernels[i] : c->adopted.v[i - own];
}

static tn_code attach_all(commit *c) {
  const size_t n = c->plugin->entry->n_kernels + c->adopted.n;
  for (; c->n_attached < n; ++c->n_attached) {
    tn__kernel *kernel = kernel_at(c, c->n_attached);
    if (kernel->op) TN__TRY(attach_kernel(kernel));
  }
  return TN_OK;
}

/* Cannot be undone, so it is the last step that may fail. */
static tn_code add_device(const commit *c) {
  const tn__registry *r = c->registry;
  for (size_t i = 0; i < c->plugin->provided.n; ++i) {
    const tn__extension *extension = c->plugin->provided.v[i];
    if (!strcmp(extension->id, TN_DEVICE_EXTENSION))
      return r->device_add(r->device_ctx, extension->table);
  }
  return TN_OK;
}

static void publish_operator(tn__registry *r, tn__plugin *plugin,
                             const staged *s) {
  tn_operator *op = s->op;
  size_t low = 0;
  for (size_t high = r->sorted.n; low < high;) {
    size_t middle = low + (high - low) / 2;
    const tn_operator *other = r->sorted.v[middle];
    if (tn__operator_compare(other->name, op->name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  op->desc = s->desc;
  op->plugin = plugin;
  op->defaults = s->defaults;
  tn__vec_insert_reserved(&r->sorted, low, op);
  if (s->desc->replaces)
    tn__vec_insert_reserved(&r->replacements, r->replacements.n, op);
}

static void remove_pending(tn__registry *r, const tn__kernel *kernel) {
  for (size_t i = r->pending.n; i-- > 0;)
    if (r->pending.v[i] == kernel) tn__vec_remove(&r->pending, i);
}

/* There is room for everything, so the insertions cannot fail. */
static void publish_plugin(const commit *c) {
  tn__registry *r = c->registry;
  const tn__env *env = r->env;
  for (size_t i = 0; i < c->n_ops; ++i) {
    publish_operator(r, c->plugin, &c->ops[i]);
    if (!c->ops[i].fresh) continue;
    (void)!tn__map_set(env, &r->operators, c->ops[i].op->name, c->ops[i].op);
    tn__vec_insert_reserved(&r->known, r->known.n, c->ops[i].op);
  }
  for (size_t i = 0; i < c->adopted.n; ++i) remove_pending(r, c->adopted.v[i]);
  for (uint32_t i = 0; i < c->plugin->entry->n_kernels; ++i) {
    tn__kernel *kernel = &c->plugin->kernels[i];
    if (!kernel->op) tn__vec_insert_reserved(&r->pending, r->pending.n, kernel);
  }
  for (size_t i = 0; i < c->plugin->provided.n; ++i) {
    tn__extension *extension = c->plugin->provided.v[i];
    if (strcmp(extension->id, TN_DEVICE_EXTENSION) != 0)
      (void)!tn__map_set(env, &r->extensions, extension->id, extension);
  }
  c->plugin->began = true; /* from now on its kernels may run */
  tn__vec_insert_reserved(&r->plugins, r->plugins.n, c->plugin);
}

/* ------------------------------------------------------------------ commit */

static tn_code enter_plugin(commit *c) {
  tn_code rc = make_room(c);
  if (!rc) rc = attach_all(c);
  if (!rc) rc = add_device(c);
  if (!rc) {
    publish_plugin(c);
    return TN_OK;
  }
  while (c->n_attached-- > 0) {
    tn__kernel *kernel = kernel_at(c, c->n_attached);
    if (kernel->op) tn__kernel_detach(kernel);
  }
  return rc;
}

static void undo_commit(commit *c) {
  const tn__env *env = c->registry->env;
  for (uint32_t i = 0; i < c->plugin->entry->n_kernels; ++i)
    c->plugin->kernels[i].op = NULL;
  for (size_t i = 0; i < c->adopted.n; ++i)
    ((tn__kernel *)c->adopted.v[i])->op = NULL;
  for (size_t i = 0; i < c->n_ops; ++i) {
    tn__defaults_free(env, c->ops[i].defaults);
    if (!c->ops[i].fresh) continue;
    tn__vec_deinit(env, &c->ops[i].op->kernels);
    tn__free(env, c->ops[i].op);
  }
}

tn_code tn__plugin_commit(tn__registry *registry, tn__plugin *plugin) {
  commit c = {.registry = registry, .plugin = plugin};
  const tn__env *env = registry->env;
  tn_code rc = stage_plugin(&c);
  if (!rc) {
    pthread_rwlock_wrlock(&registry->lock);
    rc = enter_plugin(&c);
    pthread_rwlock_unlock(&registry->lock);
  }
  if (rc) {
    undo_commit(&c);
    rc = tn__plugin_append_path(plugin, rc);
  }
  tn__map_deinit(env, &c.names);
  tn__vec_deinit(env, &c.adopted);
  tn__free(env, c.ops);
  return rc;
}
