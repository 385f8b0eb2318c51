/* SPDX-License-Identifier: Apache-2.0
 * lower_op.c: lowers one document of a manifest to operators: an operator, each
 * member of a family, or the kernels for an operator of another plugin. The
 * other lower_*.c files contain the steps.
 */
#include <ctype.h>
#include <string.h>

#include "front.h"

/* ------------------------------------------------------------- the operator */

/* Checks that the summary is one line, begins with a capital letter and ends
 * without a full stop. */
static void check_summary(tnm_lower *lower) {
  const tnm_tree *summary = tnm_tree_get(lower->doc, "summary");
  if (summary == NULL) return;
  const char *text = summary->text;
  size_t n = strlen(text);
  const char *help = NULL;
  if (strchr(text, '\n') != NULL || !summary->one_line)
    help = "write one line; `doc` takes longer text";
  else if (islower((unsigned char)text[0]) && strchr(text, '*') == NULL &&
           strchr(text, '+') == NULL)
    help = "begin it with a capital";
  else if (n > 0 && text[n - 1] == '.')
    help = "leave out the full stop";
  lower->op->summary = text;
  if (help == NULL) return;
  tnm_diag_spec spec = {"E0019", summary->pos, NULL};
  size_t id = tnm_diag_add(lower->diags, &spec, "this is not a summary");
  tnm_diag_add_help(lower->diags, id, "%s", help);
}

/* Tests whether a text is a full name of an operator, like "nn.pool": names
 * that are separated by dots. */
static bool is_full_name(const char *text) {
  const char *lower = "abcdefghijklmnopqrstuvwxyz0123456789_";
  const char *dot = strchr(text, '.');
  if (dot == NULL || !islower((unsigned char)text[0]) ||
      !islower((unsigned char)dot[1]))
    return false;
  return text + strspn(text, lower) == dot &&
         strspn(dot + 1, lower) == strlen(dot + 1);
}

/* Reads `replaces`: the operator of another plugin that this one replaces. */
static void read_replaces(tnm_lower *lower) {
  const tnm_tree *value = tnm_tree_get(lower->doc, "replaces");
  if (value == NULL) return;
  if (is_full_name(value->text)) {
    lower->op->replaces = value->text;
    return;
  }
  tnm_diag_spec spec = {"E0014", value->pos, NULL};
  tnm_diag_add(lower->diags, &spec,
               "invalid value `%.80s`: expected the full name of an operator, "
               "`plugin.op`",
               value->text);
}

/* Reads `family`: the group in which lists have the operator. */
static void read_family(tnm_lower *lower) {
  const tnm_tree *value = tnm_tree_get(lower->doc, "family");
  if (value != NULL && tnm_read_family(lower->diags, value))
    lower->op->family = value->text;
}

/* Reads the keys of the operator itself: name, interface, release and text. */
static void read_operator_keys(tnm_lower *lower) {
  tn_op *op = lower->op;
  const tnm_tree *interface = tnm_tree_get(lower->doc, "interface");
  tnm_life life = tnm_read_life(lower->reader, lower->doc, 1);
  *op = (tn_op){.struct_size = sizeof *op,
                .interface = 1,
                .since = life.since,
                .deprecated_since = life.deprecated_since,
                .use = life.use,
                .name = tnm_get_text(lower->doc, "op"),
                .doc = tnm_get_text(lower->doc, "doc")};
  if (interface != NULL)
    tnm_read_u32(lower->diags, interface, 1, &op->interface);
  if (tnm_get_bool(lower->diags, lower->doc, "backward_only"))
    op->flags |= TN_OP_BACKWARD_ONLY;
  read_family(lower);
  check_summary(lower);
  read_replaces(lower);
  lower->target_name = tnm_format_text(
      lower->arena, "%s.%s@%u", lower->reader->name, op->name, op->interface);
}

