/* SPDX-License-Identifier: Apache-2.0
 * manifest.c: makes a plugin of a manifest without a compiler. It copies the
 * tables and adds functions of the host or of a library. Afterwards the plugin
 * is like any other.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "loading.h"
#include "module.h"

/* -------------------------------------------------------------- the reader */

static const char *origin_name(const tnm_origin *from) {
  return from->path ? from->path : from->text.path;
}

static tn_code fail_module(const char *path, const char *why) {
  return tn__fail(TN_PLUGIN,
                  "a manifest cannot be read: %s, which reads them, cannot be "
                  "opened: %s; install it beside libtenon.so, and libyaml, "
                  "which it needs (package libyaml-0-2)",
                  path, why ? why : "the dynamic linker gave no reason");
}

static tn_code accept_module(const char *path, const tnm_module *module) {
  if (module->struct_size == sizeof *module &&
      !strcmp(module->version, TN_VERSION))
    return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "%s is of release %.40s, expected %s; install both from one "
                  "release",
                  path, module->version, TN_VERSION);
}

static tn_code module_open(tn__registry *registry, const char *path) {
  const tn__os *os = registry->env->os;
  void *handle = os->dlopen(path);
  if (!handle) return fail_module(path, os->dlerror());
  const tnm_module *module = os->dlsym(handle, TNM_MODULE_SYMBOL);
  tn_code rc =
      module ? accept_module(path, module) : fail_module(path, os->dlerror());
  if (rc) {
    os->dlclose(handle);
    return rc;
  }
  registry->module = module;
  registry->module_handle = handle;
  return TN_OK;
}

/* Writes the path of a file next to libtenon.so, in PATH_MAX bytes. */
static tn_code find_helper(const tn__registry *registry, const char *name,
                           char *to) {
  char folder[PATH_MAX];
  if (!registry->helpers)
    return tn__fail(TN_UNSUPPORTED, "this host does not read manifests");
  TN__TRY(registry->helpers(registry->env, folder));
  const int n = snprintf(to, PATH_MAX, "%s/%s", folder, name);
  if (n > 0 && n < PATH_MAX) return TN_OK;
  return tn__fail(TN_UNSUPPORTED, "%s: the name of this folder is too long",
                  folder);
}

/* Takes over the message of a function of the module, and frees it. */
static tn_code take_message(tn_code rc, tn__buf *why) {
  if (rc && !why->failed)
    rc = tn__fail(rc, "%s",
                  why->s ? why->s : "libtenon-manifest gave no reason");
  else if (rc)
    rc = tn__fail_memory(why->n, "a message");
  tn__buf_deinit(why);
  return rc;
}

/* Opened once; the load lock is held. */
static tn_code require_module(tn__registry *registry) {
  char path[PATH_MAX];
  if (registry->module) return TN_OK;
  TN__TRY(find_helper(registry, TNM_MODULE_FILE, path));
  return module_open(registry, path);
}

static tn_code read_manifest(tn__registry *registry, const tnm_origin *from,
                             tnm_plugin **out) {
  tn__buf why;
  *out = NULL;
  TN__TRY(require_module(registry));
  tn__buf_init(&why, registry->env);
  tn_code rc = registry->module->read(registry->env, from, &why, out);
  if (rc == TN_INVALID && !why.failed)
    rc = tn__fail(from->path ? TN_PLUGIN : TN_INVALID,
                  "%s: this manifest has mistakes\n%s", origin_name(from),
                  why.s ? why.s : "");
  else if (rc)
    rc = tn__fail(TN_OUT_OF_MEMORY, "out of memory: no memory for %s",
                  origin_name(from));
  tn__buf_deinit(&why);
  return rc;
}

/* --------------------------------------------------------------- functions */

/* A manifest on its way to a plugin. */
typedef struct making {
  tn__registry *registry;
  tn__plugin *plugin;
  const tnm_origin *from;
  const tn_host_kernels *kernels; /* of the host, or NULL */
} making;

/* The host's function of a name; the check of the manifest has found it. */
static const tn_host_kernel *find_function(const making *m, const char *name) {
  const tn_host_kernel *at = m->kernels->v;
  while (!at->name || strcmp(at->name, name) != 0) ++at;
  return at;
}

/* The entry of `kernels:` that describes a table. */
static const tnm_kernel *entry_of(const tnm_operator *op,
                                  const tn_kernel *table) {
  for (size_t i = 0; i < op->n_kernels; ++i)
    if (op->kernels[i].forward == table || op->kernels[i].backward == table)
      return &op->kernels[i];
  return NULL;
}

