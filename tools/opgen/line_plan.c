/* SPDX-License-Identifier: Apache-2.0
 * line_plan.c: plans the steps of formulas with reductions: one step for each
 * reduction, for each value of a line that is more than a name, and for each
 * output. Equal steps are one. A row that a reduction has computed is read
 * again if it was expensive, or if elements are compared with the largest of
 * it.
 */
#include <string.h>

#include "line_plan.h"

/* ------------------------------------------------------------------
 * expressions
 */

static tnm_expr *copy_expr(line_plan *plan, const tnm_expr *e) {
  tnm_expr *copy = tn__arena_alloc(plan->pass->arena, sizeof *copy);
  if (copy == NULL)
    plan->full = plan->pass->c->failed = true;
  else
    *copy = *e;
  return copy;
}

/* The row or result of a step, as a name. */
static const tnm_expr *name_step(line_plan *plan, int kind, uint32_t step) {
  const tnm_expr like = {
      .kind = kind,
      .index = step,
      .text = pass_format(plan->pass, kind == FORMULA_ROW ? "e%u" : "r%u",
                          (unsigned)step)};
  const tnm_expr *name = copy_expr(plan, &like);
  return name != NULL ? name : plan->steps[step].formula.expr;
}

static const tnm_expr *join_exprs(line_plan *plan, char op, const tnm_expr *a,
                                  const tnm_expr *b) {
  const tnm_expr like = {
      .kind = TNM_BINARY, .op = op, .n_args = 2, .args = {a, b}};
  const tnm_expr *e = copy_expr(plan, &like);
  return e != NULL ? e : a;
}

static const tnm_expr *call_function(line_plan *plan, uint32_t function,
                                     const tnm_expr *const *args) {
  tnm_expr like = {.kind = TNM_CALL, .index = function};
  like.text = tnm_function_at(function)->name;
  like.n_args = tnm_function_at(function)->n_args;
  memcpy(like.args, args, like.n_args * sizeof *args);
  const tnm_expr *e = copy_expr(plan, &like);
  return e != NULL ? e : args[0];
}

/* Tests whether computing it again costs more than reading a row. */
static bool is_expensive(const tnm_expr *e) {
  static const char cheap[] = " abs min max clip select sign ";
  if (e->kind == TNM_CALL &&
      strstr(cheap, tnm_function_at(e->index)->name) == NULL)
    return true;
  if (e->kind == TNM_BINARY && strchr("/%", e->op) != NULL) return true;
  if (e->kind == TNM_BINARY && e->op == '^' &&
      !tnm_expr_is_product(e, TNM_CLASS_F32))
    return true;
  for (uint32_t i = 0; i < e->n_args; ++i)
    if (is_expensive(e->args[i])) return true;
  return false;
}

/* ------------------------------------------------------------------------
 * steps
 */

/* The largest stage of the steps whose results an expression reads. */
static uint32_t find_stage(const line_plan *plan, const tnm_expr *e) {
  uint32_t stage = 0;
  if (e->kind == FORMULA_RESULT) return plan->steps[e->index].stage;
  if (e->kind == FORMULA_ROW) return plan->steps[e->index].stage - 1;
  for (uint32_t i = 0; i < e->n_args; ++i) {
    const uint32_t own = find_stage(plan, e->args[i]);
    if (own > stage) stage = own;
  }
  return stage;
}

static line_step *add_step(line_plan *plan, int kind, const tnm_expr *e) {
  static line_step none;
  if (plan->n_steps == LINE_MAX_STEPS) {
    plan->full = true;
    return &none;
  }
  line_step *step = &plan->steps[plan->n_steps++];
  *step = (line_step){.kind = kind, .formula = {.expr = e}};
  step->stage = find_stage(plan, e) + (kind < LINE_VALUE ? 1 : 0);
  return step;
}

/* The step of a kind with this formula; a new one if there is none. */
static uint32_t find_step(line_plan *plan, int kind, const tnm_expr *e) {
  for (uint32_t i = 0; i < plan->n_steps; ++i)
    if (plan->steps[i].kind == kind &&
        tnm_expr_equal(plan->steps[i].formula.expr, e))
      return i;
  (void)add_step(plan, kind, e);
  return plan->n_steps - 1;
}

/* The row that a reduction has computed and that is to be read again instead of
 * an expression; the expression if there is none. */
