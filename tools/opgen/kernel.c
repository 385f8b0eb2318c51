/* SPDX-License-Identifier: Apache-2.0
 * kernel.c: the functions around the formulas of an operator: per output and
 * type one loop over dense elements, a table that says what the loop reads and
 * writes, and the compute function. Strides, broadcasting, half precision and
 * requests are the business of tenon/kernel.h.
 */
#include <inttypes.h>
#include <string.h>

#include "cfile.h"
#include "emit_kernel.h"

/* One pass of one operator. */
typedef struct kernel_pass {
  c_file *c;
  tn__arena *arena;
  const tnm_plugin *plugin;
  const tnm_operator *op;
  uint32_t pass; /* TN_PASS_* */
  const tnm_formula *formulas;
  size_t n;
} kernel_pass;

/* Operators of later interfaces may stand beside earlier ones. */
static void add_release(tn__buf *out, const tnm_operator *op) {
  if (op->op->interface > 1) tn__buf_add(out, "_v%" PRIu32, op->op->interface);
}

/* "quadratic_" */
static void add_prefix(tn__buf *out, const tnm_operator *op) {
  tn__buf_add(out, "%s", op->op->name);
  add_release(out, op);
  tn__buf_add(out, "_");
}

void emit_kernel_name(tn__buf *out, const tnm_operator *op, uint32_t pass) {
  add_prefix(out, op);
  tn__buf_add(out, "%s", pass == TN_PASS_BACKWARD ? "backward" : "forward");
}

/* The text of a buffer in the arena, "" when memory ran out. */
static const char *keep(const kernel_pass *p, tn__buf *buf) {
  const char *text = NULL;
  if (!buf->failed) text = tn__arena_text(p->arena, buf->s, buf->n);
  if (!text) p->c->text.failed = true;
  tn__buf_deinit(buf);
  return text ? text : "";
}

static const char *kernel_name(const kernel_pass *p) {
  tn__buf buf;
  tn__buf_init(&buf, p->arena->env);
  emit_kernel_name(&buf, p->op, p->pass);
  return keep(p, &buf);
}

static const char *prepare_name(const kernel_pass *p) {
  tn__buf buf;
  tn__buf_init(&buf, p->arena->env);
  emit_kernel_name(&buf, p->op, p->pass);
  tn__buf_add(&buf, "_prepare");
  return keep(p, &buf);
}

/* What a formula sets: an output, or the gradient of an input. */
static const tn_arg *target_arg(const kernel_pass *p,
                                const tnm_formula *formula) {
  return p->pass == TN_PASS_BACKWARD ? p->op->op->inputs[formula->index]
                                     : p->op->op->outputs[formula->index];
}

/* "out", "grad_data": the pointer that is written through. */
static const char *target_name(const kernel_pass *p,
                               const tnm_formula *formula) {
  const char *name = target_arg(p, formula)->name;
  const tnm_expr as_name = {
      .kind = p->pass == TN_PASS_BACKWARD ? TNM_GRAD : TNM_OUTPUT,
      .text = name};
  tn__buf buf;
  tn__buf_init(&buf, p->arena->env);
  emit_variable(&buf, &as_name);
  return keep(p, &buf);
}

/* "quadratic_out_f32", "quadratic_grad_data_f64" */
static const char *body_name(const kernel_pass *p, const tnm_formula *formula,
                             bool f64) {
  tn__buf buf;
  tn__buf_init(&buf, p->arena->env);
  add_prefix(&buf, p->op);
  tn__buf_add(&buf, "%s%s_%s", p->pass == TN_PASS_BACKWARD ? "grad_" : "",
              target_arg(p, formula)->name, f64 ? "f64" : "f32");
  return keep(p, &buf);
}

/* --------------------------------------------------------------------- types
 */

static uint64_t arg_dtypes(const tn_op *op, const tn_arg *arg) {
  if (arg->dtype_param != TN_NONE) return ~0ull;
  if (arg->dtype_var != TN_NONE) return op->dtype_vars[arg->dtype_var]->allowed;
  return tn__dtype_bit(arg->dtype);
}

