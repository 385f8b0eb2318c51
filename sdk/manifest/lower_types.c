/* SPDX-License-Identifier: Apache-2.0
 * lower_types.c: checks that a formula has a meaning in every class that it may
 * be computed in (algebra.h): some functions do not exist for integers.
 */
#include <math.h>
#include <string.h>

#include "front.h"

#define INTEGERS TNM_CLASS_INTEGERS

/* The operands of one formula, and the classes in which the formula may be
 * computed. */
typedef struct formula_types {
  const tnm_lower *lower;
  uint32_t classes; /* set of the classes (TNM_CLASS_*) in which the formula may
                       be computed, after the operands that were added; 0 before
                       the first operand */
  const tn_arg *seen[64]; /* operands that were added, one for each type
                             variable or constant type */
  uint32_t n_seen;
} formula_types;

tn_dtype tnm_operand_compute(const tnm_operator *op, const tn_arg *arg) {
  if (op->compute == NULL || arg->dtype_var == TN_NONE) return TN_DTYPE_UNKNOWN;
  return op->compute[arg->dtype_var];
}

int tnm_operand_classes(const tnm_operator *op, const tn_arg *arg,
                        uint64_t dtypes) {
  const int least = tnm_class_of(tnm_operand_compute(op, arg));
  int classes = 0;
  for (size_t bit = 0; bit < TN__N_DTYPES; ++bit) {
    if (!(dtypes & (1ull << bit))) continue;
    const int own = tnm_class_of(tn__dtype_at(bit));
    if (own != 0) classes |= tnm_class_join(own, least);
  }
  return classes;
}

static bool is_same_type(const tn_arg *a, const tn_arg *b) {
  return a->dtype_var == b->dtype_var && a->dtype == b->dtype &&
         a->dtype_param == b->dtype_param;
}

/* Adds an operand to the formula. Combines each class of the formula so far
 * with each class of the operand. */
static void add_operand(formula_types *m, const tn_arg *arg) {
  for (uint32_t i = 0; i < m->n_seen; ++i)
    if (is_same_type(m->seen[i], arg)) return;
  if (m->n_seen < sizeof m->seen / sizeof *m->seen) m->seen[m->n_seen++] = arg;
  const int own = tnm_operand_classes(m->lower->out, arg,
                                      tnm_operand_dtypes(m->lower->op, arg));
  const int before = (int)m->classes;
  m->classes = (uint32_t)(before == 0 ? own : tnm_class_join_sets(before, own));
}

/* Adds the types of all inputs that a formula names. */
static void add_operands(formula_types *m, const tnm_expr *e) {
  if (e->kind == TNM_INPUT) add_operand(m, m->lower->op->inputs[e->index]);
  for (uint32_t i = 0; i < e->n_args; ++i) add_operands(m, e->args[i]);
}

/* Returns the name of a type in these classes, and in *name an operand
 * that may have the type, for the message "i32, which `data` may be". */
static const char *find_type(const formula_types *m, int classes,
                             const char **name) {
  for (uint32_t i = 0; i < m->n_seen; ++i) {
    const uint64_t set = tnm_operand_dtypes(m->lower->op, m->seen[i]);
    for (size_t bit = 0; bit < TN__N_DTYPES; ++bit) {
      if (!(set & (1ull << bit))) continue;
      if (!(tnm_operand_classes(m->lower->out, m->seen[i], 1ull << bit) &
            classes))
        continue;
      *name = m->seen[i]->name;
      return tn__dtype_names[bit];
    }
  }
  *name = "data";
  return "i32";
}

/* Reports a part of a formula, `what`, that does not exist in an integer
 * class; `lacks` is the verb of the message. */