bool tnm_is_whole(const tnm_lower *lower, const char *key, uint32_t n) {
  const tnm_tree *list = tnm_tree_get(lower->doc, key);
  return list == NULL ? !tnm_tree_has(lower->doc, key) : n == list->n;
}

/* Reads the parameters of the operator. */
static void read_params(tnm_lower *lower) {
  tn_op *op = lower->op;
  lower->params =
      tnm_lower_fields(lower->reader, tnm_tree_get(lower->doc, "params"),
                       op->since, &op->n_params, &op->params_size);
  op->params = (const tn_field *const *)lower->params;
}

/* Tests whether a mistake has removed a parameter or operand of the operator.
 */
static bool has_dropped_item(const tnm_lower *lower) {
  const tn_op *op = lower->op;
  return !tnm_is_whole(lower, "params", op->n_params) ||
         !tnm_is_whole(lower, "inputs", op->n_inputs) ||
         !tnm_is_whole(lower, "outputs", op->n_outputs) ||
         !tnm_is_whole(lower, "aux", op->n_aux);
}

/* Sets the names that expressions of this operator may use. */
static void set_scope(tnm_lower *lower) {
  lower->scope =
      (tnm_scope){.inputs = lower->operands[TN_OPERAND_IN].names,
                  .n_inputs = lower->op->n_inputs,
                  .outputs = lower->operands[TN_OPERAND_OUT].names,
                  .n_outputs = lower->op->n_outputs,
                  .params = lower->op->params,
                  .n_params = lower->op->n_params,
                  .axes = lower->axes == NULL ? NULL : lower->axes->name};
}

/* Lowers everything that names parameters and operands. */
static void lower_rules(tnm_lower *lower) {
  tnm_program_init(&lower->program, lower->arena, lower->diags, &lower->scope);
  tnm_lower_shapes(lower);
  tnm_lower_levels(lower);
  tnm_lower_requires(lower);
  bool ok = tnm_program_finish(&lower->program, &lower->op->nodes,
                               &lower->op->n_nodes) &&
            tnm_program_names(&lower->program, lower->op);
  if (!ok) lower->arena->failed = true;
  tnm_program_deinit(&lower->program);
  tnm_lower_forward(lower);
  tnm_lower_gradient(lower);
  tnm_lower_generated(lower);
  if (ok && tnm_diags_errors(lower->diags) == lower->n_errors)
    tnm_check_related(lower);
}

/* Adds the name of an operator to the known ones. Returns false after a
 * message if an operator has it, or if memory ran out. */
static bool register_name(tnm_reader *reader, tnm_operator *out) {
  tnm_operator *other = tn__map_get(&reader->names, out->op->name);
  if (other == NULL) {
    if (tn__map_set(reader->env, &reader->names, out->op->name, out) == TN_OK)
      return true;
    reader->arena->failed = true;
    return false;
  }
  tnm_diag_spec spec = {"E0016", out->pos, "second time"};
  size_t id = tnm_diag_add(reader->diags, &spec,
                           "operator `%s` is defined twice", out->op->name);
  tnm_diag_add_place(reader->diags, id, other->pos, "first time");
  return false;
}

tnm_operator *tnm_new_operator(tnm_reader *reader, const char *file,
                               tnm_pos pos) {
  tnm_operator *out = TNM_NEW(reader->arena, tnm_operator, 1);
  const char *dot = strrchr(file, '.');
  size_t n = dot == NULL ? strlen(file) : (size_t)(dot - file);
  char *stem = tn__arena_text(reader->arena, file, n);
  if (out == NULL || stem == NULL ||
      !tnm_reader_push(reader, &reader->operators, out))
    return NULL;
  out->file = file;
  out->stem = stem;
  out->pos = pos;
  return out;
}

