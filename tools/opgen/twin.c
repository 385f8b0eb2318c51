/* SPDX-License-Identifier: Apache-2.0
 * twin.c: finds formulas that are equal except for the names of their tensors.
 * For example, the gradient of an operator and the operator that was derived
 * from it compute the same, and so do the gradient of a sum and that of a copy.
 */
#include <string.h>

#include "emit_kernel.h"

enum { MAX_NAMES = 32 };

/* The tensors of two formulas, in the order in which each reads them. */
typedef struct pairing {
  const tnm_expr *names[2][MAX_NAMES];
  size_t n[2];
} pairing;

/* The index of a tensor among those of its formula; MAX_NAMES if there are too
 * many. */
static size_t place_of(pairing *p, int side, const tnm_expr *name) {
  size_t i = 0;
  while (i < p->n[side] && (p->names[side][i]->kind != name->kind ||
                            p->names[side][i]->index != name->index))
    ++i;
  if (i == p->n[side] && i < MAX_NAMES) p->names[side][p->n[side]++] = name;
  return i;
}

static bool is_tensor(const tnm_expr *expr) {
  return expr->kind == TNM_INPUT || expr->kind == TNM_OUTPUT ||
         expr->kind == TNM_GRAD;
}

static bool same_node(pairing *p, const tnm_expr *a, const tnm_expr *b) {
  if (is_tensor(a) && is_tensor(b)) {
    const size_t place = place_of(p, 0, a);
    return place < MAX_NAMES && place == place_of(p, 1, b);
  }
  if (a->kind != b->kind || a->n_args != b->n_args) return false;
  switch (a->kind) {
    case TNM_NUMBER:
      return tnm_number_equal(a, b);
    case TNM_PARAM:
    case TNM_CALL:
      return a->index == b->index;
    default:
      return a->op == b->op;
  }
}

static bool same_tree(pairing *p, const tnm_expr *a, const tnm_expr *b) {
  if (!same_node(p, a, b)) return false;
  for (uint32_t i = 0; i < a->n_args; ++i)
    if (!same_tree(p, a->args[i], b->args[i])) return false;
  return true;
}

/* Tests whether the parameters have the same layout in memory and the same
 * names. */
static bool same_params(const tn_op *a, const tn_op *b) {
  if (a->n_params != b->n_params) return false;
  for (uint32_t i = 0; i < a->n_params; ++i) {
    const tn_field *x = a->params[i], *y = b->params[i];
    if (x->type != y->type || x->flags != y->flags ||
        x->max_rank != y->max_rank || strcmp(x->name, y->name) != 0)
      return false;
  }
  return true;
}

/* Tests whether `other`, of the pass `earlier`, is a twin. */
static bool is_twin(const kernel_pass *pass, const formula_use *use,
                    const kernel_pass *earlier, const tnm_formula *other) {
  pairing p = {.n = {0, 0}};
  return (use->n_params == 0 || same_params(pass->op->op, earlier->op->op)) &&
         same_tree(&p, use->formula->expr, other->expr);
}

/* The name of the first twin in one pass of an operator, or NULL; *end is set
 * when the formula itself is reached. */
static const char *find_twin_in(const kernel_pass *pass, const formula_use *use,
                                int class_bit, const kernel_pass *earlier,
                                bool *end) {
  for (size_t i = 0; i < earlier->n; ++i) {
    formula_use other;
    *end = &earlier->formulas[i] == use->formula;
    if (*end) return NULL;
    if (!is_twin(pass, use, earlier, &earlier->formulas[i])) continue;
    if (!formula_use_init(earlier, &earlier->formulas[i], &other)) return NULL;
    if (formula_own_classes(&other) & class_bit)
      return formula_name(earlier, &other, class_bit);
  }
  return NULL;
}

static bool same_file(const tnm_operator *a, const tnm_operator *b) {
  return a->stem != NULL && b->stem != NULL && strcmp(a->stem, b->stem) == 0;
}

const char *formula_find_twin(const kernel_pass *pass, const formula_use *use,
                              int class_bit, const char *otherwise) {
  bool end = false;
  for (size_t i = 0; i < pass->plugin->n_operators && !end; ++i) {
    const tnm_operator *op = &pass->plugin->operators[i];
    if (op->op == NULL || op->axes != NULL || !same_file(op, pass->op))
      continue;
    kernel_pass earlier = *pass;
    earlier.op = op;
    earlier.pass = TN_PASS_FORWARD;
    earlier.formulas = op->forward, earlier.n = op->n_forward;
    const char *found = find_twin_in(pass, use, class_bit, &earlier, &end);
    earlier.pass = TN_PASS_BACKWARD;
    earlier.formulas = op->backward, earlier.n = op->n_backward;
    if (found == NULL && !end)
      found = find_twin_in(pass, use, class_bit, &earlier, &end);
    if (found != NULL) return found;
  }
  return otherwise;
}