static void report_class_conflict(const formula_types *m, tnm_pos pos,
                                  const char *what, const char *lacks) {
  const char *name;
  const char *dtype = find_type(m, INTEGERS, &name);
  tnm_diag_spec spec = {"E0068", pos, NULL};
  size_t id =
      tnm_diag_add(m->lower->diags, &spec, "`%s` %s %s, which `%s` may be",
                   what, lacks, dtype, name);
  tnm_diag_add_help(
      m->lower->diags, id,
      "list floating types only in `dtypes`: f16, bf16, f32, f64");
}

/* Reports a function of integers in a formula that may compute floats. */
static void report_floats(const formula_types *m, tnm_pos pos,
                          const char *function) {
  const char *name;
  const char *dtype = find_type(m, TNM_CLASS_FLOATS, &name);
  tnm_diag_spec spec = {"E0068", pos, NULL};
  size_t id = tnm_diag_add(m->lower->diags, &spec,
                           "`%s` is not defined for %s, which `%s` may be",
                           function, dtype, name);
  tnm_diag_add_help(
      m->lower->diags, id,
      "list integer types only in `dtypes`: i8, u8, i16, u16, i32, u32, i64, "
      "u64");
}

static bool is_integer_constant(const tnm_expr *e) {
  return e->kind == TNM_NUMBER && e->number == floor(e->number);
}

/* Checks that a called function is defined for all classes of the formula. */
static void check_call_class(const formula_types *m, const tnm_expr *e) {
  tnm_pos pos = e->pos;
  pos.length = (uint32_t)strlen(e->text);
  const uint32_t defined = tnm_function_at(e->index)->classes;
  const uint32_t missing = m->classes & ~defined;
  if (missing & TNM_CLASS_FLOATS)
    report_floats(m, pos, e->text);
  else if (missing != 0)
    report_class_conflict(m, pos, e->text, "is not defined for");
}

/* Tests whether an expression is `a^b` or `pow(a, b)`. */
static bool is_power_node(const tnm_expr *e) {
  if (e->kind == TNM_CALL) return e->index == TNM_F_POW;
  return e->kind == TNM_BINARY && e->op == '^';
}

/* Reports an integer constant of a formula that is outside of the range of an
 * integer class, in which the formula may be computed. */
static void report_large_integer(const formula_types *m, const tnm_expr *e,
                                 int class_bit) {
  const char *name;
  const char *dtype = find_type(m, class_bit, &name);
  const int bits = class_bit == TNM_CLASS_I32 ? 32 : 64;
  const int digits = class_bit == TNM_CLASS_U64 ? bits : bits - 1;
  const bool fits = e->number < ldexp(1, digits);
  tnm_diag_spec spec = {"E0068", e->pos, NULL};
  size_t id = tnm_diag_add(
      m->lower->diags, &spec,
      "`%s` %s the %d bits of arithmetic on %s, which `%s` may be", e->text,
      fits ? "is not certain in" : "is beyond", bits, dtype, name);
  tnm_diag_add_help(m->lower->diags, id,
                    fits ? "write all of its digits"
                         : "leave types out of `dtypes` that do not hold it");
}

/* Reports a negative constant of a formula that may be computed in u64. */
static void report_negative(const formula_types *m, const tnm_expr *e) {
  const char *name;
  const char *dtype = find_type(m, TNM_CLASS_U64, &name);
  tnm_diag_spec spec = {"E0068", e->pos, NULL};
  size_t id = tnm_diag_add(m->lower->diags, &spec,
                           "`-%s` is below 0, the least number of %s, which "
                           "`%s` may be",
                           e->text, dtype, name);
  tnm_diag_add_help(m->lower->diags, id,
                    "subtract a number instead, or take u64 out of `dtypes`");
}

/* Checks that all classes of the formula can represent a constant; `negative`:
 * a minus sign precedes it. */
static void check_number_class(const formula_types *m, const tnm_expr *e,
                               bool negative) {
  if (!is_integer_constant(e)) {
    report_class_conflict(m, e->pos, e->text, "is no number of type");
    return;
  }
  for (int i = TNM_CLASS_I32; i <= TNM_CLASS_U64; i *= 2) {
    if (!(m->classes & (uint32_t)i) || tnm_class_has(i, e, negative)) continue;
    if (negative && i == TNM_CLASS_U64)
      report_negative(m, e);
    else
      report_large_integer(m, e, i);
    return;
  }
}

