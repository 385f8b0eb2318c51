/* SPDX-License-Identifier: Apache-2.0
 * line_rows.c: writes the loops over rows of formulas with reductions for the
 * CPU (tn_lines_joined in tenon/kernel/line_walk.h). One computes all
 * reductions of a stage, or all outputs. Reductions have partial results
 * (tenon/kernel/line_sums.h).
 */
#include <inttypes.h>
#include <string.h>

#include "line_plan.h"

enum { MAX_SOURCES = LINE_MAX_SOURCES + 2 * LINE_MAX_STEPS + 1 };

/* A joined loop in one class; with `wide`, by sixteen elements. */
typedef struct row_loop {
  const line_plan *plan;
  uint32_t number;
  uint64_t steps;
  int class_bit;
  bool wide;
  const tnm_expr *sources[MAX_SOURCES]; /* of all steps, each once */
  size_t n_sources;
} row_loop;

static const char *loop_name(const row_loop *loop) {
  const kernel_pass *pass = loop->plan->pass;
  return pass_format(pass, "%s_L%" PRIu32 "_%s", pass_name(pass), loop->number,
                     tnm_class_name(loop->class_bit));
}

/* Calls `add` for each step of a loop, in the order of the work. */
static void each_step(const row_loop *loop,
                      void (*add)(const row_loop *loop, uint32_t step)) {
  for (uint32_t i = 0; i < loop->plan->n_steps; ++i)
    if (line_has_step(loop->steps, loop->plan->order[i]))
      add(loop, loop->plan->order[i]);
}

static bool is_output(const row_loop *loop, uint32_t step) {
  return loop->plan->steps[step].kind == LINE_OUT;
}

/* Whether a step is a sum over lines. */
static bool is_sum(const row_loop *loop, uint32_t step) {
  const line_plan *plan = loop->plan;
  return is_output(loop, step) &&
         line_out_level(plan->pass, plan->steps[step].out) == TNM_LEVEL_PLACE;
}

static bool is_chosen(const row_loop *loop, uint32_t step) {
  const int kind = loop->plan->steps[step].kind;
  return kind == LINE_MAX || kind == LINE_MIN;
}

/* Whether all of it fits sixteen floats. */
static bool fits_wide(const line_plan *plan, uint64_t steps, int class_bit) {
  for (uint32_t i = 0; i < plan->n_steps; ++i) {
    const line_step *step = &plan->steps[i];
    if (line_has_step(steps, i) && !line_step_is_plain(plan, step) &&
        !formula_fits_wide(&step->use, class_bit))
      return false;
  }
  return class_bit == TNM_CLASS_F32;
}

bool line_step_is_wide(const line_plan *plan, const line_step *step,
                       int class_bit) {
  const uint32_t at = (uint32_t)(step - plan->steps);
  for (uint32_t k = 0; k < plan->n_joined; ++k)
    if (line_has_step(plan->joined[k], at) &&
        fits_wide(plan, plan->joined[k], class_bit))
      return true;
  return false;
}

/* ------------------------------------------------------------------ sources */

/* The place of a source; loop->n_sources: it is not there. */
static size_t find_source(const row_loop *loop, const tnm_expr *source) {
  size_t i = 0;
  while (i < loop->n_sources && (loop->sources[i]->kind != source->kind ||
                                 loop->sources[i]->index != source->index))
    ++i;
  return i;
}

/* Makes loop number `number` of a plan, and lists its sources. */
static row_loop make_loop(const line_plan *plan, uint32_t number) {
  row_loop loop = {
      .plan = plan, .number = number, .steps = plan->joined[number]};
  for (uint32_t s = 0; s < plan->n_steps; ++s) {
    const formula_use *use = &plan->steps[s].use;
    for (size_t i = 0; line_has_step(loop.steps, s) && i < use->n_tensors; ++i)
      if (find_source(&loop, use->tensors[i]) == loop.n_sources &&
          loop.n_sources < MAX_SOURCES)
        loop.sources[loop.n_sources++] = use->tensors[i];
  }
  return loop;
}

