/* SPDX-License-Identifier: Apache-2.0
 * lower_lines.c: lowers `axes:`, for formulas with reductions: the axes, the
 * shapes `{line: axes}` and `{place: axes}`, the levels of the operands, and
 * the checks of the formulas.
 */
#include <string.h>

#include "front.h"

enum {
  MAX_OPERANDS = 15,  /* of a backward call of an operator with axes */
  MAX_REDUCTIONS = 8, /* in all formulas of `forward` */
  MAX_STAGES = 3      /* reductions inside of each other */
};

/* -------------------------------------------------------------------- axes */

/* Reports a mistake in the key `axes`. */
static void report_axes(tnm_lower *lower, tnm_pos pos, const char *message,
                        const char *help) {
  tnm_diag_spec spec = {"E0049", pos, NULL};
  size_t id = tnm_diag_add(lower->diags, &spec, "%s", message);
  tnm_diag_add_help(lower->diags, id, "%s", help);
}

/* Returns the index of a parameter; TN_NONE if there is none of this name. */
static uint32_t find_param(const tnm_lower *lower, const char *name) {
  for (uint32_t i = 0; i < lower->op->n_params; ++i)
    if (strcmp(lower->op->params[i]->name, name) == 0) return i;
  return TN_NONE;
}

/* Reads the axes of a parameter. Returns false after a message. */
static bool read_param_axes(tnm_lower *lower, const tnm_tree *node,
                            tnm_axes *axes) {
  if (!tnm_check_scalar(lower->diags, node, "a parameter")) return false;
  axes->name = node->text;
  axes->param = find_param(lower, node->text);
  const tn_field *field =
      axes->param == TN_NONE ? NULL : lower->op->params[axes->param];
  const bool fits = field != NULL && (field->type == TN_FIELD_INT ||
                                      field->type == TN_FIELD_INTS);
  if (fits && (field->flags & TN_FIELD_OPTIONAL) == 0) return true;
  report_axes(
      lower, node->pos,
      tnm_format_text(lower->arena,
                      "`%.80s` is no parameter of type int or ints "
                      "with a value in every call",
                      node->text),
      "declare it in `params`, or write a number: `axes: {channel: 1}`");
  return false;
}

/* Reads a constant axis. Returns false after a message. */
static bool read_constant_axis(tnm_lower *lower, const tnm_tree *node,
                               tnm_axes *axes) {
  axes->name = node->key;
  axes->param = TN_NONE;
  if (find_param(lower, node->key) == TN_NONE)
    return tnm_read_int(lower->diags, node, -TN_MAX_NDIM, TN_MAX_NDIM - 1,
                        &axes->number);
  report_axes(
      lower, node->key_pos, "a parameter has this name",
      tnm_format_text(lower->arena, "write `axes: [%.80s]`", node->key));
  return false;
}

/* Reads the name and the number of the axes. Returns false after a message. */
static bool read_axes(tnm_lower *lower, const tnm_tree *list, tnm_axes *axes) {
  axes->param = TN_NONE;
  if (list->n == 0) {
    report_axes(lower, list->pos, "there are no axes", "write `axes: [axis]`");
    return false;
  }
  axes->name = list->kind == TNM_LIST ? list->first->text : list->first->key;
  if (list->n > 1) {
    report_axes(lower, list->pos, "an operator reduces over one set of axes",
                "write one name, `axes: [axis]`; a parameter of type ints has "
                "several axes");
    return false;
  }
  return list->kind == TNM_LIST ? read_param_axes(lower, list->first, axes)
                                : read_constant_axis(lower, list->first, axes);
}

void tnm_lower_axes(tnm_lower *lower) {
  const tnm_tree *list = tnm_tree_get(lower->doc, "axes");
  tnm_axes *axes = list == NULL ? NULL : TNM_NEW(lower->arena, tnm_axes, 1);
  if (axes == NULL) return;
  if (read_axes(lower, list, axes)) lower->out->axes = axes;
  /* Formulas know the name after a mistake, too. */
  if (axes->name != NULL) lower->axes = axes;
}

/* ------------------------------------------------------------------ shapes */

