/* SPDX-License-Identifier: Apache-2.0
 * lower_dependencies.c: lowers `requires` of plugin.yaml: plugins that are
 * loaded before this one, each with the least release that suffices.
 */
#include <string.h>

#include "front.h"

/* Parses a rule like ">=2", the least release of another plugin. Returns false
 * for any other text. */
static bool parse_least_release(const char *text, uint32_t *out) {
  int64_t value;
  if (strncmp(text, ">=", 2) != 0) return false;
  text += 2 + strspn(text + 2, " ");
  if (!tnm_parse_int(text, &value) || value < 1 || value > INT32_MAX)
    return false;
  *out = (uint32_t)value;
  return true;
}

/* Reads the least release of a required plugin. Returns false after a message.
 */
static bool read_least_release(tnm_reader *reader, const tnm_tree *entry,
                               uint32_t *out) {
  if (!tnm_check_scalar(reader->diags, entry, "a release such as \">=2\""))
    return false;
  if (parse_least_release(entry->text, out)) return true;
  tnm_diag_spec spec = {"E0014", entry->pos, NULL};
  size_t id = tnm_diag_add(reader->diags, &spec,
                           "invalid value `%.80s`: expected the least release",
                           entry->text);
  tnm_diag_add_help(reader->diags, id, "write `%s: \">=1\"`", entry->key);
  return false;
}

/* Checks that the key of an entry is a valid name of another plugin. Returns
 * false after a message, which has the position of the key. */
static bool check_plugin_name(tnm_reader *reader, const tnm_tree *entry) {
  tnm_tree key = *entry;
  key.kind = TNM_SCALAR;
  key.text = entry->key;
  key.pos = entry->key_pos;
  if (!tnm_read_name(reader->diags, &key, "a plugin")) return false;
  if (strcmp(entry->key, reader->name) != 0) return true;
  tnm_diag_spec spec = {"E0014", entry->key_pos, NULL};
  size_t id = tnm_diag_add(reader->diags, &spec, "plugin `%s` requires itself",
                           entry->key);
  tnm_diag_add_help(reader->diags, id, "name other plugins only");
  return false;
}

void tnm_lower_dependencies(tnm_reader *reader, const tnm_tree *map,
                            tn_plugin *plugin) {
  if (map == NULL) return;
  const tn_dependency **all =
      TNM_NEW(reader->arena, const tn_dependency *, map->n);
  tn_dependency *each = TNM_NEW(reader->arena, tn_dependency, map->n);
  if (all == NULL || each == NULL) return;
  plugin->dependencies = all;
  for (const tnm_tree *e = map->first; e != NULL; e = e->next) {
    tn_dependency *d = &each[plugin->n_dependencies];
    uint32_t release;
    if (!check_plugin_name(reader, e) ||
        !read_least_release(reader, e, &release))
      continue;
    *d = (tn_dependency){
        .struct_size = sizeof *d, .release = release, .plugin = e->key};
    all[plugin->n_dependencies++] = d;
  }
}
