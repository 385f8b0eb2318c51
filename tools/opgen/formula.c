/* SPDX-License-Identifier: Apache-2.0
 * formula.c: writes formulas as functions: the reads of each, its computing
 * types, its name in generated code, and the functions themselves.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "emit_kernel.h"

const int formula_classes[] = {TNM_CLASS_F32, TNM_CLASS_F64, TNM_CLASS_I32,
                               TNM_CLASS_I64, TNM_CLASS_U64, 0};

/* Their names in C and in op.h, in the same order. */
static const char *const class_names[][2] = {{"float", "TN_F32"},
                                             {"double", "TN_F64"},
                                             {"int32_t", "TN_I32"},
                                             {"int64_t", "TN_I64"},
                                             {"uint64_t", "TN_U64"}};

static size_t class_at(int class_bit) {
  size_t i = 0;
  while (formula_classes[i] != class_bit && formula_classes[i + 1] != 0) ++i;
  return i;
}

const char *class_type(int class_bit) {
  return class_names[class_at(class_bit)][0];
}

const char *class_dtype(int class_bit) {
  return class_names[class_at(class_bit)][1];
}

const char *formula_type(const kernel_pass *pass, int class_bit) {
  return pass->form == FORM_WIDE ? "tn_wide" : class_type(class_bit);
}

/* -------------------------------------------------------------------- names */

const char *pass_format(const kernel_pass *pass, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = n < 0 ? NULL : tn__arena_alloc(pass->arena, (size_t)n + 1);
  if (text != NULL) (void)vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  if (text == NULL) pass->c->failed = true;
  return text != NULL ? text : "";
}

/* Adds "quadratic" or "quadratic_v2": one program may contain several
 * interfaces of an operator. */
static void add_operator(tn__buf *out, const tnm_operator *op) {
  tn__buf_add(out, "%s", op->op->name);
  if (op->op->interface > 1) tn__buf_add(out, "_v%" PRIu32, op->op->interface);
}

void emit_kernel_name(tn__buf *out, const tnm_operator *op, uint32_t pass) {
  add_operator(out, op);
  tn__buf_add(out, "_%s", pass == TN_PASS_BACKWARD ? "backward" : "forward");
}

void emit_cuda_name(tn__buf *out, const tnm_plugin *plugin,
                    const tnm_operator *op, uint32_t pass) {
  tn__buf_add(out, "%s_", plugin->plugin->name);
  emit_kernel_name(out, op, pass);
  tn__buf_add(out, "_cuda");
}

/* Copies the text of a buffer to the pass's arena. */
static const char *keep_text(const kernel_pass *pass, tn__buf *buf) {
  const char *text = pass_format(pass, "%s", buf->s != NULL ? buf->s : "");
  pass->c->failed |= buf->failed;
  tn__buf_deinit(buf);
  return text;
}

const char *pass_operator(const kernel_pass *pass) {
  tn__buf buf;
  tn__buf_init(&buf, pass->arena->env);
  add_operator(&buf, pass->op);
  return keep_text(pass, &buf);
}

const char *pass_name(const kernel_pass *pass) {
  return pass_format(pass, "%s_%s", pass_operator(pass),
                     pass->pass == TN_PASS_BACKWARD ? "backward" : "forward");
}

const char *pass_params(const kernel_pass *pass) {
  return pass_format(pass, "%s_%s_params", pass->plugin->plugin->name,
                     pass_operator(pass));
}

/* The result of a formula: an output, or the gradient of an input. */
static const tn_arg *target_arg(const kernel_pass *pass,
                                const tnm_formula *formula) {
  return pass->pass == TN_PASS_BACKWARD ? pass->op->op->inputs[formula->index]
                                        : pass->op->op->outputs[formula->index];
}

const char *formula_name(const kernel_pass *pass, const formula_use *use,
                         int class_bit) {
  return pass_format(
      pass, "%s%s_%s_%s%s", pass_operator(pass),
      pass->pass == TN_PASS_BACKWARD ? "_backward" : "",
      use->name != NULL ? use->name : target_arg(pass, use->formula)->name,
      tnm_class_name(class_bit), formula_form_end(pass->form));
}

/* Names in generated code. Names in manifests are in lower case, so a capital
 * letter makes them different from all others. */
