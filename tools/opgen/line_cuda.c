/* SPDX-License-Identifier: Apache-2.0
 * line_cuda.c: writes the kernels of formulas with reductions for CUDA, as C++:
 * for each type a struct that computes one element of each step of line_plan.h,
 * the tables, and the compute and prepare functions. tenon/kernel/lines.cuh
 * does the rest.
 */
#include <inttypes.h>
#include <string.h>

#include "line_plan.h"

static const char *cuda_name(const kernel_pass *pass) {
  return pass_format(pass, "%s_%s_cuda", pass->plugin->plugin->name,
                     pass_name(pass));
}

static const char *struct_name(const kernel_pass *pass, int class_bit) {
  return pass_format(pass, "%s_%s_lines", pass_name(pass),
                     tnm_class_name(class_bit));
}

/* Whether a step reads parameters. */
static bool has_params(const line_plan *plan) {
  for (uint32_t i = 0; i < plan->n_steps; ++i)
    if (plan->steps[i].use.n_params > 0) return true;
  return false;
}

/* Whether it reads parameters that may change in a recorded call. */
static bool is_live(const line_plan *plan) {
  const tn_op *op = plan->pass->op->op;
  for (uint32_t i = 0; has_params(plan) && i < op->n_params; ++i)
    if (op->params[i]->flags & TN_FIELD_DYNAMIC) return true;
  return false;
}

/* ------------------------------------------------------------------- struct */

/* "x(0)", "r[1]", "x.count()", or the element of another step's row. */
static const char *write_read(const line_plan *plan, const tnm_expr *source) {
  const kernel_pass *pass = plan->pass;
  if (source->kind == TNM_COUNT) return "x.count()";
  if (source->kind == FORMULA_RESULT)
    return pass_format(pass, "r[%" PRIu32 "]", plan->place[source->index]);
  if (source->kind == FORMULA_ROW)
    return pass_format(pass, "(*this)(%" PRIu32 ", x, r)",
                       plan->place[source->index]);
  return pass_format(pass, "x(%s)", line_write_source(plan, source));
}

static const char *call_arguments(const line_plan *plan,
                                  const line_step *step) {
  const kernel_pass *pass = plan->pass;
  const char *list = step->use.n_params > 0 ? "&p" : "";
  for (size_t i = 0; i < step->use.n_tensors; ++i)
    list = pass_format(pass, "%s%s%s", list, list[0] != '\0' ? ", " : "",
                       write_read(plan, step->use.tensors[i]));
  return list;
}

static void add_case(const line_plan *plan, uint32_t place, int class_bit) {
  const kernel_pass *pass = plan->pass;
  const line_step *step = &plan->steps[plan->order[place]];
  c_add(pass->c, "if (k == %" PRIu32 ") {\n", place);
  if (line_step_is_plain(plan, step))
    c_add(pass->c, "return %s;\n", write_read(plan, step->formula.expr));
  else
    c_function_head(
        pass->c,
        &(c_function){"return ", formula_name(pass, &step->use, class_bit),
                      call_arguments(plan, step), ";"});
  c_add(pass->c, "}\n");
}

static void add_head(const line_plan *plan, int class_bit) {
  const kernel_pass *pass = plan->pass;
  const char *name = struct_name(pass, class_bit);
  const char *params = pass_params(pass);
  const char *bytes =
      has_params(plan) ? pass_format(pass, "sizeof(%s)", params) : "0";
  c_add(pass->c,
        "struct %s%s {\n"
        "typedef %s type;\n"
        "enum { n_in = %" PRIu32 ", n_out = %" PRIu32 ", n_steps = %" PRIu32
        " };\n",
        name, is_live(plan) ? " : tn_cuda_lines_live" : "",
        class_type(class_bit), plan->n_operands, line_count_outputs(pass),
        plan->n_steps);
  c_add(pass->c, "enum { live_bytes = %s };\n", bytes);
  if (!has_params(plan)) {
    c_add(pass->c, "explicit %s(const void *) {}\n", name);
    return;
  }
  c_add(pass->c, "%s p;\n", params);
  c_add(pass->c,
        "%sexplicit %s(const void *params) : p(*(const %s *)params) {}\n",
        is_live(plan) ? "__host__ __device__ " : "", name, params);
}