void tnm_read_line_shape(tnm_lower *lower, tnm_tree *map, uint32_t list,
                         tn_arg *arg) {
  if (!tnm_schema_check(lower->diags, &tnm_schema_line, map)) return;
  const tnm_tree *line = tnm_tree_get(map, "line");
  const tnm_tree *place = tnm_tree_get(map, "place");
  const tnm_tree *value = line != NULL ? line : place;
  if (value == NULL) return;
  if (line != NULL && place != NULL) {
    report_axes(lower, place->key_pos, "a shape is `line` or `place`",
                "remove one of them");
  } else if (lower->axes == NULL ||
             strcmp(lower->axes->name, value->text) != 0) {
    report_axes(
        lower, value->pos,
        tnm_format_text(lower->arena, "`%.80s` names no axes", value->text),
        lower->axes == NULL
            ? "declare them: `axes: [axis]`"
            : tnm_format_text(lower->arena, "write `%s`", lower->axes->name));
  } else if (place != NULL && list != TN_OPERAND_IN) {
    report_axes(lower, place->key_pos,
                "only inputs have one element for each place",
                "an output has the shape of an input, or `{line: ...}`");
  } else {
    arg->shape_kind = TN_SHAPE_HOOK;
    arg->shape_text =
        tnm_format_text(lower->arena, "{%s: %s}",
                        line != NULL ? "line" : "place", lower->axes->name);
  }
}

/* ------------------------------------------------------------------ levels */

/* Follows rules like `shape: OTHER`, and returns the last operand. */
static const tn_arg *follow_shape(const tnm_lower *lower, const tn_arg *arg) {
  while (arg->shape_kind == TN_SHAPE_SAME)
    arg = lower->operands[arg->shape_list].v[arg->shape_index];
  return arg;
}

/* Returns the level of an operand; TNM_LEVEL_NONE if it has another shape. */
static uint8_t find_level(const tnm_lower *lower, const tn_arg *arg,
                          const tn_arg *loop) {
  const tn_arg *last = follow_shape(lower, arg);
  if (last == loop) return TNM_LEVEL_FULL;
  if (last->shape_kind != TN_SHAPE_HOOK || last->shape_text == NULL)
    return TNM_LEVEL_NONE;
  if (strncmp(last->shape_text, "{line:", 6) == 0) return TNM_LEVEL_LINE;
  return strncmp(last->shape_text, "{place:", 7) == 0 ? TNM_LEVEL_PLACE
                                                      : TNM_LEVEL_NONE;
}

/* Returns the level of each operand of a list. */
static const uint8_t *find_levels(const tnm_lower *lower,
                                  const tnm_operands *list,
                                  const tn_arg *loop) {
  uint8_t *levels = TNM_NEW(lower->arena, uint8_t, list->n + 1);
  for (uint32_t i = 0; levels != NULL && i < list->n; ++i)
    levels[i] = find_level(lower, list->v[i], loop);
  return levels;
}

void tnm_lower_levels(tnm_lower *lower) {
  const tnm_operands *inputs = &lower->operands[TN_OPERAND_IN];
  tnm_axes *axes = lower->axes;
  if (axes == NULL) return;
  while (axes->loop < inputs->n && inputs->v[axes->loop]->shape_kind != 0)
    ++axes->loop;
  if (axes->loop == inputs->n) {
    report_axes(lower, tnm_tree_get(lower->doc, "axes")->key_pos,
                "no input decides the shape of the loop",
                "leave out the `shape` of the first full input");
    lower->unshaped = true;
    axes->loop = 0;
  }
  tn_arg *loop = inputs->n == 0 ? NULL : inputs->v[axes->loop];
  axes->levels.inputs = find_levels(lower, inputs, loop);
  axes->levels.outputs =
      find_levels(lower, &lower->operands[TN_OPERAND_OUT], loop);
  axes->levels.axes = axes->name;
  if (axes->levels.inputs == NULL || axes->levels.outputs == NULL)
    lower->arena->failed = true;
  /* The generated function states the shapes of all. */
  if (loop != NULL) loop->shape_kind = TN_SHAPE_HOOK;
}

/* ------------------------------------------------------------------ checks */

/* Checks that each operand of a list has an element for each line, place or
 * element of the loop. Returns false after a message. */
static bool check_levels(tnm_lower *lower, const tnm_tree *at,
                         const tnm_operands *list, const uint8_t *levels) {
  for (uint32_t i = 0; i < list->n; ++i)
    if (levels[i] == TNM_LEVEL_NONE)
      return tnm_refuse_formula(
          lower, at, list->names[i], "may differ in shape from the loop",
          tnm_format_text(lower->arena,
                          "write `shape: %s`, `{line: %s}` or, for an input, "
                          "`{place: %s}`",
                          lower->op->inputs[lower->axes->loop]->name,
                          lower->axes->name, lower->axes->name));
  return true;
}

/* Adds the reductions of an expression; equal ones count once. */
static void count_reductions(const tnm_expr *e, const tnm_expr **seen,
                             size_t *n) {
  for (uint32_t i = 0; i < e->n_args; ++i)
    count_reductions(e->args[i], seen, n);
  if (e->kind != TNM_REDUCE || *n > MAX_REDUCTIONS) return;
  for (size_t i = 0; i < *n; ++i)
    if (tnm_expr_equal(seen[i], e)) return;
  seen[(*n)++] = e;
}