static bool has_params(const row_loop *loop) {
  for (uint32_t s = 0; s < loop->plan->n_steps; ++s)
    if (line_has_step(loop->steps, s) && loop->plan->steps[s].use.n_params > 0)
      return true;
  return false;
}

/* Whether a source is the row of a step of the same loop. */
static bool is_own(const row_loop *loop, const tnm_expr *source) {
  return source->kind == FORMULA_ROW &&
         line_has_step(loop->steps, source->index);
}

/* Whether a source has one element for each of the row. */
static bool is_row(const row_loop *loop, const tnm_expr *source) {
  return (line_plan_level(loop->plan, source) & TNM_LEVEL_PLACE) != 0;
}

/* Declares the row or the value of a source, for one line. */
static void add_source(const row_loop *loop, const tnm_expr *source) {
  const line_plan *plan = loop->plan;
  const kernel_pass *pass = plan->pass;
  const char *type = class_type(loop->class_bit);
  const char *name = formula_variable(pass, source);
  c_file *c = pass->c;
  if (is_own(loop, source)) return;
  if (source->kind == TNM_COUNT) {
    c_add(c, "const %s %s = *(const %s *)rows->count;\n", type, name, type);
  } else if (source->kind == FORMULA_RESULT) {
    c_add(c, "const %s %s = ((const %s *)rows->results[%" PRIu32 "])[line];\n",
          type, name, type, plan->place[source->index]);
  } else if (source->kind == FORMULA_ROW) {
    c_add(c, "const %s *%s = (const %s *)rows->rows[%" PRIu32 "] + line * n;\n",
          type, name, type, plan->place[source->index]);
  } else if (is_row(loop, source)) {
    const uint32_t at = line_find_operand(plan, source);
    c_add(c,
          "const %s *%s = (const %s *)block->in[%" PRIu32
          "] + line * rows->step[%" PRIu32 "];\n",
          type, name, type, at, at);
  } else {
    c_add(c, "const %s %s = ((const %s *)block->in[%" PRIu32 "])[line];\n",
          type, name, type, line_find_operand(plan, source));
  }
}

/* The type of the elements of a row that a step writes: sums over lines are in
 * f64, except those of a few lines in f32. */
static const char *target_type(const row_loop *loop, uint32_t step) {
  return is_sum(loop, step) && loop->class_bit != TNM_CLASS_F32
             ? "double"
             : class_type(loop->class_bit);
}

/* Declares the row that a step writes, for one line. */
static void add_target(const row_loop *loop, uint32_t step) {
  const line_plan *plan = loop->plan;
  const line_step *own = &plan->steps[step];
  const char *type = target_type(loop, step);
  if (is_output(loop, step))
    c_add(plan->pass->c,
          "%s *o%" PRIu32 " = (%s *)rows->out[%" PRIu32
          "] + line * rows->out_step[%" PRIu32 "];\n",
          type, step, type, own->out, own->out);
  else if (own->keeps_row)
    c_add(plan->pass->c,
          "%s *e%" PRIu32 " = (%s *)rows->rows[%" PRIu32 "] + line * n;\n",
          type, step, type, plan->place[step]);
}

/* Declares all sources, and sixteen times each value of a line. */
static void add_sources(const row_loop *loop) {
  const kernel_pass *pass = loop->plan->pass;
  for (size_t i = 0; i < loop->n_sources; ++i) {
    const tnm_expr *source = loop->sources[i];
    add_source(loop, source);
    if (loop->wide && !is_row(loop, source))
      c_add(pass->c, "const tn_wide x%zu = tn_wide_of(%s);\n", i,
            formula_variable(pass, source));
  }
}

/* Loads sixteen elements of each row, of which `n` exist. */
static void add_loads(const row_loop *loop, const char *n) {
  const kernel_pass *pass = loop->plan->pass;
  for (size_t i = 0; i < loop->n_sources; ++i) {
    const tnm_expr *source = loop->sources[i];
    if (is_row(loop, source) && !is_own(loop, source))
      c_add(pass->c, "const tn_wide x%zu = tn_lines_wide_load(%s + i, %s);\n",
            i, formula_variable(pass, source), n);
  }
}

/* ----------------------------------------------------------------- elements */