static void fill_named_kernel(const making *m, const tnm_kernel *entry,
                              tn_kernel *kernel) {
  const bool backward = kernel->pass == TN_PASS_BACKWARD;
  const tn_host_kernel *function = find_function(
      m, backward ? entry->backward_symbol : entry->forward_symbol);
  kernel->compute = function->compute;
  kernel->prepare = function->prepare;
  kernel->supports = function->supports;
}

/* Sets the functions of a kernel of `op`. */
static void fill_kernel(const making *m, const tnm_operator *op,
                        const tn_kernel *table, tn_kernel *kernel) {
  *kernel = *table;
  const tnm_kernel *entry = entry_of(op, table);
  if (entry) {
    fill_named_kernel(m, entry, kernel);
    return;
  }
  const tnm_module *module = m->registry->module;
  const tnm_kernel_functions *own =
      op->binding ? &module->bound : &module->formula;
  kernel->prepare = own->prepare;
  kernel->compute = own->compute;
}

static bool has_kernel(const tnm_operator *op, const tn_kernel *table) {
  return entry_of(op, table) || op->generated == table ||
         op->generated_backward == table ||
         (op->binding && op->binding->kernel == table);
}

static const tnm_operator *operator_of(const tnm_plugin *manifest,
                                       const tn_kernel *table) {
  for (size_t i = 0; i < manifest->n_operators; ++i)
    if (has_kernel(&manifest->operators[i], table))
      return &manifest->operators[i];
  return NULL;
}

/* ------------------------------------------------------------------ tables */

static tn_code copy_operators(const making *m, tn_plugin *tables) {
  const tnm_plugin *manifest = m->plugin->manifest;
  tn__arena *arena = &m->plugin->arena;
  const size_t n = manifest->n_operators;
  tnm_defined_op *ops = tn__arena_alloc(arena, (n + 1) * sizeof *ops);
  const tn_op **list = tn__arena_alloc(arena, (n + 1) * sizeof *list);
  if (!ops || !list) return tn__fail_memory(n * sizeof *ops, "operators");
  for (size_t i = 0; i < n; ++i) {
    const tnm_operator *from = &manifest->operators[i];
    ops[i] = (tnm_defined_op){*from->op, from};
    if (from->infer_symbol)
      ops[i].op.infer = find_function(m, from->infer_symbol)->compute;
    else if (from->axes)
      ops[i].op.infer = m->registry->module->infer;
    list[i] = &ops[i].op;
  }
  tables->operators = list;
  return TN_OK;
}

static tn_code copy_kernels(const making *m, tn_plugin *tables) {
  const tnm_plugin *manifest = m->plugin->manifest;
  tn__arena *arena = &m->plugin->arena;
  const size_t n = tables->n_kernels;
  tn_kernel *kernels = tn__arena_alloc(arena, (n + 1) * sizeof *kernels);
  const tn_kernel **list = tn__arena_alloc(arena, (n + 1) * sizeof *list);
  if (!kernels || !list) return tn__fail_memory(n * sizeof *kernels, "kernels");
  for (size_t i = 0; i < n; ++i) {
    const tn_kernel *table = manifest->plugin->kernels[i];
    fill_kernel(m, operator_of(manifest, table), table, &kernels[i]);
    list[i] = &kernels[i];
  }
  tables->kernels = list;
  return TN_OK;
}

/* Copies the manifest's tables and adds functions. */
static tn_code make_tables(const making *m) {
  tn__plugin *plugin = m->plugin;
  tn_plugin *tables = tn__arena_alloc(&plugin->arena, sizeof *tables);
  if (!tables) return tn__fail_memory(sizeof *tables, "a plugin's tables");
  *tables = *plugin->manifest->plugin;
  TN__TRY(copy_operators(m, tables));
  TN__TRY(copy_kernels(m, tables));
  plugin->tables = tables;
  plugin->entry = tables;
  return TN_OK;
}

/* --------------------------------------------------------- allowed content */

static tn_code check_manifest(const tn__registry *registry,
                              const tnm_origin *from,
                              const tnm_plugin *manifest,
                              const tn_host_kernels *host) {
  tn__buf why;
  tn__buf_init(&why, registry->env);
  return take_message(registry->module->check(from, manifest, host, &why),
                      &why);
}

static bool has_binding(const tnm_plugin *manifest) {
  for (size_t i = 0; i < manifest->n_operators; ++i)
    if (manifest->operators[i].binding) return true;
  return false;
}

