/* SPDX-License-Identifier: Apache-2.0
 * `kernels_for`: finds the operator of another plugin, in its manifests or in
 * the note of its built file, and lowers the kernels added to it.
 */
#include <string.h>

#include "front.h"

/* ---------------------------------------------------------- other plugins
 */

/* Folders and manifests are read; everything else must be a built plugin. */
static bool is_manifest(const tn__env *env, const char *path) {
  struct stat info;
  size_t n = strlen(path);
  if (n > 5 && strcmp(path + n - 5, ".yaml") == 0) return true;
  return env->os->stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static const tn_plugin *read_manifest(tnm_reader *reader, const char *path) {
  static const tnm_read_options options = {.lone = true};
  tnm_reader other;
  tnm_reader_init(&other, reader->env, reader->arena, reader->diags);
  other.target_only = true;
  other.options = &options;
  const tn_plugin *tables = tnm_read_tables(&other, path);
  for (size_t i = 0; i < other.files.n; ++i)
    tnm_reader_push(reader, &reader->files, other.files.v[i]);
  tnm_reader_deinit(&other);
  return tables;
}

/* A file that is no plugin, reported where there is no manifest to point at. */
static void report_built(tnm_reader *reader, const char *path, tn_code code) {
  uint32_t file = tnm_diags_file(reader->diags, path, "", 0);
  tnm_diag_spec spec = {"E0001", tnm_pos_start(file), NULL};
  tnm_diag(reader->diags, &spec, "%s%s",
           code == TN_IO ? "cannot read the plugin: " : "", tn_error_text());
}

static const tn_plugin *read_built(tnm_reader *reader, const char *path) {
  const tn_plugin *tables = NULL;
  char *copy = tn__arena_text(reader->arena, path, strlen(path));
  if (copy == NULL || !tnm_reader_push(reader, &reader->files, copy))
    return NULL;
  tn_code code = tnm_read_note(reader->arena, path, &tables);
  if (code == TN_OUT_OF_MEMORY)
    reader->arena->failed = true;
  else if (code != TN_OK)
    report_built(reader, path, code);
  return tables;
}

static void read_targets(tnm_reader *reader) {
  const tnm_read_options *options = reader->options;
  if (reader->targets_read) return;
  reader->targets_read = true;
  for (size_t i = 0; options != NULL && i < options->n_with; ++i) {
    const char *path = options->with[i];
    const tn_plugin *tables = is_manifest(reader->env, path)
                                  ? read_manifest(reader, path)
                                  : read_built(reader, path);
    if (tables == NULL) continue;
    tn_plugin *copy = TNM_NEW(reader->arena, tn_plugin, 1);
    if (copy == NULL) return;
    *copy = *tables;
    tnm_reader_push(reader, &reader->targets, copy);
  }
}

/* ------------------------------------------------------------------ the target
 */

/* "nn.convolution@1" in its parts. */
typedef struct target_name {
  char plugin[TNM_MAX_NAME + 1];
  char op[TNM_MAX_NAME + 1];
  int64_t interface;
} target_name;

static bool copy_part(char *to, const char *from, const char *end) {
  size_t n = (size_t)(end - from);
  if (n == 0 || n > TNM_MAX_NAME) return false;
  memcpy(to, from, n);
  to[n] = '\0';
  return true;
}

static bool parse_name(const char *text, target_name *out) {
  const char *dot = strchr(text, '.');
  const char *at = strchr(text, '@');
  return dot != NULL && at != NULL && dot < at &&
         copy_part(out->plugin, text, dot) && copy_part(out->op, dot + 1, at) &&
         tnm_parse_int(at + 1, &out->interface) && out->interface >= 1;
}

static const tn_op *find_op(const tn_plugin *plugin, const target_name *name) {
  if (strcmp(plugin->name, name->plugin) != 0) return NULL;
  for (uint32_t i = 0; i < plugin->n_operators; ++i) {
    const tn_op *op = plugin->operators[i];
    if (strcmp(op->name, name->op) == 0 && op->interface == name->interface)
      return op;
  }
  return NULL;
}

static void report_unfound(tnm_reader *reader, const tnm_tree *node,
                           const target_name *name) {
  tnm_diag_spec spec = {"E0060", node->pos, NULL};
  size_t id =
      tnm_diag(reader->diags, &spec,
               "operator `%s` is in none of the plugins given", node->text);
  for (size_t i = 0; i < reader->targets.n; ++i) {
    const tn_plugin *plugin = reader->targets.v[i];
    if (strcmp(plugin->name, name->plugin) != 0) continue;
    tnm_diag_help(reader->diags, id,
                  "plugin `%s` was read and has no operator `%s@%lld`",
                  name->plugin, name->op, (long long)name->interface);
    return;
  }
  tnm_diag_help(reader->diags, id,
                "add `--with` and the folder or the built file of plugin `%s`",
                name->plugin);
}

const tn_plugin *tnm_find_given(tnm_reader *reader, const char *name) {
  read_targets(reader);
  for (size_t i = 0; i < reader->targets.n; ++i) {
    const tn_plugin *plugin = reader->targets.v[i];
    if (strcmp(plugin->name, name) == 0) return plugin;
  }
  return NULL;
}

const tn_op *tnm_find_target(tnm_reader *reader, const tnm_tree *node) {
  target_name name;
  if (!parse_name(node->text, &name)) {
    tnm_diag_spec spec = {"E0014", node->pos, NULL};
    tnm_diag(reader->diags, &spec,
             "invalid value `%.80s`: expected an operator with its interface, "
             "`plugin.op@1`",
             node->text);
    return NULL;
  }
  size_t before = tnm_diags_errors(reader->diags);
  read_targets(reader);
  for (size_t i = 0; i < reader->targets.n; ++i) {
    const tn_op *op = find_op(reader->targets.v[i], &name);
    if (op != NULL) return op;
  }
  if (tnm_diags_errors(reader->diags) == before)
    report_unfound(reader, node, &name);
  return NULL;
}

/* -------------------------------------------------------------------- kernels
 */

static const tn_target *new_target(tnm_reader *reader, const char *name,
                                   const tn_op *op) {
  tn_target *target = TNM_NEW(reader->arena, tn_target, 1);
  if (target == NULL) return NULL;
  *target = (tn_target){.struct_size = sizeof *target,
                        .params_size = op->params_size,
                        .n_params = op->n_params,
                        .op = name,
                        .params = op->params};
  return target;
}

static const char *const *arg_names(tn__arena *arena, const tn_arg *const *args,
                                    uint32_t n) {
  const char **names = TNM_NEW(arena, const char *, n);
  for (uint32_t i = 0; names != NULL && i < n; ++i) names[i] = args[i]->name;
  return names;
}

static void set_scope(tnm_lower *lower) {
  const tn_op *op = lower->op;
  lower->scope = (tnm_scope){
      .inputs = arg_names(lower->arena, op->inputs, op->n_inputs),
      .n_inputs = op->n_inputs,
      .outputs = arg_names(lower->arena, op->outputs, op->n_outputs),
      .n_outputs = op->n_outputs,
      .params = op->params,
      .n_params = op->n_params};
}

void tnm_lower_kernels_for(tnm_reader *reader, const tnm_tree *document,
                           const char *file) {
  const tnm_tree *node = tnm_tree_get(document, "kernels_for");
  if (node == NULL || tnm_tree_get(document, "kernels") == NULL) return;
  const tn_op *op = tnm_find_target(reader, node);
  tn_op *copy = TNM_NEW(reader->arena, tn_op, 1);
  if (op == NULL || copy == NULL) return;
  *copy = *op;
  tnm_lower lower = {.reader = reader,
                     .arena = reader->arena,
                     .diags = reader->diags,
                     .doc = document,
                     .target_name = node->text,
                     .op = copy,
                     .out = tnm_new_operator(reader, file, node->pos)};
  if (lower.out == NULL) return;
  lower.out->tree = document;
  lower.out->target = new_target(reader, node->text, op);
  lower.out->target_op = op;
  set_scope(&lower);
  if (!reader->arena->failed) tnm_lower_kernels(&lower);
}