/* Tests whether a node is a negative constant. The parser makes a node of the
 * sign and a node of the number. */
static bool is_negative(const tnm_expr *e) {
  return e->kind == TNM_NEG && is_integer_constant(e->args[0]);
}

/* Reports an exponent that integer classes do not support. */
static void check_exponent(const formula_types *m, const tnm_expr *exponent) {
  if (is_negative(exponent))
    report_class_conflict(m, exponent->pos, "^",
                          "wants an exponent that is not negative for");
  else
    report_class_conflict(m, exponent->pos, "^",
                          "wants a whole constant exponent for");
}

/* Tests whether a reduction of integers is an integer. */
static bool is_whole_reduction(const tnm_expr *e) {
  return e->index != TNM_R_MEAN && e->index != TNM_R_LOGSUMEXP;
}

/* Checks all parts of an expression against the classes of the formula. */
static void check_expr_classes(const formula_types *m, const tnm_expr *e) {
  const bool negated = e->kind == TNM_NEG && e->args[0]->kind == TNM_NUMBER;
  const bool integers = (m->classes & INTEGERS) != 0;
  if (integers && (e->kind == TNM_NUMBER || negated)) {
    check_number_class(m, negated ? e->args[0] : e, negated);
    return;
  }
  if (e->kind == TNM_CALL) check_call_class(m, e);
  if (integers && e->kind == TNM_REDUCE && !is_whole_reduction(e))
    report_class_conflict(m, e->pos, tnm_reduction_name(e->index),
                          "is not defined for");
  const bool power =
      integers && is_power_node(e) && !is_integer_constant(e->args[1]);
  if (power) check_exponent(m, e->args[1]);
  for (uint32_t i = 0; i < e->n_args; ++i)
    if (!power || i == 0) check_expr_classes(m, e->args[i]);
}

/* Returns false after a message. */
static bool check_storage(const tnm_lower *lower, const tn_arg *arg,
                          tnm_pos pos) {
  const uint64_t set = tnm_operand_dtypes(lower->op, arg) & TN_BITS_STORAGE;
  if (set == 0) return true;
  tnm_diag_spec spec = {"E0098", pos, NULL};
  const size_t id =
      tnm_diag_add(lower->diags, &spec,
                   "`%s` may be %s, and no formula computes in storage types",
                   arg->name, tn__dtype_names[__builtin_ctzll(set)]);
  tnm_diag_add_help(lower->diags, id,
                    "write a kernel that converts (tenon/kernel/storage.h), or "
                    "take storage types out of `dtypes`");
  return false;
}

static bool check_storage_nodes(const tnm_lower *lower, const tnm_expr *e) {
  const tn_arg *arg = e->kind == TNM_INPUT ? lower->op->inputs[e->index]
                      : e->kind == TNM_OUTPUT || e->kind == TNM_GRAD
                          ? lower->op->outputs[e->index]
                          : NULL;
  if (arg != NULL && !check_storage(lower, arg, e->pos)) return false;
  for (uint32_t i = 0; i < e->n_args; ++i)
    if (!check_storage_nodes(lower, e->args[i])) return false;
  return true;
}

void tnm_check_no_storage(const tnm_lower *lower, const tnm_formula *formula,
                          const tn_arg *target) {
  if (check_storage(lower, target, formula->pos))
    (void)check_storage_nodes(lower, formula->expr);
}

void tnm_check_classes(const tnm_lower *lower, const tnm_formula *formula) {
  formula_types m = {.lower = lower};
  add_operands(&m, formula->expr);
  add_operand(&m, lower->op->outputs[formula->index]);
  check_expr_classes(&m, formula->expr);
}
