/* SPDX-License-Identifier: Apache-2.0
 * line_plan.h: the formulas of a pass with reductions as a list of steps
 * (tenon/kernel/lines.h).
 */
#ifndef OPGEN_LINE_PLAN_H_
#define OPGEN_LINE_PLAN_H_

#include "emit_kernel.h"

enum {
  LINE_MAX_STEPS = 48, /* TN_LINES_MAX_STEPS */
  LINE_MAX_SOURCES = 15,
  LINE_MAX_JOINED = 2 * LINE_MAX_STEPS
};

/* Kinds of steps, in the order of tenon/kernel/lines.h. */
enum { LINE_SUM, LINE_MEAN, LINE_MAX, LINE_MIN, LINE_VALUE, LINE_OUT };

/* One step. Its formula reads operands, rows and results of other steps
 * (FORMULA_ROW, FORMULA_RESULT; `index` is the step) and the count
 * (TNM_COUNT). */
typedef struct line_step {
  int kind;
  uint32_t stage;
  bool may_lack;   /* a largest element that may have no elements */
  uint32_t out;    /* of LINE_OUT: index of the output or gradient */
  uint32_t needed; /* bit o: output o needs it */
  bool keeps_row;  /* other steps read the row of this reduction */
  tnm_formula formula;
  formula_use use; /* the reads of the formula */
} line_step;

typedef struct line_plan {
  const kernel_pass *pass;
  line_step steps[LINE_MAX_STEPS];
  uint32_t n_steps;
  uint32_t order[LINE_MAX_STEPS]; /* the steps in the order of their work */
  uint32_t place[LINE_MAX_STEPS]; /* their places in this order */
  const tnm_expr *operands[LINE_MAX_SOURCES]; /* of all steps */
  uint32_t n_operands;
  uint64_t joined[LINE_MAX_JOINED]; /* loops over rows; bit i: step i */
  uint32_t n_joined;
  bool hoist;  /* values of a line are steps */
  int classes; /* the set of TNM_CLASS_* that calls compute in */
  bool full;   /* the steps exceed a limit */
} line_plan;

/* Plans a pass. False if memory ran out or no limit could be kept; the pass's
 * file remembers that. */
bool line_plan_init(line_plan *plan, const kernel_pass *pass);

/* Whether a joined loop has a step. */
static inline bool line_has_step(uint64_t joined, uint32_t step) {
  return (joined >> step & 1) != 0;
}

/* Whether a step adds a tensor as it is, along a line or over the lines, and
 * needs no function. */
bool line_step_is_plain(const line_plan *plan, const line_step *step);
/* The level (TNM_LEVEL_*) of a tensor, row or result. */
int line_plan_level(const line_plan *plan, const tnm_expr *leaf);
/* The level of an output of the pass. */
int line_out_level(const kernel_pass *pass, uint32_t out);
/* Whether a step is a value of a line, or an output with one element for each
 * line. */
bool line_step_is_value(const line_plan *plan, const line_step *step);
/* The number of a tensor in plan->operands. */
uint32_t line_find_operand(const line_plan *plan, const tnm_expr *tensor);

/* ------------------------------------------------------------------ lines.c */

/* A new plan in the pass's arena; NULL if there is none. */
line_plan *line_make_plan(const kernel_pass *pass);
/* Writes "rms_norm.yaml: out = ..." for each output. */
void line_add_comments(const kernel_pass *pass);
/* Calls `add` for each step and each class, except for steps without a
 * function. */
void line_each_step(const line_plan *plan,
                    void (*add)(const line_plan *plan, const line_step *step,
                                int class_bit));
/* The source of a step in the table: the number of an operand,
 * "TN_LINES_ROW_OF + 0", "TN_LINES_RESULT + 0" or "TN_LINES_COUNT". */
const char *line_write_source(const line_plan *plan, const tnm_expr *source);
/* "TN_LINES_FULL" */
const char *line_level_name(int level);
/* The number of outputs of a call: backward the gradients of all inputs. */
uint32_t line_count_outputs(const kernel_pass *pass);
/* "{TN_LINES_FULL, TN_LINES_LINE}": of the operands, and of the outputs. */
const char *line_write_levels(const line_plan *plan);
const char *line_write_out_levels(const kernel_pass *pass);
/* Writes the statements that make `axes` of the parameters of a call. */
void line_add_axes(const kernel_pass *pass);

/* -------------------------------------------------------------- line_rows.c */

/* Write the joined loops of a plan, and their table. */
void line_add_joined_loops(const line_plan *plan);
void line_add_joined_table(const line_plan *plan);
/* Whether a joined loop calls the wide form of a step's function. */
bool line_step_is_wide(const line_plan *plan, const line_step *step,
                       int class_bit);

#endif /* OPGEN_LINE_PLAN_H_ */
