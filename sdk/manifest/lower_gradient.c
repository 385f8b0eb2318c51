/* SPDX-License-Identifier: Apache-2.0
 * lower_gradient.c: lowers `forward:` and `gradient:` to parsed expressions and
 * tn_gradient, with the operands that each gradient keeps alive.
 */
#include <string.h>

#include "front.h"

/* ----------------------------------------------------------------- formulas */

void tnm_report_operand(tnm_lower *lower, tnm_pos pos, uint32_t list,
                        const char *name) {
  const tnm_operands *known = &lower->operands[list];
  tnm_diag_spec spec = {"E0051", pos, NULL};
  size_t id =
      tnm_diag_add(lower->diags, &spec, "`%.80s` is no %s of `%s`", name,
                   list == TN_OPERAND_IN ? "input" : "output", lower->op->name);
  tnm_suggest_word(lower->diags, id, name, known->names, known->n);
}

/* Reads the formula of one operand of a list (TN_OPERAND_*) into by_index, at
 * the operand's index. */
static void read_formula(tnm_lower *lower, const tnm_tree *entry, uint32_t list,
                         tnm_formula *by_index) {
  uint32_t index = tnm_find_operand(lower, list, entry->key);
  if (index == TN_NONE) {
    tnm_report_operand(lower, entry->key_pos, list, entry->key);
    return;
  }
  tnm_scope scope = lower->scope;
  scope.gradient = list == TN_OPERAND_IN;
  by_index[index] = (tnm_formula){index, NULL, entry->text, entry->pos};
  if (!tnm_read_line(lower->diags, entry)) {
    by_index[index].text = "";
    return;
  }
  tnm_source source = {lower->arena, lower->diags, entry->text, entry->pos};
  const tnm_expr *expr = tnm_expr_parse(&source, &scope);
  if (expr != NULL) expr = tnm_expr_fold(lower->arena, expr);
  by_index[index].expr = expr;
}

/* Reads a formula for each operand of a list, in the order of the operands. An
 * operand without a formula has `text` NULL; an invalid formula has `expr`
 * NULL. */
static tnm_formula *read_formulas(tnm_lower *lower, const tnm_tree *map,
                                  uint32_t list) {
  uint32_t n = lower->operands[list].n;
  tnm_formula *by_index = TNM_NEW(lower->arena, tnm_formula, n);
  if (by_index == NULL) return NULL;
  for (const tnm_tree *e = map->first; e != NULL; e = e->next)
    read_formula(lower, e, list, by_index);
  return by_index;
}

/* Moves the valid formulas to the front of the array. Returns their number. */
static size_t compact_formulas(tnm_formula *formulas, size_t n) {
  size_t kept = 0;
  for (size_t i = 0; i < n; ++i) {
    if (formulas[i].expr != NULL) formulas[kept++] = formulas[i];
  }
  return kept;
}

/* Reports that output i has no formula in `map`. */
static void report_no_formula(tnm_lower *lower, const tnm_tree *map,
                              uint32_t i) {
  const tnm_operands *outputs = &lower->operands[TN_OPERAND_OUT];
  tnm_diag_spec spec = {"E0056", map->key_pos, NULL};
  size_t id = tnm_diag_add(lower->diags, &spec, "output `%s` has no formula",
                           outputs->names[i]);
  tnm_diag_add_place(lower->diags, id,
                     tnm_tree_get(outputs->nodes[i], "name")->pos,
                     "declared here");
  tnm_diag_add_help(lower->diags, id, "add `%s: ...`", outputs->names[i]);
}

void tnm_lower_forward(tnm_lower *lower) {
  const tnm_tree *map = tnm_tree_get(lower->doc, "forward");
  if (map == NULL) return;
  tnm_formula *formulas = read_formulas(lower, map, TN_OPERAND_OUT);
  if (formulas == NULL) return;
  const tnm_operands *outputs = &lower->operands[TN_OPERAND_OUT];
  for (uint32_t i = 0; i < outputs->n; ++i) {
    outputs->v[i]->formula = formulas[i].text;
    if (formulas[i].text == NULL) report_no_formula(lower, map, i);
  }
  lower->out->forward = formulas;
  lower->out->n_forward = compact_formulas(formulas, outputs->n);
}