static const tnm_expr *find_row(line_plan *plan, const tnm_expr *e) {
  for (uint32_t i = 0; e->n_args > 0 && i < plan->n_steps; ++i) {
    const line_step *step = &plan->steps[i];
    if (step->kind >= LINE_VALUE) continue;
    const bool chooses = step->kind == LINE_MAX || step->kind == LINE_MIN;
    if ((chooses || is_expensive(e)) && tnm_expr_equal(step->formula.expr, e))
      return name_step(plan, FORMULA_ROW, i);
  }
  return e;
}

static const tnm_expr *name_value(line_plan *plan, const tnm_expr *e) {
  if (e->n_args == 0) return e;
  return name_step(plan, FORMULA_RESULT, find_step(plan, LINE_VALUE, e));
}

/* ------------------------------------------------------------------- rewriting
 */

static const tnm_expr *rewrite_expr(line_plan *plan, const tnm_expr *e,
                                    bool hoist);

/* log(sum(exp(x))): the largest element is subtracted, unless it is infinite.
 */
static const tnm_expr *plan_logsumexp(line_plan *plan, const tnm_expr *arg) {
  const tnm_expr number = {.kind = TNM_NUMBER, .text = "0"};
  const tnm_expr *zero = copy_expr(plan, &number);
  const uint32_t most = find_step(plan, LINE_MAX, arg);
  if (zero == NULL || plan->full) return arg;
  plan->steps[most].may_lack = true;
  const tnm_expr *top = name_step(plan, FORMULA_RESULT, most);
  const tnm_expr *args[3] = {
      join_exprs(plan, 'e', join_exprs(plan, '-', top, top), zero), top, zero};
  const tnm_expr *origin =
      name_value(plan, call_function(plan, TNM_F_SELECT, args));
  args[0] = join_exprs(plan, '-', find_row(plan, arg), origin);
  const tnm_expr *power = call_function(plan, TNM_F_EXP, args);
  args[0] = name_step(plan, FORMULA_RESULT, find_step(plan, LINE_SUM, power));
  return join_exprs(plan, '+', call_function(plan, TNM_F_LOG, args), origin);
}

static const tnm_expr *plan_reduction(line_plan *plan, const tnm_expr *e,
                                      bool hoist) {
  static const int kinds[] = {LINE_SUM, LINE_MEAN, LINE_MAX, LINE_MIN};
  const tnm_expr *arg = rewrite_expr(plan, e->args[0], plan->hoist);
  if (plan->full) return arg;
  if (e->index == TNM_R_LOGSUMEXP) {
    const tnm_expr *value = plan_logsumexp(plan, arg);
    return hoist ? name_value(plan, value) : value;
  }
  return name_step(plan, FORMULA_RESULT, find_step(plan, kinds[e->index], arg));
}

/* The largest number of reductions inside of each other. */
static uint32_t count_nested(const tnm_expr *e) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < e->n_args; ++i) {
    const uint32_t own = count_nested(e->args[i]);
    if (own > most) most = own;
  }
  return most + (e->kind == TNM_REDUCE);
}

/* Rewrites the arguments of an expression. Those with the most reductions
 * inside of each other are the first, so that the others can read rows of
 * these. */
static void rewrite_args(line_plan *plan, tnm_expr *e, bool hoist) {
  uint32_t nested[sizeof e->args / sizeof *e->args], most = 0;
  for (uint32_t i = 0; i < e->n_args; ++i) {
    nested[i] = count_nested(e->args[i]);
    if (nested[i] > most) most = nested[i];
  }
  for (uint32_t now = most + 1; now-- > 0;)
    for (uint32_t i = 0; i < e->n_args; ++i)
      if (nested[i] == now) e->args[i] = rewrite_expr(plan, e->args[i], hoist);
}

/* Makes a product with the reciprocal of the divisor, if that is a value of a
 * line and the dividend is not. Only gradients have that: results of formulas
 * round as they are written. */
static tnm_expr *invert_divisor(line_plan *plan, const tnm_expr *e,
                                tnm_expr *copy) {
  const tnm_levels *levels = &plan->pass->op->axes->levels;
  if (plan->pass->pass != TN_PASS_BACKWARD || e->kind != TNM_BINARY ||
      e->op != '/' || tnm_expr_level(e->args[1], levels) != TNM_LEVEL_LINE ||
      tnm_expr_level(e->args[0], levels) == TNM_LEVEL_LINE)
    return copy;
  const tnm_expr number = {.kind = TNM_NUMBER, .text = "1", .number = 1};
  const tnm_expr *one = copy_expr(plan, &number);
  if (one == NULL) return copy;
  copy->op = '*';
  copy->args[1] = name_value(plan, join_exprs(plan, '/', one, copy->args[1]));
  return copy;
}

/* The same expression with names of steps for reductions and, with `hoist`, for
 * all values of a line. */
