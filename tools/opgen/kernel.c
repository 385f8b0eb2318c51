/* SPDX-License-Identifier: Apache-2.0
 * kernel.c: writes the loops of an operator for the CPU: per output and type
 * one loop over dense elements, unless an earlier operator of the file has the
 * same. Also a table of the loop's reads and writes, and the compute function.
 * tenon/kernel/kernel.h handles strides, broadcasting, conversions and
 * requests.
 */
#include <inttypes.h>
#include <string.h>

#include "emit_kernel.h"
#include "tenon/draft/registers.h"

/* The count is read once: for the compiler an output of i64 might overlap it,
 * and then it would not vectorise the loop. */
static const char loop_head[] = "for (int64_t i = 0, n = block->n; i < n; ++i)";

static const char *body_name(const kernel_pass *pass, const formula_use *use,
                             int class_bit) {
  class_bit = formula_code_class(use, class_bit);
  return pass_format(pass, "%s_loop",
                     formula_find_twin(pass, use, class_bit,
                                       formula_name(pass, use, class_bit)));
}

/* --------------------------------------------------------------------- loop */

/* The loop reads parameters from a copy, which no output can overlap. */
void formula_copy_params(const kernel_pass *pass, const formula_use *use) {
  const char *type = pass_params(pass);
  if (use->n_params == 0) {
    c_add(pass->c, "(void)params;\n");
    return;
  }
  c_add(pass->c, "const %s p = *(const %s *)params;\n", type, type);
}

static void add_pointers(const kernel_pass *pass, const formula_use *use,
                         const char *type, bool parts) {
  for (size_t i = 0; i < use->n_tensors; ++i)
    c_add(pass->c, "const %s *%s = block->in[%zu];\n", type,
          formula_variable(pass, use->tensors[i]), i);
  if (!parts) c_add(pass->c, "%s *%s = block->out;\n", type, use->target);
}

/* "&p, data[i]"; for sixteen elements "&p, tn_wide_load(data + i, n)". */
static const char *call_arguments(const kernel_pass *pass,
                                  const formula_use *use) {
  const bool wide = pass->form == FORM_WIDE;
  const char *list = pass->form == FORM_NEAR ? "&far, " : "";
  if (use->n_params > 0) list = pass_format(pass, "%s&p, ", list);
  for (size_t i = 0; i < use->n_tensors; ++i)
    list = pass_format(pass, wide ? "%stn_wide_load(%s + i, n), " : "%s%s[i], ",
                       list, formula_variable(pass, use->tensors[i]));
  const size_t n = strlen(list);
  return pass_format(pass, "%.*s", (int)(n > 0 ? n - strlen(", ") : 0), list);
}

/* Adds "out[i] = quadratic_out_f32(&p, data[i]);". */
static void add_call(const kernel_pass *pass, const formula_use *use,
                     int class_bit, const char *target) {
  c_add(pass->c, "%s = %s(%s);\n", target, formula_name(pass, use, class_bit),
        call_arguments(pass, use));
}

/* Adds "part[i - begin] = sine_out_f32_near(&far, data[i]);" in its loop. */
static void add_part(const kernel_pass *pass, const formula_use *use) {
  c_add(pass->c,
        "TN_KERNEL_INDEPENDENT\n"
        "for (int64_t i = begin; i < end; ++i) ");
  add_call(pass, use, TNM_CLASS_F32, "part[i - begin]");
}

/* Adds a loop by parts: the near form is faster, and a part with a far value is
 * computed again. */
static void add_parts(const kernel_pass *pass, const formula_use *use) {
  kernel_pass near = *pass;
  near.form = FORM_NEAR;
  c_add(pass->c,
        "float room[TN_KERNEL_PART];\n"
        "for (int64_t begin = 0; begin < block->n; begin += TN_KERNEL_PART) {\n"
        "const int64_t end = tn_kernel_part_end(block, begin);\n"
        "float *part = tn_kernel_part_at(block, %zu, begin, room);\n"
        "uint32_t far = 0;\n",
        use->n_tensors);
  add_part(&near, use);
  c_add(pass->c, "if (far >> 31) {\n");
  add_part(pass, use);
  c_add(pass->c, "}\ntn_kernel_part_store(block, begin, end, part);\n}\n");
}

/* Tests whether a formula calls only functions of a few instructions. */
static bool is_short(const tnm_expr *expr) {
  static const char few[] =
      " abs sign floor ceil round rint trunc sqrt min max clip select ";
  if (expr->kind == TNM_CALL &&
      strstr(few, tnm_function_at(expr->index)->name) == NULL)
    return false;
  if (expr->kind == TNM_BINARY && expr->op == '%') return false;
  if (expr->kind == TNM_BINARY && expr->op == '^' &&
      expr->args[1]->kind != TNM_NUMBER)
    return false;
  for (uint32_t i = 0; i < expr->n_args; ++i)
    if (!is_short(expr->args[i])) return false;
  return true;
}