static void add_struct(const line_plan *plan, int class_bit) {
  const kernel_pass *pass = plan->pass;
  const char *type = class_type(class_bit);
  add_head(plan, class_bit);
  c_add(pass->c, "template <class Read>\n");
  c_add(pass->c,
        "__device__ %s operator()(int k, const Read &x, const %s *r) const {\n"
        "(void)x;\n(void)r;\n",
        type, type);
  for (uint32_t i = 0; i < plan->n_steps; ++i) add_case(plan, i, class_bit);
  c_add(pass->c, "return 0;\n}\n};\n\n");
}

/* ------------------------------------------------------------------- tables */

static void add_step(const line_plan *plan, const line_step *step) {
  static const char *const kinds[] = {"SUM", "MEAN",  "MAX",
                                      "MIN", "VALUE", "OUT"};
  const kernel_pass *pass = plan->pass;
  c_add(pass->c,
        "{\n{},\n{},\n{},\n{},\n%" PRIu32 ",\nTN_LINES_%s,\n%" PRIu32
        ",\n%d,\n%" PRIu32 ",\n%d,\n0,\n0,\n{0},\n},\n",
        step->needed, kinds[step->kind],
        step->kind < LINE_VALUE ? step->stage : 0, step->may_lack, step->out,
        line_step_is_plain(plan, step));
}

static void add_line_map(const line_plan *plan) {
  const kernel_pass *pass = plan->pass;
  const char *name = pass_name(pass);
  c_file *c = pass->c;
  formula_use all;
  if (!formula_use_all(pass, &all)) return;
  const int least = formula_least_class(pass, &all);
  c_add(c, "static const tn_lines_step %s_steps[] = {\n", name);
  for (uint32_t i = 0; i < plan->n_steps; ++i)
    add_step(plan, &plan->steps[plan->order[i]]);
  c_add(c, "};\n\nstatic const tn_lines_map %s_lines = {\n", name);
  c_add(c, "%s_steps,\n%" PRIu32 ",\n%" PRIu32 ",\n{", name, plan->n_steps,
        plan->n_operands);
  for (uint32_t i = 0; i < plan->n_operands; ++i)
    c_add(c, "%s%" PRIu32, i > 0 ? ", " : "",
          formula_input_index(pass, plan->operands[i]));
  c_add(c, "%s},\n", plan->n_operands > 0 ? "" : "0");
  c_add(c, "%s,\n%s,\n", line_write_levels(plan), line_write_out_levels(pass));
  c_add(c, "%" PRIu32 ",\n%s,\n0,\nNULL,\n};\n\n", pass->op->axes->loop,
        least == 0 ? "TN_DTYPE_UNKNOWN" : class_dtype(least));
}

static void add_map(const line_plan *plan) {
  const kernel_pass *pass = plan->pass;
  c_add(pass->c, "static const tn_cuda_lines_map %s_map = {\n{\n",
        pass_name(pass));
  for (const int *bit = formula_classes; *bit != 0; ++bit)
    if (plan->classes & *bit)
      c_add(pass->c, "tn_cuda_lines_launch<%s>,\n", struct_name(pass, *bit));
    else if (*bit != TNM_CLASS_U64) /* not among the types over lines */
      c_add(pass->c, "NULL,\n");
  c_add(pass->c, "},\n&%s_lines,\n};\n\n", pass_name(pass));
}

/* ---------------------------------------------------------------- functions */

static void add_functions(const kernel_pass *pass) {
  const char *name = cuda_name(pass);
  c_function_head(
      pass->c, &(c_function){"int32_t ", pass_format(pass, "%s_prepare", name),
                             "const tn_frame *call, tn_plan *plan", " {"});
  line_add_axes(pass);
  c_add(pass->c,
        "return tn_cuda_lines_prepare(call, plan, &%s_lines, &axes);\n}\n\n",
        pass_name(pass));
  c_function_head(
      pass->c, &(c_function){"int32_t ", name, "const tn_frame *call", " {"});
  line_add_axes(pass);
  c_add(pass->c, "return tn_cuda_lines_run(call, &%s_map, &axes);\n}\n\n",
        pass_name(pass));
}

void emit_cuda_line_kernel(const kernel_pass *pass) {
  const line_plan *plan = line_make_plan(pass);
  if (plan == NULL) return;
  line_add_comments(pass);
  for (const int *bit = formula_classes; *bit != 0; ++bit)
    if (plan->classes & *bit) add_struct(plan, *bit);
  add_line_map(plan);
  add_map(plan);
  add_functions(pass);
}

void emit_cuda_line_prototypes(const kernel_pass *pass) {
  c_function_head(
      pass->c, &(c_function){"int32_t ",
                             pass_format(pass, "%s_prepare", cuda_name(pass)),
                             "const tn_frame *call, tn_plan *plan", ";"});
}