static const tnm_expr *rewrite_expr(line_plan *plan, const tnm_expr *e,
                                    bool hoist) {
  if (e->n_args == 0 || plan->full) return e;
  if (e->kind == TNM_REDUCE) return plan_reduction(plan, e, hoist);
  const bool is_value =
      hoist &&
      tnm_expr_level(e, &plan->pass->op->axes->levels) == TNM_LEVEL_LINE;
  tnm_expr *copy = copy_expr(plan, e);
  if (copy == NULL) return e;
  rewrite_args(plan, copy, hoist && !is_value);
  if (is_value) return name_value(plan, copy);
  return find_row(plan, hoist ? invert_divisor(plan, e, copy) : copy);
}

/* --------------------------------------------------------------------- outputs
 */

int line_out_level(const kernel_pass *pass, uint32_t out) {
  const tnm_levels *levels = &pass->op->axes->levels;
  return pass->pass == TN_PASS_BACKWARD ? levels->inputs[out]
                                        : levels->outputs[out];
}

/* Adds the outputs of a level. */
static void plan_outputs(line_plan *plan, int level) {
  const kernel_pass *pass = plan->pass;
  for (size_t i = 0; i < pass->n && !plan->full; ++i) {
    const tnm_formula *formula = &pass->formulas[i];
    if (line_out_level(pass, formula->index) != level) continue;
    const tnm_expr *e = rewrite_expr(plan, formula->expr, plan->hoist);
    line_step *step = add_step(plan, LINE_OUT, e);
    step->out = formula->index;
    step->needed = 1u << formula->index;
  }
}

/* Marks the steps that a step reads as needed by the same outputs. Steps follow
 * those that they read. */
static void mark_needed(line_plan *plan, const tnm_expr *e, uint32_t needed) {
  if (e->kind == FORMULA_RESULT || e->kind == FORMULA_ROW)
    plan->steps[e->index].needed |= needed;
  for (uint32_t i = 0; i < e->n_args; ++i)
    mark_needed(plan, e->args[i], needed);
}

/* --------------------------------------------------------------- order and
 * reads
 */

/* Reductions of a stage come before its values, outputs last. */
static uint32_t find_rank(const line_step *step) {
  if (step->kind == LINE_OUT) return UINT32_MAX;
  return 2 * step->stage + (step->kind == LINE_VALUE ? 1 : 0);
}

static void sort_steps(line_plan *plan) {
  for (uint32_t i = 0; i < plan->n_steps; ++i) {
    uint32_t at = i;
    const uint32_t rank = find_rank(&plan->steps[i]);
    for (; at > 0 && find_rank(&plan->steps[plan->order[at - 1]]) > rank; --at)
      plan->order[at] = plan->order[at - 1];
    plan->order[at] = i;
  }
  for (uint32_t i = 0; i < plan->n_steps; ++i) plan->place[plan->order[i]] = i;
}

static bool is_tensor(const tnm_expr *e) {
  return e->kind == TNM_INPUT || e->kind == TNM_OUTPUT || e->kind == TNM_GRAD;
}

static void add_operand(line_plan *plan, const tnm_expr *e) {
  for (uint32_t i = 0; i < plan->n_operands; ++i)
    if (plan->operands[i]->kind == e->kind &&
        plan->operands[i]->index == e->index)
      return;
  if (plan->n_operands == LINE_MAX_SOURCES)
    plan->full = true;
  else
    plan->operands[plan->n_operands++] = e;
}

/* Lists the reads of all steps. */
static void list_reads(line_plan *plan) {
  for (uint32_t i = 0; i < plan->n_steps && !plan->full; ++i) {
    line_step *step = &plan->steps[i];
    step->formula.index = step->out;
    if (!formula_use_list(plan->pass, &step->formula, &step->use)) {
      plan->full = true;
      return;
    }
    step->use.classes = plan->classes;
    step->use.name = step->kind == LINE_OUT
                         ? NULL
                         : pass_format(plan->pass, "R%u", (unsigned)i);
    plan->full = plan->full || step->use.n_tensors > LINE_MAX_SOURCES;
    for (size_t k = 0; k < step->use.n_tensors; ++k)
      if (is_tensor(step->use.tensors[k]))
        add_operand(plan, step->use.tensors[k]);
  }
}

bool line_step_is_plain(const line_plan *plan, const line_step *step) {
  const tnm_expr *e = step->formula.expr;
  const bool is_summed =
      step->kind < LINE_VALUE ||
      (step->kind == LINE_OUT &&
       line_out_level(plan->pass, step->out) == TNM_LEVEL_PLACE);
  return is_summed && is_tensor(e) &&
         line_plan_level(plan, e) == TNM_LEVEL_FULL;
}