/* -------------------------------------------------------------------- needs */

/* Adds an operand to the needs of a gradient, unless it is there. A need of the
 * elements includes the shape and the type. */
static void add_need(tn_need *needs, uint32_t *n, tn_need need) {
  for (uint32_t i = 0; i < *n; ++i) {
    if (needs[i].what != need.what || needs[i].index != need.index) continue;
    needs[i].metadata &= need.metadata;
    return;
  }
  needs[(*n)++] = need;
}

bool tnm_find_need(const tnm_lower *lower, const char *name, tn_need *need) {
  bool grad = strncmp(name, "grad.", 5) == 0;
  uint32_t out =
      tnm_find_operand(lower, TN_OPERAND_OUT, grad ? name + 5 : name);
  uint32_t in = tnm_find_operand(lower, TN_OPERAND_IN, name);
  need->what = grad            ? TN_NEED_GRAD_OUT
               : in != TN_NONE ? TN_NEED_IN
                               : TN_NEED_OUT;
  need->index = need->what == TN_NEED_IN ? in : out;
  return need->index != TN_NONE;
}

/* Reports a name in `needs` that is no operand and no output gradient. */
static void report_unknown_need(tnm_lower *lower, const tnm_tree *node) {
  const tnm_operands *in = &lower->operands[TN_OPERAND_IN];
  const tnm_operands *out = &lower->operands[TN_OPERAND_OUT];
  const char **known = TNM_NEW(lower->arena, const char *, in->n + 2 * out->n);
  if (known == NULL) return;
  size_t n = 0;
  for (uint32_t i = 0; i < out->n; ++i) {
    known[n] = tnm_format_text(lower->arena, "grad.%s", out->names[i]);
    if (known[n++] == NULL) return;
  }
  for (uint32_t i = 0; i < in->n; ++i) known[n++] = in->names[i];
  for (uint32_t i = 0; i < out->n; ++i) known[n++] = out->names[i];
  tnm_diag_spec spec = {"E0053", node->pos, NULL};
  size_t id =
      tnm_diag_add(lower->diags, &spec,
                   "`%.80s` is nothing that a gradient can need", node->text);
  tnm_suggest_word(lower->diags, id, node->text, known, n);
}

/* Reads `grad.out`, `x` or `shape(x)`. */
static void read_need(tnm_lower *lower, const tnm_tree *node, tn_need *needs,
                      uint32_t *n) {
  char name[TNM_MAX_NAME + 16] = "";
  tn_need need = {0};
  if (!tnm_check_scalar(lower->diags, node, "a name")) return;
  size_t length = strlen(node->text);
  bool shape = strncmp(node->text, "shape(", 6) == 0 &&
               node->text[length - 1] == ')' && length - 7 < sizeof name;
  need.metadata = shape;
  if (shape) {
    memcpy(name, node->text + 6, length - 7);
    name[length - 7] = '\0';
  }
  if (tnm_find_need(lower, shape ? name : node->text, &need))
    add_need(needs, n, need);
  else
    report_unknown_need(lower, node);
}

/* Reads the operands that the gradient of one input reads. */
static void read_needs(tnm_lower *lower, const tnm_tree *list,
                       tn_input_gradient *gradient) {
  if (list->kind != TNM_LIST) {
    tnm_diag_spec spec = {"E0013", list->pos, NULL};
    size_t id = tnm_diag_add(lower->diags, &spec,
                             "the needs of a gradient must be a list");
    tnm_diag_add_help(lower->diags, id, "write `%s: [grad.out, shape(x)]`",
                      list->key);
    return;
  }
  tn_need *needs = TNM_NEW(lower->arena, tn_need, list->n);
  if (needs == NULL) return;
  for (const tnm_tree *node = list->first; node != NULL; node = node->next)
    read_need(lower, node, needs, &gradient->n_needs);
  gradient->needs = needs;
}