/* Tests whether halves go through the loop of floats in registers: if they
 * would spend more time in memory than in the loop. */
static bool has_halves(const formula_use *use, int class_bit) {
  return class_bit == TNM_CLASS_F32 && use->n_tensors > 0 &&
         use->n_tensors <= 3 && !use->gives_truth &&
         is_short(use->formula->expr);
}

/* Tests whether a repeated input of two is read as one element. */
static bool has_ones(const formula_use *use, int class_bit) {
  return use->n_tensors == 2 && has_halves(use, class_bit);
}

/* Tests whether a formula calls functions of hundreds of instructions. Register
 * kernels of it would cost more space than they save time. */
static bool is_long(const tnm_expr *expr) {
  static const char many[] =
      " gamma lgamma digamma trigamma pow mod trunc_mod floor_div ";
  if (expr->kind == TNM_CALL &&
      strstr(many, tnm_function_at(expr->index)->name) != NULL)
    return true;
  if (expr->kind == TNM_BINARY &&
      (expr->op == '%' ||
       (expr->op == '^' && expr->args[1]->kind != TNM_NUMBER)))
    return true;
  for (uint32_t i = 0; i < expr->n_args; ++i)
    if (is_long(expr->args[i])) return true;
  return false;
}

/* The number of inputs of the register kernels that the loop of floats
 * generates as well (tenon/draft/register_loops.h); 0: none. */
static size_t count_register_inputs(const formula_use *use, int class_bit) {
  const bool fits = use->n_tensors > 0 &&
                    use->n_tensors <= TN_REGISTER_INPUTS && !use->gives_truth;
  if (class_bit != TNM_CLASS_F32 || !fits ||
      formula_second_form(use, class_bit) == FORM_NEAR ||
      is_long(use->formula->expr))
    return 0;
  return use->n_tensors < 3 || is_short(use->formula->expr) ? use->n_tensors
                                                            : 0;
}

/* Adds the loop over the elements of one block, and the called function if it
 * is not the formula's own. */
static void add_loop(const kernel_pass *pass, const formula_use *use,
                     int class_bit, const char *name) {
  const bool parts = formula_second_form(use, class_bit) == FORM_NEAR;
  if (parts) {
    kernel_pass near = *pass;
    near.form = FORM_NEAR;
    formula_function(&near, use, class_bit);
  }
  if (pass->form == FORM_DIRECT) formula_function(pass, use, class_bit);
  c_function_head(
      pass->c,
      &(c_function){"TN_KERNEL_BODY void ", name,
                    "const tn_kernel_block *block, const void *params", " {"});
  formula_copy_params(pass, use);
  add_pointers(pass, use, class_type(class_bit), parts);
  if (parts) {
    add_parts(pass, use);
  } else {
    c_add(pass->c, "TN_KERNEL_INDEPENDENT\n%s ", loop_head);
    add_call(pass, use, class_bit, pass_format(pass, "%s[i]", use->target));
  }
  c_add(pass->c, "}\n");
}

/* Adds the loop by sixteen elements, and its formula. */
static void add_wide_loop(const kernel_pass *pass, const formula_use *use,
                          int class_bit, const char *name) {
  kernel_pass wide = *pass;
  wide.form = FORM_WIDE;
  c_add(pass->c, "#if TN_KERNEL_HAS_WIDE\n");
  formula_function(&wide, use, class_bit);
  c_function_head(
      pass->c,
      &(c_function){"TN_WIDE_FN void ", pass_format(pass, "%s_wide", name),
                    "const tn_kernel_block *block, const void *params", " {"});
  formula_copy_params(pass, use);
  add_pointers(pass, use, class_type(class_bit), false);
  c_add(pass->c,
        "for (int64_t i = 0, n = block->n; n > 0; i += 16, n -= 16) {\n");
  add_call(&wide, use, class_bit, "const tn_wide made");
  c_add(pass->c, "tn_wide_store(%s + i, n, made);\n}\n", use->target);
  c_add(pass->c, "}\n#endif\n");
}

/* Adds the loop for all levels, and its forms. */
static void add_body(const kernel_pass *pass, const formula_use *use,
                     int class_bit) {
  const char *name = body_name(pass, use, class_bit);
  const bool wide = formula_is_wide(use, class_bit);
  if (formula_second_form(use, class_bit) == FORM_DIRECT) {
    kernel_pass direct = *pass;
    direct.form = FORM_DIRECT;
    const char *lowest = pass_format(pass, "%s_lowest", name);
    add_loop(pass, use, class_bit, lowest);
    add_loop(&direct, use, class_bit, name);
    c_function_head(
        pass->c, &(c_function){"", "TN_KERNEL_LEVELS_FROM",
                               pass_format(pass, "%s, %s", name, lowest), ""});
  } else {
    add_loop(pass, use, class_bit, name);
    if (wide) add_wide_loop(pass, use, class_bit, name);
    c_add(pass->c, "TN_KERNEL_LEVELS%s(%s)\n", wide ? "_WIDE" : "", name);
  }
  if (has_halves(use, class_bit))
    c_add(pass->c, "TN_KERNEL_HALVES(%s, %zu)\n", name, use->n_tensors);
  if (has_ones(use, class_bit)) c_add(pass->c, "TN_KERNEL_ONES(%s)\n", name);
  const size_t n = count_register_inputs(use, class_bit);
  if (n > 0)
    c_add(pass->c, "TN_KERNEL_REGISTERS_%s%zu(%s)\n", wide ? "WIDE_" : "", n,
          name);
  c_add(pass->c, "\n");
}