tnm_operator *tnm_lower_one(tnm_reader *reader, const tnm_tree *doc,
                            const char *file, const tnm_operator *parent) {
  const tnm_tree *name = tnm_tree_get(doc, "op");
  if (name == NULL || !tnm_read_name(reader->diags, name, "an operator"))
    return NULL;
  tnm_lower lower = {.reader = reader,
                     .arena = reader->arena,
                     .diags = reader->diags,
                     .doc = doc,
                     .op = TNM_NEW(reader->arena, tn_op, 1),
                     .out = tnm_new_operator(reader, file, name->pos),
                     .n_errors = tnm_diags_errors(reader->diags)};
  if (lower.op == NULL || lower.out == NULL) return NULL;
  lower.out->op = lower.op;
  lower.out->parent = parent;
  lower.out->tree = doc;
  read_operator_keys(&lower);
  if (!register_name(reader, lower.out)) return NULL;
  read_params(&lower);
  tnm_lower_axes(&lower);
  tnm_lower_dtypes(&lower);
  tnm_lower_operands(&lower);
  if (reader->arena->failed) return NULL;
  lower.incomplete = has_dropped_item(&lower);
  set_scope(&lower);
  if (!lower.incomplete) lower_rules(&lower);
  tnm_lower_kernels(&lower);
  tnm_lower_examples(&lower);
  tnm_lower_binding(&lower);
  return lower.out;
}

/* ------------------------------------------------------------------- family */

/* Appends copies of the entries of `from` to `to`, except `each` and keys that
 * `to` has; *last is the last entry of `to`. Returns false if memory ran out.
 */
static bool copy_map_entries(tn__arena *arena, tnm_tree *to, tnm_tree **last,
                             const tnm_tree *from) {
  for (const tnm_tree *e = from->first; e != NULL; e = e->next) {
    if (strcmp(e->key, "each") == 0 || tnm_tree_has(to, e->key)) continue;
    tnm_tree *copy = TNM_NEW(arena, tnm_tree, 1);
    if (copy == NULL) return false;
    *copy = *e;
    copy->next = NULL;
    if (*last == NULL)
      to->first = copy;
    else
      (*last)->next = copy;
    *last = copy;
    ++to->n;
  }
  return true;
}

/* Makes the mapping of one member of a family: the shared keys and the keys of
 * the member. `each` may contain any key, but only `family` may occur in both:
 * then that of the member counts. Returns NULL after a message. */
static tnm_tree *merge_member(tnm_reader *reader, const tnm_tree *family,
                              const tnm_tree *member) {
  tnm_tree *merged = TNM_NEW(reader->arena, tnm_tree, 1);
  tnm_tree *last = NULL;
  if (merged == NULL) return NULL;
  merged->kind = TNM_MAP;
  merged->pos = member->pos;
  for (const tnm_tree *e = member->first; e != NULL; e = e->next) {
    const tnm_tree *shared = tnm_tree_get(family, e->key);
    if (shared == NULL || strcmp(e->key, "family") == 0) continue;
    tnm_diag_spec spec = {"E0006", e->key_pos, "second time"};
    size_t id =
        tnm_diag_add(reader->diags, &spec,
                     "key `%s` is given twice: the family has it", e->key);
    tnm_diag_add_place(reader->diags, id, shared->key_pos, "first time");
  }
  bool ok = copy_map_entries(reader->arena, merged, &last, member) &&
            copy_map_entries(reader->arena, merged, &last, family);
  return ok ? merged : NULL;
}

/* Lowers each member of a family as an operator of its own. */
static void lower_family(tnm_reader *reader, tnm_tree *document,
                         const char *file) {
  tnm_schema_check(reader->diags, &tnm_schema_family, document);
  const tnm_tree *each = tnm_tree_get(document, "each");
  if (each != NULL && each->kind == TNM_LIST && each->n == 0) {
    tnm_diag_spec spec = {"E0013", each->pos, NULL};
    size_t id = tnm_diag_add(reader->diags, &spec, "a family needs members");
    tnm_diag_add_help(reader->diags, id, "write `each: [{op: ...}]`");
  }
  for (tnm_tree *member = each == NULL ? NULL : each->first; member != NULL;
       member = member->next) {
    if (!tnm_schema_check(reader->diags, &tnm_schema_member, member)) continue;
    tnm_tree *merged = merge_member(reader, document, member);
    if (merged == NULL) return;
    if (tnm_tree_get(merged, "op") == NULL) continue;
    tnm_schema_required(reader->diags, &tnm_schema_operator, merged);
    (void)tnm_lower_one(reader, merged, file, NULL);
  }
}

