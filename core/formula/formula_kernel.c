/* SPDX-License-Identifier: Apache-2.0
 * formula_kernel.c: kernels of formulas. tenon/kernel/kernel.h does strides,
 * broadcasting, conversions and requests, as for generated kernels; the bodies
 * here run code. A formula with reductions is in formula_lines.c.
 */
#include <string.h>

#include "formula.h"
#include "tenon/kernel/lines.h"

/* One output of an element-wise pass. */
typedef struct element_formula {
  tn_kernel_map map;
  const tn__code *codes[TN__N_CLASSES]; /* NULL: not defined in the class */
} element_formula;

struct tn__formula {
  uint32_t n;
  element_formula *v;
  const tn__line_formulas *lines; /* replaces v for an operator over lines */
};

/* ------------------------------------------------------------------ bodies */

/* The `params` of a body. */
typedef struct body_params {
  const element_formula *formula;
  const void *params; /* tn_frame.params */
} body_params;

static void run_body(const tn_kernel_block *block, const void *params,
                     size_t class_index) {
  const body_params *p = params;
  const tn__leaf_values values = {.params = p->params};
  tn__code_run(p->formula->codes[class_index], &values, block->n, block->in,
               block->out);
}

static void run_f32(const tn_kernel_block *block, const void *params) {
  run_body(block, params, 0);
}

static void run_f64(const tn_kernel_block *block, const void *params) {
  run_body(block, params, 1);
}

static void run_i32(const tn_kernel_block *block, const void *params) {
  run_body(block, params, 2);
}

static void run_i64(const tn_kernel_block *block, const void *params) {
  run_body(block, params, 3);
}

static void run_u64(const tn_kernel_block *block, const void *params) {
  run_body(block, params, 4);
}

static void set_bodies(element_formula *f) {
  if (f->codes[0]) f->map.f32.at[0] = run_f32;
  if (f->codes[1]) f->map.f64.at[0] = run_f64;
  if (f->codes[2]) f->map.i32.at[0] = run_i32;
  if (f->codes[3]) f->map.i64.at[0] = run_i64;
  if (f->codes[4]) f->map.u64.at[0] = run_u64;
}

/* ------------------------------------------------------------------- types */

static const tn_arg *arg_of(const tn_op *op, const tnm_expr *tensor) {
  return tensor->kind == TNM_INPUT ? op->inputs[tensor->index]
                                   : op->outputs[tensor->index];
}

/* Joins the `compute` types of the tensors that an expression reads. */
static int join_least(const tnm_operator *op, const tnm_expr *expr, int least) {
  if (expr->kind == TNM_INPUT || expr->kind == TNM_OUTPUT ||
      expr->kind == TNM_GRAD)
    least = tnm_class_join(
        least, tnm_class_of(tnm_operand_compute(op, arg_of(op->op, expr))));
  for (uint32_t i = 0; i < expr->n_args; ++i)
    least = join_least(op, expr->args[i], least);
  return least;
}

tn_dtype tn__formula_find_type(int class_bit) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_I32, TN_I64, TN_U64};
  for (size_t k = 0; k < TN__N_CLASSES; ++k)
    if (tn__class_at(k) == class_bit) return types[k];
  return TN_DTYPE_UNKNOWN;
}

tn_dtype tn__formula_find_least(const tnm_operator *op, const tn__pass_of *of,
                                const tnm_formula *formula) {
  const tn_arg *target = of->pass == TN_PASS_BACKWARD
                             ? op->op->inputs[formula->index]
                             : op->op->outputs[formula->index];
  const int own = tnm_class_of(tnm_operand_compute(op, target));
  return tn__formula_find_type(join_least(op, formula->expr, own));
}

/* ---------------------------------------------------------------- creation */

