/* SPDX-License-Identifier: Apache-2.0
 * resolve.c: gives the names and functions of a scalar expression their
 * meaning. The codes of its messages are listed at the top of parse.c.
 */
#include <string.h>

#include "expr.h"

/* The state of a resolution, passed to all levels. */
typedef struct resolver {
  const tnm_source *source;
  const tnm_scope *scope;
  uint32_t seen[TNM_EXPR_MAX_TENSORS]; /* kind and index of every tensor that
                                          the expression has named so far */
  uint32_t n_seen;
  bool failed;
} resolver;

/* -------------------------------------------------------------------- names */

static void report_unknown_name(resolver *r, const tnm_expr *expr) {
  const tnm_scope *scope = r->scope;
  const char *kinds = scope->gradient
                          ? "an input, output, parameter or constant"
                          : "an input, parameter or constant";
  tnm_diags *diags = r->source->diags;
  tnm_diag_spec spec = {"E0031", expr->pos, "unknown name"};
  size_t id = tnm_diag_add(diags, &spec, "`%s` is not %s", expr->text, kinds);
  tnm_names names = {.arena = r->source->arena};
  tnm_names_add_scope(&names, scope);
  tnm_names_add_note(&names, diags, id, "in scope here");
  if (tnm_function_find(expr->text) != TN_NONE)
    tnm_diag_add_help(diags, id, "`%s` is a function; write `%s(...)`",
                      expr->text, expr->text);
  else if (strcmp(expr->text, "grad") == 0)
    tnm_diag_add_help(diags, id, "write `grad.` and the name of an output");
  else if (tnm_scope_output(scope, expr->text) != TN_NONE)
    tnm_diag_add_help(
        diags, id, "outputs can be read in the formulas of `gradient:` only");
  else if (!tnm_add_enum_help(scope, diags, id, expr->text))
    tnm_names_add_help(&names, diags, id, expr->text);
}

/* Tests whether parameters of this type (TN_FIELD_*) are one number. */
static bool is_single_number(uint32_t type) {
  return type == TN_FIELD_BOOL || type == TN_FIELD_INT ||
         type == TN_FIELD_FLOAT || type == TN_FIELD_ENUM;
}

/* Reports a parameter that formulas cannot use, because it is no single
 * number. */
static void report_bad_param(resolver *r, const tnm_expr *expr) {
  tnm_diag_spec spec = {"E0038", expr->pos, "not a single number"};
  size_t id = tnm_diag_add(
      r->source->diags, &spec,
      "parameter `%s` cannot be used in a scalar expression", expr->text);
  tnm_diag_add_help(r->source->diags, id,
                    "parameters of type bool, int, float and enum can");
  r->failed = true;
}

/* Reports a parameter that may be None. A formula needs numbers: the field of a
 * None parameter is 0, which a formula could not distinguish from an explicit
 * 0. */
static void report_none_param(resolver *r, const tnm_expr *expr) {
  tnm_diag_spec spec = {"E0038", expr->pos, "a number or None"};
  size_t id = tnm_diag_add(
      r->source->diags, &spec,
      "parameter `%s` may be None and cannot be used in a scalar expression",
      expr->text);
  tnm_diag_add_help(
      r->source->diags, id,
      "give it a number as its default in the place of `optional: "
      "true`, or write a kernel, which sees `has_%s`",
      expr->text);
  r->failed = true;
}

/* Counts a tensor that the formula names for the first time; reports one too
 * many. */
static void count_tensor(resolver *r, const tnm_expr *expr) {
  uint32_t key = expr->index * 16 + (uint32_t)expr->kind;
  for (uint32_t i = 0; i < r->n_seen; ++i)
    if (r->seen[i] == key) return;
  if (r->n_seen < TNM_EXPR_MAX_TENSORS) {
    r->seen[r->n_seen++] = key;
    return;
  }
  tnm_diag_spec spec = {"E0040", expr->pos, "one too many"};
  size_t id = tnm_diag_add(r->source->diags, &spec,
                           "formula reads more than %d different tensors",
                           TNM_EXPR_MAX_TENSORS);
  tnm_diag_add_help(r->source->diags, id,
                    "a kernel of your own may read any number");
  r->failed = true;
}

/* Finds the parameter that a name means; reports names and parameters that
 * formulas cannot use. */
static void resolve_param(resolver *r, tnm_expr *expr) {
  expr->kind = TNM_PARAM;
  expr->index = tnm_scope_param(r->scope, expr->text);
  if (expr->index == TN_NONE) {
    report_unknown_name(r, expr);
    r->failed = true;
    return;
  }
  const tn_field *param = r->scope->params[expr->index];
  if (!is_single_number(param->type))
    report_bad_param(r, expr);
  else if (param->flags & TN_FIELD_OPTIONAL)
    report_none_param(r, expr);
}

