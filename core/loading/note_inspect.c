/* SPDX-License-Identifier: Apache-2.0
 * note_inspect.c: decodes a plugin file's note into tables, for people and
 * tools. The file is never opened as code.
 */
#include <limits.h>

#include "loading.h"
#include "module.h"

static tn_code keep_refusal(tn_inspection *inspection) {
  const tn__env *env = inspection->env;
  inspection->refusal = tn__strdup(env, tn_error_text());
  return inspection->refusal ? TN_OK : tn__fail_memory(0, "a refusal");
}

/* Copies the versions with which the plugin was compiled. */
static tn_code copy_versions(tn_inspection *inspection, const tn_note *note) {
  tn_plugin *plugin = tn__arena_alloc(&inspection->arena, sizeof *plugin);
  if (!plugin) return tn__fail_memory(sizeof *plugin, "an inspection");
  *plugin = *inspection->plugin;
  plugin->abi_minor = note->abi_minor;
  plugin->min_host_minor = note->min_host_minor;
  inspection->plugin = plugin;
  return TN_OK;
}

/* Another major version may have another encoding. Then the result is only the
 * note's head. */
static tn_code decode_tables(tn_inspection *inspection, const tn__elf *elf,
                             const char *path) {
  const tn__env *env = inspection->env;
  if (elf->note.abi_major != TN_ABI_MAJOR) return TN_OK;
  tn_code rc =
      tn__tables_decode(&inspection->arena, elf->manifest,
                        (size_t)elf->note.manifest_size, &inspection->plugin);
  if (!rc) rc = tn__tables_check(env, inspection->plugin, false);
  if (!rc) rc = copy_versions(inspection, &elf->note);
  return rc ? tn__fail_more(rc, " (%s)", path) : TN_OK;
}

static tn_code fill_inspection(tn_inspection *inspection, const tn__elf *elf,
                               const char *path) {
  inspection->note = elf->note;
  TN__TRY(decode_tables(inspection, elf, path));
  if (tn__elf_accept(elf, path)) return keep_refusal(inspection);
  return TN_OK;
}

tn_code tn__inspection_open(const tn__env *env, const char *path,
                            tn_inspection **out) {
  char real[PATH_MAX];
  tn__elf elf;
  *out = NULL;
  TN__TRY(tn__path_resolve(env, path, real));
  TN__TRY(tn__elf_read(env, real, &elf));
  tn_inspection *inspection = tn__zalloc(env, sizeof *inspection);
  tn_code rc =
      inspection ? TN_OK : tn__fail_memory(sizeof *inspection, "an inspection");
  if (inspection) {
    tn__env_retain(env);
    inspection->env = env;
    tn__arena_init(&inspection->arena, env);
    rc = fill_inspection(inspection, &elf, path);
  }
  tn__elf_deinit(env, &elf);
  if (rc)
    tn__inspection_close(inspection);
  else
    *out = inspection;
  return rc;
}

void tn__inspection_close(tn_inspection *inspection) {
  if (!inspection) return;
  const tn__env *env = inspection->env;
  tn__arena_deinit(&inspection->arena);
  if (inspection->manifest) inspection->module->release(inspection->manifest);
  tn__free(env, inspection->refusal);
  tn__free(env, inspection);
  tn__env_release(env);
}