/* ---------------------------------------------------------------- documents */

bool tnm_check_format(tnm_reader *reader, const tnm_tree *document) {
  const tnm_tree *format = tnm_tree_get(document, "opgen");
  if (format == NULL || format->kind != TNM_SCALAR ||
      strcmp(format->text, "1") == 0)
    return true;
  tnm_diag_spec spec = {"E0010", format->pos, "not 1"};
  size_t id = tnm_diag_add(reader->diags, &spec,
                           "unknown manifest format `%.80s`", format->text);
  int64_t number;
  if (tnm_parse_int(format->text, &number) && number > 1)
    tnm_diag_add_help(reader->diags, id,
                      "it needs a newer opgen than " TN_VERSION
                      ", which reads format 1");
  else
    tnm_diag_add_help(reader->diags, id, "write `opgen: 1`");
  return false;
}

/* Finds the key that decides the kind of a document: `op`, `family` or
 * `kernels_for`. An operator may have a `family`. Returns NULL after a message
 * if there is none or more than one. */
static const char *find_kind(tnm_reader *reader, const tnm_tree *document) {
  enum { OP, FAMILY, KERNELS_FOR, N_KINDS };
  static const char *const kinds[N_KINDS] = {"op", "family", "kernels_for"};
  const tnm_tree *found = NULL;
  for (size_t i = 0; i < N_KINDS; ++i) {
    const tnm_tree *entry = tnm_tree_get(document, kinds[i]);
    if (entry == NULL || (i == FAMILY && found != NULL)) continue;
    if (found != NULL) {
      tnm_diag_spec spec = {"E0017", entry->key_pos, "second one"};
      size_t id =
          tnm_diag_add(reader->diags, &spec, "`%s` and `%s` exclude each other",
                       found->key, entry->key);
      tnm_diag_add_place(reader->diags, id, found->key_pos, "first one");
      return NULL;
    }
    found = entry;
  }
  if (found != NULL) return found->key;
  tnm_diag_spec spec = {"E0017", document->pos, "begins here"};
  size_t id =
      tnm_diag_add(reader->diags, &spec,
                   "this document defines neither an operator nor kernels");
  tnm_diag_add_help(reader->diags, id,
                    "add `op: name`, `family: name` or "
                    "`kernels_for: plugin.op@1`");
  return NULL;
}

void tnm_lower_document(tnm_reader *reader, tnm_tree *document,
                        const char *file) {
  if (document->kind != TNM_MAP) {
    tnm_diag_spec spec = {"E0013", document->pos, NULL};
    size_t id =
        tnm_diag_add(reader->diags, &spec, "a document must be a mapping");
    tnm_diag_add_help(reader->diags, id, "begin it with `opgen: 1`");
    return;
  }
  if (!tnm_check_format(reader, document)) return;
  const char *kind = find_kind(reader, document);
  if (kind == NULL) return;
  if (strcmp(kind, "family") == 0) {
    lower_family(reader, document, file);
  } else if (strcmp(kind, "kernels_for") == 0) {
    if (tnm_schema_check(reader->diags, &tnm_schema_kernels_for, document) &&
        !reader->target_only)
      tnm_lower_kernels_for(reader, document, file);
  } else {
    tnm_schema_check(reader->diags, &tnm_schema_operator, document);
    (void)tnm_lower_one(reader, document, file, NULL);
  }
}