/* Finds the operand or parameter that a name means; reports mistakes. */
static void resolve_name(resolver *r, tnm_expr *expr) {
  const tnm_scope *scope = r->scope;
  expr->kind = TNM_INPUT;
  expr->index = tnm_scope_input(scope, expr->text);
  if (expr->index == TN_NONE && scope->gradient) {
    expr->kind = TNM_OUTPUT;
    expr->index = tnm_scope_output(scope, expr->text);
  }
  if (expr->index != TN_NONE) {
    count_tensor(r, expr);
  } else {
    resolve_param(r, expr);
  }
}

/* Reports `grad.NAME` where NAME is no output. */
static void report_no_output(resolver *r, const tnm_expr *expr) {
  tnm_diags *diags = r->source->diags;
  tnm_diag_spec spec = {"E0039", expr->pos, "has no gradient here"};
  size_t id = tnm_diag_add(diags, &spec, "`%s` is not an output", expr->text);
  tnm_names names = {.arena = r->source->arena};
  tnm_names_add(&names, r->scope->outputs, r->scope->n_outputs);
  tnm_names_add_note(&names, diags, id, "outputs");
  tnm_names_add_help(&names, diags, id, expr->text);
  r->failed = true;
}

/* Finds the output that `grad.NAME` names; reports mistakes. */
static void resolve_grad(resolver *r, tnm_expr *expr) {
  expr->index = tnm_scope_output(r->scope, expr->text);
  if (!r->scope->gradient) {
    tnm_diag_spec spec = {"E0039", expr->pos, "has no gradient here"};
    size_t id = tnm_diag_add(r->source->diags, &spec,
                             "`grad.%s` in a forward expression", expr->text);
    tnm_diag_add_help(
        r->source->diags, id,
        "gradients can be read in the formulas of `gradient:` only");
    r->failed = true;
  } else if (expr->index == TN_NONE) {
    report_no_output(r, expr);
  } else {
    count_tensor(r, expr);
  }
}

/* --------------------------------------------------------------- reductions */

/* Tests whether an expression is the name of the operator's axes. */
static bool is_axes(const resolver *r, const tnm_expr *expr) {
  return r->scope->axes != NULL && expr->kind == TNM_NAME &&
         strcmp(expr->text, r->scope->axes) == 0;
}

/* Reports that a formula uses the name of axes as a number. */
static void report_axes_number(resolver *r, const tnm_expr *expr) {
  tnm_diag_spec spec = {"E0049", expr->pos, "no number"};
  size_t id =
      tnm_diag_add(r->source->diags, &spec,
                   "`%s` is the name of axes in this operator", expr->text);
  tnm_diag_add_help(r->source->diags, id,
                    "write it as the second argument of a reduction: "
                    "`sum(data, %s)`",
                    expr->text);
  r->failed = true;
}

/* Reports a reduction over something that is not the operator's axes. */
static void report_no_axes(resolver *r, const tnm_expr *expr) {
  tnm_diag_spec spec = {"E0049", expr->args[1]->pos, "not the name of axes"};
  size_t id =
      tnm_diag_add(r->source->diags, &spec,
                   "`%s` needs the axes over which it reduces", expr->text);
  tnm_diag_add_help(r->source->diags, id, "write `%s(..., %s)`", expr->text,
                    r->scope->axes);
  r->failed = true;
}

/* Resolves `sum(data, axis)` and `count(axis)`. Returns false if the call is
 * another one. */
static bool resolve_reduction(resolver *r, tnm_expr *expr) {
  if (r->scope->axes == NULL) return false;
  if (strcmp(expr->text, "count") == 0 && expr->n_args == 1 &&
      is_axes(r, expr->args[0])) {
    expr->kind = TNM_COUNT;
    expr->text = r->scope->axes;
    expr->n_args = 0;
    expr->args[0] = NULL;
    return true;
  }
  const uint32_t reduction = tnm_reduction_find(expr->text);
  if (reduction == TN_NONE || expr->n_args != 2) return false;
  const bool has_axes = is_axes(r, expr->args[1]);
  if (!has_axes && tnm_function_find(expr->text) != TN_NONE) return false;
  if (!has_axes) {
    report_no_axes(r, expr);
    return true;
  }
  expr->kind = TNM_REDUCE;
  expr->index = reduction;
  expr->text = r->scope->axes;
  expr->n_args = 1;
  expr->args[1] = NULL;
  return true;
}

/* ---------------------------------------------------------------- functions */

/* Returns the name of the operator that computes a function of many elements,
 * like `mean`; NULL for other functions. */