static bool is_reserved(const char *name) {
  static const char *const taken[] = {"i",     "n",      "p",    "x",
                                      "block", "params", "part", "begin",
                                      "end",   "far",    "room", "made"};
  if (strncmp(name, "grad_", 5) == 0) return true;
  if (name[0] == 't' && name[1] != '\0' &&
      strspn(name + 1, "0123456789") == strlen(name + 1))
    return true;
  for (size_t i = 0; i < sizeof taken / sizeof *taken; ++i)
    if (strcmp(taken[i], name) == 0) return true;
  return false;
}

/* The same for formulas over lines: "r0", "e0", "line", "count". */
static bool is_reserved_in_lines(const char *name) {
  static const char *const taken[] = {"count", "rows", "line",
                                      "at",    "from", "l"};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; ++i)
    if (strcmp(taken[i], name) == 0) return true;
  return strchr("revsox", name[0]) != NULL && name[0] != '\0' &&
         name[1] != '\0' && strspn(name + 1, "0123456789") == strlen(name + 1);
}

const char *formula_variable(const kernel_pass *pass, const tnm_expr *name) {
  if (name->kind == TNM_GRAD) return pass_format(pass, "grad_%s", name->text);
  if (name->kind == FORMULA_ROW || name->kind == FORMULA_RESULT)
    return name->text;
  if (name->kind == TNM_COUNT) return "count";
  const bool is_taken =
      is_reserved(name->text) ||
      (pass->op->axes != NULL && is_reserved_in_lines(name->text));
  return pass_format(pass, "%s%s", name->text, is_taken ? "_V" : "");
}

uint32_t formula_input_index(const kernel_pass *pass, const tnm_expr *tensor) {
  const tn_op *op = pass->op->op;
  if (pass->pass == TN_PASS_FORWARD || tensor->kind == TNM_GRAD)
    return tensor->index;
  if (tensor->kind == TNM_INPUT) return op->n_outputs + tensor->index;
  return op->n_outputs + op->n_inputs + tensor->index;
}

void formula_comment(const kernel_pass *pass, const formula_use *use,
                     const char *more) {
  c_comment(pass->c, pass_format(pass, "%s: %s%s = %s%s", pass->op->file,
                                 pass->pass == TN_PASS_BACKWARD ? "grad." : "",
                                 target_arg(pass, use->formula)->name,
                                 use->formula->text, more));
}

bool needs_formulas(const tnm_operator *op) {
  return op->n_forward > 0 || op->n_backward > 0;
}

/* ------------------------------------------------------- reads of a formula */

/* Adds a name to a list unless it is present. */
static void collect_name(const tnm_expr **list, size_t *n,
                         const tnm_expr *name) {
  for (size_t i = 0; i < *n; ++i)
    if (list[i]->kind == name->kind && list[i]->index == name->index) return;
  list[(*n)++] = name;
}

static void collect_all(const tnm_expr *expr, formula_use *use) {
  if (expr->kind == TNM_PARAM)
    collect_name(use->params, &use->n_params, expr);
  else if (expr->kind == TNM_INPUT || expr->kind == TNM_OUTPUT ||
           expr->kind == TNM_GRAD || expr->kind == TNM_COUNT ||
           expr->kind == FORMULA_ROW || expr->kind == FORMULA_RESULT)
    collect_name(use->tensors, &use->n_tensors, expr);
  for (uint32_t i = 0; i < expr->n_args; ++i) collect_all(expr->args[i], use);
}

/* ------------------------------------------------------ types to compute in */

/* The possible types of an operand in calls of this pass. Gradients are floats,
 * and the kernel's table restricts type variables. */
static uint64_t types_of(const kernel_pass *pass, const tn_arg *arg) {
  const bool backward = pass->pass == TN_PASS_BACKWARD;
  const tn_kernel *kernel =
      backward ? pass->op->generated_backward : pass->op->generated;
  if (arg->dtype_param != TN_NONE)
    return backward ? TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64
                    : ~0ull;
  if (arg->dtype_var == TN_NONE) return tn__dtype_bit(arg->dtype);
  return kernel != NULL ? kernel->dtype_sets[arg->dtype_var]
                        : pass->op->op->dtype_vars[arg->dtype_var]->allowed;
}

static int classes_of(const kernel_pass *pass, const tn_arg *arg) {
  return tnm_operand_classes(pass->op, arg, types_of(pass, arg));
}

