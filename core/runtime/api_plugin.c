/* SPDX-License-Identifier: Apache-2.0
 * api_plugin.c: the functions of tenon.h about plugins and inspections. It also
 * finds the folders of the library, of its modules and of standard plugins.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "loading.h"
#include "module.h"
#include "runtime.h"

/* ---------------------------------------------------------------- plugins */

tn_code tn_plugin_load(tn_runtime *rt, const char *path) {
  TN__REQUIRE(rt);
  TN__REQUIRE(path);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__plugin_load(rt->registry, path);
}

tn_code tn_plugin_add(tn_runtime *rt, const tn_plugin *plugin) {
  TN__REQUIRE(rt);
  TN__REQUIRE(plugin);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__plugin_add(rt->registry, plugin);
}

/* Finds the folder of the file that contains this function. If the library is
 * linked into a program, dladdr reports the name that started the program. That
 * name need not be a path. */
static tn_code find_library_folder(const tn__env *env, char *to) {
  Dl_info info;
  char file[PATH_MAX];
  if (!dladdr((const void *)(uintptr_t)&tn_version, &info) || !info.dli_fname)
    return tn__fail(TN_NOT_FOUND,
                    "the system does not report the path of"
                    " libtenon.so; load plugins with tn_plugin_load");
  const char *name =
      strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe";
  if (!env->os->realpath(name, file))
    return tn__fail(TN_IO,
                    "%s: the real path of libtenon.so cannot be"
                    " resolved",
                    name);
  char *slash = strrchr(file, '/');
  size_t n = slash ? (size_t)(slash - file) : 0;
  if (memchr(file, ':', n))
    return tn__fail(TN_UNSUPPORTED,
                    "%s: the folder of libtenon.so has a name"
                    " that contains ':'",
                    file);
  memcpy(to, file, n);
  to[n] = 0;
  return TN_OK;
}

/* Changes `folder` to the folder of libraries next to it if the manifest reader
 * is only there. An installed opgen contains the library and is in the folder
 * of programs. */
static void use_library_folder(const tn__env *env,
                               char *folder /* PATH_MAX */) {
  static const char next_to[] = "/../" TN_LIBDIR;
  char file[PATH_MAX + sizeof TNM_MODULE_FILE + 1];
  struct stat info;
  const size_t n = strlen(folder);
  (void)snprintf(file, sizeof file, "%s/" TNM_MODULE_FILE, folder);
  if (!env->os->stat(file, &info) || n + sizeof next_to > PATH_MAX) return;
  memcpy(folder + n, next_to, sizeof next_to);
  (void)snprintf(file, sizeof file, "%s/" TNM_MODULE_FILE, folder);
  if (env->os->stat(file, &info)) folder[n] = 0;
}

tn_code tn__find_module_folder(const tn__env *env, char *to) {
  TN__TRY(find_library_folder(env, to));
  use_library_folder(env, to);
  return TN_OK;
}

static tn_code find_standard_folder(const tn__env *env,
                                    char *to /* PATH_MAX */) {
  const char suffix[] = "/tenon";
  TN__TRY(find_library_folder(env, to));
  const size_t n = strlen(to);
  if (n + sizeof suffix > PATH_MAX)
    return tn__fail(TN_UNSUPPORTED, "%s: the name of this folder is too long",
                    to);
  memcpy(to + n, suffix, sizeof suffix);
  return TN_OK;
}

tn_code tn_plugins_load_standard(tn_runtime *rt) {
  char folder[PATH_MAX];
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  TN__TRY(find_standard_folder(&rt->env, folder));
  return tn__plugins_load_path(rt->registry, folder);
}

tn_code tn_plugins_load_path(tn_runtime *rt, const char *path) {
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  if (!path) path = rt->search_path;
  if (!path)
    return tn__fail(TN_INVALID,
                    "tn_plugins_load_path: the path is NULL, and"
                    " tn_options.search_path was not set");
  return tn__plugins_load_path(rt->registry, path);
}

