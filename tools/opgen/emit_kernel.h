/* SPDX-License-Identifier: Apache-2.0
 * emit_kernel.h: the C source of generated CPU kernels, from the formulas of
 * `forward:` and `gradient: {formula: ...}`.
 *
 * files: kernel.c   the functions and tables around a formula
 *        expr_c.c   one formula as C
 */
#ifndef OPGEN_EMIT_KERNEL_H_
#define OPGEN_EMIT_KERNEL_H_

#include "manifest.h"

/* Writes the generated kernels of one operator, all static; nothing if it has
 * no formulas. The file includes tenon/kernel.h and the operator's header. */
void emit_kernels(tn__buf *out, const tnm_plugin *plugin,
                  const tnm_operator *op);

/* Writes the name of the compute function of a pass (TN_PASS_*):
 * "quadratic_forward". */
void emit_kernel_name(tn__buf *out, const tnm_operator *op, uint32_t pass);

/* ---------------------------------------------- between kernel.c and expr_c.c
 */

/* The tensors and parameters that a formula reads, each once, in the order in
 * which they first occur. */
typedef struct formula_names {
  const tnm_expr **tensors;
  size_t n_tensors;
  const tnm_expr **params;
  size_t n_params;
} formula_names;

/* Fills `names`; the arrays are in `arena`. False if memory ran out. */
bool formula_names_collect(tn__arena *arena, const tnm_expr *expr,
                           formula_names *names);

/* The C variable that holds a tensor or parameter: its name, unless C or the
 * generated code uses that for something else. */
void emit_variable(tn__buf *out, const tnm_expr *name);

/* One formula as the body of a loop over i. */
typedef struct loop_body {
  const tnm_expr *expr;
  const char *target; /* the pointer whose element i is set */
  bool f64;           /* computes in f64, otherwise in f32 */
} loop_body;

/* Writes the body with its braces or, if it is a single statement, without
 * them, and with what separates it from the loop's head: a blank, or the end of
 * a line. `column` is where the head has ended. */
void emit_formula(tn__buf *out, const loop_body *f, size_t column);

#endif /* OPGEN_EMIT_KERNEL_H_ */
