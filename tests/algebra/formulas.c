/* SPDX-License-Identifier: Apache-2.0 */
#include "formulas.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const inputs[] = {"x", "y", "z"};
static const char *const outputs[] = {"out", "two"};
static const tn_field a = {.type = TN_FIELD_FLOAT, .name = "a"};
static const tn_field b = {.type = TN_FIELD_FLOAT, .name = "b"};
static const tn_field *const params[] = {&a, &b};

static const tnm_scope scope = {.inputs = inputs,
                                .n_inputs = 3,
                                .outputs = outputs,
                                .n_outputs = 2,
                                .params = params,
                                .n_params = 2,
                                .gradient = true,
                                .axes = "axis"};

void formulas_open(formulas *f) {
  tn__arena_init(&f->arena, tn__env_default());
  f->diags = tnm_diags_create(tn__env_default());
}

void formulas_close(formulas *f) {
  tnm_diags_release(f->diags);
  tn__arena_deinit(&f->arena);
}

const tnm_expr *parse_formula(formulas *f, const char *text) {
  const tnm_pos start = {
      1, 1, 1, tnm_diags_add_file(f->diags, "formula", text, strlen(text))};
  const tnm_source source = {&f->arena, f->diags, text, start};
  const tnm_expr *expr = tnm_expr_parse(&source, &scope);
  if (expr == NULL) tnm_diags_print(f->diags, stderr, TNM_HUMAN, false);
  cr_assert_not_null(expr, "%s", text);
  return expr;
}

const char *formula_text(formulas *f, const tnm_expr *expr) {
  tn__buf buf;
  tn__buf_init(&buf, f->arena.env);
  tnm_expr_print(&buf, expr);
  const char *text = tn__arena_text(&f->arena, buf.s, buf.n);
  tn__buf_deinit(&buf);
  cr_assert_not_null(text);
  return text;
}

int formula_derive(formulas *f, const char *out, const char *two,
                   const tnm_expr *gradients[3]) {
  return formula_derive_lines(f, out, two, NULL, gradients);
}

int formula_derive_lines(formulas *f, const char *out, const char *two,
                         const tnm_levels *levels,
                         const tnm_expr *gradients[3]) {
  const tnm_expr *list[2] = {parse_formula(f, out), NULL};
  if (two != NULL) list[1] = parse_formula(f, two);
  const tnm_derivation d = {.arena = &f->arena,
                            .formulas = list,
                            .outputs = outputs,
                            .n_outputs = two == NULL ? 1 : 2,
                            .inputs = inputs,
                            .n_inputs = 3,
                            .levels = levels};
  return tnm_derive(&d, gradients);
}