/* Marks the operands that a formula reads: output gradients, inputs and
 * outputs, in the order of the inputs of a backward call. */
static void mark_needs(const tnm_expr *expr, bool *grads, bool *ins,
                       bool *outs) {
  if (expr->kind == TNM_GRAD) grads[expr->index] = true;
  if (expr->kind == TNM_INPUT) ins[expr->index] = true;
  if (expr->kind == TNM_OUTPUT) outs[expr->index] = true;
  for (uint32_t i = 0; i < expr->n_args; ++i)
    mark_needs(expr->args[i], grads, ins, outs);
}

/* Appends the marked operands, of kind `what` (TN_NEED_*), to the needs. */
static void add_marked_needs(tn_need *needs, uint32_t *n, uint32_t what,
                             const bool *marks, uint32_t n_marks) {
  for (uint32_t i = 0; i < n_marks; ++i) {
    if (marks[i]) needs[(*n)++] = (tn_need){.what = what, .index = i};
  }
}

/* Sets the needs of a gradient: the operands and output gradients that its
 * formula names. */
static void set_formula_needs(tnm_lower *lower, const tnm_expr *expr,
                              tn_input_gradient *gradient) {
  uint32_t n_in = lower->op->n_inputs;
  uint32_t n_out = lower->op->n_outputs;
  bool *marks = TNM_NEW(lower->arena, bool, n_in + 2 * n_out);
  tn_need *needs = TNM_NEW(lower->arena, tn_need, n_in + 2 * n_out);
  if (marks == NULL || needs == NULL) return;
  bool *ins = marks + n_out;
  bool *outs = ins + n_in;
  mark_needs(expr, marks, ins, outs);
  uint32_t *n = &gradient->n_needs;
  add_marked_needs(needs, n, TN_NEED_GRAD_OUT, marks, n_out);
  add_marked_needs(needs, n, TN_NEED_IN, ins, n_in);
  add_marked_needs(needs, n, TN_NEED_OUT, outs, n_out);
  gradient->needs = needs;
}

/* ------------------------------------------------------------ one per input */

/* Makes the table of each input's gradient; inputs of integers and booleans
 * are not differentiated. Returns NULL if memory ran out. */
static tn_input_gradient **new_gradients(tnm_lower *lower) {
  uint32_t n = lower->op->n_inputs;
  tn_input_gradient **all = TNM_NEW(lower->arena, tn_input_gradient *, n);
  for (uint32_t i = 0; all != NULL && i < n; ++i) {
    all[i] = TNM_NEW(lower->arena, tn_input_gradient, 1);
    if (all[i] == NULL) return NULL;
    *all[i] = (tn_input_gradient){
        .struct_size = sizeof **all,
        .stop = !lower->untyped &&
                !tnm_is_float(lower, lower->operands[TN_OPERAND_IN].v[i]),
        .inplace = TN_NONE};
  }
  return all;
}

/* Reads `stop`: the inputs that are not differentiated. */
static void read_stop(tnm_lower *lower, const tnm_tree *list,
                      tn_input_gradient **all) {
  for (const tnm_tree *node = list == NULL ? NULL : list->first; node != NULL;
       node = node->next) {
    if (!tnm_check_scalar(lower->diags, node, "an input")) continue;
    uint32_t i = tnm_find_operand(lower, TN_OPERAND_IN, node->text);
    if (i == TN_NONE)
      tnm_report_operand(lower, node->pos, TN_OPERAND_IN, node->text);
    else
      all[i]->stop = 1;
  }
}

/* Writes the keys of a mapping: "lists data, bias". */
static void print_keys(char *out, size_t size, const tnm_tree *map) {
  size_t used = (size_t)snprintf(out, size, "lists ");
  for (const tnm_tree *e = map->first; e != NULL && used < size; e = e->next)
    used += (size_t)snprintf(out + used, size - used, "%s%s",
                             e == map->first ? "" : ", ", e->key);
  if (map->first == NULL) snprintf(out, size, "lists nothing");
}

