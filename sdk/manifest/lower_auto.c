/* SPDX-License-Identifier: Apache-2.0
 * lower_auto.c: lowers `gradient: auto`: the gradients that follow from the
 * formulas of `forward`.
 */
#include <string.h>

#include "front.h"

/* Reports a part of a formula that has no derivative, or a derivative of 0;
 * `what` is the kind of obstacle (TNM_*). */
static void report_obstacle(void *ctx, const tnm_expr *at, int what) {
  tnm_lower *lower = ctx;
  const bool call = at->kind == TNM_CALL;
  tnm_pos pos = at->pos;
  if (call) pos.length = (uint32_t)strlen(at->text);
  if (lower->out->parent != NULL) return;
  if (what == TNM_FLAT) {
    tnm_diag_spec spec = {"W0066", pos, "constant between its jumps"};
    size_t id = tnm_diag_add(lower->diags, &spec,
                             "the derivative of %s%s%s is 0", call ? "`" : "",
                             call ? at->text : "a comparison", call ? "`" : "");
    tnm_diag_add_help(lower->diags, id,
                      "if that is meant, write the formula that `opgen show` "
                      "prints: `gradient: {formula: {...}}`");
    return;
  }
  tnm_diag_spec spec = {"E0065", pos, "no derivative here"};
  size_t id = tnm_diag_add(lower->diags, &spec, "`%s` cannot be differentiated",
                           at->text);
  tnm_diag_add_help(
      lower->diags, id,
      "write the gradient yourself: `gradient: {kernel: backward, "
      "needs: {...}}`, or `gradient: none`");
}

/* Checks the formulas of `forward`, from which the gradients are derived.
 * Returns false if one of them is invalid, or if there are none. */
static bool check_forward(tnm_lower *lower, const tnm_tree *at) {
  if (lower->out->n_forward == lower->op->n_outputs) return true;
  /* lower_binding.c reports the keys that a binding excludes */
  if (tnm_tree_has(lower->doc, "forward") ||
      tnm_tree_has(lower->doc, "binding"))
    return false;
  tnm_diag_spec spec = {"E0067", at->pos, "nothing to differentiate"};
  size_t id = tnm_diag_add(lower->diags, &spec,
                           "`gradient: auto` without formulas in `forward`");
  tnm_diag_add_help(lower->diags, id,
                    "add `forward: {%s: ...}`; or write `gradient: {kernel: "
                    "backward, needs: {...}}` where kernels compute it, "
                    "`gradient: none` where there is none",
                    lower->op->n_outputs > 0
                        ? lower->operands[TN_OPERAND_OUT].names[0]
                        : "out");
  return false;
}

/* Reports that a derived gradient would be too long. */
static void report_long_formula(tnm_lower *lower, const tnm_tree *at) {
  tnm_diag_spec spec = {"E0037", at->pos, "longer than a formula may be"};
  size_t id =
      tnm_diag_add(lower->diags, &spec,
                   "the gradient of `forward` has more than %d parts or "
                   "%d levels",
                   TNM_EXPR_MAX_NODES, TNM_EXPR_MAX_DEPTH);
  tnm_diag_add_help(lower->diags, id,
                    "split the operator, or write the gradient yourself: "
                    "`gradient: {formula: {...}}`");
}

/* Reports that no gradient can be derived from the formulas. For NAME_grad,
 * which opgen itself derived from NAME, it reports nothing: it stores the
 * reason, and a host shows it when it requests the gradient of NAME_grad. */
static void report_underivable(tnm_lower *lower, const tnm_tree *at,
                               int status) {
  tn_gradient *gradient = lower->gradient;
  if (status == TNM_DERIVE_MEMORY) {
    lower->arena->failed = true;
  } else if (lower->out->parent != NULL) {
    gradient->kind = TN_GRADIENT_NONE;
    gradient->n_inputs = 0;
    gradient->inputs = NULL;
    gradient->why = status == TNM_DERIVE_LONG
                        ? "its formula is longer than a formula may be"
                        : "a function in it has no derivative here";
  } else if (status == TNM_DERIVE_LONG) {
    report_long_formula(lower, at);
  }
}

/* Returns a formula as text; NULL if memory ran out. */
static const char *print_formula(tnm_lower *lower, const tnm_expr *expr) {
  tn__buf buf;
  tn__buf_init(&buf, lower->arena->env);
  tnm_expr_print(&buf, expr);
  const char *text =
      buf.failed ? NULL : tn__arena_text(lower->arena, buf.s, buf.n);
  if (text == NULL) lower->arena->failed = true;
  tn__buf_deinit(&buf);
  return text;
}

/* Derives out[i], the gradient of each input, from the formulas of the
 * outputs. Returns false after a message or if memory ran out. */
static bool derive_gradients(tnm_lower *lower, const tnm_tree *at,
                             tn_input_gradient **all, const tnm_expr **out) {
  const tn_op *op = lower->op;
  const tnm_expr **formulas =
      TNM_NEW(lower->arena, const tnm_expr *, op->n_outputs);
  bool *stop = TNM_NEW(lower->arena, bool, op->n_inputs);
  if (formulas == NULL || stop == NULL) return false;
  for (uint32_t i = 0; i < op->n_inputs; ++i) stop[i] = all[i]->stop != 0;
  for (uint32_t i = 0; i < op->n_outputs; ++i) {
    formulas[i] = lower->out->forward[i].expr;
    tnm_find_obstacles(formulas[i], stop, report_obstacle, lower);
  }
  const tnm_derivation d = {lower->arena,
                            formulas,
                            lower->operands[TN_OPERAND_OUT].names,
                            op->n_outputs,
                            lower->operands[TN_OPERAND_IN].names,
                            op->n_inputs,
                            stop,
                            at->pos,
                            tnm_is_summed(lower),
                            lower->axes == NULL ? NULL : &lower->axes->levels};
  const int status = tnm_derive(&d, out);
  if (status != TNM_DERIVED) report_underivable(lower, at, status);
  return status == TNM_DERIVED;
}

/* Tests whether a derived gradient is the constant 0. */
static bool is_zero(const tnm_expr *e) {
  return e->kind == TNM_NUMBER && e->number == 0;
}

void tnm_lower_auto(tnm_lower *lower, const tnm_tree *at,
                    tn_input_gradient **all) {
  const uint32_t n = lower->op->n_inputs;
  const tnm_expr **derived = TNM_NEW(lower->arena, const tnm_expr *, n);
  tnm_formula *formulas = TNM_NEW(lower->arena, tnm_formula, n);
  if (derived == NULL || formulas == NULL || !check_forward(lower, at) ||
      !derive_gradients(lower, at, all, derived))
    return;
  for (uint32_t i = 0; i < n; ++i) {
    if (derived[i] == NULL) continue;
    /* NAME_grad does not read this input, so no gradient passes to it. */
    if (lower->out->parent != NULL && is_zero(derived[i])) {
      all[i]->stop = 1;
      continue;
    }
    formulas[i] =
        (tnm_formula){i, derived[i], print_formula(lower, derived[i]), at->pos};
  }
  tnm_set_formulas(lower, formulas, all);
}
