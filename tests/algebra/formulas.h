/* SPDX-License-Identifier: Apache-2.0
 * formulas.h: formulas for the tests of sdk/algebra. They are written as text,
 * and the parser of sdk/manifest reads them. Inputs are x, y, z, parameters a,
 * b, outputs out, two, and the axes of reductions are `axis`.
 */
#ifndef TENON_TESTS_FORMULAS_H_
#define TENON_TESTS_FORMULAS_H_

#include "manifest.h"

typedef struct formulas {
  tn__arena arena;
  tnm_diags *diags;
} formulas;

void formulas_open(formulas *f);
void formulas_close(formulas *f);

/* Parses a formula; a mistake fails the test with its message. */
const tnm_expr *parse_formula(formulas *f, const char *text);

/* The text of an expression, in the arena. */
const char *formula_text(formulas *f, const tnm_expr *expr);

/* Derives by x, y, z for one output, or for `out` and `two`. Returns the result
 * of tnm_derive. */
int formula_derive(formulas *f, const char *out, const char *two,
                   const tnm_expr *gradients[3]);

/* The same for operands of these levels; NULL: all are full. */
int formula_derive_lines(formulas *f, const char *out, const char *two,
                         const tnm_levels *levels,
                         const tnm_expr *gradients[3]);

#endif /* TENON_TESTS_FORMULAS_H_ */