/* Reports that `map` has no entry for the gradient of input i. */
static void report_missing_input(tnm_lower *lower, const tnm_tree *map,
                                 uint32_t i) {
  const tnm_operands *inputs = &lower->operands[TN_OPERAND_IN];
  const char *name = inputs->names[i];
  bool listed = map->kind == TNM_MAP;
  bool needs =
      strcmp(map->key, "formula") != 0 && strcmp(map->key, "graph") != 0;
  char under[256] = "has no `needs`";
  if (listed) print_keys(under, sizeof under, map);
  tnm_diag_spec spec = {"E0052", map->key_pos, under};
  size_t id = tnm_diag_add(lower->diags, &spec,
                           "differentiable input `%s` has no gradient", name);
  tnm_diag_add_place(lower->diags, id,
                     tnm_tree_get(inputs->nodes[i], "name")->pos,
                     "declared here");
  tnm_diag_add_help(
      lower->diags, id,
      "add `%s: %s`, or list it in `gradient: {stop: [%s]}` if it is "
      "never trained",
      name, needs ? "[...]" : "...", name);
}

/* Reports a gradient of an input that is not differentiated. */
static void report_stopped_input(tnm_lower *lower, const tnm_tree *entry) {
  tnm_diag_spec spec = {"E0051", entry->key_pos, NULL};
  size_t id = tnm_diag_add(
      lower->diags, &spec,
      "input `%s` has a gradient, but is not differentiated", entry->key);
  tnm_diag_add_help(lower->diags, id,
                    "remove it here or from `stop`; integers and booleans are "
                    "never differentiated");
}

/* Tests whether a key of the mapping is a misspelling of `name`. Such a key is
 * reported as unknown, so `name` must not be reported as missing too. */
static bool is_misspelt(const tnm_lower *lower, const tnm_tree *map,
                        const char *name) {
  for (const tnm_tree *entry = map->first; entry != NULL; entry = entry->next)
    if (tnm_find_operand(lower, TN_OPERAND_IN, entry->key) == TN_NONE &&
        tn__find_nearest_word(entry->key, &name, 1) != NULL)
      return true;
  return false;
}

/* Checks that each differentiable input is either a key of the mapping or under
 * `stop`. */
static void check_every_input_listed(tnm_lower *lower, const tnm_tree *map,
                                     tn_input_gradient **all) {
  for (uint32_t i = 0; i < lower->op->n_inputs; ++i) {
    const char *name = lower->operands[TN_OPERAND_IN].names[i];
    const tnm_tree *entry = tnm_tree_get(map, name);
    if (entry == NULL && !all[i]->stop && !is_misspelt(lower, map, name))
      report_missing_input(lower, map, i);
    if (entry != NULL && all[i]->stop) report_stopped_input(lower, entry);
  }
}

/* ----------------------------------------------------------------- formulas */

void tnm_set_formulas(tnm_lower *lower, tnm_formula *formulas,
                      tn_input_gradient **all) {
  for (uint32_t i = 0; i < lower->op->n_inputs; ++i) {
    if (formulas[i].expr == NULL || all[i]->stop) {
      formulas[i].expr = NULL;
      continue;
    }
    all[i]->formula = formulas[i].text;
    set_formula_needs(lower, formulas[i].expr, all[i]);
  }
  tnm_list_formula_inplace(lower, formulas, all);
  lower->out->backward = formulas;
  lower->out->n_backward = compact_formulas(formulas, lower->op->n_inputs);
}

/* Reads `formula`: a formula for the gradient of each input. */
static void lower_formulas(tnm_lower *lower, const tnm_tree *map,
                           tn_input_gradient **all) {
  tnm_formula *formulas = read_formulas(lower, map, TN_OPERAND_IN);
  if (formulas == NULL) return;
  check_every_input_listed(lower, map, all);
  tnm_set_formulas(lower, formulas, all);
}

