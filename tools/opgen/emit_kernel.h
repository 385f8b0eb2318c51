/* SPDX-License-Identifier: Apache-2.0
 * emit_kernel.h: the C source of generated kernels, from the formulas of
 * `forward:` and `gradient:`. A formula becomes one plain function per
 * computing type, in a header of its own; the loops of the CPU and those of
 * CUDA call it.
 *
 *   formula.c  the inputs of a formula, its computing types, names; the
 *              functions
 *   expr_c.c   the body of such a function
 *   twin.c     equal formulas
 *   kernel.c   loops and tables for the CPU
 *   cuda.c     loops and tables for CUDA
 *   line_plan.c, lines.c, line_rows.c, line_cuda.c
 *              formulas with reductions: their steps, the loops and tables for
 *              the CPU, the loops over rows, those for CUDA
 */
#ifndef OPGEN_EMIT_KERNEL_H_
#define OPGEN_EMIT_KERNEL_H_

#include "cfile.h"
#include "manifest.h"

/* Tests whether an operator has formulas for generated kernels. */
bool needs_formulas(const tnm_operator *op);

/* Writes the formulas of one operator as functions; nothing if it has none. The
 * file includes tenon/kernel/math.h and the operator's header. */
void emit_formulas(c_file *c, const tnm_plugin *plugin, const tnm_operator *op);

/* Writes the generated kernels of one operator for the CPU, all static; nothing
 * if it has no formulas. The file includes tenon/kernel/kernel.h and the
 * formulas, and has the tables of these kernels. */
void emit_kernels(c_file *c, const tnm_plugin *plugin, const tnm_operator *op);

/* Writes those for CUDA, as C++. Their names begin with the plugin's name,
 * because the tables are in another file, which needs the prototypes. */
void emit_cuda_kernels(c_file *c, const tnm_plugin *plugin,
                       const tnm_operator *op);
void emit_cuda_prototypes(c_file *c, const tnm_plugin *plugin,
                          const tnm_operator *op);

/* Writes the name of the compute function of a pass (TN_PASS_*):
 * "quadratic_forward", "elemwise_quadratic_forward_cuda". */
void emit_kernel_name(tn__buf *out, const tnm_operator *op, uint32_t pass);
void emit_cuda_name(tn__buf *out, const tnm_plugin *plugin,
                    const tnm_operator *op, uint32_t pass);

/* ---------------------------------------------------- one pass, one formula */

/* The functions of a formula in one class. FORM_OWN is the normal one. One uses
 * fast sines or logarithms near usual values and reports through its first
 * parameter `far` when they are not valid (math.h on tn_math_sin_near_f32()).
 * One rounds by instructions, for all levels except the lowest
 * (tn_math_floor_direct_f32()). One computes sixteen floats at once, for the
 * highest level (math/wide.h). */
typedef enum formula_form {
  FORM_OWN,
  FORM_NEAR,
  FORM_DIRECT,
  FORM_WIDE
} formula_form;

/* One pass of one operator, and the destination of its code. */
typedef struct kernel_pass {
  c_file *c;
  tn__arena *arena;
  const tnm_plugin *plugin;
  const tnm_operator *op;
  uint32_t pass; /* TN_PASS_* */
  const tnm_formula *formulas;
  size_t n;
  formula_form form; /* form of the functions that are written and named */
} kernel_pass;

/* Calls `add` for each pass of an operator with formulas. */
void for_each_pass(c_file *c, const tnm_plugin *plugin, const tnm_operator *op,
                   void (*add)(const kernel_pass *pass));

/* Names in the formula of a step over lines (line_plan.h), as kinds of
 * tnm_expr: the row that reduction `index` computes, and the result of step
 * `index`. */
enum { FORMULA_ROW = 32, FORMULA_RESULT = 33 };

/* The reads and the result of a formula. `params` is NULL if it reads none. */
typedef struct formula_use {
  const tnm_formula *formula;
  const tnm_expr *
      *tensors; /* without repetition, in the order of the formula */
  size_t n_tensors;
  const tnm_expr **params;
  size_t n_params;
  int classes;        /* the set of TNM_CLASS_* that calls compute in */
  const char *target; /* C name of the result: "out", "grad_data" */
  bool gives_truth;   /* the result is bool: no form for floats writes it */
  const char *name;   /* of a step over lines; NULL: named after the target */
} formula_use;

/* Fills `use`; the lists are in the pass's arena. False if memory ran out; the
 * pass's file remembers that. */
bool formula_use_init(const kernel_pass *pass, const tnm_formula *formula,
                      formula_use *use);