static const tn_arg *tensor_arg(const tn_op *op, const tnm_expr *tensor) {
  return tensor->kind == TNM_INPUT ? op->inputs[tensor->index]
                                   : op->outputs[tensor->index];
}

/* Whether a call may have to compute in f64 (any operand is), or in f32 (none
 * is). */
static bool may_compute(const kernel_pass *p, const tnm_formula *formula,
                        const formula_names *names, bool f64) {
  const uint64_t narrow = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32;
  const tn_op *op = p->op->op;
  uint64_t set = arg_dtypes(op, target_arg(p, formula));
  uint64_t any = set;
  bool all_narrow = (set & narrow) != 0;
  for (size_t i = 0; i < names->n_tensors; ++i) {
    set = arg_dtypes(op, tensor_arg(op, names->tensors[i]));
    any |= set;
    all_narrow = all_narrow && (set & narrow) != 0;
  }
  return f64 ? (any & TN_BIT_F64) != 0 : all_narrow;
}

/* ----------------------------------------------------------------------- body
 */

static void add_params(const kernel_pass *p, const formula_names *names,
                       const char *type) {
  c_file *c = p->c;
  if (names->n_params == 0) {
    c_add(c, "  (void)params;\n");
    return;
  }
  c_add(c, "  const %s_%s", p->plugin->plugin->name, p->op->op->name);
  add_release(&c->text, p->op);
  c_add(c, "_params *p = params;\n");
  for (size_t i = 0; i < names->n_params; ++i) {
    const tnm_expr *param = names->params[i];
    const tn_field *field = p->op->op->params[param->index];
    const bool same =
        field->type == TN_FIELD_FLOAT && strcmp(type, "double") == 0;
    c_add(c, "  const %s ", type);
    emit_variable(&c->text, param);
    if (same)
      c_add(c, " = p->%s;\n", field->name);
    else
      c_add(c, " = (%s)p->%s;\n", type, field->name);
  }
}

static void add_pointers(const kernel_pass *p, const formula_names *names,
                         const char *target, const char *type) {
  for (size_t i = 0; i < names->n_tensors; ++i) {
    c_add(p->c, "  const %s *", type);
    emit_variable(&p->c->text, names->tensors[i]);
    c_add(p->c, " = block->in[%zu];\n", i);
  }
  c_add(p->c, "  %s *%s = block->out;\n", type, target);
}

/* The loop over the elements of one block. */
static void add_body(const kernel_pass *p, const tnm_formula *formula,
                     const formula_names *names, bool f64) {
  static const char loop[] = "  for (int64_t i = 0; i < block->n; ++i)";
  const char *type = f64 ? "double" : "float";
  const char *target = target_name(p, formula);
  const loop_body body = {formula->expr, target, f64};
  c_function_head(
      p->c, &(c_function){"TN_KERNEL_BODY void ", body_name(p, formula, f64),
                          "const tn_kernel_block *block, "
                          "const void *params",
                          " {"});
  add_params(p, names, type);
  add_pointers(p, names, target, type);
  c_add(p->c, "  TN_KERNEL_INDEPENDENT\n%s", loop);
  emit_formula(&p->c->text, &body, strlen(loop));
  c_add(p->c, "}\nTN_KERNEL_LEVELS(%s)\n\n", body_name(p, formula, f64));
}

/* "quadratic.yaml:18: out = a*data^2 + b*data + c" */
static void add_comment(const kernel_pass *p, const tnm_formula *formula) {
  tn__buf buf;
  tn__buf_init(&buf, p->arena->env);
  tn__buf_add(&buf, "%s:%" PRIu32 ": %s%s = %s", p->op->file, formula->pos.line,
              p->pass == TN_PASS_BACKWARD ? "grad." : "",
              target_arg(p, formula)->name, formula->text);
  c_comment(p->c, 0, keep(p, &buf));
}