/* Unloads when no call runs and no thread can push. Then the results that calls
 * keep of the plugin can be freed. Any other holder of the plugin is a reason
 * to refuse. `op` selects its definition; NULL: the plugin `name`. */
static tn_code unload_plugin(tn_runtime *rt, const char *name,
                             tn_operator *op) {
  tn__engine *engine = rt->env.engine;
  TN__TRY(tn__runtime_wait_pushed(rt));
  tn__engine_pause(engine);
  tn__caller_forget(&rt->caller);
  tn_code rc =
      op ? tn__operator_remove(op) : tn__plugin_unload(rt->registry, name);
  tn__engine_resume(engine);
  return rc;
}

tn_code tn_plugin_unload(tn_runtime *rt, const char *name) {
  TN__REQUIRE(rt);
  TN__REQUIRE(name);
  TN__TRY(tn__runtime_check(&rt->env));
  return unload_plugin(rt, name, NULL);
}

tn_code tn_operator_remove(tn_runtime *rt, tn_operator *op) {
  TN__REQUIRE(rt);
  TN__REQUIRE(op);
  TN__TRY(tn__runtime_check(&rt->env));
  return unload_plugin(rt, NULL, op);
}

tn_code tn_operator_define(tn_runtime *rt, const char *manifest,
                           const tn_host_kernels *kernels, tn_operator **out) {
  if (out) *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(manifest);
  TN__TRY(tn__runtime_check(&rt->env));
  if (kernels && kernels->struct_size < sizeof *kernels)
    return tn__fail(TN_INVALID,
                    "tn_host_kernels.struct_size is %u; set it to"
                    " sizeof(tn_host_kernels)",
                    (unsigned)kernels->struct_size);
  if (kernels && kernels->n && !kernels->v)
    return tn__fail(TN_INVALID, "tn_host_kernels.n is %u, but v is NULL",
                    (unsigned)kernels->n);
  return tn__operator_define(rt->registry, manifest, kernels, out);
}

tn_code tn_formula_define(tn_runtime *rt, const tn_formula *formula,
                          tn_operator **out) {
  if (out) *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(formula);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__formula_define(rt->registry, formula, out);
}

tn_code tn_plugin_extension(tn_runtime *rt, const char *id, const void **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(id);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__extension_use(rt->registry, id, out);
}

tn_code tn_plugin_at(tn_runtime *rt, size_t index, tn_plugin_info *out) {
  TN__REQUIRE(out);
  *out = (tn_plugin_info){NULL, NULL};
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__plugin_at(rt->registry, index, out);
}

tn_code tn_plugin_json(tn_runtime *rt, const tn_plugin *plugin, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(plugin);
  TN__TRY(tn__runtime_check(&rt->env));
  tn__buf buf;
  tn__buf_init(&buf, &rt->env);
  tn__plugin_json(plugin, &buf);
  tn_code rc = tn__buf_text(&buf, out);
  tn__buf_deinit(&buf);
  return rc;
}

/* ------------------------------------------------------------ inspections */

tn_code tn_inspection_open(tn_runtime *rt, const char *path,
                           tn_inspection **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(path);
  TN__TRY(tn__runtime_check(&rt->env));
  if (tn__is_manifest(path))
    return tn__manifest_inspect(rt->registry, path, out);
  return tn__inspection_open(&rt->env, path, out);
}

const tn_plugin *tn_inspection_plugin(const tn_inspection *inspection) {
  return inspection ? inspection->plugin : NULL;
}

const tn_note *tn_inspection_note(const tn_inspection *inspection) {
  return inspection ? &inspection->note : NULL;
}

const char *tn_inspection_refusal(const tn_inspection *inspection) {
  return inspection ? inspection->refusal : NULL;
}

void tn_inspection_close(tn_inspection *inspection) {
  if (inspection) tn__inspection_close(inspection);
}
