/* SPDX-License-Identifier: Apache-2.0
 * lines.c: writes the functions, loops and tables of formulas with reductions
 * for the CPU: a function for each step of line_plan.h, and a loop over
 * neighbouring lines. line_rows.c writes the loops over rows;
 * tenon/kernel/lines.h calls all of them.
 */
#include <inttypes.h>
#include <string.h>

#include "line_plan.h"

line_plan *line_make_plan(const kernel_pass *pass) {
  line_plan *plan = tn__arena_alloc(pass->arena, sizeof *plan);
  if (plan == NULL) pass->c->failed = true;
  return plan != NULL && line_plan_init(plan, pass) ? plan : NULL;
}

/* ---------------------------------------------------------------- functions */

/* Adds "rms_norm.yaml: out = ..." for each output. */
void line_add_comments(const kernel_pass *pass) {
  for (size_t i = 0; i < pass->n; ++i) {
    const formula_use use = {.formula = &pass->formulas[i]};
    formula_comment(pass, &use, "");
  }
}

void line_each_step(const line_plan *plan,
                    void (*add)(const line_plan *plan, const line_step *step,
                                int class_bit)) {
  for (uint32_t i = 0; i < plan->n_steps; ++i) {
    const line_step *step = &plan->steps[plan->order[i]];
    if (line_step_is_plain(plan, step)) continue;
    for (const int *bit = formula_classes; *bit != 0; ++bit)
      if (plan->classes & *bit) add(plan, step, *bit);
  }
}

static void add_function(const line_plan *plan, const line_step *step,
                         int class_bit) {
  formula_function(plan->pass, &step->use, class_bit);
}

void emit_line_functions(const kernel_pass *pass) {
  const line_plan *plan = line_make_plan(pass);
  if (plan == NULL) return;
  line_add_comments(pass);
  line_each_step(plan, add_function);
}

/* -------------------------------------------------------------------- loops */

/* The loop of a step: over values of lines, or over neighbouring lines at one
 * place (tenon/kernel/line_columns.h). */
typedef struct line_loop {
  const line_plan *plan;
  const line_step *step;
  int class_bit;
} line_loop;

/* Whether a source has one element for each line. */
static bool is_row(const line_loop *loop, const tnm_expr *source) {
  return (line_plan_level(loop->plan, source) & TNM_LEVEL_LINE) != 0;
}

/* Whether a step has such a loop in a class: only floats are computed over
 * neighbouring lines. */
static bool has_loop(const line_plan *plan, const line_step *step,
                     int class_bit) {
  return line_step_is_value(plan, step) || (class_bit & TNM_CLASS_FLOATS) != 0;
}

static const char *loop_name(const line_loop *loop) {
  const kernel_pass *pass = loop->plan->pass;
  return pass_format(pass, "%s_loop",
                     formula_name(pass, &loop->step->use, loop->class_bit));
}

static void add_sources(const line_loop *loop) {
  const kernel_pass *pass = loop->plan->pass;
  const formula_use *use = &loop->step->use;
  const char *type = class_type(loop->class_bit);
  formula_copy_params(pass, use);
  for (size_t i = 0; i < use->n_tensors; ++i) {
    const char *name = formula_variable(pass, use->tensors[i]);
    if (is_row(loop, use->tensors[i]))
      c_add(pass->c, "const %s *%s = block->in[%zu];\n", type, name, i);
    else
      c_add(pass->c, "const %s %s = *(const %s *)block->in[%zu];\n", type, name,
            type, i);
  }
  c_add(pass->c, "%s *part = block->out;\n", type);
}

/* "&p, data[i], r0"; for sixteen elements "&p, tn_wide_load(data + i, n),
 * tn_wide_of(r0)". */
static const char *call_arguments(const line_loop *loop, bool wide) {
  const kernel_pass *pass = loop->plan->pass;
  const formula_use *use = &loop->step->use;
  const char *list = use->n_params > 0 ? "&p" : "";
  for (size_t i = 0; i < use->n_tensors; ++i) {
    const char *form =
        is_row(loop, use->tensors[i])
            ? (wide ? "%s%stn_wide_load(%s + i, n)" : "%s%s%s[i]")
            : (wide ? "%s%stn_wide_of(%s)" : "%s%s%s");
    list = pass_format(pass, form, list, list[0] != '\0' ? ", " : "",
                       formula_variable(pass, use->tensors[i]));
  }
  return list;
}