static bool same_type(const tn_arg *a, const tn_arg *b) {
  if (a->dtype_param != b->dtype_param || a->dtype_var != b->dtype_var)
    return false;
  return a->dtype_param != TN_NONE || a->dtype_var != TN_NONE ||
         a->dtype == b->dtype;
}

static const tn_arg *tensor_arg(const tn_op *op, const tnm_expr *tensor) {
  return tensor->kind == TNM_INPUT ? op->inputs[tensor->index]
                                   : op->outputs[tensor->index];
}

static bool is_tensor(const tnm_expr *e) {
  return e->kind == TNM_INPUT || e->kind == TNM_OUTPUT || e->kind == TNM_GRAD;
}

/* The classes that the types of the operands can lead to. Operands with a
 * common type variable always have one type. */
static int classes_of_types(const kernel_pass *pass, const formula_use *use) {
  const tn_op *op = pass->op->op;
  const tn_arg *target = target_arg(pass, use->formula);
  int classes = classes_of(pass, target);
  for (size_t i = 0; i < use->n_tensors; ++i) {
    if (!is_tensor(use->tensors[i])) continue;
    const tn_arg *arg = tensor_arg(op, use->tensors[i]);
    bool known = same_type(arg, target);
    for (size_t k = 0; k < i; ++k)
      known = known || (is_tensor(use->tensors[k]) &&
                        same_type(arg, tensor_arg(op, use->tensors[k])));
    if (!known) classes = tnm_class_join_sets(classes, classes_of(pass, arg));
  }
  return classes;
}

int formula_least_class(const kernel_pass *pass, const formula_use *use) {
  int least = tnm_class_of(
      tnm_operand_compute(pass->op, target_arg(pass, use->formula)));
  for (size_t i = 0; i < use->n_tensors; ++i) {
    if (!is_tensor(use->tensors[i])) continue;
    const tn_arg *arg = tensor_arg(pass->op->op, use->tensors[i]);
    least =
        tnm_class_join(least, tnm_class_of(tnm_operand_compute(pass->op, arg)));
  }
  return least;
}

static size_t count_nodes(const tnm_expr *expr) {
  size_t n = 1;
  for (uint32_t i = 0; i < expr->n_args; ++i) n += count_nodes(expr->args[i]);
  return n;
}

static bool alloc_lists(const kernel_pass *pass, size_t n, formula_use *use) {
  use->tensors = tn__arena_alloc(pass->arena, n * sizeof *use->tensors);
  use->params = tn__arena_alloc(pass->arena, n * sizeof *use->params);
  if (!use->tensors || !use->params) pass->c->failed = true;
  return use->tensors && use->params;
}

/* The result of a formula as a name. */
static tnm_expr name_target(const kernel_pass *pass,
                            const tnm_formula *formula) {
  return (tnm_expr){
      .kind = pass->pass == TN_PASS_BACKWARD ? TNM_INPUT : TNM_OUTPUT,
      .index = formula->index,
      .text = target_arg(pass, formula)->name};
}

bool formula_use_list(const kernel_pass *pass, const tnm_formula *formula,
                      formula_use *use) {
  *use = (formula_use){.formula = formula};
  if (!alloc_lists(pass, count_nodes(formula->expr), use)) return false;
  collect_all(formula->expr, use);
  return true;
}

bool formula_use_all(const kernel_pass *pass, formula_use *use) {
  size_t n = pass->n;
  *use = (formula_use){.formula = &pass->formulas[0]};
  for (size_t i = 0; i < pass->n; ++i) n += count_nodes(pass->formulas[i].expr);
  tnm_expr *targets = tn__arena_alloc(pass->arena, pass->n * sizeof *targets);
  if (!alloc_lists(pass, n, use) || targets == NULL) return false;
  int classes = TNM_CLASS_ALL;
  for (size_t i = 0; i < pass->n; ++i) {
    targets[i] = name_target(pass, &pass->formulas[i]);
    collect_all(&targets[i], use);
    collect_all(pass->formulas[i].expr, use);
    classes &= tnm_expr_classes(pass->formulas[i].expr);
  }
  use->classes = classes & classes_of_types(pass, use) & ~TNM_CLASS_U64;
  return true;
}