static void add_bodies(const kernel_pass *p, const tnm_formula *formula) {
  formula_names names;
  if (!formula_names_collect(p->arena, formula->expr, &names)) {
    p->c->text.failed = true;
    return;
  }
  add_comment(p, formula);
  if (may_compute(p, formula, &names, false))
    add_body(p, formula, &names, false);
  if (may_compute(p, formula, &names, true)) add_body(p, formula, &names, true);
}

/* ---------------------------------------------------------------- the tables
 */

/* The place of a tensor in call->in: forward the inputs; backward the gradients
 * of all outputs, all inputs, all outputs. */
static uint32_t place(const kernel_pass *p, const tnm_expr *tensor) {
  const tn_op *op = p->op->op;
  if (p->pass == TN_PASS_FORWARD || tensor->kind == TNM_GRAD)
    return tensor->index;
  if (tensor->kind == TNM_INPUT) return op->n_outputs + tensor->index;
  return op->n_outputs + op->n_inputs + tensor->index;
}

static void add_map(const kernel_pass *p, const tnm_formula *formula) {
  formula_names names;
  c_file *c = p->c;
  if (!formula_names_collect(p->arena, formula->expr, &names)) {
    c->text.failed = true;
    return;
  }
  c_add(c, "    {\n");
  if (may_compute(p, formula, &names, false))
    c_add(c, "        .f32 = TN_KERNEL_BODIES(%s),\n",
          body_name(p, formula, false));
  if (may_compute(p, formula, &names, true))
    c_add(c, "        .f64 = TN_KERNEL_BODIES(%s),\n",
          body_name(p, formula, true));
  c_add(c, "        .out = %" PRIu32 ",\n", formula->index);
  if (names.n_tensors > 0) {
    c_add(c, "        .n_in = %zu,\n        .in = {", names.n_tensors);
    for (size_t i = 0; i < names.n_tensors; ++i)
      c_add(c, "%s%" PRIu32, i ? ", " : "", place(p, names.tensors[i]));
    c_add(c, "},\n");
  }
  c_add(c, "    },\n");
}

static void add_functions(const kernel_pass *p) {
  const char *name = kernel_name(p);
  c_add(p->c, "static const tn_kernel_map %s_maps[] = {\n", name);
  for (size_t i = 0; i < p->n; ++i) add_map(p, &p->formulas[i]);
  c_add(p->c, "};\n\n");
  c_function_head(p->c,
                  &(c_function){"static int32_t ", prepare_name(p),
                                "const tn_frame *call, tn_plan *plan", " {"});
  c_add(p->c,
        "  return tn_kernel_map_prepare(call, plan, %s_maps, %zu);\n}\n\n",
        name, p->n);
  c_function_head(p->c, &(c_function){"static int32_t ", name,
                                      "const tn_frame *call", " {"});
  c_add(p->c, "  return tn_kernel_map_run(call, %s_maps, %zu);\n}\n\n", name,
        p->n);
}

/* ------------------------------------------------------------------ operators
 */

static void add_pass(kernel_pass p) {
  if (p.n == 0) return;
  for (size_t i = 0; i < p.n; ++i) add_bodies(&p, &p.formulas[i]);
  add_functions(&p);
}

void emit_kernels(tn__buf *out, const tnm_plugin *plugin,
                  const tnm_operator *op) {
  tn__arena arena;
  c_file c;
  tn__arena_init(&arena, out->env);
  c_init(&c, out->env);
  kernel_pass p = {&c,          &arena,       plugin, op, TN_PASS_FORWARD,
                   op->forward, op->n_forward};
  add_pass(p);
  p.pass = TN_PASS_BACKWARD;
  p.formulas = op->backward;
  p.n = op->n_backward;
  add_pass(p);
  if (c.text.failed)
    out->failed = true;
  else if (c.text.n > 0)
    tn__buf_bytes(out, c.text.s, c.text.n);
  c_deinit(&c);
  tn__arena_deinit(&arena);
}