static void add_call(const line_loop *loop, bool wide) {
  kernel_pass own = *loop->plan->pass;
  own.form = wide ? FORM_WIDE : FORM_OWN;
  c_add(own.c, "%s = %s(%s);\n", wide ? "const tn_wide made" : "part[i]",
        formula_name(&own, &loop->step->use, loop->class_bit),
        call_arguments(loop, wide));
}

static void open_loop(const kernel_pass *pass, const char *kind,
                      const char *name) {
  c_function_head(
      pass->c,
      &(c_function){kind, name,
                    "const tn_kernel_block *block, const void *params", " {"});
}

/* Adds the loop by sixteen lines. */
static void add_wide_loop(const line_loop *loop) {
  kernel_pass wide = *loop->plan->pass;
  wide.form = FORM_WIDE;
  open_loop(&wide, "TN_WIDE_FN void ",
            pass_format(&wide, "%s_wide", loop_name(loop)));
  add_sources(loop);
  c_add(wide.c,
        "for (int64_t i = 0, n = block->n; n > 0; i += 16, n -= 16) {\n");
  add_call(loop, true);
  c_add(wide.c, "tn_wide_store(part + i, n, made);\n}\n}\n");
}

/* Adds the wide function of a step, and its wide loop if it has one. */
static void add_wide(const line_loop *loop, bool has_wide_loop) {
  kernel_pass wide = *loop->plan->pass;
  wide.form = FORM_WIDE;
  c_add(wide.c, "#if TN_KERNEL_HAS_WIDE\n");
  formula_function(&wide, &loop->step->use, loop->class_bit);
  if (has_wide_loop) add_wide_loop(loop);
  c_add(wide.c, "#endif\n");
}

static void add_loop(const line_plan *plan, const line_step *step,
                     int class_bit) {
  const line_loop loop = {plan, step, class_bit};
  const kernel_pass *pass = plan->pass;
  const char *name = loop_name(&loop);
  const bool has_own = has_loop(plan, step, class_bit);
  const bool wide = has_own && step->kind != LINE_VALUE &&
                    formula_is_wide(&step->use, class_bit);
  if (has_own) {
    open_loop(pass, "TN_KERNEL_BODY void ", name);
    add_sources(&loop);
    c_add(pass->c,
          "TN_KERNEL_INDEPENDENT\n"
          "for (int64_t i = 0, n = block->n; i < n; ++i) ");
    add_call(&loop, false);
    c_add(pass->c, "}\n");
  }
  if (wide || line_step_is_wide(plan, step, class_bit)) add_wide(&loop, wide);
  if (has_own)
    c_add(pass->c, "TN_KERNEL_LEVELS%s(%s)\n\n", wide ? "_WIDE" : "", name);
}

/* ------------------------------------------------------------------- tables */

/* The source of a step in the table: an operand, "TN_LINES_ROW_OF + 0",
 * "TN_LINES_RESULT + 0" or "TN_LINES_COUNT". */
const char *line_write_source(const line_plan *plan, const tnm_expr *source) {
  const kernel_pass *pass = plan->pass;
  if (source->kind == TNM_COUNT) return "TN_LINES_COUNT";
  if (source->kind == FORMULA_ROW)
    return pass_format(pass, "TN_LINES_ROW_OF + %" PRIu32,
                       plan->place[source->index]);
  if (source->kind == FORMULA_RESULT)
    return pass_format(pass, "TN_LINES_RESULT + %" PRIu32,
                       plan->place[source->index]);
  return pass_format(pass, "%" PRIu32, line_find_operand(plan, source));
}

static void add_bodies(const line_plan *plan, const line_step *step,
                       int class_bit) {
  const line_loop loop = {plan, step, class_bit};
  if (has_loop(plan, step, class_bit))
    c_add(plan->pass->c, ".%s = TN_KERNEL_BODIES(%s),\n",
          tnm_class_name(class_bit), loop_name(&loop));
}