/* Reports a formula with too many reductions. Returns false. */
static bool refuse_reductions(tnm_lower *lower, const tnm_formula *formula,
                              const char *message) {
  report_axes(lower, formula->pos, message,
              "split the operator, or write a kernel in `kernels`");
  return false;
}

/* Checks the formula of each output: an output with one element for each line
 * has a formula of one element for each line. Returns false after a message. */
static bool check_formulas(tnm_lower *lower, const tnm_tree *at) {
  const tnm_expr *seen[MAX_REDUCTIONS + 1];
  size_t n = 0;
  for (size_t i = 0; i < lower->out->n_forward; ++i) {
    const tnm_formula *f = &lower->out->forward[i];
    const int level = tnm_expr_level(f->expr, &lower->axes->levels);
    if (level & ~lower->axes->levels.outputs[f->index])
      return tnm_refuse_formula(
          lower, at, lower->op->outputs[f->index]->name,
          "has one element for each line, and its formula more",
          "reduce the formula, or give the output the shape of the input");
    if (tnm_expr_stages(f->expr) > MAX_STAGES)
      return refuse_reductions(lower, f,
                               "more than 3 reductions inside of each other");
    count_reductions(f->expr, seen, &n);
    if (n > MAX_REDUCTIONS)
      return refuse_reductions(lower, f, "more than 8 different reductions");
  }
  return true;
}

bool tnm_has_line_gradient(const tnm_operator *op) {
  const tnm_expr *seen[MAX_REDUCTIONS + 1];
  size_t n = 0;
  if (3 * op->op->n_inputs + 2 * op->op->n_outputs > MAX_OPERANDS) return false;
  for (uint32_t i = 0; i < op->op->n_inputs; ++i)
    if (op->axes->levels.inputs[i] == TNM_LEVEL_PLACE) return false;
  for (size_t i = 0; i < op->n_backward; ++i) {
    if (tnm_expr_stages(op->backward[i].expr) > MAX_STAGES) return false;
    count_reductions(op->backward[i].expr, seen, &n);
  }
  return n <= MAX_REDUCTIONS;
}

bool tnm_check_lines(tnm_lower *lower, const tnm_tree *at) {
  const tnm_levels *levels = &lower->axes->levels;
  const tn_op *op = lower->op;
  if (op->n_inputs + 2 * op->n_outputs > MAX_OPERANDS)
    return tnm_refuse_formula(
        lower, at, op->name,
        "has more than 15 inputs, outputs and gradients of outputs",
        "write a kernel in `kernels`");
  return check_levels(lower, at, &lower->operands[TN_OPERAND_IN],
                      levels->inputs) &&
         check_levels(lower, at, &lower->operands[TN_OPERAND_OUT],
                      levels->outputs) &&
         check_formulas(lower, at);
}

/* ------------------------------------------------------------------- flags */

/* Tests whether the only full output of the forward pass may have the memory of
 * an input. */
static bool may_share_forward(const tnm_lower *lower) {
  const tn_arg *only = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < lower->op->n_outputs; ++i) {
    const tn_arg *out = lower->op->outputs[i];
    if (lower->axes->levels.outputs[i] == TNM_LEVEL_FULL)
      only = out, ++n;
    else if (out->inplace != TN_NONE)
      return false; /* other threads read the line's element later */
  }
  return n == 1 && only->inplace != TN_NONE;
}

/* Tests whether the only full gradient may have the memory of an operand. */
static bool may_share_backward(const tnm_lower *lower) {
  const tnm_operator *out = lower->out;
  uint32_t only = 0;
  uint32_t n = 0;
  for (size_t i = 0; i < out->n_backward; ++i) {
    const uint32_t index = out->backward[i].index;
    if (lower->axes->levels.inputs[index] == TNM_LEVEL_FULL)
      only = index, ++n;
    else if (lower->op->gradient->inputs[index]->inplace != TN_NONE)
      return false;
  }
  return n == 1 && lower->op->gradient->inputs[only]->inplace != TN_NONE;
}

void tnm_set_line_flags(const tnm_lower *lower, tn_kernel *kernel) {
  const bool may_share = kernel->pass == TN_PASS_BACKWARD
                             ? may_share_backward(lower)
                             : may_share_forward(lower);
  kernel->flags = TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC;
  kernel->writes &= ~(uint32_t)TN_WRITES_INPLACE;
  if (may_share) kernel->writes |= TN_WRITES_INPLACE;
}