static const char *find_operator(const char *name) {
  static const char *const operators[][2] = {{"sum", "tensor.sum"},
                                             {"mean", "tensor.mean"},
                                             {"avg", "tensor.mean"},
                                             {"average", "tensor.mean"},
                                             {"prod", "tensor.prod"},
                                             {"nansum", "tensor.nansum"},
                                             {"norm", "tensor.norm"},
                                             {"amax", "tensor.max"},
                                             {"amin", "tensor.min"},
                                             {"argmax", "tensor.argmax"},
                                             {"argmin", "tensor.argmin"},
                                             {"max", "tensor.max"},
                                             {"min", "tensor.min"},
                                             {"dot", "tensor.dot"},
                                             {"matmul", "tensor.dot"},
                                             {"softmax", "nn.softmax"},
                                             {"log_softmax", "nn.log_softmax"}};
  for (size_t i = 0; i < sizeof operators / sizeof *operators; ++i)
    if (strcmp(name, operators[i][0]) == 0) return operators[i][1];
  return NULL;
}

/* Adds a help line to message `id` if an operator computes the function
 * `name`. Returns whether it added the line. */
static bool add_operator_help(tnm_diags *diags, size_t id, const char *name) {
  const char *operator_name = find_operator(name);
  if (operator_name == NULL) return false;
  if (tnm_reduction_find(name) != TN_NONE) {
    tnm_diag_add_help(
        diags, id,
        "over axes it is a reduction: declare `axes: [axis]`, "
        "where `axis` is a parameter, and write `%s(data, axis)`; "
        "or call the operator `%s`",
        name, operator_name);
    return true;
  }
  tnm_diag_add_help(
      diags, id,
      "formulas are computed element by element; the operator `%s` "
      "computes this, or write a kernel with `kernels:`",
      operator_name);
  return true;
}

static void report_unknown_function(resolver *r, const tnm_expr *expr) {
  tnm_pos pos = expr->pos;
  pos.length = (uint32_t)strlen(expr->text);
  tnm_diag_spec spec = {"E0034", pos, "unknown function"};
  size_t id = tnm_diag_add(r->source->diags, &spec, "`%s` is not a function",
                           expr->text);
  tnm_names names = {.arena = r->source->arena};
  for (size_t i = 0; i < TNM_N_FUNCTIONS; ++i)
    tnm_names_add(&names, &tnm_function_at(i)->name, 1);
  tnm_names_add_note(&names, r->source->diags, id, "functions");
  if (!add_operator_help(r->source->diags, id, expr->text))
    tnm_names_add_help(&names, r->source->diags, id, expr->text);
}

/* Checks the number of arguments of a call. Returns false after a message. A
 * help line for `max(x)` says that the author probably wants the largest of
 * all elements. */
static bool check_call_args(resolver *r, const tnm_expr *expr) {
  const uint32_t n = tnm_function_at(expr->index)->n_args;
  size_t id = 0;
  if (tnm_count_args(r->source->diags, expr, n, &id)) return true;
  if (expr->n_args == 1)
    (void)add_operator_help(r->source->diags, id, expr->text);
  return false;
}

/* Finds the called function; reports mistakes. */
static void resolve_call(resolver *r, tnm_expr *expr) {
  if (resolve_reduction(r, expr)) return;
  expr->index = tnm_function_find(expr->text);
  if (expr->index == TN_NONE) {
    report_unknown_function(r, expr);
    r->failed = true;
  } else if (!check_call_args(r, expr)) {
    r->failed = true;
  }
}

/* Copies an expression and resolves its names. The copy is complete unless
 * r->failed is set. */
static const tnm_expr *resolve_expr(resolver *r, const tnm_expr *syntax) {
  tnm_expr *expr = tn__arena_alloc(r->source->arena, sizeof *expr);
  if (!expr) {
    r->failed = true;
    return NULL;
  }
  *expr = *syntax;
  if (is_axes(r, expr))
    report_axes_number(r, expr);
  else if (expr->kind == TNM_NAME)
    resolve_name(r, expr);
  if (expr->kind == TNM_GRAD) resolve_grad(r, expr);
  if (expr->kind == TNM_CALL) resolve_call(r, expr);
  for (uint32_t i = 0; i < tnm_expr_count_args(expr); ++i)
    expr->args[i] = resolve_expr(r, syntax->args[i]);
  return expr;
}

const tnm_expr *tnm_expr_parse(const tnm_source *source,
                               const tnm_scope *scope) {
  tnm_parser parser;
  resolver r = {.source = source, .scope = scope};
  tnm_parser_init(&parser, source);
  const tnm_expr *syntax = tnm_parser_read_expr(&parser);
  if (!syntax || !tnm_parser_expect_end(&parser)) return NULL;
  const tnm_expr *expr = resolve_expr(&r, syntax);
  return r.failed ? NULL : expr;
}
