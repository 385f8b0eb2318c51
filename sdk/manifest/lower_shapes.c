/* SPDX-License-Identifier: Apache-2.0
 * lower_shapes.c: lowers shapes of operands, counts of outputs and
 * requirements. It splits the text in the manifest into items; shape.c turns
 * them into programs.
 */
#include <string.h>

#include "front.h"

/* Returns the text of a scalar with its position. */
static tnm_item make_item(const tnm_tree *node) {
  return (tnm_item){node->text, node->pos};
}

/* ---------------------------------------------------------- shape of a word */

/* Reports a shape that is neither a keyword nor the name of an operand, and
 * suggests a similar name. */
static void report_shape_word(tnm_lower *lower, const tnm_tree *value) {
  const char *known[3 * TNM_MAX_KEYS];
  size_t n = 0;
  for (uint32_t list = 0; list < 3; ++list) {
    const tnm_operands *o = &lower->operands[list];
    for (uint32_t i = 0; i < o->n && n < 3 * TNM_MAX_KEYS; ++i)
      known[n++] = o->names[i];
  }
  tnm_diag_spec spec = {"E0026", value->pos, "no such operand"};
  size_t id =
      tnm_diag_add(lower->diags, &spec, "unknown shape `%.80s`", value->text);
  if (value->text[0] == '[')
    tnm_diag_add_help(lower->diags, id,
                      "the quotes make one word of it; write `shape: %.80s`",
                      value->text);
  else if (value->text[0] >= 'A' && value->text[0] <= 'Z')
    tnm_diag_add_help(lower->diags, id, "a pattern is a list: `[%.80s]`",
                      value->text);
  else
    tnm_suggest_word(lower->diags, id, value->text, known, n);
}

/* Follows rules like `shape: OTHER` from operand to operand and returns the
 * last one. */
static const tn_arg *follow_shape_rules(const tnm_lower *lower,
                                        const tn_arg *arg) {
  while (arg->shape_kind == TN_SHAPE_SAME)
    arg = lower->operands[arg->shape_list].v[arg->shape_index];
  return arg;
}

/* Reports an operand whose shape is declared by way of other operands to be
 * its own. */
static void report_shape_cycle(tnm_lower *lower, const tnm_tree *value) {
  tnm_diag_spec spec = {"E0026", value->pos, "leads back here"};
  size_t id = tnm_diag_add(lower->diags, &spec, "shapes go round in a circle");
  tnm_diag_add_help(lower->diags, id,
                    "leave out the `shape` of the operand that decides");
}

/* Reads the shape `broadcast` or `dynamic`. Returns false for any other word.
 */
static bool read_shape_keyword(tnm_lower *lower, const tnm_tree *value,
                               uint32_t list, tn_arg *arg) {
  bool broadcast = strcmp(value->text, "broadcast") == 0;
  if (!broadcast && strcmp(value->text, "dynamic") != 0) return false;
  const bool result = broadcast && list == TN_OPERAND_IN &&
                      (lower->op->flags & TN_OP_BACKWARD_ONLY);
  if (list != TN_OPERAND_OUT && !result) {
    tnm_diag_spec spec = {"E0026", value->pos, NULL};
    tnm_diag_add(lower->diags, &spec, "only outputs can be `%s`", value->text);
  }
  if (broadcast)
    arg->shape_kind = TN_SHAPE_BROADCAST;
  else
    arg->flags |= TN_ARG_DYNAMIC;
  return true;
}

/* Reads a shape that is one word: a keyword, or the name of an operand with
 * the same shape. */
static void read_shape_word(tnm_lower *lower, const tnm_tree *value,
                            uint32_t list, tn_arg *arg) {
  arg->shape_text = value->text;
  if (read_shape_keyword(lower, value, list, arg)) return;
  for (uint32_t other = 0; other < 3; ++other) {
    uint32_t i = tnm_find_operand(lower, other, value->text);
    if (i == TN_NONE) continue;
    if (follow_shape_rules(lower, lower->operands[other].v[i]) == arg) {
      report_shape_cycle(lower, value);
      return;
    }
    arg->shape_kind = TN_SHAPE_SAME;
    arg->shape_list = other;
    arg->shape_index = i;
    return;
  }
  report_shape_word(lower, value);
}

/* ------------------------------------------------------------ pattern, hook */

/* Reads the items of a pattern. Returns false after a message. */
static bool read_items(tnm_lower *lower, const tnm_tree *list,
                       tnm_item *items) {
  bool ok = true;
  size_t n = 0;
  for (const tnm_tree *node = list->first; node != NULL; node = node->next) {
    ok = tnm_read_line(lower->diags, node) && ok;
    if (ok) items[n++] = make_item(node);
  }
  return ok;
}

/* Reads a shape that is a list: the pattern of its dimensions. */
static void read_pattern(tnm_lower *lower, const tnm_tree *list, tn_arg *arg) {
  tnm_item *items = TNM_NEW(lower->arena, tnm_item, list->n);
  if (items == NULL || !read_items(lower, list, items)) return;
  tnm_program_pattern(&lower->program, items, list->n, arg);
}