int line_plan_level(const line_plan *plan, const tnm_expr *leaf) {
  if (leaf->kind == FORMULA_ROW) return TNM_LEVEL_FULL;
  if (leaf->kind == FORMULA_RESULT) return TNM_LEVEL_LINE;
  return tnm_expr_level(leaf, &plan->pass->op->axes->levels);
}

bool line_step_is_value(const line_plan *plan, const line_step *step) {
  return step->kind == LINE_VALUE ||
         (step->kind == LINE_OUT &&
          line_out_level(plan->pass, step->out) == TNM_LEVEL_LINE);
}

uint32_t line_find_operand(const line_plan *plan, const tnm_expr *tensor) {
  uint32_t i = 0;
  while (plan->operands[i]->kind != tensor->kind ||
         plan->operands[i]->index != tensor->index)
    ++i;
  return i;
}

/* ---------------------------------------------------------------- joined loops
 */

static void mark_rows(line_plan *plan, const tnm_expr *e) {
  if (e->kind == FORMULA_ROW) plan->steps[e->index].keeps_row = true;
  for (uint32_t i = 0; i < e->n_args; ++i) mark_rows(plan, e->args[i]);
}

/* Adds a loop for several steps. If some calls need a part of them only, loops
 * for those that are always needed together follow. */
static void join_steps(line_plan *plan, uint64_t steps) {
  uint64_t left = steps;
  if (steps == 0) return;
  plan->joined[plan->n_joined++] = steps;
  while (left != 0) {
    uint64_t same = 0;
    uint32_t needed = 0;
    for (uint32_t k = 0; k < plan->n_steps; ++k) {
      if (!line_has_step(left, k)) continue;
      if (same == 0) needed = plan->steps[k].needed;
      if (plan->steps[k].needed == needed) same |= 1ull << k;
    }
    if (same == steps) return;
    plan->joined[plan->n_joined++] = same;
    left &= ~same;
  }
}

/* The outputs with one element for each of the loop, or for each place. */
static uint64_t list_outputs(const line_plan *plan, int level) {
  uint64_t outputs = 0;
  for (uint32_t k = 0; k < plan->n_steps; ++k)
    if (plan->steps[k].kind == LINE_OUT &&
        line_out_level(plan->pass, plan->steps[k].out) == level)
      outputs |= 1ull << k;
  return outputs;
}

/* Makes a loop of the reductions of each stage, one of the sums over lines, and
 * one of the outputs of the loop. The last two are apart: a loop that reads and
 * writes sums of all lines beside their rows waits for stores at addresses with
 * the same last bits. */
static void plan_joined(line_plan *plan) {
  uint32_t last = 0;
  for (uint32_t k = 0; k < plan->n_steps; ++k) {
    mark_rows(plan, plan->steps[k].formula.expr);
    if (plan->steps[k].stage > last) last = plan->steps[k].stage;
  }
  for (uint32_t stage = 1; stage <= last; ++stage) {
    uint64_t steps = 0;
    for (uint32_t k = 0; k < plan->n_steps; ++k)
      if (plan->steps[k].kind < LINE_VALUE && plan->steps[k].stage == stage)
        steps |= 1ull << k;
    join_steps(plan, steps);
  }
  join_steps(plan, list_outputs(plan, TNM_LEVEL_PLACE));
  join_steps(plan, list_outputs(plan, TNM_LEVEL_FULL));
}

/* Plans all steps; with `hoist`, values of lines are steps. */
static void plan_steps(line_plan *plan, const kernel_pass *pass, int classes,
                       bool hoist) {
  memset(plan, 0, sizeof *plan);
  plan->pass = pass;
  plan->classes = classes;
  plan->hoist = hoist;
  plan_outputs(plan, TNM_LEVEL_LINE);
  plan_outputs(plan, TNM_LEVEL_PLACE);
  plan_outputs(plan, TNM_LEVEL_FULL);
  for (uint32_t i = plan->n_steps; i-- > 0;)
    mark_needed(plan, plan->steps[i].formula.expr, plan->steps[i].needed);
  sort_steps(plan);
  list_reads(plan);
  plan_joined(plan);
}

bool line_plan_init(line_plan *plan, const kernel_pass *pass) {
  formula_use all;
  if (!formula_use_all(pass, &all)) return false;
  plan_steps(plan, pass, all.classes, true);
  if (plan->full) plan_steps(plan, pass, all.classes, false);
  if (plan->full) pass->c->failed = true;
  return !plan->full;
}