static void add_step(const line_plan *plan, const line_step *step) {
  static const char *const kinds[] = {"SUM", "MEAN",  "MAX",
                                      "MIN", "VALUE", "OUT"};
  const kernel_pass *pass = plan->pass;
  c_file *c = pass->c;
  c_add(c, "{\n");
  for (const int *bit = formula_classes; *bit != 0; ++bit)
    if ((plan->classes & *bit) && !line_step_is_plain(plan, step))
      add_bodies(plan, step, *bit);
  c_add(c, ".needed = %" PRIu32 ",\n.kind = TN_LINES_%s,\n", step->needed,
        kinds[step->kind]);
  if (step->kind < LINE_VALUE) c_add(c, ".stage = %" PRIu32 ",\n", step->stage);
  if (step->may_lack) c_add(c, ".may_lack = 1,\n");
  if (step->keeps_row) c_add(c, ".keeps_row = 1,\n");
  if (line_step_is_plain(plan, step)) c_add(c, ".is_plain = 1,\n");
  if (step->kind == LINE_OUT) c_add(c, ".out = %" PRIu32 ",\n", step->out);
  if (step->use.n_tensors > 0) {
    c_add(c, ".n_in = %zu,\n.in = {", step->use.n_tensors);
    for (size_t i = 0; i < step->use.n_tensors; ++i)
      c_add(c, "%s%s", i > 0 ? ", " : "",
            line_write_source(plan, step->use.tensors[i]));
    c_add(c, "},\n");
  }
  c_add(c, "},\n");
}

const char *line_level_name(int level) {
  static const char *const names[] = {"0", "TN_LINES_LINE", "TN_LINES_PLACE",
                                      "TN_LINES_FULL"};
  return names[level];
}

uint32_t line_count_outputs(const kernel_pass *pass) {
  const tn_op *op = pass->op->op;
  return pass->pass == TN_PASS_BACKWARD ? op->n_inputs : op->n_outputs;
}

enum { LONGEST_LIST = 56 }; /* columns of a list that fits on a line */

/* "{TN_LINES_FULL, TN_LINES_LINE}"; with numbers if that is too long. */
static const char *write_levels(const kernel_pass *pass, const uint8_t *levels,
                                uint32_t n) {
  const char *words = "", *numbers = "";
  for (uint32_t i = 0; i < n; ++i) {
    const char *end = i > 0 ? ", " : "";
    words = pass_format(pass, "%s%s%s", words, end, line_level_name(levels[i]));
    numbers = pass_format(pass, "%s%s%u", numbers, end, levels[i]);
  }
  if (n == 0) return "{0}";
  return pass_format(pass, "{%s}",
                     strlen(words) <= LONGEST_LIST ? words : numbers);
}

const char *line_write_levels(const line_plan *plan) {
  uint8_t levels[LINE_MAX_SOURCES];
  for (uint32_t i = 0; i < plan->n_operands; ++i)
    levels[i] = (uint8_t)line_plan_level(plan, plan->operands[i]);
  return write_levels(plan->pass, levels, plan->n_operands);
}

const char *line_write_out_levels(const kernel_pass *pass) {
  uint8_t levels[LINE_MAX_SOURCES] = {0};
  const uint32_t n = line_count_outputs(pass);
  for (uint32_t i = 0; i < n && i < LINE_MAX_SOURCES; ++i)
    levels[i] = (uint8_t)line_out_level(pass, i);
  return write_levels(pass, levels, n);
}

static void add_map(const line_plan *plan) {
  const kernel_pass *pass = plan->pass;
  const char *name = pass_name(pass);
  c_file *c = pass->c;
  c_add(c, "static const tn_lines_step %s_steps[] = {\n", name);
  for (uint32_t i = 0; i < plan->n_steps; ++i)
    add_step(plan, &plan->steps[plan->order[i]]);
  c_add(c, "};\n\n");
  line_add_joined_table(plan);
  c_add(c, "static const tn_lines_map %s_map = {\n", name);
  c_add(c, ".steps = %s_steps,\n.n_steps = %" PRIu32 ",\n", name,
        plan->n_steps);
  if (plan->n_operands > 0) {
    c_add(c, ".n_operands = %" PRIu32 ",\n.operands = {", plan->n_operands);
    for (uint32_t i = 0; i < plan->n_operands; ++i)
      c_add(c, "%s%" PRIu32, i > 0 ? ", " : "",
            formula_input_index(pass, plan->operands[i]));
    c_add(c, "},\n.levels = %s,\n", line_write_levels(plan));
  }
  c_add(c, ".out_levels = %s,\n", line_write_out_levels(pass));
  c_add(c, ".loop = %" PRIu32 ",\n", pass->op->axes->loop);
  formula_use all;
  if (!formula_use_all(pass, &all)) return;
  const int least = formula_least_class(pass, &all);
  if (least != 0) c_add(c, ".least = %s,\n", class_dtype(least));
  if (plan->n_joined > 0)
    c_add(c, ".n_joined = %" PRIu32 ",\n.joined = %s_joined,\n", plan->n_joined,
          name);
  c_add(c, "};\n\n");
}