/* Reads the shape `{c: FUNCTION}`: the author's function infers it. */
static void read_shape_function(tnm_lower *lower, tnm_tree *map, tn_arg *arg) {
  if (!tnm_schema_check(lower->diags, &tnm_schema_hook, map)) return;
  const tnm_tree *symbol = tnm_tree_get(map, "c");
  if (symbol == NULL || !tnm_read_symbol(lower->diags, symbol)) return;
  arg->shape_kind = TN_SHAPE_HOOK;
  arg->shape_text = tnm_format_text(lower->arena, "{c: %s}", symbol->text);
  const char *first = lower->out->infer_symbol;
  if (first == NULL) {
    lower->out->infer_symbol = symbol->text;
  } else if (strcmp(first, symbol->text) != 0) {
    tnm_diag_spec spec = {"E0026", symbol->pos, NULL};
    size_t id =
        tnm_diag_add(lower->diags, &spec,
                     "an operator has one shape hook, here is a second");
    tnm_diag_add_help(lower->diags, id, "write `{c: %s}`; one hook states all",
                      first);
  }
}

/* Reads the rule of the shape of operand i. */
static void read_shape(tnm_lower *lower, const tnm_operands *list, uint32_t i) {
  tnm_tree *value = tnm_tree_get(list->nodes[i], "shape");
  size_t before = tnm_diags_errors(lower->diags);
  if (value == NULL) {
    lower->unshaped |= list->list != TN_OPERAND_IN;
    return;
  }
  if (value->kind == TNM_SCALAR)
    read_shape_word(lower, value, list->list, list->v[i]);
  else if (value->kind == TNM_LIST)
    read_pattern(lower, value, list->v[i]);
  else if (tnm_tree_has(value, "line") || tnm_tree_has(value, "place"))
    tnm_read_line_shape(lower, value, list->list, list->v[i]);
  else
    read_shape_function(lower, value, list->v[i]);
  lower->unshaped |= tnm_diags_errors(lower->diags) > before;
}

/* Reads `count`: the expression that computes the number of tensors of a
 * counted output. */
static void read_tensor_count(tnm_lower *lower, const tnm_operands *list,
                              uint32_t i) {
  const tnm_tree *value = tnm_tree_get(list->nodes[i], "count");
  if (value == NULL || !tnm_read_line(lower->diags, value)) return;
  tnm_item item = make_item(value);
  tnm_program_integer(&lower->program, &item, &list->v[i]->count);
}

/* Stores the positions of the outputs' shapes, for messages about examples with
 * outputs of other shapes. */
static void store_shape_positions(tnm_lower *lower) {
  const tnm_operands *outputs = &lower->operands[TN_OPERAND_OUT];
  tnm_pos *places = TNM_NEW(lower->arena, tnm_pos, outputs->n);
  for (uint32_t i = 0; places != NULL && i < outputs->n; ++i) {
    const tnm_tree *shape = tnm_tree_get(outputs->nodes[i], "shape");
    places[i] = (shape == NULL ? outputs->nodes[i] : shape)->pos;
  }
  lower->out->shapes = places;
}

void tnm_lower_shapes(tnm_lower *lower) {
  store_shape_positions(lower);
  for (uint32_t which = 0; which < 3; ++which) {
    const tnm_operands *list = &lower->operands[which];
    for (uint32_t i = 0; i < list->n; ++i) read_shape(lower, list, i);
  }
  const tnm_operands *outputs = &lower->operands[TN_OPERAND_OUT];
  for (uint32_t i = 0; i < outputs->n; ++i)
    read_tensor_count(lower, outputs, i);
}

/* ------------------------------------------------------------- equal shapes */

bool tnm_has_same_shape(const tnm_lower *lower, const tn_arg *a,
                        const tn_arg *b) {
  a = follow_shape_rules(lower, a);
  b = follow_shape_rules(lower, b);
  if (a == b) return true;
  if (a->shape_kind != b->shape_kind) return false;
  if (a->shape_kind == TN_SHAPE_BROADCAST) return true;
  return a->shape_kind == TN_SHAPE_PATTERN && a->shape_text != NULL &&
         b->shape_text != NULL && strcmp(a->shape_text, b->shape_text) == 0;
}

/* ------------------------------------------------------------- requirements */

/* Reads one rule of `require`. Returns NULL after a message. */
static const tn_require *read_require(tnm_lower *lower, tnm_tree *node) {
  if (!tnm_schema_check(lower->diags, &tnm_schema_require, node)) return NULL;
  const tnm_tree *that = tnm_tree_get(node, "that");
  const tnm_tree *say = tnm_tree_get(node, "say");
  tn_require *require = TNM_NEW(lower->arena, tn_require, 1);
  if (require == NULL || that == NULL || say == NULL ||
      !tnm_read_line(lower->diags, that))
    return NULL;
  *require = (tn_require){
      .struct_size = sizeof *require, .that = that->text, .say = say->text};
  tnm_item item = make_item(that);
  bool ok = tnm_program_condition(&lower->program, &item, &require->node);
  return ok ? require : NULL;
}

void tnm_lower_requires(tnm_lower *lower) {
  const tnm_tree *list = tnm_tree_get(lower->doc, "require");
  if (list == NULL) return;
  const tn_require **requires =
      TNM_NEW(lower->arena, const tn_require *, list->n);
  if (requires == NULL) return;
  lower->op->requirements = requires;
  for (tnm_tree *node = list->first; node != NULL; node = node->next) {
    const tn_require *require = read_require(lower, node);
    if (require != NULL) requires[lower->op->n_requires++] = require;
  }
}