static tn_code create_element(const tnm_bind_request *what,
                              const tn__pass_of *of, const tnm_formula *formula,
                              element_formula *f) {
  tn__reads reads = {0};
  const int classes = tnm_expr_classes(formula->expr);
  if (!tn__reads_add(&reads, of, formula->expr))
    return tn__fail(TN_UNSUPPORTED,
                    "a formula of %s reads more than %d tensors", of->op->name,
                    TNM_EXPR_MAX_TENSORS);
  for (size_t k = 0; k < TN__N_CLASSES; ++k) {
    const tn__compiling how = {what->arena, of, &reads, tn__class_at(k)};
    if (classes & how.class_bit)
      TN__TRY(tn__code_create(&how, formula->expr, &f->codes[k]));
  }
  f->map.out = formula->index;
  f->map.n_in = reads.n;
  memcpy(f->map.in, reads.in, reads.n * sizeof *reads.in);
  f->map.least = tn__formula_find_least(what->op, of, formula);
  set_bodies(f);
  return TN_OK;
}

static tn_code create_elements(const tnm_bind_request *what,
                               const tn__pass_of *of, tn__formula *formula) {
  const bool backward = of->pass == TN_PASS_BACKWARD;
  const tnm_formula *v = backward ? what->op->backward : what->op->forward;
  const size_t n = backward ? what->op->n_backward : what->op->n_forward;
  formula->v = tn__arena_alloc(what->arena, (n + 1) * sizeof *formula->v);
  if (!formula->v)
    return tn__fail_memory(n * sizeof *formula->v, "the kernel of a formula");
  memset(formula->v, 0, (n + 1) * sizeof *formula->v);
  formula->n = (uint32_t)n;
  for (size_t i = 0; i < n; ++i)
    TN__TRY(create_element(what, of, &v[i], &formula->v[i]));
  return TN_OK;
}

tn_code tn__formula_create(const tnm_bind_request *what, tn__formula **out) {
  const tn__pass_of of = {what->op->op, what->kernel->pass};
  tn__formula *formula = tn__zalloc(what->env, sizeof *formula);
  *out = NULL;
  if (!formula)
    return tn__fail_memory(sizeof *formula, "the kernel of a formula");
  const tn_code rc = what->op->axes
                         ? tn__lines_create(what, &of, &formula->lines)
                         : create_elements(what, &of, formula);
  if (rc)
    tn__free(what->env, formula);
  else
    *out = formula;
  return rc;
}

/* ------------------------------------------------------------------- calls */

/* Copies the tables of a pass for the helpers, which want them adjacent. */
static uint32_t copy_maps(const tn__formula *formula, tn_kernel_map *maps) {
  for (uint32_t i = 0; i < formula->n; ++i) maps[i] = formula->v[i].map;
  return formula->n;
}

int32_t tn__formula_prepare(const tn_frame *call, tn_plan *plan) {
  const tn__formula *formula = call->options;
  tn_kernel_map maps[TN_KERNEL_MAX_OPERANDS];
  if (call->flags & TN_CALL_REGISTERS) return TN_OK;
  if (formula->lines) return tn__lines_prepare(call, plan, formula->lines);
  if (formula->n > TN_KERNEL_MAX_OPERANDS) return TN_OK;
  return tn_kernel_map_prepare(call, plan, maps, copy_maps(formula, maps));
}

static const element_formula *find_output(const tn__formula *formula,
                                          uint32_t out) {
  for (uint32_t i = 0; i < formula->n; ++i)
    if (formula->v[i].map.out == out) return &formula->v[i];
  return NULL;
}

int32_t tn__formula_compute(const tn_frame *call) {
  const tn__formula *formula = call->options;
  if (formula->lines) return tn__lines_compute(call, formula->lines);
  for (uint32_t i = 0; i < call->n_out; ++i) {
    const element_formula *f = find_output(formula, i);
    if (call->req[i] == TN_REQ_NULL) continue;
    if (!f)
      return TN_FAIL(call, TN_UNSUPPORTED, "output %u is not computed here", i);
    const body_params params = {f, call->params};
    tn_frame frame = *call;
    frame.params = &params;
    const int32_t code = tn_kernel_map_one(&frame, &f->map);
    if (code != TN_OK) return code;
  }
  return TN_OK;
}