/* ------------------------------------------------------------------- loading
 */

static tn_code bind_kernel(const tn__registry *registry,
                           const tnm_bind_request *what, void **out) {
  tn__buf why;
  tn__buf_init(&why, registry->env);
  return take_message(registry->module->bind(what, &why, out), &why);
}

/* Sets the data of bound kernels and of formulas where other kernels have
 * options. */
static tn_code bind_kernels(const making *m) {
  tn__plugin *plugin = m->plugin;
  char folder[PATH_MAX] = "";
  if (m->from->path) {
    const char *slash = strrchr(m->from->path, '/');
    const size_t n = slash ? (size_t)(slash - m->from->path) : 0;
    memcpy(folder, m->from->path, n < PATH_MAX ? n : 0);
  }
  for (uint32_t i = 0; i < plugin->entry->n_kernels; ++i) {
    const tn_kernel *table = plugin->manifest->plugin->kernels[i];
    const tnm_operator *op = operator_of(plugin->manifest, table);
    const tnm_bind_request what = {
        .env = m->registry->env,
        .op = op,
        .kernel = table,
        .arena = &plugin->manifest->arena,
        .folder = folder,
        .strict = (m->registry->trust & TNM_TRUST_PROBE) != 0};
    void *bound = NULL;
    if (entry_of(op, table)) continue;
    tn_code rc = bind_kernel(m->registry, &what, &bound);
    if (rc) return tn__plugin_append_path(plugin, rc);
    plugin->kernels[i].options = bound;
  }
  return TN_OK;
}

static tn_code try_bindings(const making *m) {
  const tn__registry *registry = m->registry;
  char folder[PATH_MAX];
  tn__buf why;
  if (!has_binding(m->plugin->manifest) || registry->trust & TN_TRUST_BINDINGS)
    return TN_OK;
  TN__TRY(registry->helpers(registry->env, folder));
  const tnm_probe how = {.env = registry->env,
                         .from = m->from,
                         .folder = folder,
                         .seconds = registry->probe_seconds};
  tn__buf_init(&why, registry->env);
  return take_message(registry->module->probe(&how, &why), &why);
}

/* Makes a started plugin of a manifest. Owns `manifest` in any case. */
static tn_code start_plugin(making *m, tnm_plugin *manifest) {
  tn_code rc = tn__plugin_create(
      m->registry, m->from->path ? m->from->path : "(host)", &m->plugin);
  if (rc) {
    m->registry->module->release(manifest);
    return rc;
  }
  m->plugin->manifest = manifest;
  m->plugin->defined = !m->from->path;
  if (m->kernels) m->plugin->instance = m->kernels->instance;
  rc = check_manifest(m->registry, m->from, manifest, m->kernels);
  if (!rc) rc = make_tables(m);
  if (!rc) rc = tn__dependencies_check(m->plugin);
  if (!rc) rc = try_bindings(m);
  if (!rc) rc = tn__plugin_start(m->plugin);
  if (!rc) rc = bind_kernels(m);
  return rc;
}

static tn_code check_unchanged(const tn__plugin *plugin) {
  struct stat now;
  if (plugin->registry->env->os->stat(plugin->path, &now))
    return tn__fail(TN_IO, "%s: cannot be examined: %s", plugin->path,
                    strerror(errno));
  if (tn__is_same_content(&now, &plugin->identity)) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "%s: was changed or replaced while it was being loaded; "
                  "load it again",
                  plugin->path);
}

bool tn__is_manifest(const char *path) {
  const size_t n = strlen(path);
  return n > 5 && !strcmp(path + n - 5, ".yaml");
}

tn_code tn__manifest_load(tn__registry *registry, const char *path,
                          const struct stat *identity) {
  const tnm_origin from = {.path = path};
  making m = {.registry = registry, .from = &from};
  tnm_plugin *manifest = NULL;
  TN__TRY(read_manifest(registry, &from, &manifest));
  tn_code rc = start_plugin(&m, manifest);
  if (!rc) {
    m.plugin->identity = *identity;
    rc = check_unchanged(m.plugin);
  }
  if (!rc) rc = tn__plugin_commit(registry, m.plugin);
  if (rc) tn__plugin_discard(m.plugin);
  return rc;
}

/* ---------------------------------------------------------------- definitions
 */

/* The table of the operator that the text describes; the others are those of
 * gradients. */
static const tn_op *find_described(const tn__plugin *plugin) {
  size_t i = 0;
  while (plugin->manifest->operators[i].parent) ++i;
  return plugin->tables->operators[i];
}