/* --------------------------------------------------------------- the kernel */

/* Adds the statements that make `axes` of the parameters of a call. */
void line_add_axes(const kernel_pass *pass) {
  const tnm_axes *axes = pass->op->axes;
  c_file *c = pass->c;
  if (axes->param == TN_NONE) {
    c_add(c, "const int64_t axis = %" PRId64 ";\n", axes->number);
    c_add(c, "const tn_lines_axes axes = {1, &axis};\n");
    return;
  }
  const tn_field *field = pass->op->op->params[axes->param];
  c_add(c, "const %s *p = (const %s *)call->params;\n", pass_params(pass),
        pass_params(pass));
  if (field->type == TN_FIELD_INT)
    c_add(c, "const tn_lines_axes axes = {1, &p->%s};\n", field->name);
  else
    c_add(c, "const tn_lines_axes axes = {p->%s.n, p->%s.v};\n", field->name,
          field->name);
}

static void add_functions(const kernel_pass *pass) {
  const char *name = pass_name(pass);
  c_function_head(
      pass->c,
      &(c_function){"static int32_t ", pass_format(pass, "%s_prepare", name),
                    "const tn_frame *call, tn_plan *plan", " {"});
  line_add_axes(pass);
  c_add(pass->c, "return tn_lines_prepare(call, plan, &%s_map, &axes);\n}\n\n",
        name);
  c_function_head(pass->c, &(c_function){"static int32_t ", name,
                                         "const tn_frame *call", " {"});
  line_add_axes(pass);
  c_add(pass->c, "return tn_lines_run(call, &%s_map, &axes);\n}\n\n", name);
}

void emit_line_kernel(const kernel_pass *pass) {
  const line_plan *plan = line_make_plan(pass);
  if (plan == NULL) return;
  line_add_comments(pass);
  line_each_step(plan, add_loop);
  line_add_joined_loops(plan);
  add_map(plan);
  add_functions(pass);
}

/* ------------------------------------------------------------------- shapes */

static void add_rule(const kernel_pass *pass, const char *list, uint32_t index,
                     int level) {
  c_add(pass->c, "{TN_OPERAND_%s, %" PRIu32 ", %s},\n", list, index,
        line_level_name(level));
}

/* Adds a rule for each operand of a list that has a shape of its own. */
static void add_rules(const kernel_pass *pass, bool outputs) {
  const tnm_axes *axes = pass->op->axes;
  const tn_op *op = pass->op->op;
  const uint8_t *levels = outputs ? axes->levels.outputs : axes->levels.inputs;
  const uint32_t n = outputs ? op->n_outputs : op->n_inputs;
  for (uint32_t i = 0; i < n; ++i) {
    const tn_arg *arg = outputs ? op->outputs[i] : op->inputs[i];
    if (arg->shape_kind == TN_SHAPE_HOOK && (outputs || i != axes->loop))
      add_rule(pass, outputs ? "OUT" : "IN", i, levels[i]);
  }
}

void emit_line_infer(c_file *c, const tnm_plugin *plugin,
                     const tnm_operator *op) {
  tn__arena arena;
  tn__arena_init(&arena, c->words.env);
  const kernel_pass pass = {
      .c = c, .arena = &arena, .plugin = plugin, .op = op};
  const char *name = pass_operator(&pass);
  c_add(c, "static const tn_lines_operand_rule %s_rules[] = {\n", name);
  add_rule(&pass, "IN", op->axes->loop, TNM_LEVEL_FULL);
  add_rules(&pass, false);
  add_rules(&pass, true);
  c_add(c, "};\n\n");
  c_function_head(
      c, &(c_function){"static int32_t ", pass_format(&pass, "%s_infer", name),
                       "const tn_frame *call", " {"});
  line_add_axes(&pass);
  c_add(c,
        "return tn_lines_infer(call, %s_rules, sizeof %s_rules / sizeof "
        "*%s_rules, &axes);\n}\n\n",
        name, name, name);
  tn__arena_deinit(&arena);
}