/* One element of a source; "x1" for sixteen of them. */
static const char *write_element(const row_loop *loop, const tnm_expr *source) {
  const kernel_pass *pass = loop->plan->pass;
  if (is_own(loop, source)) return pass_format(pass, "v%u", source->index);
  if (loop->wide) return pass_format(pass, "x%zu", find_source(loop, source));
  const char *name = formula_variable(pass, source);
  return is_row(loop, source) ? pass_format(pass, "%s[i]", name) : name;
}

/* Adds "const float v1 = rms_norm_R1_f32(data[i]);". */
static void add_element(const row_loop *loop, uint32_t step) {
  const line_step *own = &loop->plan->steps[step];
  kernel_pass pass = *loop->plan->pass;
  pass.form = loop->wide ? FORM_WIDE : FORM_OWN;
  const char *type = formula_type(&pass, loop->class_bit);
  const char *list = own->use.n_params > 0 ? "&p" : "";
  if (line_step_is_plain(loop->plan, own)) {
    c_add(pass.c, "const %s v%u = %s;\n", type, step,
          write_element(loop, own->formula.expr));
    return;
  }
  for (size_t i = 0; i < own->use.n_tensors; ++i)
    list = pass_format(&pass, "%s%s%s", list, list[0] != '\0' ? ", " : "",
                       write_element(loop, own->use.tensors[i]));
  c_add(pass.c, "const %s v%u = %s(%s);\n", type, step,
        formula_name(&pass, &own->use, loop->class_bit), list);
}

/* "larger" or "smaller", for a step that keeps one element. */
static const char *name_choice(const row_loop *loop, uint32_t step) {
  return loop->plan->steps[step].kind == LINE_MAX ? "larger" : "smaller";
}

/* Combines an element with the partial results of a reduction. */
static void add_partial(const row_loop *loop, uint32_t step, const char *n) {
  c_file *c = loop->plan->pass->c;
  const char *name = tnm_class_name(loop->class_bit);
  if (loop->wide)
    c_add(c, "tn_lines_wide_%s(&s%u, v%u, %s);\n",
          is_chosen(loop, step) ? name_choice(loop, step) : "add", step, step,
          n);
  else if (is_chosen(loop, step))
    c_add(c, "s%u[l] = tn_lines_%s_%s(v%u, s%u[l]);\n", step,
          name_choice(loop, step), name, step, step);
  else if (loop->class_bit & TNM_CLASS_FLOATS)
    c_add(c, "s%u[l] += v%u;\n", step, step);
  else
    c_add(c, "s%u[l] += (uint64_t)(int64_t)v%u;\n", step, step);
}

/* Stores an element of a kept row or of an output. */
static void add_store(const row_loop *loop, uint32_t step, const char *n) {
  c_file *c = loop->plan->pass->c;
  const char *row = is_output(loop, step) ? "o" : "e";
  if (!is_output(loop, step) && !loop->plan->steps[step].keeps_row) return;
  if (loop->wide && is_sum(loop, step))
    c_add(c, "tn_lines_wide_add_to(o%u + i, %s, v%u);\n", step, n, step);
  else if (loop->wide)
    c_add(c, "tn_wide_store(%s%u + i, %s, v%u);\n", row, step, n, step);
  else if (is_sum(loop, step))
    c_add(c, "o%u[i] += (%s)v%u;\n", step, target_type(loop, step), step);
  else
    c_add(c, "%s%u[i] = v%u;\n", row, step, step);
}

/* Adds all of one element. Outputs may have the memory of operands: all steps
 * are computed before one is stored. */
static void add_elements(const row_loop *loop, const char *n) {
  const line_plan *plan = loop->plan;
  if (loop->wide) add_loads(loop, n);
  for (uint32_t i = 0; i < plan->n_steps; ++i)
    if (line_has_step(loop->steps, plan->order[i]))
      add_element(loop, plan->order[i]);
  for (uint32_t i = 0; i < plan->n_steps; ++i) {
    const uint32_t step = plan->order[i];
    if (!line_has_step(loop->steps, step)) continue;
    add_store(loop, step, n);
    if (!is_output(loop, step)) add_partial(loop, step, n);
  }
}

/* --------------------------------------------------------- partial results */