/* From now on calls of the operator are allowed, and its removal is logged. */
static void finish_definition(making *m, tn_operator **out) {
  tn__registry *registry = m->registry;
  const tn_op *described = find_described(m->plugin);
  if (m->kernels) m->plugin->tables->fini = m->kernels->destroy;
  for (size_t i = 0; out && i < registry->sorted.n; ++i) {
    tn_operator *op = registry->sorted.v[i];
    if (op->desc == described) *out = op;
  }
}

static tn_code define_operator(making *m, tn_operator **out) {
  tnm_plugin *manifest = NULL;
  TN__TRY(read_manifest(m->registry, m->from, &manifest));
  tn_code rc = start_plugin(m, manifest);
  if (!rc) rc = tn__plugin_commit(m->registry, m->plugin);
  if (rc)
    tn__plugin_discard(m->plugin);
  else
    finish_definition(m, out);
  return rc;
}

tn_code tn__operator_define(tn__registry *registry, const char *text,
                            const tn_host_kernels *kernels, tn_operator **out) {
  const tnm_origin from = {.text = {.plugin = "host",
                                    .path = "(manifest)",
                                    .text = text,
                                    .n = strlen(text)}};
  making m = {.registry = registry, .from = &from, .kernels = kernels};
  TN__TRY(tn__load_begin(registry));
  tn_code rc = define_operator(&m, out);
  tn__load_end(registry);
  return rc;
}

tn_code tn__formula_define(tn__registry *registry, const tn_formula *formula,
                           tn_operator **out) {
  tnm_origin from = {.text = {.plugin = "host", .path = "(formula)"}};
  making m = {.registry = registry, .from = &from};
  tn__buf text, why;
  TN__TRY(tn__load_begin(registry));
  tn__buf_init(&text, registry->env);
  tn__buf_init(&why, registry->env);
  tn_code rc = require_module(registry);
  if (!rc)
    rc = take_message(registry->module->write_formula(
                          formula, registry->known.n, &text, &why),
                      &why);
  from.text.text = text.s;
  from.text.n = text.n;
  if (!rc) rc = define_operator(&m, out);
  tn__buf_deinit(&text);
  tn__load_end(registry);
  return rc;
}

/* ------------------------------------------------------------------ inspection
 */

static tn_code inspect_manifest(tn__registry *registry, const tnm_origin *from,
                                tn_inspection *inspection) {
  const tn__env *env = registry->env;
  size_t bytes = 0;
  tn__buf why;
  TN__TRY(read_manifest(registry, from, &inspection->manifest));
  const tn_plugin *tables = inspection->manifest->plugin;
  tn__buf_init(&why, env);
  TN__TRY(
      take_message(registry->module->measure(env, tables, &bytes, &why), &why));
  inspection->plugin = tables;
  inspection->module = registry->module;
  inspection->note = (tn_note){.magic = TN_PLUGIN_MAGIC,
                               .header_size = sizeof(tn_note),
                               .abi_major = tables->abi_major,
                               .abi_minor = tables->abi_minor,
                               .min_host_minor = tables->min_host_minor,
                               .machine = TN_NOTE_MACHINE,
                               .pointer_bits = 8 * sizeof(void *),
                               .manifest_hash = tables->manifest_hash,
                               .manifest_size = bytes};
  if (!check_manifest(registry, from, inspection->manifest, NULL)) return TN_OK;
  inspection->refusal = tn__strdup(env, tn_error_text());
  return inspection->refusal ? TN_OK
                             : tn__fail_memory(TN__ERROR_MAX, "a refusal");
}

tn_code tn__manifest_inspect(tn__registry *registry, const char *path,
                             tn_inspection **out) {
  const tn__env *env = registry->env;
  char real[PATH_MAX];
  *out = NULL;
  TN__TRY(tn__path_resolve(env, path, real));
  const tnm_origin from = {.path = real};
  tn_inspection *inspection = tn__zalloc(env, sizeof *inspection);
  if (!inspection) return tn__fail_memory(sizeof *inspection, "an inspection");
  tn__env_retain(env);
  inspection->env = env;
  tn__arena_init(&inspection->arena, env);
  tn_code rc = tn__load_begin(registry);
  if (!rc) {
    rc = inspect_manifest(registry, &from, inspection);
    tn__load_end(registry);
  }
  if (rc)
    tn__inspection_close(inspection);
  else
    *out = inspection;
  return rc;
}