/* ---------------------------------------------------------------- the kinds */

/* Reads `needs`: for each input, the operands that the backward kernel reads
 * to compute its gradient. */
static void lower_kernel_needs(tnm_lower *lower, const tnm_tree *map,
                               const tnm_tree *kernel,
                               tn_input_gradient **all) {
  static const char *const words[] = {"backward", NULL};
  const tnm_tree *needs = tnm_tree_get(map, "needs");
  tnm_read_word(lower->diags, kernel, "`backward`", words);
  if (needs == NULL) {
    check_every_input_listed(lower, kernel, all);
    return;
  }
  for (const tnm_tree *e = needs->first; e != NULL; e = e->next) {
    uint32_t i = tnm_find_operand(lower, TN_OPERAND_IN, e->key);
    if (i == TN_NONE)
      tnm_report_operand(lower, e->key_pos, TN_OPERAND_IN, e->key);
    else
      read_needs(lower, e, all[i]);
  }
  check_every_input_listed(lower, needs, all);
  tnm_lower_gradient_inplace(lower, tnm_tree_get(map, "inplace"), all);
}

/* Reports that a gradient graph cannot use operand `name`, which is `is`
 * ("variadic"). Returns false, for the caller to return. */
static bool refuse_graph(tnm_lower *lower, const tnm_tree *graph,
                         const char *name, const char *is) {
  tnm_diag_spec spec = {"E0069", graph->key_pos, NULL};
  size_t id = tnm_diag_add(lower->diags, &spec,
                           "a graph cannot take `%s`: it is %s", name, is);
  tnm_diag_add_help(lower->diags, id,
                    "write `gradient: {kernel: backward, needs: {...}}`");
  return false;
}

/* Checks that no operand represents several tensors. A graph cannot use such
 * an operand, because its name occurs only once. Returns false after a
 * message. */
static bool check_graph_operands(tnm_lower *lower, const tnm_tree *graph) {
  const tn_op *op = lower->op;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (op->inputs[i]->flags & TN_ARG_VARIADIC)
      return refuse_graph(lower, graph, op->inputs[i]->name, "variadic");
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->count != TN_NONE)
      return refuse_graph(lower, graph, op->outputs[i]->name, "counted");
  return true;
}

/* Reads `graph`: a graph of calls for the gradient of each input. */
static void lower_graphs(tnm_lower *lower, const tnm_tree *map,
                         tn_input_gradient **all) {
  lower->gradient->kind = TN_GRADIENT_GRAPH;
  if (!check_graph_operands(lower, map)) return;
  for (const tnm_tree *e = map->first; e != NULL; e = e->next) {
    uint32_t i = tnm_find_operand(lower, TN_OPERAND_IN, e->key);
    if (i == TN_NONE)
      tnm_report_operand(lower, e->key_pos, TN_OPERAND_IN, e->key);
    else
      tnm_lower_graph(lower, e, all[i]);
  }
  check_every_input_listed(lower, map, all);
}

/* Finds the key that decides the kind of the gradient (`formula`, `kernel`,
 * `graph` ...). Returns NULL after a message if there is none or more than one.
 */
static const tnm_tree *find_kind(tnm_lower *lower, const tnm_tree *map) {
  static const char *const kinds[] = {"formula", "kernel", "none", "auto",
                                      "graph"};
  const tnm_tree *found = NULL;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    const tnm_tree *entry = tnm_tree_get(map, kinds[i]);
    if (entry == NULL) continue;
    if (found != NULL) {
      tnm_diag_spec spec = {"E0054", entry->key_pos, "second kind"};
      size_t id = tnm_diag_add(lower->diags, &spec,
                               "a gradient has one kind, here are two");
      tnm_diag_add_place(lower->diags, id, found->key_pos, "first kind");
      return NULL;
    }
    found = entry;
  }
  if (found != NULL) return found;
  tnm_diag_spec spec = {"E0054", map->key_pos, NULL};
  size_t id = tnm_diag_add(lower->diags, &spec, "this gradient has no kind");
  tnm_diag_add_help(lower->diags, id,
                    "add `auto: true`, `formula: {...}`, `graph: {...}`, "
                    "`kernel: backward` or `none: true`");
  return NULL;
}