/* Declares the partial results of a reduction. */
static void add_start(const row_loop *loop, uint32_t step) {
  const line_plan *plan = loop->plan;
  c_file *c = plan->pass->c;
  const uint32_t place = plan->place[step];
  const char *type = class_type(loop->class_bit);
  if (loop->wide) {
    c_add(c, "tn_lines_wide s%u;\n", step);
    if (is_chosen(loop, step))
      c_add(c,
            "tn_lines_wide_start(&s%u, (float)rows->totals[%u][line].real);\n",
            step, place);
    else
      c_add(c, "tn_lines_wide_start(&s%u, 0);\n", step);
  } else if (is_chosen(loop, step)) {
    c_add(c,
          "%s s%u[TN_LINES_LANES];\n"
          "tn_lines_start_%s(&rows->totals[%u][line], s%u);\n",
          type, step, tnm_class_name(loop->class_bit), place, step);
  } else if (loop->class_bit & TNM_CLASS_FLOATS) {
    c_add(c, "%s s%u[TN_LINES_LANES];\ntn_lines_clear_%s(s%u);\n", type, step,
          tnm_class_name(loop->class_bit), step);
  } else {
    c_add(c, "uint64_t s%u[TN_LINES_LANES] = {0};\n", step);
  }
}

/* Adds the partial results to the total of a line. */
static void add_finish(const row_loop *loop, uint32_t step) {
  const line_plan *plan = loop->plan;
  const char *verb =
      is_chosen(loop, step)
          ? pass_format(plan->pass, "keep_%s", name_choice(loop, step))
          : "add_lanes";
  if (loop->wide)
    c_add(plan->pass->c, "tn_lines_wide_%s(&rows->totals[%u][line], &s%u);\n",
          verb, plan->place[step], step);
  else
    c_add(plan->pass->c, "tn_lines_%s_%s(&rows->totals[%u][line], s%u);\n",
          verb, tnm_class_name(loop->class_bit), plan->place[step], step);
}

/* -------------------------------------------------------------------- loops */

/* Adds a loop by sixteen elements; the last ones may be fewer. */
static void add_sixteens(const row_loop *loop, const char *begin,
                         const char *end) {
  const kernel_pass *pass = loop->plan->pass;
  c_add(pass->c, "int64_t i = %s;\nfor (; i + 16 <= %s; i += 16) {\n", begin,
        end);
  add_elements(loop, "16");
  c_add(pass->c, "}\nif (i < %s) {\n", end);
  add_elements(loop, pass_format(pass, "%s - i", end));
}

/* Adds the loop over the elements of one line that reduces them. */
static void add_reductions(const row_loop *loop) {
  c_file *c = loop->plan->pass->c;
  c_add(c,
        "for (int64_t at = 0; at < n; at += TN_LINES_SUMMED) {\n"
        "const int64_t end = n - at < TN_LINES_SUMMED ? n : at + "
        "TN_LINES_SUMMED;\n");
  each_step(loop, add_start);
  if (loop->wide) {
    add_sixteens(loop, "at", "end");
  } else {
    c_add(c,
          "int64_t from = at;\n"
          "for (; from + TN_LINES_LANES <= end; from += TN_LINES_LANES) {\n"
          "TN_KERNEL_INDEPENDENT\n"
          "for (int64_t l = 0; l < TN_LINES_LANES; ++l) {\n"
          "const int64_t i = from + l;\n");
    add_elements(loop, "");
    c_add(c, "}\n}\nfor (int64_t l = 0, i = from; i < end; ++i, ++l) {\n");
    add_elements(loop, "");
  }
  c_add(c, "}\n");
  each_step(loop, add_finish);
  c_add(c, "}\n");
}

/* Adds the loop over the elements of one line that writes outputs. */
static void add_outputs(const row_loop *loop) {
  c_file *c = loop->plan->pass->c;
  if (loop->wide) {
    add_sixteens(loop, "0", "n");
  } else {
    c_add(c,
          "TN_KERNEL_INDEPENDENT\n"
          "for (int64_t i = 0; i < n; ++i) {\n");
    add_elements(loop, "");
  }
  c_add(c, "}\n");
}