/* Adds the loops of every class that no earlier formula has. */
static void add_bodies(const kernel_pass *pass, const formula_use *use) {
  const int classes = formula_own_classes(use);
  int own = 0;
  const char *twin = "";
  for (const int *bit = formula_classes; *bit != 0; ++bit) {
    if ((classes & *bit) == 0) continue;
    const char *name = formula_find_twin(pass, use, *bit, NULL);
    if (name == NULL)
      own |= *bit;
    else
      twin = name;
  }
  formula_comment(pass, use,
                  own == classes ? "" : pass_format(pass, ": as %s", twin));
  for (const int *bit = formula_classes; *bit != 0; ++bit)
    if (own & *bit) add_body(pass, use, *bit);
}

/* --------------------------------------------------------------- the tables */

static void add_map(const kernel_pass *pass, const formula_use *use) {
  c_file *c = pass->c;
  c_add(c, "{\n");
  for (const int *bit = formula_classes; *bit != 0; ++bit)
    if (use->classes & *bit)
      c_add(c, ".%s = TN_KERNEL_BODIES(%s),\n", tnm_class_name(*bit),
            body_name(pass, use, *bit));
  if ((use->classes & TNM_CLASS_F32) && has_halves(use, TNM_CLASS_F32))
    c_add(c,
          ".f16 = TN_KERNEL_F16_BODIES(%s),\n"
          ".bf16 = TN_KERNEL_BF16_BODIES(%s),\n",
          body_name(pass, use, TNM_CLASS_F32),
          body_name(pass, use, TNM_CLASS_F32));
  if ((use->classes & TNM_CLASS_F32) && has_ones(use, TNM_CLASS_F32))
    c_add(c, ".one = TN_KERNEL_ONE_BODIES(%s),\n",
          body_name(pass, use, TNM_CLASS_F32));
  if ((use->classes & TNM_CLASS_F32) &&
      count_register_inputs(use, TNM_CLASS_F32) > 0)
    c_add(c, ".registers = TN_KERNEL_IN_REGISTERS_%zu(%s),\n",
          count_register_inputs(use, TNM_CLASS_F32),
          body_name(pass, use, TNM_CLASS_F32));
  const int least = formula_least_class(pass, use);
  if (least != 0) c_add(c, ".least = %s,\n", class_dtype(least));
  c_add(c, ".out = %" PRIu32 ",\n", use->formula->index);
  if (use->n_tensors > 0) {
    c_add(c, ".n_in = %zu,\n.in = {", use->n_tensors);
    for (size_t i = 0; i < use->n_tensors; ++i)
      c_add(c, "%s%" PRIu32, i ? ", " : "",
            formula_input_index(pass, use->tensors[i]));
    c_add(c, "},\n");
  }
  c_add(c, "},\n");
}

static void add_functions(const kernel_pass *pass) {
  const char *name = pass_name(pass);
  c_function_head(
      pass->c,
      &(c_function){"static int32_t ", pass_format(pass, "%s_prepare", name),
                    "const tn_frame *call, tn_plan *plan", " {"});
  c_add(pass->c,
        "return tn_kernel_map_prepare(call, plan, %s_maps, %zu);\n}\n\n", name,
        pass->n);
  c_function_head(pass->c, &(c_function){"static int32_t ", name,
                                         "const tn_frame *call", " {"});
  c_add(pass->c, "return tn_kernel_map_run(call, %s_maps, %zu);\n}\n\n", name,
        pass->n);
}

static void add_pass(const kernel_pass *pass) {
  if (pass->op->axes != NULL) {
    emit_line_kernel(pass);
    return;
  }
  formula_use *uses = tn__arena_alloc(pass->arena, pass->n * sizeof *uses);
  if (uses == NULL) {
    pass->c->failed = true;
    return;
  }
  for (size_t i = 0; i < pass->n; ++i) {
    if (!formula_use_init(pass, &pass->formulas[i], &uses[i])) return;
    add_bodies(pass, &uses[i]);
  }
  c_add(pass->c, "static const tn_kernel_map %s_maps[] = {\n", pass_name(pass));
  for (size_t i = 0; i < pass->n; ++i) add_map(pass, &uses[i]);
  c_add(pass->c, "};\n\n");
  add_functions(pass);
}

void emit_kernels(c_file *c, const tnm_plugin *plugin, const tnm_operator *op) {
  for_each_pass(c, plugin, op, add_pass);
}