bool formula_use_init(const kernel_pass *pass, const tnm_formula *formula,
                      formula_use *use) {
  if (!formula_use_list(pass, formula, use)) return false;
  use->classes = classes_of_types(pass, use) & tnm_expr_classes(formula->expr);
  const tn_arg *arg = target_arg(pass, formula);
  use->gives_truth = arg->dtype_param == TN_NONE && arg->dtype_var == TN_NONE &&
                     arg->dtype == TN_BOOL;
  const tnm_expr as_name = {
      .kind = pass->pass == TN_PASS_BACKWARD ? TNM_GRAD : TNM_OUTPUT,
      .text = arg->name};
  use->target = formula_variable(pass, &as_name);
  return true;
}

void for_each_pass(c_file *c, const tnm_plugin *plugin, const tnm_operator *op,
                   void (*add)(const kernel_pass *pass)) {
  tn__arena arena;
  const c_listener *listener = c->listener;
  tn__arena_init(&arena, c->words.env);
  const kernel_pass passes[] = {{c, &arena, plugin, op, TN_PASS_FORWARD,
                                 op->forward, op->n_forward, FORM_OWN},
                                {c, &arena, plugin, op, TN_PASS_BACKWARD,
                                 op->backward, op->n_backward, FORM_OWN}};
  c->listener = NULL;
  for (size_t i = 0; i < 2; ++i)
    if (passes[i].n > 0) add(&passes[i]);
  c->listener = listener;
  tn__arena_deinit(&arena);
}

/* Tests whether an expression has the same bits in u64 as in i64. */
static bool is_signless(const tnm_expr *expr) {
  static const char functions[] =
      " pow select bit_and bit_or bit_xor bit_not shift_left ";
  if (expr->kind == TNM_BINARY && strchr("+-*^en", expr->op) == NULL)
    return false;
  if (expr->kind == TNM_CALL &&
      strstr(functions, tnm_function_at(expr->index)->name) == NULL)
    return false;
  for (uint32_t i = 0; i < expr->n_args; ++i)
    if (!is_signless(expr->args[i])) return false;
  return true;
}

int formula_code_class(const formula_use *use, int class_bit) {
  const bool serves = class_bit == TNM_CLASS_U64 && use->n_params == 0 &&
                      (use->classes & TNM_CLASS_I64) != 0 &&
                      is_signless(use->formula->expr);
  return serves ? TNM_CLASS_I64 : class_bit;
}

int formula_own_classes(const formula_use *use) {
  return formula_code_class(use, TNM_CLASS_U64) == TNM_CLASS_U64
             ? use->classes
             : use->classes & ~TNM_CLASS_U64;
}

/* ---------------------------------------------------------------- functions */

/* "const elemwise_quadratic_params *p, float data" */
static const char *parameter_list(const kernel_pass *pass,
                                  const formula_use *use, int class_bit) {
  tn__buf buf;
  tn__buf_init(&buf, pass->arena->env);
  if (pass->form == FORM_NEAR) tn__buf_add(&buf, "uint32_t *far");
  if (use->n_params > 0)
    tn__buf_add(&buf, "%sconst %s *p", buf.n > 0 ? ", " : "",
                pass_params(pass));
  for (size_t i = 0; i < use->n_tensors; ++i)
    tn__buf_add(&buf, "%s%s %s", buf.n > 0 ? ", " : "",
                formula_type(pass, class_bit),
                formula_variable(pass, use->tensors[i]));
  if (buf.n == 0) tn__buf_add(&buf, "void");
  return keep_text(pass, &buf);
}

static const char *field_type(const tn_field *field) {
  switch (field->type) {
    case TN_FIELD_FLOAT:
      return "double";
    case TN_FIELD_INT:
      return "int64_t";
    case TN_FIELD_DTYPE:
      return "uint32_t";
    default:
      return "int32_t";
  }
}

/* A parameter in the type of a class. A value beyond an integer type becomes
 * the nearest bound: C's conversion is undefined for such floats, and changes
 * such integers, so that comparisons would be wrong. */