/* Fills the lists of `use` only. */
bool formula_use_list(const kernel_pass *pass, const tnm_formula *formula,
                      formula_use *use);
/* Fills `use` with the reads and results of all formulas of a pass, as those of
 * the first, for kernels that compute all formulas in one class, which is not
 * u64. */
bool formula_use_all(const kernel_pass *pass, formula_use *use);
/* The least class in which its calls compute, by `compute` of its operands; 0:
 * none. */
int formula_least_class(const kernel_pass *pass, const formula_use *use);

/* The class with the code for a class of a formula: i64 serves for u64 if all
 * operations have the same bits in both. And the set of the classes that have
 * code of their own. */
int formula_code_class(const formula_use *use, int class_bit);
int formula_own_classes(const formula_use *use);

/* The computing types, in the order of the code, ended by 0. */
extern const int formula_classes[];
const char *class_type(int class_bit);  /* "float" */
const char *class_dtype(int class_bit); /* "TN_F32" */

/* Formats into the pass's arena; "" after memory ran out. */
const char *pass_format(const kernel_pass *pass, const char *format, ...)
    TN_PRINTF(2, 3);

/* "elemwise_quadratic_params" */
const char *pass_params(const kernel_pass *pass);
/* "quadratic_forward" */
const char *pass_name(const kernel_pass *pass);
/* "quadratic_out_f32" */
const char *formula_name(const kernel_pass *pass, const formula_use *use,
                         int class_bit);
/* Tests whether math.h has such a form of a function, in addition to its
 * own. */
bool formula_has_form(const char *name, formula_form form);
/* "_near" for FORM_NEAR: the suffix of function names of a form. */
const char *formula_form_end(formula_form form);
/* The second form of a formula; FORM_OWN if there is none. */
formula_form formula_second_form(const formula_use *use, int class_bit);
/* Tests for FORM_WIDE in addition: all called functions have it, and the rest
 * is arithmetic. The first allows formulas that call none. */
bool formula_fits_wide(const formula_use *use, int class_bit);
bool formula_is_wide(const formula_use *use, int class_bit);
/* "float"; "tn_wide" for FORM_WIDE. */
const char *formula_type(const kernel_pass *pass, int class_bit);
/* Writes the function of a formula in one class. */
void formula_function(const kernel_pass *pass, const formula_use *use,
                      int class_bit);
/* The C name of a tensor or parameter: its own, unless generated code uses that
 * name. */
const char *formula_variable(const kernel_pass *pass, const tnm_expr *name);

/* The place of a tensor in call->in: forward the inputs; backward the gradients
 * of all outputs, all inputs, all outputs. */
uint32_t formula_input_index(const kernel_pass *pass, const tnm_expr *tensor);

/* The declaration of a copy of the parameters in a loop; `(void)params` if the
 * formula reads none. */
void formula_copy_params(const kernel_pass *pass, const formula_use *use);
/* "quadratic" or "quadratic_v2" */
const char *pass_operator(const kernel_pass *pass);

/* Writes "quadratic.yaml: out = a*data^2 + b*data + c", followed by `more`. It
 * has no line number: text added above a formula changes no loop. */
void formula_comment(const kernel_pass *pass, const formula_use *use,
                     const char *more);

/* ------------------------------------------------------------------ lines.c */

/* Write the functions of the steps of a pass with reductions, and its loops,
 * tables and kernel for the CPU. */
void emit_line_functions(const kernel_pass *pass);
void emit_line_kernel(const kernel_pass *pass);
/* Write those for CUDA, as C++, and their prototypes. */
void emit_cuda_line_kernel(const kernel_pass *pass);
void emit_cuda_line_prototypes(const kernel_pass *pass);
/* Writes the function that infers the shapes of an operator with axes,
 * "rms_norm_infer". */
void emit_line_infer(c_file *c, const tnm_plugin *plugin,
                     const tnm_operator *op);

/* ------------------------------------------------------------------- twin.c */

/* The name of the first formula of the file that computes the same in a class,
 * from tensors in the same order, with an operator of the same parameters: both
 * use one loop. `otherwise` if no earlier one does. */
const char *formula_find_twin(const kernel_pass *pass, const formula_use *use,
                              int class_bit, const char *otherwise);

/* ----------------------------------------------------------------- expr_c.c */

/* Writes the statements that compute a formula and return its value, in one of
 * its classes. Names are those of formula_variable(). */
void emit_formula(const kernel_pass *pass, const tnm_expr *expr, int class_bit);

#endif /* OPGEN_EMIT_KERNEL_H_ */