/* Makes all[] the gradients of the operator's inputs; a kernel computes them,
 * unless a later key changes that. */
static void init_input_gradients(const tnm_lower *lower,
                                 tn_input_gradient **all) {
  tn_gradient *gradient = lower->gradient;
  gradient->kind = TN_GRADIENT_KERNEL;
  gradient->n_inputs = lower->op->n_inputs;
  gradient->inputs = (const tn_input_gradient *const *)all;
  gradient->why = NULL;
}

/* Reads `auto: true`, together with `stop`. */
static void read_auto_gradient(tnm_lower *lower, const tnm_tree *value,
                               tn_input_gradient **all) {
  bool truth;
  if (!tnm_read_bool(lower->diags, value, &truth)) return;
  if (truth)
    tnm_lower_auto(lower, value, all);
  else
    tnm_diag_add(lower->diags, &(tnm_diag_spec){"E0054", value->pos, NULL},
                 "`auto: false` says nothing");
}

/* Reads `none`: the reason why the operator has no gradient. */
static void read_none_reason(tnm_lower *lower, const tnm_tree *map,
                             const tnm_tree *none, tn_gradient *gradient) {
  bool truth;
  const char *why = tnm_get_text(map, "why");
  if (tnm_read_bool(lower->diags, none, &truth) && !truth)
    tnm_diag_add(lower->diags, &(tnm_diag_spec){"E0054", none->pos, NULL},
                 "`none: false` says nothing");
  if (why != NULL) gradient->why = why;
}

/* Reads the key that decides how gradients are computed. */
static void read_gradient_kind(tnm_lower *lower, tnm_tree *map,
                               tn_gradient *gradient) {
  if (!tnm_schema_check(lower->diags, &tnm_schema_gradient, map)) return;
  const tnm_tree *kind = find_kind(lower, map);
  if (kind == NULL) return;
  if (strcmp(kind->key, "none") == 0) {
    read_none_reason(lower, map, kind, gradient);
    return;
  }
  tn_input_gradient **all = new_gradients(lower);
  if (all == NULL) return;
  init_input_gradients(lower, all);
  read_stop(lower, tnm_tree_get(map, "stop"), all);
  if (strcmp(kind->key, "formula") == 0)
    lower_formulas(lower, kind, all);
  else if (strcmp(kind->key, "auto") == 0)
    read_auto_gradient(lower, kind, all);
  else if (strcmp(kind->key, "graph") == 0)
    lower_graphs(lower, kind, all);
  else
    lower_kernel_needs(lower, map, kind, all);
  tnm_lower_linear(lower, tnm_tree_get(map, "linear"), all);
}

void tnm_lower_gradient(tnm_lower *lower) {
  static const char *const words[] = {"none", "auto", NULL};
  tnm_tree *value = tnm_tree_get(lower->doc, "gradient");
  tn_gradient *gradient = TNM_NEW(lower->arena, tn_gradient, 1);
  if (gradient == NULL) return;
  *gradient =
      (tn_gradient){.struct_size = sizeof *gradient,
                    .kind = TN_GRADIENT_NONE,
                    .why = value == NULL ? "its manifest states no gradient"
                                         : "its manifest says: none"};
  lower->op->gradient = gradient;
  lower->gradient = gradient;
  if (value == NULL) return;
  if (value->kind == TNM_MAP) {
    read_gradient_kind(lower, value, gradient);
    return;
  }
  if (tnm_read_word(lower->diags, value, "`none`, `auto` or a mapping",
                    words) != 1)
    return;
  tn_input_gradient **all = new_gradients(lower);
  if (all == NULL) return;
  init_input_gradients(lower, all);
  tnm_lower_auto(lower, value, all);
}