static const char *param_value(const kernel_pass *pass, const tn_field *field,
                               int class_bit) {
  const bool is_integer = (class_bit & TNM_CLASS_INTEGERS) != 0;
  const char *type = class_type(class_bit);
  if (strcmp(field_type(field), type) == 0)
    return pass_format(pass, "p->%s", field->name);
  if (field->type == TN_FIELD_FLOAT && is_integer)
    return pass_format(pass, "tn_math_to_%s(p->%s)", tnm_class_name(class_bit),
                       field->name);
  if (field->type == TN_FIELD_INT && class_bit == TNM_CLASS_I32)
    return pass_format(pass, "tn_math_to_i32((double)p->%s)", field->name);
  if (field->type == TN_FIELD_INT && class_bit == TNM_CLASS_U64)
    return pass_format(pass, "tn_math_i64_to_u64(p->%s)", field->name);
  return pass_format(pass, "(%s)p->%s", type, field->name);
}

static void add_params(const kernel_pass *pass, const formula_use *use,
                       int class_bit) {
  const char *type = formula_type(pass, class_bit);
  for (size_t i = 0; i < use->n_params; ++i) {
    const tnm_expr *param = use->params[i];
    const tn_field *field = pass->op->op->params[param->index];
    const bool wide = pass->form == FORM_WIDE;
    c_add(pass->c,
          wide ? "const %s %s = tn_wide_of(%s);\n" : "const %s %s = %s;\n",
          type, formula_variable(pass, param),
          param_value(pass, field, class_bit));
  }
}

/* Tests whether an expression calls a function that has such a form. */
static bool has_form(const tnm_expr *expr, formula_form form) {
  if (tnm_expr_is_root(expr) && formula_has_form("sqrt", form)) return true;
  if (expr->kind == TNM_CALL &&
      formula_has_form(tnm_function_at(expr->index)->name, form))
    return true;
  for (uint32_t i = 0; i < expr->n_args; ++i)
    if (has_form(expr->args[i], form)) return true;
  return false;
}

formula_form formula_second_form(const formula_use *use, int class_bit) {
  const tnm_expr *expr = use->formula->expr;
  if (class_bit == TNM_CLASS_F32 && has_form(expr, FORM_NEAR)) return FORM_NEAR;
  if (class_bit != TNM_CLASS_F32 && class_bit != TNM_CLASS_F64) return FORM_OWN;
  return has_form(expr, FORM_DIRECT) ? FORM_DIRECT : FORM_OWN;
}

/* Tests whether C computes it with vectors as with numbers. */
static bool fits_wide(const tnm_expr *expr) {
  for (uint32_t i = 0; i < expr->n_args; ++i)
    if (!fits_wide(expr->args[i])) return false;
  if (tnm_expr_is_product(expr, TNM_CLASS_F32) || tnm_expr_is_root(expr))
    return true;
  if (expr->kind == TNM_CALL)
    return formula_has_form(tnm_function_at(expr->index)->name, FORM_WIDE);
  return expr->kind != TNM_BINARY || strchr("+-*/", expr->op) != NULL;
}

bool formula_fits_wide(const formula_use *use, int class_bit) {
  return class_bit == TNM_CLASS_F32 && use->n_tensors > 0 &&
         fits_wide(use->formula->expr);
}

bool formula_is_wide(const formula_use *use, int class_bit) {
  return formula_fits_wide(use, class_bit) &&
         has_form(use->formula->expr, FORM_WIDE);
}

void formula_function(const kernel_pass *pass, const formula_use *use,
                      int class_bit) {
  const char *kind = pass->form == FORM_WIDE ? "TN_WIDE_FN" : "TN_MATH_FN";
  c_function_head(pass->c,
                  &(c_function){pass_format(pass, "%s %s ", kind,
                                            formula_type(pass, class_bit)),
                                formula_name(pass, use, class_bit),
                                parameter_list(pass, use, class_bit), " {"});
  add_params(pass, use, class_bit);
  emit_formula(pass, use->formula->expr, class_bit);
  c_add(pass->c, "}\n\n");
}

static void add_functions(const kernel_pass *pass) {
  if (pass->op->axes != NULL) {
    emit_line_functions(pass);
    return;
  }
  for (size_t i = 0; i < pass->n; ++i) {
    formula_use use;
    if (!formula_use_init(pass, &pass->formulas[i], &use)) return;
    formula_comment(pass, &use, "");
    for (const int *bit = formula_classes; *bit != 0; ++bit)
      if (formula_own_classes(&use) & *bit) formula_function(pass, &use, *bit);
  }
}

void emit_formulas(c_file *c, const tnm_plugin *plugin,
                   const tnm_operator *op) {
  for_each_pass(c, plugin, op, add_functions);
}