/* Adds the function of a loop. */
static void add_body(const row_loop *loop) {
  const kernel_pass *pass = loop->plan->pass;
  bool reduces = true;
  for (uint32_t s = 0; s < loop->plan->n_steps; ++s)
    if (line_has_step(loop->steps, s) && is_output(loop, s)) reduces = false;
  c_function_head(
      pass->c,
      &(c_function){
          loop->wide ? "TN_WIDE_FN void " : "TN_KERNEL_BODY void ",
          pass_format(pass, "%s%s", loop_name(loop), loop->wide ? "_wide" : ""),
          "const tn_kernel_block *block, const void *params", " {"});
  const formula_use reads = {.n_params = has_params(loop)};
  formula_copy_params(pass, &reads);
  c_add(pass->c,
        "const tn_lines_rows *rows = (const tn_lines_rows *)(const void *)"
        "block;\n"
        "const int64_t n = block->n;\n"
        "for (int64_t line = 0; line < rows->lines; ++line) {\n");
  add_sources(loop);
  each_step(loop, add_target);
  if (reduces)
    add_reductions(loop);
  else
    add_outputs(loop);
  c_add(pass->c, "}\n}\n");
}

/* Adds a loop for all levels. */
static void add_loop(row_loop *loop, int class_bit) {
  c_file *c = loop->plan->pass->c;
  const bool wide = fits_wide(loop->plan, loop->steps, class_bit);
  loop->class_bit = class_bit;
  loop->wide = false;
  add_body(loop);
  if (wide) {
    loop->wide = true;
    c_add(c, "#if TN_KERNEL_HAS_WIDE\n");
    add_body(loop);
    c_add(c, "#endif\n");
  }
  c_add(c, "TN_KERNEL_LEVELS%s(%s)\n\n", wide ? "_WIDE" : "", loop_name(loop));
}

void line_add_joined_loops(const line_plan *plan) {
  for (uint32_t k = 0; k < plan->n_joined; ++k) {
    row_loop loop = make_loop(plan, k);
    for (const int *bit = formula_classes; *bit != 0; ++bit)
      if (plan->classes & *bit) add_loop(&loop, *bit);
  }
}

/* -------------------------------------------------------------------- table */

/* Adds a set of bits, if it has any. */
static void add_set(c_file *c, const char *name, uint64_t set) {
  if (set != 0)
    c_add(c, ".%s = 0x%" PRIx64 "%s,\n", name, set,
          set > INT32_MAX ? "ull" : "");
}

static void add_entry(const row_loop *loop) {
  const line_plan *plan = loop->plan;
  c_file *c = plan->pass->c;
  uint64_t steps = 0, rows = 0, reads = 0;
  for (uint32_t s = 0; s < plan->n_steps; ++s)
    if (line_has_step(loop->steps, s)) steps |= 1ull << plan->place[s];
  for (size_t i = 0; i < loop->n_sources; ++i) {
    const tnm_expr *source = loop->sources[i];
    const int kind = source->kind;
    if (kind == FORMULA_ROW && !is_own(loop, source))
      rows |= 1ull << plan->place[source->index];
    if (kind != FORMULA_ROW && kind != FORMULA_RESULT && kind != TNM_COUNT)
      reads |= 1ull << line_find_operand(plan, source);
  }
  add_set(c, "steps", steps);
  add_set(c, "rows", rows);
  add_set(c, "reads", reads);
}

void line_add_joined_table(const line_plan *plan) {
  c_file *c = plan->pass->c;
  if (plan->n_joined == 0) return;
  c_add(c, "static const tn_lines_joined %s_joined[] = {\n",
        pass_name(plan->pass));
  for (uint32_t k = 0; k < plan->n_joined; ++k) {
    row_loop loop = make_loop(plan, k);
    c_add(c, "{\n");
    for (const int *bit = formula_classes; *bit != 0; ++bit) {
      if (!(plan->classes & *bit)) continue;
      loop.class_bit = *bit;
      c_add(c, ".%s = TN_KERNEL_BODIES(%s),\n", tnm_class_name(*bit),
            loop_name(&loop));
    }
    add_entry(&loop);
    c_add(c, "},\n");
  }
  c_add(c, "};\n\n");
}
