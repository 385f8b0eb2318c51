/* SPDX-License-Identifier: Apache-2.0
 * lower_target.c: lowers `kernels_for`: finds the operator of another plugin,
 * in its manifests or in the note of its built file, and lowers the kernels
 * added to it.
 */
#include <string.h>

#include "front.h"

/* ------------------------------------------------------------ other plugins */

/* Tests whether a path of `--with` is a folder or a manifest. Every other file
 * must be a built plugin. */
static bool is_manifest(const tn__env *env, const char *path) {
  struct stat info;
  size_t n = strlen(path);
  if (n > 5 && strcmp(path + n - 5, ".yaml") == 0) return true;
  return env->os->stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Reads the operators of a plugin with another reader, `other`, which the
 * caller has initialised and deinitialises. */
static const tn_plugin *read_with_reader(tnm_reader *other, const char *path) {
  static const tnm_read_options options = {.lone = true};
  other->target_only = true;
  other->options = &options;
  return tnm_read_tables(other, path);
}

/* Reads the manifests at a path of `--with` with a reader of their own.
 * Returns the tables; NULL after a message. */
static const tn_plugin *read_manifest(tnm_reader *reader, const char *path,
                                      tnm_with_plugin *out) {
  tnm_reader other;
  tnm_reader_init(&other, reader->env, reader->arena, reader->diags);
  const tn_plugin *tables = read_with_reader(&other, path);
  for (size_t i = 0; i < other.files.n; ++i)
    tnm_reader_push(reader, &reader->files, other.files.v[i]);
  out->whole = other.whole;
  out->operators =
      TNM_NEW(reader->arena, const tnm_operator *, other.operators.n);
  for (size_t i = 0; out->operators != NULL && i < other.operators.n; ++i)
    out->operators[out->n_operators++] = other.operators.v[i];
  tnm_reader_deinit(&other);
  return tables;
}

/* Reports a file of `--with` that could not be read or is no plugin. `code` is
 * the failure of reading it, with its reason in tn_error_text. No manifest
 * names the file, so the message has no position. */
static void report_unreadable_plugin(tnm_reader *reader, const char *path,
                                     tn_code code) {
  uint32_t file = tnm_diags_add_file(reader->diags, path, "", 0);
  tnm_diag_spec spec = {"E0001", tnm_pos_start(file), NULL};
  tnm_diag_add(reader->diags, &spec, "%s%s",
               code == TN_IO ? "cannot read the plugin: " : "",
               tn_error_text());
}

/* Reads the tables in the note of a built plugin of `--with`. Returns NULL
 * after a message. */
static const tn_plugin *read_built_plugin(tnm_reader *reader, const char *path,
                                          tnm_with_plugin *out) {
  const tn_plugin *tables = NULL;
  char *copy = tn__arena_text(reader->arena, path, strlen(path));
  if (copy == NULL || !tnm_reader_push(reader, &reader->files, copy))
    return NULL;
  tn_code code = tnm_read_note(reader->arena, path, &tables);
  if (code == TN_OUT_OF_MEMORY)
    reader->arena->failed = true;
  else if (code != TN_OK)
    report_unreadable_plugin(reader, path, code);
  out->whole = true;
  return tables;
}

/* Reads the plugin at a path of `--with`, and adds it to the targets. */
static void read_with_path(tnm_reader *reader, const char *path) {
  tnm_with_plugin *target = TNM_NEW(reader->arena, tnm_with_plugin, 1);
  if (target == NULL) return;
  target->plugin = is_manifest(reader->env, path)
                       ? read_manifest(reader, path, target)
                       : read_built_plugin(reader, path, target);
  if (target->plugin != NULL) tnm_reader_push(reader, &reader->targets, target);
}

const tn_plugin *tnm_read_siblings(tnm_reader *reader) {
  if (reader->plugin_file == NULL) return reader->siblings;
  tnm_diags *unheard = tnm_diags_create(reader->env);
  if (unheard == NULL) {
    reader->arena->failed = true;
    return NULL;
  }
  tnm_reader other;
  tnm_reader_init(&other, reader->env, reader->arena, unheard);
  reader->siblings = read_with_reader(&other, reader->plugin_file);
  reader->plugin_file = NULL;
  tnm_reader_deinit(&other);
  tnm_diags_release(unheard);
  return reader->siblings;
}

/* Reads all paths of `--with`, once. */
static void read_targets(tnm_reader *reader) {
  const tnm_read_options *options = reader->options;
  if (reader->targets_read) return;
  reader->targets_read = true;
  for (size_t i = 0; options != NULL && i < options->n_with; ++i)
    read_with_path(reader, options->with[i]);
}

/* Tests whether the reader has read a complete plugin with this name. */
static bool has_whole_plugin(const tnm_reader *reader, const char *plugin) {
  for (size_t i = 0; i < reader->targets.n; ++i) {
    const tnm_with_plugin *target = reader->targets.v[i];
    if (target->whole && strcmp(target->plugin->name, plugin) == 0) return true;
  }
  return false;
}

/* Reads an installed plugin, after those of `--with`. */
static void read_installed_plugin(tnm_reader *reader, const char *plugin) {
  const tnm_read_options *options = reader->options;
  struct stat info;
  if (options == NULL || has_whole_plugin(reader, plugin)) return;
  for (size_t i = 0; i < options->n_installed; ++i) {
    const char *path = tnm_format_text(reader->arena, "%s/%s/plugin.yaml",
                                       options->installed[i], plugin);
    if (path == NULL) return;
    if (reader->env->os->stat(path, &info) != 0) continue;
    read_with_path(reader, path);
    return;
  }
}

/* --------------------------------------------------------------- the target */

/* The parts of "nn.convolution@1". */
typedef struct target_name {
  char plugin[TNM_MAX_NAME + 1];
  char op[TNM_MAX_NAME + 1];
  int64_t interface;
} target_name;

/* Copies the text from `from` to `end`, a part of a name. Returns false if it
 * is empty or too long. */
static bool copy_name_part(char *to, const char *from, const char *end) {
  size_t n = (size_t)(end - from);
  if (n == 0 || n > TNM_MAX_NAME) return false;
  memcpy(to, from, n);
  to[n] = '\0';
  return true;
}

/* Splits `PLUGIN.OP@INTERFACE` into its parts. Returns false for any other
 * text. */
static bool parse_name(const char *text, target_name *out) {
  const char *dot = strchr(text, '.');
  const char *at = strchr(text, '@');
  return dot != NULL && at != NULL && dot < at &&
         copy_name_part(out->plugin, text, dot) &&
         copy_name_part(out->op, dot + 1, at) &&
         tnm_parse_int(at + 1, &out->interface) && out->interface >= 1;
}

static bool is_op_named(const tn_op *op, const target_name *name) {
  return strcmp(op->name, name->op) == 0 && op->interface == name->interface;
}

/* Finds an operator among those of one path of `--with`; NULL if it is not
 * there. */
static const tn_op *find_op(const tnm_with_plugin *target,
                            const target_name *name) {
  const tn_plugin *plugin = target->plugin;
  if (strcmp(plugin->name, name->plugin) != 0) return NULL;
  for (uint32_t i = 0; i < plugin->n_operators; ++i)
    if (is_op_named(plugin->operators[i], name)) return plugin->operators[i];
  return NULL;
}

/* Finds the manifest of an operator in `--with`; NULL if `--with` has only a
 * built file of it. Built files do not contain examples. */
static const tnm_operator *find_target_manifest(const tnm_reader *reader,
                                                const target_name *name) {
  for (size_t i = 0; i < reader->targets.n; ++i) {
    const tnm_with_plugin *target = reader->targets.v[i];
    if (strcmp(target->plugin->name, name->plugin) != 0) continue;
    for (size_t k = 0; k < target->n_operators; ++k) {
      const tnm_operator *op = target->operators[k];
      if (op->op != NULL && is_op_named(op->op, name)) return op;
    }
  }
  return NULL;
}

/* Reports a document with kernels for an operator that no plugin of `--with`
 * has. */
static void report_unknown_target(tnm_reader *reader, const tnm_tree *node,
                                  const target_name *name) {
  tnm_diag_spec spec = {"E0060", node->pos, NULL};
  size_t id =
      tnm_diag_add(reader->diags, &spec,
                   "operator `%s` is in none of the plugins given", node->text);
  for (size_t i = 0; i < reader->targets.n; ++i) {
    const tnm_with_plugin *target = reader->targets.v[i];
    if (strcmp(target->plugin->name, name->plugin) != 0 || !target->whole)
      continue;
    tnm_diag_add_help(reader->diags, id,
                      "plugin `%s` was read and has no operator `%s@%lld`",
                      name->plugin, name->op, (long long)name->interface);
    return;
  }
  tnm_diag_add_help(
      reader->diags, id,
      "add `--with` and the folder or the built file of plugin `%s`",
      name->plugin);
}

const tn__vec *tnm_list_with(tnm_reader *reader) {
  read_targets(reader);
  return &reader->targets;
}

/* Finds an operator among the plugins that were read. If a manifest describes
 * it, *described is that description. Returns NULL if no plugin has the
 * operator. */
static const tn_op *find_op_already_read(const tnm_reader *reader,
                                         const target_name *name,
                                         const tnm_operator **described) {
  const tn_op *op = NULL;
  for (size_t i = 0; i < reader->targets.n && op == NULL; ++i)
    op = find_op(reader->targets.v[i], name);
  if (op != NULL) *described = find_target_manifest(reader, name);
  return op;
}

/* Finds the operator "plugin.op@1", the value of `node`, in the plugins of
 * `--with` or in an installed plugin. Returns NULL after a message. */
static const tn_op *find_target(tnm_reader *reader, const tnm_tree *node,
                                const tnm_operator **described) {
  target_name name;
  *described = NULL;
  if (!parse_name(node->text, &name)) {
    tnm_diag_spec spec = {"E0014", node->pos, NULL};
    tnm_diag_add(
        reader->diags, &spec,
        "invalid value `%.80s`: expected an operator with its interface, "
        "`plugin.op@1`",
        node->text);
    return NULL;
  }
  size_t before = tnm_diags_errors(reader->diags);
  read_targets(reader);
  const tn_op *op = find_op_already_read(reader, &name, described);
  if (op == NULL) {
    read_installed_plugin(reader, name.plugin);
    op = find_op_already_read(reader, &name, described);
  }
  if (op == NULL && tnm_diags_errors(reader->diags) == before)
    report_unknown_target(reader, node, &name);
  return op;
}

/* ------------------------------------------------------------------ kernels */

/* Makes the table that describes the parameters of the operator for which
 * kernels are written. Returns NULL if memory ran out. */
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

/* Returns the names of n operands; NULL if memory ran out. */
static const char *const *list_arg_names(tn__arena *arena,
                                         const tn_arg *const *args,
                                         uint32_t n) {
  const char **names = TNM_NEW(arena, const char *, n);
  for (uint32_t i = 0; names != NULL && i < n; ++i) names[i] = args[i]->name;
  return names;
}

/* Copies the operands of one list of the target operator to lower->operands,
 * because the functions that lower examples use lower->operands. Returns false
 * if memory ran out. */
static bool copy_operands(tnm_lower *lower, uint32_t list,
                          const tn_arg *const *args, uint32_t n) {
  tnm_operands *out = &lower->operands[list];
  tn_arg *copies = TNM_NEW(lower->arena, tn_arg, n);
  out->v = TNM_NEW(lower->arena, tn_arg *, n);
  out->names = TNM_NEW(lower->arena, const char *, n);
  out->list = list;
  if (copies == NULL || out->v == NULL || out->names == NULL) return false;
  for (; out->n < n; ++out->n) {
    copies[out->n] = *args[out->n];
    out->v[out->n] = &copies[out->n];
    out->names[out->n] = args[out->n]->name;
  }
  return true;
}

/* Copies the parameters of the target operator to lower->params. Returns false
 * if memory ran out. */
static bool copy_params(tnm_lower *lower, const tn_op *op) {
  tn_field *copies = TNM_NEW(lower->arena, tn_field, op->n_params);
  lower->params = TNM_NEW(lower->arena, tn_field *, op->n_params);
  if (copies == NULL || lower->params == NULL) return false;
  for (uint32_t i = 0; i < op->n_params; ++i) {
    copies[i] = *op->params[i];
    lower->params[i] = &copies[i];
  }
  return true;
}

/* Lowers the examples of a kernels_for document. They are added to those of the
 * operator, and test the conditions of these kernels. */
static void lower_examples(tnm_lower *lower) {
  const tn_op *op = lower->op;
  if (copy_operands(lower, TN_OPERAND_IN, op->inputs, op->n_inputs) &&
      copy_operands(lower, TN_OPERAND_OUT, op->outputs, op->n_outputs) &&
      copy_operands(lower, TN_OPERAND_AUX, op->aux, op->n_aux) &&
      copy_params(lower, op))
    tnm_lower_examples(lower);
}

/* Sets the names that expressions in conditions of kernels may use. */
static void set_scope(tnm_lower *lower) {
  const tn_op *op = lower->op;
  lower->scope = (tnm_scope){
      .inputs = list_arg_names(lower->arena, op->inputs, op->n_inputs),
      .n_inputs = op->n_inputs,
      .outputs = list_arg_names(lower->arena, op->outputs, op->n_outputs),
      .n_outputs = op->n_outputs,
      .params = op->params,
      .n_params = op->n_params};
}

void tnm_lower_kernels_for(tnm_reader *reader, const tnm_tree *document,
                           const char *file) {
  const tnm_tree *node = tnm_tree_get(document, "kernels_for");
  if (node == NULL || tnm_tree_get(document, "kernels") == NULL) return;
  const tnm_operator *described = NULL;
  const tn_op *op = find_target(reader, node, &described);
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
  lower.out->described = described;
  set_scope(&lower);
  tnm_list_target_inplace(&lower, described);
  if (!reader->arena->failed) tnm_lower_kernels(&lower);
  if (!reader->arena->failed) lower_examples(&lower);
}
